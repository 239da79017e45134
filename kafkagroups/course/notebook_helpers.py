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


def compare_with_broker(our_result: Any, broker_result: Any, version: str, verb: str = "answered") -> None:
    """Print whether a real broker of this version had the same result as this package.

    `verb` is what the broker did, in the printed sentence, for example "answered" or "stored".
    """
    if our_result == broker_result:
        print(f"✓ a {version} broker {verb} the same")
    else:
        print(f"✗ a {version} broker {verb} {broker_result!r}; our result is {our_result!r}")


def compare_epochs_with_broker(name: str, group: ModernGroup, answer: dict[str, Any], version: str) -> None:
    """Print the state and the epochs of a loaded group, and whether a real broker answered the same.

    The group is a consumer, share or streams group, whose members' epochs are compared, too. `answer` is the broker's
    description of it, as in `read_answers`.
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

    `path` is the folder of a partition that does not load.
    """
    first_finding = check(path, kafka=kafka).findings[0]
    for sentence in re.split(r"(?<=\.) (?=[A-Z0-9])", first_finding.remedy):
        print(*textwrap.wrap(sentence, 90, subsequent_indent="    ", break_on_hyphens=False), sep="\n")


def fetch_offsets(groups: Groups, names: Iterable[str], require_stable: bool = False) -> dict[str, Any]:
    """Return what a broker with these loaded groups would return for OffsetFetch requests, by group id and "orders-0".

    An answer is a dict of offset, leader epoch and metadata, or the name of an error. If `require_stable` is true, it
    is UNSTABLE_OFFSET_COMMIT for a partition with a pending commit. For a group that is not loaded, there are no
    partitions.
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
    """Return what a real broker answered after it had loaded a log below `data`, for example "harbour/4.3.1".

    The file "before.json" has the answers that clients got before the crash. `offsets` has for each group the
    partitions ("orders-0"), each with offset, leader epoch and metadata, and `stable` the same, asked with
    requireStable. `groups` has the descriptions of the groups, and `listed` the answer to ListGroups.
    """
    answers: dict[str, Any] = json.loads(Path(find_data(f"{log}/{file}")).read_text(encoding="utf-8"))
    return answers


def read_record(path: str, offset: int) -> tuple[bytes | None, bytes | None]:
    """Return the key and the value of the record at an offset of a partition folder or a segment file.

    Raises UsageError if the log has no record at this offset.
    """
    for batch in open_log(path):
        for record in batch.records:
            if record.offset == offset:
                return record.key, record.value
    raise UsageError(f"{path} has no record at offset {offset}")


def read_string(data: bytes, position: int) -> tuple[str | None, int]:
    """Return the text at a position of a key or of a value that is not flexible, and the position after the text.

    At the position is the text's length, which has two bytes. A negative length means null.
    """
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    start = position + 2
    if length < 0:
        return None, start
    return data[start : start + length].decode(), start + length


def hexdump(data: bytes, first_position: int = 0) -> None:
    """Print bytes, 16 per line: the position, the bytes in hex, and the characters, with a dot for unprintable ones.

    `first_position` is printed for the first byte.
    """
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        left_hex = line[:8].hex(" ")
        right_hex = line[8:].hex(" ")
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in line)
        print(f"{first_position + start:>6}  {left_hex:<23}  {right_hex:<23}  {text}")
