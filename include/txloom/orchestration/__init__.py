"""Parts that DAGs share: operators, retry rules, assets and pools; only this room imports Airflow, and never Spark."""
