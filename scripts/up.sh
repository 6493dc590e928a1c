#!/usr/bin/env bash
# Start Airflow (API server, scheduler, DAG processor) and leave it running: http://localhost:8080, or TXLOOM_PORT.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/airflow_env.sh"
health="http://localhost:$port/api/v2/monitor/health"

running() { [ -f "$AIRFLOW_HOME/$1.pid" ] && kill -0 "$(cat "$AIRFLOW_HOME/$1.pid")" 2>/dev/null; }

if ! running api-server; then
  "$root/scripts/preflight.sh" --port "$port"
fi
echo "[airflow] database and pools"
airflow db migrate >"$AIRFLOW_HOME/log/migrate.log" 2>&1 || { tail -5 "$AIRFLOW_HOME/log/migrate.log" >&2; exit 1; }
python "$root/scripts/pools.py" >"$AIRFLOW_HOME/pools.json"
airflow pools import "$AIRFLOW_HOME/pools.json" >"$AIRFLOW_HOME/log/pools.log" 2>&1 || { tail -5 "$AIRFLOW_HOME/log/pools.log" >&2; exit 1; }
for process in api-server scheduler dag-processor; do
  running "$process" && continue
  setsid nohup airflow "$process" >"$AIRFLOW_HOME/log/$process.log" 2>&1 </dev/null &
  echo $! >"$AIRFLOW_HOME/$process.pid"
done
echo "[airflow] waiting for http://localhost:$port"
for _ in $(seq 1 120); do
  if curl --silent --fail "$health" 2>/dev/null | grep -q '"scheduler": *{"status": *"healthy"'; then
    echo "[airflow] running at http://localhost:$port, user admin, password: see $AIRFLOW_HOME/passwords.json; stop with: make down"
    exit 0
  fi
  sleep 1
done
echo "txloom: Airflow did not become healthy in two minutes; look at $AIRFLOW_HOME/log" >&2
exit 1
