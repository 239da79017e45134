"""Functions that the learner writes for a coordinator's answers and states, in the lessons 04, 05, 06, 07, 09 and 13:
what Kafka answers, and the mistakes.
"""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkagroups.coordinator import Clock, DiskLogs, GroupCoordinator
from kafkagroups.coordinator.messages import Errors, OffsetCommitRequest, convert_event_error, find_error
from kafkagroups.course.exercises.exercise import ExerciseFunction, make_commit
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, ClassicMember
from kafkagroups.groups.modern_group import ModernGroup, ModernMember
from kafkagroups.groups.offsets import TopicPartition

# Lesson 04: `commit_error`.

_OTHER_BROKER = "COORDINATOR_NOT_AVAILABLE"
_WRONG_ERRORS = {
    "both errors of the leader": {"NOT_LEADER_OR_FOLLOWER": _OTHER_BROKER, "KAFKA_STORAGE_ERROR": _OTHER_BROKER},
    "only the storage error": {"KAFKA_STORAGE_ERROR": _OTHER_BROKER},
    "time-out": {"REQUEST_TIMED_OUT": "REQUEST_TIMED_OUT"},
    "batches that are too large": {name: name for name in ("RECORD_LIST_TOO_LARGE", "INVALID_FETCH_SIZE")},
}


def _convert_error(append_error: str) -> str:
    return convert_event_error(Errors[append_error]).name


def _convert_error_wrongly(mistake: str, append_error: str) -> str:
    if mistake == "no conversion":
        return append_error
    return _WRONG_ERRORS[mistake].get(append_error, _convert_error(append_error))


# Lesson 05: `get_offsets`.

CommittedOffsets = Mapping[str, int]
"""Committed offsets by partition, for example "orders-0"."""
FetchedOffsets = dict[str, int | str]
"""An offset or the name of an error by partition. The offset -1 means that the partition has no committed offset."""
UNSTABLE = Errors.UNSTABLE_OFFSET_COMMIT.name


def _fetch_offsets(
    committed: CommittedOffsets, pending: Collection[str], asked: str | Sequence[str], stable: bool
) -> FetchedOffsets:
    # Nothing is appended to the log, so this folder is never created.
    broker = GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)
    broker.manager.owned = {broker.manager.partition_for("g")}
    group = broker.manager.get_or_create("g")
    group.offsets.committed = {TopicPartition.parse(name): make_commit(offset) for name, offset in committed.items()}
    group.offsets.pending = {TopicPartition.parse(name): make_commit(0) for name in pending}
    partitions = None if asked == "all" else [TopicPartition.parse(name) for name in asked]
    fetched = broker.offset_fetch("g", partitions, require_stable=stable).value.offsets
    return {
        str(partition): answer.error.name if answer.error else answer.offset for partition, answer in fetched.items()
    }


def _fetch_offsets_wrongly(
    mistake: str, committed: CommittedOffsets, pending: Collection[str], asked: str | Sequence[str], stable: bool
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


# Lesson 06: `select_protocol`.

ProtocolLists = list[list[str]]
"""For each member: the protocols that it supports, the preferred one first."""


def _select_protocol(members: ProtocolLists) -> str:
    group = ClassicGroup(group_id="g", kafka=(3, 9, 2), current_state_timestamp=None)
    for number, names in enumerate(members):
        group.add(ClassicMember(f"m{number}", None, "", "", 0, 0, "consumer", [(name, b"") for name in names]))
    return group.select_protocol()


def _select_protocol_wrongly(mistake: str, members: ProtocolLists) -> str | int:
    candidates = [name for name in members[0] if all(name in names for names in members)]
    preferred = [names[0] for names in members]
    if mistake == "uses the vote of the first member":
        return candidates[0]
    if mistake == "accepts any protocol":
        votes = preferred
    elif mistake == "counts only preferred protocols":
        votes = [name for name in preferred if name in candidates] or candidates[:1]
    else:
        votes = [next(name for name in names if name in candidates) for names in members]
    [(most_common, count)] = Counter(votes).most_common(1)
    return count if mistake == "returns the number of votes" else most_common


# Lesson 07: `answer_commit`.

CommittingGroup = tuple[str, int, list[str]] | None
"""The state of a group, its generation and its member ids; None: there is no group."""


def _answer_commit(group: CommittingGroup, member_id: str, generation: int) -> str:
    if group is None:
        return Errors.NONE.name if generation < 0 else Errors.GROUP_ID_NOT_FOUND.name
    state, current_generation, members = group
    living_group = ClassicGroup("g", (4, 3, 1), None, ClassicState(state), current_generation)
    living_group.members |= {name: ClassicMember(name, None, "", "", 0, 0, "consumer", []) for name in members}
    # Nothing is appended to the log, so this folder is never created.
    broker = GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)
    commit = OffsetCommitRequest("g", {}, generation=generation, member_id=member_id)
    return find_error(broker.validator.validate_commit, living_group, commit).name


def _answer_commit_wrongly(mistake: str, group: CommittingGroup, member_id: str, generation: int) -> str:
    state, current_generation, _ = group or ("Dead", generation, [])
    answer = _answer_commit(group, member_id, generation)
    wrong_answers = {
        "checks the generation first": (0 <= generation != current_generation, "ILLEGAL_GENERATION"),
        "checks the rebalance first": (state == "CompletingRebalance", "REBALANCE_IN_PROGRESS"),
        "ignores the rebalance": (answer == "REBALANCE_IN_PROGRESS", "NONE"),
        "refuses both phases": (answer == "NONE" and state == "PreparingRebalance", "REBALANCE_IN_PROGRESS"),
        "refuses all simple commits": (generation < 0, "UNKNOWN_MEMBER_ID"),
        "accepts all simple commits": (generation < 0, "NONE"),
    }
    is_different, wrong_answer = wrong_answers[mistake]
    return wrong_answer if is_different else answer


# Lesson 09: `expired`. All times are days.


class ExpiringGroup(NamedTuple):
    """A group and its offsets before the coordinator deletes expired offsets.

    `type` is the protocol type, "" for a simple group, which has never had a member. `state_start` is the day on which
    the group entered its state. `offsets` has, for each partition, the day of the commit, and the expiry day that the
    client requested, or None.
    """

    state: str
    type: str
    read_topics: tuple[str, ...]
    state_start: int
    offsets: dict[str, tuple[int, int | None]]

    def __repr__(self) -> str:
        offsets = ", ".join(f"{name}: {days}" for name, days in self.offsets.items())
        topics = ",".join(self.read_topics) or "-"
        return f"{self.state} since {self.state_start}, type {self.type!r}, reads {topics}, {{{offsets}}}"


def _read_expiry_case(text: str) -> tuple[ExpiringGroup, int, int]:
    group, now, retention = literal_eval(text)
    return ExpiringGroup(*group), now, retention


def _list_expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    classic_group = ClassicGroup(
        group_id="g",
        kafka=(3, 9, 2),
        current_state_timestamp=group.state_start,
        state=ClassicState(group.state),
        protocol_type=group.type or None,
    )
    committed = {
        TopicPartition.parse(name): make_commit(1, commit_time=commit_day, expire_time=expiry_day)
        for name, (commit_day, expiry_day) in group.offsets.items()
    }
    classic_group.subscribed_topics = frozenset(group.read_topics) if group.type == "consumer" else None
    return [str(partition) for partition in find_expired_offsets(classic_group, committed, (), now, retention)]


def _list_expired_wrongly(mistake: str, group: ExpiringGroup, now: int, retention: int) -> list[str]:
    is_empty = group.state == "Empty"
    has_members = group.type != "" and not is_empty
    starts_at_state = {
        "starts at the commit": False,
        "starts each Empty group at its state": is_empty,
        "starts every group at its state": group.type != "",
    }.get(mistake, is_empty and group.type != "")
    names = []
    for name, (commit_day, requested_day) in group.offsets.items():
        expiry_day = (group.state_start if starts_at_state else commit_day) + retention
        if requested_day is not None and mistake != "ignores the requested day":
            expiry_day = requested_day
        is_due = now > expiry_day if mistake == "excludes the expiry day" else now >= expiry_day
        is_read = TopicPartition.parse(name).topic in group.read_topics
        looks_at_topics = group.type == "consumer" and mistake != "keeps everything of groups with members"
        keeps = is_read if group.state == "Stable" and looks_at_topics else has_members
        forgets_members = {
            "keeps nothing if Stable": group.state == "Stable",
            "keeps only read topics in a rebalance": group.state == "PreparingRebalance" and not is_read,
            "keeps nothing of connect groups": group.type == "connect",
            "expires read topics on the requested day": requested_day is not None,
        }.get(mistake, False)
        if is_due and (forgets_members or not keeps):
            names.append(name)
    return names


# Lesson 13: `group_state`.

Members = list[tuple[int, int]]
"""The epoch and the state of each member of a consumer group, as in its record of type 8."""
_STABLE_MEMBER = 0


def _compute_state(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    group = ModernGroup("g", None, "consumer", group_epoch, assignment_epoch)
    for number, (epoch, state) in enumerate(members):
        member_id = str(number)
        group.members[member_id] = ModernMember(member_id, member_epoch=epoch, state=state)
    return group.state.value


def _compute_state_wrongly(mistake: str, group_epoch: int, assignment_epoch: int, members: Members) -> str:
    if mistake == "compares the epochs first" and group_epoch > assignment_epoch:
        return "Assigning"
    if mistake == "is Stable without members" and not members:
        return "Stable"
    if mistake == "ignores the epochs of members":
        members = [(assignment_epoch, state) for _, state in members]
    elif mistake == "ignores the states of members":
        members = [(epoch, _STABLE_MEMBER) for epoch, _ in members]
    elif mistake == "accepts one stable member":
        members = [member for member in members if member == (assignment_epoch, _STABLE_MEMBER)] or members
    elif mistake == "looks at the members first":
        state = _compute_state(assignment_epoch, assignment_epoch, members)
        return _compute_state(group_epoch, assignment_epoch, members) if state == "Stable" else state
    return _compute_state(group_epoch, assignment_epoch, members)


FUNCTIONS = {
    "commit_error": ExerciseFunction(_convert_error, _convert_error_wrongly),
    "get_offsets": ExerciseFunction(_fetch_offsets, _fetch_offsets_wrongly),
    "select_protocol": ExerciseFunction(_select_protocol, _select_protocol_wrongly),
    "answer_commit": ExerciseFunction(_answer_commit, _answer_commit_wrongly),
    "expired": ExerciseFunction(_list_expired, _list_expired_wrongly, _read_expiry_case),
    "group_state": ExerciseFunction(_compute_state, _compute_state_wrongly),
}
