"""Groups as pandas DataFrames. pandas is imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.tables.answers import group_json, offset_json, subscribed_and_assigned

if TYPE_CHECKING:
    import pandas as pd


def offsets_frame(groups: Iterable[AnyGroup]) -> pd.DataFrame:
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


def members_frame(groups: Iterable[AnyGroup]) -> pd.DataFrame:
    """A row for each member: topics and partitions as lists, None where the bytes cannot be read.

    `generation` is a classic group's, `member_epoch` that of a member of a newer type.
    """
    import pandas as pd

    columns = ["group", "generation", "member_id", "group_instance_id", "client_id", "client_host"]
    columns += [
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "member_epoch",
        "subscribed_topics",
        "assigned_partitions",
    ]
    rows = []
    for group in groups:
        shown = group_json(group)
        for member in shown["members"]:
            topics, partitions = subscribed_and_assigned(group, member)
            rows.append(
                member
                | {"group": group.group_id, "generation": shown.get("generation")}
                | {"subscribed_topics": topics, "assigned_partitions": partitions}
            )
    return pd.DataFrame(rows, columns=columns)
