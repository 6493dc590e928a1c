#!/usr/bin/env bash
# Make MySQL's server program available for tests, and print the folder that holds sbin and share.
#
#     scripts/fetch_mysql.sh
#
# Takes the installed one of version 8.0 or later; else unpacks Debian's into .state/mysql, with all libraries that it
# needs: only the newest Debian (sid) has MySQL, so that even its C library is another one than this machine's.
# TXLOOM_MYSQL names a folder to take instead. Exit code 3: MySQL cannot be had on this machine, and why.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/debian.sh"
oldest=8.0
release=sid
package=mysql-server-core
unpacked="$root/.state/mysql"
private="$root/.state/apt-$release"
log="$root/.state/log/mysql.log"

# serves FOLDER: whether it holds a server, new enough, that is not MariaDB's.
serves() {
  local version
  [ -x "$1/sbin/mysqld" ] && version=$("$1/sbin/mysqld" --no-defaults --version 2>/dev/null | grep -v MariaDB |
    sed -n 's/.*Ver \([0-9]*\.[0-9]*\)\..*/\1/p') &&
    not_older "$oldest" "$version"
}

# find_server: prints the first folder that serves.
find_server() { first_that_serves ${TXLOOM_MYSQL:-/usr /usr/local "$unpacked/usr"}; }

# archive: where this machine has Debian's packages from.
archive() {
  apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
    sed -n '/security/d; s, [^ ]*$,,; \,/debian/*$,p' | head -n 1
}

# unpack: the program and all libraries that it needs.
unpack() {
  local names from
  from=$(archive)
  [ -n "$from" ] || { echo "no archive of Debian is among this machine's sources of packages"; return 1; }
  rm -rf "$unpacked.new" "$private"
  mkdir -p "$private"
  : >"$private/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $release main" >"$private/sources.list"
  # The packages of the newest Debian alone, none of which is installed.
  apt_options=(-o "Dir::Etc::SourceList=$private/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::status=$private/status")
  apt update || true
  names=$(apt --simulate --no-install-recommends install "$package" |
    sed -n "s/^Inst \(lib[^ ]*\|zlib1g\|$package\) .*/\1/p" | grep -v '^libperl') || return 1
  # shellcheck disable=SC2086
  unpack_into "$unpacked.new" $names || return 1
  rm -rf "$unpacked"
  mv "$unpacked.new" "$unpacked"
  front "$unpacked/usr/sbin/mysqld"
}

# front PROGRAM: puts a front in its place that starts it with the C library and the others beside it.
front() {
  local loader
  loader=$(find "$unpacked/usr/lib" "$unpacked/usr/lib64" -name 'ld-linux-*' 2>/dev/null | head -n 1)
  mv "$1" "$1.unpacked"
  printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
    "$loader" "$(dirname "$(find "$unpacked/usr/lib" -name 'libc.so.*' | head -n 1)")" "$1.unpacked" >"$1"
  chmod +x "$1"
}

impossible() {
  echo "txloom: MySQL $oldest or later cannot be had on this machine: $*. Install MySQL's server." >&2
  exit 3
}

alone mysql
server=$(find_server)
if [ -z "$server" ]; then
  [ -z "${TXLOOM_MYSQL:-}" ] || impossible "TXLOOM_MYSQL=$TXLOOM_MYSQL holds no server of it"
  command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    impossible "none is installed, and there is no apt-get to take Debian's with"
  echo "[mysql] none of version $oldest or later is installed: taking that of Debian $release (50 MB, see $log)" >&2
  : >"$log"
  unpack >>"$log" 2>&1 ||
    impossible "none is installed, and Debian's packages could not be fetched ($(tail -n 1 "$log"))"
  server=$(find_server)
  [ -n "$server" ] || impossible "what Debian has here is older, or does not run (see $log)"
fi
echo "$server"
