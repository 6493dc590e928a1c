"""Print the Airflow pools that the declared pipelines need, as `airflow pools import` reads them."""

import json

from txloom.config import names
from txloom.orchestration.pipelines import declared

print(
    json.dumps(
        {
            names.pool_name(pipeline.name): {
                "slots": 1,
                "description": f"one run at a time of pipeline {pipeline.name}",
                "include_deferred": False,
            }
            for pipeline in declared()
        }
    )
)
