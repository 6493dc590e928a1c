"""How a landing spelled names of its source holds for all later ones, and for redrives."""

import json
from pathlib import Path

from buffered import no_spark
from called import step_of
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.events.source_names import OTHER_CASE
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.landing.land_events import land_events
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

DECLARED = """
name: shop
source: {{format: change_events, files: {{path: {inbox}}}}}
completeness: {{rule: single}}
tables:
  - {{name: notes, source: public.notes, key: none, columns: {{note: string}}}}
targets: {{mirrors: ["*"]}}
"""


def send(pipeline: Pipeline, number: int, table: str) -> None:
    content = {"changeType": "insert", "timestamp": number, "table": table}
    file = Path(pipeline.source.files.path) / "rows" / f"{number}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**content, "columnNames": ["note"], "columnValues": ["a"]}) + "\n")


def test_rows_of_a_second_spelling_are_dead_letters_in_every_later_landing(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(DECLARED.format(inbox=tmp_path / "inbox"))
    pipeline, paths = load(file), TablePaths(str(tmp_path), "shop")
    step = step_of(pipeline, tmp_path, "r", no_spark)
    for number, name in enumerate(("PUBLIC.notes", "public.notes", "PUBLIC.notes"), 1):
        send(pipeline, number, name)
        land_events(step)
    sql = "select landing, cause, source_table from t where kind in ('row', 'poison') order by landing"
    dead = [(row["landing"], row["cause"], row["source_table"]) for row in small_tables.query(paths.change_events, sql)]
    assert dead == [(1, None, "PUBLIC.notes"), (2, OTHER_CASE, None), (3, None, "PUBLIC.notes")]
    names = small_tables.query(paths.table("source_names"), "select name, spelling, landing from t")
    assert names == [{"name": "notes PUBLIC.NOTES", "spelling": "PUBLIC.notes", "landing": 1}]
    redrive(step, Selection(everything=True))
    (again,) = small_tables.query(
        paths.change_events, "select cause, detail from t where landing = 4 and kind = 'poison'"
    )
    assert again == {"cause": OTHER_CASE, "detail": "public.notes: notes has the rows of PUBLIC.notes"}
