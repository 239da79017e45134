"""Exercises of lesson 04: metadata length, append errors, two commits in flight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.coordinator.error_codes import Errors, convert_commit_append_error, convert_group_append_error
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.group_offsets import GroupOffsets
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.records.text import utf16_length

Events = list[tuple[Any, ...]]
"""("commit", offset), ("stored", offset, position in the log) or ("failed", offset)."""
State = tuple[int | None, int | None]
"""The cached and the pending offset of one partition."""
_PARTITION = TopicPartition("orders", 0)

# Exercise `fits`: first the correct function, then wrong ones that learners write.


def _fits(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) <= limit


def _exclude_the_limit(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) < limit


def _count_characters(metadata: str, limit: int) -> bool:
    return len(metadata) <= limit


def _count_utf8_bytes(metadata: str, limit: int) -> bool:
    return len(metadata.encode()) <= limit


# Exercise `commit_error`: first the correct function, then wrong ones that learners write.


def _commit_error(error: str) -> str:
    return convert_commit_append_error(Errors[error], verifies_transactions=True).name


def _convert_as_group_append(error: str) -> str:
    return convert_group_append_error(Errors[error]).name


def _with_errors(**wrong: str) -> Callable[[str], str]:
    """Return a function that is wrong for some errors of the log and correct for the others."""
    return lambda error: wrong.get(error, _commit_error(error))


# Exercise `in_flight`: first the correct function, then wrong ones that learners write.


def _in_flight(events: Events) -> State:
    offsets = GroupOffsets()
    prepared = {}
    for what, offset, *position in events:
        if what == "commit":
            prepared[offset] = OffsetAndMetadata(offset, "", 0, -1, None, None, -1, -1)
            offsets.prepare({_PARTITION: prepared[offset]})
        elif what == "stored":
            offsets.complete(_PARTITION, prepared[offset], position[0])
        else:
            offsets.drop_pending(_PARTITION, prepared[offset])
    return _offset_of(offsets.committed.get(_PARTITION)), _offset_of(offsets.pending.get(_PARTITION))


def _offset_of(commit: OffsetAndMetadata | None) -> int | None:
    return None if commit is None else commit.offset


def _in_flight_with(mistake: str) -> Callable[[Events], State]:
    """Return an `in_flight` that makes one mistake."""

    def in_flight(events: Events) -> State:
        cached: tuple[int, int] | None = None
        pending: int | None = None
        for what, offset, *position in events:
            if what == "commit":
                if mistake != "keeps the first pending" or pending is None:
                    pending = offset
            elif what == "stored":
                is_newer = cached is None or cached[0] < position[0]
                if mistake == "last answer wins":
                    is_newer = True
                elif mistake == "largest offset wins":
                    is_newer = cached is None or cached[1] < offset
                if is_newer and (pending is not None or mistake == "ignores pending"):
                    cached = position[0], offset
                if pending == offset or mistake == "success clears any pending":
                    pending = None
            else:
                if mistake == "caches failed commits" and pending == offset:
                    cached = 99, offset
                if pending == offset or mistake == "failure clears any pending":
                    pending = None
        return None if cached is None else cached[1], pending

    return in_flight


FITS = """\
def fits(metadata, limit):
    return len(metadata.encode("utf-16-le")) // 2 <= limit"""

COMMIT_ERROR = """\
def commit_error(append_error):
    if append_error in ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
        return "COORDINATOR_NOT_AVAILABLE"
    if append_error in ("NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"):
        return "NOT_COORDINATOR"
    if append_error in ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_FETCH_SIZE"):
        return "INVALID_COMMIT_OFFSET_SIZE"
    if append_error == "NETWORK_EXCEPTION":
        return "COORDINATOR_LOAD_IN_PROGRESS"
    return append_error"""

IN_FLIGHT = """\
def in_flight(events):
    cached = None
    cached_at = -1
    pending = None
    for what, offset, *place in events:
        if what == "commit":
            pending = offset
        elif what == "stored":
            if pending is not None and cached_at < place[0]:
                cached = offset
                cached_at = place[0]
        if what != "commit" and pending == offset:
            pending = None                         # only the entry of this commit
    return cached, pending"""

EXERCISES = (
    Exercise(
        "fits",
        _fits,
        FITS,
        (
            "Java counts UTF-16 units: most characters are one unit, characters above U+FFFF such as 𝄞 are two.",
            'metadata.encode("utf-16-le") has two bytes for each unit.',
        ),
        cases=(("till", 4), ("tills", 4), ("", 0), ("ü" * 4, 4), ("𝄞𝄞", 4), ("𝄞𝄞𝄞", 4)),
        known_mistakes={
            'the limit itself still fits: <=, not <; and "utf-16" begins with a mark': _exclude_the_limit,
            "that counts characters; 𝄞 is one character and two units": _count_characters,
            "that counts bytes of UTF-8; ü is two bytes and one unit": _count_utf8_bytes,
        },
    ),
    Exercise(
        "commit_error",
        _commit_error,
        COMMIT_ERROR,
        (
            "Sort the errors by what the client should do: try again later, look for another coordinator, or give up.",
            "An error that the table does not name is returned unchanged. This includes NONE.",
        ),
        cases=tuple(
            (name,)
            for name in (
                "NONE",
                "NOT_ENOUGH_REPLICAS",
                "NOT_LEADER_OR_FOLLOWER",
                "MESSAGE_TOO_LARGE",
                "REQUEST_TIMED_OUT",
                "UNKNOWN_TOPIC_OR_PARTITION",
                "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
                "KAFKA_STORAGE_ERROR",
                "RECORD_LIST_TOO_LARGE",
                "INVALID_FETCH_SIZE",
                "NETWORK_EXCEPTION",
                "INVALID_PRODUCER_EPOCH",
            )
        ),
        known_mistakes={
            "that is the log's error; the client would think that its own partition failed": lambda error: error,
            "that is the answer if a *group's* record cannot be appended": _convert_as_group_append,
            "a broker that is no longer the leader will refuse again: the client must look for another": _with_errors(
                NOT_LEADER_OR_FOLLOWER="COORDINATOR_NOT_AVAILABLE", KAFKA_STORAGE_ERROR="COORDINATOR_NOT_AVAILABLE"
            ),
            "a time-out is returned to the client unchanged: it may commit again": _with_errors(
                REQUEST_TIMED_OUT="COORDINATOR_NOT_AVAILABLE"
            ),
            "all three errors that mean too large get the same answer": _with_errors(
                RECORD_LIST_TOO_LARGE="RECORD_LIST_TOO_LARGE", INVALID_FETCH_SIZE="INVALID_FETCH_SIZE"
            ),
        },
    ),
    Exercise(
        "in_flight",
        _in_flight,
        IN_FLIGHT,
        (
            "Keep three things: the cached offset, its place in the log, and the pending offset.",
            '"stored": cache it if something is pending and its place in the log is after that of the cached offset.',
            '"stored" and "failed" clear `pending`, but only if it holds the same offset.',
        ),
        cases=(
            ([("commit", 5), ("stored", 5, 0)],),
            ([("commit", 5)],),
            ([("commit", 5), ("failed", 5)],),
            ([("commit", 5), ("commit", 6), ("stored", 5, 0)],),
            ([("commit", 5), ("commit", 6), ("failed", 5)],),
            ([("commit", 5), ("commit", 6), ("commit", 7), ("stored", 6, 1), ("stored", 5, 0)],),
            ([("commit", 9), ("stored", 9, 0), ("commit", 3), ("stored", 3, 1)],),
            ([("commit", 5), ("stored", 5, 0), ("commit", 6), ("commit", 7), ("failed", 7), ("stored", 6, 1)],),
        ),
        known_mistakes={
            "the commit that is later in the log is newer, no matter which one is answered last": _in_flight_with(
                "last answer wins"
            ),
            "an offset may go back: its position in the log decides, not its size": _in_flight_with(
                "largest offset wins"
            ),
            "an answer clears its own pending entry, not that of a later commit": _in_flight_with(
                "success clears any pending"
            ),
            "a failure removes its own pending entry, not that of a later commit": _in_flight_with(
                "failure clears any pending"
            ),
            "a failed commit is not cached": _in_flight_with("caches failed commits"),
            "pending holds the latest commit": _in_flight_with("keeps the first pending"),
            "the classic coordinator caches a commit only while something is pending": _in_flight_with(
                "ignores pending"
            ),
        },
    ),
)
