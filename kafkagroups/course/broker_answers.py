"""What real brokers answered about the logs in `data/`, compared with what this package loads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafkagroups.api import load
from kafkagroups.course.lesson_folders import find_data
from kafkagroups.course.log_lines import Lines, read_lines
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.loading.groups import Groups

_BROKERS = (("new", "4.3.1"), ("classic", "3.9.2"))


def compare_with_broker(our_result: Any, broker_result: Any, version: str, verb: str = "answered") -> None:
    """Print whether a real broker of this version had the same result as this package."""
    if our_result == broker_result:
        print(f"✓ a {version} broker {verb} the same")
    else:
        print(f"✗ a {version} broker {verb} {broker_result!r}; our result is {our_result!r}")


def compare_epochs_with_broker(name: str, group: ModernGroup, answer: dict[str, Any], version: str) -> None:
    """Print the state and the epochs of a loaded group, and whether a real broker answered the same.

    The group is a consumer, share or streams group, whose members' epochs are compared, too.
    """
    epochs = f"group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
    print(f"{name:<9} {group.state.value}, {epochs}, {len(group.offsets)} offsets", end="  ")
    members = {member_id: member.member_epoch for member_id, member in group.members.items()}
    ours = group.state.value, group.group_epoch, group.assignment_epoch, members
    answered_members = {member["member_id"]: member["epoch"] for member in answer["members"]}
    answered = answer["state"], answer["group_epoch"], answer["assignment_epoch"], answered_members
    compare_with_broker(ours, answered, version)


def fetch_offsets(groups: Groups, names: Iterable[str], require_stable: bool = False) -> dict[str, Any]:
    """Return what a broker with these loaded groups would return for OffsetFetch requests, by group id and "orders-0".

    An answer is a dict of offset, leader epoch and metadata, or the name of an error. If `require_stable` is true, it
    is UNSTABLE_OFFSET_COMMIT for a partition with a pending commit.
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


def read_answered_offsets(log: str) -> dict[tuple[str, str], int]:
    """Return the committed offsets that a real broker answered after it had loaded a log, as in `read_answers`."""
    offsets_by_group = read_answers(log)["offsets"]
    return {
        (group, partition): answer["offset"]
        for group, answers in offsets_by_group.items()
        for partition, answer in answers.items()
    }


def read_crafted_lines(name: str) -> Lines:
    return Lines(
        line if line.group is None else line._replace(group=_shorten(name, line.group))
        for line in read_lines(find_data(f"crafted/{name}"))
    )


def print_crafted_log(name: str) -> None:
    """Print the records of a log in `data/crafted`, and what both coordinators answer about its first group."""
    print(*read_crafted_lines(name), sep="\n")
    recorded = read_answers("crafted")[name]
    group_id = recorded["groups"][0]
    for coordinator, version in _BROKERS:
        groups = load(find_data(f"crafted/{name}"), coordinator)
        state = groups[group_id].state.value if group_id in groups else "Dead"
        offsets = fetch_offsets(groups, [group_id])[group_id]
        broker = recorded[coordinator]
        is_same = (state, offsets) == (broker["groups"][group_id]["state"], broker["offsets"][group_id])
        answer = _describe_group(_shorten(name, group_id), state, offsets)
        verdict = f"✓ a {version} broker answered the same" if is_same else f"✗ a {version} broker answered differently"
        print(f"  {coordinator + ' coordinator:':<20} {answer:<24} {verdict}")


def _shorten(name: str, group_id: str) -> str:
    """The group ids of the log "b24" begin with "b24.g.", "b24.h." and so on."""
    return group_id.removeprefix(f"{name}.").partition(".")[0]


def _describe_group(letter: str, state: str, offsets: dict[str, dict[str, int]]) -> str:
    if state == "Dead":
        return f"no group {letter}"
    values = ", ".join(f"{partition} = {offset['offset']}" for partition, offset in sorted(offsets.items()))
    return f"{letter}: {values or 'no offsets'}"
