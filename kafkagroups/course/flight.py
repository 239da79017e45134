"""Commits in flight, step by step: what stands in pending, log and cache, who is answered, what a crash would leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

import ipywidgets as widgets

from kafkagroups.coordinator import (
    Answer,
    DiskLogs,
    Errors,
    GroupCoordinator,
    HeldLogs,
    NewBatch,
    OffsetCommit,
    TopicPartition,
)
from kafkagroups.coordinator.logs import Appended
from kafkagroups.coordinator.results import CommitErrors
from kafkagroups.course.broker import coordinator, follower
from kafkagroups.course.folders import make_scratch_folder
from kafkagroups.course.log_lines import read_batch_lines
from kafkagroups.course.widgets import MONO, Stepper
from kafkagroups.errors import UsageError

GROUP, PARTITION, PRODUCER = "dashboard", TopicPartition("orders", 0), 7
Commits = dict[int, Answer[CommitErrors]]
_VERBS = ("commit", "txn", "refuse", "confirm", "cache", "answer", "late")


class Places(NamedTuple):
    """Where offsets of one partition stand: on their way, in the log, in the cache; what a stable fetch answers."""

    pending: str
    log: str
    cache: str
    stable: str
    answers: str


class Moment(NamedTuple):
    """One step: what happened, where the offsets stand, what the next broker answers if this one dies now.

    `whole` if the next broker has all of the log, `confirmed` if it has what the replicas had for certain;
    `next_broker` says both, and what waits there for a marker: "6", "6 or 5", "5, waits: 6?".
    """

    what: str
    places: Places
    whole: str
    confirmed: str
    next_broker: str


@dataclass
class _Watched(HeldLogs):
    """Held logs that say when something is about to be appended."""

    before: Callable[[], None] = field(default=lambda: None)

    def append(self, partition: int, batch: NewBatch, appended: Appended) -> None:
        self.before()
        super().append(partition, batch, appended)


def _places(broker: GroupCoordinator, group: str, partition: TopicPartition, commits: Commits | None = None) -> Places:
    """Where the group's offsets for that partition stand now. `commits`: those whose answers are to be told."""
    found = broker.manager.get_group(group)
    pending = []
    if found is not None and partition in found.offsets.pending:
        pending.append(str(found.offsets.pending[partition].offset))
    pending += _waiting(broker, group, partition)
    stable = broker.offset_fetch(group, [partition], require_stable=True).offsets[partition]
    return Places(
        ", ".join(pending) or "–",
        " ".join(_log(broker, group, partition)) or "–",
        _answer(broker, group, partition),
        stable.error.name if stable.error else _told(stable.offset),
        ", ".join(f"{offset}: {_said(answer, partition)}" for offset, answer in (commits or {}).items()) or "–",
    )


def _waiting(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    """What waits for the marker of a transaction."""
    found = broker.manager.get_group(group)
    transactions = found.offsets.transactions.values() if found is not None else ()
    return [f"{waiting[partition].offset}?" for waiting in transactions if partition in waiting]


def look(broker: GroupCoordinator, group: str, partition: TopicPartition) -> None:
    """Prints where the group's offsets for that partition stand now."""
    now = _places(broker, group, partition)
    print(f"pending {now.pending}   log {now.log}   cache {now.cache}   stable fetch {now.stable}")


def _log(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    told = []
    for batch in broker.manager.logs.read(broker.manager.partition_for(group)):
        for line in read_batch_lines(batch):
            if line.about in ("commit", "abort"):
                told.append(f"{line.about}!")
            elif line.group == group and line.partition == str(partition):
                told.append(f"{line.value}" + ("" if line.producer is None else "?"))
    return told


def _answer(broker: GroupCoordinator, group: str, partition: TopicPartition) -> str:
    return _told(broker.offset_fetch(group, [partition]).offsets[partition].offset)


def _told(offset: int) -> str:
    return "–" if offset == -1 else str(offset)


def _said(answer: Answer[CommitErrors], partition: TopicPartition) -> str:
    return answer.value[partition].name if answer.done else "waits"


class Flight(Stepper):
    """Steps through a script of commits of `dashboard` for orders-0; each word is what happens next:

    "commit 6" (it arrives, and reaches the log), "txn 6" (the same in a transaction), "refuse 6" (it arrives, and the
    log refuses it), "confirm 6" (the replicas have it, and the client hears so), "cache 6" and "answer 6" (the same in
    two steps), "late 6" (the replicas do not have it in time: REQUEST_TIMED_OUT), "marker" and "abort" (the
    transaction ends). UsageError for another word, or one that cannot happen now.
    """

    def __init__(self, *script: str, kafka: str = "3.9.2") -> None:
        self.logs = _Watched(DiskLogs(make_scratch_folder()))
        self.broker = coordinator(self.logs, kafka)
        self.commits: Commits = {}
        self.waiting: list[int] = []
        self.unheard: set[int] = set()
        self.end = 0
        self.moments: list[Moment] = []
        for word in script:
            self._play(word)
        if not self.moments:
            raise UsageError('a script was expected, as Flight("commit 5", "confirm 5")')
        self.step = widgets.SelectionSlider(
            options=[(str(number), number - 1) for number in range(1, len(self.moments) + 1)],
            description="step",
            layout=widgets.Layout(width="420px"),
        )
        super().__init__(self.step, len(self.moments), "step")

    def _play(self, word: str) -> None:
        verb, _, number = word.partition(" ")
        if verb in ("marker", "abort") and not number:
            return self._end_transaction(commits=verb == "marker")
        if verb not in _VERBS or not number.isdigit():
            words = ", ".join(f'"{each} 6"' for each in _VERBS)
            raise UsageError(f'{words}, "marker" or "abort", not {word!r}')
        offset = int(number)
        if verb == "answer":
            return self._heard(offset)
        if verb in ("confirm", "cache", "late"):
            if offset not in self.waiting:
                raise UsageError(f"{word}: {offset} is not in flight")
            if verb == "cache":
                self.unheard.add(offset)
            return self._answered(offset, Errors.REQUEST_TIMED_OUT if verb == "late" else Errors.NONE)
        return self._commit(offset, verb)

    def _commit(self, offset: int, verb: str) -> None:
        if offset in self.commits:
            raise UsageError(f"{verb} {offset}: each commit needs an offset of its own")
        self.logs.refuses = Errors.NOT_ENOUGH_REPLICAS if verb == "refuse" else Errors.NONE
        self.logs.before = lambda: self._note(f"{offset} checked, prepared", offset)
        stored = {PARTITION: OffsetCommit(offset)}
        if verb == "txn":
            answer = self.broker.txn_offset_commit(
                GROUP, stored, transactional_id="till", producer_id=PRODUCER, producer_epoch=0
            )
        else:
            answer = self.broker.offset_commit(GROUP, stored)
        self.commits[offset] = answer
        self.waiting.append(offset)
        if verb == "refuse":
            self._answered(offset, Errors.NONE, f"the log refuses {offset}")
        else:
            self._note(f"{offset} appended, in flight")

    def _answered(self, offset: int, error: Errors, what: str = "") -> None:
        number = self.waiting.index(offset)
        first = self.logs.held[number][1]
        self.waiting.pop(number)
        self.logs.release(number, error)
        if not what and error is Errors.NONE:
            self.end = max(self.end, first + 1)  # whoever has this record has all before it
        if offset in self.unheard:
            cached = _answer(self.broker, GROUP, PARTITION) == str(offset)
            return self._note(f"{offset} confirmed" + ", cached" * cached)
        answer = self.commits[offset].value[PARTITION].name
        return self._note(f"{what or (f'{offset} confirmed' if error is Errors.NONE else f'{offset} late')}: {answer}")

    def _heard(self, offset: int) -> None:
        if offset not in self.unheard:
            raise UsageError(f"answer {offset}: no answer to {offset} is on its way")
        self.unheard.remove(offset)
        self._note(f"{offset} answered: {self.commits[offset].value[PARTITION].name}")

    def _end_transaction(self, *, commits: bool) -> None:
        if self.waiting:
            raise UsageError(f"a transaction ends when its commits are answered; {self.waiting} are in flight")
        home, logs = self.broker.manager.partition_for(GROUP), self.logs.logs
        assert isinstance(logs, DiskLogs)
        at = logs.append_marker(home, PRODUCER, 0, commits=commits, timestamp=self.broker.clock.now_ms)
        self.end = at + 1
        self.broker.transaction_completed(PRODUCER, [home], commits=commits)
        self._note("transaction commits" if commits else "transaction aborts")

    def _note(self, what: str, new: int | None = None) -> None:
        silent = self.unheard if new is None else {*self.unheard, new}
        commits = {**self.commits, **{offset: Answer() for offset in silent}}
        now = _places(self.broker, GROUP, PARTITION, commits)
        heirs = [follower(self.broker, GROUP, end) for end in (None, self.end)]
        whole, confirmed = (_answer(heir, GROUP, PARTITION) for heir in heirs)
        both = _either(whole, confirmed)
        waits = [", ".join(_waiting(heir, GROUP, PARTITION)) for heir in heirs]
        if any(waits):
            both += f", waits: {_either(*waits)}"
        self.moments.append(Moment(what, now, whole, confirmed, both))

    def _draw(self) -> None:
        self.view.value = _html(self._now())

    def _now(self) -> list[str]:
        number = self.step.value
        at = self.moments[number]
        died = at.next_broker + (", if the record had not reached it" if " or " in at.next_broker else "")
        table = [f"{'▶' if row == number + 1 else ' '} {line}" for row, line in enumerate(self._all())]
        return [
            f"step {number + 1} of {len(self.moments)}: {at.what}",
            "",
            *table,
            "",
            f"the clients hear                     {at.places.answers}",
            f"a fetch is answered                  {at.places.cache}",
            f"a fetch with requireStable           {at.places.stable}",
            f"this broker dies: the next answers   {died}",
        ]

    def _all(self) -> list[str]:
        rows = [("step", "pending", "log", "cache", "stable fetch", "next broker")]
        for number, at in enumerate(self.moments, 1):
            stable = "UNSTABLE" if at.places.stable.startswith("UNSTABLE") else at.places.stable
            rows.append(
                (f"{number} {at.what}", at.places.pending, at.places.log, at.places.cache, stable, at.next_broker)
            )
        widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
        return ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def static_html(self) -> str:
        return _html(self._all())

    def static_text(self) -> str:
        return "\n".join(self._all())


def _either(whole: str, confirmed: str) -> str:
    return " or ".join(dict.fromkeys(each or "–" for each in (whole, confirmed)))


def _html(lines: list[str]) -> str:
    return f'<div class="kg-flight" style="{MONO}">{escape(chr(10).join(lines))}</div>'
