"""Lesson 04: the steps of commits, from a script, and the result of a crash at each step.

A commit is pending until the replicas have its record, or in a transaction until the transaction ends. It is in flight
from the append of its record until the replicas have it. "The next broker" becomes the group's coordinator after a
crash of this broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkagroups.coordinator import DiskLogs, Errors, HeldLogs, NewBatch, OffsetCommit, ResponseFuture, TopicPartition
from kafkagroups.coordinator.logs import AppendCallback
from kafkagroups.coordinator.messages import CommitErrors
from kafkagroups.course.broker import end_transaction, start_broker, start_follower
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.offset_places import (
    OffsetPlaces,
    list_transactional_offsets,
    read_cached_offset,
    read_offset_places,
)
from kafkagroups.errors import UsageError

GROUP = "dashboard"
PARTITION = TopicPartition("orders", 0)
# The producer id of the transactions.
PRODUCER_ID = 7
_ACTIONS_WITH_OFFSET = ("commit", "txn", "refuse", "confirm", "cache", "answer", "late")
_ACTIONS_WITHOUT_OFFSET = ("marker", "abort")


class CommitStep(NamedTuple):
    """One step of a commit, and what the next broker would answer to an OffsetFetch after a crash.

    The next broker has the whole log, or only the records that the replicas confirmed. "–" means no offset.
    `next_answers` has both, for example "6 or 5", and the offsets that still wait for the end of their transaction: "5,
    waits: 6?".
    """

    description: str
    places: OffsetPlaces
    answer_from_whole_log: str
    answer_from_confirmed_log: str
    next_answers: str


@dataclass
class _ObservedLogs(HeldLogs):
    """Logs that call `before_append` before each append, and hold back the answer to the append (`HeldLogs`)."""

    before_append: Callable[[], None] = field(default=lambda: None)

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        self.before_append()
        super().append(partition, batch, callback)


class CommitScript:
    """The steps of commits of the group `dashboard` for orders-0.

    The number in an action is the committed offset:

    - "commit 6": a commit of offset 6 arrives, and its record is appended to the log.
    - "txn 6": as "commit 6", but the commit is in a transaction.
    - "refuse 6": a commit of offset 6 arrives, but the append to the log fails.
    - "confirm 6": the replicas have the record, and the client receives the response.
    - "cache 6", then "answer 6": as "confirm 6", but the response comes in a second step.
    - "late 6": the replicas do not have the record in time. The client receives the error REQUEST_TIMED_OUT.
    - "marker" or "abort": the transaction ends with a commit marker or an abort marker.

    Raises UsageError if an action is unknown, or is impossible at this point of the script.
    """

    def __init__(self, *script: str, kafka: str = "3.9.2") -> None:
        self.logs = _ObservedLogs(DiskLogs(make_scratch_folder()))
        self.broker = start_broker(self.logs, kafka)
        # The responses to the commits. The keys are the committed offsets.
        self.response_by_offset: dict[int, ResponseFuture[CommitErrors]] = {}
        # The offsets of the commits that the replicas have not confirmed, in the order of `self.logs.held_appends`.
        self.unconfirmed: list[int] = []
        # The offsets of the commits after their "cache" action and before their "answer" action.
        self.unanswered: set[int] = set()
        # The replicas have all records whose offset in the log is below this offset.
        self.confirmed_end = 0
        self.steps: list[CommitStep] = []
        for action in script:
            self._play(action)
        if not self.steps:
            raise UsageError('CommitScript: expected a script, for example CommitScript("commit 5", "confirm 5")')

    def read_last_offsets(self) -> tuple[int, int]:
        """Return what this broker answers after the last step, and what the next broker with the whole log answers.

        Raises ValueError if one of them has no offset.
        """
        last = self.steps[-1]
        return int(last.places.cache), int(last.answer_from_whole_log)

    def _play(self, action: str) -> None:
        name, _, number = action.partition(" ")
        if name in _ACTIONS_WITHOUT_OFFSET and not number:
            self._end_transaction(commits=name == "marker")
            return
        if name not in _ACTIONS_WITH_OFFSET or not number.isdigit():
            known_actions = ", ".join(f'"{known_name} 6"' for known_name in _ACTIONS_WITH_OFFSET)
            raise UsageError(f'CommitScript: expected {known_actions}, "marker" or "abort", found {action!r}')
        offset = int(number)
        if name == "answer":
            self._answer(offset)
        elif name in ("confirm", "cache", "late"):
            if offset not in self.unconfirmed:
                raise UsageError(
                    f'{action}: offset {offset} is not in flight; add "commit {offset}" before this action'
                )
            if name == "cache":
                self.unanswered.add(offset)
            self._confirm(offset, Errors.REQUEST_TIMED_OUT if name == "late" else Errors.NONE)
        else:
            self._commit(offset, name)

    def _commit(self, offset: int, name: str) -> None:
        if offset in self.response_by_offset:
            raise UsageError(f"{name} {offset}: the script already commits offset {offset}; use another offset")
        self.logs.append_error = Errors.NOT_ENOUGH_REPLICAS if name == "refuse" else Errors.NONE
        # The append of the commit adds this step just before it writes to the log.
        self.logs.before_append = lambda: self._add_step(f"{offset} checked, prepared", offset)
        offsets = {PARTITION: OffsetCommit(offset)}
        if name == "txn":
            self.response_by_offset[offset] = self.broker.txn_offset_commit(
                GROUP, offsets, transactional_id="till", producer_id=PRODUCER_ID, producer_epoch=0
            )
        else:
            self.response_by_offset[offset] = self.broker.offset_commit(GROUP, offsets)
        if name == "refuse":
            self._add_answer(f"the log refuses {offset}", offset)
        else:
            self.unconfirmed.append(offset)
            self._add_step(f"{offset} appended, in flight")

    def _add_answer(self, what: str, offset: int) -> None:
        self._add_step(f"{what}: {self.response_by_offset[offset].value[PARTITION].name}")

    def _confirm(self, offset: int, error: Errors) -> None:
        """End the append of a commit, with REQUEST_TIMED_OUT if the replicas do not have the record in time."""
        index = self.unconfirmed.index(offset)
        record_offset = self.logs.held_appends[index].offset
        self.unconfirmed.pop(index)
        self.logs.release(index, error)
        if error is Errors.NONE:
            # A replica that has this record also has all records before this record.
            self.confirmed_end = max(self.confirmed_end, record_offset + 1)
        if offset in self.unanswered:
            is_cached = read_cached_offset(self.broker, GROUP, PARTITION) == str(offset)
            self._add_step(f"{offset} confirmed, cached" if is_cached else f"{offset} confirmed")
            return
        self._add_answer(f"{offset} confirmed" if error is Errors.NONE else f"{offset} late", offset)

    def _answer(self, offset: int) -> None:
        if offset not in self.unanswered:
            raise UsageError(f'answer {offset}: the commit of {offset} is not cached yet; use "cache {offset}" first')
        self.unanswered.remove(offset)
        self._add_step(f"{offset} answered: {self.response_by_offset[offset].value[PARTITION].name}")

    def _end_transaction(self, *, commits: bool) -> None:
        if self.unconfirmed:
            raise UsageError(
                f"the transaction cannot end: the commits of {self.unconfirmed} are in flight; confirm them first"
            )
        end_transaction(self.broker, GROUP, PRODUCER_ID, commits=commits)
        log = self.logs.read(self.broker.manager.partition_for(GROUP))
        self.confirmed_end = max(batch.next_offset for batch in log)
        self._add_step("transaction commits" if commits else "transaction aborts")

    def _add_step(self, description: str, new_offset: int | None = None) -> None:
        """Add a step with the present state.

        `new_offset` is the offset of a commit that has begun, but is not in `self.response_by_offset` yet.
        """
        waiting_offsets = self.unanswered if new_offset is None else {*self.unanswered, new_offset}
        # A new future has no response, so these commits are shown as waiting.
        waiting_commits = {offset: ResponseFuture[CommitErrors]() for offset in waiting_offsets}
        places = read_offset_places(self.broker, GROUP, PARTITION, {**self.response_by_offset, **waiting_commits})
        # Both brokers could be the next broker.
        whole_log_broker = start_follower(self.broker, GROUP)
        confirmed_log_broker = start_follower(self.broker, GROUP, self.confirmed_end)
        whole_log_answer = read_cached_offset(whole_log_broker, GROUP, PARTITION)
        confirmed_log_answer = read_cached_offset(confirmed_log_broker, GROUP, PARTITION)
        next_answers = _join_different(whole_log_answer, confirmed_log_answer)
        waiting_texts = [
            ", ".join(list_transactional_offsets(broker, GROUP, PARTITION))
            for broker in (whole_log_broker, confirmed_log_broker)
        ]
        if any(waiting_texts):
            next_answers += f", waits: {_join_different(*waiting_texts)}"
        self.steps.append(CommitStep(description, places, whole_log_answer, confirmed_log_answer, next_answers))

    def print_steps(self) -> None:
        print("\n".join(self._format_table()))

    def _format_table(self) -> list[str]:
        rows = [("step", "pending", "log", "cache", "next broker")]
        for number, step in enumerate(self.steps, 1):
            places = step.places
            title = f"{number} {step.description}"
            rows.append((title, places.pending, places.log, places.cache, step.next_answers))
        widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
        return ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _join_different(*texts: str) -> str:
    return " or ".join(dict.fromkeys(text or "–" for text in texts))


def print_crash_outcomes() -> None:
    """Print what is left of a commit of 6, after one of 5, if the broker dies at different moments."""
    start = ("commit 5", "confirm 5")
    runs = {
        "checked": (CommitScript(*start, "commit 6"), -2),
        "appended": (CommitScript(*start, "commit 6"), -1),
        "refused by the log": (CommitScript(*start, "refuse 6"), -1),
        "appended, but too late": (CommitScript(*start, "commit 6", "late 6"), -1),
        "on the replicas": (CommitScript(*start, "commit 6", "cache 6"), -1),
        "answered": (CommitScript(*start, "commit 6", "confirm 6"), -1),
    }
    print(f"{'at the crash, 6 is':<25}{'fetch before':<15}{'answer to the commit':<28}fetch after the crash")
    for moment, (script, index) in runs.items():
        step = script.steps[index]
        answer = step.places.responses.rpartition("6: ")[2].replace("waits", "none yet")
        print(f"{moment:<25}{step.places.cache:<15}{answer:<28}{step.next_answers}")
