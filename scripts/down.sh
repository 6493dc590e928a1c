#!/usr/bin/env bash
# Stop what scripts/up.sh started, and everything those processes started.
set -u
home="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.state/airflow"
for file in "$home"/*.pid; do
  [ -f "$file" ] || continue
  pid=$(cat "$file")
  kill -TERM -- "-$pid" 2>/dev/null
  for _ in $(seq 1 20); do
    kill -0 -- "-$pid" 2>/dev/null || break
    sleep 0.5
  done
  kill -KILL -- "-$pid" 2>/dev/null
  rm -f "$file"
done
echo "[airflow] stopped"
