"""Lesson 13: the epochs of a consumer group, its targets and its current assignments, record by record.

The figure loads the partition of the shop's group `loyalty` (data/harbour/4.3.1) up to each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, measure_text
from kafkagroups.course.log_lines import Names, collect_names, describe_record, keep_first_records
from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import Observer
from kafkagroups.groups.replay import find_group_id, fold_batches
from kafkagroups.loading.load import combine_shards
from kafkagroups.log.batch import Batch
from kafkagroups.log.folders import open_logs
from kafkagroups.records.releases import dialect
from kafkagroups.records.serde import decode

_TOKEN_SIZE = 28
_CELL_WIDTH = 108
_GROUP_TOPS = (42, 96)
_FREE_TOP = 48
_DELAY = 0.6
"""The seconds until the record has come, and changes what the coordinator knows."""
_FIRST_MEMBER_TOP = 162
_MEMBER_HEIGHT = 74
_STATE_NAMES = {0: "0: Stable", 1: "1: must revoke", 2: "2: waits for others"}
_REASON_BY_TYPE = {
    3: "The group has changed, so the group epoch rises. The targets are still old.",
    5: "The log now contains the subscription of a member.",
    6: "All targets are computed for this group epoch. The members do not have them yet.",
    7: "The coordinator has computed a target: the partitions that the member should have.",
}


class _Member(NamedTuple):
    epoch: int
    state: int | None
    current: tuple[str, ...]
    revoking: tuple[str, ...]
    target: tuple[str, ...]


class _State(NamedTuple):
    group_epoch: int
    assignment_epoch: int
    members: dict[str, _Member]


class Epochs(Figure):
    """Raises UsageError if the log has no record of the consumer group `group`."""

    def __init__(self, path: str | Path, group: str) -> None:
        steps = list(_list_steps(path, group))
        if not steps:
            raise UsageError(f"Epochs: {path} has no record of a consumer group {group!r}")
        last = steps[-1][2]
        height = _FIRST_MEMBER_TOP + _MEMBER_HEIGHT * len(last.members) + 14
        partitions = sorted({each for member in last.members.values() for each in member.target})
        epochs = sorted({epoch for _, _, state in steps for epoch in _list_epochs(state)})
        names = ["nothing is loaded", *(f"record {title.partition(':')[0]}" for _, title, _ in steps)]
        states = [_State(0, 0, {}), *(state for _, _, state in steps)]

        def draw(number: int) -> Scene:
            state = states[number]
            before = states[max(number - 1, 0)]
            caption = "Load the records of the group one by one. Its commits are left out."
            scene = _draw(caption, state, before, (list(last.members), partitions, epochs))
            if not number:
                return scene
            record_type, title, _ = steps[number - 1]
            words = f"record {':'.join(title.split(':')[:2])}"
            frame = (4, height - 26, measure_text(words, 12) + 16, 24)
            record = Box(words, *frame, (words,), Tone.NEW, is_pinned=True)
            caption = f"Record {title}. {_explain(record_type, state, before)}"
            return replace(scene, marks=(*scene.marks, record), caption=caption)

        revokes = (n for n, state in enumerate(states) if any(member.revoking for member in state.members.values()))
        controls = (Control("record", "step", tuple(names), initial=next(revokes, 0)),)
        super().__init__(Content.draw(f"The epochs of the consumer group {group}", height, controls, draw))


def _list_steps(path: str | Path, group: str) -> Iterator[tuple[int, str, _State]]:
    names = collect_names(path)
    rules = dialect("new", None)
    log = open_logs(str(path))[0]
    earlier: list[Batch] = []
    for batch in log:
        for count, log_record in enumerate(batch.records, 1):
            record = decode(log_record.key, log_record.value)
            if find_group_id(record) != group or record.type in (0, 1):
                continue
            shard = fold_batches(log.partition, [*earlier, keep_first_records(batch, count)], rules, Observer())
            loaded = combine_shards([shard], rules).get(group)
            title = f"{log_record.offset}: {describe_record(record, names)}"
            if isinstance(loaded, ModernGroup):
                yield record.type, title, _read_state(loaded, names)
        earlier.append(batch)


def _read_state(group: ModernGroup, names: Names) -> _State:
    members = {}
    for member_id, member in group.members.items():
        target = group.targets.get(member_id)
        current = member.assignment
        members[names.clients[member_id]] = _Member(
            member.member_epoch,
            None if current is None else member.state,
            _list_partitions(current.assigned_partitions if current else [], names.topics),
            _list_partitions(current.partitions_pending_revocation if current else [], names.topics),
            _list_partitions(target.topic_partitions if target else [], names.topics),
        )
    return _State(group.group_epoch, group.assignment_epoch, dict(sorted(members.items())))


def _name_state(member: _Member) -> str:
    return "no record 8 yet" if member.state is None else _STATE_NAMES.get(member.state, str(member.state))


def _list_partitions(assignment: list[Any], topics: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{topics[each.topic_id]}-{number}" for each in assignment for number in sorted(each.partitions))


def _list_epochs(state: _State) -> list[int]:
    return [state.group_epoch, state.assignment_epoch, *(member.epoch for member in state.members.values())]


def _draw(caption: str, state: _State, before: _State, shape: tuple[list[str], list[str], list[int]]) -> Scene:
    members, partitions, epochs = shape
    tops = {name: _FIRST_MEMBER_TOP + number * _MEMBER_HEIGHT for number, name in enumerate(members)}
    marks: list[Mark] = [
        Label("epoch title", 212, 16, "epoch", "end", Tone.MUTED),
        Label("free title", _find_left(0), 38, "no member has:", tone=Tone.MUTED),
    ]
    for epoch in epochs:
        x = _find_token(epoch, epochs) + _TOKEN_SIZE / 2
        marks.append(Label(f"epoch {epoch}", x, 16, str(epoch), "middle", Tone.MUTED))
        marks.append(Arrow(f"line {epoch}", x, 22, x, max(tops.values()) + 40, Tone.MUTED, has_head=False))
    marks += _draw_epoch("group epoch", _GROUP_TOPS[0], state.group_epoch, before.group_epoch, epochs)
    marks += _draw_epoch("assignment epoch", _GROUP_TOPS[1], state.assignment_epoch, before.assignment_epoch, epochs)
    text = [f"group epoch: {state.group_epoch}", f"assignment epoch: {state.assignment_epoch}"]
    for name, top in tops.items():
        member = state.members.get(name)
        marks += [_draw_cell(name, column, top, partition, member) for column, partition in enumerate(partitions)]
        if member is None:
            marks.append(Label(f"name {name}", 4, top - 6, name, tone=Tone.MUTED, is_pinned=True))
            continue
        old = before.members.get(name)
        marks += _draw_epoch(name, top, member.epoch, old.epoch if old else 0, epochs)
        marks.append(Label(f"state {name}", 100, top - 6, _name_state(member), delay=_DELAY, is_pinned=True))
        text += [f"epoch of {name}: {member.epoch}"]
        text += [f"state of {name}: {_name_state(member)}"]
        text += [f"{name} has: {partition}" for partition in member.current]
        text += [f"{name} must revoke: {partition}" for partition in member.revoking]
        text += [f"{name} should have: {partition}" for partition in member.target]
    for column, partition in enumerate(partitions):
        marks += _draw_partition(column, partition, state, tops)
    return Scene(tuple(marks), caption, tuple(text))


def _find_token(epoch: int, epochs: list[int]) -> float:
    return 8 + epochs.index(epoch) * 138 / max(len(epochs) - 1, 1)


def _draw_epoch(name: str, top: float, epoch: int, before: int, epochs: list[int]) -> Iterator[Mark]:
    tone = Tone.NEW if epoch != before else Tone.LIVE
    left = _find_token(epoch, epochs)
    yield Label(f"name {name}", 4, top - 6, name, is_bold=True, is_pinned=True)
    frame = (left, top + 4, _TOKEN_SIZE, _TOKEN_SIZE)
    yield Box(f"token {name}", *frame, (str(epoch),), tone, 14, is_bold=True, delay=_DELAY)


def _find_left(column: int) -> float:
    return 220 + column * (_CELL_WIDTH + 3)


def _draw_cell(name: str, column: int, top: float, partition: str, member: _Member | None) -> Box:
    """A cell is dashed unless the member should have the partition. Its lower lines are for the partition's chip."""
    lines: tuple[str, ...] = ()
    tone = Tone.MUTED
    if member is not None and partition in member.target:
        lines = ("target", "", "")
        tone = Tone.PLAIN if partition in member.current else Tone.WAIT
    elif member is not None and partition in member.revoking:
        lines = ("must go", "", "")
        tone = Tone.ERROR
    key = f"cell {name} {partition}"
    is_dashed = "target" not in lines
    return Box(key, _find_left(column), top, _CELL_WIDTH, 50, lines, tone, is_dashed=is_dashed, delay=_DELAY)


def _draw_partition(column: int, partition: str, state: _State, tops: dict[str, int]) -> Iterator[Mark]:
    """The chip of a partition is in the row of the member that has it."""
    left = _find_left(column)
    top = _FREE_TOP
    tone = Tone.PLAIN
    for name, member in state.members.items():
        if partition in (*member.current, *member.revoking):
            top = tops[name] + 22
            tone = Tone.ERROR if partition in member.revoking else Tone.LIVE
    style: dict[str, Any] = {"is_dashed": tone is Tone.ERROR, "hue": partition, "delay": _DELAY}
    frame = (left, _FREE_TOP - 4, _CELL_WIDTH, 32)
    yield Box(f"free {partition}", *frame, tone=Tone.MUTED, is_dashed=True)
    yield Box(f"chip {partition}", left + 3, top, _CELL_WIDTH - 6, 24, (partition,), tone, **style)


def _explain(record_type: int, state: _State, before: _State) -> str:
    if record_type != 8:
        return _REASON_BY_TYPE.get(record_type, "")
    changed = [name for name, member in state.members.items() if member != before.members.get(name)]
    if not changed:
        return "Nothing changes in the memory."
    member = state.members[changed[0]]
    old = before.members.get(changed[0])
    if member.revoking:
        return f"{changed[0]} must revoke {', '.join(member.revoking)} first. Its epoch does not rise yet."
    if old is not None and old.revoking:
        return f"{changed[0]} has revoked {', '.join(old.revoking)}, and its epoch rises."
    if member.state == 2:
        return f"{changed[0]} has the new epoch, and waits for a partition that another member still has."
    return f"{changed[0]} has all partitions of its target."
