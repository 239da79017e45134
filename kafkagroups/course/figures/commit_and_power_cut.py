"""Lesson 04: a commit on its way from the client to the replicas in two coordinators, and a power cut at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

from kafkagroups.coordinator import DiskLogs, GroupCoordinator, HeldLogs, NewBatch, OffsetCommit, TopicPartition
from kafkagroups.coordinator.logs import AppendCallback
from kafkagroups.coordinator.partitioned_groups import PartitionedGroups
from kafkagroups.course.broker import start_broker, start_follower
from kafkagroups.course.figures.figure import Content, Control, Figure, squeeze_right
from kafkagroups.course.figures.marks import Arrow, Box, Label, Line, Mark, Scene, Tone, measure_text
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.records.offset_commit import OffsetCommitValue
from kafkagroups.records.serde import decode

_GROUP = "dashboard"
_PARTITION = TopicPartition("orders", 0)
_MIDDLES = {"answer": 51, "newest": 169, "fetched": 267, "log": 365, "replica": 500}
"""The middle of the slot of each place."""
_HEIGHT = 290
_ROW_DISTANCE = 149
_CHIP_WIDTH = 38
_DELAY = 0.4
"""The seconds until the replica has the record. Only then it counts."""
_MEMORY_NAMES = {"4.3.1": ("memory", "snapshot"), "3.9.2": ("in flight", "cache")}
"""For each Kafka version: where a commit in flight is in memory, and what a fetch reads."""
_STEPS = {
    "5 is committed": "Log, replica and memory agree, and a fetch returns 5.",
    "6 checked": "The commit of 6 is in memory. Nothing is in the log yet, and a fetch still returns 5.",
    "6 appended": "The record is in this broker's log, but not on the replica, so a fetch still returns 5.",
    "6 confirmed": "The replica has the record, so a fetch returns 6. The client has no answer yet.",
    "6 answered": "The client receives NONE: no error.",
}
_LOSSES = (
    "The memory is lost. The next broker loads 5 from the log.",
    "The commit of 6 was only in the memory, and is lost. The client has no answer, so it can commit 6 again.",
    "6 is lost if the next broker has only what the replica confirmed. The client has no answer.",
    "Only the memory is lost, because the replica has the record, too. The client has no answer.",
    "Only the memory is lost. What the client knows from its answer NONE stays true.",
)
"""For each step: what a power cut after it means."""


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
    next_with_confirmed_log = start_follower(broker, _GROUP, confirmed_end)
    return Moment(
        newest=str(newest.offset) if newest else "–",
        fetched=_fetch(broker),
        log=_read_log(broker),
        replica=_read_log(next_with_confirmed_log),
        answer=answer,
        next_with_whole_log=_fetch(start_follower(broker, _GROUP)),
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
        steps = Control("step", "step", tuple(_STEPS), initial=2)
        powers = Control("power", "power", ("on", "cut after this step"), is_sequence=False)
        title = "A commit, and a power cut at any step"
        super().__init__(
            Content.draw(title, _HEIGHT, (steps, powers), self._draw, narrow=squeeze_right(2, _HEIGHT, 0.625))
        )

    def _draw(self, step: int, power: int) -> Scene:
        is_cut = power == 1
        name, sentence = list(_STEPS.items())[step]
        marks: list[Mark] = [
            Label("client title", 50, 16, "client", "middle", is_bold=True),
            Label("replica title", 500, 16, "replica", "middle", is_bold=True),
        ]
        text = [f"step: {name}"]
        for row, (kafka, moments) in enumerate(self.moments.items()):
            now = moments[step]
            marks += _draw_broker(kafka, row * _ROW_DISTANCE, now, moments[max(0, step - 1)], is_cut=is_cut)
            marks += (_draw_next_answers if is_cut else _draw_fetch)(kafka, row * _ROW_DISTANCE + 102, now)
            places = zip((*_MEMORY_NAMES[kafka], "log", "replica", "answer"), astuple(now), strict=False)
            text += [f"{kafka}, {place}: {value}" for place, value in places]
        if not is_cut:
            text.append(f"a fetch now returns: {now.fetched}")
            line = Line(f"{name}: a fetch returns {now.fetched}", Tone.LIVE)
            return Scene(tuple(marks), sentence, tuple(text), lines=(line,))
        whole = now.next_with_whole_log
        confirmed = now.next_with_confirmed_log
        either = " or ".join(dict.fromkeys([whole, confirmed]))
        for part, value in (("whole log", whole), ("confirmed records", confirmed)):
            text.append(f"after a power cut, with the {part}: {value}")
        still = "still " * (either == self.moments["4.3.1"][0].fetched)
        words = f"{name}, then a power cut: the next broker {still}answers {either}"
        line = Line(words, Tone.ERROR if whole != confirmed else Tone.LIVE)
        return Scene(tuple(marks), _LOSSES[step], tuple(text), lines=(line,))


def _draw_fetch(kafka: str, y: float, now: Moment) -> Iterator[Mark]:
    middle = _MIDDLES["fetched"]
    yield Arrow(f"{kafka} reads", middle, y - 14, middle, y + 6, Tone.LIVE)
    yield Label(f"{kafka} returns", middle - 26, y + 24, "a fetch returns", "end", Tone.LIVE, is_bold=True)
    frame = (middle - _CHIP_WIDTH / 2, y + 7, _CHIP_WIDTH, 25)
    origin = f"{kafka} fetched {now.fetched}"
    style: dict[str, Any] = {"is_bold": True, "hue": _GROUP, "origin": origin, "delay": _DELAY}
    yield Box(f"{kafka} fetch {now.fetched}", *frame, (now.fetched,), Tone.LIVE, **style)


def _draw_next_answers(kafka: str, y: float, now: Moment) -> Iterator[Mark]:
    """What the next broker answers stands below the log that it then has."""
    yield Label(f"{kafka} next", 4, y + 24, "the next broker answers", is_bold=True)
    values = {"log": now.next_with_whole_log, "replica": now.next_with_confirmed_log}
    differs = len({*values.values()}) > 1
    sign = "≠" if differs else "="
    yield Label(f"{kafka} sign", 432, y + 27, sign, "middle", size=20, is_bold=True, delay=2 * _DELAY)
    names = (("whole log", Tone.NEW), ("confirmed", Tone.WAIT))
    for (place, value), (words, tone) in zip(values.items(), names, strict=True):
        frame = (_MIDDLES[place] - 52, y + 3, 104, 35)
        style: dict[str, Any] = {"is_bold": differs, "origin": f"{kafka} {place} {value}", "delay": 2 * _DELAY}
        yield Box(f"{kafka} {place} answer {value}", *frame, (words, value), tone if differs else Tone.LIVE, **style)


def _draw_broker(kafka: str, top: float, now: Moment, before: Moment, *, is_cut: bool) -> Iterator[Mark]:
    newest_name, fetched_name = _MEMORY_NAMES[kafka]
    title = f"Kafka {kafka}{': no power' * is_cut}"
    client_name = "commits" if now.answer == "–" else "answer"
    names = {client_name: "answer", newest_name: "newest", fetched_name: "fetched", "log": "log", "its log": "replica"}
    yield Label(f"{kafka} title", 116, top + 15, title, tone=Tone.DEAD if is_cut else Tone.PLAIN, is_bold=True)
    yield Box(f"{kafka} broker", 116, top + 22, 302, 74, tone=Tone.DEAD if is_cut else Tone.MUTED, is_dashed=is_cut)
    left, right = (114, 98) if now.answer == "NONE" else (98, 114)
    if not is_cut:
        yield Arrow(f"{kafka} request", left, top + 59, right, top + 59, Tone.MUTED)
        yield Arrow(f"{kafka} copy", 420, top + 59, 453, top + 59, Tone.MUTED)
    for name, place in names.items():
        middle = _MIDDLES[place]
        value = getattr(now, place)
        is_lost = is_cut and place in ("newest", "fetched")
        if is_lost or place in ("answer", "fetched", "replica"):
            usual = Tone.LIVE if place == "fetched" else Tone.MUTED
            tone = Tone.DEAD if is_lost else usual
            yield Box(f"{kafka} {place}", middle - 45, top + 31, 90, 56, tone=tone, is_gone=is_lost)
        yield Label(f"{kafka} name {place}", middle, top + 46, name, "middle")
        if value == "waits" or (place, value) == ("newest", "–"):
            yield Label(f"{kafka} no {place}", middle, top + 71, value, "middle", Tone.MUTED)
    yield from _draw_chips(kafka, top + 52, now, before, is_cut=is_cut)


def _draw_chips(kafka: str, top: float, now: Moment, before: Moment, *, is_cut: bool) -> Iterator[Mark]:
    """The chip of the new commit goes from the client to the memory. Copies of it go to the log and to the replica."""
    chip = f"{kafka} 6"

    def draw(place: str, value: str, key: str, origin: str = "", shift: float = 0) -> Box:
        is_lost = is_cut and place in ("newest", "fetched")
        is_new = value not in getattr(before, place).split()
        tone = Tone.NEW if is_new else Tone.PLAIN
        words = "no error" if value == "NONE" else value
        width = max(_CHIP_WIDTH, measure_text(words, 12) + 8)
        x = _MIDDLES[place] + shift - width / 2
        style: dict[str, Any] = {"is_bold": is_new, "is_gone": is_lost, "hue": _GROUP, "origin": origin}
        delay = _DELAY * (place == "fetched")
        return Box(key, x, top, width, 28, (words,), Tone.DEAD if is_lost else tone, delay=delay, **style)

    for place, origin in (("log", chip), ("replica", f"{kafka} log 6")):
        values = getattr(now, place).split()
        for number, value in enumerate(values):
            shift = (number - (len(values) - 1) / 2) * (_CHIP_WIDTH + 4)
            yield draw(place, value, f"{kafka} {place} {value}", origin, shift)
    if now.fetched == "5" or now.newest == "6":
        yield draw("fetched", now.fetched, f"{kafka} fetched {now.fetched}", chip)
    if now.newest == "5":
        yield draw("newest", "5", f"{kafka} newest 5")
    holder = "newest" if now.newest == "6" else "fetched"
    yield draw("answer" if now.answer == "–" else holder, "6", chip)
    if now.answer == "NONE":
        yield draw("answer", "NONE", f"{kafka} NONE", f"{kafka} request")
