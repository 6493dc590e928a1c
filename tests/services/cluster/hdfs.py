"""HDFS: a name node and a data node, by Hadoop's minicluster."""

from pathlib import Path
from typing import Self

from services import jvm
from services.fetched import minicluster
from services.process import Service, free_port, listens

SETTINGS = {
    "dfs.replication": "1",
    # A file that is open takes a whole block of the free disk: 65 tables are written at once.
    "dfs.blocksize": "8m",
    "dfs.permissions.enabled": "false",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
}


class Node(Service):
    """One of its processes."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder)
        self.name = kind
        self.main = f"org.apache.hadoop.hdfs.server.{kind.lower()}.{kind}"

    def command(self, *arguments: str) -> list[str]:
        return [jvm.java(), *jvm.SMALL, "-cp", f"{self.folder}:{minicluster()}", self.main, *arguments]

    def start(self) -> None:
        self._launch(self.command())

    def format(self) -> None:
        """Make the name node's folder."""
        self._launch(self.command("-format", "-force", "-nonInteractive"))
        assert self._process is not None
        assert self._process.wait(60) == 0, self.tail()
        self._process = None


class Hdfs:
    """A cluster that begins empty."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        named = {
            **SETTINGS,
            "fs.defaultFS": self.uri,
            "dfs.namenode.name.dir": str(folder / "names"),
            "dfs.datanode.data.dir": str(folder / "blocks"),
        }
        lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in named.items()]
        (folder / "hdfs-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        self.names, self.data = Node(folder, "NameNode"), Node(folder, "DataNode")

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.names.format()
        self.names.start()
        self.names._wait(lambda: listens(self.port), f"it listened on port {self.port}")
        self.data.start()
        self.data._wait(self._takes_files, "it took a file")
        return self

    def __exit__(self, *error: object) -> None:
        self.data.stop()
        self.names.stop()

    def _takes_files(self) -> bool:
        from txloom.storage.stores.file_systems import filesystem_of

        filesystem, path = filesystem_of(f"{self.uri}/ready")
        try:
            with filesystem.open_output_stream(path) as stream:
                stream.write(b"ready")
        except (OSError, RuntimeError):  # hdfs-native has no class for a cluster that is not ready
            return False
        filesystem.delete_file(path)
        return True
