"""Opening the logs of partition directories on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkagroups.errors import UsageError
from kafkagroups.helpers import check_regular
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.outputs import check_finished
from kafkagroups.log.recovery import find_unreadable_name
from kafkagroups.log.segment_file import is_segment_name, partition_of_folder
from kafkagroups.log.segments import Log

NO_LOG_FOUND = "expected a segment or a folder __consumer_offsets-N with a segment, found none"
"""The reason in the error for a folder without a log."""
_ODD_NAMES = {
    r"__consumer_offsets-\d+\..*-delete": "a partition that the broker was about to delete: {rename}",
    r"__consumer_offsets-\d+\..*-stray": "a partition that the cluster no longer assigns to this broker: {rename}",
    r"__consumer_offsets-\d+\..*-future": "an unfinished copy for another disk: read the partition's own folder",
    r".*\.(gz|tgz|tar|zip|xz|zst|bz2)": "an archive: unpack it first",
    r"\d{20}-[\w-]{22}\.log": "a segment of tiered storage: copy it as {name:.20}.log to a folder __consumer_offsets-N",
}
"""What files and folders are whose names a log does not have. Source (4.3.1): LocalLog; RemoteLogSegmentFileset."""


def open_log(path: str | Path, *, max_batch_bytes: int = MAX_BATCH_BYTES) -> Log:
    """Return the log of a partition folder or of one `.log` file.

    Parameters
    ----------
    path
        A folder `__consumer_offsets-N` that contains segments, or one segment's file.
    max_batch_bytes
        The log ends, as if it were damaged, before a batch that has more bytes than this when it is decompressed.

    Returns
    -------
    Log
        Iterate over the log to read its batches. Its `damage` is set when the iteration has ended.

    Raises
    ------
    UsageError
        The path does not exist, cannot be read, or contains no log, or `max_batch_bytes` is below 1.

    Examples
    --------
    >>> log = open_log("data/harbour/1.0.1/__consumer_offsets-9")
    >>> next(iter(log)).base_offset
    0
    """
    file_or_folder = Path(path)
    with _folder_errors(path):
        if not file_or_folder.exists():
            raise UsageError(f"{path}: no such file or folder")
        if not file_or_folder.is_dir():
            check_regular(file_or_folder.stat(), str(path))
            if file_or_folder.suffix != ".log":
                raise UsageError(f"{path}: expected a .log file or a folder{_explain_names([file_or_folder.name])}")
            log = Log(str(path), [str(path)], _partition_of(file_or_folder.absolute().parent))
            return log.limit_batches(max_batch_bytes)
        check_finished(file_or_folder)
        entries = list(file_or_folder.iterdir())
        names = _segment_names(entries)
        start_failure = find_unreadable_name(entries)
    if not names:
        raise UsageError(f"{path}: no segment (20 digits and .log) in this folder")
    log = Log(str(path), [os.path.join(path, name) for name in names], _partition_of(file_or_folder))
    log.start_failure = start_failure
    return log.limit_batches(max_batch_bytes)


def open_logs(path: str | Path) -> list[Log]:
    """Return the logs at a path, sorted by partition.

    If `path` is a folder that contains partition folders, return their logs. Otherwise, return the log of the segments
    in this folder, or of the segment `path`.

    Raises UsageError if there is no log, a folder cannot be read, a pipe, device or broken link is named like a
    partition folder, or two folders have the same partition number.
    """
    parent = Path(path)
    with _folder_errors(path):
        if parent.is_dir():
            check_finished(parent)
            folders = [folder for folder in parent.iterdir() if _is_partition_folder(folder)]
            logs = [open_log(os.path.join(path, folder.name)) for folder in folders if has_segments(folder)]
            if logs:
                check_one_log_per_partition(logs)
                return sorted(logs, key=lambda log: log.partition or 0)
            if not has_segments(parent):
                odd_names = _explain_names(sorted(entry.name for entry in parent.iterdir()))
                raise UsageError(f"{path}: {NO_LOG_FOUND}{odd_names or _suggest_subfolders(parent)}")
    return [open_log(path)]


def _explain_names(names: Iterable[str]) -> str:
    """Return what the first of some files and folders is whose name says that it is no log; "" if there is none."""
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
    """Convert an error of the operating system into a UsageError that names the file or folder.

    Use `path` if the system does not name it.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror or error}") from None


def check_one_log_per_partition(logs: Iterable[Log]) -> None:
    """Raise UsageError if two logs have the same partition number, such as the folders `…-7` and `…-007`."""
    log_of_partition: dict[int | None, Log] = {}
    for log in logs:
        earlier_log = log_of_partition.setdefault(log.partition, log)
        if earlier_log is not log:
            first, second = sorted((earlier_log.path, log.path))
            raise UsageError(f"{first} and {second} are both partition {log.partition}: remove one of them")


def has_segments(folder: Path) -> bool:
    """Return whether a folder contains at least one segment."""
    return bool(_segment_names(folder.iterdir()))


def _segment_names(entries: Iterable[Path]) -> list[str]:
    return sorted(entry.name for entry in entries if is_segment_name(entry.name))


def _partition_of(folder: Path) -> int | None:
    """Return the partition number in a folder's name; None if the folder is not named like a partition."""
    number = partition_of_folder(folder.name)
    # `resolve` follows symbolic links and replaces "..".
    return partition_of_folder(folder.resolve().name) if number is None else number
