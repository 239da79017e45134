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


def find_truncation_offset(
    follower: Sequence[tuple[int, int]], follower_end: int, leader: Sequence[tuple[int, int]], leader_end: int
) -> int | None:
    """Return the offset to which a follower truncates its log before it fetches from a leader.

    Parameters
    ----------
    follower, leader
        The leader epochs in each log, as in `offset_for_leader_epoch`.
    follower_end, leader_end
        The offset after the last record of each log.

    Returns
    -------
    int | None
        The follower's new end. It is `follower_end` if the follower truncates nothing. None if the epochs do not tell:
        one of the logs has no leader epochs, or the follower has a newer epoch than the leader. The follower then
        truncates to its high watermark, which is not in the log.

    Notes
    -----
    Kafka's code (4.3.1): AbstractFetcherThread.getOffsetTruncationState, which the follower repeats until the leader's
    answer to its fetch has no diverging epoch.

    Examples
    --------
    >>> find_truncation_offset([(0, 0)], 15, [(0, 0), (1, 12)], 20)
    12
    """
    epochs = list(follower)
    end = follower_end
    while epochs:
        newest_epoch, _ = epochs[-1]
        leader_epoch, leader_offset = offset_for_leader_epoch(leader, leader_end, newest_epoch)
        if leader_epoch == UNDEFINED:
            return None
        if leader_epoch == newest_epoch and leader_offset >= end:
            return end
        own_epoch, own_end = offset_for_leader_epoch(epochs, end, leader_epoch)
        # If the follower does not know the leader's epoch, it truncates to the end of its epoch before, and asks again.
        end = min(end, own_end) if own_epoch != leader_epoch else min(end, own_end, leader_offset)
        epochs = [entry for entry in epochs if entry[1] < end]
    return end if follower else None
