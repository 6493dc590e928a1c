#!/usr/bin/env bash
# Put a Kafka broker, Kafka Connect and Debezium's connectors for PostgreSQL, MariaDB and MySQL (scripts/ivy/kafka.xml)
# into a folder, for tests.
#
#     scripts/fetch_kafka.sh PYTHON [FOLDER]
#
# PYTHON is one that has pyspark, FOLDER is .state/kafka unless given: libs/ holds jars, plugins/ the connectors.
# Does nothing when they are there and whole. TXLOOM_IVY_SETTINGS and https_proxy are read as in fetch_jars.sh.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/machine.sh"
. "$root/scripts/ivy.sh"
python=$1
folder=${2:-$root/.state/kafka}
list="$root/scripts/ivy/kafka.sha256"
log="$root/.state/log/ivy-kafka.log"
new="$folder.new"
plugins="debezium-connector-postgres debezium-connector-mariadb debezium-connector-mysql"

# there: whether nothing is left to do; the unpacked connectors came into the folder with the rest or not at all.
there() {
  local plugin
  for plugin in $plugins; do
    [ -d "$folder/plugins/$plugin" ] || return 1
  done
  whole "$folder" "$list"
}

# progress TOTAL: turns what Ivy says into a line for every tenth file.
progress() {
  awk -v total="$1" '
    function say(what, n) { if (n % 10 == 0 || n == total) { printf "      %d of %d %s\n", n, total, what; fflush() } }
    /^\tfound / { say("found", ++found) }
    /^downloading .*\.(jar|tar\.gz) / { say("fetched", ++fetched) }'
}

there && exit 0
mkdir -p "$root/.state/log" "$(dirname "$folder")"
if command -v flock >/dev/null; then
  exec 9>"$folder.lock"
  flock 9
  there && exit 0
fi
echo "[kafka] $(grep -c . "$list") files for a broker, Connect and Debezium into $folder (140 MB: one to two minutes)"
for try in 1 2 3; do
  rm -rf "$new"
  retrieve "$python" "$root/scripts/ivy/kafka.xml" "$new/[conf]/[artifact]-[revision](-[classifier]).[ext]" |
    tee "$log" | progress "$(grep -c . "$list")" || true
  if whole "$new" "$list"; then
    for plugin in $plugins; do
      tar -xzf "$new/plugins/$plugin"-*.tar.gz -C "$new/plugins"
    done
    rm -rf "$folder"
    mv "$new" "$folder"
    exit 0
  fi
  [ "$try" = 3 ] || echo "      attempt $try failed, trying again"
  sleep 2
done
missing=$(while read -r _ file; do [ -f "$new/$file" ] || echo "$file"; done <"$list" | wc -l)
echo "txloom: the files of scripts/ivy/kafka.xml could not be fetched ($missing missing), or are not the expected ones." \
  "See $log" >&2
exit 1
