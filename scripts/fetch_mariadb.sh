#!/usr/bin/env bash
# Make MariaDB's server programs available for tests, and print the folder that holds bin, sbin and share.
#
#     scripts/fetch_mariadb.sh
#
# Takes the installed ones of version 10.5 or later; else installs Debian's packages as root, or unpacks them into
# .state/mariadb as anyone. TXLOOM_MARIADB names a folder to take instead. Exit code 3: MariaDB cannot be had on this
# machine, and why.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/debian.sh"
oldest=10.5
packages="mariadb-server-core mariadb-client-core"
unpacked="$root/.state/mariadb"
log="$root/.state/log/mariadb.log"

# serves FOLDER: whether it holds all that tests need, new enough.
serves() {
  local version
  [ -x "$1/bin/mariadb-install-db" ] && [ -x "$1/bin/my_print_defaults" ] && [ -x "$1/sbin/mariadbd" ] &&
    version=$("$1/sbin/mariadbd" --version 2>/dev/null | sed -n 's/.*Ver \([0-9]*\.[0-9]*\)\..*/\1/p') &&
    not_older "$oldest" "$version"
}

# find_server: prints the first folder that serves.
find_server() { first_that_serves ${TXLOOM_MARIADB:-/usr /usr/local "$unpacked/usr"}; }

# install_server: the programs alone; no package of these makes or starts a database.
install_server() {
  local package
  for package in $packages; do
    install "$package" || return 1
  done
}

# unpack: the programs, and the libraries that they need and this machine lacks, into .state/mariadb.
unpack() {
  local names program
  rm -rf "$unpacked.new"
  apt update || true
  # shellcheck disable=SC2086
  names=$(apt --simulate --no-install-recommends install $packages |
    sed -n 's/^Inst \(mariadb-server-core[^ ]*\|mariadb-client-core[^ ]*\|lib[^ ]*\) .*/\1/p' | grep -v '^libdbi') || return 1
  # shellcheck disable=SC2086
  unpack_into "$unpacked.new" $names || return 1
  rm -rf "$unpacked"
  mv "$unpacked.new" "$unpacked"
  for program in sbin/mariadbd bin/my_print_defaults bin/resolveip; do
    front "$unpacked/usr/$program"
  done
}

# front PROGRAM: puts a front in its place that finds the libraries beside it.
front() {
  local libraries
  libraries=$(find "$unpacked/usr/lib" "$unpacked/lib" -maxdepth 1 -name '*-linux-*' 2>/dev/null | paste -sd: -)
  mv "$1" "$1.unpacked"
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libraries" "$1.unpacked" >"$1"
  chmod +x "$1"
}

impossible() {
  echo "txloom: MariaDB $oldest or later cannot be had on this machine: $*. Install mariadb-server-core." >&2
  exit 3
}

alone mariadb
server=$(find_server)
if [ -z "$server" ]; then
  [ -z "${TXLOOM_MARIADB:-}" ] || impossible "TXLOOM_MARIADB=$TXLOOM_MARIADB holds no server of it"
  command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    impossible "none is installed, and there is no apt-get to take Debian's with"
  echo "[mariadb] none of version $oldest or later is installed: taking Debian's (see $log)" >&2
  : >"$log"
  { as_root && install_server; } >>"$log" 2>&1 || unpack >>"$log" 2>&1 ||
    impossible "none is installed, and Debian's packages could not be fetched ($(tail -n 1 "$log"))"
  server=$(find_server)
  [ -n "$server" ] || impossible "what Debian has here is older, or does not run (see $log)"
fi
echo "$server"
