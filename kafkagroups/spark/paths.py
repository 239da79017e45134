"""Where logs are: files of this machine, or of any file system that pyarrow knows.

    harbour/4.3.1, file:///data/log        this machine's files, read piece by piece
    s3:// gs:// abfss:// hdfs://           `pyarrow.fs.FileSystem.from_uri` opens it, its query parameters included:
                                           s3://bucket/log?endpoint_override=127.0.0.1:9000&scheme=http

The layouts are those of `log.segments.open_logs`. A segment that lies elsewhere is one buffer, read by the task that
loads it, when it comes to it. Messages name it by its URI without password and query.
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
from kafkagroups.log.segments import PARTITION_FOLDER, SEGMENT_NAME, BytesLike, Log, open_logs

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

KNOWN = ("s3", "gs", "abfss", "hdfs", "file")
LISTED_AT_ONCE = 16
"""How many folders are listed side by side: a store answers each in its own time."""

_uri = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def here(path: str) -> str | None:
    """The path of a file or folder of this machine, without `file://`; None for a URI of another file system."""
    if not _uri.match(path):
        return path
    return unquote(_parts(path).path) if path.lower().startswith("file:") else None


def find(path: str | os.PathLike[str], folder: str = "") -> list[Log]:
    """The logs at a path; a relative one begins in `folder`. They can be read in a task, too.

    UsageError: no such path, no log in it, a file system that is not known or does not answer.
    """
    given = os.fspath(path)
    if (name := here(given)) is None:
        return _find_elsewhere(given)
    whole = os.path.join(folder, name)
    return [
        Log(
            name + log.path.removeprefix(whole),
            [name + segment.removeprefix(whole) for segment in log.segments],
            log.partition,
            folder=folder,
        )
        for log in open_logs(whole)
    ]


def find_all(paths: Sequence[str], folder: str = "") -> list[Log]:
    """The logs of all paths, in order; those elsewhere are looked for side by side."""
    with ThreadPoolExecutor(LISTED_AT_ONCE if any(here(path) is None for path in paths) else 1) as pool:
        return [log for logs in pool.map(lambda path: find(path, folder), paths) for log in logs]


@dataclass(frozen=True)
class Segments(Mapping[str, BytesLike]):
    """The segments of a log that lies elsewhere: of each name the bytes, fetched whenever they are asked for."""

    uris: Mapping[str, str]
    size: int

    def __getitem__(self, name: str) -> BytesLike:
        uri = self.uris[name]
        system, path = file_system(uri)
        with told(uri), system.open_input_file(path) as file:
            return memoryview(file.read_buffer(file.size()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.uris)

    def __len__(self) -> int:
        return len(self.uris)


def name_of(uri: str) -> str:
    """A URI as messages name it."""
    parts = _parts(uri)
    return f"{parts.scheme}://{re.sub(':[^@]*@', '@', parts.netloc)}{parts.path}"


def _parts(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise UsageError(_masked(f"{uri}: {error}")) from None


def _find_elsewhere(uri: str) -> list[Log]:
    from pyarrow.fs import FileType

    system, path = file_system(uri)
    with told(uri):
        place = system.get_file_info(path)
    if place.type == FileType.NotFound:
        raise UsageError(f"{name_of(uri)}: no such file or folder")
    if place.type == FileType.File:
        if place.extension != "log":
            raise UsageError(f"{name_of(uri)}: a .log file or a folder was expected")
        return [_log(uri, posixpath.basename(posixpath.dirname(path)), {uri: place.size})]
    inside = _inside(uri)
    folders = [
        _below(uri, entry.base_name)
        for entry in inside
        if entry.type == FileType.Directory and PARTITION_FOLDER.fullmatch(entry.base_name)
    ]
    with ThreadPoolExecutor(LISTED_AT_ONCE) as pool:
        logs = [_log_in(folder, inner) for folder, inner in zip(folders, pool.map(_inside, folders), strict=True)]
    found = [log for log in logs if log] or [log for log in [_log_in(uri, inside)] if log]
    if not found:
        raise UsageError(f"{name_of(uri)}: neither a segment nor a folder __consumer_offsets-N with one")
    return sorted(found, key=lambda log: log.partition or 0)


def _inside(uri: str) -> list[FileInfo]:
    from pyarrow.fs import FileSelector

    system, path = file_system(uri)
    with told(uri):
        entries: list[FileInfo] = system.get_file_info(FileSelector(path))
    return entries


def _log_in(uri: str, inside: list[FileInfo]) -> Log | None:
    """The log of a folder in which these files are."""
    segments = sorted((entry.base_name, entry.size) for entry in inside if SEGMENT_NAME.fullmatch(entry.base_name))
    folder = posixpath.basename(_parts(uri).path.rstrip("/"))
    return _log(uri, folder, {_below(uri, name): size for name, size in segments}) if segments else None


def _log(uri: str, folder: str, segments: dict[str, int]) -> Log:
    """The log of these segments (URI and size), whose folder has this name."""
    numbered = PARTITION_FOLDER.fullmatch(folder)
    content = Segments({name_of(segment): segment for segment in segments}, sum(segments.values()))
    return Log(uri, list(content), int(numbered[1]) if numbered else None, content)


def _below(uri: str, name: str) -> str:
    parts = _parts(uri)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


def file_system(uri: str) -> tuple[FileSystem, str]:
    """The file system of a URI, and the path in it. UsageError when there is none."""
    parts = _parts(uri)
    system, root = _root(parts._replace(path="/root", fragment="").geturl())
    path = root.removesuffix("root") + unquote(parts.path.strip("/"))
    return system, path.rstrip("/") or "/"


@cache
def _root(uri: str) -> tuple[FileSystem, str]:
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    scheme = _parts(uri).scheme
    try:
        system, path = FileSystem.from_uri(uri)
        return system, path
    except (OSError, ArrowException) as error:
        reason = _first_line(error)
    if reason.startswith("Unrecognized filesystem type"):
        raise UsageError(f"{scheme}:// is no file system that is known here, but {', '.join(KNOWN)}")
    if scheme in ("hdfs", "viewfs"):
        reason += "; it needs Hadoop's libhdfs and a Java's libjvm (HADOOP_HOME or ARROW_LIBHDFS_DIR, JAVA_HOME)"
    raise UsageError(f"{scheme}:// cannot be opened: {reason}")


@contextmanager
def told(uri: str) -> Iterator[None]:
    """What another file system has to say becomes a UsageError of one line."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{name_of(uri)}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return _masked(str(error).strip().partition("\n")[0])


def _masked(text: str) -> str:
    """Without what may be a secret in a URI."""
    return re.sub("://.*@", "://", text)
