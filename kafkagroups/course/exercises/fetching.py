"""The exercises of lesson 05."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafkagroups.coordinator import Clock, DiskLogs, GroupCoordinator, offset_for_leader_epoch
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.course.exercises.exercise import Exercise, make_commit
from kafkagroups.groups.offsets import TopicPartition

CommittedOffsets = Mapping[str, int]
"""Committed offsets by partition, for example "orders-0"."""
FetchedOffsets = dict[str, int | str]
"""An offset or the name of an error by partition. The offset -1 means that the partition has no committed offset."""
UNSTABLE = Errors.UNSTABLE_OFFSET_COMMIT.name


def _make_broker() -> GroupCoordinator:
    # The exercises append nothing to the log, so this folder is never created.
    return GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)


# Exercise `get_offsets`: which offsets does a broker return for an OffsetFetch?
# `committed` contains the group's committed offsets. `pending` contains the partitions with an offset in an open
# transaction. `asked` is a list of the requested partitions, or "all". `stable` is the value of requireStable in the
# request. If it is true, the answer for a partition with a pending offset is the error UNSTABLE_OFFSET_COMMIT.
# `_fetch_offsets` is correct. The functions after it contain mistakes of learners, or are helpers.

GetOffsets = Callable[[CommittedOffsets, Collection[str], str | Sequence[str], bool], FetchedOffsets]


def _fetch_offsets(
    committed: CommittedOffsets, pending: Collection[str], asked: str | Sequence[str], stable: bool
) -> FetchedOffsets:
    broker = _make_broker()
    broker.manager.owned = {broker.manager.partition_for("g")}
    group = broker.manager.get_or_create("g")
    group.offsets.committed = {TopicPartition.parse(name): make_commit(offset) for name, offset in committed.items()}
    group.offsets.pending = {TopicPartition.parse(name): make_commit(0) for name in pending}
    partitions = None if asked == "all" else [TopicPartition.parse(name) for name in asked]
    fetched = broker.offset_fetch("g", partitions, require_stable=stable).value.offsets
    return {
        str(partition): answer.error.name if answer.error else answer.offset for partition, answer in fetched.items()
    }


def _make_wrong_get_offsets(mistake: str) -> GetOffsets:
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


_GET_OFFSETS_SOLUTION = """\
def get_offsets(committed, pending, asked, stable):
    answers = {}
    for name in committed if asked == "all" else asked:
        if stable and name in pending:
            answers[name] = "UNSTABLE_OFFSET_COMMIT"
        else:
            answers[name] = committed.get(name, -1)
    return answers"""

_LEADER_EPOCHS = ((0, 0), (2, 70), (5, 90))
"""The leader epochs in `three_restarts`, each with its first offset."""


def _find_restart_offset(committed_offset: int, epoch: int) -> int:
    """Return where a consumer continues: at its committed offset, or at the end of the offset's epoch."""
    _, end_offset = offset_for_leader_epoch(_LEADER_EPOCHS, log_end=120, epoch=epoch)
    return min(committed_offset, end_offset)


_COMMITTED = {"orders-0": 50, "orders-1": 51}

EXERCISES = (
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
        name="three_restarts",
        correct=(_find_restart_offset(85, 2), _find_restart_offset(95, 2), _find_restart_offset(75, 1)),
        solution="three_restarts = (85, 90, 70)   # epoch 2 ends at 90, and epoch 1 ends at 70",
        hints=(
            "First find where the epoch of the committed offset ends. It ends where the next epoch in the list begins.",
            "If the epoch ends before the committed offset, the consumer continues at the end of the epoch.",
        ),
        known_mistakes={
            "Epoch 1 is not in the list, but epoch 2 begins at 70. So epoch 1 ends at 70": (85, 90, 75),
            "Epoch 1 does not end where epoch 2 ends. It ends where epoch 2 begins, at 70": (85, 90, 90),
            "Epoch 1 may have had records. It ends where the next epoch of the list begins, at 70": (85, 90, 0),
            "A committed offset below the end of its epoch is still valid": (90, 90, 70),
            "Two mistakes. Offset 85 is below the end of its epoch, so it is valid. Epoch 1 ends at 70": (90, 90, 75),
            "An epoch ends where the next epoch begins, not where it begins itself": (70, 70, 70),
            "Offset 95 is beyond the end of epoch 2. The records from 90 on are new": (85, 95, 70),
            "Compare each offset with the end of its epoch, not with the end of the log": (85, 95, 75),
            "The end of the log is the end of the last epoch only. Epoch 2 ends at 90, and epoch 1 ends at 70": (
                120,
                120,
                120,
            ),
        },
    ),
    Exercise(
        name="proof_of_loss",
        correct="C",
        solution='proof_of_loss = "C"   # the consumer is told that nothing is committed, whatever the reason',
        hints=(
            "For each answer: what does the consumer of `billing` do, which asks by name and has all permissions?",
            "Only one answer says that this coordinator has no offset for this partition.",
        ),
        known_mistakes={
            "Before a load begins, a list may be empty without an error. The consumer waits for the load": "A",
            "A client without permissions for the topics sees no offsets, and no error. The consumer has them": "B",
            "This broker does not coordinate the group. The consumer asks for the coordinator again": "D",
        },
    ),
)
