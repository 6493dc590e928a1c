#!/usr/bin/env bash
# Start Airflow (API server, scheduler, DAG processor) and leave it running: http://localhost:8080, or TXLOOM_PORT.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/airflow_env.sh"
. "$root/scripts/processes.sh"

healthy() {
  python - "http://localhost:$port/api/v2/monitor/health" <<'PYTHON' 2>/dev/null
import json, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
    sys.exit(json.load(answer)["scheduler"]["status"] != "healthy")
PYTHON
}

if ! running api-server; then
  "$root/scripts/preflight.sh" --port "$port"
fi
echo "[airflow] database and pools"
airflow db migrate >"$AIRFLOW_HOME/log/migrate.log" 2>&1 || { tail -5 "$AIRFLOW_HOME/log/migrate.log" >&2; exit 1; }
python "$root/scripts/pools.py" >"$AIRFLOW_HOME/pools.json"
airflow pools import "$AIRFLOW_HOME/pools.json" >"$AIRFLOW_HOME/log/pools.log" 2>&1 || { tail -5 "$AIRFLOW_HOME/log/pools.log" >&2; exit 1; }
for process in api-server scheduler dag-processor; do
  running "$process" && continue
  start "$process"
done
echo "[airflow] waiting for http://localhost:$port"
for _ in $(seq 1 120); do
  if healthy; then
    echo "[airflow] running at http://localhost:$port, user admin, password: see $AIRFLOW_HOME/passwords.json; stop with: make down"
    exit 0
  fi
  sleep 1
done
echo "txloom: Airflow did not become healthy in two minutes; look at $AIRFLOW_HOME/log" >&2
exit 1
