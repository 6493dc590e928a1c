#!/usr/bin/env bash
# Stop what scripts/up.sh started, with --real too, and everything those processes started.
set -u
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
state="${TXLOOM_STATE:-$root/.state}"
. "$root/scripts/processes.sh"
for AIRFLOW_HOME in "$state/airflow" "$state/real/airflow"; do
  for file in "$AIRFLOW_HOME"/*.pid; do
    [ -f "$file" ] && stop "$(basename "$file" .pid)"
  done
done
echo "[airflow] stopped"
