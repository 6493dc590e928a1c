# Files by Ivy, the one that pyspark ships: functions. Sourced with $root set, after machine.sh, never run.

# whole FOLDER LIST: whether the files that LIST names are in FOLDER and have its sha256.
whole() {
  [ -d "$1" ] || return 1
  if command -v sha256sum >/dev/null; then
    (cd "$1" && sha256sum --check --status "$2" 2>/dev/null)
  else
    (cd "$1" && shasum -a 256 -c "$2" >/dev/null 2>&1)
  fi
}

# proxy_flags: prints what tells Java of the proxy in https_proxy.
proxy_flags() {
  local proxy=${https_proxy:-${HTTPS_PROXY:-}}
  proxy=${proxy#*://}
  proxy=${proxy##*@}
  proxy=${proxy%/}
  if [ -n "$proxy" ]; then
    echo "-Dhttps.proxyHost=${proxy%:*} -Dhttps.proxyPort=${proxy##*:}"
  fi
}

# retrieve PYTHON XML PATTERN: puts the files of XML where PATTERN says, and prints what Ivy says.
retrieve() {
  local shipped
  shipped=$("$1" -c 'import importlib.util; print(importlib.util.find_spec("pyspark").submodule_search_locations[0])')/jars
  # shellcheck disable=SC2046
  "$(find_java)" $(proxy_flags) "-Divy.default.ivy.user.dir=$root/.state/ivy" \
    -cp "$(echo "$shipped"/ivy-*.jar):$(echo "$shipped"/commons-cli-*.jar)" org.apache.ivy.Main \
    ${TXLOOM_IVY_SETTINGS:+-settings "$TXLOOM_IVY_SETTINGS"} -cache "$root/.state/ivy/cache" \
    -ivy "$2" -retrieve "$3" 2>&1
}
