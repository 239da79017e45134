"""pandas DataFrames: of committed offsets, of members, and of the events in a group's history.

pandas is imported only when one of these functions is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.loading.group_json import member_rows, offset_json

if TYPE_CHECKING:
    import pandas as pd

_OFFSET_COLUMNS = """group topic partition offset leader_epoch metadata commit_timestamp expire_timestamp topic_id
    record_offset"""
_MEMBER_COLUMNS = """group generation member_id group_instance_id client_id client_host rebalance_timeout_ms
    session_timeout_ms member_epoch subscribed_topics assigned_partitions"""
_EVENT_COLUMNS = """partition offset timestamp_ms event generation members_joined members_left leader protocol
    topic_partition from to producer_id what members replaced_instances"""
_NULLABLE_EVENT_COLUMNS = ("partition", "timestamp_ms", "generation", "from", "to", "producer_id")


def offsets_frame(groups: Iterable[AnyGroup]) -> pd.DataFrame:
    """Return a frame with a row for each committed offset, in the order of the groups. Times are in ms since 1970."""
    import pandas as pd

    rows = [
        {"group": group.group_id, "topic": key.topic, "partition": key.partition} | offset_json(group.offsets[key])
        for group in groups
        for key in sorted(group.offsets)
    ]
    return pd.DataFrame(rows, columns=_OFFSET_COLUMNS.split())


def members_frame(groups: Iterable[AnyGroup]) -> pd.DataFrame:
    """Return a frame with a row for each member (`group_json.member_rows`).

    Only members of classic groups have a `generation`, and only those of other groups a `member_epoch`.
    """
    import pandas as pd

    return pd.DataFrame([row for group in groups for row in member_rows(group)], columns=_MEMBER_COLUMNS.split())


def events_frame(events: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a frame with a row for each event of a timeline (history/event.py), in the same order.

    A missing number is NA. So the numbers stay exact: without NA, pandas would turn them into floats.
    """
    import pandas as pd

    frame = pd.DataFrame(list(events), columns=_EVENT_COLUMNS.split())
    return frame.astype(dict.fromkeys(_NULLABLE_EVENT_COLUMNS, "Int64"))
