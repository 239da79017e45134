"""Small functions for lessons: compare results, fetch offsets, print bytes and remedies."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafkagroups.api import check
from kafkagroups.course.lesson_folders import find_data
from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.loading.groups import Groups
from kafkagroups.log.folders import open_log
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.serde import decode


def compare_with_broker(our_result: Any, broker_result: Any, version: str, verb: str = "answered") -> None:
    """Print whether a real broker had the same result as this package.

    Parameters
    ----------
    our_result
        The result that this package computed.
    broker_result
        The recorded result of the real broker.
    version
        The broker's Kafka version.
    verb
        What the broker did, as a verb of the printed sentence, for example "answered" or "stored".
    """
    if our_result == broker_result:
        print(f"✓ a {version} broker {verb} the same")
    else:
        print(f"✗ a {version} broker {verb} {broker_result!r}; our result is {our_result!r}")


def compare_epochs_with_broker(name: str, group: ModernGroup, answer: dict[str, Any], version: str) -> None:
    """Print the state and the epochs of a loaded group, and whether a real broker answered the same.

    The epochs of the members are compared, too.

    Parameters
    ----------
    name
        The group id.
    group
        The loaded group: a consumer, share or streams group.
    answer
        The broker's description of the group, as in `read_answers`.
    version
        The broker's Kafka version.
    """
    epochs = f"group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
    print(f"{name:<9} {group.state.value}, {epochs}, {len(group.offsets)} offsets", end="  ")
    members = {member_id: member.member_epoch for member_id, member in group.members.items()}
    ours = group.state.value, group.group_epoch, group.assignment_epoch, members
    answered_members = {member["member_id"]: member["epoch"] for member in answer["members"]}
    answered = answer["state"], answer["group_epoch"], answer["assignment_epoch"], answered_members
    compare_with_broker(ours, answered, version)


def print_first_remedy(path: str | Path, kafka: str) -> None:
    """Print the remedy of the first finding of `kafkagroups check`, with each sentence on its own line.

    Parameters
    ----------
    path
        The folder of a partition that does not load.
    kafka
        The Kafka version of the broker.
    """
    first_finding = check(path, kafka=kafka).findings[0]
    for sentence in re.split(r"(?<=\.) (?=[A-Z0-9])", first_finding.remedy):
        print(*textwrap.wrap(sentence, 90, subsequent_indent="    ", break_on_hyphens=False), sep="\n")


def fetch_offsets(groups: Groups, names: Iterable[str], require_stable: bool = False) -> dict[str, Any]:
    """Return the offsets that a broker with these groups would return for OffsetFetch requests.

    Parameters
    ----------
    groups
        The loaded groups.
    names
        The ids of the groups to fetch.
    require_stable
        The value of requireStable in the requests. If it is true, the answer for a partition with a pending commit is
        the error UNSTABLE_OFFSET_COMMIT.

    Returns
    -------
    dict
        One dict for each group id in `names`. The keys of this dict are partitions ("orders-0"). Each value is a dict
        with offset, leader epoch and metadata, or the name of an error. For a group that is not loaded, the dict is
        empty.
    """
    answers: dict[str, Any] = {}
    for name in names:
        group = groups.get(name)
        offsets = {} if group is None else group.offsets
        answers[name] = {
            str(partition): {
                "offset": committed.offset,
                "leader_epoch": committed.leader_epoch,
                "metadata": committed.metadata,
            }
            for partition, committed in offsets.items()
        }
        if group is not None and require_stable:
            for pending_offsets in group.pending.values():
                answers[name] |= {str(partition): "UNSTABLE_OFFSET_COMMIT" for partition in pending_offsets}
    return answers


def read_answers(log: str, file: str = "answers.json") -> dict[str, Any]:
    """Return what a real broker answered after it had loaded a log of the course.

    Parameters
    ----------
    log
        The log's name below `data`, for example "harbour/4.3.1".
    file
        The file with the answers: "before.json" has those that clients got before the crash.

    Returns
    -------
    dict
        `offsets`: for each group, the partitions ("orders-0"), each with offset, leader epoch and metadata.
        `stable`: the same, asked with requireStable. `groups`: the descriptions of the groups. `listed`: the answer to
        ListGroups.
    """
    answers: dict[str, Any] = json.loads(Path(find_data(f"{log}/{file}")).read_text(encoding="utf-8"))
    return answers


def read_record(path: str, offset: int) -> tuple[bytes | None, bytes | None]:
    """Return the key and the value of one record as bytes.

    Parameters
    ----------
    path
        A partition folder or one segment file (`.log`).
    offset
        The record's offset in the log.

    Raises
    ------
    UsageError
        If the log has no record at this offset.
    """
    for batch in open_log(path):
        for record in batch.records:
            if record.offset == offset:
                return record.key, record.value
    raise UsageError(f"{path} has no record at offset {offset}")


def read_group_value(log: str, offset: int) -> GroupMetadataValue:
    """Return the value of a group record in a log of the course.

    Parameters
    ----------
    log
        The partition's name below `data`, for example "harbour/4.3.1/__consumer_offsets-9".
    offset
        The record's offset in the log.
    """
    value = decode(*read_record(find_data(log), offset)).value
    assert isinstance(value, GroupMetadataValue)
    return value


def read_string(data: bytes, position: int) -> tuple[str | None, int]:
    """Return the text at a position of a key, and the position after the text. A negative length means null.

    Parameters
    ----------
    data
        The bytes of a key, or of a value that is not flexible.
    position
        The position of the text's length, which has two bytes.
    """
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    start = position + 2
    if length < 0:
        return None, start
    return data[start : start + length].decode(), start + length


def hexdump(data: bytes, first_position: int = 0) -> None:
    """Print bytes, 16 per line. Each line has the position, the bytes in hex, and the characters.

    A character that is not a printable ASCII character is printed as a dot.

    Parameters
    ----------
    data
        The bytes.
    first_position
        The position that is printed for the first byte.
    """
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        left_hex = line[:8].hex(" ")
        right_hex = line[8:].hex(" ")
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in line)
        print(f"{first_position + start:>6}  {left_hex:<23}  {right_hex:<23}  {text}")
