"""A coordinator that loads record by record: previous, next, or any record; what it then knows, beside the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from itertools import zip_longest

import ipywidgets as widgets

from kafkagroups.course.log_lines import Line, read_batch_lines
from kafkagroups.course.widgets import MONO, Stepper
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import Group
from kafkagroups.groups.loading import Cache, ClassicCache, NewCache
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import Fate, Observer
from kafkagroups.log.batch import Batch
from kafkagroups.log.segments import open_logs
from kafkagroups.records.versions import dialect

_WINDOW = 14
_LEFT = 46


class _Heard(Observer):
    def __init__(self) -> None:
        self.events: list[tuple[int, Fate, int]] = []

    def told(self, offset: int, fate: Fate, by: int) -> None:
        self.events.append((offset, fate, by))


@dataclass(frozen=True)
class Step:
    """One record of the log, what it did, and what the coordinator would know if the log ended here."""

    line: Line
    did: str
    state: tuple[str, ...]


def steps(path: str, coordinator: str, kafka: str | None) -> Iterator[Step]:
    """Loads the log up to each of its records anew: small logs only."""
    rules = dialect(coordinator, kafka)
    log = open_logs(path)[0]
    whole: list[Batch] = []
    known = 0
    for batch in log:
        for number, line in enumerate(read_batch_lines(batch), 1):
            heard = _Heard()
            cache: Cache = ClassicCache(rules, heard) if rules.coordinator == "classic" else NewCache(rules, heard)
            error = None
            try:
                cache.load(log.partition, [*whole, _cut(batch, number)])
            except (LoadFailed, BadBytes) as failure:
                error = failure.reason if isinstance(failure, BadBytes) else str(failure)
            state = tuple(_state(cache.groups.values(), error))
            did = _did(line, heard.events[known:], cache) if error is None else "the load fails"
            yield Step(line, did, state)
            known = len(heard.events)
        whole.append(batch)


def _cut(batch: Batch, records: int) -> Batch:
    """The batch with its first records only."""
    kept = batch.records[:records]
    return replace(batch, parse_records=lambda _: kept)


def _did(line: Line, events: list[tuple[int, Fate, int]], cache: Cache) -> str:
    gone = {offset: by for offset, fate, by in events if fate in (Fate.SUPERSEDED, Fate.DELETED)}
    if line.about in ("commit", "abort"):
        resolved = [offset for offset, fate, _ in events if fate in (Fate.WINS, Fate.ABORTED)]
        if not resolved:
            return "nothing was waiting"
        if line.about == "abort":
            return f"{_these(resolved)} will never count"
        said = [f"{offset} does not: {gone[offset]} is newer" for offset in resolved if offset in gone]
        won = [offset for offset in resolved if offset not in gone]
        place = _place(offset for offset in gone if offset not in resolved)
        return "; ".join([f"{_these(won)} now {'counts' if len(won) == 1 else 'count'}{place}"] * bool(won) + said)
    if line.about == "group" and line.group is not None:
        group = cache.groups.get(line.group)
        return "the group ends" if line.value is None or group is None else _members(group)
    if line.about != "offset":
        return "nothing"
    if line.value is None:
        return f"takes {_these(gone)} away" if gone else "takes nothing away"
    waiting = (offsets for group in cache.groups.values() for offsets in group.pending.values())
    waits = any(offset.record_offset == line.at for offsets in waiting for offset in offsets.values())
    return ("waits for its marker" if waits else "counts") + _place(gone)


def _members(group: AnyGroup) -> str:
    return "1 member" if len(group.members) == 1 else f"{len(group.members)} members"


def _place(offsets: Iterable[int]) -> str:
    there = _these(offsets)
    return f", in place of {there}" if there else ""


def _these(offsets: Iterable[int]) -> str:
    return " and ".join(map(str, sorted(offsets)))


def _state(groups: Iterable[AnyGroup], error: str | None) -> Iterator[str]:
    if error is not None:
        yield f"the load fails: {error}"
    for group in sorted(groups, key=lambda each: each.group_id):
        generation = f", generation {group.generation}" if isinstance(group, Group) and group.generation else ""
        yield f"{group.group_id}: {group.state.value}{generation}, {_members(group)}"
        for partition in sorted(group.offsets):
            offset = group.offsets[partition]
            yield f"  {partition!s:<12}{offset.offset:>3}  by {offset.record_offset}"
        for offsets in group.pending.values():
            for partition in sorted(offsets):
                offset = offsets[partition]
                yield f"  {partition!s:<12}{offset.offset:>3}  by {offset.record_offset}, waits"


class LoadStepper(Stepper):
    """Steps through a partition (of several the first) as a coordinator loads it, from record `first` to `last`.

    Its static form tells what each of them did, and what the coordinator knows after record `at` (None: the last).
    """

    def __init__(
        self,
        path: str,
        coordinator: str = "classic",
        kafka: str | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        at: int | None = None,
    ) -> None:
        everything = steps(path, coordinator, kafka)
        self.steps = [s for s in everything if first <= s.line.at and (last is None or s.line.at <= last)]
        offsets = [step.line.at for step in self.steps]
        self.record = widgets.SelectionSlider(
            options=[(str(offset), index) for index, offset in enumerate(offsets)],
            value=offsets.index(at) if at in offsets else len(offsets) - 1,
            description="record",
            layout=widgets.Layout(width="420px"),
        )
        super().__init__(self.record, len(self.steps), "record")

    def _draw(self) -> None:
        self.view.value = _html(self._now())

    def _now(self) -> list[str]:
        """The record that is read, the log around it, and beside it what the coordinator knows."""
        here = self.record.value
        begin = max(0, min(here - _WINDOW // 2, len(self.steps) - _WINDOW))
        left = []
        for index in range(begin, min(begin + _WINDOW, len(self.steps))):
            mark = "▶" if index == here else " " if index < here else "·"
            left.append(f"{mark} {self.steps[index].line}")
        step = self.steps[here]
        first = [f"record {step.line.at}: {step.did}", ""]
        pairs = zip_longest(["the log", *left], ["the coordinator knows", *step.state], fillvalue="")
        return first + [f"{a:<{_LEFT}} │ {b}" for a, b in pairs]

    def _all(self) -> list[str]:
        told = [f"{step.line!s:<{_LEFT - 2}} → {step.did}" for step in self.steps]
        step = self.steps[self.record.value]
        return [*told, "", f"after record {step.line.at} the coordinator knows", *step.state]

    def static_html(self) -> str:
        return _html(self._all())

    def static_text(self) -> str:
        return "\n".join(self._all())


def _html(lines: list[str]) -> str:
    return f'<div class="kg-loader" style="{MONO}">{escape(chr(10).join(lines))}</div>'
