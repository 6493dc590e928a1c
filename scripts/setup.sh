#!/usr/bin/env bash
# Make everything that txloom needs, inside the project folder: .venv, jars, .state. Does nothing that is done.
#
#     scripts/setup.sh
#
# Reads PYTHON (which Python to use), JAVA_HOME, TXLOOM_IVY_SETTINGS (a mirror for jars), TXLOOM_NO_CLASS_ARCHIVE.
# Packages come from wherever this machine's pip or uv is told to take them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
"$root/scripts/preflight.sh"
. "$root/scripts/machine.sh"
# A virtual environment is made anew by the Python that it was made from.
python=$("$(find_python "$root")" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))')
java=$(find_java)
stamps="$root/.state/setup"
mkdir -p "$stamps" "$root/.state/log"
if command -v flock >/dev/null; then
  exec 9>"$stamps/lock"
  flock 9
fi
venv="$root/.venv"
follow_pip

# done_as STAMP KEY: whether this step was done with this key.
done_as() { [ -f "$stamps/$1" ] && [ "$(cat "$stamps/$1")" = "$2" ]; }

# step NUMBER TEXT...: shows what is being done.
step() { echo "[set-up $1/3] ${*:2}"; }

install_packages() {
  rm -rf "$venv"
  if command -v uv >/dev/null && with_uv uv; then return; fi
  rm -rf "$venv"
  "$python" -m venv "$venv"
  if "$venv/bin/pip" install --quiet "$(grep '^uv==' requirements-dev.txt)" && with_uv "$venv/bin/uv"; then return; fi
  "$venv/bin/pip" install -r requirements.txt -r requirements-dev.txt
  "$venv/bin/pip" install --quiet --no-deps --no-build-isolation --editable .
}

# with_uv UV: installs with uv, which takes a quarter of pip's time; fails where only pip is set up to reach a mirror.
with_uv() {
  [ -x "$venv/bin/python" ] || "$1" venv --quiet --python "$python" "$venv" || return 1
  "$1" pip install --compile-bytecode --python "$venv/bin/python" -r requirements.txt -r requirements-dev.txt 2>&1 | sed '/^ [+~-] /d' &&
    "$1" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
}

# Of pyproject.toml only the part before the tools' settings says how the project is installed.
project=$(sed '/^\[tool\.ruff\]/,$d' pyproject.toml)
packages_key=$(cat requirements.txt requirements-dev.txt - <<<"$project" | cksum)" $root $(python_version "$python")"
if ! done_as packages "$packages_key" || ! "$venv/bin/python" -c 'import txloom' 2>/dev/null; then
  step 1 "Python $(python_version "$python"): $(grep -c == requirements.txt) pinned packages into .venv (2.2 GB: a minute with uv, three with pip)"
  rm -f "$stamps/packages"
  install_packages
  echo "$packages_key" >"$stamps/packages"
fi

jars_key=$(cat scripts/ivy/{jars,s3}.{xml,sha256} include/java/txloom/*.java | cksum)
if ! done_as jars "$jars_key" || [ ! -d jars/s3 ]; then
  step 2 "2 jars for Delta Lake and 36 for S3 into jars (23 MB)"
  scripts/fetch_jars.sh "$venv/bin/python" "$root/jars"
  scripts/fetch_jars.sh "$venv/bin/python" "$root/jars/s3" s3
  "$venv/bin/python" scripts/compile_java.py "$root/jars" >"$root/.state/log/java.log" 2>&1 ||
    { echo "txloom: include/java could not be compiled; see .state/log/java.log" >&2 && exit 1; }
  echo "$jars_key" >"$stamps/jars"
fi

archive_key="$packages_key $jars_key $java $(java_major "$java")"
if [ -z "${TXLOOM_NO_CLASS_ARCHIVE:-}" ] && ! done_as archive "$archive_key"; then
  step 3 "Class archive for the JVM, so that a Spark job starts with half the work (200 MB: half a minute, once)"
  scripts/archive_classes.sh "$venv/bin/python" "$root/.state/spark.jsa" ||
    echo "      it could not be made; jobs run without, only slower to start. See .state/log/archive.log"
  echo "$archive_key" >"$stamps/archive"
fi
