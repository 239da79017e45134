"""The exercises of lesson 05: who answers, what a fetch says while commits are on their way, where an epoch ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkagroups.coordinator import (
    Clock,
    DiskLogs,
    GroupCoordinator,
    TopicPartition,
    offset_for_leader_epoch,
)
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.offsets import OffsetAndMetadata
from kafkagroups.log.partitioning import partition_for

Offsets = Mapping[str, int]
Fetched = dict[str, int | str]
UNSTABLE = Errors.UNSTABLE_OFFSET_COMMIT.name


def _who_answers(group: str, owned: Collection[int], loading: Collection[int]) -> str:
    broker = GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)
    broker.manager.owned, broker.manager.loading = set(owned), set(loading)
    return broker.offset_fetch(group).error.name


def _answers(name: Callable[[str], int], *, loading_first: bool = True, loads: bool = True) -> Callable[..., str]:
    def who_answers(group: str, owned: Collection[int], loading: Collection[int]) -> str:
        partition = name(group)
        if loading_first and partition in loading:
            return "COORDINATOR_LOAD_IN_PROGRESS" if loads else "NOT_COORDINATOR"
        return "NONE" if partition in owned else "NOT_COORDINATOR"

    return who_answers


def _python_hash(group: str) -> int:
    """A hash of characters that is not Java's."""
    return sum(group.encode()) % 50


def _get_offsets(committed: Offsets, pending: Collection[str], asked: str | Sequence[str], stable: bool) -> Fetched:
    broker = GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)
    broker.manager.owned = {broker.manager.partition_for("g")}
    group = broker.manager.get_or_create("g")
    group.offsets.committed = {_partition(name): _at(offset) for name, offset in committed.items()}
    group.offsets.pending = {_partition(name): _at(0) for name in pending}
    named = None if asked == "all" else [_partition(name) for name in asked]
    found = broker.offset_fetch("g", named, require_stable=stable).offsets
    return {str(each): there.error.name if there.error else there.offset for each, there in found.items()}


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", 0, -1, None, None, 0, 0)


def _slipped(slip: str) -> Callable[..., Fetched]:
    """A fetch that is right but for one thing."""

    def get_offsets(committed: Offsets, pending: Collection[str], asked: str | Sequence[str], stable: bool) -> Fetched:
        known = {**committed, **dict.fromkeys(pending, -1)} if slip == "mentions" else committed
        answers: Fetched = {}
        for name in known if asked == "all" else asked:
            unstable = (stable or slip == "always") and name in pending
            if unstable and not (slip == "old is fine" and name in committed):
                answers[name] = UNSTABLE
            elif name in committed:
                answers[name] = committed[name]
            elif slip != "leaves out":
                answers[name] = "UNKNOWN_TOPIC_OR_PARTITION" if slip == "an error" else -1
        if slip == "all or nothing" and UNSTABLE in answers.values():
            answers = dict.fromkeys(answers, UNSTABLE)
        return answers

    return get_offsets


def _end_of_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> int:
    return offset_for_leader_epoch(epochs, log_end, epoch)[1]


def _other_end(slip: str) -> Callable[..., int]:
    def end_of_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> int:
        starts = dict(epochs)
        if slip == "start":
            return starts.get(epoch, _end_of_epoch(epochs, log_end, epoch))
        if slip == "newer" and epoch > max(starts):
            return log_end
        if slip == "must be there" and epoch not in starts:
            return -1
        if slip == "below all" and epoch < min(starts):
            return -1
        if slip == "next number" and epoch in starts:
            return starts.get(epoch + 1, log_end)
        if slip == "last record":
            end = _end_of_epoch(epochs, log_end, epoch)
            return end - 1 if end > 0 else end
        return _end_of_epoch(epochs, log_end, epoch)

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
        return log_end                             # it is still going on
    for newer, start in epochs:
        if newer > epoch:
            return start                           # the first epoch after it begins where it ended
    return -1                                      # this leader has never heard of it"""

_SHOP = {"orders-0": 50, "orders-1": 51}

EXERCISES = (
    Exercise(
        "who_answers",
        _who_answers,
        WHO_ANSWERS,
        (
            "kg.partition_for(group, 50) is the partition of the group: look whether *that* is in the sets.",
            "A partition that is being loaded is not owned yet. So look at `loading` first.",
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
            "look at `loading` first: what is loaded now is not owned yet": _answers(
                lambda group: partition_for(group, 50), loading_first=False
            ),
            "a partition on its way in has an error of its own: the client must not look elsewhere": _answers(
                lambda group: partition_for(group, 50), loads=False
            ),
            "it is Java's hash of the name, as in lesson 02: kg.partition_for(group, 50)": _answers(_python_hash),
            "one loading partition does not stop the others": lambda group, owned, loading: (
                "COORDINATOR_LOAD_IN_PROGRESS" if loading else _who_answers(group, owned, loading)
            ),
        },
    ),
    Exercise(
        "get_offsets",
        _get_offsets,
        GET_OFFSETS,
        (
            'Which partitions are looked at? All that are committed if asked == "all", else those that are asked for.',
            "Unstable if `stable` is wanted and the partition is in `pending`; else what is committed, or -1.",
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
            "who did not ask for stable offsets gets what is committed": _slipped("always"),
            "an older offset is there, but with requireStable it is not told: a newer one is on its way": _slipped(
                "old is fine"
            ),
            "asked for all, a partition that is only pending is not mentioned": _slipped("mentions"),
            "one that is asked for by name is answered, with -1 if it has nothing": _slipped("leaves out"),
            "nothing committed is no error: it is -1": _slipped("an error"),
            "one unstable partition does not make the others unstable": _slipped("all or nothing"),
        },
    ),
    Exercise(
        "end_of_epoch",
        _end_of_epoch,
        END_OF_EPOCH,
        (
            "The newest epoch ends where the log ends.",
            "Any older one ends where the first epoch with a larger number starts, also if it wrote nothing itself.",
            "An epoch above the newest one this leader has not heard of: -1.",
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
            "that is where the epoch begins": _other_end("start"),
            "an epoch that this leader does not know has no end: -1": _other_end("newer"),
            "an epoch in which nothing was written ends where the next one starts": _other_end("must be there"),
            "the next epoch may have a number that is larger by more than one": _other_end("next number"),
            "the end is the offset after the last record": _other_end("last record"),
            "an epoch below all in the list ends where the first one begins": _other_end("below all"),
        },
    ),
)
