"""Groups as pandas DataFrames: frames of committed offsets, of members, and of the events in a group's history.

pandas is imported only when one of these functions is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.tables.group_json import description_json, subscribed_and_assigned
from kafkagroups.tables.offset_fields import OFFSET_FIELD_NAMES, offset_values

if TYPE_CHECKING:
    import pandas as pd

MEMBER_COLUMNS = (
    "group",
    "generation",
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "session_timeout_ms",
    "member_epoch",
    "subscribed_topics",
    "assigned_partitions",
)

EVENT_COLUMNS = (
    "partition",
    "offset",
    "timestamp_ms",
    "event",
    "generation",
    "members_joined",
    "members_left",
    "leader",
    "protocol",
    "topic_partition",
    "from",
    "to",
    "producer_id",
    "what",
    "members",
    "replaced_instances",
)
_NULLABLE_EVENT_COLUMNS = ("partition", "timestamp_ms", "generation", "from", "to", "producer_id")


def offsets_frame(groups: Iterable[AnyGroup]) -> pd.DataFrame:
    """Return a frame with a row for each committed offset, in the order of the groups.

    Times are in ms since the epoch.
    """
    import pandas as pd

    rows = [
        (group.group_id, partition.topic, partition.partition, *offset_values(group.offsets[partition]))
        for group in groups
        for partition in sorted(group.offsets)
    ]
    return pd.DataFrame(rows, columns=["group", "topic", "partition", *OFFSET_FIELD_NAMES])


def members_frame(groups: Iterable[AnyGroup]) -> pd.DataFrame:
    """Return a frame with a row for each member.

    Topics and partitions are lists, or None if the member's subscription or assignment cannot be read. Only members of
    classic groups have a `generation`. Only members of consumer, share and streams groups have a `member_epoch`.
    """
    import pandas as pd

    rows = []
    for group in groups:
        description = description_json(group)
        for member in description["members"]:
            topics, partitions = subscribed_and_assigned(group, member)
            row = dict(member)
            row["group"] = group.group_id
            row["generation"] = description.get("generation")
            row["subscribed_topics"] = topics
            row["assigned_partitions"] = partitions
            rows.append(row)
    return pd.DataFrame(rows, columns=MEMBER_COLUMNS)


def events_frame(events: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a frame with a row for each event of a timeline (history/event.py), in the same order.

    A missing number is NA. So the numbers stay exact: without NA, pandas would turn them into floats.
    """
    import pandas as pd

    frame = pd.DataFrame(list(events), columns=EVENT_COLUMNS)
    return frame.astype(dict.fromkeys(_NULLABLE_EVENT_COLUMNS, "Int64"))
