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
from kafkagroups.log.segment_file import hash_group, partition_for

_COUNTS = (50, 60, 65)
_STEPS = ("50 partitions", "widened to 60", "the consumers ask", "the groups commit", "65 partitions, they ask")
_COUNT_BY_STEP = (50, 60, 60, 60, 65)
_COORDINATORS = ("Kafka 4.x", "Kafka 3.9, one broker leads all partitions")
_ORDERS_0 = TopicPartition("orders", 0)

_COLUMNS = 10
_LEFT = 6
_TOP = 28
_CELL_WIDTH = 42
_CELL_HEIGHT = 42
_DELAY = 0.35
_END = 0.7
"""After the topic was widened, its new cells come first, then the broker looks elsewhere, and then the words change."""
_ANSWERED = 0.3
"""A question goes to a partition, and then its answer comes back."""
_NAME_LENGTH = 14
_PANEL_LEFT = 433
_PANEL_HEIGHT = 288
_BAR_TOP = _TOP + 7 * _CELL_HEIGHT + 5
_HEIGHT = _BAR_TOP + 22
# In a narrow column, the answer stands below the formula, then the grid and the bar, and then the list in two columns.
_NARROW = (
    Part(0, 0, 361, _TOP - 4, (0, 0)),
    Part(361, 0, WIDTH, _TOP - 4, (-63, 26)),
    Part(0, _BAR_TOP - 2, WIDTH, _HEIGHT, (2, _BAR_TOP + 26), 0.63),
    Part(0, _TOP - 4, 428, _HEIGHT, (0, 52), 0.83),
    Part(428, _TOP - 4, WIDTH, _TOP + 140, (0, _HEIGHT + 34)),
    Part(428, _TOP + 140, WIDTH, _BAR_TOP - 2, (231, _HEIGHT + 34)),
)
_OUTCOMES = {"groups": Tone.MUTED, "found": Tone.LIVE, "old": Tone.WAIT, "nothing": Tone.ERROR, "move": Tone.NEW}
"""What happens to a group, and the tone of its part of the bar of all groups."""
_LONGEST_ID = 40
_LEGEND = (
    Box("a commit of another group", *KEY, ("•",), Tone.MUTED),
    Box("brokers look here", *KEY, tone=Tone.NEW),
    Box("left behind", *KEY, ("50",), is_dashed=True, is_hollow=True),
)

_CAPTIONS = (
    "{total} groups commit offset 50. Partition {hottest} has {size} of them, and {empty} have none.",
    "Brokers now look for {moved} of the {total} groups in another partition. The records do not move.",
    "Kafka 4.x looks only in the new partition. {nothing} of {total} groups find nothing, without an error, and "
    "auto.offset.reset decides where they start.",
    "Each group commits offset 60, in the partition where brokers look now. Some groups have two copies now.",
    "{returned} groups are back in their first partition. They find offset 50 there, although they have committed 60. "
    "{nothing} groups find nothing, and {new} find 60.",
)
_OLD_CAPTIONS = {
    2: "Kafka 3.9 has one cache for all partitions, so {old} of {total} groups find offset 50. If another broker leads "
    "the old partition, a moved group finds nothing.",
    4: "Kafka 3.9 keeps the copy of a group that it loads first. {old} groups find the old 50, {new} find 60.",
}
"""What is said instead, by step, if the consumers ask Kafka 3.9."""


class _View(NamedTuple):
    """What one scene shows.

    `homes` has the partition of each group with 50 partitions, and then with each larger number. `found` has the offset
    that each group finds, or None, if the consumers ask in this step.
    """

    step: int
    coordinator: int
    named: tuple[str, ...]
    followed: str
    homes: dict[str, list[int]]
    found: Mapping[str, int | None] | None

    def describe(self, group: str) -> str:
        """Return in a word or two what happens to the group."""
        *_, home = self.homes[group]
        if self.found is not None:
            offset = self.found[group]
            return "nothing" if offset is None else f"{'old ' * self.is_wrong(group)}offset {offset}"
        before = self.homes[group][-2:][0]
        if self.step != 1:
            return f"partition {home}"
        return "stays" if before == home else f"{before} → {home}"

    def count_outcomes(self) -> list[tuple[str, int]]:
        counts = Counter(map(self._name_outcome, self.homes))
        return [(outcome, counts[outcome]) for outcome in _OUTCOMES if counts[outcome]]

    def _name_outcome(self, group: str) -> str:
        if self.found is not None and self.found[group] is None:
            return "nothing"
        if self.found is not None:
            return "old" if self.is_wrong(group) else "found"
        return "move" if self.step == 1 and len(set(self.homes[group])) > 1 else "groups"

    def list_commits(self, group: str) -> dict[int, int]:
        """Return the offset in each partition that has a commit of the group."""
        first, *later = self.homes[group]
        return {first: 50, later[0]: 60} if self.step > 2 else {first: 50}

    def find_answer(self) -> int | None:
        """Return the partition of the commit that is the answer, or None."""
        found = self.found[self.followed] if self.found is not None else None
        commits = self.list_commits(self.followed).items()
        return next((partition for partition, offset in commits if offset == found), None)

    def tell(self) -> Line:
        """Return in one line what happens to the group that the reader follows."""
        group = self.followed
        *_, home = self.homes[group]
        before = self.homes[group][-2:][0]
        if self.found is not None:
            where = (f"in partition {home}", "in all its partitions")[self.coordinator]
            answer = self.describe(group).replace("old offset", "the old offset")
            tone = Tone.ERROR if self.is_wrong(group) else Tone.LIVE
            return Line(f"{('Kafka 4.x', 'Kafka 3.9')[self.coordinator]} looks {where}, and finds {answer}", tone)
        if self.step == 1:
            moved = f"Brokers now look in partition {home}; the commit stays in {before}"
            return Line(f"Brokers still look in partition {home}" if before == home else moved, Tone.NEW)
        return Line(f"Partition {home} gets offset {60 if self.step else 50} of {group}", Tone.NEW)

    def is_wrong(self, group: str) -> bool:
        return self.found is not None and self.found[group] != (50 if self.step < 3 else 60)


_Answers = tuple[Mapping[str, int | None], ...]
"""The offset that each group finds, or None, with each coordinator of `_COORDINATORS`."""


class PartitionGrid(Figure):
    def __init__(self, groups: Iterable[str], named: Sequence[str]) -> None:
        self.groups = tuple(groups)
        self.named = tuple(named)
        # A group that comes back to its first partition has the whole story.
        homes = {group: [partition_for(group, count) for count in _COUNTS] for group in self.named}
        followed = max(self.named, key=lambda group: homes[group][0] == homes[group][2] != homes[group][1])
        super().__init__(_make_content(self.groups, self.named, followed))

    def compute_content(self, value: str) -> Content:
        typed = value.strip()
        if not typed:
            raise UsageError("expected a group id, for example 'my-service'; found an empty text")
        if len(typed) > _LONGEST_ID or not typed.isprintable():
            raise UsageError(f"expected a group id of at most {_LONGEST_ID} printable characters; found {typed[:50]!r}")
        return _make_content(self.groups, self.named if typed in self.named else (*self.named, typed), typed)


def _make_content(groups: tuple[str, ...], named: tuple[str, ...], typed: str) -> Content:
    answers_60, answers_65 = _ask_coordinators([*groups, *named])
    answers_by_step = {2: answers_60, 4: answers_65}

    def draw(step: int, coordinator: int, followed: int) -> Scene:
        found = answers_by_step[step][coordinator] if step in answers_by_step else None
        counts = [count for count in _COUNTS if count <= _COUNT_BY_STEP[step]]
        homes = {group: [partition_for(group, count) for count in counts] for group in [*groups, *named]}
        return _draw(_View(step, coordinator, named, named[followed], homes, found))

    steps = Control("step", "step", _STEPS, initial=2)
    coordinators = Control("coordinator", "coordinator", _COORDINATORS, is_sequence=False)
    follow = Control("follow", "follow", named, is_sequence=False, initial=named.index(typed), is_answer=True)
    others = {"free_input": FreeInput("mark a group id", "my-service"), "legend": _LEGEND, "narrow": _NARROW}
    controls = (steps, coordinators, follow)
    return Content.draw("The partitions of __consumer_offsets", _HEIGHT, controls, draw, **others)


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
    sizes = Counter(partition for group in view.homes for partition in view.list_commits(group))
    marks = [*_draw_cells(view, count, sizes), *_draw_dots(view), *_draw_formula(view, count)]
    line = view.tell()
    text = [f"step {view.step + 1}, {_STEPS[view.step]}", f"above, about {view.followed}: {line.text}"]
    text += [f"of all groups, {outcome}: {size}" for outcome, size in view.count_outcomes()]
    text += [f"{group}: {view.describe(group)}" for group in view.named]
    text.append("commits in each partition, from 0 on = " + " ".join(str(sizes[number]) for number in range(count)))
    marks += [*_draw_bar(view), *_draw_list(view), *_draw_commits(view)]
    return Scene(tuple(marks), _explain(view, sizes), tuple(text), lines=(line,))


def _find_place(partition: int) -> tuple[float, float]:
    row, column = divmod(partition, _COLUMNS)
    return _LEFT + column * _CELL_WIDTH, _TOP + row * _CELL_HEIGHT


def _draw_formula(view: _View, count: int) -> Iterator[Mark]:
    """The name of the group, its hash and the number of partitions give the partition in which brokers look."""
    name = _shorten(view.followed)
    words = f"hash {hash_group(view.followed)} % {count} ="
    x = _LEFT + measure_text(name, 12) + 14
    yield Box(f"formula {name}", _LEFT, 1, x - _LEFT - 4, 20, (name,), hue=view.followed, is_bold=True)
    x += measure_text(words, 12) + 12
    yield Label("hash", x - 5, 15, words, "end")
    yield Box("home", x, 1, 30, 20, (str(view.homes[view.followed][-1]),), Tone.NEW, 13, is_bold=True, delay=-0.5)
    left, top = _find_place(view.homes[view.followed][-1])
    yield Arrow(f"line {top} {left}", x + 15, 22, left + 20, top - 1, Tone.NEW, is_dashed=True, delay=_DELAY)


def _draw_cells(view: _View, count: int, sizes: Mapping[int, int]) -> Iterator[Mark]:
    home = view.homes[view.followed][-1]
    x, y = _find_place(home)
    frame = (x - 1, y - 1, _CELL_WIDTH, _CELL_HEIGHT)
    is_around = view.found is not None and view.coordinator == 1
    if is_around:
        frame = (_LEFT - 2, _TOP - 2, _COLUMNS * _CELL_WIDTH + 2, -(-count // _COLUMNS) * _CELL_HEIGHT + 2)
    told = {*view.list_commits(view.followed), home}
    numbers = []
    cells: list[Mark] = []
    for partition in range(count):
        x, y = _find_place(partition)
        style: dict[str, Any] = {"tone": Tone.MUTED, "is_faint": partition not in told}
        numbers.append(Label(f"number {partition}", x + 3, y + 11, str(partition), size=11, **style))
        style = {"tone": Tone.MUTED, "is_dashed": partition >= _COUNTS[0] and not sizes[partition]}
        cells.append(Box(f"cell {partition}", x, y, _CELL_WIDTH - 2, _CELL_HEIGHT - 2, **style))
    # Above its cell, or below all cells, and always below what they contain.
    place = "all" if is_around else str(home)
    cells.insert(0 if is_around else count, Box(f"look {place}", *frame, tone=Tone.NEW, origin="home", delay=_DELAY))
    yield from (*cells, *numbers)


def _draw_dots(view: _View) -> Iterator[Mark]:
    """Each commit of another group is a pale dot, and stays where it is."""
    placed: Counter[int] = Counter()
    own = {*view.list_commits(view.followed), view.homes[view.followed][-1]}
    for group in view.homes:
        for partition in view.list_commits(group) if group != view.followed else ():
            x, y = _find_place(partition)
            row, column = divmod(placed[partition], 5)
            frame = (x + 4 + column * 7, y + 15 + row * 6, 4, 4)
            yield Box(f"dot {group} {partition}", *frame, tone=Tone.MUTED, is_solid=True, is_faint=partition not in own)
            placed[partition] += 1


def _draw_commits(view: _View) -> Iterator[Mark]:
    """The question of the group that the reader follows goes to a partition, and its answer comes back."""
    group = view.followed
    *_, home = view.homes[group]
    answer = view.find_answer()
    delay = _END * (view.step in (1, 4))
    x, y = _find_place(home if answer is None else answer)
    if view.found is not None:
        style: dict[str, Any] = {"tone": Tone.ERROR if view.is_wrong(group) else Tone.LIVE, "is_bold": True}
        frame = (x + 3, y + 22, _CELL_WIDTH - 8, 15)
        yield Box("question", *frame, ("?",), size=13, hue=group, origin="home", delay=delay)
        if answer is None:
            yield Box("nothing", *frame, ("✗",), size=13, delay=delay, **style)
        words = view.describe(group)
        origin = "nothing" if answer is None else f"commit {answer}"
        style |= {"origin": origin, "delay": delay + _ANSWERED}
        yield Box("answer", _PANEL_LEFT - 3, 1, measure_text(words, 12) + 14, 20, (words,), **style)
    for partition, offset in view.list_commits(group).items():
        x, y = _find_place(partition)
        is_old = partition not in (home, answer)
        style = {"size": 13, "is_bold": True, "is_dashed": is_old, "is_hollow": is_old, "delay": delay}
        if partition == answer:
            style["tone"] = Tone.ERROR if view.is_wrong(group) else Tone.LIVE
        if is_old:
            # Below the cells, where the last row is not full.
            words = f"left behind: {offset} in partition {partition}"
            place = (_PANEL_LEFT - 9, _TOP + 6 * _CELL_HEIGHT + 25, words, "end", Tone.WAIT)
            yield Label(f"behind {partition}", *place, is_bold=True, delay=delay)
        origin = "home" if view.step == 0 else f"list {group}"
        yield Box(
            f"commit {partition}", x + 3, y + 22, _CELL_WIDTH - 8, 15, (str(offset),), hue=group, origin=origin, **style
        )


def _draw_list(view: _View) -> Iterator[Mark]:
    """The reader chooses a group here."""
    delay = _END * (view.step in (1, 4)) + _ANSWERED * (view.found is not None)
    for number, group in enumerate(view.named):
        y = _TOP + 10 + number * min(36, _PANEL_HEIGHT / len(view.named))
        is_followed = group == view.followed
        tone = Tone.NEW if is_followed else Tone.PAGE
        yield Box(f"row {group}", _PANEL_LEFT - 3, y - 12, 128, 35, tone=tone, choice=("follow", number))
        yield Box(f"list {group}", _PANEL_LEFT, y - 9, 10, 10, hue=group, is_solid=True)
        yield Label(f"name {group}", _PANEL_LEFT + 14, y, _shorten(group), is_bold=is_followed)
        tone = Tone.MUTED
        if view.found is not None:
            tone = Tone.ERROR if view.is_wrong(group) else Tone.LIVE
        words = view.describe(group)
        yield Label(f"words {group}", _PANEL_LEFT + 14, y + 16, words, tone=tone, size=11, delay=delay)


def _draw_bar(view: _View) -> Iterator[Mark]:
    """A bar of all groups says how many of them find what they have committed."""
    x = float(_LEFT)
    sizes = dict(view.count_outcomes())
    for outcome, tone in _OUTCOMES.items():
        size = sizes.get(outcome, 0)
        width = (WIDTH - 2 * _LEFT) * size / len(view.homes)
        words = (f"{size} {outcome}" if width > 78 else str(size),) * (width > 12)
        if size:
            style: dict[str, Any] = {"delay": 0.55, "is_bold": True, "short": "".join(words).partition(" ")[0]}
            yield Box(f"all {outcome} {size}", x, _BAR_TOP, width, 20, words, tone, **style)
        x += width


def _shorten(group: str) -> str:
    return group if len(group) <= _NAME_LENGTH else f"{group[: _NAME_LENGTH - 1]}…"


def _explain(view: _View, sizes: Mapping[int, int]) -> str:
    captions = dict(enumerate(_CAPTIONS)) | (_OLD_CAPTIONS if view.coordinator else {})
    answers = Counter((view.found or {}).values())
    homes = view.homes.values()
    counts = {"old": answers[50], "new": answers[60], "nothing": answers[None], "total": len(homes)}
    counts |= {"size": max(sizes.values()), "empty": _COUNTS[0] - len(sizes)}
    counts |= {"hottest": max(sizes, key=lambda partition: sizes[partition])}
    counts |= {"moved": sum(home[-1] != home[-2:][0] for home in homes)}
    return captions[view.step].format(returned=sum(home[-1] == home[0] != home[-2:][0] for home in homes), **counts)
