"""The check that a file is a regular file, and not a folder, a pipe or a device."""

from __future__ import annotations

import os
import stat

from kafkagroups.errors import UsageError

_FILE_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(status: os.stat_result, path: str) -> None:
    """Raise UsageError if a file is not a regular file: reading a pipe or a device might never end."""
    if not stat.S_ISREG(status.st_mode):
        found = _FILE_TYPES.get(stat.S_IFMT(status.st_mode), "a special file")
        raise UsageError(f"{path}: expected a regular file, found {found}")
