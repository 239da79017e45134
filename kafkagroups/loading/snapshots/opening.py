"""Opens the files of a snapshot, and turns every problem with them into one clear error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BufferedWriter
from pathlib import Path

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.helpers import check_regular

ADVICE = "delete the snapshot and take a new one"
MAX_REASON_LENGTH = 300
"""In characters. A reason can quote the file's content."""


@contextmanager
def open_new_file(path: Path) -> Iterator[BufferedWriter]:
    """Create a file of a snapshot to write it, and write it to the disk at the end. Replace an old file of this name.

    The old name is removed first. So a symbolic link in the folder never leads to another file, and a named pipe is
    never waited for. Raises OSError if the file cannot be created.
    """
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def open_file(path: Path, noun: str) -> Iterator[BufferedReader]:
    """Open a file of a snapshot to read it. `noun` is the word for the file in messages, for example "snapshot".

    Raise UsageError if the file cannot be opened or read. If the body of the `with` statement raises InvalidLog, add
    the file's path and ADVICE to the error.
    """
    try:
        # `open` could wait forever at a FIFO, and a device may have no end.
        check_regular(os.stat(path), str(path))
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except MemoryError:
        raise UsageError(f"{path}: not enough memory to read this file") from None
    except InvalidLog as error:
        reason = error.reason if len(error.reason) <= MAX_REASON_LENGTH else f"{error.reason[:MAX_REASON_LENGTH]}…"
        raise InvalidLog(f"the {noun} cannot be read: {reason}; {ADVICE}", file=str(path), field=error.field) from None
