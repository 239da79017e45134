"""The start of a broker: open its logs, build its coordinator, and load every partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TypedDict, Unpack

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.coordinator import GroupCoordinator
from kafkagroups.coordinator.disk_logs import AppendListener, DiskLogs, ignore_append
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.request_validation import Authorizer
from kafkagroups.coordinator.settings import Settings
from kafkagroups.coordinator.storing import TransactionVerifier, ZooKeeperOffsets


def open_logs(folder: str | Path, settings: Settings, *, on_append: AppendListener = ignore_append) -> DiskLogs:
    """Return the logs in a folder. `on_append` is called after each append (`AppendListener`).

    The settings decide the compression of new batches, and whether an append with an old producer epoch is refused.
    """
    return DiskLogs(
        folder,
        settings.offsets_topic_compression_codec,
        fences_producers=settings.fences_producers,
        on_append=on_append,
    )


class Others(TypedDict, total=False):
    """What answers a coordinator's questions about the rest of the cluster (see `GroupCoordinator`)."""

    topics: Mapping[str, int] | None
    authorize: Authorizer
    verify: TransactionVerifier
    zookeeper: ZooKeeperOffsets | None


def start_broker(
    logs: OffsetsLogs | str | Path,
    clock: Clock,
    settings: Settings | None = None,
    *,
    new_member_id: Callable[[str], str] | None = None,
    **others: Unpack[Others],
) -> GroupCoordinator:
    """Start a broker that is the leader of every partition of the offsets topic. Return its coordinator.

    Parameters
    ----------
    logs
        The logs of the offsets topic's partitions, or their folder, which may be empty.
    new_member_id
        A function that returns the id of a new member, as in `GroupCoordinator`. None: `number_member_ids()`, with
        which every run of the program has the same ids.
    clock, settings, others
        See `GroupCoordinator`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     coordinator = start_broker(folder, Clock(0), Settings("2.8.2", offsets_topic_num_partitions=1))
    ...     coordinator.list_groups()
    (<Errors.NONE: 0>, [])
    """
    settings = settings or Settings()
    coordinator = GroupCoordinator(
        open_logs(logs, settings) if isinstance(logs, str | Path) else logs,
        clock,
        settings,
        new_member_id=new_member_id or number_member_ids(),
        **others,
    )
    for partition in range(settings.offsets_topic_num_partitions):
        coordinator.elect(partition)
    return coordinator


def number_member_ids() -> Callable[[str], str]:
    """Return a function that appends a counter: "a" becomes "a-1", and a later "b" becomes "b-2"."""
    numbers = count(1)
    return lambda prefix: f"{prefix}-{next(numbers)}"
