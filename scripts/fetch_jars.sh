#!/usr/bin/env bash
# Put the jars of scripts/ivy/jars.xml into a folder, with the Ivy that pyspark ships.
#
#     scripts/fetch_jars.sh PYTHON FOLDER
#
# Does nothing when they are there and whole. TXLOOM_IVY_SETTINGS names an ivysettings.xml for networks with a mirror;
# a proxy is taken from https_proxy.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/machine.sh"
python=$1
folder=$2
state="$root/.state"
log="$state/log/ivy.log"

whole() {
  [ -d "$1" ] || return 1
  if command -v sha256sum >/dev/null; then
    (cd "$1" && sha256sum --check --status "$root/scripts/ivy/jars.sha256" 2>/dev/null)
  else
    (cd "$1" && shasum -a 256 -c "$root/scripts/ivy/jars.sha256" >/dev/null 2>&1)
  fi
}

proxy_flags() {
  local proxy=${https_proxy:-${HTTPS_PROXY:-}}
  proxy=${proxy#*://}
  proxy=${proxy##*@}
  proxy=${proxy%/}
  if [ -n "$proxy" ]; then
    echo "-Dhttps.proxyHost=${proxy%:*} -Dhttps.proxyPort=${proxy##*:}"
  fi
}

resolve() {
  local shipped
  shipped=$("$python" -c 'import importlib.util; print(importlib.util.find_spec("pyspark").submodule_search_locations[0])')/jars
  # shellcheck disable=SC2046
  "$(find_java)" $(proxy_flags) "-Divy.default.ivy.user.dir=$state/ivy" \
    -cp "$(echo "$shipped"/ivy-*.jar):$(echo "$shipped"/commons-cli-*.jar)" org.apache.ivy.Main \
    ${TXLOOM_IVY_SETTINGS:+-settings "$TXLOOM_IVY_SETTINGS"} -cache "$state/ivy/cache" \
    -ivy "$root/scripts/ivy/jars.xml" -retrieve "$state/jars.new/[artifact]-[revision].[ext]" \
    2>&1 | tee "$log" | sed -n 's|^downloading .*/\([^/ ]*\.jar\).*|      \1|p'
}

whole "$folder" && exit 0
mkdir -p "$state/log"
for try in 1 2 3; do
  rm -rf "$state/jars.new"
  resolve || true
  if whole "$state/jars.new"; then
    rm -rf "$folder"
    mv "$state/jars.new" "$folder"
    exit 0
  fi
  [ "$try" = 3 ] || echo "      attempt $try failed, trying again"
  sleep 2
done
echo "txloom: the jars of scripts/ivy/jars.xml could not be fetched, or are not the expected ones. See $log" >&2
exit 1
