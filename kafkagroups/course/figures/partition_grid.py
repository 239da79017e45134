"""Lesson 02: the partitions of the offsets topic as cells, and what a widened topic does to the groups.

Each group commits offset 50 while the topic has 50 partitions, and 60 while it has 60, so an answer says how old it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.api import load
from kafkagroups.coordinator import DiskLogs, OffsetCommit, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput, Part
from kafkagroups.course.figures.marks import KEY, WIDTH, Arrow, Box, Label, Line, Mark, Scene, Tone, measure_text
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.errors import UsageError
from kafkagroups.log.segment_file import partition_for

_COUNTS = (50, 60, 65)
_STEPS = (
    "50 partitions",
    "widened to 60",
    "the consumers restart and ask",
    "the groups commit",
    "widened to 65, the consumers ask",
)
_COUNT_BY_STEP = (50, 60, 60, 60, 65)
_COORDINATORS = ("Kafka 4.x", "Kafka 3.9, one broker leads all partitions")
_ORDERS_0 = TopicPartition("orders", 0)

_COLUMNS = 10
_LEFT = 6
_TOP = 2
_CELL_WIDTH = 42
_CELL_HEIGHT = 49
_DOT = 4
_DELAY = 0.5
_SECONDS_OF_A_MOVE = 1.3
_END = 1.8
"""After the topic was widened, its new cells come first, then the groups move, and then the words change."""
_NAME_LENGTH = 14
_PANEL_LEFT = 433
# In a narrow column, the list stands below the grid, in two columns.
_NARROW = (
    Part(0, 0, 430, 345, (0, 0), 0.83),
    Part(430, 0, WIDTH, 144, (0, 345)),
    Part(430, 144, WIDTH, 345, (231, 345)),
)
_LONGEST_ID = 40
_LEGEND = (
    Box("a group", *KEY, ("●",), Tone.MUTED),
    Box("its commit", *KEY, ("50",)),
    Box("left behind", *KEY, ("50",), is_dashed=True, is_hollow=True),
    Box("looked for here: no commit", *KEY, ("?",)),
)


_ANSWERS = {
    (2, 0): "Kafka 4.x looks only in the new partition. {nothing} of {total} groups find nothing, without an error, "
    "and auto.offset.reset decides where they start.",
    (2, 1): "Kafka 3.9 has one cache for all partitions, so {old} of {total} groups find offset 50. If another broker "
    "leads the old partition, a moved group finds nothing.",
    (4, 0): "{returned} groups are back in their first partition. They find offset 50 there, although they have "
    "committed 60. {nothing} groups find nothing, and {new} find 60.",
    (4, 1): "Kafka 3.9 keeps the copy of a group that it loads first. {old} groups find offset 50, although they have "
    "committed 60. {new} find 60.",
}
"""What is said when the consumers ask, by step and coordinator."""


class _View(NamedTuple):
    """What one scene shows.

    `homes` has the partition of each group with 50 partitions, and then with each larger number. `found` has the offset
    that each group finds, or None, if the consumers ask in this step.
    """

    step: int
    coordinator: int
    groups: tuple[str, ...]
    named: tuple[str, ...]
    followed: str
    homes: dict[str, list[int]]
    found: Mapping[str, int | None] | None

    def describe(self, group: str) -> str:
        homes = self.homes[group]
        if self.step == 0:
            return f"partition {homes[-1]}"
        has_moved = homes[-1] != homes[-2]
        place = f"{homes[-2]} → {homes[-1]}" if has_moved else f"{homes[-1]}"
        if self.found is None:
            return place if has_moved else f"{place}, stays"
        offset = self.found[group]
        if offset is None:
            return f"{place}: nothing"
        return f"{place}: {offset}, old" if self.is_wrong(group) else f"{place}: offset {offset}"

    def find_offset(self, group: str, partition: int) -> str:
        """Return the offset that the partition has of the group, or "?" if it has nothing of it."""
        first, *later = self.homes[group]
        if self.step > 2 and partition == later[0]:
            return "60"
        return "50" if partition == first else "?"

    def find_source(self, group: str) -> str:
        """Return the key of the mark whose records are the answer. Without an answer, it is where brokers look."""
        found = self.found[group] if self.found is not None else None
        homes = self.homes[group]
        holder = homes[-1] if found is None else homes[_COUNTS.index(found)]
        return f"copy {group} {holder}"

    def tell(self) -> Line:
        """Return in one line what happens to the group that the reader follows."""
        group = self.followed
        *_, home = self.homes[group]
        place = f"{group}: hash % {_COUNT_BY_STEP[self.step]} = {home}"
        if self.found is None:
            commit, holder = (60, home) if self.step > 2 else (50, self.homes[group][0])
            return Line(f"{place}. Its commit of {commit} is in partition {holder}", Tone.NEW)
        offset = self.found[group]
        answer = "nothing" if offset is None else f"offset {offset}"
        where = (f"partition {home}", "all its partitions")[self.coordinator]
        tone = Tone.ERROR if self.is_wrong(group) else Tone.LIVE
        return Line(f"{place}. {self.kafka} looks in {where} and finds {answer}", tone)

    @property
    def kafka(self) -> str:
        """The beginning of the control's option, for example "Kafka 4.x"."""
        return _COORDINATORS[self.coordinator].partition(",")[0]

    def is_wrong(self, group: str) -> bool:
        return self.found is not None and self.found[group] != (50 if self.step < 3 else 60)


_Answers = tuple[Mapping[str, int | None], ...]
"""The offset that each group finds, or None, with each coordinator of `_COORDINATORS`."""


class PartitionGrid(Figure):
    def __init__(self, groups: Iterable[str], named: Sequence[str]) -> None:
        self.groups = tuple(groups)
        self.named = tuple(named)
        super().__init__(_make_content(self.groups, self.named, self.named[0]))

    def compute_content(self, value: str) -> Content:
        typed = value.strip()
        if not typed:
            raise UsageError("expected a group id, for example 'my-service'; found an empty text")
        if len(typed) > _LONGEST_ID or not typed.isprintable():
            raise UsageError(f"expected a group id of at most {_LONGEST_ID} printable characters; found {typed[:50]!r}")
        named = self.named if typed in self.named else (*self.named, typed)
        return _make_content(self.groups, named, typed)


def _make_content(groups: tuple[str, ...], named: tuple[str, ...], typed: str) -> Content:
    answers_60, answers_65 = _ask_coordinators([*groups, *named])
    answers_by_step = {2: answers_60, 4: answers_65}

    def draw(step: int, coordinator: int, followed: int) -> Scene:
        found = answers_by_step[step][coordinator] if step in answers_by_step else None
        counts = [count for count in _COUNTS if count <= _COUNT_BY_STEP[step]]
        homes = {group: [partition_for(group, count) for count in counts] for group in [*groups, *named]}
        return _draw(_View(step, coordinator, groups, named, named[followed], homes, found))

    steps = Control("step", "step", _STEPS, initial=2)
    coordinators = Control("coordinator", "coordinator", _COORDINATORS, is_sequence=False)
    follow = Control("follow", "follow", named, is_sequence=False, initial=named.index(typed), is_answer=True)
    others = {"free_input": FreeInput("mark a group id", "my-service"), "legend": _LEGEND, "narrow": _NARROW}
    controls = (steps, coordinators, follow)
    return Content.draw("The partitions of __consumer_offsets", 345, controls, draw, **others)


def _ask_coordinators(groups: Sequence[str]) -> tuple[_Answers, _Answers]:
    folder = make_scratch_folder()
    _commit(folder, groups, 50)
    answers_60 = _ask(folder, groups, 60)
    _commit(folder, groups, 60)
    return answers_60, _ask(folder, groups, 65)


def _commit(folder: Path, groups: Iterable[str], count: int) -> None:
    logs = DiskLogs(folder)
    broker = start_broker(logs, offsets_topic_num_partitions=count)
    for group in groups:
        broker.offset_commit(group, {_ORDERS_0: OffsetCommit(count)})
    logs.close()


def _ask(folder: Path, groups: Sequence[str], count: int) -> _Answers:
    loaded = load(folder, "new", partitions=count)
    new = {group: loaded[group].offsets[_ORDERS_0].offset if group in loaded else None for group in groups}
    broker = start_broker(DiskLogs(folder), offsets_topic_num_partitions=count)
    fetched = {group: broker.offset_fetch(group, [_ORDERS_0]).value.offsets[_ORDERS_0].offset for group in groups}
    classic = {group: None if offset < 0 else offset for group, offset in fetched.items()}
    return (new, classic)


def _draw(view: _View) -> Scene:
    count = _COUNT_BY_STEP[view.step]
    sizes = Counter(home[-1] for home in view.homes.values())
    # An arrow leads from the partition of the group that the reader follows to the one where brokers look.
    chosen = view.homes[view.followed][-2:] if view.step else []
    marks = [*_draw_cells(count, chosen), *_draw_dots(view), *_draw_named(view), *_draw_list(view)]
    if len(set(chosen)) > 1:
        (x1, y1), (x2, y2) = map(_find_place, chosen)
        marks.append(Arrow("move", x1 + _CELL_WIDTH + 2, y1 + 27, x2 + _CELL_WIDTH + 2, y2 + 27, Tone.NEW, delay=_END))
    line = view.tell()
    text = [f"step {view.step + 1}, {_STEPS[view.step]}", f"above: {line.text}"]
    text += [f"{group}: {view.describe(group)}" for group in view.named]
    text += [f"partition {partition}, groups: {size}" for partition, size in sorted(sizes.items())]
    return Scene(tuple(marks), _explain(view, sizes), tuple(text), lines=(line,))


def _find_place(partition: int) -> tuple[float, float]:
    row, column = divmod(partition, _COLUMNS)
    return _LEFT + column * _CELL_WIDTH, _TOP + row * _CELL_HEIGHT


def _draw_cells(count: int, chosen: Sequence[int]) -> Iterator[Mark]:
    for partition in range(count):
        x, y = _find_place(partition)
        is_added = partition >= _COUNTS[0]
        is_chosen = partition in chosen
        usual = Tone.PLAIN if is_added else Tone.MUTED
        tone = Tone.NEW if is_chosen else usual
        origin = f"cell {partition - _COLUMNS}"
        frame = (x, y, _CELL_WIDTH - 2, _CELL_HEIGHT - 2)
        yield Box(f"cell {partition}", *frame, tone=tone, is_dashed=is_added, is_hollow=is_chosen, origin=origin)
        yield Label(f"number {partition}", x + 3, y + 11, str(partition), tone=Tone.MUTED, size=11)


def _draw_dots(view: _View) -> Iterator[Mark]:
    placed: Counter[int] = Counter()
    for group in view.groups:
        *earlier, home = view.homes[group]
        x, y = _find_place(home)
        row, column = divmod(placed[home], 6)
        has_moved = bool(earlier) and earlier[-1] != home
        style: dict[str, Any] = {"is_solid": True, "delay": _DELAY, "duration": _SECONDS_OF_A_MOVE * has_moved}
        yield Box(f"dot {group}", x + 3 + column * 6.2, y + 14 + row * 6, _DOT, _DOT, tone=Tone.MUTED, **style)
        placed[home] += 1


def _draw_named(view: _View) -> Iterator[Mark]:
    copies = []
    for group in view.named:
        *earlier, home = view.homes[group]
        copies += [*((group, old, True) for old in sorted(set(earlier) - {home})), (group, home, False)]
    placed: Counter[int] = Counter()
    for group, partition, is_old in copies:
        x, y = _find_place(partition)
        row, column = divmod(placed[partition], 2)
        x += 2 + column * 19
        y += 21 + row * 13
        offset = view.find_offset(group, partition)
        style: dict[str, Any] = {"size": 11, "is_dashed": is_old, "is_hollow": is_old, "hue": group}
        if group == view.followed:
            style |= {"tone": Tone.NEW, "is_bold": True}
        origin = "" if is_old else f"copy {group} {view.homes[group][-2:][0]}"
        moves: dict[str, Any] = {} if is_old else {"origin": origin, "delay": _DELAY, "duration": _SECONDS_OF_A_MOVE}
        yield Box(f"copy {group} {partition}", x, y, 18, 13, (offset,), **moves, **style)
        if _STEPS[view.step] == "the groups commit" and not is_old:
            yield Box(f"commit {group}", x, y, 18, 13, (offset,), origin=f"list {group}", **style)
        placed[partition] += 1


def _draw_list(view: _View) -> Iterator[Mark]:
    delay = _END * (view.step in (1, 4))
    for number, group in enumerate(view.named):
        y = _TOP + 12 + number * 36
        name = group if len(group) <= _NAME_LENGTH else f"{group[: _NAME_LENGTH - 1]}…"
        is_followed = group == view.followed
        tone = Tone.NEW if is_followed else Tone.PAGE
        yield Box(f"row {group}", _PANEL_LEFT - 3, y - 12, 128, 35, tone=tone, choice=("follow", number))
        yield Box(f"list {group}", _PANEL_LEFT, y - 9, 10, 10, hue=group, is_solid=True)
        yield Label(f"name {group}", _PANEL_LEFT + 14, y, name, is_bold=is_followed)
        place, sign, answer = view.describe(group).partition(": ")
        yield Label(f"words {group}", _PANEL_LEFT, y + 15, place + sign.rstrip(), size=11, delay=delay)
        if answer:
            x = _PANEL_LEFT + measure_text(place, 11) + 12
            tone = Tone.ERROR if view.is_wrong(group) else Tone.LIVE
            frame = (x, y + 3, measure_text(answer, 11) + 6, 17)
            style: dict[str, Any] = {"origin": view.find_source(group), "delay": delay}
            yield Box(f"answer {group} {view.step}", *frame, (answer,), tone, 11, **style)


def _explain(view: _View, sizes: Mapping[int, int]) -> str:
    if view.found is not None:
        return _explain_answers(view, view.found)
    total = len(view.homes)
    if view.step == 0:
        hottest = max(sizes, key=lambda partition: sizes[partition])
        empty = _COUNTS[0] - len(sizes)
        return (
            f"{total} groups: each one commits offset 50. Partition {hottest} has {sizes[hottest]} groups, and {empty} "
            "partitions have none. The hash decides, and nothing balances."
        )
    if view.step == 1:
        moved = sum(home[-1] != home[-2] for home in view.homes.values())
        return (
            f"Brokers now look for {moved} of the {total} groups in another partition. The records do not move: "
            "the old copies (hollow) stay where they are."
        )
    return "Each group commits offset 60, in the partition where brokers look now. Some groups have two copies now."


def _explain_answers(view: _View, found: Mapping[str, int | None]) -> str:
    answers = Counter(found.values())
    returned = sum(home[-1] == home[0] != home[1] for home in view.homes.values())
    counts = {"old": answers[50], "new": answers[60], "nothing": answers[None], "total": len(found)}
    return _ANSWERS[view.step, view.coordinator].format(returned=returned, **counts)
