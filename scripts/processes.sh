# The Airflow processes that `make up` leaves running: each leads a process group, its pid lies in a file. Sourced.

pid_of() { cat "$AIRFLOW_HOME/$1.pid" 2>/dev/null; }

# running NAME: whether the process in the file is still that one, not another that got its number after a restart.
# Airflow renames its processes: api-server calls itself api_server.
running() {
  local pid
  pid=$(pid_of "$1") && [ -n "$pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "airflow.*${1//-/[-_]}"
}

# start NAME: runs `airflow NAME` in a group of its own.
start() {
  python -c 'import os, sys; os.setsid(); os.execvp("airflow", ["airflow", sys.argv[1]])' "$1" \
    >"$AIRFLOW_HOME/log/$1.log" 2>&1 </dev/null &
  echo $! >"$AIRFLOW_HOME/$1.pid"
}

# stop NAME: ends it and everything that it started.
stop() {
  local pid
  if running "$1"; then
    pid=$(pid_of "$1")
    kill -TERM -- "-$pid" 2>/dev/null
    for _ in $(seq 1 20); do
      kill -0 -- "-$pid" 2>/dev/null || break
      sleep 0.5
    done
    kill -KILL -- "-$pid" 2>/dev/null
  fi
  rm -f "$AIRFLOW_HOME/$1.pid"
}
