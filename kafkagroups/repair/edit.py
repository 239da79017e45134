"""The public functions `edit`, `append`, `roll` and `cut`: changes of a copy of one partition's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from kafkagroups.errors import UsageError
from kafkagroups.log.damage import Damage
from kafkagroups.log.folders import open_logs
from kafkagroups.log.outputs import new_folder
from kafkagroups.log.segment_file import base_offset_of, partition_for
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect, dialect
from kafkagroups.records.versions import FIRST_WITHOUT_CLASSIC_COORDINATOR, parse_release
from kafkagroups.repair.edited_log import EditedLog
from kafkagroups.repair.steps import Commit, DeleteGroup, Step, StepResult, Tombstone, parse_step

_ONE_DAY_MS = 86_400_000


class WriterOptions(TypedDict, total=False):
    coordinator: str | None
    kafka: str | None
    partitions: int | None


@dataclass(frozen=True)
class Edit:
    """The result of an edit.

    `segments` are the base offsets of the segments in the folder `out`. `start_offset` is the first of them, and
    `next_offset` is the offset after the last batch. `damage` is where the log at `path` is damaged: only what is
    before it was copied.
    """

    path: str
    out: str
    steps: tuple[StepResult, ...]
    segments: tuple[int, ...]
    start_offset: int
    next_offset: int
    damage: Damage | None

    def to_json(self) -> dict[str, Any]:
        """The object that `edit --json` prints."""
        names = ("file", "position", "offset", "reason")
        return vars(self) | {
            "steps": [step.to_json() for step in self.steps],
            "segments": list(self.segments),
            "damage": self.damage and {name: getattr(self.damage, name) for name in names},
        }


def edit(
    path: str | Path,
    out: str | Path,
    steps: Iterable[Step | tuple[str, str | int | None] | str],
    *,
    coordinator: str | None = None,
    kafka: str | None = None,
    partitions: int | None = None,
    delete_retention_ms: int = _ONE_DAY_MS,
) -> Edit:
    """Copy the log of one partition, carry out steps on the copy in order, and return what they did.

    Parameters
    ----------
    path
        A partition directory. It is never changed.
    out
        A new or empty folder for the segments.
    steps
        Each step is a pair of the name and the text of an option of the command `edit`, for example ("commit",
        "billing:orders-0=42"), or an object of `kafkagroups.repair.steps`. The name alone is enough for "roll".
    coordinator
        "classic" or "new": the coordinator that would write the new records. None means the one that wrote the log.
    kafka
        The Kafka version that would write the new records. None means that their layout is that of the log's records.
    partitions
        The partition count of `__consumer_offsets`. With it, steps on a group that another partition stores are
        refused.
    delete_retention_ms
        The topic's setting delete.retention.ms, for cleaning passes.

    Raises
    ------
    UsageError
        The path is not one partition, `out` is not empty or is inside the path, a step cannot be carried out, or a
        number is out of range. `out` is then empty.
    InvalidLog, InvalidRecord
        Kafka's cleaner would fail in a pass. `out` is then empty.

    Notes
    -----
    Only what is before the first damaged batch is copied, as a broker's recovery would keep it.
    Kafka's code: see the modules of `kafkagroups.repair`.

    Examples
    --------
    >>> import tempfile
    >>> out = tempfile.mkdtemp()
    >>> steps = [("commit", "billing:invoices-0=42"), "roll"]
    >>> result = edit("data/harbour/3.9.2/__consumer_offsets-9", out, steps)
    >>> [step.step for step in result.steps]
    ['commit', 'roll']
    """
    parsed_steps = [_parse(step) for step in steps]
    if not parsed_steps:
        raise UsageError("an edit needs at least one step")
    writer = _choose_writer(coordinator, kafka)
    logs = open_logs(path)
    if len(logs) > 1:
        raise UsageError(f"an edit needs one partition, but {path} has {len(logs)}")
    if partitions is not None:
        _check_groups(parsed_steps, logs[0], partitions)
    folder = Path(out)
    if folder.resolve().is_relative_to(Path(path).resolve()):
        raise UsageError(f"{out}: expected a folder outside {path}, which an edit never changes")
    with new_folder(folder) as copy:
        edited = EditedLog(copy, logs[0], writer, kafka, delete_retention_ms)
        try:
            results = [step.run(edited) for step in parsed_steps]
        finally:
            edited.close()
        segments = tuple(base_offset_of(segment) for segment in edited.open().segments)
        return Edit(str(path), str(out), tuple(results), segments, segments[0], edited.facts.next_offset, edited.damage)


def _parse(step: Step | tuple[str, str | int | None] | str) -> Step:
    if isinstance(step, str):
        return parse_step(step)
    if isinstance(step, tuple) and len(step) == 2:
        return parse_step(*step)
    if isinstance(step, Step):
        return step
    raise UsageError(f"expected a step, for example ('cut', 42), found {step!r}")


def _choose_writer(coordinator: str | None, kafka: str | None) -> Dialect | None:
    if coordinator is None and kafka is not None:
        coordinator = "classic" if parse_release(kafka) < FIRST_WITHOUT_CLASSIC_COORDINATOR else "new"
    return None if coordinator is None else dialect(coordinator, kafka)


def _check_groups(steps: Iterable[Step], log: Log, partitions: int) -> None:
    if log.partition is None:
        raise UsageError(f"{log.path}: expected a folder __consumer_offsets-N, because --partitions is given")
    for step in steps:
        if isinstance(step, Commit | Tombstone | DeleteGroup):
            home = partition_for(step.group, partitions)
            if home != log.partition:
                raise UsageError(f"group {step.group} is stored in partition {home}, not in partition {log.partition}")


def append(
    path: str | Path,
    out: str | Path,
    *,
    commit: str | Sequence[str] = (),
    tombstone: str | Sequence[str] = (),
    delete_group: str | Sequence[str] = (),
    marker: str | Sequence[str] = (),
    **writer: Unpack[WriterOptions],
) -> Edit:
    """Append records to a copy of a partition's log: commits, tombstones, group deletions and markers, in this order.

    Errors and result are those of `edit`, which also carries out steps in another order.

    Parameters
    ----------
    path, out
        As in `edit`.
    commit
        "GROUP:TOPIC-PARTITION=OFFSET" or "GROUP:TOPIC-PARTITION=OFFSET@MS", or several of them. MS is the time of the
        commit, in ms since 1970; without it, the newest timestamp in the log.
    tombstone
        "GROUP:TOPIC-PARTITION", or several of them.
    delete_group
        A group id, or several of them.
    marker
        "commit:PRODUCER_ID" or "abort:PRODUCER_ID", or several of them.
    **writer
        `coordinator`, `kafka` and `partitions`, as in `edit`.

    Examples
    --------
    >>> import tempfile
    >>> result = append("data/harbour/3.9.2/__consumer_offsets-9", tempfile.mkdtemp(), commit="billing:invoices-0=42")
    >>> result.next_offset - result.steps[0].first_offset
    1
    """
    options = {"commit": commit, "tombstone": tombstone, "delete-group": delete_group, "marker": marker}
    steps = [
        (name, text)
        for name, texts in options.items()
        for text in ((texts,) if isinstance(texts, str) else tuple(texts))
    ]
    return edit(path, out, steps, **writer)


def roll(path: str | Path, out: str | Path) -> Edit:
    """Copy a partition's log, close its active segment, and begin a new segment. Parameters and errors: see `edit`.

    The log cleaner never cleans the active segment, so a roll makes the records before it cleanable.
    """
    return edit(path, out, ["roll"])


def cut(path: str | Path, out: str | Path, offset: int | None = None, *, time: int | None = None) -> Edit:
    """Copy a partition's log up to an offset or a time.

    Whole batches are removed, as when a broker truncates its log: the first batch that contains the offset or a higher
    one, and everything after it.

    Parameters
    ----------
    path, out
        As in `edit`.
    offset
        The Kafka offset from which on records are removed.
    time
        Instead of an offset, a time in ms since 1970. The first batch that contains a timestamp after it is removed,
        and everything after this batch.

    Raises
    ------
    UsageError
        As for `edit`, or `offset` and `time` are both given or both missing.
    """
    if offset is not None and time is None:
        return edit(path, out, [("cut", offset)])
    if time is not None and offset is None:
        return edit(path, out, [("cut-time", time)])
    raise UsageError("a cut needs an offset or a time, and not both")
