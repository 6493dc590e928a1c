# What set-up asks of a machine: functions that print what they find. Sourced with $root set, never run.

PYTHON_RANGE='>=3.11,<3.14'
JAVA_WANTED='17 or 21'

# What set-up makes must not be what set-up is made with.
PATH=${PATH//"$root/.venv/bin:"/}

# python_version PYTHON: prints its version; fails when that is not a Python.
python_version() {
  "$1" -c 'import sys; print(".".join(map(str, sys.version_info[:3])))' 2>/dev/null
}

# python_fits PYTHON: whether txloom runs with it and a virtual environment can be made from it.
python_fits() {
  local also=""
  command -v uv >/dev/null 2>&1 || also=", ensurepip"
  "$1" -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
import sqlite3, ssl, venv$also" 2>/dev/null
}

# find_python FOLDER: prints the Python to use: the one in PYTHON, the project's own, or the first that fits.
find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    python_fits "$PYTHON" && command -v "$PYTHON"
    return
  fi
  for candidate in "$1/.venv/bin/python" python3 python3.11 python3.12 python3.13 python; do
    if command -v "$candidate" >/dev/null 2>&1 && python_fits "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  command -v uv >/dev/null 2>&1 && uv python find --no-python-downloads "$PYTHON_RANGE" 2>/dev/null
}

# pythons_seen: prints what there is instead, for the message.
pythons_seen() {
  local candidate version seen=""
  for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python}; do
    version=$(python_version "$candidate") || continue
    seen="$seen${seen:+, }$version ($(command -v "$candidate"))"
  done
  echo "${seen:-none${PYTHON:+ under PYTHON=$PYTHON}}"
}

# find_java: prints the java that Spark will start: that of JAVA_HOME, else the one on PATH.
find_java() {
  if [ -n "${JAVA_HOME:-}" ]; then
    [ -x "$JAVA_HOME/bin/java" ] && echo "$JAVA_HOME/bin/java"
  else
    command -v java
  fi
}

# java_major JAVA: prints 17 for 17.0.15 and 8 for 1.8.0_292.
java_major() {
  "$1" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

# free_mb FOLDER: prints the megabytes free where the folder lies.
free_mb() {
  df -Pk "$1" | awk 'NR == 2 { print int($4 / 1024) }'
}

# port_taken PORT: whether something on this machine answers there.
port_taken() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# follow_pip: lets uv take packages from where pip is told to: its mirror and certificates have other variables.
follow_pip() {
  [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"
  [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
}
