# The Airflow processes that `make up` leaves running: each leads a session, its pid lies in a file. Sourced.

pid_of() { cat "$AIRFLOW_HOME/$1.pid" 2>/dev/null; }

# running NAME: whether the process in the file is still that one, not another that got its number after a restart.
# Airflow renames its processes: api-server calls itself api_server.
running() {
  local pid
  pid=$(pid_of "$1") && [ -n "$pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -Eq "(airflow|txloom).*${1//-/[-_]}"
}

# start PROGRAM NAME [ARGUMENT...]: runs `PROGRAM NAME ARGUMENT...` in a session of its own, once nothing is left of the
# one before.
start() {
  local name=$2
  stop "$name"
  python -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])' "$@" \
    >"$AIRFLOW_HOME/log/$name.log" 2>&1 </dev/null &
  echo $! >"$AIRFLOW_HOME/$name.pid"
  cat "$BOOT" >"$AIRFLOW_HOME/$name.boot"
}

BOOT=/proc/sys/kernel/random/boot_id

# left_of NAME: prints the processes of its session: its own, or, where that was killed, what it has left behind. The
# number of a session is given to nobody while it has members; after a restart of the machine it says nothing.
left_of() {
  local leader stat
  leader=$(pid_of "$1") && [ -n "$leader" ] || return 0
  running "$1" || { ! alive "$leader" && [ "$(cat "$BOOT")" = "$(cat "$AIRFLOW_HOME/$1.boot" 2>/dev/null)" ]; } || return 0
  for stat in /proc/[0-9]*/stat; do
    fields "$stat" && [ "$session" = "$leader" ] && [ "$state" != Z ] && basename "${stat%/stat}"
  done
  return 0
}

# fields FILE: sets state, group and session of a process; fails when it is gone. Its name may hold blanks.
fields() {
  local line
  { read -r line <"$1"; } 2>/dev/null || return 1
  read -r state _ group session _ <<<"${line##*) }"
}

alive() { fields "/proc/$1/stat" && [ "$state" != Z ]; }

# gone NAME TIMES: waits until nothing of it is left, looking so many times, twice a second.
gone() {
  local _
  for _ in $(seq 1 "$2"); do
    [ -n "$(left_of "$1")" ] || return 0
    sleep 0.5
  done
  return 1
}

# stop NAME: ends it and everything that it started, also where it was killed itself.
stop() {
  local pids
  pids=$(left_of "$1")
  if [ -n "$pids" ]; then
    kill -TERM $pids 2>/dev/null || true
    if ! gone "$1" 20; then
      kill -KILL $(left_of "$1") 2>/dev/null || true
      gone "$1" 20 || true
    fi
  fi
  rm -f "$AIRFLOW_HOME/$1.pid" "$AIRFLOW_HOME/$1.boot"
}
