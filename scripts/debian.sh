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
