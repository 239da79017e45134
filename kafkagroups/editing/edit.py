"""The public functions `edit`, `append`, `roll` and `cut`: changes of a copy of one partition's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafkagroups.errors import UsageError

if TYPE_CHECKING:
    from kafkagroups.editing.results import Edit
    from kafkagroups.editing.steps import Step

_ONE_DAY_MS = 86_400_000


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
        The steps. Each is a pair of the name and the text of an option of the command `edit`, for example
        ("commit", "billing:orders-0=42"), or an object of `kafkagroups.editing.steps`. The name alone is enough for
        "roll".
    coordinator
        "classic" or "new": the coordinator that would write the new records. None means the one that wrote the log.
    kafka
        The Kafka version that would write the new records. None means that their layout is that of the log's records.
    partitions
        The partition count of `__consumer_offsets`. With it, a commit, tombstone or deletion of a group that another
        partition stores is refused.
    delete_retention_ms
        The topic's setting delete.retention.ms, for cleaning passes.

    Returns
    -------
    Edit
        The result of each step, and the segments.

    Raises
    ------
    UsageError
        The path is not one partition, `out` is not empty or is inside the path, a step cannot be carried out, or a
        number is out of range. `out` is then empty.
    InvalidLog, InvalidRecord
        Kafka's cleaner would fail in a pass. `out` is then empty.

    Notes
    -----
    Damage: only what is before the first damaged batch is copied, as a broker's recovery would keep it.
    Kafka's code: see the modules of `kafkagroups.editing`.

    Examples
    --------
    >>> import tempfile
    >>> out = tempfile.mkdtemp()
    >>> steps = [("commit", "billing:invoices-0=42"), "roll"]
    >>> result = edit("data/harbour/3.9.2/__consumer_offsets-9", out, steps)
    >>> [step.step for step in result.steps]
    ['commit', 'roll']
    """
    # Imported here, because most programs that import this package edit no log.
    from kafkagroups.editing.run_steps import run_steps

    return run_steps(path, out, steps, coordinator, kafka, partitions, delete_retention_ms)


def append(
    path: str | Path,
    out: str | Path,
    *,
    commit: str | Sequence[str] = (),
    tombstone: str | Sequence[str] = (),
    delete_group: str | Sequence[str] = (),
    marker: str | Sequence[str] = (),
    coordinator: str | None = None,
    kafka: str | None = None,
    partitions: int | None = None,
) -> Edit:
    """Append records to a copy of a partition's log: commits, tombstones, group deletions and markers, in this order.

    Parameters
    ----------
    path, out, coordinator, kafka, partitions
        As in `edit`. `edit` also carries out steps in another order.
    commit
        "GROUP:TOPIC-PARTITION=OFFSET" or "GROUP:TOPIC-PARTITION=OFFSET@MS", or several of them. MS is the time of the
        commit, in ms since 1970; without it, the newest timestamp in the log.
    tombstone
        "GROUP:TOPIC-PARTITION", or several of them.
    delete_group
        A group id, or several of them.
    marker
        "commit:PRODUCER_ID" or "abort:PRODUCER_ID", or several of them.

    Returns
    -------
    Edit
        As for `edit`.

    Raises
    ------
    UsageError
        As for `edit`.

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
    return edit(path, out, steps, coordinator=coordinator, kafka=kafka, partitions=partitions)


def roll(path: str | Path, out: str | Path) -> Edit:
    """Copy a partition's log, close its active segment, and begin a new segment.

    The log cleaner never cleans the active segment, so a roll makes the records before it cleanable.

    Parameters
    ----------
    path, out
        As in `edit`.

    Returns
    -------
    Edit
        As for `edit`.

    Raises
    ------
    UsageError
        As for `edit`.
    """
    return edit(path, out, ["roll"])


def cut(path: str | Path, out: str | Path, offset: int | None = None, *, time: int | None = None) -> Edit:
    """Copy a partition's log up to an offset or a time.

    Batches are removed as a whole, as a broker does when it truncates its log: the first batch that contains the offset
    or a higher one is removed, and everything after it.

    Parameters
    ----------
    path, out
        As in `edit`.
    offset
        The Kafka offset from which on records are removed.
    time
        A time in ms since 1970, instead of an offset. The first batch that contains a timestamp after it is removed,
        and everything after this batch.

    Returns
    -------
    Edit
        As for `edit`.

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
