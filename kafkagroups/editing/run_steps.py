"""An edit from its start to its end: checks the steps, copies the log, and carries out the steps on the copy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kafkagroups.editing.edited_log import EditedLog, delete_content
from kafkagroups.editing.editor import Editor, choose_writer
from kafkagroups.editing.results import Edit
from kafkagroups.editing.steps import Commit, DeleteGroup, Step, Tombstone, parse_step
from kafkagroups.errors import UsageError
from kafkagroups.log.folders import open_logs
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.log.writer import create_folder


def run_steps(
    path: str | Path,
    out: str | Path,
    steps: Iterable[Step | tuple[str, str | int | None] | str],
    coordinator: str | None,
    kafka: str | None,
    partitions: int | None,
    delete_retention_ms: int,
) -> Edit:
    """Copy a log and carry out steps on the copy. The parameters, the result and the errors are those of `edit`."""
    parsed_steps = [_parse(step) for step in steps]
    if not parsed_steps:
        raise UsageError("an edit needs at least one step")
    writer = choose_writer(coordinator, kafka)
    logs = open_logs(path)
    if len(logs) > 1:
        raise UsageError(f"an edit needs one partition, but {path} has {len(logs)}")
    _check_groups(parsed_steps, logs[0], partitions)
    folder = Path(out)
    if folder.resolve().is_relative_to(Path(path).resolve()):
        raise UsageError(f"{out}: expected a folder outside {path}, which an edit never changes")
    create_folder(folder)
    try:
        edited = EditedLog(folder, logs[0])
        editor = Editor(edited, writer, delete_retention_ms)
        try:
            results = [editor.run(step) for step in parsed_steps]
        finally:
            edited.close()
        segments = tuple(base_offset_of(segment) for segment in edited.open().segments)
        return Edit(str(path), str(out), tuple(results), segments, segments[0], edited.facts.next_offset, edited.damage)
    except BaseException:
        delete_content(folder)
        raise


def _parse(step: Step | tuple[str, str | int | None] | str) -> Step:
    if isinstance(step, str):
        return parse_step(step)
    if isinstance(step, tuple) and len(step) == 2:
        return parse_step(*step)
    if isinstance(step, Step):
        return step
    raise UsageError(f"expected a step, for example ('cut', 42), found {step!r}")


def _check_groups(steps: Iterable[Step], log: Log, partitions: int | None) -> None:
    """Raise UsageError if a step names a group that another partition stores."""
    if partitions is None:
        return
    if log.partition is None:
        raise UsageError(f"{log.path}: expected a folder __consumer_offsets-N, because --partitions is given")
    for step in steps:
        if isinstance(step, Commit | Tombstone | DeleteGroup):
            home = partition_for(step.group, partitions)
            if home != log.partition:
                raise UsageError(f"group {step.group} is stored in partition {home}, not in partition {log.partition}")
