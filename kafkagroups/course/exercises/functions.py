"""The exercises whose answer is a function: what Kafka answers, computed by this package, by the exercise's name."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kafkagroups.coordinator import Clock, DiskLogs, GroupCoordinator
from kafkagroups.coordinator.messages import Errors, OffsetCommitRequest, convert_event_error, find_error
from kafkagroups.course.log_lines import Line, Lines
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, ClassicMember
from kafkagroups.groups.modern_group import ModernGroup, ModernMember
from kafkagroups.groups.offsets import OffsetAndMetadata, Offsets, TopicPartition
from kafkagroups.log.batch import read_varint
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.records.wire import java_hash


class ExerciseFunction(NamedTuple):
    """The page of the exercise has the cases, which `read_case` reads."""

    correct: Callable[..., Any]
    read_case: Callable[[str], tuple[Any, ...]] = literal_eval


def _make_commit(
    offset: int, *, commit_time: int = 0, expire_time: int | None = None, record_offset: int = 0
) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", commit_time, -1, expire_time, None, record_offset, record_offset)


def _start_broker() -> GroupCoordinator:
    """Nothing is appended to its log, so the folder is never created."""
    return GroupCoordinator(DiskLogs("nowhere"), Clock(), new_member_id=str)


def _make_member(name: str, protocols: Sequence[str] = ()) -> ClassicMember:
    return ClassicMember(name, None, "", "", 0, 0, "consumer", [(protocol, b"") for protocol in protocols])


# Lesson 01: `decode_commit`.


def _decode_commit(key: bytes, value: bytes | None) -> tuple[str, str, int, int | None]:
    record = decode(key, value)
    assert isinstance(record.key, OffsetCommitKey)
    offset = record.value.offset if isinstance(record.value, OffsetCommitValue) else None
    return record.key.group, record.key.topic, record.key.partition, offset


# Lesson 04: `commit_error`.


def _convert_error(append_error: str) -> str:
    return convert_event_error(Errors[append_error]).name


# Lesson 05: `get_offsets`.


def _fetch_offsets(
    committed: Mapping[str, int], pending: Collection[str], asked: str | Sequence[str], stable: bool
) -> dict[str, int | str]:
    """Return an offset or the name of an error for each partition, such as "orders-0"."""
    broker = _start_broker()
    broker.manager.owned = {broker.manager.partition_for("g")}
    group = broker.manager.get_or_create("g")
    group.offsets.committed = {TopicPartition.parse(name): _make_commit(offset) for name, offset in committed.items()}
    group.offsets.pending = {TopicPartition.parse(name): _make_commit(0) for name in pending}
    partitions = None if asked == "all" else [TopicPartition.parse(name) for name in asked]
    fetched = broker.offset_fetch("g", partitions, require_stable=stable).value.offsets
    return {
        str(partition): answer.error.name if answer.error else answer.offset for partition, answer in fetched.items()
    }


# Lesson 06: `select_protocol`.


def _select_protocol(members: list[list[str]]) -> str:
    """The argument has the protocols that each member supports, the preferred one first."""
    group = ClassicGroup(group_id="g", kafka=(3, 9, 2), current_state_timestamp=None)
    for number, names in enumerate(members):
        group.add(_make_member(f"m{number}", names))
    return group.select_protocol()


# Lesson 07: `answer_commit`.

CommittingGroup = tuple[str, int, list[str]] | None
"""The state of a group, its generation and its member ids; None: there is no group."""


def _answer_commit(group: CommittingGroup, member_id: str, generation: int) -> str:
    if group is None:
        return Errors.NONE.name if generation < 0 else Errors.GROUP_ID_NOT_FOUND.name
    state, current_generation, members = group
    living_group = ClassicGroup("g", (4, 3, 1), None, ClassicState(state), current_generation)
    living_group.members |= {name: _make_member(name) for name in members}
    commit = OffsetCommitRequest("g", {}, generation=generation, member_id=member_id)
    return find_error(_start_broker().validator.validate_commit, living_group, commit).name


# Lesson 08: `replay_transactions`, and lesson 11: `replay`.


def _replay_lines(lines: Lines, *, ignores_transactions: bool = False) -> dict[tuple[str, str], int]:
    """Return the committed offsets, by group and partition, with the rules of the new coordinator.

    If `ignores_transactions` is true, an offset of a transaction is committed immediately.
    """
    offsets = Offsets()
    for record_offset, record_type, group, partition_name, value, producer in lines:
        if record_type in ("commit", "abort") and producer is not None:
            # The newer of a pending and a committed offset wins. Lines do not contain the offsets of batches, so the
            # record offsets decide which offset is newer.
            offsets.end_transaction(producer, commits=record_type == "commit", by=record_offset, compares_batches=False)
        if record_type == "group" and group is not None and value is None:
            for deleted_partition in list(offsets.committed.get(group, ())):
                offsets.remove(group, deleted_partition, record_offset)
        if record_type != "offset" or group is None or partition_name is None:
            continue
        partition = TopicPartition.parse(partition_name)
        if value is None:
            offsets.remove(group, partition, record_offset)
            continue
        offset = _make_commit(value, record_offset=record_offset)
        if producer is None or ignores_transactions:
            offsets.put(group, partition, offset)
        else:
            offsets.put_pending(producer, group, partition, offset)
    return {
        (group, str(partition)): offset.offset
        for group, committed in offsets.committed.items()
        for partition, offset in committed.items()
    }


def _read_lines(text: str) -> tuple[Lines]:
    return (Lines(map(_read_line, text.split(" | "))),)


def _read_line(text: str) -> Line:
    """Read a line in its printed form."""
    at, *words = text.replace(":", "").replace(",", "").split()
    match words:
        case ["producer", producer, end]:
            return Line(int(at), end.removesuffix("s"), producer=int(producer))
        case [group, "deleted"]:
            return Line(int(at), "group", group)
        case [group, "generation", generation]:
            return Line(int(at), "group", group, value=int(generation))
        case [group, partition, "deleted"]:
            return Line(int(at), "offset", group, partition)
        case [group, partition, "=", value]:
            return Line(int(at), "offset", group, partition, int(value))
        case [group, partition, "=", value, "producer", producer]:
            return Line(int(at), "offset", group, partition, int(value), int(producer))
    raise ValueError(text)


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
        TopicPartition.parse(name): _make_commit(1, commit_time=commit_day, expire_time=expiry_day)
        for name, (commit_day, expiry_day) in group.offsets.items()
    }
    classic_group.subscribed_topics = frozenset(group.read_topics) if group.type == "consumer" else None
    return [str(partition) for partition in find_expired_offsets(classic_group, committed, (), now, retention)]


# Lesson 10: `survivors`.


def _list_survivors(records: list[tuple[int, Any, Any]], active_offset: int) -> list[int]:
    """`records` has the offset, key and value of each record."""
    newest_offsets = {key: offset for offset, key, _ in records if offset < active_offset}
    return [offset for offset, key, _ in records if offset >= active_offset or newest_offsets[key] == offset]


# Lesson 13: `group_state`.


def _compute_state(group_epoch: int, assignment_epoch: int, members: list[tuple[int, int]]) -> str:
    """`members` has the epoch and the state of each member of a consumer group, as in its record of type 8."""
    group = ModernGroup("g", None, "consumer", group_epoch, assignment_epoch)
    for number, (epoch, state) in enumerate(members):
        member_id = str(number)
        group.members[member_id] = ModernMember(member_id, member_epoch=epoch, state=state)
    return group.state.value


# Lesson 12: `merge`.


def _merge(left: Mapping[Any, tuple[int, Any]], right: Mapping[Any, tuple[int, Any]]) -> dict[Any, tuple[int, Any]]:
    """Return the newest line of each key. A line is its position in the log and its value."""
    return dict(sorted([*left.items(), *right.items()], key=lambda item: item[1][0]))


FUNCTIONS = {
    "decode_commit": ExerciseFunction(_decode_commit),
    "hash_of": ExerciseFunction(java_hash),
    "read_varint": ExerciseFunction(read_varint),
    "commit_error": ExerciseFunction(_convert_error),
    "get_offsets": ExerciseFunction(_fetch_offsets),
    "select_protocol": ExerciseFunction(_select_protocol),
    "answer_commit": ExerciseFunction(_answer_commit),
    "replay_transactions": ExerciseFunction(_replay_lines, _read_lines),
    "expired": ExerciseFunction(_list_expired, _read_expiry_case),
    "survivors": ExerciseFunction(_list_survivors),
    "replay": ExerciseFunction(partial(_replay_lines, ignores_transactions=True), _read_lines),
    "merge": ExerciseFunction(_merge),
    "group_state": ExerciseFunction(_compute_state),
}
