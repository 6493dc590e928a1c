"""txloom in Airflow: `/txloom/status/<dag_id>` tells a pipeline's state as JSON to whoever may read its DAG.

Newest cut and valid-through, waiting transactions, dead letters by cause, the newest ledger line of each step; read
from the Delta logs by `txloom.storage.status`; the API server never starts Spark.
"""

import os
from typing import Any

from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException

from txloom.config import names
from txloom.orchestration.pipelines import declared
from txloom.storage.status import status

app = FastAPI(title="txloom")


@app.get("/status/{dag_id}", dependencies=[Depends(requires_access_dag(method="GET"))])
def pipeline_status(dag_id: str) -> dict[str, Any]:
    """Tell the state of the pipeline whose cdc DAG this is."""
    pipeline = next((each.name for each in declared() if names.cdc_dag_id(each.name) == dag_id), None)
    warehouse = os.environ.get("TXLOOM_WAREHOUSE")
    if pipeline is None or not warehouse:
        raise HTTPException(404, f"{dag_id} is no cdc DAG of a declared pipeline, or TXLOOM_WAREHOUSE is not set")
    return status(warehouse, pipeline)


class TxloomPlugin(AirflowPlugin):
    """Registers the routes."""

    name = "txloom"
    fastapi_apps = [{"app": app, "url_prefix": "/txloom", "name": "txloom"}]  # noqa: RUF012 (Airflow's own interface)
