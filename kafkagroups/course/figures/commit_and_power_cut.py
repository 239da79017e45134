"""Lesson 04: a commit on its way from the client to the replicas in two coordinators, and a power cut at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from kafkagroups.coordinator import DiskLogs, GroupCoordinator, HeldLogs, NewBatch, OffsetCommit, TopicPartition
from kafkagroups.coordinator.logs import AppendCallback
from kafkagroups.coordinator.partitioned_groups import PartitionedGroups
from kafkagroups.course.broker import start_broker, start_follower
from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.records.offset_commit import OffsetCommitValue
from kafkagroups.records.serde import decode

_GROUP = "dashboard"
_PARTITION = TopicPartition("orders", 0)
_HEIGHT = 292
_ROW_HEIGHT = 106
_POWER = ("on", "cut after this step")
_MEMORY_NAMES = {"4.3.1": ("memory", "snapshot"), "3.9.2": ("in flight", "cache")}
"""For each Kafka version: where a commit in flight is in memory, and what a fetch reads."""
_STEPS = {
    "5 is committed": "Log, replica and memory agree, and a fetch returns 5.",
    "6 checked": "The commit of 6 is in memory. Nothing is in the log yet, and a fetch still returns 5.",
    "6 appended": "The record is in this broker's log, but not on the replica, so a fetch still returns 5.",
    "6 confirmed": "The replica has the record, so a fetch returns 6. The client has no answer yet.",
    "6 answered": "The client receives NONE: no error.",
}


@dataclass(frozen=True)
class Moment:
    """Where the offsets are in one broker after a step, and what the next broker answers if the power fails now.

    An offset is a text, "–" without one. `newest` is the offset that the memory of 4.x has applied, or that 3.9 notes
    as in flight. The next broker has the whole log, or only the records that the replica confirmed.
    """

    newest: str
    fetched: str
    log: str
    replica: str
    answer: str
    next_with_whole_log: str
    next_with_confirmed_log: str


class _WatchedLogs(HeldLogs):
    before_append: Callable[[], None] = staticmethod(lambda: None)

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        self.before_append()
        super().append(partition, batch, callback)


def watch_commit(kafka: str) -> list[Moment]:
    """Let a broker of this version commit 5, then 6, and return the moments of the commit of 6, as in the figure."""
    logs = _WatchedLogs(DiskLogs(make_scratch_folder()))
    broker = start_broker(logs, kafka)
    broker.offset_commit(_GROUP, {_PARTITION: OffsetCommit(5)})
    logs.release()
    moments = [_observe(broker, 1, "–")]

    def observe(confirmed_end: int, *_: object) -> None:
        moments.append(_observe(broker, confirmed_end, "waits"))

    logs.before_append = partial(observe, 1)
    response = broker.offset_commit(_GROUP, {_PARTITION: OffsetCommit(6)})
    observe(1)
    # The coordinator calls this at the moment of its answer.
    response.then(partial(observe, 2))
    logs.release()
    return [*moments, _observe(broker, 2, response.value[_PARTITION].name)]


def _observe(broker: GroupCoordinator, confirmed_end: int, answer: str) -> Moment:
    manager = broker.manager
    if isinstance(manager, PartitionedGroups):
        newest = manager.find_runtime(_GROUP).shard.offsets.committed[_GROUP].get(_PARTITION)
    else:
        group = manager.get_group(_GROUP)
        newest = group.offsets.pending.get(_PARTITION) if group else None
    next_with_whole_log = start_follower(broker, _GROUP)
    next_with_confirmed_log = start_follower(broker, _GROUP, confirmed_end)
    return Moment(
        newest=str(newest.offset) if newest else "–",
        fetched=_fetch(broker),
        log=_read_log(broker),
        replica=_read_log(next_with_confirmed_log),
        answer=answer,
        next_with_whole_log=_fetch(next_with_whole_log),
        next_with_confirmed_log=_fetch(next_with_confirmed_log),
    )


def _fetch(broker: GroupCoordinator) -> str:
    return str(broker.offset_fetch(_GROUP, [_PARTITION]).value.offsets[_PARTITION].offset)


def _read_log(broker: GroupCoordinator) -> str:
    manager = broker.manager
    batches = manager.logs.read(manager.partition_for(_GROUP))
    values = [decode(record.key, record.value).value for batch in batches for record in batch.records]
    return " ".join(str(value.offset) for value in values if isinstance(value, OffsetCommitValue))


class CommitAndPowerCut(Figure):
    def __init__(self) -> None:
        self.moments = {kafka: watch_commit(kafka) for kafka in _MEMORY_NAMES}
        controls = (
            Control("step", "step", tuple(_STEPS), initial=2),
            Control("power", "power", _POWER, is_sequence=False, initial=1),
        )

        def draw(step: int, power: int) -> Scene:
            return self._draw(step, is_cut=power == 1)

        super().__init__(Content.draw("A commit, and a power cut at any step", _HEIGHT, controls, draw))

    def _draw(self, step: int, *, is_cut: bool) -> Scene:
        name, sentence = list(_STEPS.items())[step]
        marks: list[Mark] = [
            Label("client title", 50, 16, "client", "middle", is_bold=True),
            Label("replica title", 500, 16, "replica", "middle", is_bold=True),
        ]
        text = [f"step: {name}"]
        for row, (kafka, moments) in enumerate(self.moments.items()):
            now = moments[step]
            marks += _draw_broker(kafka, row * _ROW_HEIGHT, now, moments[max(0, step - 1)], is_cut=is_cut)
            names = (*_MEMORY_NAMES[kafka], "log", "replica", "answer")
            values = (now.newest, now.fetched, now.log, now.replica, now.answer)
            text += [f"{kafka}, {name}: {value}" for name, value in zip(names, values, strict=True)]
        if not is_cut:
            marks.append(Label("fetch", 10, 236, f"A fetch now returns {now.fetched}."))
            return Scene(tuple(marks), f"{name}. {sentence}", tuple(text))
        whole = now.next_with_whole_log
        confirmed = now.next_with_confirmed_log
        either = " or ".join(dict.fromkeys([whole, confirmed]))
        marks += [
            Label("next title", 10, 232, "The next broker loads its log, and a fetch returns:", is_bold=True),
            Box("whole", 10, 242, 260, 46, ("if it has the whole log", whole), Tone.NEW),
            Box("confirmed", 290, 242, 260, 46, ("if it has the confirmed records", confirmed), Tone.NEW),
        ]
        text += [
            f"after a power cut, with the whole log: {whole}",
            f"after a power cut, with the confirmed records: {confirmed}",
        ]
        caption = f"The power fails after “{name}”, and the memory is lost. The next broker answers {either}."
        return Scene(tuple(marks), caption, tuple(text))


def _draw_broker(kafka: str, top: float, now: Moment, before: Moment, *, is_cut: bool) -> Iterator[Mark]:
    newest_name, fetched_name = _MEMORY_NAMES[kafka]
    title = f"coordinator {kafka}: no power" if is_cut else f"coordinator {kafka}"
    frame_tone = Tone.ERROR if is_cut else Tone.MUTED
    answer_tone = Tone.NEW if now.answer != before.answer else Tone.PLAIN
    newest_tone = Tone.PLAIN if now.newest == now.fetched else Tone.WAIT
    y = top + 32

    def draw_slot(name: str, x: float, field: str, tone: Tone, *, is_lost: bool = False) -> Box:
        value: str = getattr(now, field)
        is_new = value != getattr(before, field)
        is_empty = value == "–"
        if is_lost:
            tone = Tone.DEAD
        elif is_new:
            tone = Tone.NEW
        elif is_empty:
            tone = Tone.MUTED
        hue = "" if is_empty else _GROUP
        key = f"{kafka} {field}"
        return Box(key, x, y, 90, 46, (name, value), tone, is_bold=is_new, is_gone=is_lost, is_hollow=is_empty, hue=hue)

    yield Label(f"{kafka} title", 267, top + 16, title, "middle", is_bold=True)
    yield Box(f"{kafka} broker", 116, top + 24, 302, 62, tone=frame_tone, is_dashed=is_cut, is_hollow=True)
    yield Box(f"{kafka} answer", 6, y, 88, 46, ("answer", now.answer), answer_tone, is_bold=answer_tone is Tone.NEW)
    yield draw_slot(newest_name, 124, "newest", newest_tone, is_lost=is_cut)
    yield draw_slot(fetched_name, 222, "fetched", Tone.LIVE, is_lost=is_cut)
    yield draw_slot("log", 320, "log", Tone.PLAIN)
    yield draw_slot("its log", 455, "replica", Tone.PLAIN)
    yield Arrow(f"{kafka} request", 96, top + 55, 114, top + 55, Tone.MUTED)
    yield Arrow(f"{kafka} copy", 420, top + 55, 453, top + 55, Tone.MUTED)
