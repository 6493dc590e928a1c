#!/usr/bin/env bash
# Make PostgreSQL's server programs available for tests, and print the folder that holds them.
#
#     scripts/fetch_postgres.sh [--wal2json]
#
# Takes the installed ones (initdb on PATH, or Debian's own place) of version 15 or later; else installs Debian's package
# as root, or unpacks it into .state/postgres as anyone. TXLOOM_POSTGRES names a folder to take instead. --wal2json adds
# that output plugin where Debian has it; where not, a line on stderr says so. Exit code 3: PostgreSQL cannot be had on
# this machine, and why.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/debian.sh"
oldest=15
unpacked="$root/.state/postgres"
log="$root/.state/log/postgres.log"
wanted_plugin=${1:-}

# major BIN: prints 15 for a folder whose postgres is 15.18.
major() { "$1/postgres" --version 2>/dev/null | sed -n 's/^postgres (PostgreSQL) \([0-9][0-9]*\).*/\1/p'; }

# serves BIN: whether the folder holds all that tests need, new enough.
serves() {
  local version
  [ -x "$1/initdb" ] && [ -x "$1/postgres" ] && [ -x "$1/psql" ] && version=$(major "$1") && [ "${version:-0}" -ge "$oldest" ]
}

# candidates: prints the folders to look into; PATH may hold only links into one.
candidates() {
  local found
  if [ -n "${TXLOOM_POSTGRES:-}" ]; then
    echo "$TXLOOM_POSTGRES"
    return
  fi
  found=$(command -v initdb) && dirname "$(readlink -f "$found")"
  printf '%s\n' /usr/lib/postgresql/*/bin | sort -t/ -k5 -rn
  echo "$unpacked/bin"
}

# find_bin: prints the first of them that serves.
find_bin() {
  local candidate
  while read -r candidate; do
    if serves "$candidate"; then
      echo "$candidate"
      return
    fi
  done < <(candidates)
}

# install_server: without Debian's habit of making and starting a database for everyone.
install_server() {
  local quiet=/etc/postgresql-common/createcluster.d/txloom.conf code=0
  install postgresql-common || return 1
  mkdir -p "$(dirname "$quiet")"
  echo "create_main_cluster = false" >"$quiet"
  install postgresql || code=1
  rm -f "$quiet"
  return $code
}

# unpack PACKAGE: its files, and those of the programs and libraries it needs that this machine lacks, into .state/postgres.
unpack() {
  local names
  rm -rf "$unpacked.new"
  apt update || true
  # LLVM only compiles queries faster; it is larger than all the rest.
  names=$(apt --simulate --no-install-recommends install "$1" |
    sed -n 's/^Inst \(postgresql-[0-9][^ ]*\|postgresql-client-[0-9][^ ]*\|lib[^ ]*\) .*/\1/p' | grep -v '^libllvm') || return 1
  # shellcheck disable=SC2086
  unpack_into "$unpacked.new" $names || return 1
  rm -rf "$unpacked"
  mv "$unpacked.new" "$unpacked"
  wrap
}

# wrap: gives each program a front in .state/postgres/bin that finds the libraries beside it.
wrap() {
  local program libraries
  mkdir -p "$unpacked/bin"
  libraries=$(find "$unpacked/usr/lib" "$unpacked/lib" -maxdepth 1 -name '*-linux-*' 2>/dev/null | paste -sd: -)
  for program in "$unpacked"/usr/lib/postgresql/*/bin/*; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libraries" "$program" \
      >"$unpacked/bin/$(basename "$program")"
  done
  chmod +x "$unpacked"/bin/*
}

# has_plugin BIN: whether the server there can load wal2json.
has_plugin() { [ -e "$("$1/pg_config" --pkglibdir 2>/dev/null)/wal2json.so" ]; }

# add_plugin BIN: installs or unpacks wal2json for the server there.
add_plugin() {
  local package
  package=postgresql-$(major "$1")-wal2json
  case "$1" in
    "$unpacked"/*) { apt update || true; } && unpack_into "$unpacked" "$package" ;;
    *) as_root && install "$package" ;;
  esac
}

impossible() {
  echo "txloom: PostgreSQL $oldest or later cannot be had on this machine: $*." \
    "Install one, or put its initdb on PATH." >&2
  exit 3
}

alone postgres
bin=$(find_bin)
if [ -z "$bin" ]; then
  [ -z "${TXLOOM_POSTGRES:-}" ] ||
    impossible "TXLOOM_POSTGRES=$TXLOOM_POSTGRES holds no initdb, postgres and psql of it"
  command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    impossible "none is installed, and there is no apt-get to take Debian's with"
  echo "[postgres] none of version $oldest or later is installed: taking Debian's (see $log)" >&2
  : >"$log"
  { as_root && install_server; } >>"$log" 2>&1 || unpack postgresql >>"$log" 2>&1 ||
    impossible "none is installed, and Debian's package could not be fetched ($(tail -n 1 "$log"))"
  bin=$(find_bin)
  [ -n "$bin" ] || impossible "what Debian has here is older, or does not run (see $log)"
fi
if [ "$wanted_plugin" = --wal2json ] && ! has_plugin "$bin"; then
  echo "[postgres] taking Debian's wal2json (see $log)" >&2
  add_plugin "$bin" >>"$log" 2>&1 && has_plugin "$bin" ||
    echo "txloom: wal2json could not be added to $bin. See $log" >&2
fi
echo "$bin"
