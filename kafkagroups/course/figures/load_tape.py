"""Lesson 11: a read head moves over a log, and each record drops into the memory of two coordinators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.api import load
from kafkagroups.course.broker import start_broker
from kafkagroups.course.compared_brokers import format_answer
from kafkagroups.course.figures.figure import Content, Control, Figure, Part
from kafkagroups.course.figures.marks import DASHED, HATCHED, KEY, WIDTH, Arrow, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import START_MS, KeyAndValue, encode_commit, encode_pair, write_small_log
from kafkagroups.groups.group import Group
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.replay import fold_batches
from kafkagroups.log.folders import open_log
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.releases import dialect
from kafkagroups.records.serde import ControlType, Record

_LEFT = 4
_PITCH = 62
_TILE_WIDTH = 52
_GROUP_WIDTH = 92
_OFFSET_WIDTH = 109
_SIDE_WIDTH = _GROUP_WIDTH + 4 + _OFFSET_WIDTH
_ROW = 29
_CHIP_HEIGHT = 24
_FIRST_ROW = 166
_ANSWERS = 290
_HEIGHT = 328
_TAPE_BOTTOM = 108
# In a narrow column, the tape has two rows.
_NARROW = (
    Part(0, 0, 311, _TAPE_BOTTOM, (0, 0)),
    Part(311, 18, WIDTH, _TAPE_BOTTOM, (0, _TAPE_BOTTOM)),
    Part(0, _TAPE_BOTTOM, WIDTH, _HEIGHT, (0, 2 * _TAPE_BOTTOM - 18), 0.61),
)
_DELAY = 0.4
"""The seconds until the head has come to the record, which then changes the memories."""
_LEGEND = (DASHED, HATCHED, Box("the two differ", *KEY, ("≠",), Tone.MUTED))


_LATE = "Offset 5 of mailer is not pending any more. 3.9.2 builds its groups only at the end of the load."


class _Entry(NamedTuple):
    """`topic` is "" in the record of a group, and `group` is "" in a marker. `note` begins with the headline.

    `value` is the committed offset or the generation, and None in a tombstone.
    """

    group: str
    topic: str
    value: int | None
    note: str
    producer: int = 0
    ends: ControlType | None = None

    @property
    def word(self) -> str:
        if self.ends is not None:
            return f"{self.ends.name.lower()}s"
        number = "∅" if self.value is None else str(self.value)
        return number if self.topic else f"gen {number}"


_LOG = (
    _Entry("billing", "sales", 10, "billing commits 10. 4.3.1 creates the group billing now, 3.9.2 not yet."),
    _Entry("billing", "", 1, "a group record. The group has a member, so 4.3.1 says Stable. 3.9.2 has generation 1."),
    _Entry("promo", "ads", 3, "promo commits 3. In 3.9.2, only this offset shows that the group promo exists."),
    _Entry("billing", "sales", 17, "billing commits 17, which replaces 10. The key is that of record 0."),
    _Entry("mailer", "mail", 5, "mailer commits 5, which is pending. The transaction has no marker yet.", 7),
    _Entry("audit", "till", 8, "audit commits 8, which is pending, too. This is another producer's transaction.", 8),
    _Entry("", "", None, f"producer 7 commits: 5 of mailer counts. {_LATE}", 7, ControlType.COMMIT),
    _Entry("", "", None, "producer 8 aborts: 8 of audit is dropped. Offset 8 was only pending.", 8, ControlType.ABORT),
    _Entry("promo", "ads", None, "a tombstone: 3 of promo is gone. Both memories have no offset of promo any more."),
)
_GROUPS = ("billing", "promo", "mailer", "audit")
_EMPTY = "Nothing is loaded. Until the end of the load, each coordinator answers COORDINATOR_LOAD_IN_PROGRESS."
_BUILT = (
    "The load ends: only 4.3.1 has promo and audit. 3.9.2 builds its groups only now, from maps without these two. "
    "4.3.1 had created both."
)
_UNREADABLE = "a value of zero bytes. Zero bytes are not the same as null, and no coordinator can decode them."
_FAILED = (
    "The load fails: two answers to the same question. Both drop all groups. 4.3.1 refuses every request; 3.9.2 "
    "answers as if nothing was committed."
)
_ENDINGS = ("a tombstone", "a value of zero bytes")
_STEPS = ("nothing is loaded", *(f"record {offset}" for offset, _ in enumerate(_LOG)), "the load ends")


class _Coordinator(NamedTuple):
    """`left` is that of its memory. The memories stand next to each other, because they are compared."""

    name: str
    kafka: str
    left: float


_NEW = _Coordinator("new", "4.3.1", 98)
_CLASSIC = _Coordinator("classic", "3.9.2", 349)
_MIDDLE = (_NEW.left + _SIDE_WIDTH + _CLASSIC.left) / 2

_Slot = tuple[str, str]
"""The id of a group, and "group" or "offset"."""


class _Chip(NamedTuple):
    """`record` is that of an offset."""

    word: str
    partition: str = ""
    record: int | None = None
    is_pending: bool = False


class _Memory(NamedTuple):
    chips: dict[_Slot, _Chip]
    answer: str = "loading"


class LoadTape(Figure):
    def __init__(self) -> None:
        folder = make_scratch_folder()
        steps = Control("step", "step", _STEPS, initial=7)
        endings = Control("ending", "record 8 has", _ENDINGS, is_sequence=False)
        memories = []
        for ending, _ in enumerate(_ENDINGS):
            log = folder / str(ending) / "__consumer_offsets-0"
            write_small_log(log, [_encode(entry, is_broken=ending == 1) for entry in _LOG])
            memories.append([_list_memories(log, coordinator) for coordinator in (_CLASSIC, _NEW)])

        def draw(step: int, ending: int) -> Scene:
            pairs = [(memory[step], memory[max(step - 1, 0)]) for memory in memories[ending]]
            return _draw(step, dict(zip((_CLASSIC, _NEW), pairs, strict=True)), is_broken=ending == 1)

        title = "A load: the head moves, and the records drop into memory"
        super().__init__(Content.draw(title, _HEIGHT, (steps, endings), draw, legend=_LEGEND, narrow=_NARROW))


def _encode(entry: _Entry, *, is_broken: bool) -> tuple[KeyAndValue | ControlType, int]:
    if entry.ends is not None:
        return entry.ends, entry.producer
    if not entry.topic:
        member = MemberMetadata("billing-1", None, "billing-1", "/10.0.0.1", 60_000, 45_000, b"", b"")
        group_value = GroupMetadataValue("consumer", entry.value or 0, "range", "billing-1", START_MS, (member,))
        return encode_pair(Record(2, GroupMetadataKey(entry.group), group_value, 3)), entry.producer
    key, value = encode_commit(entry.group, entry.value, entry.topic)
    return (key, b"" if is_broken and value is None else value), entry.producer


def _list_memories(log: Path, coordinator: _Coordinator) -> list[_Memory]:
    """A load that fails keeps its memory until it ends."""
    read_memory = _read_classic_maps if coordinator is _CLASSIC else _read_groups
    count = len(_LOG)
    fails = bool(load(log, coordinator.name, kafka=coordinator.kafka).failed)
    memories = [read_memory(log, min(step, count - fails)) for step in range(count + 1)]
    return [*memories, _Memory(_read_groups(log, count, coordinator).chips, _ask(log, coordinator))]


def _read_classic_maps(log: Path, until: int) -> _Memory:
    shard = fold_batches(0, list(open_log(log))[:until], dialect("classic", _CLASSIC.kafka))
    chips = _list_offsets(shard.offsets.committed.items())
    for group_id, group in shard.groups.items():
        assert isinstance(group, Group)
        chips[group_id, "group"] = _Chip(f"gen {group.generation}")
    for pending in shard.offsets.pending.values():
        chips |= _list_offsets(pending.items(), is_pending=True)
    return _Memory(chips)


def _read_groups(log: Path, until: int, coordinator: _Coordinator = _NEW) -> _Memory:
    chips: dict[_Slot, _Chip] = {}
    groups = load(log, coordinator.name, kafka=coordinator.kafka, until=until) if until else {}
    for group_id, group in groups.items():
        assert isinstance(group, Group)
        chips[group_id, "group"] = _Chip(group.state.value)
        chips |= _list_offsets([(group_id, group.offsets)])
        chips |= _list_offsets([(group_id, pending) for pending in group.pending.values()], is_pending=True)
    return _Memory(chips)


def _list_offsets(
    offsets_of_groups: Iterable[tuple[str, Mapping[TopicPartition, OffsetAndMetadata]]], *, is_pending: bool = False
) -> dict[_Slot, _Chip]:
    return {
        (group, "offset"): _Chip(str(offset.offset), str(partition), offset.record_offset, is_pending)
        for group, offsets in offsets_of_groups
        for partition, offset in offsets.items()
    }


def _ask(log: Path, coordinator: _Coordinator) -> str:
    broker = start_broker(log.parent, coordinator.kafka, topics=None, offsets_topic_num_partitions=1)
    result = broker.offset_fetch("billing", [TopicPartition("sales", 0)]).value
    return format_answer(result).rpartition(": ")[2].replace("-1", "−1")


def _draw(step: int, memories: Mapping[_Coordinator, tuple[_Memory, _Memory]], *, is_broken: bool) -> Scene:
    is_end = step > len(_LOG)
    (classic, _), (new, _) = memories.values()
    marks = [*_draw_tape(step, new, is_broken=is_broken)]
    text: list[str] = []
    # What flies to one memory passes in front of the other one.
    marks += [mark for coordinator, (memory, _) in memories.items() for mark in _draw_memory(coordinator, memory)]
    for coordinator, (memory, before) in memories.items():
        if is_end and is_broken:
            frame = (coordinator.left + 4, _find_row("mailer") - _ROW / 2, _SIDE_WIDTH - 8, _CHIP_HEIGHT)
            marks.append(Box(f"{coordinator.name} fails", *frame, ("load failed",), Tone.ERROR, is_bold=True))
        marks += _draw_chips(coordinator, memory, before, step)
        text += _describe(coordinator.kafka, memory)
    differing = sorted(new.chips.keys() - classic.chips.keys(), key=_sort)
    # Until the load ends, the groups that differ are only late.
    marks += [_draw_sign(group, _find_row(group)) if is_end else _draw_late(group) for group, _ in differing]
    only = f"only {_NEW.kafka} has" if is_end else f"{_CLASSIC.kafka} has not built"
    text += [f"{only} {group}" for group, _ in differing]
    if new.answer != classic.answer:
        marks.append(_draw_sign("answers", _ANSWERS))
    text.append(f"{min(step, len(_LOG))} of {len(_LOG)} records are read")
    marks.sort(key=lambda mark: is_end and mark.tone is Tone.NEW)  # What comes last passes in front of the rest.
    line, caption = _tell(step, is_broken=is_broken)
    return Scene(tuple(marks), caption, tuple(text), lines=(line,))


def _tell(step: int, *, is_broken: bool) -> tuple[Line, str]:
    records = [entry.note for entry in _LOG[:-1]] + [_UNREADABLE if is_broken else _LOG[-1].note]
    notes = [f"Record {offset}: {note}" for offset, note in enumerate(records)]
    headline, _, caption = [_EMPTY, *notes, _FAILED if is_broken else _BUILT][step].partition(". ")
    return Line(headline, Tone.ERROR if is_broken and step >= len(_LOG) else Tone.NEW), caption


def _sort(slot: _Slot) -> tuple[str, int]:
    return slot[1], _GROUPS.index(slot[0])


def _find_row(group: str) -> float:
    return _FIRST_ROW + _GROUPS.index(group) * _ROW


def _draw_sign(key: str, top: float) -> Box:
    return Box(f"differs {key}", _MIDDLE - 13, top, 26, 24, ("≠",), Tone.ERROR, 18, is_bold=True, delay=_DELAY)


def _draw_late(group: str) -> Box:
    frame = (_CLASSIC.left, _find_row(group), _GROUP_WIDTH, _CHIP_HEIGHT)
    return Box(f"late {group}", *frame, ("not yet",), Tone.PAGE, 11, delay=_DELAY)


def _draw_chip(coordinator: _Coordinator, slot: _Slot, word: str, tone: Tone = Tone.DEAD, **style: Any) -> Box:
    group, column = slot
    left = coordinator.left + (_GROUP_WIDTH + 4) * (column == "offset")
    width = _GROUP_WIDTH if column == "group" else _OFFSET_WIDTH
    frame = (left, _find_row(group), width, _CHIP_HEIGHT)
    value, _, pending = word.partition(", ")
    key = f"{coordinator.name} {group} {column} {value}"
    delay = _DELAY + 0.15 * ((coordinator is _CLASSIC) + (column == "offset"))
    return Box(key, *frame, (f"{pending} {value}".strip(),), tone, 11, delay=delay, **style)


def _draw_memory(coordinator: _Coordinator, memory: _Memory) -> Iterator[Mark]:
    name, kafka, left = coordinator
    frame = (left - 6, _TAPE_BOTTOM + 4, _SIDE_WIDTH + 12, _HEIGHT - _TAPE_BOTTOM - 6)
    yield Box(f"{name} memory", *frame, tone=Tone.MUTED)
    yield Label(f"{name} title", left, 132, f"Kafka {kafka}", size=13, is_bold=True)
    for title, x in (("group", left + _GROUP_WIDTH / 2), ("offset", left + _SIDE_WIDTH - _OFFSET_WIDTH / 2)):
        yield Label(f"{name} {title}", x, _FIRST_ROW - 10, title, "middle", Tone.MUTED, 11)
    tone = {"loading": Tone.WAIT, "17": Tone.LIVE}.get(memory.answer, Tone.ERROR)
    frame = (left, _ANSWERS, _SIDE_WIDTH, _CHIP_HEIGHT)
    yield Box(f"{name} answer", *frame, (memory.answer,), tone, 12, is_bold=True)


def _draw_chips(coordinator: _Coordinator, memory: _Memory, before: _Memory, step: int) -> Iterator[Mark]:
    """What a record changes comes from its tile. At the end, a group comes from what the maps have of it."""
    is_end = step > len(_LOG)
    ends = _LOG[step - 1].ends if step and not is_end else None
    for slot in sorted(memory.chips, key=_sort):  # Always in this order, because a mark that changes its place jumps.
        chip = memory.chips[slot]
        is_new = chip != before.chips.get(slot)
        style: dict[str, Any] = {"is_dashed": chip.is_pending, "origin": f"cell {step - 1}", "is_bold": is_new}
        if is_end:
            source = slot if slot in before.chips else (slot[0], "offset")
            style["origin"] = f"{coordinator.name} {' '.join(source)} {before.chips[source].word}"
        word = f"{chip.word}, pending" if chip.is_pending else chip.word
        drawn = _draw_chip(coordinator, slot, word, Tone.NEW if is_new else Tone.PLAIN, hue=slot[0], **style)
        yield drawn
        if is_new and ends:
            yield _draw_end(drawn, "✓", Tone.LIVE, step)
    for slot in before.chips.keys() - memory.chips.keys() if not is_end else ():
        style = {"is_dashed": bool(ends), "is_hollow": not ends, "origin": f"cell {step - 1}", "is_bold": not ends}
        style |= {"hue": slot[0], "is_gone": True} if ends else {"tone": Tone.NEW}
        drawn = _draw_chip(coordinator, slot, before.chips[slot].word if ends else _LOG[step - 1].word, **style)
        yield drawn
        if ends:
            yield _draw_end(drawn, "✗", Tone.DEAD, step)


def _draw_end(chip: Box, sign: str, tone: Tone, step: int) -> Box:
    """Return what flies from a marker to the offset that it ends, which then changes."""
    key = f"{chip.key.partition(' ')[0]} {_LOG[step - 1].word}"
    frame = (chip.x + 10, chip.y + 3, 18, 18, (sign,))
    return Box(key, *frame, tone, 11, origin=f"cell {step - 1}", delay=chip.delay - 0.15)


def _draw_tape(step: int, new: _Memory, *, is_broken: bool) -> Iterator[Mark]:
    loaded = min(step, len(_LOG))
    in_memory = {chip.record for chip in new.chips.values()}
    head = min(max(_LEFT, _find_tile(step - 1) + _TILE_WIDTH / 2), 552)
    yield Label("tape title", _LEFT, 14, "the log", is_bold=True)
    yield Box("read", _LEFT, 22, head - _LEFT + 1, 4, tone=Tone.NEW, is_solid=True)
    yield Arrow("head", head, 20, head, 34, Tone.NEW)
    for offset, entry in enumerate(_LOG):
        middle = _find_tile(offset) + _TILE_WIDTH / 2
        word = "0 bytes" if is_broken and offset == len(_LOG) - 1 else entry.word
        is_last = offset == step - 1
        tone = Tone.PLAIN
        if word == "0 bytes" and offset < loaded:
            tone = Tone.ERROR
        elif is_last:
            tone = Tone.NEW
        elif offset >= loaded or entry.value is None:
            tone = Tone.MUTED
        elif entry.topic and offset not in in_memory and in_memory:
            tone = Tone.DEAD
        # A tombstone and a marker are hollow, like what is not read yet.
        hue = entry.group if entry.value is not None and offset < loaded else ""
        style: dict[str, Any] = {"is_bold": is_last, "is_dashed": bool(entry.producer), "is_gone": tone is Tone.DEAD}
        frame = (_find_tile(offset), 37, _TILE_WIDTH, 38)
        yield Box(f"cell {offset}", *frame, (entry.group or "marker", word), tone, 11, hue=hue, **style)
        yield Label(f"offset {offset}", middle, 88, str(offset), "middle", Tone.MUTED, 11, is_bold=is_last)
        if entry.producer:
            yield Label(f"producer {offset}", middle, 101, f"prod. {entry.producer}", "middle", Tone.MUTED, 11)
    for group in _GROUPS:
        yield Box(f"hue {group}", 6, _find_row(group) + 7, 10, 10, hue=group, is_solid=True)
        yield Label(f"row {group}", 22, _find_row(group) + 16, group)
    yield Label("asks", 6, _ANSWERS + 16, "answer", tone=Tone.MUTED)


def _find_tile(offset: int) -> float:
    return _LEFT + offset * _PITCH


def _describe(kafka: str, memory: _Memory) -> Iterator[str]:
    yield f"{kafka} answers about billing sales-0: {memory.answer}"
    for slot in sorted(memory.chips, key=_sort):
        chip = memory.chips[slot]
        if slot[1] == "group":
            yield f"{kafka} has the group {'record of ' * chip.word.startswith('gen')}{slot[0]}: {chip.word}"
        else:
            yield f"{kafka} has {'pending' if chip.is_pending else 'committed'} {slot[0]} {chip.partition}: {chip.word}"
