#!/usr/bin/env bash
# Start Airflow (API server, then scheduler and DAG processor) and leave it running: http://localhost:8080, or TXLOOM_PORT.
#
#     scripts/up.sh [--real]
#
# Where nobody names an inbox or a warehouse, a source lives beside it (`txloom trial run`), and pipeline `orders` runs
# every minute. With --real the source is a PostgreSQL that Debezium streams into Kafka; all of it lies in .state/real.
# Ports are free ones, or TXLOOM_POSTGRES_PORT, TXLOOM_KAFKA_PORT, TXLOOM_CONNECT_PORT.
set -euo pipefail
real=$([ "${1:-}" != --real ] || echo yes)
. "$(dirname "${BASH_SOURCE[0]}")/airflow_env.sh"
. "$root/scripts/processes.sh"

# scheduling: whether the API server has heard of the scheduler lately.
scheduling() {
  python - "http://localhost:$port/api/v2/monitor/health" <<'PYTHON' 2>/dev/null
import json, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
    sys.exit(json.load(answer)["scheduler"]["status"] != "healthy")
PYTHON
}

# answering: whether tasks get an answer. The first one takes as long as that part of the API server needs to be made,
# which is more than a task waits for.
answering() {
  python - "http://localhost:$port/execution/health" <<'PYTHON' 2>/dev/null
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=120).close()
PYTHON
}

# wait_for NAME CHECK: until it holds; ends with what to look at after two minutes.
wait_for() {
  for _ in $(seq 1 120); do
    "$2" && return
    sleep 1
  done
  echo "txloom: Airflow's $1 did not become healthy in two minutes; look at $AIRFLOW_HOME/log" >&2
  exit 1
}

# fetch_services: what the real source is made of, or says what cannot be had.
fetch_services() {
  export TXLOOM_KAFKA="${TXLOOM_KAFKA:-$root/.state/kafka}"
  TXLOOM_POSTGRES=$("$root/scripts/fetch_postgres.sh") && "$root/scripts/fetch_kafka.sh" "$root/.venv/bin/python" "$TXLOOM_KAFKA" || {
    echo "txloom: nothing was started. make up has a source that needs neither PostgreSQL nor Kafka" >&2
    exit 1
  }
  export TXLOOM_POSTGRES
}

# declare_orders: the declaration of pipeline `orders`, which people may change: a copy of the example.
declare_orders() {
  mkdir -p "$TXLOOM_PIPELINES"
  [ -f "$TXLOOM_PIPELINES/orders.yaml" ] ||
    sed -e 's/^name: orders_debezium$/name: orders/' -e "s#=\.\./schema#=$root/include/pipelines/schema#" \
      "$root/include/pipelines/examples/orders_debezium.yaml" >"$TXLOOM_PIPELINES/orders.yaml"
}

# start_source: PostgreSQL, Kafka and Debezium, until a transaction came through all of them.
start_source() {
  rm -f "$trial/ready"
  echo "[trial] starting PostgreSQL, Kafka and Debezium: half a minute"
  start txloom trial run --real --folder "$trial"
  for _ in $(seq 1 300); do
    [ ! -f "$trial/ready" ] || return 0
    running trial || break
    sleep 1
  done
  stop trial
  echo "txloom: the source did not start; the end of $AIRFLOW_HOME/log/trial.log:" >&2
  tail -n 20 "$AIRFLOW_HOME/log/trial.log" >&2
  exit 1
}

# unpausing: whether Airflow knows the DAGs of `orders` that the first hour needs, and lets them run.
unpausing() {
  python - "http://localhost:$port" "$AIRFLOW_HOME/passwords.json" ${real:+audit repair snapshot} <<'PYTHON' 2>/dev/null
import json, sys, urllib.request
url, passwords, *more = sys.argv[1:]

def ask(method, path, body, token=None):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)

credentials = {"username": "admin", "password": json.load(open(passwords))["admin"]}
token = ask("POST", "/auth/token", credentials)["access_token"]
for kind in ("backfill", "dead_letters", "load", *more, "cdc"):
    ask("PATCH", f"/api/v2/dags/orders_{kind}", {"is_paused": False}, token)
PYTHON
}

for process in api-server scheduler dag-processor trial; do
  running "$process" || stop "$process"
done
if ! running api-server; then
  "$root/scripts/preflight.sh" --port "$port"
fi
if [ -n "$real" ]; then
  fetch_services
  declare_orders
  running trial || start_source
  . "$trial/env"
elif [ -n "$trial" ]; then
  # The scheduler's first look at the inbox must not come before the source has made it.
  mkdir -p "$TXLOOM_INBOX"
elif [ ! -d "$TXLOOM_INBOX" ]; then
  echo "[airflow] TXLOOM_INBOX=$TXLOOM_INBOX is not there: make it, or the first task of orders_cdc will be red"
fi
echo "[airflow] database and pools"
airflow db migrate >"$AIRFLOW_HOME/log/migrate.log" 2>&1 || { tail -5 "$AIRFLOW_HOME/log/migrate.log" >&2; exit 1; }
python "$root/include/bin/pools.py" >"$AIRFLOW_HOME/pools.json"
airflow pools import "$AIRFLOW_HOME/pools.json" >"$AIRFLOW_HOME/log/pools.log" 2>&1 || { tail -5 "$AIRFLOW_HOME/log/pools.log" >&2; exit 1; }
echo "[airflow] waiting for http://localhost:$port"
# A task asks the API server for leave to begin: one that the scheduler sends out before it answers fails.
running api-server || start airflow api-server
wait_for "API server" answering
# The API server reads the logs of tasks where they lie: nobody else needs them served on a port.
running scheduler || start airflow scheduler --skip-serve-logs
running dag-processor || start airflow dag-processor
wait_for scheduler scheduling
if [ -n "$trial" ]; then
  [ -n "$real" ] || running trial || start txloom trial run --folder "$trial"
  # Once: who pauses them later has a reason.
  [ -f "$AIRFLOW_HOME/unpaused" ] || { wait_for "DAGs of orders" unpausing && touch "$AIRFLOW_HOME/unpaused"; }
fi
echo "[airflow] running at http://localhost:$port, user admin; stop with: make down"
if [ -n "$new_password" ]; then
  echo "[airflow] password: $new_password (made for this machine and shown once; it is kept in $AIRFLOW_HOME/passwords.json)"
else
  echo "[airflow] password: see $AIRFLOW_HOME/passwords.json"
fi
if [ -n "$real" ]; then
  echo "[trial] order entry goes on in PostgreSQL, and orders_cdc takes it in each minute: http://localhost:$port/plugin/txloom"
  echo "[trial] is the lake equal to the database?   . $trial/env && $root/.venv/bin/txloom audit orders"
  echo "[trial] write SQL of your own:               . $trial/env && $TXLOOM_POSTGRES/psql \"\$AIRFLOW_CONN_ORDERS_DB\""
  echo "[trial] what is declared: $TXLOOM_PIPELINES/orders.yaml; logs: $trial/source/*/*.log, $AIRFLOW_HOME/log"
  echo "[trial] damage it: make break (lists how); make it good: make repair"
elif [ -n "$trial" ]; then
  echo "[trial] order entry goes on, and orders_cdc takes it in each minute: http://localhost:$port/plugin/txloom"
  echo "[trial] damage it: make break (lists how); make it good: make repair"
fi
