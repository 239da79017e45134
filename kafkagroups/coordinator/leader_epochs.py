"""OffsetForLeaderEpoch: where a partition leader's epoch ended.

A commit contains the leader epoch of the last consumed record (KIP-320). If a leader fails and the next leader has a
shorter log, the committed offset may be past the end of that log, or point to other records. A consumer that starts at
a committed offset therefore asks the partition's leader where that epoch ended. If it ended below the offset, the log
was truncated, and the consumer resets its position or reports the truncation.
The leader of the data partition answers this request, not the group coordinator. It is in this package because the
offset is.
Source: LeaderEpochFileCache.endOffsetFor (3.9).
"""

from __future__ import annotations

from collections.abc import Sequence

UNDEFINED = -1


def offset_for_leader_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> tuple[int, int]:
    """Return the largest epoch up to `epoch` in the log, and the offset after its last record.

    Parameters
    ----------
    epochs
        The leader's epochs in ascending order, each with its start offset.
    log_end
        The offset after the last record of the log.
    epoch
        The epoch to look up.

    Returns
    -------
    tuple[int, int]
        Epoch and end offset; (-1, -1) if the epoch is unknown.

    Examples
    --------
    >>> offset_for_leader_epoch([(0, 0), (2, 40)], 60, 1), offset_for_leader_epoch([(0, 0), (2, 40)], 60, 2)
    ((0, 40), (2, 60))
    """
    if epoch == UNDEFINED or not epochs or epoch > epochs[-1][0]:
        return UNDEFINED, UNDEFINED
    if epoch == epochs[-1][0]:
        return epoch, log_end
    end = next(start for newer, start in epochs if newer > epoch)
    return max((older for older, _ in epochs if older <= epoch), default=epoch), end
