#!/usr/bin/env bash
# Say what this machine lacks for txloom: one line a thing, with what to do about it.
#
#     scripts/preflight.sh [--port N]...
#
# Exit code 0: nothing is missing. 3: something is. Reads PYTHON, JAVA_HOME, TXLOOM_MIN_FREE_MB.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/machine.sh"
missing=0

lacks() {
  echo "txloom: $*" >&2
  missing=3
}

check_python() {
  find_python "$root" >/dev/null && return
  local seen
  seen=$(pythons_seen)
  lacks "Python 3.11, 3.12 or 3.13 with venv and sqlite3 is needed, found $seen." \
    "Install one (Debian: apt-get install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3.11"
}

check_java() {
  local java major
  if [ -n "${JAVA_HOME:-}" ] && [ ! -x "$JAVA_HOME/bin/java" ]; then
    lacks "Java $JAVA_WANTED is needed, but JAVA_HOME=$JAVA_HOME holds no bin/java. Correct JAVA_HOME, or unset it."
    return
  fi
  java=$(find_java)
  major=$([ -n "$java" ] && java_major "$java")
  case "$major" in
    17 | 21) ;;
    "") lacks "Java $JAVA_WANTED is needed, found none." \
      "Install one (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME." ;;
    *) lacks "Java $JAVA_WANTED is needed, found $major ($java). Install one and set JAVA_HOME to it." ;;
  esac
}

check_disk() {
  local wanted free
  wanted=$([ -x "$root/.venv/bin/python" ] && echo 500 || echo 3000)
  wanted=${TXLOOM_MIN_FREE_MB:-$wanted}
  free=$(free_mb "$root")
  [ "${free:-0}" -ge "$wanted" ] ||
    lacks "$wanted MB of free disk are needed in $root, found ${free:-0} MB. Free some, or lower TXLOOM_MIN_FREE_MB."
}

check_port() {
  if port_taken "$1"; then
    lacks "port $1 is taken. Stop what listens there (\`make down\` if it is txloom), or choose another: TXLOOM_PORT=$(($1 + 1))"
  fi
}

check_python
check_java
check_disk
while [ $# -gt 0 ]; do
  case "$1" in
    --port)
      check_port "$2"
      shift 2
      ;;
    *)
      echo "txloom: preflight knows only --port N, not $1" >&2
      exit 2
      ;;
  esac
done
exit $missing
