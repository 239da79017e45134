"""OffsetForLeaderEpoch: where an epoch of a partition's leader ended, which a consumer asks before it trusts an offset.

A commit carries the leader epoch of the last record consumed (KIP-320). When a leader falls and the next one has less
of the log, the offset may lie beyond what is left, or point at other records. So a consumer that starts at a committed
offset asks the partition's leader where that epoch ended: below the offset, and the log was cut (it resets, or says
so). Not the group coordinator answers, but whoever leads the data's partition; it stands here because the offset does.
Source: LeaderEpochFileCache.endOffsetFor (3.9).
"""

from __future__ import annotations

from collections.abc import Sequence

UNDEFINED = -1


def offset_for_leader_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> tuple[int, int]:
    """The largest epoch up to `epoch` in the log, and the offset after its last record; (-1, -1): nothing is known.

    `epochs` are the leader's (epoch, start offset), ascending.

    >>> offset_for_leader_epoch([(0, 0), (2, 40)], 60, 1), offset_for_leader_epoch([(0, 0), (2, 40)], 60, 2)
    ((0, 40), (2, 60))
    """
    if epoch == UNDEFINED or not epochs or epoch > epochs[-1][0]:
        return UNDEFINED, UNDEFINED
    if epoch == epochs[-1][0]:
        return epoch, log_end
    after = next(start for newer, start in epochs if newer > epoch)
    return max((older for older, _ in epochs if older <= epoch), default=epoch), after
