"""A standalone cluster of Spark: a master and workers, on machines that have Java, Python and Spark, and no more."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from services import jvm
from services.process import Service, free_port, listens

SPARK = Path(pyspark.__file__).parent


class Node(Service):
    """A process of Spark's own, with an empty home and nothing of this project."""

    name = "node"

    def _spark(self, main: str, *arguments: object) -> None:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        python = Path(getattr(sys, "_base_executable", sys.executable)).resolve().parent
        self._launch(
            [SPARK / "bin" / "spark-class", main, *arguments],
            environment={
                "HOME": str(home),
                "PATH": os.pathsep.join([str(python), str(Path(jvm.java()).resolve().parent), "/usr/bin", "/bin"]),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_HOME": str(SPARK),
                "SPARK_LOCAL_DIRS": str(self.folder / "local"),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )


class Master(Node):
    """The master."""

    name = "master"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._spark("org.apache.spark.deploy.master.Master", "-h", "127.0.0.1", "-p", self.port, "--webui-port", 0)
        self._wait(lambda: listens(self.port), f"it listened on port {self.port}")


class Worker(Node):
    """A worker with one core."""

    name = "worker"

    def __init__(self, folder: Path, master: Master, memory: str = "3g") -> None:
        super().__init__(folder)
        self.master, self.memory = master, memory

    def start(self) -> None:
        main, work = "org.apache.spark.deploy.worker.Worker", self.folder / "work"
        limits = ("-c", 1, "-m", self.memory, "-d", work, "--webui-port", 0, "-h", "127.0.0.1")
        self._spark(main, *limits, self.master.url)
        self._wait(lambda: "Successfully registered" in self.log.read_text(), "it was registered")

    def die(self) -> None:
        """Go as a machine goes: its executors, then itself."""
        for executor in self.executors():
            os.kill(executor, signal.SIGKILL)
        self.kill()

    def executors(self) -> list[int]:
        """Return the process ids of the executors that run for it."""
        return [
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdigit() and self._is_executor(folder / "cmdline")
        ]

    def _is_executor(self, command: Path) -> bool:
        try:
            words = command.read_bytes().split(b"\0")
        except OSError:
            return False
        return (
            b"--worker-url" in words
            and str(self.folder).encode() in (command.parent / "cwd").resolve().as_posix().encode()
        )


class Cluster:
    """A master with some workers."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.master = Master(folder / "master")
        self.workers = [Worker(folder / f"worker-{number}", self.master) for number in range(workers)]
        self._running = ExitStack()

    @property
    def url(self) -> str:
        return self.master.url

    def __enter__(self) -> Self:
        for each in (self.master, *self.workers):
            self._running.enter_context(each)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._running.close()

    def logs(self) -> Sequence[Path]:
        """Return what executors have written to standard error."""
        return [log for worker in self.workers for log in sorted(worker.folder.glob("work/*/*/stderr"))]
