"""Outputs that exist as a whole or not at all: a new folder (`new_folder`), or a new file (`new_file`).

A run writes beside its output, under a name with UNFINISHED, and renames at the end. So a run that is killed, or a disk
that is full, leaves nothing that a later command could take for whole, and a second run into the same output is
refused while the first one writes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kafkagroups.errors import UsageError

UNFINISHED = "unfinished"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, whose content becomes that of `folder` at the end of the `with` statement.

    It has the same name as `folder`, because the name of a partition's folder has the partition's number.
    `folder` must be new or empty, and is empty again if the body raises an exception. Raises UsageError if it is not
    empty, and OSError with the name of a file or folder if something cannot be written.
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
    """Yield a file to write. It gets the name `path` at the end of the `with` statement, and is deleted after an error.

    A pipe or a device is written directly. Raises FileExistsError if `path` exists and must not be replaced, UsageError
    if another run is writing it, and OSError with the name of the file if it cannot be written.
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
