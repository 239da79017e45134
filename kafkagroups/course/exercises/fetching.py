"""Exercises of lesson 05: the error and the offsets of an OffsetFetch, the end of an epoch.

An epoch is the time in which one broker is the leader of a partition. Each new leader gets a larger epoch number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkagroups.coordinator import (
    Clock,
    DiskLogs,
    GroupCoordinator,
    offset_for_leader_epoch,
)
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_lines import parse_partition
from kafkagroups.groups.offsets import OffsetAndMetadata
from kafkagroups.log.partitioning import partition_for

CommittedOffsets = Mapping[str, int]
"""The keys are partitions such as "orders-0", and the values are committed offsets."""
FetchedOffsets = dict[str, int | str]
"""The keys are the partitions in an answer. The value of a partition is its offset, or the name of an error."""
WhoAnswers = Callable[[str, Collection[int], Collection[int]], str]
"""A function that a learner writes for the exercise `who_answers`.

The arguments are a group id, the partitions of the offsets topic that the broker owns (it is the coordinator of their
groups), and the partitions that the broker still loads. The result is the name of the error in the answer.
"""
GetOffsets = Callable[[CommittedOffsets, Collection[str], str | Sequence[str], bool], FetchedOffsets]
"""A function that a learner writes for the exercise `get_offsets`.

The arguments are the committed offsets, the partitions with a pending commit, the partitions that the request asks for
(or "all"), and the value of requireStable.
"""
EndOfEpoch = Callable[[Sequence[tuple[int, int]], int, int], int]
"""A function that a learner writes for the exercise `end_of_epoch`.

The arguments are the epochs in ascending order, each with its first offset, then the offset at which the log ends, and
the epoch to find. The result is the offset at which this epoch ends, or -1.
"""
UNSTABLE = Errors.UNSTABLE_OFFSET_COMMIT.name


def _new_broker() -> GroupCoordinator:
    return GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)


# Exercise `who_answers`: first the correct function, then wrong functions that learners write.


def _find_fetch_error(group: str, owned: Collection[int], loading: Collection[int]) -> str:
    broker = _new_broker()
    broker.manager.owned = set(owned)
    broker.manager.loading = set(loading)
    return broker.offset_fetch(group).error.name


def _make_wrong_who_answers(
    find_partition: Callable[[str], int], *, checks_loading: bool = True, has_loading_error: bool = True
) -> WhoAnswers:
    """Return a function for `who_answers` with another hash, or with a mistake about partitions that are being loaded.

    `find_partition` returns the partition of a group id.
    """

    def who_answers(group: str, owned: Collection[int], loading: Collection[int]) -> str:
        partition = find_partition(group)
        if checks_loading and partition in loading:
            return "COORDINATOR_LOAD_IN_PROGRESS" if has_loading_error else "NOT_COORDINATOR"
        return "NONE" if partition in owned else "NOT_COORDINATOR"

    return who_answers


def _find_partition(group: str) -> int:
    return partition_for(group, 50)


def _find_partition_with_other_hash(group: str) -> int:
    """Return a partition by a hash that differs from Java's hash."""
    return sum(group.encode()) % 50


def _block_every_group_while_loading(group: str, owned: Collection[int], loading: Collection[int]) -> str:
    return "COORDINATOR_LOAD_IN_PROGRESS" if loading else _find_fetch_error(group, owned, loading)


# Exercise `get_offsets`: first the correct function, then wrong functions that learners write.


def _fetch_offsets(
    committed: CommittedOffsets, pending: Collection[str], asked: str | Sequence[str], stable: bool
) -> FetchedOffsets:
    broker = _new_broker()
    broker.manager.owned = {broker.manager.partition_for("g")}
    group = broker.manager.get_or_create("g")
    group.offsets.committed = {parse_partition(name): _make_commit(offset) for name, offset in committed.items()}
    group.offsets.pending = {parse_partition(name): _make_commit(0) for name in pending}
    partitions = None if asked == "all" else [parse_partition(name) for name in asked]
    fetched = broker.offset_fetch("g", partitions, require_stable=stable).offsets
    return {
        str(partition): answer.error.name if answer.error else answer.offset for partition, answer in fetched.items()
    }


def _make_commit(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", 0, -1, None, None, 0, 0)


def _make_wrong_get_offsets(mistake: str) -> GetOffsets:
    """Return a function for `get_offsets` that makes one mistake. `mistake` is one of the texts that it compares."""

    def get_offsets(
        committed: CommittedOffsets, pending: Collection[str], asked: str | Sequence[str], stable: bool
    ) -> FetchedOffsets:
        all_names = {**committed, **dict.fromkeys(pending, -1)} if mistake == "lists pending" else committed
        answers: FetchedOffsets = {}
        for name in all_names if asked == "all" else asked:
            is_unstable = (stable or mistake == "always stable") and name in pending
            if is_unstable and not (mistake == "returns older offset" and name in committed):
                answers[name] = UNSTABLE
            elif name in committed:
                answers[name] = committed[name]
            elif mistake != "leaves out unknown":
                answers[name] = "UNKNOWN_TOPIC_OR_PARTITION" if mistake == "error for unknown" else -1
        if mistake == "one unstable makes all unstable" and UNSTABLE in answers.values():
            answers = dict.fromkeys(answers, UNSTABLE)
        return answers

    return get_offsets


# Exercise `end_of_epoch`: first the correct function, then wrong functions that learners write.


def _find_end_of_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> int:
    return offset_for_leader_epoch(epochs, log_end, epoch)[1]


def _make_wrong_end_of_epoch(mistake: str) -> EndOfEpoch:
    """Return a function for `end_of_epoch` that makes one mistake. `mistake` is one of the texts that it compares."""

    def end_of_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> int:
        starts = dict(epochs)
        if mistake == "returns the start":
            return starts.get(epoch, _find_end_of_epoch(epochs, log_end, epoch))
        if mistake == "newer epoch ends at log end" and epoch > max(starts):
            return log_end
        if mistake == "unlisted epoch has no end" and epoch not in starts:
            return -1
        if mistake == "older epoch has no end" and epoch < min(starts):
            return -1
        if mistake == "next epoch is one larger" and epoch in starts:
            return starts.get(epoch + 1, log_end)
        end = _find_end_of_epoch(epochs, log_end, epoch)
        if mistake == "returns the last record" and end > 0:
            return end - 1
        return end

    return end_of_epoch


WHO_ANSWERS = """\
def who_answers(group, owned, loading):
    partition = kg.partition_for(group, 50)
    if partition in loading:
        return "COORDINATOR_LOAD_IN_PROGRESS"
    if partition not in owned:
        return "NOT_COORDINATOR"
    return "NONE\""""

GET_OFFSETS = """\
def get_offsets(committed, pending, asked, stable):
    answers = {}
    for name in committed if asked == "all" else asked:
        if stable and name in pending:
            answers[name] = "UNSTABLE_OFFSET_COMMIT"
        else:
            answers[name] = committed.get(name, -1)
    return answers"""

END_OF_EPOCH = """\
def end_of_epoch(epochs, log_end, epoch):
    if epoch == epochs[-1][0]:
        return log_end                             # the newest epoch has not ended
    for next_epoch, start in epochs:
        if next_epoch > epoch:
            return start                           # an epoch ends where the next epoch begins
    return -1                                      # this leader does not know the epoch"""

_SHOP = {"orders-0": 50, "orders-1": 51}

EXERCISES = (
    Exercise(
        "who_answers",
        _find_fetch_error,
        WHO_ANSWERS,
        (
            "kg.partition_for(group, 50) is the partition of the group: check whether this partition is in the sets.",
            "A partition that is being loaded is not owned yet. Check `loading` first.",
        ),
        cases=(
            ("billing", {9, 38}, set()),
            ("billing", {38}, set()),
            ("dashboard", {9}, {38}),
            ("café-☕", {21}, {9}),
            ("mailer", set(), {9}),
            ("shipping", {8}, {8}),
        ),
        known_mistakes={
            "check `loading` first: a partition that is being loaded is not owned yet": _make_wrong_who_answers(
                _find_partition, checks_loading=False
            ),
            "a partition that is being loaded has its own error: the client must not look for another broker": (
                _make_wrong_who_answers(_find_partition, has_loading_error=False)
            ),
            "use Java's hash of the name, as in lesson 02: kg.partition_for(group, 50)": _make_wrong_who_answers(
                _find_partition_with_other_hash
            ),
            "a partition that is being loaded does not stop the other partitions": _block_every_group_while_loading,
        },
    ),
    Exercise(
        "get_offsets",
        _fetch_offsets,
        GET_OFFSETS,
        (
            'Which partitions are in the answer? All of `committed` if asked == "all", otherwise `asked`.',
            "A partition is unstable if `stable` is true and `pending` has it. Otherwise return its offset, or -1.",
        ),
        cases=(
            (_SHOP, set(), ["orders-0"], False),
            (_SHOP, set(), ["orders-0", "orders-2"], False),
            (_SHOP, set(), "all", True),
            (_SHOP, {"orders-1"}, "all", False),
            (_SHOP, {"orders-1"}, "all", True),
            (_SHOP, {"orders-2"}, "all", True),
            (_SHOP, {"orders-2"}, ["orders-0", "orders-2"], True),
            ({}, set(), ["orders-0"], True),
            ({}, {"orders-0"}, "all", True),
        ),
        known_mistakes={
            "without requireStable, a client gets the committed offset": _make_wrong_get_offsets("always stable"),
            "with requireStable, the committed offset is not returned while a newer offset is pending": (
                _make_wrong_get_offsets("returns older offset")
            ),
            "a fetch of all offsets does not list a partition that is only pending": _make_wrong_get_offsets(
                "lists pending"
            ),
            "the answer contains every partition of `asked`, with -1 if it has no offset": _make_wrong_get_offsets(
                "leaves out unknown"
            ),
            "a partition without an offset is not an error: return -1": _make_wrong_get_offsets("error for unknown"),
            "one unstable partition does not make other partitions unstable": _make_wrong_get_offsets(
                "one unstable makes all unstable"
            ),
        },
    ),
    Exercise(
        "end_of_epoch",
        _find_end_of_epoch,
        END_OF_EPOCH,
        (
            "The newest epoch ends where the log ends.",
            "An older epoch ends where the next larger epoch in the list starts, even if it has no records.",
            "The leader does not know an epoch that is larger than its newest epoch: -1.",
        ),
        cases=(
            ([(0, 0), (3, 20), (4, 40)], 60, 4),
            ([(0, 0), (3, 20), (4, 40)], 60, 3),
            ([(0, 0), (3, 20), (4, 40)], 60, 0),
            ([(0, 0), (3, 20), (4, 40)], 60, 1),
            ([(0, 0), (3, 20), (4, 40)], 60, 5),
            ([(3, 20), (4, 40)], 60, 1),
        ),
        known_mistakes={
            "that is where the epoch begins": _make_wrong_end_of_epoch("returns the start"),
            "an epoch that this leader does not know has no end: -1": _make_wrong_end_of_epoch(
                "newer epoch ends at log end"
            ),
            "an epoch without records ends where the next epoch starts": _make_wrong_end_of_epoch(
                "unlisted epoch has no end"
            ),
            "the number of the next epoch may be larger by more than one": _make_wrong_end_of_epoch(
                "next epoch is one larger"
            ),
            "the end is the offset after the last record": _make_wrong_end_of_epoch("returns the last record"),
            "an epoch older than all epochs in the list ends where the first epoch begins": _make_wrong_end_of_epoch(
                "older epoch has no end"
            ),
        },
    ),
)
