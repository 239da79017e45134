"""Lesson 13: the epochs of a consumer group, its targets and its current assignments, record by record.

The figure loads the partition of the shop's group `loyalty` (data/harbour/4.3.1) up to each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone
from kafkagroups.course.log_lines import Names, collect_names, describe_record, keep_first_records
from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import Observer, TopicPartition
from kafkagroups.groups.replay import find_group_id, fold_batches
from kafkagroups.loading.load import combine_shards
from kafkagroups.log.batch import Batch
from kafkagroups.log.folders import open_logs
from kafkagroups.records.dialects import dialect
from kafkagroups.records.serde import decode

_EPOCH_LEFT = 150
_AXIS_WIDTH = 166
_TOKEN_WIDTH = 28
_CELLS_LEFT = 332
_CELL_WIDTH = 72
_CELL_HEIGHT = 50
_CHIP_HEIGHT = 24
_FREE_TOP = 40
_FIRST_MEMBER_TOP = 116
_MEMBER_HEIGHT = 60
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
        height = _FIRST_MEMBER_TOP + _MEMBER_HEIGHT * len(last.members)
        partitions = sorted({each for member in last.members.values() for each in member.target})
        epochs = sorted({epoch for _, _, state in steps for epoch in _list_epochs(state)})
        names = ["nothing is loaded", *(f"record {title.partition(':')[0]}" for _, title, _ in steps)]
        states = [_State(0, 0, {}), *(state for _, _, state in steps)]

        def draw(number: int) -> Scene:
            state = states[number]
            before = states[max(number - 1, 0)]
            caption = "Load the records of the group one by one. Its commits are left out."
            if number:
                record_type, title, _ = steps[number - 1]
                caption = f"Record {title}. {_explain(record_type, state, before)}"
            return _draw(caption, state, before, (list(last.members), partitions, epochs))

        controls = (Control("record", "step", tuple(names)),)
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
    marks: list[Mark] = [Label("epoch title", 10, 16, "epoch", tone=Tone.MUTED)]
    for epoch in epochs:
        x = _find_token(epoch, epochs) + _TOKEN_WIDTH / 2
        marks.append(Label(f"epoch {epoch}", x, 16, str(epoch), "middle", Tone.MUTED))
        marks.append(Arrow(f"line {epoch}", x, 22, x, _find_top(len(members)) - 14, Tone.MUTED, has_head=False))
    marks.append(Label("free", _CELLS_LEFT, 32, "no member has", tone=Tone.MUTED))
    marks += _draw_epoch("group epoch", 30, state.group_epoch, before.group_epoch, epochs)
    marks += _draw_epoch("assignment epoch", 66, state.assignment_epoch, before.assignment_epoch, epochs)
    for column, partition in enumerate(partitions):
        marks.append(_draw_slot(f"free {partition}", column, _FREE_TOP, Tone.MUTED))
    chips: list[Mark] = []
    for number, name in enumerate(members):
        member = state.members.get(name)
        marks += _draw_member(name, _find_top(number), member, before.members.get(name), epochs)
        marks += _draw_cells(name, _find_top(number), member, partitions)
    for column, partition in enumerate(partitions):
        chips.append(_draw_chip(column, partition, state, before, members))
    text = [f"group epoch: {state.group_epoch}", f"assignment epoch: {state.assignment_epoch}"]
    for name, member in state.members.items():
        text += [f"epoch of {name}: {member.epoch}"]
        text += [f"state of {name}: {_name_state(member)}"]
        text += [f"{name} has: {partition}" for partition in member.current]
        text += [f"{name} must revoke: {partition}" for partition in member.revoking]
        text += [f"{name} should have: {partition}" for partition in member.target]
    return Scene((*marks, *chips), caption, tuple(text))


def _find_top(number: int) -> float:
    return _FIRST_MEMBER_TOP + number * _MEMBER_HEIGHT


def _find_token(epoch: int, epochs: list[int]) -> float:
    return _EPOCH_LEFT + epochs.index(epoch) * (_AXIS_WIDTH - _TOKEN_WIDTH) / max(len(epochs) - 1, 1)


def _draw_epoch(name: str, top: float, epoch: int, before: int, epochs: list[int]) -> Iterator[Mark]:
    left = _find_token(epoch, epochs)
    tone = Tone.NEW if epoch != before else Tone.LIVE
    yield Label(f"name {name}", 10, top + 18, name, is_bold=True)
    yield Box(f"token {name}", left, top, _TOKEN_WIDTH, 28, (str(epoch),), tone, 14, is_bold=True)


def _draw_member(
    name: str, top: float, member: _Member | None, before: _Member | None, epochs: list[int]
) -> Iterator[Mark]:
    if member is None:
        yield Label(f"name {name}", 10, top + 18, name, tone=Tone.MUTED)
        return
    yield from _draw_epoch(name, top, member.epoch, before.epoch if before else 0, epochs)
    yield Label(f"state {name}", 10, top + 42, _name_state(member))


def _draw_cells(name: str, top: float, member: _Member | None, partitions: list[str]) -> Iterator[Mark]:
    """A cell is dashed unless the member should have its partition."""
    for column, partition in enumerate(partitions):
        left = _CELLS_LEFT + column * (_CELL_WIDTH + 3)
        word = ""
        tone = Tone.MUTED
        if member is not None and partition in member.target:
            word = "target"
            tone = Tone.PLAIN if partition in member.current else Tone.WAIT
        elif member is not None and partition in member.revoking:
            word = "must go"
            tone = Tone.ERROR
        is_dashed = word != "target"
        yield Box(f"cell {name} {partition}", left, top, _CELL_WIDTH, _CELL_HEIGHT, tone=tone, is_dashed=is_dashed)
        yield Label(f"word {name} {partition}", left + _CELL_WIDTH / 2, top + 15, word, "middle", tone)


def _draw_slot(key: str, column: int, top: float, tone: Tone) -> Box:
    return Box(
        key, _CELLS_LEFT + column * (_CELL_WIDTH + 3), top, _CELL_WIDTH, _CHIP_HEIGHT + 8, tone=tone, is_dashed=True
    )


def _draw_chip(column: int, partition: str, state: _State, before: _State, members: list[str]) -> Box:
    """The chip of a partition is in the row of the member that has it."""
    top = _FREE_TOP + 4
    tone = Tone.PLAIN
    for name, member in state.members.items():
        if partition in (*member.current, *member.revoking):
            top = _find_top(members.index(name)) + _CELL_HEIGHT - _CHIP_HEIGHT - 4
            tone = Tone.ERROR if partition in member.revoking else Tone.LIVE
    left = _CELLS_LEFT + column * (_CELL_WIDTH + 3) + 3
    width = _CELL_WIDTH - 6
    return Box(
        f"chip {partition}",
        left,
        top,
        width,
        _CHIP_HEIGHT,
        (partition,),
        tone,
        is_dashed=tone is Tone.ERROR,
        hue=partition,
    )


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
