"""A finding: something that is wrong with a log, where it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

TOPIC_KINDS = ("group_family", "look_alike_groups", "partition_count_changed")
"""The kinds of findings that can be about the whole topic. Their partition is then None."""
GROUPS_SHOWN = 20
"""More names than in other sentences: a group that is not named can lose records unnoticed."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a log.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    offset
        The Kafka offset in that partition where the problem begins; None if it has no place.
    group
        The id of the group that the finding is about; None if it is about the whole partition, or several groups.
    topic_partition
        The topic partition of the committed offset, for example "orders-0"; None if the finding is about no offset.
    kind
        A word for programs, for example "hanging_transaction".
    what
        One sentence that says what is wrong.
    remedy
        One sentence that says what to do.
    """

    partition: int | None
    offset: int | None
    group: str | None
    topic_partition: str | None
    kind: str
    what: str
    remedy: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return asdict(self)


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by partition and offset. Findings without a partition or an offset are first."""

    def sort_key(finding: Finding) -> tuple[int, int, str, str, str]:
        partition = -1 if finding.partition is None else finding.partition
        offset = -1 if finding.offset is None else finding.offset
        return partition, offset, finding.kind, finding.group or "", finding.topic_partition or ""

    return sorted(findings, key=sort_key)


def list_groups(group_ids: Collection[str]) -> str:
    """Return the names of the groups that a finding is about, sorted."""
    names = sorted(group_ids)
    more = len(names) - GROUPS_SHOWN
    listed = ", ".join(names[:GROUPS_SHOWN])
    return f"{listed} and {more} more" if more > 0 else listed
