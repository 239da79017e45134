"""Lesson 11: a partition that does not load, and commands of this package that run on a copy of its folder."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from kafkagroups.course.folders import find_data, make_scratch_folder
from kafkagroups.course.small_logs import encode_commit, encode_records
from kafkagroups.errors import UsageError
from kafkagroups.log.folders import open_log
from kafkagroups.log.writer import LogWriter

_PARTITION = "__consumer_offsets-9"


def copy_failing_partition() -> Path:
    """Return a new folder with a partition that does not load: the folder `copy/__consumer_offsets-9`.

    The log is that of the shop's broker (Kafka 4.3.1), and two records follow:

    - 45: a record with the key of an offset of `fraud-check` and a value of zero bytes
    - 46: a commit of `billing` for orders-0
    """
    folder = make_scratch_folder()
    copy = folder / "copy" / _PARTITION
    copy.mkdir(parents=True)
    for segment in Path(find_data(f"harbour/4.3.1/{_PARTITION}")).glob("*.log"):
        shutil.copy(segment, copy)
    *_, last_batch = open_log(copy)
    key, _ = encode_commit("fraud-check", None, "payments")
    with LogWriter(copy) as log:
        for seconds, record in enumerate([(key, b""), encode_commit("billing", 60, "orders")], 1):
            log.append(encode_records(log.next_offset, last_batch.max_timestamp + seconds * 1000, [record]))
    return folder


def run_command(command: str, folder: str | Path) -> None:
    """Run a command of this package in a folder, and print the command and what it writes to its output.

    Messages on stderr are not printed: after a failure, they repeat the first finding.

    Parameters
    ----------
    command
        The command as in a shell, for example "kafkagroups check copy".
    folder
        The folder in which the command runs.

    Raises
    ------
    UsageError
        If the command is not `kafkagroups`, or if its arguments are wrong.
    """
    program, *arguments = shlex.split(command)
    if program != "kafkagroups":
        raise UsageError(f"{command}: only the command kafkagroups can run here")
    result = subprocess.run(
        [sys.executable, "-m", "kafkagroups", *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if not result.stdout:  # Wrong usage.
        raise UsageError(f"{command}: {result.stderr.strip()}")
    print(f"$ {command}")
    print(result.stdout.rstrip())
