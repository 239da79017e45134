"""The exercises of lesson 04: metadata that fits, what a failed append tells the client, two commits in flight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.coordinator.error_codes import Errors, error_of_commit_append, error_of_group_append
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.group_offsets import GroupOffsets
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.records.text import utf16_length

Events = list[tuple[Any, ...]]
State = tuple[int | None, int | None]
_HERE = TopicPartition("orders", 0)


def _fits(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) <= limit


def _commit_error(error: str) -> str:
    return error_of_commit_append(Errors[error], verifies=True).name


def _changed(**other: str) -> Callable[[str], str]:
    return lambda error: other.get(error, _commit_error(error))


def _in_flight(events: Events) -> State:
    offsets, staged = GroupOffsets(), {}
    for what, offset, *place in events:
        if what == "commit":
            staged[offset] = OffsetAndMetadata(offset, "", 0, -1, None, None, -1, -1)
            offsets.prepare({_HERE: staged[offset]})
        elif what == "stored":
            offsets.complete(_HERE, staged[offset], place[0])
        else:
            offsets.fail(_HERE, staged[offset])
    return _number(offsets.committed.get(_HERE)), _number(offsets.pending.get(_HERE))


def _number(there: OffsetAndMetadata | None) -> int | None:
    return None if there is None else there.offset


def _slipped(slip: str) -> Callable[[Events], State]:
    """In flight, right but for one thing."""

    def in_flight(events: Events) -> State:
        cached: tuple[int, int] | None = None
        pending: int | None = None
        for what, offset, *place in events:
            if what == "commit":
                pending = offset if slip != "first stays" or pending is None else pending
            elif what == "stored":
                is_newer = cached is None or cached[0] < place[0]
                if slip == "last answer":
                    is_newer = True
                elif slip == "largest":
                    is_newer = cached is None or cached[1] < offset
                if is_newer and (pending is not None or slip == "no look"):
                    cached = place[0], offset
                if pending == offset or slip == "clears all":
                    pending = None
            else:
                if slip == "failed counts" and pending == offset:
                    cached = 99, offset
                if pending == offset or slip == "fail clears all":
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
    cached, cached_at, pending = None, -1, None
    for what, offset, *place in events:
        if what == "commit":
            pending = offset
        elif what == "stored":
            if pending is not None and cached_at < place[0]:
                cached, cached_at = offset, place[0]
        if what != "commit" and pending == offset:
            pending = None                         # its own entry, nobody else's
    return cached, pending"""


EXERCISES = (
    Exercise(
        "fits",
        _fits,
        FITS,
        (
            "Java counts a text in units of UTF-16: most characters are one, those above U+FFFF, as 𝄞, are two.",
            'metadata.encode("utf-16-le") has two bytes for each unit.',
        ),
        cases=(("till", 4), ("tills", 4), ("", 0), ("ü" * 4, 4), ("𝄞𝄞", 4), ("𝄞𝄞𝄞", 4)),
        known_mistakes={
            'the limit itself still fits: <=, not <; and "utf-16" begins with a mark': lambda metadata, limit: (
                utf16_length(metadata) < limit
            ),
            "that counts characters; 𝄞 is one character and two units": lambda metadata, limit: len(metadata) <= limit,
            "that counts bytes of UTF-8; ü is two bytes and one unit": lambda metadata, limit: (
                len(metadata.encode()) <= limit
            ),
        },
    ),
    Exercise(
        "commit_error",
        _commit_error,
        COMMIT_ERROR,
        (
            "Sort the errors by what the client should do: wait and ask again, look for another coordinator, give up.",
            "What the table does not name goes to the client as it is, NONE too.",
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
            "that is the log's own error; the client would take it for one of its own partition": lambda error: error,
            "that is how errors of a *group's* record are told": lambda error: (
                error_of_group_append(Errors[error]).name
            ),
            "a broker that is not the leader any more will not be: the client must look for another": _changed(
                NOT_LEADER_OR_FOLLOWER="COORDINATOR_NOT_AVAILABLE", KAFKA_STORAGE_ERROR="COORDINATOR_NOT_AVAILABLE"
            ),
            "a time-out goes to the client as it is: it may commit again": _changed(
                REQUEST_TIMED_OUT="COORDINATOR_NOT_AVAILABLE"
            ),
            "all three that say too large are told alike": _changed(
                RECORD_LIST_TOO_LARGE="RECORD_LIST_TOO_LARGE", INVALID_FETCH_SIZE="INVALID_FETCH_SIZE"
            ),
        },
    ),
    Exercise(
        "in_flight",
        _in_flight,
        IN_FLIGHT,
        (
            "Keep three things: what is cached, at which place in the log it stands, what is pending.",
            '"stored": it is cached if something is pending and its place is above that of what is cached.',
            '"stored" and "failed" both clear `pending`, but only if it is that offset.',
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
            "whose record stands later in the log is newer, whoever is answered last": _slipped("last answer"),
            "an offset may go back: its place in the log decides, not its size": _slipped("largest"),
            "an answer clears its own pending entry, not a later commit's": _slipped("clears all"),
            "a failure takes back its own pending entry, not a later commit's": _slipped("fail clears all"),
            "a failed commit does not reach the cache": _slipped("failed counts"),
            "pending holds the latest commit": _slipped("first stays"),
            "the classic coordinator caches only while something is pending, odd as that is": _slipped("no look"),
        },
    ),
)
