"""Which groups a text names, and which log of a topic has the records of a group."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from kafkagroups.errors import UsageError
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import Log


def choose_log(
    logs: Sequence[Log],
    group: str,
    partitions: int | None,
    find_numbers: Callable[[], set[int | None]],
    *,
    path: str,
) -> Sequence[Log]:
    """Return the log with the records of a group, in a list. An offset to stop at belongs to one partition.

    With `partitions`, the group id decides which log it is. Otherwise `find_numbers` returns the numbers of the
    partitions with records of the group.

    Raises UsageError if there is not exactly one log.
    """
    numbers = find_numbers() if partitions is None else {partition_for(group, partitions)}
    chosen = [log for log in logs if log.partition in numbers]
    if len(chosen) == 1:
        return chosen
    if chosen:
        listed = ", ".join(str(log.partition) for log in chosen)
        reason = f"partitions {listed} have records of {group}: give the folder of one of them, or --partitions"
    elif partitions is not None:
        reason = f"{path} has no folder of partition {min(numbers, key=str)}, which stores {group}"
    else:
        reason = f"no partition in {path} has a record of {group}"
    raise UsageError(f"an offset to stop at needs one partition: {reason}")


def match_groups(group_ids: Iterable[str], pattern: str) -> list[str]:
    """Return the groups that a text names: the group with exactly this id, or all groups that the pattern matches.

    In a pattern, * stands for any characters and ? for one character. If no group matches, the result is the text
    itself.
    """
    known = set(group_ids)
    if pattern in known or not has_wildcard(pattern):
        return [pattern]
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    matches = re.compile(expression, re.DOTALL).fullmatch
    return sorted(group_id for group_id in known if matches(group_id)) or [pattern]


def has_wildcard(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern
