#!/usr/bin/env bash
# Put the jars of scripts/ivy/LIST.xml into a folder, with the Ivy that pyspark ships.
#
#     scripts/fetch_jars.sh PYTHON FOLDER [LIST]
#
# LIST is `jars` unless given. Does nothing when they are there and whole. TXLOOM_IVY_SETTINGS names an ivysettings.xml for networks with a mirror;
# a proxy is taken from https_proxy.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/machine.sh"
. "$root/scripts/ivy.sh"
python=$1
folder=$2
name=${3:-jars}
state="$root/.state"
log="$state/log/ivy-$name.log"
list="$root/scripts/ivy/$name.sha256"
new="$state/$name.new"

whole "$folder" "$list" && exit 0
mkdir -p "$state/log"
for try in 1 2 3; do
  rm -rf "$new"
  retrieve "$python" "$root/scripts/ivy/$name.xml" "$new/[artifact]-[revision].[ext]" |
    tee "$log" | sed -n 's|^downloading .*/\([^/ ]*\.jar\).*|      \1|p' || true
  if whole "$new" "$list"; then
    rm -rf "$folder"
    mv "$new" "$folder"
    exit 0
  fi
  [ "$try" = 3 ] || echo "      attempt $try failed, trying again"
  sleep 2
done
echo "txloom: the jars of scripts/ivy/$name.xml could not be fetched, or are not the expected ones. See $log" >&2
exit 1
