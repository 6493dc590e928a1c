# Debian's packages: functions. Sourced with $root set, never run.

# alone NAME: waits until no other run fetches NAME, and keeps others waiting until this one ends.
alone() {
  mkdir -p "$root/.state/log"
  if command -v flock >/dev/null; then
    exec 9>"$root/.state/log/$1.lock"
    flock 9
  fi
}

# install PACKAGE: as root; a list that cannot be had anew may still do.
install() {
  apt-get update || true
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends "$1"
}

# as_root: whether packages can be installed.
as_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

private="$root/.state/apt"

# not_older OLDEST VERSION: whether a version is the oldest that will do, or a later one.
not_older() { [ "$(printf '%s\n' "$1" "${2:-0}" | sort -V | head -n 1)" = "$1" ]; }

# first_that_serves FOLDER...: prints the first folder for which the caller's `serves` holds.
first_that_serves() {
  local candidate
  for candidate in "$@"; do
    if serves "$candidate"; then
      echo "$candidate"
      return
    fi
  done
}

# What `apt` says besides, where a caller wants other packages than this machine's.
apt_options=()

# apt ...: apt-get with lists of its own, so that it needs no rights.
apt() {
  mkdir -p "$private/lists/partial" "$private/archives/partial"
  apt-get -o "Dir::State::lists=$private/lists" -o "Dir::Cache=$private" -o Debug::NoLocking=true \
    -o "APT::Sandbox::User=" ${apt_options[@]+"${apt_options[@]}"} "$@"
}

# unpack_into FOLDER PACKAGE...: the files of these packages.
unpack_into() {
  local folder=$1 debs="$private/debs" file
  shift
  rm -rf "$debs"
  mkdir -p "$debs" "$folder"
  (cd "$debs" && apt download "$@") || return 1
  for file in "$debs"/*.deb; do
    dpkg -x "$file" "$folder" || return 1
  done
  rm -rf "$private"
}
