"""What DAGs share: operators, retry rules, assets and pools. The only room that imports Airflow, and never Spark."""
