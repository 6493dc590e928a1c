"""Execute the steps of the Dockerfile in root file systems, on a machine without Docker: as root, with debootstrap.

    python scripts/run_dockerfile.py FOLDER [--mirror URL]

Each stage becomes a folder in FOLDER. A stage that begins from Debian is made by debootstrap, one that begins from
another stage is a copy of it; RUN runs in it by chroot as the stage's USER, COPY takes what .dockerignore leaves. What
only Docker does (layers, HEALTHCHECK, ENTRYPOINT, the image itself) is left out, and said at the end.
"""

import argparse
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEBIAN = re.compile(r"debian:(?P<suite>\w+)(-slim)?(@.*)?")
CERTIFICATES = ("etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/java/cacerts")
"""What this machine trusts, a proxy's certificate among it, is trusted there too."""
DOCKERS = ("HEALTHCHECK", "ENTRYPOINT", "CMD", "EXPOSE", "LABEL")


@dataclass
class Stage:
    """One stage: its folder, and what holds for its next steps."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    working: str = "/"
    shell: list[str] = field(default_factory=lambda: ["/bin/sh", "-c"])


def main() -> int:
    """Execute all steps and return the exit code."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folder", type=Path)
    flags.add_argument("--mirror", default="", help="of Debian; by default debootstrap's own")
    given = flags.parse_args()
    stages, stage, arguments, left_out = dict[str, Stage](), None, dict[str, str](), list[str]()
    for number, (word, rest) in enumerate(steps((ROOT / "Dockerfile").read_text()), 1):
        print(f"[{number}] {word} {rest[:100]}", flush=True)
        if word == "ARG":
            name, _, value = rest.partition("=")
            arguments[name] = value
        elif word == "FROM":
            base, _, name = rest.partition(" AS ")
            base = re.sub(r"\$\{(\w+)\}", lambda named: arguments[named[1]], base)
            stage = stages[name] = begun(base, given.folder / name, stages, given.mirror)
        elif word in DOCKERS:
            left_out.append(word)
        else:
            assert stage is not None
            done(word, rest, stage, stages)
    print(f"every step was executed, but for what only Docker does: {', '.join(dict.fromkeys(left_out))}")
    return 0


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield the word and the rest of each instruction; lines that go on are joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def begun(base: str, folder: Path, stages: dict[str, Stage], mirror: str) -> Stage:
    """Return a new stage: a copy of an earlier one, or Debian."""
    shutil.rmtree(folder, ignore_errors=True)
    if base in stages:
        before = stages[base]
        subprocess.run(["cp", "--archive", "--reflink=auto", before.folder, folder], check=True)
        return Stage(folder, dict(before.variables), before.user, before.working, list(before.shell))
    known = DEBIAN.fullmatch(base)
    if known is None:
        sys.exit(f"{base}: only Debian can be made here")
    command = ["debootstrap", "--variant=minbase", known["suite"], str(folder), *([mirror] if mirror else [])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for file in ("etc/resolv.conf", "etc/hosts", "etc/apt/apt.conf.d/99machine"):
        if Path("/", file).is_file():
            shutil.copyfile(f"/{file}", folder / file)
    return Stage(folder)


def done(word: str, rest: str, stage: Stage, stages: dict[str, Stage]) -> None:
    """Execute one instruction in a stage."""
    if word == "RUN":
        run(stage, rest)
    elif word == "COPY":
        copy(stage, rest, stages)
    elif word == "ENV":
        stage.variables |= dict(part.split("=", 1) for part in shlex.split(rest))
    elif word == "USER":
        stage.user = rest
    elif word == "WORKDIR":
        stage.working = rest
        (stage.folder / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif word == "SHELL":
        stage.shell = json.loads(rest)
    else:
        sys.exit(f"{word}: an instruction that this program does not know")


def run(stage: Stage, command: str) -> None:
    """Run a command in a stage, with the file systems that a container has."""
    user, _, group = stage.user.partition(":")
    for file in CERTIFICATES:
        if Path("/", file).is_file() and (stage.folder / file).is_file():
            shutil.copyfile(Path("/", file), stage.folder / file)
    processes, devices = stage.folder / "proc", stage.folder / "dev"
    for place in (processes, devices):
        place.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", "/dev", devices], check=True)
    kept = {name: value for name, value in machine().items() if name not in stage.variables}
    variables = {"HOME": "/root" if user == "0" else "/home/airflow", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    settings = [f"{name}={value}" for name, value in {**variables, **kept, **stage.variables}.items()]
    inside = f"cd {shlex.quote(stage.working)} && {command}"
    try:
        # As in a container, nothing that the command started outlives it: a JVM that was about to end held a mount.
        alone = ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={processes}"]
        entered = ["chroot", f"--userspec={user}:{group or user}", stage.folder, "/usr/bin/env", "-i", *settings]
        subprocess.run([*alone, *entered, *stage.shell, inside], check=True)
    finally:
        subprocess.run(["umount", devices], check=True)


def machine() -> dict[str, str]:
    """Return what this machine's environment says of proxies and mirrors, which a build is given as arguments."""
    known = re.compile(r"(?i)(https?_proxy|no_proxy|pip_.*|uv_.*|ssl_cert_file|txloom_ivy_settings)")
    return {name: value for name, value in os.environ.items() if known.fullmatch(name)}


def copy(stage: Stage, rest: str, stages: dict[str, Stage]) -> None:
    """Copy files from the project, or from another stage."""
    options, names = list[str](), list[str]()
    for part in rest.split():
        (options if part.startswith("--") else names).append(part)
    *sources, target = names
    chosen = dict(option[2:].split("=", 1) for option in options)
    origin = stages[chosen["from"]] if "from" in chosen else None
    into = stage.folder / str(Path(stage.working, target)).lstrip("/")
    for source in sources:
        start = origin.folder / source.lstrip("/") if origin else ROOT / source
        place = into / Path(source).name if target.endswith("/") else into
        place.parent.mkdir(parents=True, exist_ok=True)
        if start.is_dir():
            left_out = None if origin else ignored
            shutil.copytree(start, place, symlinks=True, dirs_exist_ok=True, ignore=left_out)
        else:
            assert origin or not is_ignored(start), f"{source} is not in the context: see .dockerignore"
            shutil.copy2(start, place)
        if "chown" in chosen:
            subprocess.run(["chown", "--recursive", "--no-dereference", chosen["chown"], place], check=True)


def ignored(folder: str, names: list[str]) -> set[str]:
    """Return which of some names in a folder .dockerignore leaves out."""
    return {name for name in names if is_ignored(Path(folder, name))}


def is_ignored(path: Path) -> bool:
    """Return whether .dockerignore leaves a file or folder out of the context; the last line that matches decides."""
    name, verdict = path.relative_to(ROOT).as_posix(), False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        plain = pattern.removeprefix("!").removeprefix("**/")
        parts = [name, *(parent.as_posix() for parent in Path(name).parents)]
        if any(fnmatch.fnmatch(part, plain) or Path(part).name == plain for part in parts):
            verdict = not pattern.startswith("!")
    return verdict


if __name__ == "__main__":
    sys.exit(main())
