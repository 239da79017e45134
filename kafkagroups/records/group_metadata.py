"""Record type 2: a classic consumer group, its generation and its members.

A generation is the time between two rebalances of a group. A broker writes the record in these cases:

- The group's leader has sent the assignment of a new generation (SyncGroup).
- The last member has left.
- A static member (a member with a name, its instance id) was replaced by a new member with the same name.
- Since 4.0: the group is created. This record contains no members.

A record with a null value (a tombstone) deletes the group. The key consists of the int16 record type 2 and the group.
The value consists of the int16 value version and the fields below.
Source (4.3.1): GroupMetadataKey.json; GroupMetadataValue.json.
"""

from __future__ import annotations

from kafkagroups.records.structs import Message, field
from kafkagroups.records.wire import BYTES, INT32, INT64, STRING


class GroupMetadataKey(Message):
    """The key of record type 2."""

    group: str = field(STRING, "the group's id")


class MemberMetadata(Message, flexible="4+"):
    """One member in a group record.

    The bytes in `subscription` come from the member's JoinGroup request, and those in `assignment` from the leader's
    SyncGroup request; consumer_protocol.py decodes them.
    """

    member_id: str = field(STRING, "the id that the coordinator gave the member")
    group_instance_id: str | None = field(STRING, "a static member's name; null = dynamic", versions="3+", default=None)
    client_id: str = field(STRING, "the client's id")
    client_host: str = field(STRING, "the host that the client connected from")
    rebalance_timeout: int = field(INT32, "ms a rebalance waits for this member to join", versions="1+", default=-1)
    session_timeout: int = field(INT32, "ms without a heartbeat until the member is removed")
    subscription: bytes = field(BYTES, "the member's subscription, in the client's format")
    assignment: bytes = field(BYTES, "the member's assignment, in the client's format")


class GroupMetadataValue(Message, flexible="4+"):
    """One generation of a classic group, with its members.

    version  written by        new in this version
    0        0.9, 0.10.0
    1        0.10.1 to 2.0     rebalance_timeout of members in ms, -1 = unknown (KIP-62)
    2        2.1, 2.2          current_state_timestamp in ms, -1 = unknown (KIP-211)
    3        since 2.3         group_instance_id of members, null = not a static member (KIP-345)
    4        no broker yet     compact lengths, tagged fields

    `protocol` and `leader` are null in a generation without members.
    """

    protocol_type: str = field(STRING, 'what kind of group: "consumer", "connect", …')
    generation: int = field(INT32, "counts the group's rebalances")
    protocol: str | None = field(STRING, "the assignor that the members agreed on")
    leader: str | None = field(STRING, "the member that computed the assignment")
    current_state_timestamp: int = field(
        INT64, "when the group entered its state, ms since 1970", versions="2+", default=-1
    )
    members: tuple[MemberMetadata, ...] = field(MemberMetadata, "the members of this generation")
