"""OffsetForLeaderEpoch: the offset at which a leader epoch of a partition ends.

The leader epoch of a partition is a number that grows with each new leader. A commit contains the leader epoch of the
last consumed record (KIP-320). If a leader fails, the next leader may have a shorter log. This log may end before a
committed offset, or have other records at this offset.

A consumer that starts at a committed offset therefore asks where the commit's leader epoch ends. If this end is below
the committed offset, the log was truncated. The leader of the consumed partition answers, not the group coordinator.
Source: LeaderEpochFileCache.endOffsetFor (3.9).
"""

from __future__ import annotations

from collections.abc import Sequence

UNDEFINED = -1
"""Kafka's value for an unknown leader epoch or offset."""


def offset_for_leader_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> tuple[int, int]:
    """Return the largest leader epoch in the log that is not above `epoch`, and the offset at which this epoch ends.

    Parameters
    ----------
    epochs
        Pairs of a leader epoch in the leader's log and the offset of its first record, in ascending order.
    log_end
        The offset after the last record of the log.
    epoch
        The leader epoch to look up. -1 means that the commit has no leader epoch.

    Returns
    -------
    tuple[int, int]
        The leader epoch, and the offset after its last record. (-1, -1) if `epoch` is -1 or above the log's epochs. If
        all epochs in the log are above `epoch`: `epoch` and the first offset of the log's first epoch.

    Examples
    --------
    >>> offset_for_leader_epoch([(0, 0), (2, 40)], 60, 1), offset_for_leader_epoch([(0, 0), (2, 40)], 60, 2)
    ((0, 40), (2, 60))
    """
    if epoch == UNDEFINED or not epochs:
        return UNDEFINED, UNDEFINED
    newest_epoch, _ = epochs[-1]
    if epoch > newest_epoch:
        return UNDEFINED, UNDEFINED
    if epoch == newest_epoch:
        return epoch, log_end
    end_offset = next(start_offset for log_epoch, start_offset in epochs if log_epoch > epoch)
    return max((log_epoch for log_epoch, _ in epochs if log_epoch <= epoch), default=epoch), end_offset
