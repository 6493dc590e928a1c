"""Arrow's file system of a path or URI, for everything but Delta's logs: data files, checkpoints, reports, sources."""

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from txloom.storage.stores import access


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it.

    Raises ConfigurationError for a URI of a store that not all libraries know.
    """
    scheme = access.scheme_of(path)
    if scheme == access.FILE:
        return fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
    parts = urlsplit(path)
    if scheme == access.HDFS:
        return _hdfs(parts.netloc), parts.path
    if scheme == access.AZURE:
        inside = f"{parts.username}{parts.path}"
        return _made(fs.AzureFileSystem, tuple(access.arrow_options(path).items())), inside
    inside = f"{parts.netloc}{parts.path}"
    if scheme == access.GOOGLE:
        return _made(fs.GcsFileSystem, ()), inside
    return _made(fs.S3FileSystem, tuple(access.arrow_options(path).items())), inside


@lru_cache(16)
def _made(kind: Any, options: tuple[tuple[str, Any], ...]) -> fs.FileSystem:
    """Return a file system, made once for its options: it holds connections."""
    made: fs.FileSystem = kind(**dict(options))
    return made


@lru_cache(16)
def _hdfs(server: str) -> fs.FileSystem:
    """Return the file system of a name node, by hdfs-native: Arrow's needs libhdfs, which no package brings."""
    from txloom.storage.stores.hdfs import Hdfs

    return fs.PyFileSystem(Hdfs(server))  # type: ignore[abstract]  # the stubs have its methods as abstract


def clear(folder: str) -> None:
    """Remove what is in a folder, such as what a job that was killed has left; nobody else may be working there."""
    filesystem, path = filesystem_of(folder)
    if filesystem.get_file_info(path).type != fs.FileType.NotFound:
        filesystem.delete_dir_contents(path)


def has_rename(filesystem: fs.FileSystem) -> bool:
    """Return whether a file can be moved over another in one step; where not, it is seen once it is written whole."""
    return not isinstance(filesystem, fs.S3FileSystem | fs.GcsFileSystem)
