"""Finding logs: on this machine, or in remote file systems by URIs such as s3:// and hdfs://.

    harbour/4.3.1, file:///data/log        Local files, which are read in pieces.
    s3:// gs:// abfss:// hdfs://           Remote files. `pyarrow.fs.FileSystem.from_uri` opens the URI, which can
                                           contain settings of the file system as query parameters:
                                           s3://bucket/log?endpoint_override=127.0.0.1:9000&scheme=http

A path is a segment, a folder of segments, or a folder of partition folders (`open_logs`, segments.py). A remote segment
is read as a whole, when the load reaches this segment. With Spark, remote segments are read by the workers, and not by
the driver. Error messages show a URI without its password and its query parameters.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from kafkagroups.errors import UsageError
from kafkagroups.log.batch_frames import BytesLike
from kafkagroups.log.folders import NO_LOG_FOUND, check_one_log_per_partition, open_logs
from kafkagroups.log.segment_file import is_segment_name, partition_of_folder
from kafkagroups.log.segments import Log

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

KNOWN_SCHEMES = ("s3", "gs", "abfss", "hdfs", "file")
"""The schemes (the first part of a URI) that error messages suggest."""
LISTING_THREADS = 16
"""The number of remote folders that are listed at the same time, because each request waits for the network."""

_URI_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def local_path(path: str) -> str | None:
    """Return a local path, without `file://`. Return None if `path` is a remote URI."""
    if not _URI_PREFIX.match(path):
        return path
    return unquote(_split(path).path) if path.lower().startswith("file:") else None


def find_logs(path: str | os.PathLike[str], folder: str = "") -> list[Log]:
    """Return the logs at a path or URI. A relative path is resolved in `folder`.

    The paths in the logs stay relative, and each log contains `folder`. So a Spark task can read the logs, although its
    process has another working directory. Raises UsageError if the path does not exist or contains no log. Raises
    UsageError, too, if the file system is unknown or raises an error.
    """
    path_or_uri = os.fspath(path)
    local = local_path(path_or_uri)
    if local is None:
        return _find_remote_logs(path_or_uri)
    full_path = os.path.join(folder, local)
    return [
        Log(
            local + log.path.removeprefix(full_path),
            [local + segment.removeprefix(full_path) for segment in log.segments],
            log.partition,
            folder=folder,
        )
        for log in open_logs(full_path)
    ]


def find_all_logs(paths: Sequence[str], folder: str = "") -> list[Log]:
    """Return the logs of all paths, in the order of the paths. Remote paths are searched at the same time."""
    has_remote_path = any(local_path(path) is None for path in paths)
    with ThreadPoolExecutor(LISTING_THREADS if has_remote_path else 1) as pool:
        return [log for logs in pool.map(lambda path: find_logs(path, folder), paths) for log in logs]


@dataclass(frozen=True)
class RemoteSegments(Mapping[str, BytesLike]):
    """The bytes of each segment of a remote log, by the segment's name. Each access fetches the bytes again."""

    uris: Mapping[str, str]
    """The full URI of each segment, by the segment's name. The name is the result of `public_uri`."""

    def __getitem__(self, name: str) -> BytesLike:
        uri = self.uris[name]
        system, path = file_system(uri)
        with remote_errors(uri), system.open_input_file(path) as file:
            return memoryview(file.read_buffer(file.size()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.uris)

    def __len__(self) -> int:
        return len(self.uris)


def public_uri(uri: str) -> str:
    """Return a URI without its password, query parameters and fragment, for messages."""
    parts = _split(uri)
    return f"{parts.scheme}://{re.sub(':[^@]*@', '@', parts.netloc)}{parts.path}"


def _split(uri: str) -> SplitResult:
    """Return the parts of a URI. Raises UsageError if the URI is malformed."""
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise UsageError(_without_secrets(f"{uri}: {error}")) from None


def _find_remote_logs(uri: str) -> list[Log]:
    from pyarrow.fs import FileType

    system, path = file_system(uri)
    with remote_errors(uri):
        info = system.get_file_info(path)
    if info.type == FileType.NotFound:
        raise UsageError(f"{public_uri(uri)}: no such file or folder")
    if info.type == FileType.File:
        if info.extension != "log":
            raise UsageError(f"{public_uri(uri)}: expected a .log file or a folder")
        folder_name = posixpath.basename(posixpath.dirname(path))
        return [_make_remote_log(uri, folder_name, {uri: info.size})]
    entries = _list_folder(uri)
    folders = [
        _join(uri, entry.base_name)
        for entry in entries
        if entry.type == FileType.Directory and partition_of_folder(entry.base_name) is not None
    ]
    with ThreadPoolExecutor(LISTING_THREADS) as pool:
        listings = list(pool.map(_list_folder, folders))
    found_logs = [_find_log_in_folder(folder, listing) for folder, listing in zip(folders, listings, strict=True)]
    logs = [log for log in found_logs if log is not None]
    if not logs:
        log = _find_log_in_folder(uri, entries)
        if log is None:
            raise UsageError(f"{public_uri(uri)}: {NO_LOG_FOUND}")
        logs = [log]
    check_one_log_per_partition(logs)
    return sorted(logs, key=lambda log: log.partition or 0)


def _list_folder(uri: str) -> list[FileInfo]:
    from pyarrow.fs import FileSelector

    system, path = file_system(uri)
    with remote_errors(uri):
        entries: list[FileInfo] = system.get_file_info(FileSelector(path))
    return entries


def _find_log_in_folder(uri: str, entries: list[FileInfo]) -> Log | None:
    """Return the log of a folder whose content is `entries`; None if the folder contains no segment."""
    segments = sorted((entry.base_name, entry.size) for entry in entries if is_segment_name(entry.base_name))
    if not segments:
        return None
    folder_name = posixpath.basename(_split(uri).path.rstrip("/"))
    return _make_remote_log(uri, folder_name, {_join(uri, name): size for name, size in segments})


def _make_remote_log(uri: str, folder_name: str, size_by_uri: dict[str, int]) -> Log:
    """Return the log of remote segments. `size_by_uri` contains the number of bytes of each segment, by its URI.

    `folder_name` is the name of the segments' folder. It contains the partition number.
    """
    partition = partition_of_folder(folder_name)
    content = RemoteSegments({public_uri(segment_uri): segment_uri for segment_uri in size_by_uri})
    return Log(uri, list(content), partition, content, size=sum(size_by_uri.values()))


def _join(uri: str, name: str) -> str:
    parts = _split(uri)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


def file_system(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a URI, and the path in this file system.

    Raises UsageError if pyarrow cannot open the URI.
    """
    parts = _split(uri)
    # To open a file system takes time. So `_open_root` has a cache, and gets the same URI for all files of a server or
    # bucket: a URI with the path /root. pyarrow's form of this path begins with the bucket, if there is one. All other
    # paths in the file system begin in the same way.
    system, root = _open_root(parts._replace(path="/root", fragment="").geturl())
    path = root.removesuffix("root") + unquote(parts.path.strip("/"))
    return system, path.rstrip("/") or "/"


@cache
def _open_root(uri: str) -> tuple[FileSystem, str]:
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    scheme = _split(uri).scheme
    try:
        system, path = FileSystem.from_uri(uri)
        return system, path
    except (OSError, ArrowException) as error:
        reason = _first_line(error)
    if reason.startswith("Unrecognized filesystem type"):
        raise UsageError(f"{scheme}:// is an unknown file system; expected one of {', '.join(KNOWN_SCHEMES)}")
    if scheme in ("hdfs", "viewfs"):
        reason += "; it needs Hadoop's libhdfs and Java's libjvm (set HADOOP_HOME or ARROW_LIBHDFS_DIR, and JAVA_HOME)"
    raise UsageError(f"{scheme}:// cannot be opened: {reason}")


@contextmanager
def remote_errors(uri: str) -> Iterator[None]:
    """Convert an OSError of a remote file system into a UsageError of one line that contains the URI."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{public_uri(uri)}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return _without_secrets(str(error).strip().partition("\n")[0])


def _without_secrets(text: str) -> str:
    return re.sub("://.*@", "://", text)
