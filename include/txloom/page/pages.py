"""The pages: each reads the read model in one read session, and renders one template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.config.models.durations import parse_duration, show_duration
from txloom.config.models.pipeline import Pipeline
from txloom.page import requests
from txloom.page.chart import chart
from txloom.page.links import KEY, Links
from txloom.page.rendering import render
from txloom.page.row_links import keyed_tables, of_finding, of_incident
from txloom.page.since import BACK, Since, shown_by
from txloom.page.turns import Turn, running
from txloom.page.turns import waiting as waits
from txloom.quality import incidents as kinds
from txloom.storage.checks import results
from txloom.storage.delta.read_session import reading
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import LARGEST
from txloom.storage.views.pipeline import audits, histories, lag_series, problems, runs
from txloom.storage.views.pipeline import cuts as published
from txloom.storage.views.pipeline import dead_letters as dead
from txloom.storage.views.pipeline import overview as pipelines_overview
from txloom.storage.views.pipeline import waiting as stuck
from txloom.storage.views.pipeline.changes import CUTS, OVER, RUN, Change, Changes, changes
from txloom.storage.views.pipeline.overview import Health, Reason
from txloom.storage.views.stories import transaction
from txloom.storage.views.stories.row import key_story

FEW, SIZE = 10, 100
"""Rows of a panel on a pipeline's first page, and of a page of a list."""
PANELS = {
    kinds.OLD: "waiting",
    kinds.STUCK: "waiting",
    kinds.DEAD: "letters",
    kinds.EXPECTATION: "expectations",
    kinds.FINDING: "findings",
    kinds.UNBALANCED: "runs",
    kinds.BROKEN: "runs",
    kinds.QUIET: "runs",
    kinds.TASK: "incidents",
}
"""The page that shows the rows of each kind of incident."""
PARTS = {
    "": "Now",
    "expectations": "Expectations",
    "waiting": "Waiting",
    "letters": "Dead letters",
    "findings": "Findings",
    "incidents": "Incidents",
    "runs": "Runs",
    "cuts": "Cuts",
    "audit": "Audit",
    "transaction": "Transaction",
    "key": "Row",
}
"""The pages of a pipeline, in the order in which a person on call needs them."""


@dataclass(frozen=True)
class View:
    """The pipeline that a page shows, and the time as of which it is rendered."""

    pipeline: Pipeline
    warehouse: str
    links: Links
    now: datetime
    refused: str | None = None
    """Why its declaration is refused; `pipeline` is then a stand-in that has only its name."""

    @classmethod
    def of(cls, pipeline: Pipeline, warehouse: str, links: Links, refused: str | None = None) -> "View":
        """Return a view as of now."""
        return cls(pipeline, warehouse, links, datetime.now(UTC), refused)

    def health(self) -> Health:
        """Return the health of the pipeline."""
        if self.refused is not None:
            return pipelines_overview.refused_health(self.pipeline.name, self.refused, self.warehouse, now=self.now)
        return pipelines_overview.health(*self.whose, now=self.now)

    @property
    def whose(self) -> tuple[Pipeline, str]:
        """Return pipeline and warehouse, the first two arguments of every function of the read model."""
        return self.pipeline, self.warehouse

    @property
    def parts(self) -> dict[str, str]:
        """Return the pages that exist; expectations and rows by key need a declaration that is not refused."""
        return {name: title for name, title in PARTS.items() if not self.refused or name not in ("expectations", "key")}

    @property
    def dag_ids(self) -> set[str]:
        """Return the ids of the pipeline's DAGs."""
        return names.dag_ids(self.pipeline.name)

    def address_of(self, change: Change) -> str:
        """Return the address of what shows the rows of a change."""
        if change.kind == RUN:
            return self.links.airflow(f"dags/{change.subject}/runs?state=failed")
        part, query = shown_by(change)
        return self.links.of(self.pipeline.name, part, **query)

    def render(self, part: str, **values: Any) -> str:
        """Render the template of a part."""
        page_values = {"pipeline": self.pipeline, "parts": self.parts, "part": part, "title": PARTS[part]}
        page_values |= {"rows_of_finding": of_finding, "rows_of_incident": of_incident}
        page_values["keyed"] = keyed_tables(self.pipeline)
        page_values["refused"] = self.refused is not None
        page_values["redrive"] = self.links.airflow(f"dags/{names.dead_letters_dag_id(self.pipeline.name)}")
        return render(f"{part or 'now'}.html", self.links, self.now, **page_values, **values)


def overview(
    pipelines: Sequence[Pipeline],
    warehouse: str,
    links: Links,
    *,
    refused: Mapping[str, str],
    color: str | None = None,
    since: Since | None = None,
) -> str:
    """Return the page of all pipelines; color: only those of this color; since: also show what changed."""
    at = None if since is None else since.at
    shown = pipelines_overview.overview(pipelines, warehouse, refused=refused, since=at)
    rows = [row for row in shown.rows if color in (None, row.color)]
    news: dict[str, Changes] = {}
    if since is not None:
        news = {name: since.with_runs(each, names.dag_ids(name)) for name, each in shown.changes.items()}
    values = {"pipelines": shown, "rows": rows, "reasons": {row.pipeline: _urgent(row.reasons) for row in rows}}
    values |= {"color": color, "colors": pipelines_overview.COLORS, "query": {"color": color}, **_since(since)}
    return render("overview.html", links, shown.as_of, news=news, total=_total(news), dag_id=None, **values)


def _since(since: Since | None) -> dict[str, Any]:
    return {"since_when": since, "back": BACK}


def _total(news: Mapping[str, Changes]) -> dict[str, int]:
    """Return how many pipelines have something to act on, how many things are over, and how many cuts there are."""
    every = [row for each in news.values() for row in each.rows]
    return {
        "act": sum(bool(each.to_act_on) for each in news.values()),
        "over": sum(row.urgency == OVER for row in every),
        "cuts": sum(row.count for row in every if row.kind == CUTS),
    }


def _urgent(reasons: Sequence[Reason]) -> list[Reason]:
    """Return reasons, errors first; within either kind a refused declaration first, then failed expectations."""
    first = {pipelines_overview.REFUSED: 0, kinds.EXPECTATION: 1}
    return sorted(reasons, key=lambda each: (each.severity != "error", first.get(each.kind, len(first))))


def now(view: View, *, span: str, turns: Sequence[Turn] = (), since: Since | None = None) -> str:
    """Return the first page of a pipeline: what is red, since when, which rows, what to do.

    span: the time that its charts cover. turns: its tasks that have the slot of its pool or wait for it, in the order
    in which they get it.
    """
    with reading():
        health = view.health()
        readable = not any(each.kind == pipelines_overview.UNREADABLE for each in health.reasons)
        panels = _panels(view, span) if readable else {}
        news = None if since is None else Changes(since.at, ())
        if since is not None and readable:
            news = changes(*view.whose, since=since.at, now=view.now)
    if since is not None and news is not None:
        news = since.with_runs(news, view.dag_ids)
    reasons = _urgent(health.reasons)
    values = {
        "health": health,
        "reasons": reasons,
        "since": min((each.since for each in reasons if each.since is not None), default=None),
        "news": news,
        "address_of": view.address_of,
        "query": {"span": span},
        **_since(since),
        "readable": readable,
        "span": span,
        "spans": requests.SPANS,
        "running": running(turns),
        "waits": waits(turns),
    }
    parts = {each: PANELS.get(each.kind) for each in health.reasons}
    rows = {each: of_incident(each.kind, each.subject, panels.get("open_findings", ())) for each in health.reasons}
    return view.render("", panel_of=parts, rows_of=rows, patience=_patience(view.pipeline), **values, **panels)


def _patience(pipeline: Pipeline) -> str | None:
    patience = getattr(pipeline.completeness, "patience", None)
    return None if patience is None else show_duration(patience)


def _panels(view: View, span: str) -> dict[str, Any]:
    lag = lag_series.series(*view.whose, span=parse_duration(span), now=view.now)
    return {
        "expectations": problems.expectations(*view.whose),
        "waiting": stuck.waiting(*view.whose, size=FEW),
        "letters": dead.causes(*view.whose),
        "findings": problems.open_findings(*view.whose, size=FEW),
        "open_findings": problems.open_findings(*view.whose, size=LARGEST).rows,
        "incidents": problems.incidents(*view.whose, size=5),
        "runs": runs.runs(*view.whose, size=5),
        "cuts": published.cuts(*view.whose, size=1),
        "series": lag,
        "chart": chart(lag),
        "tables": requests.tables_with_keys(view.pipeline),
    }


def expectations(view: View, *, page: int) -> str:
    """Return the page of all expectations, failed ones first, with the rows that fail."""
    listing = problems.expectations(*view.whose, number=page, size=SIZE)
    docs = results.data_docs(TablePaths(view.warehouse, view.pipeline.name))[:FEW]
    return view.render("expectations", page=listing, data_docs=docs)


def data_docs(view: View, run: str, page: str) -> str | None:
    """Return one of Great Expectations' pages as it was written beside the tables; None: there is none of this name."""
    return results.data_docs_page(TablePaths(view.warehouse, view.pipeline.name), run, page)


def waiting(view: View, *, page: int, cause: str | None, longer: str | None) -> str:
    """Return the page of transactions that wait for missing parts."""
    asking = {"cause": requests.sane("cause", cause), "longer": requests.sane("longer", longer)}
    since = requests.longer_than(longer)
    listing = stuck.waiting(*view.whose, number=page, size=SIZE, cause=asking["cause"], longer=since)
    return view.render("waiting", waiting=listing, page=listing.page, asking=asking)


def letters(view: View, *, page: int, cause: str | None, transaction: str | None) -> str:
    """Return the page of open dead letters: by cause, and one by one."""
    cause_text, whose = requests.sane("cause", cause), requests.sane("transaction", transaction)
    with reading():
        causes = dead.causes(*view.whose)
        listing = dead.dead_letters(*view.whose, number=page, size=SIZE, cause=cause_text, transaction=whose)
    return view.render("letters", letters=causes, page=listing, asking={"cause": cause_text, "transaction": whose})


def findings(view: View, *, page: int) -> str:
    """Return the page of open findings on the source and its producer."""
    with reading():
        listing = problems.open_findings(*view.whose, number=page, size=SIZE)
        requested = problems.snapshot_requests(*view.whose)
    dag = names.snapshot_dag_id(view.pipeline.name) if view.pipeline.source.signals is not None else None
    connector = {"name": dag, "address": view.links.airflow(f"dags/{dag}")} if dag else None
    load = names.load_dag_id(view.pipeline.name)
    loader = {"name": load, "address": view.links.airflow(f"dags/{load}")}
    return view.render("findings", page=listing, requests=requested, connector=connector, loader=loader)


def incidents(view: View, *, page: int) -> str:
    """Return the page of incidents that people got messages about."""
    with reading():
        listing = problems.incidents(*view.whose, number=page, size=SIZE)
        open_rows = problems.open_findings(*view.whose, size=LARGEST).rows
    return view.render("incidents", page=listing, open_findings=open_rows)


def ledger(view: View, *, page: int) -> str:
    """Return the page of runs, backfills, rebuilds after edits, and the positions of partitions."""
    with reading():
        listing = runs.runs(*view.whose, number=page, size=SIZE // 4)
        values = {"backfills": runs.backfills(*view.whose), "edits": runs.edits(*view.whose)}
        values |= {"partitions": runs.partitions(*view.whose)}
    return view.render("runs", page=listing, **values)


def audit(view: View, *, page: int) -> str:
    """Return the page of what the newest audits found in each table."""
    listing = audits.audits(*view.whose, number=page, size=SIZE)
    name = view.pipeline.name
    dags = {"dag": names.audit_dag_id(name), "load": names.load_dag_id(name), "repair": names.repair_dag_id(name)}
    dags |= {"backfill": names.backfill_dag_id(name)}
    addresses = {each: view.links.airflow(f"dags/{dag}") for each, dag in dags.items()}
    return view.render("audit", page=listing, declared=view.pipeline.audit is not None, **addresses)


def cuts(view: View, *, page: int) -> str:
    """Return the page of published cuts with the version of each table, and of the readers that hold them."""
    with reading():
        listing = published.cuts(*view.whose, number=page, size=SIZE // 4)
        lists = {"holds": published.holds(*view.whose), "histories": histories.histories(*view.whose)}
    return view.render("cuts", page=listing, **lists)


def transaction_story(view: View, *, page: int, any_: str | None, **named: str | None) -> str:
    """Return the page of a transaction.

    any_: an xid, a csn or an id; each is tried in this order. named: xid, csn or transaction, which say what they are.
    """
    query: dict[str, Any] = {
        "xid": requests.sane("xid", named.get("xid")),
        "csn": requests.csn_of(named.get("csn")),
        "transaction_id": requests.sane("transaction", named.get("transaction")),
    }
    query = {name: each for name, each in query.items() if each is not None}
    text = requests.sane("id", any_)
    tries = [query] if query else requests.transaction_names(text) if text else []
    story, used = None, query
    with reading():
        for used in tries:
            story = transaction.transaction(*view.whose, transaction.TransactionName(**used), number=page, size=SIZE)
            if story.total:
                break
    shown = text or next((str(each) for each in query.values()), "")
    return view.render("transaction", answer=story, query_shown=shown, used=_addressed(used))


def _addressed(used: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removesuffix("_id"): each for name, each in used.items()}


def key(view: View, *, page: int, table: str | None, value: str | None, query: Mapping[str, str]) -> str:
    """Return the page of a row or document: every change, with before and after."""
    requested = requests.row_query(view.pipeline, table, value, query)
    story = None
    if requested.key is not None and requested.table is not None:
        story = key_story(*view.whose, requested.table, requested.key, number=page, size=SIZE // 2)
    key_fields = {f"{KEY}{name}": text for name, text in (requested.key or {}).items()}
    return view.render("key", want=requested, story=story, key_query={"table": requested.table, **key_fields})


def notice(links: Links, title: str, sentence: str, *, log_in: str | None = None) -> str:
    """Return a page that says why the requested one is not shown; log_in: the address of the login."""
    return render("notice.html", links, datetime.now(UTC), title=title, sentence=sentence, log_in=log_in)
