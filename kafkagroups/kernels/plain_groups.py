"""Kernel that decides whether a group record is plain: whether the coordinator can certainly read it without an error.

A group record contains the whole state of a classic group. So a plain record replaces the previous plain records of its
group, and the replaced records are never decoded. A group record is not plain if its value version is above 3, if it
has more than MAX_MEMBERS members, or if its layout is unusual. A record that is not plain must be decoded, because
decoding it can fail, or its result can depend on the coordinator's version.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.scan import is_valid_utf8, load_int16, load_int32, same_bytes

MAX_MEMBERS = 64
"""The largest number of members in a plain record. The limit is low, because each member id is compared with all other
member ids."""
MEMBER_ID, INSTANCE_ID = range(2)
"""The columns of `members`: the positions of a member's id and of the member's instance id (-1: no instance id)."""
_CONSUMER_TYPE = b"consumer"
_CONSUMER_TYPE_SIZE = 8


@inlined
def _skip_string(data: Any, position: int, end: int, is_nullable: bool) -> int:
    """Return the position after the string at `position`.

    Return -1 if the string does not end before `end`, if it is null but not nullable, or if `position` is -1.
    """
    if position < 0 or position + 2 > end:
        return -1
    size = load_int16(data, position)
    if size < 0:
        return position + 2 if is_nullable else -1
    return position + 2 + size if position + 2 + size <= end else -1


@inlined
def _skip_bytes(data: Any, position: int, end: int) -> int:
    """Return the position after the field of type bytes at `position`.

    Return -1 if the field is null, if it does not end before `end`, or if `position` is -1.
    """
    if position < 0 or position + 4 > end:
        return -1
    size = load_int32(data, position)
    return position + 4 + size if 0 <= size <= end - position - 4 else -1


@kernel
def is_plain_group(
    data: Any, key_start: int, key_size: int, value_start: int, value_size: int, max_version: int, members: Any
) -> bool:
    """Return whether a group record (key type 2) is plain.

    A tombstone (`value_size` is -1) is plain if the group id in its key is valid.

    `max_version` is the highest value version that the coordinator reads. `members` is working memory with MAX_MEMBERS
    rows; MEMBER_ID and INSTANCE_ID are its columns.

    - A value contains: version (2 bytes), protocol type, generation (4 bytes), protocol, leader, timestamp (8 bytes,
      since version 2), number of members (4 bytes), members.
    - A member contains: member id, instance id (since version 3), client id, client host, rebalance timeout (4 bytes,
      since version 1), session timeout (4 bytes), subscription, assignment.
    """
    if key_size < 4:
        return False
    group_size = load_int16(data, key_start + 2)
    if group_size < 0 or group_size > key_size - 4 or not is_valid_utf8(data, key_start + 4, group_size):
        return False
    if value_size < 0:
        return True
    end = value_start + value_size
    if value_size < 2:
        return False
    version = load_int16(data, value_start)
    if version < 0 or version > 3 or version > max_version:
        return False
    protocol_type_start = value_start + 2
    position = _skip_string(data, protocol_type_start, end, is_nullable=False)
    if position < 0 or position + 4 > end:
        return False
    position += 4
    has_protocol = position + 2 <= end and load_int16(data, position) >= 0
    position = _skip_string(data, position, end, is_nullable=True)  # protocol
    position = _skip_string(data, position, end, is_nullable=True)  # leader
    if position < 0:
        return False
    position += 8 if version >= 2 else 0
    if position + 4 > end:
        return False
    member_count = load_int32(data, position)
    position += 4
    if member_count < 0 or member_count > MAX_MEMBERS:
        return False
    # A coordinator decodes subscriptions only if the protocol type is "consumer" and a protocol is chosen.
    decodes_subscriptions = load_int16(data, protocol_type_start) == _CONSUMER_TYPE_SIZE and has_protocol
    for index in range(_CONSUMER_TYPE_SIZE):
        letter_position = protocol_type_start + 2 + index
        decodes_subscriptions = decodes_subscriptions and data[letter_position] == _CONSUMER_TYPE[index]
    for member in range(member_count):
        members[member, MEMBER_ID] = position
        members[member, INSTANCE_ID] = -1
        position = _skip_string(data, position, end, is_nullable=False)
        if position < 0:
            return False
        if version >= 3:
            if position + 2 > end:
                return False
            members[member, INSTANCE_ID] = position if load_int16(data, position) >= 0 else -1
            position = _skip_string(data, position, end, is_nullable=True)
        position = _skip_string(data, position, end, is_nullable=False)  # client id
        position = _skip_string(data, position, end, is_nullable=False)  # client host
        if position < 0:
            return False
        position += 8 if version >= 1 else 4
        subscription_start = position + 4
        position = _skip_bytes(data, position, end)
        if position < 0 or (decodes_subscriptions and not _is_plain_subscription(data, subscription_start, position)):
            return False
        position = _skip_bytes(data, position, end)  # assignment
        if position < 0 or not _has_unique_ids(data, members, member):
            return False
    return True


@kernel
def _is_plain_subscription(data: Any, position: int, end: int) -> bool:
    """Return whether the bytes from `position` to `end` begin with a subscription in the oldest layout.

    This layout has the version, the topics and the user data. Newer layouts only add fields after the user data.
    """
    if position + 6 > end:
        return False
    topic_count = load_int32(data, position + 2)
    position += 6
    if topic_count < 0 or topic_count > end - position:
        return False
    for _ in range(topic_count):
        position = _skip_string(data, position, end, is_nullable=False)
        if position < 0:
            return False
    return position + 4 <= end and load_int32(data, position) <= end - position - 4


@kernel
def _has_unique_ids(data: Any, members: Any, member: int) -> bool:
    """Return whether the member id and the instance id of a member differ from those of all previous members.

    `member` is the number of the member's row in `members`.
    """
    for column in (MEMBER_ID, INSTANCE_ID):
        id_start = members[member, column]
        if id_start < 0:
            continue
        id_size = load_int16(data, id_start) + 2
        for other_member in range(member):
            other_id_start = members[other_member, column]
            if (
                other_id_start >= 0
                and load_int16(data, other_id_start) + 2 == id_size
                and same_bytes(data, id_start, data, other_id_start, id_size)
            ):
                return False
    return True
