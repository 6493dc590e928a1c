#!/usr/bin/env bash
# Stop what scripts/up.sh started, and everything those processes started.
set -u
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
AIRFLOW_HOME="${TXLOOM_STATE:-$root/.state}/airflow"
. "$root/scripts/processes.sh"
for file in "$AIRFLOW_HOME"/*.pid; do
  [ -f "$file" ] && stop "$(basename "$file" .pid)"
done
echo "[airflow] stopped"
