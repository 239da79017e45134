"""Kernel that decides whether a group record is plain: every coordinator since 0.10.1 can read it.

Only the newest plain record of a group counts, so the others need not be decoded. Records that are not plain (a version
above 3, many members, odd bytes) are decoded one by one.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.scan import int16, int32, is_plain_text, same_text

MOST_MEMBERS = 64
_CONSUMER = b"consumer"


@inlined
def _after_string(data: Any, at: int, end: int, nullable: bool) -> int:
    """Return the position behind a string; -1 if it is not whole, or null where null is not allowed."""
    if at < 0 or at + 2 > end:
        return -1
    length = int16(data, at)
    if length < 0:
        return at + 2 if nullable else -1
    return at + 2 + length if at + 2 + length <= end else -1


@inlined
def _after_bytes(data: Any, at: int, end: int) -> int:
    if at < 0 or at + 4 > end:
        return -1
    length = int32(data, at)
    return at + 4 + length if 0 <= length <= end - at - 4 else -1


@kernel
def is_plain_group(data: Any, key: int, key_size: int, value: int, size: int, highest: int, members: Any) -> bool:
    """Return whether a record of type 2 is plain. `size` -1 is a tombstone. `members` has MOST_MEMBERS rows of two."""
    if key_size < 4 or int16(data, key + 2) < 0 or int16(data, key + 2) + 4 > key_size:
        return False
    if not is_plain_text(data, key + 4, int16(data, key + 2)):
        return False
    if size < 0:
        return True
    end = value + size
    if size < 2:
        return False
    version = int16(data, value)
    if version < 0 or version > 3 or version > highest:
        return False
    kind = value + 2
    at = _after_string(data, kind, end, False)
    if at < 0 or at + 4 > end:
        return False
    at += 4
    has_protocol = at + 2 <= end and int16(data, at) >= 0
    at = _after_string(data, at, end, True)
    at = _after_string(data, at, end, True)
    if at < 0:
        return False
    at += 8 if version >= 2 else 0
    if at + 4 > end:
        return False
    count = int32(data, at)
    at += 4
    if count < 0 or count > MOST_MEMBERS:
        return False
    consumer = int16(data, kind) == 8 and has_protocol
    for place in range(8):
        consumer = consumer and data[kind + 2 + place] == _CONSUMER[place]
    for number in range(count):
        members[number, 0] = at
        members[number, 1] = -1
        at = _after_string(data, at, end, False)
        if at < 0:
            return False
        if version >= 3:
            if at + 2 > end:
                return False
            members[number, 1] = at if int16(data, at) >= 0 else -1
            at = _after_string(data, at, end, True)
        at = _after_string(data, _after_string(data, at, end, False), end, False)
        if at < 0:
            return False
        at += 8 if version >= 1 else 4
        subscription = at + 4
        at = _after_bytes(data, at, end)
        if at < 0 or (consumer and not _is_plain_subscription(data, subscription, at)):
            return False
        at = _after_bytes(data, at, end)
        if at < 0 or not _is_new(data, members, number):
            return False
    return True


@kernel
def _is_plain_subscription(data: Any, at: int, end: int) -> bool:
    """Return whether a subscription can be read in its oldest layout: version, topics, user data."""
    if at + 6 > end:
        return False
    topics = int32(data, at + 2)
    at += 6
    if topics < 0 or topics > end - at:
        return False
    for _ in range(topics):
        at = _after_string(data, at, end, False)
        if at < 0:
            return False
    return at + 4 <= end and int32(data, at) <= end - at - 4


@kernel
def _is_new(data: Any, members: Any, number: int) -> bool:
    """Return whether no member before this one has the same member id or the same instance id."""
    for which in range(2):
        mine = members[number, which]
        if mine < 0:
            continue
        length = int16(data, mine) + 2
        for other in range(number):
            theirs = members[other, which]
            if theirs >= 0 and int16(data, theirs) + 2 == length and same_text(data, mine, data, theirs, length):
                return False
    return True
