"""txloom in Airflow: the page for people on call, and a pipeline's state as JSON at `/txloom/status/<dag_id>`.

Each route declares who may see it: a pipeline's pages need the right to read its cdc DAG, the overview lists the
pipelines whose DAG the user may read. `txloom.page` renders; tables are read through `deltalake`, the API server never
starts Spark. Routes are plain functions, so that they run in threads and never block the server.
"""

import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException as Refused

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.config.stand_in import stand_in
from txloom.errors import ConfigurationError
from txloom.orchestration import connections
from txloom.page import last_look, pages, rendering
from txloom.page.declaration_cache import declarations
from txloom.page.links import PREFIX, Links, with_query
from txloom.page.since import EndedRuns, Since
from txloom.page.turns import STATES, Turn
from txloom.storage.health.metrics import exposition
from txloom.storage.views.pipeline.changes import moment_of
from txloom.storage.views.pipeline.overview import COLORS
from txloom.storage.views.status import status

app = FastAPI(title="txloom", docs_url=None, redoc_url=None, openapi_url=None)
READS = Depends(requires_access_dag(method="GET"))
"""Requires the right to read the DAG in the path: 401 for a user who is not logged in, 403 for others without it."""
DagId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,250}$")]
Number = Annotated[int, Query(alias="page", ge=1, le=1_000_000)]
Text = Annotated[str | None, Query(max_length=1_000)]
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:+~-]{0,199}$")]
"""The name of a folder or file below the reports' folder, as `storage.paths.run_folder` makes it."""


def readable_dags(user: GetUserDep) -> set[str]:
    """Return the ids of the DAGs that the user may read, as in Airflow's list of DAGs."""
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


def refusals(user: GetUserDep) -> dict[str, str]:
    """Return the errors of refused declarations by name.

    Only for users who may see Airflow's import errors, and of DAGs that they may read.
    """
    manager, refused = get_auth_manager(), declarations().refused
    if not manager.is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user):
        return {}
    would_be = {names.cdc_dag_id(name): name for name in refused}
    readable = manager.filter_authorized_dag_ids(dag_ids=set(would_be), user=user, method="GET")
    return {name: refused[name] for dag_id, name in would_be.items() if dag_id in readable}


def warehouse() -> str:
    """Return the URI of the warehouse; raises HTTPException 404 where it is not set."""
    if path := os.environ.get("TXLOOM_WAREHOUSE"):
        connections.reach_lake()
        return path
    raise HTTPException(404, "TXLOOM_WAREHOUSE is not set where the API server runs: there are no tables to look at.")


def links(request: Request) -> Links:
    """Return the addresses below the root path of this request."""
    return Links(str(request.scope.get("root_path", "")).removesuffix(PREFIX))


Lake = Annotated[str, Depends(warehouse)]
There = Annotated[Links, Depends(links)]


def declared(dag_id: str) -> Pipeline:
    """Return the pipeline of a cdc DAG, or its stand-in where the declaration is refused.

    Raises HTTPException 404 for any other DAG.
    """
    pipeline = declarations().pipelines.get(dag_id) or stand_ins().get(dag_id)
    if pipeline is None:
        raise HTTPException(404, f"{dag_id} is no cdc DAG of a declared pipeline.")
    return pipeline


def stand_ins() -> dict[str, Pipeline]:
    """Return the stand-in of each refused declaration by the id of its cdc DAG."""
    made = [stand_in(name) for name in declarations().refused]
    return {names.cdc_dag_id(each.name): each for each in made if each is not None}


def view(dag_id: DagId, lake: Lake, at: There, refused: Annotated[dict[str, str], Depends(refusals)]) -> pages.View:
    """Return the view of a pipeline; why its declaration is refused is only for users who may see import errors."""
    pipeline = declared(dag_id)
    is_refused = dag_id not in declarations().pipelines
    return pages.View.of(pipeline, lake, at, refused.get(pipeline.name, NOT_GIVEN) if is_refused else None)


NOT_GIVEN = "Its declaration is wrong; who may see Airflow's import errors can see where."


Whose = Annotated[pages.View, Depends(view)]


def compared(request: Request, since: Text = None) -> Since:
    """Return since when changes are shown: as the address says, else since the last look by the browser's cookie."""
    now = datetime.now(UTC)
    if since is not None and since.strip():
        return Since(moment_of(since.strip(), now), since.strip())
    look = last_look.look(request.cookies.get(last_look.COOKIE), now)
    return Since(look.since, is_first=look.is_first)


Compared = Annotated[Since, Depends(compared)]


@app.middleware("http")
async def remember_look(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """Let the browser keep when a page was last opened; nothing of it is kept here."""
    response = await proceed(request)
    is_page = response.status_code == 200 and response.headers.get("content-type", "").startswith("text/html")
    if is_page and last_look.COOKIE not in response.headers.get("set-cookie", ""):
        _keep(response, request, last_look.look(request.cookies.get(last_look.COOKIE), datetime.now(UTC)))
    return response


def _keep(response: Response, request: Request, look: last_look.Look) -> None:
    response.set_cookie(
        last_look.COOKIE,
        look.to_cookie(),
        max_age=int(last_look.LONGEST.total_seconds()),
        path=links(request).home,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


@app.post("/seen")
def seen(request: Request, at: There, _: Annotated[set[str], Depends(readable_dags)], dag_id: Text = None) -> Response:
    """Let the browser keep that everything up to now was seen, and lead back to the page."""
    known = dag_id is not None and (dag_id in declarations().pipelines or dag_id in stand_ins())
    back = at.of(declared(dag_id).name) if known and dag_id is not None else at.home
    response = RedirectResponse(back, 303, headers={"Cache-Control": "no-store"})
    _keep(response, request, last_look.marked(datetime.now(UTC)))
    return response


@app.get("/status/{dag_id}", dependencies=[READS])
def pipeline_status(dag_id: str, lake: Lake) -> dict[str, Any]:
    """Return the state of the pipeline of a cdc DAG."""
    return status(lake, declared(dag_id).name)


@app.get("/metrics")
def metrics(readable: Annotated[set[str], Depends(readable_dags)], lake: Lake, session: SessionDep) -> Response:
    """Return the state of all pipelines whose DAG the user may read, in Prometheus' text format."""
    shown = [each for dag_id, each in declarations().pipelines.items() if dag_id in readable]
    return Response(exposition(shown, lake, durations(session, shown)), media_type=PROMETHEUS)


PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def durations(session: Session, pipelines: Sequence[Pipeline]) -> dict[str, dict[str, float]]:
    """Return by pipeline and task of its cycle the seconds that it took when it last succeeded."""
    task, dags = TaskInstance, {names.cdc_dag_id(each.name): each.name for each in pipelines}
    ended = (task.dag_id.in_(dags), task.state == "success", task.duration.is_not(None))
    newest = select(task.dag_id, task.task_id, func.max(task.end_date).label("at")).where(*ended)
    last = newest.group_by(task.dag_id, task.task_id).subquery()
    same = (task.dag_id == last.c.dag_id, task.task_id == last.c.task_id, task.end_date == last.c.at)
    took: dict[str, dict[str, float]] = {}
    for row in session.execute(select(task.dag_id, task.task_id, task.duration).join(last, and_(*same)).where(*ended)):
        took.setdefault(dags[row.dag_id], {})[row.task_id] = round(row.duration, 3)
    return took


@app.get("/static/{name}")
def static(name: str) -> Response:
    """Return the style sheet or the script, to everybody: they hold nothing about any pipeline."""
    try:
        content = rendering.static(name)
    except KeyError:
        raise HTTPException(404, "There is no such file.") from None
    kept = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=rendering.STATIC[name], headers=kept)


def compared_with_runs(
    session: SessionDep, readable: Annotated[set[str], Depends(readable_dags)], since: Compared
) -> Since:
    """Return since when changes are shown, with the failed runs of all DAGs that the user may read."""
    return replace(since, runs=failed_runs(session, readable, since.at))


@app.get("/")
def overview(
    readable: Annotated[set[str], Depends(readable_dags)],
    refused: Annotated[dict[str, str], Depends(refusals)],
    lake: Lake,
    at: There,
    since: Annotated[Since, Depends(compared_with_runs)],
    color: Text = None,
) -> HTMLResponse:
    """Show the health of all pipelines whose DAG the user may read, and what changed."""
    shown = [each for dag_id, each in declarations().pipelines.items() if dag_id in readable]
    chosen = color if color in COLORS else None
    return _page(pages.overview(shown, lake, at, refused=refused, color=chosen, since=since))


@app.get("/dags/{dag_id}/tab", dependencies=[READS])
def tab(dag_id: DagId, at: There) -> Response:
    """Redirect from any DAG of a pipeline to the pipeline's page, which requires the right to read its cdc DAG."""
    every = [*declarations().pipelines.values(), *stand_ins().values()]
    pipeline = next((each for each in every if dag_id in names.dag_ids(each.name)), None)
    if pipeline is None:
        raise HTTPException(404, f"{dag_id} belongs to no txloom pipeline.")
    return RedirectResponse(at.of(pipeline.name), 303, headers={"Cache-Control": "no-store"})


@app.get("/dags/{dag_id}", dependencies=[READS])
def now(
    whose: Whose,
    session: SessionDep,
    since: Compared,
    span: Annotated[str, Query(pattern=r"^(6h|1d|7d|30d)$")] = "1d",
) -> HTMLResponse:
    """Show the health of a pipeline, and what changed."""
    compared_with = replace(since, runs=failed_runs(session, whose.dag_ids, since.at))
    return _page(pages.now(whose, span=span, turns=turns(session, whose.pipeline.name), since=compared_with))


def failed_runs(session: Session, dag_ids: Collection[str], since: datetime) -> list[EndedRuns]:
    """Return the runs of DAGs that failed since a moment; runs that began LONG_RUN before it are not looked at."""
    run = DagRun
    ended = (run.run_after > since - LONG_RUN, run.end_date > since, run.state.in_(("failed", "success")))
    columns = (run.dag_id, run.state, func.count().label("number"), func.max(run.end_date).label("newest"))
    of_dags = select(*columns).where(run.dag_id.in_(dag_ids), *ended).group_by(run.dag_id, run.state)
    by_dag: dict[str, dict[str, Any]] = {}
    for each in session.execute(of_dags):
        by_dag.setdefault(each.dag_id, {})[str(each.state)] = each
    return [
        EndedRuns(dag_id, of["failed"].number, of["failed"].newest, of["success"].newest if "success" in of else None)
        for dag_id, of in sorted(by_dag.items())
        if "failed" in of
    ]


LONG_RUN = timedelta(days=1)


def turns(session: Session, pipeline: str) -> list[Turn]:
    """Return a pipeline's tasks that have its pool's slot or wait for it, in the order in which they get it."""
    task = TaskInstance
    columns = (task.dag_id, task.task_id, task.run_id, task.state, task.start_date, task.scheduled_dttm)
    of_pool = select(*columns).where(task.pool == names.pool_name(pipeline), task.state.in_(list(STATES)))
    in_order = of_pool.order_by(task.priority_weight.desc(), task.scheduled_dttm).limit(MOST_TURNS)
    return [
        Turn(each.dag_id, each.task_id, each.run_id, str(each.state), _since(each))
        for each in session.execute(in_order)
    ]


def _since(run: Any) -> datetime | None:
    since: datetime | None = run.start_date if run.state == "running" else run.scheduled_dttm
    return since


MOST_TURNS = 20


@app.get("/dags/{dag_id}/expectations", dependencies=[READS])
def expectations(whose: Whose, number: Number = 1) -> HTMLResponse:
    """Show the declared expectations, failed ones first."""
    return _page(pages.expectations(whose, page=number))


@app.get("/dags/{dag_id}/data_docs/{run}/{page}", dependencies=[READS])
def data_docs(whose: Whose, run: Name, page: Name) -> HTMLResponse:
    """Show a page that Great Expectations rendered; no name leads out of the folder of such pages."""
    document = pages.data_docs(whose, run, page)
    if document is None:
        raise HTTPException(404, "There is no such page of Great Expectations, or it is older than reports are kept.")
    return HTMLResponse(document, headers=dict(rendering.DATA_DOCS_HEADERS))


@app.get("/dags/{dag_id}/waiting", dependencies=[READS])
def waiting(whose: Whose, number: Number = 1, cause: Text = None, longer: Text = None) -> HTMLResponse:
    """Show transactions that wait for missing parts."""
    return _page(pages.waiting(whose, page=number, cause=cause, longer=longer))


@app.get("/dags/{dag_id}/letters", dependencies=[READS])
def letters(whose: Whose, number: Number = 1, cause: Text = None, transaction: Text = None) -> HTMLResponse:
    """Show open dead letters."""
    return _page(pages.letters(whose, page=number, cause=cause, transaction=transaction))


@app.get("/dags/{dag_id}/findings", dependencies=[READS])
def findings(whose: Whose, number: Number = 1) -> HTMLResponse:
    """Show open findings."""
    return _page(pages.findings(whose, page=number))


@app.get("/dags/{dag_id}/incidents", dependencies=[READS])
def incidents(whose: Whose, number: Number = 1) -> HTMLResponse:
    """Show incidents that people got messages about."""
    return _page(pages.incidents(whose, page=number))


@app.get("/dags/{dag_id}/runs", dependencies=[READS])
def runs(whose: Whose, number: Number = 1) -> HTMLResponse:
    """Show the ledger by run."""
    return _page(pages.ledger(whose, page=number))


@app.get("/dags/{dag_id}/audit", dependencies=[READS])
def audit(whose: Whose, number: Number = 1) -> HTMLResponse:
    """Show what the newest audits found in each table."""
    return _page(pages.audit(whose, page=number))


@app.get("/dags/{dag_id}/cuts", dependencies=[READS])
def cuts(whose: Whose, number: Number = 1) -> HTMLResponse:
    """Show published cuts."""
    return _page(pages.cuts(whose, page=number))


@app.get("/dags/{dag_id}/transaction", dependencies=[READS])
def transaction_story(
    whose: Whose,
    number: Number = 1,
    any_: Annotated[str | None, Query(alias="id", max_length=1_000)] = None,
    xid: Text = None,
    csn: Text = None,
    transaction: Text = None,
) -> HTMLResponse:
    """Show the story of a transaction."""
    return _page(pages.transaction_story(whose, page=number, any_=any_, xid=xid, csn=csn, transaction=transaction))


@app.get("/dags/{dag_id}/key", dependencies=[READS])
def key(whose: Whose, request: Request, number: Number = 1, table: Text = None, value: Text = None) -> HTMLResponse:
    """Show every change of a row."""
    return _page(pages.key(whose, page=number, table=table, value=value, query=dict(request.query_params)))


def _page(html: str, code: int = 200) -> HTMLResponse:
    return HTMLResponse(html, code, headers=dict(rendering.HEADERS))


TITLES = {401: "Log in first", 403: "You may not see this", 404: "There is no such page"}
SENTENCES = {
    401: "Airflow does not know who you are, or you were logged out.",
    403: "Your role may not read the DAG of this pipeline. Ask who gives rights in Airflow.",
}


@app.exception_handler(Refused)
def refused_request(request: Request, error: Refused) -> Response:
    """Return a page that says why for a browser, and JSON for programs."""
    return _refusal(request, error.status_code, SENTENCES.get(error.status_code, str(error.detail)), error.detail)


@app.exception_handler(RequestValidationError)
def wrong_request(request: Request, error: RequestValidationError) -> Response:
    """Refuse parameters that no address of the page has; their values are not repeated."""
    wrong = ", ".join(sorted({str(each["loc"][-1]) for each in error.errors()}))
    return _refusal(request, 422, f"The address is not one of this page: look at {wrong}.", "wrong address")


@app.exception_handler(ConfigurationError)
def wrong_question(request: Request, error: ConfigurationError) -> Response:
    """Return what cannot be looked up, and why."""
    return _refusal(request, 422, str(error), str(error))


def _refusal(request: Request, code: int, sentence: str, detail: Any) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"detail": detail}, code)
    at = links(request)
    requested = str(request.url.replace(scheme="", netloc=""))
    log_in = with_query(at.airflow("api/v2/auth/login"), {"next": requested}) if code == 401 else None
    return _page(pages.notice(at, TITLES.get(code, "That cannot be looked up"), sentence, log_in=log_in), code)


class TxloomPlugin(AirflowPlugin):
    """Registers the routes, the overview in the navigation, and a tab on the page of each DAG."""

    name = "txloom"
    fastapi_apps = [{"app": app, "url_prefix": PREFIX, "name": "txloom"}]  # noqa: RUF012 (Airflow's own interface)
    external_views = [  # noqa: RUF012 (Airflow's own interface)
        {"name": "txloom", "href": "txloom/", "destination": "nav", "url_route": "txloom", "nav_top_level": True},
        {"name": "txloom", "href": "txloom/dags/{DAG_ID}/tab", "destination": "dag", "url_route": "txloom-pipeline"},
    ]
