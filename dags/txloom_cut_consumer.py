"""An example of a reader of published tables: it starts once for each cut and reads exactly that cut.

**What it does.** `publish` updates the asset `txloom://<pipeline>/cuts`; its event carries the cut's number, its
valid-through, when the source committed that, and the Delta version of each table (all keys: docs/reading.md). This
DAG starts on it and counts the rows of every table at these versions: together they show one moment of the source,
however far the pipeline has gone on meanwhile.

**To adapt it** copy the file, name one pipeline, and replace `count_rows` by your work. Where Spark reads, give it
`versionAsOf`. It is paused until somebody switches it on.

**When it is red** the versions of the cut may be gone: a vacuum keeps files that the newest cut needs, files that are
younger than `maintenance.vacuum.retain`, and files that a reader holds (`read.held`). The next cut starts it again.
"""

from typing import Any

from airflow.sdk import DAG, task

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration.jobs import cuts_asset
from txloom.orchestration.pipelines import declared

RETRIES = 1
"""A read that was interrupted is tried once more; versions that are gone do not come back."""


def consumer(pipeline: Pipeline) -> DAG:
    """Build the DAG that reads each cut of a pipeline."""
    asset = cuts_asset(pipeline)

    @task(owner=pipeline.owner, retries=RETRIES)
    def count_rows(triggering_asset_events: Any = None) -> dict[str, Any]:
        """Count the rows of each table of the newest cut among those that started this run."""
        from txloom import read

        events = [event for of_asset in triggering_asset_events.values() for event in of_asset]
        newest = max((event.extra for event in events), key=lambda extra: int(extra["cut_id"]))
        name = str(pipeline.name)
        with read.held(name, reader=names.consumer_dag_id(name), cut_id=int(newest["cut_id"])) as cut:
            rows = {
                table: read.at_version(name, table, version, cut=cut).num_rows
                for table, version in cut.versions.items()
            }
        print(f"cut {newest['cut_id']}, valid through {newest['valid_through']}: {rows}", flush=True)
        return {"cut_id": newest["cut_id"], "valid_through": newest["valid_through"], "rows": rows}

    with DAG(
        dag_id=names.consumer_dag_id(pipeline.name),
        schedule=[asset],
        catchup=False,
        max_active_runs=1,
        tags=["txloom", pipeline.name, "example"],
        description=f"{pipeline.name}: an example that reads each published cut",
        doc_md=__doc__,
    ) as dag:
        count_rows()
    return dag


for declaration in declared():
    globals()[names.consumer_dag_id(declaration.name)] = consumer(declaration)
