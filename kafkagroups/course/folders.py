"""Folders of a lesson: find `data/`, make a scratch folder, link a topic's older segments."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkagroups.errors import UsageError

# A TemporaryDirectory removes its folder when it is garbage-collected, so this list keeps it until Python ends.
_temporary_folders: list[TemporaryDirectory[str]] = []


def find_data(name: str) -> str:
    """Return the path of a file or folder in the project's `data/`.

    Parameters
    ----------
    name
        The path below `data/`, for example "harbour/3.9.2".

    Returns
    -------
    str
        A path relative to the current folder, so that a lesson prints the same path on every machine.

    Raises
    ------
    UsageError
        If the path does not exist in the current folder or in a folder above it.
    """
    return os.path.relpath(find_upwards(f"data/{name}"))


def find_upwards(name: str) -> Path:
    """Return a file or folder of the project, found in the current folder or in a folder above it.

    Raises UsageError if it is not found.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / name).exists():
            return folder / name
    raise UsageError(
        f"{name} was not found in {here} or in a folder above it: open the notebook inside the cloned project"
    )


def make_scratch_folder() -> Path:
    """Make a new, empty folder and return its path. It is removed when Python ends.

    A cell that is run twice therefore starts with an empty folder each time.
    """
    folder = TemporaryDirectory(prefix="kafkagroups-")
    _temporary_folders.append(folder)
    return Path(folder.name)


def link_older_segments(topic: str | Path) -> Path:
    """Return a copy of a topic without the newest segment of each partition.

    The copy is the topic as it was before its partitions began their newest segments.

    Parameters
    ----------
    topic
        A folder of partition folders.

    Returns
    -------
    pathlib.Path
        A new folder of partition folders. Their segments are links, so nothing is copied.
    """
    copy = make_scratch_folder()
    for partition in Path(topic).iterdir():
        older = sorted(partition.glob("*.log"))[:-1]
        for segment in older:
            (copy / partition.name).mkdir(exist_ok=True)
            (copy / partition.name / segment.name).symlink_to(segment.resolve())
    return copy
