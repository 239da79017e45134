"""The widget that shows commits in flight, and what a crash at each step would leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

import ipywidgets as widgets

from kafkagroups.coordinator import DiskLogs, Errors, HeldLogs, NewBatch, OffsetCommit, ResponseFuture, TopicPartition
from kafkagroups.coordinator.logs import AppendCallback
from kafkagroups.coordinator.results import CommitErrors
from kafkagroups.course.broker import start_broker, start_follower
from kafkagroups.course.commit_places import Places, list_transactional, read_cached_offset, read_places
from kafkagroups.course.folders import make_scratch_folder
from kafkagroups.course.widgets import MONO, Stepper
from kafkagroups.errors import UsageError

GROUP = "dashboard"
PARTITION = TopicPartition("orders", 0)
PRODUCER = 7
_WORDS_WITH_OFFSET = ("commit", "txn", "refuse", "confirm", "cache", "answer", "late")
_WORDS_WITHOUT_OFFSET = ("marker", "abort")


class Moment(NamedTuple):
    """One step of the script.

    Attributes
    ----------
    what
        The step in words.
    places
        Where the offsets are after the step.
    whole
        The answer of the next broker if this one dies now and the next one has the whole log.
    confirmed
        Its answer if it has only what the replicas confirmed.
    next_broker
        Both answers, and the offsets that wait for a marker there: "6", "6 or 5", "5, waits: 6?".
    """

    what: str
    places: Places
    whole: str
    confirmed: str
    next_broker: str


@dataclass
class _WatchedLogs(HeldLogs):
    """Held logs that call `before_append` before each append."""

    before_append: Callable[[], None] = field(default=lambda: None)

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        self.before_append()
        super().append(partition, batch, callback)


class Flight(Stepper):
    """A widget that steps through commits of the group `dashboard` for orders-0.

    Parameters
    ----------
    *script
        The steps:

        - "commit 6": the commit arrives and reaches the log.
        - "txn 6": the same in a transaction.
        - "refuse 6": the commit arrives, and the log refuses it.
        - "confirm 6": the replicas have the commit, and the client gets its response.
        - "cache 6" and "answer 6": "confirm 6" in two steps.
        - "late 6": the replicas do not have the commit in time (REQUEST_TIMED_OUT).
        - "marker" and "abort": the transaction commits or aborts.
    kafka
        The coordinator's Kafka version.

    Raises
    ------
    UsageError
        If a step is unknown, or cannot happen at that point.
    """

    def __init__(self, *script: str, kafka: str = "3.9.2") -> None:
        self.logs = _WatchedLogs(DiskLogs(make_scratch_folder()))
        self.broker = start_broker(self.logs, kafka)
        self.commits: dict[int, ResponseFuture[CommitErrors]] = {}
        self.in_flight: list[int] = []
        self.unanswered: set[int] = set()
        self.confirmed_end = 0
        self.moments: list[Moment] = []
        for step in script:
            self._play(step)
        if not self.moments:
            raise UsageError('Flight: expected a script, for example Flight("commit 5", "confirm 5")')
        self.step = widgets.SelectionSlider(
            options=[(str(number), number - 1) for number in range(1, len(self.moments) + 1)],
            description="step",
            layout=widgets.Layout(width="420px"),
        )
        super().__init__(self.step, len(self.moments), "step")

    def _play(self, step: str) -> None:
        word, _, number = step.partition(" ")
        if word in _WORDS_WITHOUT_OFFSET and not number:
            self._end_transaction(commits=word == "marker")
            return
        if word not in _WORDS_WITH_OFFSET or not number.isdigit():
            words = ", ".join(f'"{each} 6"' for each in _WORDS_WITH_OFFSET)
            raise UsageError(f'expected {words}, "marker" or "abort", found {step!r}')
        offset = int(number)
        if word == "answer":
            self._answer(offset)
        elif word in ("confirm", "cache", "late"):
            if offset not in self.in_flight:
                raise UsageError(f"{step}: offset {offset} is not in flight; commit it first")
            if word == "cache":
                self.unanswered.add(offset)
            self._confirm(offset, Errors.REQUEST_TIMED_OUT if word == "late" else Errors.NONE)
        else:
            self._commit(offset, word)

    def _commit(self, offset: int, word: str) -> None:
        if offset in self.commits:
            raise UsageError(f"{word} {offset}: offset {offset} is committed already; use another offset")
        self.logs.append_error = Errors.NOT_ENOUGH_REPLICAS if word == "refuse" else Errors.NONE
        self.logs.before_append = lambda: self._add_moment(f"{offset} checked, prepared", offset)
        offsets = {PARTITION: OffsetCommit(offset)}
        if word == "txn":
            self.commits[offset] = self.broker.txn_offset_commit(
                GROUP, offsets, transactional_id="till", producer_id=PRODUCER, producer_epoch=0
            )
        else:
            self.commits[offset] = self.broker.offset_commit(GROUP, offsets)
        self.in_flight.append(offset)
        if word == "refuse":
            self._confirm(offset, Errors.NONE, f"the log refuses {offset}")
        else:
            self._add_moment(f"{offset} appended, in flight")

    def _confirm(self, offset: int, error: Errors, what: str = "") -> None:
        """Answer the append of a commit, with this error if it is not NONE."""
        number = self.in_flight.index(offset)
        first_offset = self.logs.held_appends[number].offset
        self.in_flight.pop(number)
        self.logs.release(number, error)
        if not what and error is Errors.NONE:
            # A replica that has this record has all records before it.
            self.confirmed_end = max(self.confirmed_end, first_offset + 1)
        if offset in self.unanswered:
            is_cached = read_cached_offset(self.broker, GROUP, PARTITION) == str(offset)
            self._add_moment(f"{offset} confirmed, cached" if is_cached else f"{offset} confirmed")
            return
        if not what:
            what = f"{offset} confirmed" if error is Errors.NONE else f"{offset} late"
        self._add_moment(f"{what}: {self.commits[offset].value[PARTITION].name}")

    def _answer(self, offset: int) -> None:
        if offset not in self.unanswered:
            raise UsageError(f'answer {offset}: no response to {offset} is on its way; use "cache {offset}" first')
        self.unanswered.remove(offset)
        self._add_moment(f"{offset} answered: {self.commits[offset].value[PARTITION].name}")

    def _end_transaction(self, *, commits: bool) -> None:
        if self.in_flight:
            raise UsageError(f"the transaction cannot end: {self.in_flight} are in flight; confirm them first")
        partition = self.broker.manager.partition_for(GROUP)
        logs = self.logs.logs
        assert isinstance(logs, DiskLogs)
        now_ms = self.broker.clock.now_ms
        marker_offset = logs.append_marker(partition, PRODUCER, 0, commits=commits, timestamp=now_ms)
        self.confirmed_end = marker_offset + 1
        self.broker.transaction_completed(PRODUCER, [partition], commits=commits)
        self._add_moment("transaction commits" if commits else "transaction aborts")

    def _add_moment(self, what: str, new_offset: int | None = None) -> None:
        """Add a moment. The commit `new_offset` is not in `commits` yet, and its client waits."""
        waiting = self.unanswered if new_offset is None else {*self.unanswered, new_offset}
        commits = {**self.commits, **{offset: ResponseFuture[CommitErrors]() for offset in waiting}}
        places = read_places(self.broker, GROUP, PARTITION, commits)
        followers = [start_follower(self.broker, GROUP, end) for end in (None, self.confirmed_end)]
        whole, confirmed = (read_cached_offset(follower, GROUP, PARTITION) for follower in followers)
        transactional = [", ".join(list_transactional(follower, GROUP, PARTITION)) for follower in followers]
        next_broker = _join_different(whole, confirmed)
        if any(transactional):
            next_broker += f", waits: {_join_different(*transactional)}"
        self.moments.append(Moment(what, places, whole, confirmed, next_broker))

    def _draw(self) -> None:
        self.view.value = _format_html(self._format_current())

    def _format_current(self) -> list[str]:
        number = self.step.value
        moment = self.moments[number]
        next_broker = moment.next_broker
        if " or " in next_broker:
            next_broker += ", if the record had not reached it"
        table = [f"{'▶' if row == number + 1 else ' '} {line}" for row, line in enumerate(self._format_table())]
        return [
            f"step {number + 1} of {len(self.moments)}: {moment.what}",
            "",
            *table,
            "",
            f"the clients receive                  {moment.places.responses}",
            f"a fetch is answered                  {moment.places.cache}",
            f"a fetch with requireStable           {moment.places.stable}",
            f"this broker dies: the next answers   {next_broker}",
        ]

    def _format_table(self) -> list[str]:
        rows = [("step", "pending", "log", "cache", "stable fetch", "next broker")]
        for number, moment in enumerate(self.moments, 1):
            places = moment.places
            stable = "UNSTABLE" if places.stable.startswith("UNSTABLE") else places.stable
            what = f"{number} {moment.what}"
            rows.append((what, places.pending, places.log, places.cache, stable, moment.next_broker))
        widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
        return ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def static_html(self) -> str:
        """Return the table of all steps as HTML, for a page without widgets."""
        return _format_html(self._format_table())

    def static_text(self) -> str:
        """Return the table of all steps as text."""
        return "\n".join(self._format_table())


def _join_different(whole: str, confirmed: str) -> str:
    """Return "6 or 5", or one of the two if they are equal."""
    return " or ".join(dict.fromkeys(each or "–" for each in (whole, confirmed)))


def _format_html(lines: list[str]) -> str:
    return f'<div class="kg-flight" style="{MONO}">{escape(chr(10).join(lines))}</div>'
