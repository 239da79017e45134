"""Groups as pandas DataFrames. pandas is imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkagroups.groups.answer import offset_json
from kafkagroups.groups.group import Group

if TYPE_CHECKING:
    import pandas as pd


def offsets_frame(groups: Iterable[Group]) -> pd.DataFrame:
    """A row for each committed offset, in the order of the groups; times in ms since the epoch."""
    import pandas as pd

    columns = ["group", "topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp"]
    columns += ["expire_timestamp", "topic_id", "record_offset"]
    rows = [
        {"group": group.group_id, "topic": tp.topic, "partition": tp.partition, **offset_json(group.offsets[tp])}
        for group in groups
        for tp in sorted(group.offsets)
    ]
    return pd.DataFrame(rows, columns=columns)


def members_frame(groups: Iterable[Group]) -> pd.DataFrame:
    """A row for each member: topics and partitions as lists, None where the bytes cannot be read."""
    import pandas as pd

    columns = ["group", "generation", "member_id", "group_instance_id", "client_id", "client_host"]
    columns += ["rebalance_timeout_ms", "session_timeout_ms", "subscribed_topics", "assigned_partitions"]
    rows = []
    for group in groups:
        for member in group.members.values():
            subscription, assignment = member.subscription, member.assignment
            assigned = None
            if assignment:
                pairs = [(t.topic, p) for t in assignment.message.assigned_partitions for p in t.partitions]
                assigned = [f"{topic}-{partition}" for topic, partition in sorted(pairs)]
            rows.append(
                {
                    "group": group.group_id,
                    "generation": group.generation,
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "rebalance_timeout_ms": member.rebalance_timeout_ms,
                    "session_timeout_ms": member.session_timeout_ms,
                    "subscribed_topics": list(subscription.message.topics) if subscription else None,
                    "assigned_partitions": assigned,
                }
            )
    return pd.DataFrame(rows, columns=columns)
