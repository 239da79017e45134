"""Lesson 13: the epochs of a consumer group, its targets and its current assignments, record by record.

The figure loads the partition of the shop's group `loyalty` (data/harbour/4.3.1) up to each record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.course.figures.figure import Content, Control, Figure, Part
from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.course.log_lines import Names, collect_names, describe_record
from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import Observer
from kafkagroups.groups.replay import find_group_id, fold_batches
from kafkagroups.loading.load import combine_shards
from kafkagroups.log.batch import Batch
from kafkagroups.log.folders import open_log
from kafkagroups.records.releases import dialect
from kafkagroups.records.serde import decode

_TOKEN_SIZE = 26
_CELLS_LEFT = 92
_CELL_WIDTH = 66
_CELL_HEIGHT = 50
_AXIS_LEFT = 390
_AXIS_WIDTH = 140
_TAPE_PITCH = 36
_TOP = 58
"""Where the memory begins, below the log."""
_FREE_TOP = _TOP + 24
_MEMBER_TOP = _TOP + 86
_MEMBER_HEIGHT = 66
_COLUMN_DELAY = 0.06
_DELAY = 0.9
"""The seconds until something moves in the memory: first the record comes, and then it goes to the row it changes."""
_STATES = {0: ("Stable", Tone.LIVE), 1: ("must revoke", Tone.WAIT), 2: ("waits", Tone.WAIT)}
_REASON_BY_TYPE = {
    -1: "Nothing is loaded. Load the records of the group one by one. Its commits are left out.",
    3: "The group has changed, so the group epoch rises to {0.group_epoch}. The targets are still old.",
    5: "The log now contains the subscription of a member.",
    6: "All targets are computed for group epoch {0.assignment_epoch}. The members do not have them yet.",
}


class _Member(NamedTuple):
    epoch: int = 0
    state: int = -1
    current: tuple[str, ...] = ()
    revoking: tuple[str, ...] = ()
    target: tuple[str, ...] = ()


class _State(NamedTuple):
    group_epoch: int
    assignment_epoch: int
    members: dict[str, _Member]


_Shape = tuple[list[str], list[str], list[int]]
"""The members, the partitions and the epochs that the figure has room for."""


class Epochs(Figure):
    """Raises UsageError if the log has no record of the consumer group `group`."""

    def __init__(self, path: str | Path, group: str) -> None:
        steps = list(_list_steps(path, group))
        if not steps:
            raise UsageError(f"Epochs: {path} has no record of a consumer group {group!r}")
        last = steps[-1][2]
        height = _MEMBER_TOP + _MEMBER_HEIGHT * len(last.members) - 10
        partitions = sorted({each for member in last.members.values() for each in member.target})
        epochs = sorted({epoch for _, _, state in steps for epoch in _list_epochs(state)})
        shape = (list(last.members), partitions, epochs)
        steps.insert(0, (-1, "nothing is loaded", _State(0, 0, {})))
        places = ("nothing is loaded", *(f"record {title.partition(':')[0]}" for _, title, _ in steps[1:]))

        def draw(number: int) -> Scene:
            record_type, title, state = steps[number]
            before = steps[max(number - 1, 0)][2]
            told, _, reason = _explain(record_type, state, before).partition(". ")
            caption = f"Record {title}. {reason}".strip() if number else reason
            titles = [each for _, each, _ in steps[1 : number + 1]]
            memory = _draw(state, before, told.removesuffix("."), caption, shape)
            return replace(memory, marks=(*memory.marks, *_draw_tape(titles, len(steps), record_type, shape)))

        revokes = (n for n, step in enumerate(steps) if any(each.revoking for each in step[2].members.values()))
        controls = (Control("record", "step", places, initial=next(revokes, 0)),)
        title = f"The epochs of the consumer group {group}"
        fold = _find_left(len(partitions))
        left = Part(0, _TOP, fold, height, (0, _TOP))
        narrow = (Part(0, 0, WIDTH, _TOP, (0, 0), 0.61), left, Part(fold, _TOP, WIDTH, height, (0, height)))
        super().__init__(Content.draw(title, height, controls, draw, narrow=narrow))


def _list_steps(path: str | Path, group: str) -> Iterator[tuple[int, str, _State]]:
    names = collect_names(path)
    rules = dialect("new", None)
    loaded: list[Batch] = []
    for each, log_record in ((batch, record) for batch in open_log(path) for record in batch.records):
        loaded.append(replace(each, parse_records=partial(lambda record, _: (record,), log_record)))
        record = decode(log_record.key, log_record.value)
        if find_group_id(record) != group or record.type in (0, 1):
            continue
        state = combine_shards([fold_batches(0, loaded, rules, Observer())], rules).get(group)
        # The picture shows the epoch and the state.
        words = re.sub(r"epoch \d+, state \d+, |current assignment of ", "", describe_record(record, names))
        if isinstance(state, ModernGroup):
            yield record.type, f"{log_record.offset}: {words}", _read_state(state, names)


def _read_state(group: ModernGroup, names: Names) -> _State:
    members = {}
    for member_id, member in group.members.items():
        target = group.targets.get(member_id)
        current = member.assignment
        held = (current.assigned_partitions, current.partitions_pending_revocation) if current else ([], [])
        lists = (_list_partitions(each, names.topics) for each in (*held, target.topic_partitions if target else []))
        state = -1 if current is None or member.state is None else member.state
        members[names.clients[member_id]] = _Member(member.member_epoch, state, *lists)
    return _State(group.group_epoch, group.assignment_epoch, dict(sorted(members.items())))


def _list_partitions(assignment: list[Any], topics: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{topics[each.topic_id]}-{number}" for each in assignment for number in sorted(each.partitions))


def _draw_tape(titles: list[str], count: int, record_type: int, shape: _Shape) -> Iterator[Mark]:
    """Yield the records that are loaded. A copy of the last one goes to the row that it changes."""
    members, partitions, _ = shape
    yield Label("tape title", 4, 14, "the log", is_bold=True, keeps_width=True)
    pitch = min(_TAPE_PITCH, (WIDTH - 4) / (count - 1))
    for place, title in enumerate(titles):
        offset, words, *_ = title.split(": ")
        tone = Tone.NEW if title == titles[-1] else Tone.MUTED
        yield Box(f"record {offset}", place * pitch + 2, 22, pitch - 3, 19, (offset,), tone, 11, delay=-1)
        if title == titles[-1]:
            yield Label("words", 54, 14, f"record {offset}: {words}", tone=tone, keeps_width=True, delay=-1)
            name = words.rpartition(" ")[2]
            frame = (_find_left(len(partitions)) - 6, _FREE_TOP + 28 * (record_type == 6) + 5, 18, 16)
            if name in members:
                frame = (70, _MEMBER_TOP + members.index(name) * _MEMBER_HEIGHT + 4, 18, 16)
            yield Box(f"news {offset}", *frame, (offset,), tone, 11, origin=f"record {offset}", delay=-0.6)


def _list_epochs(state: _State) -> list[int]:
    return [state.group_epoch, state.assignment_epoch, *(member.epoch for member in state.members.values())]


def _draw(state: _State, before: _State, line: str, caption: str, shape: _Shape) -> Scene:
    members, partitions, epochs = shape
    tops = [_MEMBER_TOP + number * _MEMBER_HEIGHT for number in range(len(members))]
    bottom = tops[-1] + _CELL_HEIGHT
    marks: list[Mark] = [
        *(Box(f"band {top}", 0, top - 5, WIDTH, _CELL_HEIGHT + 10, tone=Tone.MUTED) for top in tops),
        Label("free title", 4, _FREE_TOP + 21, "no owner", tone=Tone.MUTED),
        Label("member title", 4, _TOP + 14, "member", is_bold=True),
        Label("partition title", _CELLS_LEFT, _TOP + 14, "partitions: has and target", is_bold=True),
        Label("epoch title", _AXIS_LEFT - 4, _TOP + 14, "epoch of", "end", is_bold=True),
    ]
    for epoch in epochs:
        x = _find_token(epoch, epochs) + _TOKEN_SIZE / 2
        marks.append(Label(f"epoch {epoch}", x, _TOP + 14, str(epoch), "middle", is_bold=True))
        marks.append(Arrow(f"line {epoch}", x, _TOP + 22, x, bottom, Tone.MUTED, has_head=False))
    tokens = [("group", _TOP + 24, state.group_epoch, before.group_epoch)]
    tokens.append(("assignment", _TOP + 52, state.assignment_epoch, before.assignment_epoch))
    text = [f"{name} epoch: {epoch}" for name, _, epoch, _ in tokens]
    for name, top in zip(members, tops, strict=True):
        member = state.members.get(name, _Member())
        marks += [_draw_cell(name, column, top, partition, member) for column, partition in enumerate(partitions)]
        is_there = name in state.members
        tone = Tone.PLAIN if is_there else Tone.MUTED
        marks.append(Label(f"name {name}", 4, top + 17, name, tone=tone, is_bold=is_there))
        if is_there:
            tokens.append((name, top + 12, member.epoch, before.members.get(name, _Member()).epoch))
            word, tone = _STATES.get(member.state, ("no state yet", Tone.MUTED))
            marks.append(Box(f"state {name}", 4, top + 25, 82, 19, (word,), tone, 11, delay=_DELAY / 2))
            text += [f"epoch of {name}: {member.epoch}", f"state of {name}: {word}"]
        held = {"has": member.current, "must revoke": member.revoking, "should have": member.target}
        text += [f"{name} {word}: {partition}" for word, partitions_of in held.items() for partition in partitions_of]
    for column, partition in enumerate(partitions):
        marks += _draw_partition(column, partition, state, dict(zip(members, tops, strict=True)))
    for name, top, epoch, old_epoch in tokens:
        tone = Tone.WAIT if epoch < state.group_epoch else Tone.LIVE
        if name in members and epoch < state.group_epoch:
            x, end = (_find_token(each, epochs) + _TOKEN_SIZE / 2 for each in (epoch, state.group_epoch))
            marks.append(Box(f"gap {name}", x, top + 8, end - x, 10, tone=Tone.WAIT, delay=_DELAY))
            for each in state.members[name].revoking[:1]:
                words = (f"held back by {each}",)
                marks.append(Box(f"held {name}", WIDTH - 146, top + 27, 142, 15, words, Tone.WAIT, 11, delay=_DELAY))
        if epoch != old_epoch:
            tone = Tone.NEW
            was = (_find_token(old_epoch, epochs), top, _TOKEN_SIZE, _TOKEN_SIZE, (str(old_epoch),), Tone.MUTED, 14)
            marks.append(Box(f"was {name} {old_epoch}", *was, is_dashed=True, origin=f"token {name}"))
        frame = (_find_token(epoch, epochs), top, _TOKEN_SIZE, _TOKEN_SIZE)
        marks.append(Box(f"token {name}", *frame, (str(epoch),), tone, 14, is_bold=True, delay=_DELAY))
        marks.append(Label(f"epoch of {name}", _AXIS_LEFT - 4, top + 17, name, "end", is_bold=True))
    return Scene(tuple(marks), caption, tuple(text), lines=(Line(line),))


def _find_token(epoch: int, epochs: list[int]) -> float:
    return _AXIS_LEFT + epochs.index(epoch) * _AXIS_WIDTH / max(len(epochs) - 1, 1)


def _find_left(column: int) -> float:
    return _CELLS_LEFT + column * (_CELL_WIDTH + 3)


def _draw_cell(name: str, column: int, top: float, partition: str, member: _Member) -> Box:
    """The lower lines of a cell are for the partition's chip."""
    held = (member.revoking, member.current, member.target)
    reads = ("reads", Tone.PLAIN) if partition in member.target else ("no target", Tone.WAIT)
    words = (("must go", Tone.WAIT), reads, ("target", Tone.WAIT))
    word, tone = next((word for role, word in zip(held, words, strict=True) if partition in role), ("", Tone.MUTED))
    frame = (_find_left(column), top, _CELL_WIDTH, _CELL_HEIGHT)
    lines = (word, "", "") if word else ()
    return Box(f"cell {name} {partition}", *frame, lines, tone, is_hollow=not word, delay=_DELAY / 2)


def _find_owners(state: _State) -> dict[str, str]:
    members = state.members.items()
    return {partition: name for name, member in members for partition in (*member.current, *member.revoking)}


def _draw_partition(column: int, partition: str, state: _State, tops: Mapping[str, int]) -> Iterator[Mark]:
    """The chip of a partition is in the row of the member that has it. A dashed one waits in the row of its target."""
    left = _find_left(column)
    yield Box(f"free {partition}", left, _FREE_TOP, _CELL_WIDTH, _CELL_HEIGHT - 16, tone=Tone.MUTED, is_hollow=True)
    owner = _find_owners(state).get(partition)
    place = (left + 3, tops.get(owner or "", _FREE_TOP - 17) + 22, _CELL_WIDTH - 6, 24, (partition,))
    tone = Tone.LIVE if owner else Tone.PLAIN
    if owner and partition in state.members[owner].revoking:
        tone = Tone.WAIT
        x = left + _CELL_WIDTH / 2
        yield Arrow(f"revoke {partition}", x, tops[owner] - 1, x, _FREE_TOP + _CELL_HEIGHT - 15, Tone.WAIT)
    style: dict[str, Any] = {"hue": partition, "delay": _DELAY + column * _COLUMN_DELAY}
    for name, member in state.members.items():
        if partition in member.target and name != owner:
            style |= {"is_dashed": True, "is_hollow": True, "origin": f"chip {partition}"}
            yield Box(f"ghost {name} {partition}", left + 3, tops[name] + 22, *place[2:], Tone.WAIT, 11, **style)
    yield Box(f"chip {partition}", *place, tone, 11, hue=partition, delay=_DELAY + column * _COLUMN_DELAY)


def _explain(record_type: int, state: _State, before: _State) -> str:
    if record_type in _REASON_BY_TYPE:
        return _REASON_BY_TYPE[record_type].format(state)
    changed = [name for name, member in state.members.items() if member != before.members.get(name)]
    if not changed:
        return "Nothing changes in the memory."
    name = f"Member {changed[0]}"
    member = state.members[changed[0]]
    if record_type == 7:
        return f"The target of {changed[0]} is {', '.join(member.target)}. It is a plan: no partition moves yet."
    revoked = before.members.get(changed[0], member).revoking
    if member.revoking:
        return f"{name} must revoke {', '.join(member.revoking)} first. Its member epoch does not rise yet."
    if revoked:
        return f"Partition {', '.join(revoked)} has no owner: {changed[0]} has revoked it. The member's epoch rises."
    if member.state == 2:
        missing = ", ".join(sorted({*member.target} - {*member.current}))
        return f"{name} waits for {missing}, which another still has. It already has epoch {member.epoch}."
    return f"{name} has epoch {member.epoch}, and all partitions of its target."
