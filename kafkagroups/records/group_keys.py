"""The keys of record types 3 to 23: int16 record type, then the group's id, and for a member's record the member's id.

Source: the …Key.json of each record type (4.3.1). Each type has a class of its own, so that a key tells its type.
"""

from __future__ import annotations

from kafkagroups.records.fields import Message, field, message
from kafkagroups.records.wire import STRING


@message()
class GroupIdKey(Message):
    group_id: str = field(STRING, doc="which group this is about")


@message()
class MemberIdKey(GroupIdKey):
    member_id: str = field(STRING, doc="which of its members")
