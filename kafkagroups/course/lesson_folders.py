"""Folders of a lesson: find a file in `data/`, make a scratch folder, link the older segments of a topic; and the
commands of this package that run in a folder.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkagroups.errors import UsageError

# A TemporaryDirectory object removes its folder when the object is garbage-collected. This list keeps the objects until
# Python ends.
_temporary_folders: list[TemporaryDirectory[str]] = []


def find_data(name: str) -> str:
    """Return the path of a file or folder in the project's `data/`, for example "harbour/3.9.2", or raise UsageError.

    It is relative to the current folder, so that a lesson prints the same path on every machine.
    """
    return os.path.relpath(find_upwards(f"data/{name}"))


def find_upwards(name: str) -> Path:
    current_folder = Path.cwd()
    for folder in (current_folder, *current_folder.parents):
        if (folder / name).exists():
            return folder / name
    raise UsageError(
        f"{name} was not found in {current_folder} or in a folder above it: open the notebook inside the cloned project"
    )


def make_scratch_folder() -> Path:
    """Make an empty folder, which is removed when Python ends."""
    folder = TemporaryDirectory(prefix="kafkagroups-")
    _temporary_folders.append(folder)
    return Path(folder.name)


def link_older_segments(topic: str | Path) -> Path:
    """Return a copy of a folder of partition folders, without the newest segment of each partition.

    The segments of the copy are symbolic links, so no bytes are copied.
    """
    copy = make_scratch_folder()
    for partition in Path(topic).iterdir():
        older_segments = sorted(partition.glob("*.log"))[:-1]
        for segment in older_segments:
            (copy / partition.name).mkdir(exist_ok=True)
            (copy / partition.name / segment.name).symlink_to(segment.resolve())
    return copy


def run_command(command: str, folder: str | Path = ".") -> None:
    """Run a command such as "kafkagroups check copy" in a folder, and print the command and its output.

    Messages on stderr are printed only if there is no other output: after a failure, they repeat the first finding.
    """
    print(f"$ {command}")
    print(read_output(command, folder))


def read_output(command: str, folder: str | Path) -> str:
    program, *arguments = shlex.split(command)
    if program != "kafkagroups" or {"|", ">", "&&", ";"}.intersection(arguments):
        return "Only one command kafkagroups can run here, without a pipe: use a terminal for others."
    # A kernel asks programs for colours.
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    result = subprocess.run(
        [sys.executable, "-m", "kafkagroups", *arguments],
        cwd=folder,
        env={**environment, "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return (result.stdout or result.stderr).rstrip()
