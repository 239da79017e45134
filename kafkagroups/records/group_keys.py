"""The base classes of the keys of record types 3 to 23.

The bytes of a key are the record type (int16) and the fields below. Each record type has its own key class. The key of
type 16 also has a pattern of topic names (consumer_group.py).
Source: the …Key.json of each record type (4.3.1).
"""

from __future__ import annotations

from kafkagroups.records.fields import Message, field, message
from kafkagroups.records.wire import STRING


@message()
class GroupIdKey(Message):
    """The key of a record about a group."""

    group_id: str = field(STRING, doc="the group's id")


@message()
class MemberIdKey(GroupIdKey):
    """The key of a record about a member."""

    member_id: str = field(STRING, doc="the member's id")
