"""HDFS as a file system of Arrow's, by hdfs-native."""

from datetime import UTC, datetime
from typing import Any

from hdfs_native.fsspec import HdfsFileSystem
from pyarrow import fs


class Hdfs(fs.FSSpecHandler):
    """What Arrow asks of a file system, of that of a name node."""

    def __init__(self, server: str) -> None:
        """Take the name node as HOST:PORT, or the name of a service that Hadoop's configuration knows."""
        self.client = HdfsFileSystem(server)
        super().__init__(self.client)

    @staticmethod
    def _create_file_info(path: str, info: dict[str, Any]) -> fs.FileInfo:
        """Return what is known of a file: fsspec has no one name for when it was changed."""
        is_file = info["type"] == "file"
        changed = datetime.fromtimestamp(info["modification_time"] / 1000, UTC)
        kind = fs.FileType.File if is_file else fs.FileType.Directory
        return fs.FileInfo(path, kind, size=info["size"] if is_file else None, mtime=changed)

    def move(self, src: str, dest: str) -> None:
        """Move a file over another in one step."""
        self.client.mv(src, dest, overwrite=True)
