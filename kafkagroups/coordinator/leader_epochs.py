"""OffsetForLeaderEpoch: the offset at which a leader epoch of a partition ends.

The leader epoch of a partition is a number that grows with each new leader. A commit contains the leader epoch of the
last consumed record (KIP-320). If a leader fails and the next leader has a
shorter log, the committed offset may be past the end of that log, or point to other records. A consumer that starts at
a committed offset therefore asks the partition's leader where the commit's leader epoch ends. If this end is below the
committed offset, the log was truncated, and the consumer resets its position or reports the truncation.
The leader of the data partition answers this request, not the group coordinator. The rule is in this package because it
protects committed offsets.
Source: LeaderEpochFileCache.endOffsetFor (3.9).
"""

from __future__ import annotations

from collections.abc import Sequence

UNDEFINED = -1


def offset_for_leader_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> tuple[int, int]:
    """Return the largest epoch in the log that is not above `epoch`, and the offset after its last record.

    Parameters
    ----------
    epochs
        The epochs in the leader's log in ascending order, each with the offset of its first record.
    log_end
        The offset after the last record of the log.
    epoch
        The epoch to look up.

    Returns
    -------
    tuple[int, int]
        The epoch and its end offset; (-1, -1) if the epoch is unknown.

    Examples
    --------
    >>> offset_for_leader_epoch([(0, 0), (2, 40)], 60, 1), offset_for_leader_epoch([(0, 0), (2, 40)], 60, 2)
    ((0, 40), (2, 60))
    """
    if epoch == UNDEFINED or not epochs or epoch > epochs[-1][0]:
        return UNDEFINED, UNDEFINED
    if epoch == epochs[-1][0]:
        return epoch, log_end
    end_offset = next(start_offset for log_epoch, start_offset in epochs if log_epoch > epoch)
    return max((log_epoch for log_epoch, _ in epochs if log_epoch <= epoch), default=epoch), end_offset
