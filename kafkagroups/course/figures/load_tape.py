"""Lesson 11: a read head moves over a log, and each record drops into the memory of two coordinators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.api import load
from kafkagroups.coordinator import Errors
from kafkagroups.course.broker import start_broker
from kafkagroups.course.compared_brokers import format_answer
from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, find_hue
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import START_MS, KeyAndValue, encode_commit, encode_pair, write_small_log
from kafkagroups.groups.group import Group
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.replay import fold_batches
from kafkagroups.log.folders import open_log
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.releases import dialect
from kafkagroups.records.serde import ControlType, Record

_LEFT = 10
_PITCH = 60
_CELL_WIDTH = 55
_CELL_HEIGHT = 46
_DELAY = 0.4
"""The seconds until the head has come to the record, which then changes the memories."""


class _Entry(NamedTuple):
    """`topic` is "" in the record of a group, and `group` is "" in a marker.

    `value` is the committed offset or the generation, and None in a tombstone.
    """

    group: str
    topic: str
    value: int | None
    note: str
    producer: int = 0
    ends: ControlType | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        if self.ends is not None:
            return "marker", str(self.producer), f"{self.ends.name.lower()}s"
        if not self.topic:
            return self.group, "group", f"gen {self.value}"
        return self.group, f"{self.topic}-0", "∅" if self.value is None else str(self.value)


_LOG = (
    _Entry("billing", "sales", 10, "The offset goes into both memories. 4.3.1 creates its group now, 3.9.2 not yet."),
    _Entry("billing", "", 1, "The record of a finished rebalance: the group has a member, so 4.3.1 now says Stable."),
    _Entry("promo", "ads", 3, "promo commits without members. In 3.9.2 nothing but this offset shows that it exists."),
    _Entry("billing", "sales", 17, "The same key as record 0, so 17 replaces 10 in both maps."),
    _Entry("mailer", "mail", 5, "A commit in a transaction is pending until the head reaches the marker.", 7),
    _Entry("audit", "till", 8, "Another producer's transaction, so this offset is pending as well.", 8),
    _Entry("", "", None, "The marker commits: producer 7's offset moves to the committed ones.", 7, ControlType.COMMIT),
    _Entry("", "", None, "The marker aborts: the pending offset of producer 8 is dropped.", 8, ControlType.ABORT),
    _Entry("promo", "ads", None, "A tombstone removes the offset of its key from both maps."),
)
_GROUPS = ("billing", "promo", "mailer", "audit")
_COMMITTED_COLUMNS = {("billing", "sales"): 4, ("promo", "ads"): 5, ("mailer", "mail"): 6}
_PENDING_COLUMNS = {("mailer", "mail"): 7, ("audit", "till"): 8}
_BUILT = (
    "Only now does 3.9.2 build its groups from its maps. They hold nothing of promo and audit, so these do not exist; "
    "4.3.1 had created both groups on the way."
)
_UNREADABLE = "This value has zero bytes, which is not the same as null: no coordinator can decode it."
_FAILED = (
    "Both throw away what they loaded. 4.3.1 refuses every request of the partition, while 3.9.2 answers as if nothing "
    "had ever been committed."
)
_ENDINGS = ("a tombstone", "a value of zero bytes")
_STEPS = ("nothing is loaded", *(f"record {offset}" for offset, _ in enumerate(_LOG)), "the load ends")


class _Coordinator(NamedTuple):
    """`top` is that of its cards. The frame around them and the titles have their own places."""

    name: str
    kafka: str
    top: float
    frame_top: float
    title_base: float
    heading_base: float


# The cards of both stand next to each other, because they are compared. So the titles of one are above, of one below.
_NEW = _Coordinator("new", "4.3.1", 152, 132, 126, 146)
_CLASSIC = _Coordinator("classic", "3.9.2", 226, 222, 306, 285)
_BETWEEN = (_NEW.top + _CELL_HEIGHT + _CLASSIC.top) / 2


class _Chip(NamedTuple):
    lines: tuple[str, ...]
    record: int | None


@dataclass(frozen=True)
class _Memory:
    chips: dict[int, _Chip] = field(default_factory=dict)
    answer: str = Errors.COORDINATOR_LOAD_IN_PROGRESS.name


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
            classic, new = memories[ending]
            return _draw(step, classic[step], new[step], is_broken=ending == 1)

        title = "A load: the head moves, and the records drop into memory"
        super().__init__(Content.draw(title, 312, (steps, endings), draw))


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
    loaded = _read_groups(log, count, coordinator)
    return [*memories, _Memory(loaded.chips, _ask(log, coordinator))]


def _read_classic_maps(log: Path, until: int) -> _Memory:
    shard = fold_batches(0, list(open_log(log))[:until], dialect("classic", _CLASSIC.kafka))
    chips: dict[int, _Chip] = {}
    for group_id in shard.groups:
        offset = _find_group_record(group_id, until)
        chips[_GROUPS.index(group_id)] = _Chip(_LOG[offset].lines, offset)
    chips |= _list_offset_chips(shard.offsets.committed.items(), _COMMITTED_COLUMNS)
    for pending in shard.offsets.pending.values():
        chips |= _list_offset_chips(pending.items(), _PENDING_COLUMNS)
    return _Memory(chips)


def _read_groups(log: Path, until: int, coordinator: _Coordinator = _NEW) -> _Memory:
    chips: dict[int, _Chip] = {}
    groups = load(log, coordinator.name, kafka=coordinator.kafka, until=until) if until else {}
    for group_id, group in groups.items():
        assert isinstance(group, Group)
        lines = (group_id, group.state.value, f"gen {group.generation}" if group.generation else "")
        record = _find_group_record(group_id, until) if group.generation else None
        chips[_GROUPS.index(group_id)] = _Chip(lines, record)
        chips |= _list_offset_chips([(group_id, group.offsets)], _COMMITTED_COLUMNS)
        chips |= _list_offset_chips([(group_id, pending) for pending in group.pending.values()], _PENDING_COLUMNS)
    return _Memory(chips)


def _list_offset_chips(
    offsets_of_groups: Iterable[tuple[str, Mapping[TopicPartition, OffsetAndMetadata]]],
    columns: dict[tuple[str, str], int],
) -> dict[int, _Chip]:
    return {
        columns[group, partition.topic]: _Chip((group, str(partition), str(offset.offset)), offset.record_offset)
        for group, offsets in offsets_of_groups
        for partition, offset in offsets.items()
    }


def _find_group_record(group: str, until: int) -> int:
    return max(
        offset
        for offset, entry in enumerate(_LOG[:until])
        if entry.group == group and entry.ends is None and not entry.topic
    )


def _ask(log: Path, coordinator: _Coordinator) -> str:
    broker = start_broker(log.parent, coordinator.kafka, topics=None, offsets_topic_num_partitions=1)
    result = broker.offset_fetch("billing", [TopicPartition("sales", 0)]).value
    return format_answer(result).rpartition(": ")[2].replace("-1", "−1")


def _draw(step: int, classic: _Memory, new: _Memory, is_broken: bool) -> Scene:
    loaded = min(step, len(_LOG))
    is_end = step > len(_LOG)
    marks: list[Mark] = [Label("tape title", _LEFT, 15, "the log, from the first record to the last", is_bold=True)]
    marks.append(Label("dashes", 550, 15, "dashed: in a transaction", "end", Tone.MUTED, 11))
    head = 548 if is_end else max(6, _LEFT + loaded * _PITCH - 32)
    marks.append(Arrow("head", head, 20, head, 33, Tone.NEW))
    for coordinator, memory in ((_CLASSIC, classic), (_NEW, new)):
        marks += _draw_frames(coordinator, memory, is_end, differs=classic.answer != new.answer)
        if is_end and is_broken:
            title = "nothing: the load has failed"
            marks.append(Label(f"{coordinator.name} fails", _LEFT + 4, coordinator.top + 27, title, tone=Tone.ERROR))
        marks += _draw_chips(coordinator, memory, loaded, is_end, is_broken)
    marks += _draw_tape(loaded, new, is_end, is_broken)
    for column in _find_differences(classic, new):
        middle = _find_left(column) + _CELL_WIDTH / 2
        ends = (middle, _NEW.top + _CELL_HEIGHT, middle, _CLASSIC.top)
        marks.append(Arrow(f"differ {column}", *ends, Tone.NEW, has_head=False))
        marks.append(Box(f"differs {column}", middle - 11, _BETWEEN - 9, 22, 18, ("≠",), Tone.NEW, 14, is_bold=True))
    return Scene(tuple(marks), _explain(step, is_broken), tuple(_describe(loaded, classic, new)))


def _find_left(column: int) -> float:
    return _LEFT + column * _PITCH


def _draw_card(key: str, column: int, top: float, lines: tuple[str, ...], tone: Tone, **style: Any) -> Box:
    return Box(key, _find_left(column), top, _CELL_WIDTH, _CELL_HEIGHT, lines, tone, 11, **style)


def _draw_frames(coordinator: _Coordinator, memory: _Memory, is_end: bool, *, differs: bool) -> Iterator[Mark]:
    name = coordinator.name
    base = coordinator.title_base
    question = f"OffsetFetch sales-0: {memory.answer}"
    tone = Tone.NEW if differs else Tone.PLAIN
    yield Label(f"{name} title", _LEFT, base, f"coordinator of {coordinator.kafka}", is_bold=True)
    yield Label(f"{name} question", 544, base, question, "end", tone, is_bold=differs)
    first = "groups" if is_end or coordinator is _NEW else "group records"
    for title, column, width in ((first, 0, 4), ("committed offsets", 4, 3), ("pending", 7, 2)):
        left = _find_left(column) - 2.5
        yield Box(f"{name} frame {column}", left, coordinator.frame_top, width * _PITCH, 70, tone=Tone.MUTED)
        yield Label(f"{name} frame title {column}", left + 6, coordinator.heading_base, title, tone=Tone.MUTED)


def _draw_chips(coordinator: _Coordinator, memory: _Memory, read: int, is_end: bool, is_broken: bool) -> Iterator[Mark]:
    name = coordinator.name
    for column, (lines, record) in memory.chips.items():
        key = f"{name} {record}" if record is not None else f"{name} group {column}"
        is_pending = column in _PENDING_COLUMNS.values()
        tone = Tone.NEW if record == read - 1 and not is_end else Tone.LIVE
        style = {"is_dashed": is_pending, "hue": str(find_hue(lines[0])), "origin": f"cell {record}", "delay": _DELAY}
        yield _draw_card(key, column, coordinator.top, lines, Tone.WAIT if is_pending else tone, **style)
    entry = _LOG[read - 1] if read and not is_end else _LOG[0]
    if entry.ends is ControlType.ABORT:
        dropped = next(number for number, other in enumerate(_LOG) if other.producer == entry.producer)
        column = _PENDING_COLUMNS[_LOG[dropped].group, _LOG[dropped].topic]
        looks = {"is_gone": True, "is_dashed": True, "delay": _DELAY}
        yield _draw_card(f"{name} dropped", column, coordinator.top, _LOG[dropped].lines, Tone.DEAD, **looks)
    if entry.value is None and entry.topic and not is_broken:
        column = _COMMITTED_COLUMNS[entry.group, entry.topic]
        origin = f"cell {read - 1}"
        key = f"{name} {read - 1}"
        yield _draw_card(key, column, coordinator.top, entry.lines, Tone.MUTED, origin=origin, delay=_DELAY)


def _draw_tape(loaded: int, new: _Memory, is_end: bool, is_broken: bool) -> Iterator[Mark]:
    in_memory = {chip.record for chip in new.chips.values()}
    for offset, entry in enumerate(_LOG):
        middle = _find_left(offset) + _CELL_WIDTH / 2
        lines = entry.lines
        is_last = offset == loaded - 1 and not is_end
        tone = Tone.PLAIN
        if is_broken and offset == len(_LOG) - 1:
            lines = (*lines[:2], "0 bytes")
            tone = Tone.ERROR if offset < loaded else Tone.MUTED
        elif is_last:
            tone = Tone.NEW
        elif offset >= loaded or (entry.topic and entry.value is None):
            tone = Tone.MUTED
        elif entry.topic and offset not in in_memory and not (is_broken and is_end):
            tone = Tone.DEAD
        # A tombstone and a marker are hollow.
        hue = str(find_hue(entry.group)) if entry.group and entry.value is not None else ""
        style = {"is_bold": is_last, "is_dashed": bool(entry.producer), "is_gone": tone is Tone.DEAD, "hue": hue}
        yield _draw_card(f"cell {offset}", offset, 36, lines, tone, **style)
        yield Label(f"offset {offset}", middle, 95, str(offset), "middle", Tone.MUTED, 11, is_bold=is_last)
        if entry.producer and entry.ends is None:
            yield Label(f"producer {offset}", middle, 108, f"prod. {entry.producer}", "middle", Tone.MUTED, 11)


def _find_differences(classic: _Memory, new: _Memory) -> Sequence[int]:
    columns = sorted({*classic.chips, *new.chips})
    return [column for column in columns if _read_value(classic, column) != _read_value(new, column)]


def _read_value(memory: _Memory, column: int) -> str | None:
    if column not in memory.chips:
        return None
    lines, _ = memory.chips[column]
    return lines[0] if column < len(_GROUPS) else lines[2]


def _describe(loaded: int, classic: _Memory, new: _Memory) -> Iterator[str]:
    for coordinator, memory in ((_CLASSIC, classic), (_NEW, new)):
        kafka = coordinator.kafka
        yield f"{kafka} answers about billing sales-0: {memory.answer}"
        for column, (lines, _) in sorted(memory.chips.items()):
            if column < len(_GROUPS):
                yield f"{kafka} has the group {lines[0]}: {lines[1]}"
            else:
                word = "pending" if column in _PENDING_COLUMNS.values() else "committed"
                yield f"{kafka} has {word} {lines[0]} {lines[1]}: {lines[2]}"
    for column in _find_differences(classic, new):
        has_new = column in new.chips
        lines, _ = (new if has_new else classic).chips[column]
        yield f"only {(_NEW if has_new else _CLASSIC).kafka} has {lines[0]}"
    yield f"{loaded} of {len(_LOG)} records are read"


def _explain(step: int, is_broken: bool) -> str:
    if step == 0:
        return "One partition's log, and the empty memories of two coordinators. Move the head with the next step."
    if step > len(_LOG):
        return _FAILED if is_broken else _BUILT
    offset = step - 1
    note = _UNREADABLE if is_broken and step == len(_LOG) else _LOG[offset].note
    return f"Record {offset}. {note}"
