#!/usr/bin/env bash
# Make an environment with moto, a server of S3 for tests, whose pins contradict Airflow's; print its Python.
#
#     scripts/fetch_moto.sh PYTHON
#
# It lies in .state/moto. Does nothing when it is there. Packages come from wherever pip or uv is told to take them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/machine.sh"
python=$1
folder="$root/.state/moto"
pins="$root/scripts/moto/requirements.txt"
key=$(cksum <"$pins")
mkdir -p "$root/.state/log"

there() { [ -x "$folder/bin/python" ] && [ "$(cat "$folder/key" 2>/dev/null)" = "$key" ]; }

if command -v flock >/dev/null; then
  exec 9>"$folder.lock"
  flock 9
fi
if ! there; then
  echo "[moto] a server of S3 for tests into $folder (50 MB: some seconds)" >&2
  rm -rf "$folder"
  follow_pip
  uv="$(dirname "$python")/uv"
  { "$uv" venv --quiet --python "$python" "$folder" &&
    "$uv" pip install --quiet --python "$folder/bin/python" --requirement "$pins"; } >"$root/.state/log/moto.log" 2>&1 ||
    { rm -rf "$folder" && "$python" -m venv "$folder" &&
      "$folder/bin/pip" install --quiet --requirement "$pins"; } >>"$root/.state/log/moto.log" 2>&1 ||
    { echo "txloom: moto could not be installed; see .state/log/moto.log" >&2 && exit 1; }
  echo "$key" >"$folder/key"
fi
echo "$folder/bin/python"
