#!/usr/bin/env bash
# Make a Chromium available for tests of the page, and print the program.
#
#     scripts/fetch_chromium.sh
#
# Takes TXLOOM_CHROMIUM, or chromium or chromium-browser on PATH; else installs Debian's package chromium as root. Exit
# code 3: it cannot be had on this machine, and why.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/debian.sh"
log="$root/.state/log/chromium.log"

# runs PROGRAM: whether it is a Chromium that starts.
runs() { [ -n "$1" ] && "$1" --version 2>/dev/null | grep -qi chrom; }

# find_chromium: prints the first program that serves.
find_chromium() {
  local program
  if [ -n "${TXLOOM_CHROMIUM:-}" ]; then
    runs "$TXLOOM_CHROMIUM" && echo "$TXLOOM_CHROMIUM"
    return 0
  fi
  for program in chromium chromium-browser; do
    program=$(command -v "$program") && runs "$program" && echo "$program" && return 0
  done
  return 0
}

impossible() {
  echo "txloom: Chromium cannot be had on this machine: $*. Install Debian's package chromium (apt-get install chromium)," \
    "or name a program with TXLOOM_CHROMIUM." >&2
  exit 3
}

alone chromium
found=$(find_chromium)
if [ -z "$found" ]; then
  [ -z "${TXLOOM_CHROMIUM:-}" ] || impossible "TXLOOM_CHROMIUM=$TXLOOM_CHROMIUM does not start"
  command -v apt-get >/dev/null || impossible "it is not installed, and there is no apt-get to take Debian's with"
  [ "$(id -u)" = 0 ] || impossible "it is not installed, and only root can install it"
  echo "[chromium] it is not installed: taking Debian's (see $log)" >&2
  install chromium >"$log" 2>&1 || impossible "Debian's package could not be installed ($(tail -n 1 "$log"))"
  found=$(find_chromium)
  [ -n "$found" ] || impossible "what Debian has here does not run (see $log)"
fi
echo "$found"
