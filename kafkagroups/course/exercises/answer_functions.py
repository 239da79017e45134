"""Functions that the learner writes for a coordinator's answers and states, in the lessons 04, 05, 06, 09 and 13: the
cases and the mistakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkagroups.coordinator import Clock, DiskLogs, GroupCoordinator
from kafkagroups.coordinator.error_codes import Errors, convert_event_error
from kafkagroups.course.exercises.exercise import FunctionCases, make_commit
from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.modern_group import ModernGroup, ModernMember
from kafkagroups.groups.offsets import TopicPartition

# Lesson 04: `commit_error`.

_APPEND_ERRORS = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_ENOUGH_REPLICAS",
    "REQUEST_TIMED_OUT",
    "NOT_LEADER_OR_FOLLOWER",
    "KAFKA_STORAGE_ERROR",
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_FETCH_SIZE",
    "INVALID_PRODUCER_EPOCH",
)
_OTHER_BROKER = "COORDINATOR_NOT_AVAILABLE"
_WRONG_ERRORS = {
    "no conversion": {name: name for name in _APPEND_ERRORS},
    "both errors of the leader": {"NOT_LEADER_OR_FOLLOWER": _OTHER_BROKER, "KAFKA_STORAGE_ERROR": _OTHER_BROKER},
    "only the storage error": {"KAFKA_STORAGE_ERROR": _OTHER_BROKER},
    "time-out": {"REQUEST_TIMED_OUT": "REQUEST_TIMED_OUT"},
    "batches that are too large": {name: name for name in ("RECORD_LIST_TOO_LARGE", "INVALID_FETCH_SIZE")},
}


def _convert_error(append_error: str) -> str:
    return convert_event_error(Errors[append_error]).name


def _convert_error_wrongly(mistake: str, append_error: str) -> str:
    return _WRONG_ERRORS[mistake].get(append_error, _convert_error(append_error))


# Lesson 05: `get_offsets`.

CommittedOffsets = Mapping[str, int]
"""Committed offsets by partition, for example "orders-0"."""
FetchedOffsets = dict[str, int | str]
"""An offset or the name of an error by partition. The offset -1 means that the partition has no committed offset."""
UNSTABLE = Errors.UNSTABLE_OFFSET_COMMIT.name
_COMMITTED = {"orders-0": 50, "orders-1": 51}


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
    group = ClassicGroup(group_id="g", kafka=(3, 9, 2), state_timestamp=None)
    for number, names in enumerate(members):
        protocols = [(name, b"") for name in names]
        group.add(ClassicMember(f"m{number}", None, "", "", 0, 0, "consumer", protocols))
    return group.select_protocol()


def _find_most_common(votes: Iterable[str]) -> str:
    [(name, _)] = Counter(votes).most_common(1)
    return name


def _list_candidates(members: ProtocolLists) -> list[str]:
    return [name for name in members[0] if all(name in names for names in members)]


def _list_votes(members: ProtocolLists) -> Iterator[str]:
    candidates = _list_candidates(members)
    return (next(name for name in names if name in candidates) for names in members)


def accept_any_protocol(members: ProtocolLists) -> str:
    return _find_most_common(names[0] for names in members)


def use_vote_of_first_member(members: ProtocolLists) -> str:
    return _list_candidates(members)[0]


def count_only_preferred_protocols(members: ProtocolLists) -> str:
    candidates = _list_candidates(members)
    votes = [names[0] for names in members if names[0] in candidates]
    return _find_most_common(votes) if votes else candidates[0]


def return_vote_count(members: ProtocolLists) -> int:
    return max(Counter(_list_votes(members)).values())


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


def _list_expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    classic_group = ClassicGroup(
        group_id="g",
        kafka=(3, 9, 2),
        state_timestamp=group.state_start,
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
        keeps = has_members
        if (
            group.state == "Stable"
            and group.type == "consumer"
            and mistake != "keeps everything of groups with members"
        ):
            keeps = is_read
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


def compare_epochs_first(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    if group_epoch > assignment_epoch:
        return "Assigning"
    return _compute_state(group_epoch, assignment_epoch, members)


def treat_as_stable_without_members(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    return _compute_state(group_epoch, assignment_epoch, members) if members else "Stable"


def ignore_epochs_of_members(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    return _compute_state(group_epoch, assignment_epoch, [(assignment_epoch, state) for _, state in members])


def ignore_states_of_members(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    return _compute_state(group_epoch, assignment_epoch, [(epoch, _STABLE_MEMBER) for epoch, _ in members])


def accept_one_stable_member(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    stable = [member for member in members if member == (assignment_epoch, _STABLE_MEMBER)]
    return _compute_state(group_epoch, assignment_epoch, stable or members)


def look_at_members_first(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    state = _compute_state(assignment_epoch, assignment_epoch, members)
    return _compute_state(group_epoch, assignment_epoch, members) if state == "Stable" else state


FUNCTIONS = {
    "commit_error": FunctionCases(
        _convert_error,
        tuple((name,) for name in _APPEND_ERRORS),
        _convert_error_wrongly,
    ),
    # Each case is the committed offsets, the pending partitions, the requested partitions, and requireStable.
    "get_offsets": FunctionCases(
        _fetch_offsets,
        (
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
        _fetch_offsets_wrongly,
    ),
    # Each case is the lists of protocols of all members.
    "select_protocol": FunctionCases(
        _select_protocol,
        (
            ([["range"]],),
            ([["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin", "range"]],),
            ([["sticky", "range"], ["sticky", "range"], ["range"]],),
            (
                [
                    ["range", "roundrobin"],
                    ["sticky", "roundrobin", "range"],
                    ["sticky", "roundrobin", "range"],
                    ["range", "roundrobin"],
                    ["sticky", "roundrobin", "range"],
                ],
            ),
        ),
    ),
    # Each case is a group, the day `now`, and the retention.
    "expired": FunctionCases(
        _list_expired,
        (
            (ExpiringGroup("Empty", "", (), 0, {"a-0": (1, None), "a-1": (5, None)}), 8, 7),
            (ExpiringGroup("Empty", "consumer", (), 4, {"a-0": (0, None)}), 8, 7),
            (ExpiringGroup("Empty", "consumer", (), 4, {"a-0": (0, None)}), 11, 7),
            (ExpiringGroup("Stable", "consumer", ("a",), 0, {"a-0": (0, None), "b-0": (0, None)}), 20, 7),
            (ExpiringGroup("PreparingRebalance", "consumer", ("a",), 6, {"b-0": (0, None)}), 20, 7),
            (ExpiringGroup("Stable", "connect", (), 0, {"a-0": (0, None)}), 20, 7),
            (ExpiringGroup("Empty", "", (), 0, {"a-0": (0, 2), "a-1": (0, 30)}), 9, 7),
            (ExpiringGroup("Stable", "consumer", ("b",), 5, {"a-0": (0, None)}), 8, 7),
            (ExpiringGroup("Stable", "consumer", ("a",), 0, {"a-0": (0, 2), "b-0": (0, 30)}), 20, 7),
        ),
        _list_expired_wrongly,
    ),
    # Each case is the group epoch, the assignment epoch, and the members.
    "group_state": FunctionCases(
        _compute_state,
        (
            (3, 3, [(3, 0), (3, 0)]),
            (3, 3, [(2, 1), (3, 2)]),
            (3, 3, [(3, 0), (3, 2)]),
            (3, 3, [(3, 0), (2, 0)]),
            (4, 3, [(3, 0)]),
            (4, 3, [(2, 1), (3, 2)]),
            (4, 3, []),
            (4, 4, []),
        ),
    ),
}
