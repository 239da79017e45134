"""The keys of record types 3 to 23: a group id, and in a member's record also a member id.

In the bytes of a key, the int16 record type comes first. Type 16 also has a pattern. Each type has its own class, so
the class of a key shows the record type.
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
