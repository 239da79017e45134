"""The folders of logs: finding and opening them, here or in remote file systems, and writing an output as a whole.

    harbour/4.3.1, file:///data/log        Local files, which are read in pieces.
    s3:// gs:// abfss:// hdfs://           Remote files. `pyarrow.fs.FileSystem.from_uri` opens the URI, which can
                                           contain settings of the file system as query parameters:
                                           s3://bucket/log?endpoint_override=127.0.0.1:9000&scheme=http
                                           Hadoop's s3a:// is s3://, with the settings of s3://.

A remote segment is read as a whole, when the load reaches this segment. Error messages show a URI without its password
and its query parameters.

`new_folder` and `new_file` write beside their output, and rename at the end. So a run that is killed, or a full disk,
leaves nothing that a later command could take for whole, and a second run into the same output is refused while the
first one writes.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections import UserDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import SplitResult, unquote, urlsplit

from kafkagroups.errors import UsageError
from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.log.batch import crc32c
from kafkagroups.log.batches import StartFailure
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.segment_file import BytesLike, check_regular, is_segment_name, partition_of_folder
from kafkagroups.log.segments import Log

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

NO_LOG_FOUND = "expected a segment or a folder __consumer_offsets-N with a segment, found none"
_READ_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
_JAVA_LONG = re.compile(r"[+-]?[0-9]+")
_ODD_NAMES = {
    r"__consumer_offsets-\d+\..*-delete": "a partition that the broker was about to delete: {rename}",
    r"__consumer_offsets-\d+\..*-stray": "a partition that the cluster no longer assigns to this broker: {rename}",
    r"__consumer_offsets-\d+\..*-future": "an unfinished copy for another disk: read the partition's own folder",
    r".*\.(gz|tgz|tar|zip|xz|zst|bz2)": "an archive: unpack it first",
    r"\d{20}-[\w-]{22}\.log": "a segment of tiered storage: copy it as {name:.20}.log to a folder __consumer_offsets-N",
}
"""What files and folders are whose names a log does not have. Source (4.3.1): LocalLog; RemoteLogSegmentFileset."""


def open_log(path: str | Path, working_folder: str = "", *, max_batch_bytes: int = MAX_BATCH_BYTES) -> Log:
    """Return the log of a folder `__consumer_offsets-N` that contains segments, or of one segment's file.

    It ends, as if it were damaged, before a batch that has more than `max_batch_bytes` when it is decompressed. Raises
    UsageError if the path does not exist, cannot be read or contains no log, or if `max_batch_bytes` is below 1.

    >>> log = open_log("data/harbour/1.0.1/__consumer_offsets-9")
    >>> next(iter(log)).base_offset
    0
    """
    file_or_folder = Path(working_folder, path)
    with _folder_errors(path):
        if not file_or_folder.exists():
            raise UsageError(f"{path}: no such file or folder")
        if file_or_folder.is_dir():
            check_finished(file_or_folder)
            entries = list(file_or_folder.iterdir())
            segments = [os.path.join(path, name) for name in _segment_names(entries)]
            start_failure = _find_unreadable_name(entries)
            folder = file_or_folder
        else:
            check_regular(file_or_folder.stat(), str(path))
            if file_or_folder.suffix != ".log":
                raise UsageError(f"{path}: expected a .log file or a folder{_explain_names([file_or_folder.name])}")
            segments = [str(path)]
            start_failure = None
            folder = file_or_folder.absolute().parent
    if not segments:
        raise UsageError(f"{path}: no segment (20 digits and .log) in this folder")
    log = Log(str(path), segments, _partition_of(folder), folder=working_folder, start_failure=start_failure)
    return log.limit_batches(max_batch_bytes)


def open_logs(path: str | Path, working_folder: str = "") -> list[Log]:
    """Return the logs at a path, sorted by partition: one log, or those of the partition folders in a folder.

    The paths in the logs stay relative to `working_folder`, so another process can read them.

    Raises UsageError if there is no log, a folder cannot be read, a pipe, device or broken link is named like a
    partition folder, or two folders have the same partition number.
    """
    parent = Path(working_folder, path)
    with _folder_errors(path):
        if parent.is_dir():
            check_finished(parent)
            folders = [folder for folder in parent.iterdir() if _is_partition_folder(folder)]
            names = [folder.name for folder in folders if has_segments(folder)]
            if names:
                return sort_logs(open_log(os.path.join(path, name), working_folder) for name in names)
            if not has_segments(parent):
                entries = chain(parent.iterdir(), *(folder.iterdir() for folder in folders))
                odd_names = _explain_names(sorted(entry.name for entry in entries))
                raise UsageError(f"{path}: {NO_LOG_FOUND}{odd_names or _suggest_subfolders(parent)}")
    return [open_log(path, working_folder)]


def _explain_names(names: Iterable[str]) -> str:
    for name in names:
        rename = f"to read it, copy it as {name.partition('.')[0]}"
        for pattern, text in _ODD_NAMES.items():
            if re.fullmatch(pattern, name):
                return f"; {name} is {text.format(name=name, rename=rename)}"
    return ""


def _suggest_subfolders(parent: Path) -> str:
    names = [
        folder.name
        for folder in sorted(parent.iterdir())
        if folder.is_dir() and any(partition_of_folder(child.name) is not None for child in folder.iterdir())
    ]
    if not names:
        return ""
    others = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"; there are partition folders in its subfolders {', '.join(names[:3])}{others}"


def _is_partition_folder(folder: Path) -> bool:
    if partition_of_folder(folder.name) is None:
        return False
    is_folder = folder.is_dir()
    if not is_folder and not folder.is_file():
        raise UsageError(f"{folder}: expected a folder")
    return is_folder


@contextmanager
def _folder_errors(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror or error}") from None


def sort_logs(logs: Iterable[Log]) -> list[Log]:
    """Raises UsageError if two logs have the same partition number, such as the folders `…-7` and `…-007`."""
    log_of_partition: dict[int | None, Log] = {}
    for log in logs:
        earlier_log = log_of_partition.setdefault(log.partition, log)
        if earlier_log is not log:
            first, second = sorted((earlier_log.path, log.path))
            raise UsageError(f"{first} and {second} are both partition {log.partition}: remove one of them")
    return sorted(log_of_partition.values(), key=lambda log: log.partition or 0)


def has_segments(folder: Path) -> bool:
    return bool(_segment_names(folder.iterdir()))


def _find_unreadable_name(entries: Iterable[Path]) -> StartFailure | None:
    for path in sorted(entries):
        text = path.name.partition(".")[0]
        is_offset = _JAVA_LONG.fullmatch(text) is not None and MIN_INT64 <= int(text) <= MAX_INT64
        if path.name.endswith(_READ_SUFFIXES) and not is_offset and path.is_file():
            return StartFailure(str(path), None, f'For input string: "{text}"')
    return None


def _segment_names(entries: Iterable[Path]) -> list[str]:
    return sorted(entry.name for entry in entries if is_segment_name(entry.name))


def _partition_of(folder: Path) -> int | None:
    number = partition_of_folder(folder.name)
    # `resolve` follows symbolic links and replaces "..".
    return partition_of_folder(folder.resolve().name) if number is None else number


KNOWN_SCHEMES = ("s3", "gs", "abfss", "hdfs", "file")
LISTING_THREADS = 16

_HADOOP_S3 = re.compile("^s3[an]:", re.IGNORECASE)
"""The schemes with which Hadoop's file systems, and so Spark's own sources, name S3."""
_URI_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def local_path(path: str) -> str | None:
    """Return a local path without `file://`; None if `path` is a remote URI."""
    if not _URI_PREFIX.match(path):
        return path
    return unquote(_split(path).path) if path.lower().startswith("file:") else None


def find_logs(path: str | os.PathLike[str], working_folder: str = "") -> list[Log]:
    """Return the logs at a path or URI. Raises UsageError if there is none, or if the file system raises an error."""
    path_or_uri = os.fspath(path)
    local = local_path(path_or_uri)
    return _find_remote_logs(path_or_uri) if local is None else open_logs(local, working_folder)


def find_all_logs(paths: Sequence[str], folder: str = "") -> list[Log]:
    has_remote_path = any(local_path(path) is None for path in paths)
    with ThreadPoolExecutor(LISTING_THREADS if has_remote_path else 1) as pool:
        return [log for logs in pool.map(lambda path: find_logs(path, folder), paths) for log in logs]


class RemoteSegments(UserDict[str, Any]):
    """Made from the full URI of each segment, by the segment's name; its values are the segments' bytes."""

    def __getitem__(self, name: str) -> BytesLike:
        uri = self.data[name]
        system, path = file_system(uri)
        with remote_errors(uri), system.open_input_file(path) as file:
            return memoryview(file.read_buffer(file.size()))


def public_uri(uri: str) -> str:
    parts = _split(uri)
    return f"{parts.scheme}://{re.sub(':[^@]*@', '@', parts.netloc)}{parts.path}"


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise UsageError(_without_secrets(f"{uri}: {error}")) from None


def _find_remote_logs(uri: str) -> list[Log]:
    from pyarrow.fs import FileSelector, FileType

    system, path = file_system(uri)
    with remote_errors(uri):
        info = system.get_file_info(path)
        if info.type == FileType.NotFound:
            raise UsageError(f"{public_uri(uri)}: no such file or folder")
        if info.type == FileType.File:
            if info.extension != "log":
                raise UsageError(f"{public_uri(uri)}: expected a .log file or a folder")
            return [_make_remote_log(uri, posixpath.dirname(path), {uri: info.size})]
        entries = system.get_file_info(FileSelector(path, recursive=True))
    sizes_by_folder: dict[str, dict[str, int]] = {}
    for entry in sorted(entries, key=lambda entry: entry.path):
        if is_segment_name(entry.base_name):
            sizes = sizes_by_folder.setdefault(posixpath.dirname(entry.path), {})
            sizes[_join(uri, posixpath.relpath(entry.path, path))] = entry.size
    logs = [
        _make_remote_log(_join(uri, posixpath.basename(folder)), folder, sizes)
        for folder, sizes in sizes_by_folder.items()
        if posixpath.dirname(folder) == path and partition_of_folder(posixpath.basename(folder)) is not None
    ]
    if not logs and path not in sizes_by_folder:
        raise UsageError(f"{public_uri(uri)}: {NO_LOG_FOUND}")
    return sort_logs(logs or [_make_remote_log(uri, path, sizes_by_folder[path])])


def _make_remote_log(uri: str, folder: str, size_by_uri: dict[str, int]) -> Log:
    content = RemoteSegments({public_uri(segment_uri): segment_uri for segment_uri in size_by_uri})
    partition = partition_of_folder(posixpath.basename(folder))
    return Log(uri, list(content), partition, content, known_size=sum(size_by_uri.values()))


def _join(uri: str, name: str) -> str:
    parts = _split(uri)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


def file_system(uri: str) -> tuple[FileSystem, str]:
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
        system, path = FileSystem.from_uri(_HADOOP_S3.sub("s3:", uri))
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
    try:
        yield
    except OSError as error:
        raise UsageError(f"{public_uri(uri)}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return _without_secrets(str(error).strip().partition("\n")[0])


def _without_secrets(text: str) -> str:
    return re.sub("://.*@", "://", text)


UNFINISHED = "unfinished"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, whose content becomes that of `folder` at the end of the `with` statement.

    It has the same name as `folder`, because the name of a partition's folder has the partition's number. After an
    exception, `folder` is empty again. Raises UsageError if it is not empty, and OSError with the name of a file or
    folder if something cannot be written.
    """
    create_folder(folder)
    unfinished = folder / UNFINISHED
    try:
        unfinished.mkdir()
    except FileExistsError:
        raise UsageError(_describe_other_run(folder, unfinished)) from None
    try:
        work = unfinished / folder.resolve().name
        work.mkdir()
        yield work
        for entry in list(work.iterdir()):
            entry.rename(folder / entry.name)
        shutil.rmtree(unfinished)  # From now on, the folder is whole (`check_finished`).
    except BaseException as error:
        for entry in folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
        raise name_file(error, folder) from None


@contextmanager
def new_file(path: Path, *, replaces: bool = False) -> Iterator[BinaryIO]:
    """Yield a file to write, which gets the name `path` at the end of the `with` statement, and is deleted after an
    error.

    Raises FileExistsError if `path` exists and must not be replaced, UsageError if another run is writing it or it
    cannot be created, and OSError with the name of the file if it cannot be written.
    """
    if not replaces and os.path.lexists(path):
        raise FileExistsError(f"{path} exists")
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            yield file
        return
    target = path.resolve()  # A symbolic link stays.
    work = target.with_name(f"{target.name}.{UNFINISHED}")
    try:
        file = open(work, "xb")  # noqa: SIM115  # It is closed below.
    except FileExistsError:
        raise UsageError(_describe_other_run(path, work)) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        work.replace(target)
    except BaseException as error:
        work.unlink(missing_ok=True)
        raise name_file(error, path) from None


def create_folder(folder: Path) -> None:
    """Create a folder if it does not exist. Raises UsageError if it is not empty."""
    names = list_folder(folder)
    if UNFINISHED in names:
        raise UsageError(_describe_other_run(folder, folder / UNFINISHED))
    if names:
        raise UsageError(f"{folder}: expected a new or empty folder, found files in it")


def list_folder(folder: Path) -> list[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [entry.name for entry in folder.iterdir()]
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None


def write_file(path: Path, chunks: Iterable[bytes]) -> tuple[int, int]:
    """Write a file to the disk, and return the number of its bytes and their CRC-32C.

    An old file of this name is removed first, so a symbolic link in the folder never leads to another file, and a named
    pipe is never waited for.
    """
    size = checksum = 0
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:
        for chunk in chunks:
            size += file.write(chunk)
            checksum = crc32c(chunk, checksum)
        file.flush()
        os.fsync(file.fileno())
    return size, checksum


def check_finished(folder: Path) -> None:
    if (folder / UNFINISHED).is_dir():
        raise UsageError(f"{folder}: not whole, because the run that writes it has not ended, or was killed")


def name_file(error: BaseException, path: str | Path) -> BaseException:
    """Return an error that names a file: an OSError of a write, for example on a full disk, names none."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        return OSError(error.errno, error.strerror, str(path))
    return error


def _describe_other_run(path: Path, work: Path) -> str:
    return f"{path}: another run is writing it, or was killed. If none is running, delete {work}"
