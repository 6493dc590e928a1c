"""`txloom status` and `txloom explain`: the read model (`txloom.storage.views`) in a terminal; no Spark, no Airflow."""
