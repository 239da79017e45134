"""Exercises of lesson 05: the error of an OffsetFetch, the offsets of an OffsetFetch, and the end of an epoch.

A leader epoch is the time in which one broker is the leader of a partition. The epochs have ascending numbers.

The keys of `known_mistakes` are the corrections that the learner sees. The values are the wrong answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafkagroups.coordinator import Clock, DiskLogs, GroupCoordinator, offset_for_leader_epoch
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_lines import parse_partition
from kafkagroups.groups.offsets import OffsetAndMetadata
from kafkagroups.log.partitioning import partition_for

CommittedOffsets = Mapping[str, int]
"""The keys are partitions such as "orders-0", and the values are committed offsets."""
FetchedOffsets = dict[str, int | str]
"""The keys are the partitions in an answer. The value of a partition is its offset, or the name of an error.

The offset -1 means that the partition has no committed offset.
"""
UNSTABLE = Errors.UNSTABLE_OFFSET_COMMIT.name
_LOADING_ERROR = Errors.COORDINATOR_LOAD_IN_PROGRESS.name


def _make_broker() -> GroupCoordinator:
    # The exercises append nothing to the log, so this folder is never created.
    return GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)


# Exercise `who_answers`: which error does a broker return for an OffsetFetch? The functions return the error's name.
# `group` is a group id. `owned` contains the partitions of the offsets topic whose groups the broker coordinates.
# `loading` contains the partitions of the offsets topic that the broker still loads.
# `_find_fetch_error` is correct. The functions after it contain mistakes of learners, or are helpers.

WhoAnswers = Callable[[str, Collection[int], Collection[int]], str]
"""A function for `who_answers`: its arguments are `group`, `owned` and `loading`."""


def _find_fetch_error(group: str, owned: Collection[int], loading: Collection[int]) -> str:
    broker = _make_broker()
    broker.manager.owned = set(owned)
    broker.manager.loading = set(loading)
    return broker.offset_fetch(group).error.name


def _make_wrong_who_answers(
    find_partition: Callable[[str], int], *, checks_loading: bool = True, loading_error: str = _LOADING_ERROR
) -> WhoAnswers:
    """Return a function for `who_answers` that contains one mistake.

    Parameters
    ----------
    find_partition
        A function of a group id. It returns the partition of the group.
    checks_loading
        Whether the function looks at `loading`.
    loading_error
        The error that the function returns for a partition in `loading`.
    """

    def who_answers(group: str, owned: Collection[int], loading: Collection[int]) -> str:
        partition = find_partition(group)
        if checks_loading and partition in loading:
            return loading_error
        return "NONE" if partition in owned else "NOT_COORDINATOR"

    return who_answers


def _find_partition(group: str) -> int:
    return partition_for(group, 50)


def _find_partition_by_byte_sum(group: str) -> int:
    return sum(group.encode()) % 50


def _refuse_every_group_while_loading(group: str, owned: Collection[int], loading: Collection[int]) -> str:
    return _LOADING_ERROR if loading else _find_fetch_error(group, owned, loading)


# Exercise `get_offsets`: which offsets does a broker return for an OffsetFetch?
# `committed` contains the group's committed offsets. `pending` contains the partitions with a pending commit, which
# waits for the replicas or for the end of its transaction. `asked` is a list of the requested partitions, or "all".
# `stable` is the value of requireStable in the request. If it is true, the answer for a partition with a pending commit
# is the error UNSTABLE_OFFSET_COMMIT.
# `_fetch_offsets` is correct. The functions after it contain mistakes of learners, or are helpers.

GetOffsets = Callable[[CommittedOffsets, Collection[str], str | Sequence[str], bool], FetchedOffsets]
"""A function for `get_offsets`: its arguments are `committed`, `pending`, `asked` and `stable`."""


def _fetch_offsets(
    committed: CommittedOffsets, pending: Collection[str], asked: str | Sequence[str], stable: bool
) -> FetchedOffsets:
    broker = _make_broker()
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
    return OffsetAndMetadata(
        offset=offset,
        metadata="",
        commit_timestamp=0,
        leader_epoch=-1,
        expire_timestamp=None,
        topic_id=None,
        record_offset=0,
        batch_offset=0,
    )


def _make_wrong_get_offsets(mistake: str) -> GetOffsets:
    """Return a function for `get_offsets` that contains the mistake `mistake`.

    The possible values of `mistake` are the texts in the conditions below.
    """

    def get_offsets(
        committed: CommittedOffsets, pending: Collection[str], asked: str | Sequence[str], stable: bool
    ) -> FetchedOffsets:
        names: Iterable[str] = committed if asked == "all" else asked
        if asked == "all" and mistake == "lists pending":
            names = [*committed, *(name for name in pending if name not in committed)]
        answers: FetchedOffsets = {}
        for name in names:
            is_unstable = name in pending and (stable or mistake == "always stable")
            if mistake == "returns committed although pending" and name in committed:
                is_unstable = False
            if is_unstable:
                answers[name] = UNSTABLE
            elif name in committed:
                answers[name] = committed[name]
            elif mistake != "leaves out partition without offset":
                answers[name] = "UNKNOWN_TOPIC_OR_PARTITION" if mistake == "error for partition without offset" else -1
        if mistake == "one unstable makes all unstable" and UNSTABLE in answers.values():
            answers = dict.fromkeys(answers, UNSTABLE)
        return answers

    return get_offsets


# Exercise `end_of_epoch`: at which offset does a leader epoch end? The functions return this offset. They return -1 if
# the epoch is newer than all epochs of the leader.
# `epochs` contains the leader's epochs in ascending order, each with its first offset. `log_end` is the offset at which
# the log ends. `epoch` is the epoch whose end the functions return.
# `_find_end_of_epoch` is correct. The functions after it contain mistakes of learners.

EndOfEpoch = Callable[[Sequence[tuple[int, int]], int, int], int]
"""A function for `end_of_epoch`: its arguments are `epochs`, `log_end` and `epoch`."""


def _find_end_of_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> int:
    _, end_offset = offset_for_leader_epoch(epochs, log_end, epoch)
    return end_offset


def _make_wrong_end_of_epoch(mistake: str) -> EndOfEpoch:
    """Return a function for `end_of_epoch` that contains the mistake `mistake`.

    The possible values of `mistake` are the texts in the conditions below.
    """

    def end_of_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> int:
        first_offsets = dict(epochs)
        end_offset = _find_end_of_epoch(epochs, log_end, epoch)
        if mistake == "returns the first offset":
            return first_offsets.get(epoch, end_offset)
        if mistake == "newer epoch ends at log end" and epoch > max(first_offsets):
            return log_end
        if mistake == "unlisted epoch has no end" and epoch not in first_offsets:
            return -1
        if mistake == "older epoch has no end" and epoch < min(first_offsets):
            return -1
        if mistake == "next epoch is one larger" and epoch in first_offsets:
            return first_offsets.get(epoch + 1, log_end)
        if mistake == "returns the last record" and end_offset > 0:
            return end_offset - 1
        return end_offset

    return end_of_epoch


_WHO_ANSWERS_SOLUTION = """\
def who_answers(group, owned, loading):
    partition = kg.partition_for(group, 50)
    if partition in loading:
        return "COORDINATOR_LOAD_IN_PROGRESS"
    if partition not in owned:
        return "NOT_COORDINATOR"
    return "NONE\""""

_GET_OFFSETS_SOLUTION = """\
def get_offsets(committed, pending, asked, stable):
    answers = {}
    for name in committed if asked == "all" else asked:
        if stable and name in pending:
            answers[name] = "UNSTABLE_OFFSET_COMMIT"
        else:
            answers[name] = committed.get(name, -1)
    return answers"""

_END_OF_EPOCH_SOLUTION = """\
def end_of_epoch(epochs, log_end, epoch):
    if epoch == epochs[-1][0]:
        return log_end                             # the newest epoch has not ended
    for next_epoch, start in epochs:
        if next_epoch > epoch:
            return start                           # an epoch ends where the next epoch begins
    return -1                                      # this leader does not know the epoch"""

_COMMITTED = {"orders-0": 50, "orders-1": 51}

EXERCISES = (
    Exercise(
        name="who_answers",
        correct=_find_fetch_error,
        solution=_WHO_ANSWERS_SOLUTION,
        hints=(
            "kg.partition_for(group, 50) is the group's partition. Check whether `loading` or `owned` contains it.",
            "A partition that is being loaded is not owned yet. Check `loading` first.",
        ),
        # Each case is a group id, the owned partitions, and the partitions that are being loaded.
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
            "a partition that is being loaded has its own error, so that the client does not look for another broker": (
                _make_wrong_who_answers(_find_partition, loading_error="NOT_COORDINATOR")
            ),
            "use Java's hash of the group id, as in lesson 02: kg.partition_for(group, 50)": _make_wrong_who_answers(
                _find_partition_by_byte_sum
            ),
            "while one partition is being loaded, the broker answers for its other partitions": (
                _refuse_every_group_while_loading
            ),
        },
    ),
    Exercise(
        name="get_offsets",
        correct=_fetch_offsets,
        solution=_GET_OFFSETS_SOLUTION,
        hints=(
            'Which partitions are in the answer? All of `committed` if asked == "all", otherwise `asked`.',
            "If `stable` is true, the partitions of `pending` are unstable. Other partitions have an offset, or -1.",
        ),
        # Each case is the committed offsets, the pending partitions, the requested partitions, and requireStable.
        cases=(
            (_COMMITTED, set(), ["orders-0"], False),
            (_COMMITTED, set(), ["orders-0", "orders-2"], False),
            (_COMMITTED, set(), "all", True),
            (_COMMITTED, {"orders-1"}, "all", False),
            (_COMMITTED, {"orders-1"}, "all", True),
            (_COMMITTED, {"orders-2"}, "all", True),
            (_COMMITTED, {"orders-2"}, ["orders-0", "orders-2"], True),
            ({}, set(), ["orders-0"], True),
            ({}, {"orders-0"}, "all", True),
        ),
        known_mistakes={
            "without requireStable, a client gets the committed offset": _make_wrong_get_offsets("always stable"),
            "with requireStable, the committed offset is not returned while a newer offset is pending": (
                _make_wrong_get_offsets("returns committed although pending")
            ),
            "a fetch of all offsets does not return a partition without a committed offset": _make_wrong_get_offsets(
                "lists pending"
            ),
            "the answer contains every partition of `asked`, with -1 if it has no offset": _make_wrong_get_offsets(
                "leaves out partition without offset"
            ),
            "a partition without an offset is not an error: return -1": _make_wrong_get_offsets(
                "error for partition without offset"
            ),
            "one unstable partition does not make other partitions unstable": _make_wrong_get_offsets(
                "one unstable makes all unstable"
            ),
        },
    ),
    Exercise(
        name="end_of_epoch",
        correct=_find_end_of_epoch,
        solution=_END_OF_EPOCH_SOLUTION,
        hints=(
            "The newest epoch ends where the log ends.",
            "An older epoch ends where the next larger epoch in the list starts. An epoch without records is unlisted.",
            "If the epoch is larger than the newest epoch in the list, return -1.",
        ),
        # Each case is the epochs with their first offsets, the end of the log, and the epoch to find.
        cases=(
            ([(0, 0), (3, 20), (4, 40)], 60, 4),
            ([(0, 0), (3, 20), (4, 40)], 60, 3),
            ([(0, 0), (3, 20), (4, 40)], 60, 0),
            ([(0, 0), (3, 20), (4, 40)], 60, 1),
            ([(0, 0), (3, 20), (4, 40)], 60, 5),
            ([(3, 20), (4, 40)], 60, 1),
        ),
        known_mistakes={
            "that is the offset at which the epoch begins; return the offset at which it ends": (
                _make_wrong_end_of_epoch("returns the first offset")
            ),
            "return -1 for an epoch that is larger than all epochs in the list": _make_wrong_end_of_epoch(
                "newer epoch ends at log end"
            ),
            "an epoch without records ends where the next epoch starts": _make_wrong_end_of_epoch(
                "unlisted epoch has no end"
            ),
            "the next epoch in the list may be larger by more than one": _make_wrong_end_of_epoch(
                "next epoch is one larger"
            ),
            "an epoch ends at the offset after its last record": _make_wrong_end_of_epoch("returns the last record"),
            "an epoch older than all epochs in the list ends where the first epoch begins": _make_wrong_end_of_epoch(
                "older epoch has no end"
            ),
        },
    ),
)
