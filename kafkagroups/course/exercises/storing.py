"""Exercises of lesson 04: the metadata limit, append errors, two commits in flight.

A commit is in flight from the append of its record until the replicas have the record. During this time, its offset is
pending. Then the offset is cached in the coordinator's memory, from which the coordinator answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.coordinator.error_codes import Errors, convert_commit_append_error, convert_group_append_error
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.group_offsets import GroupOffsets
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.records.text import utf16_length

Events = list[tuple[Any, ...]]
"""Each event is ("commit", offset), ("stored", offset, position in the log) or ("failed", offset).

A "commit" event means that the append of the commit's record begins. The other two events are the results of an append.
"""
CachedAndPending = tuple[int | None, int | None]
"""The cached and the pending offset of one partition."""
_PARTITION = TopicPartition("orders", 0)

# Exercise `fits`: first the correct function, then wrong functions that learners write. They return whether a metadata
# text, which a client commits with an offset, has at most `limit` UTF-16 units. Java stores a character as one or two
# units of 16 bits.


def _check_metadata_length(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) <= limit


def _exclude_the_limit(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) < limit


def _count_characters(metadata: str, limit: int) -> bool:
    return len(metadata) <= limit


def _count_utf8_bytes(metadata: str, limit: int) -> bool:
    return len(metadata.encode()) <= limit


# Exercise `commit_error`: first the correct function, then wrong functions that learners write. The argument is the
# error of the append to the log, and the result is the error that the client of the commit receives.


def _convert_error(error: str) -> str:
    return convert_commit_append_error(Errors[error], verifies_transactions=True).name


def _convert_as_group_append(error: str) -> str:
    return convert_group_append_error(Errors[error]).name


def _make_wrong_commit_error(**wrong_errors: str) -> Callable[[str], str]:
    """Return a function for `commit_error` that is wrong for some errors of the log.

    The keys of `wrong_errors` are these errors, and the values are the wrong results.
    """
    return lambda error: wrong_errors.get(error, _convert_error(error))


# Exercise `in_flight`: first the correct function, then wrong functions that learners write. They return the cached and
# the pending offset of a partition after these events.


def _track_commits(events: Events) -> CachedAndPending:
    offsets = GroupOffsets()
    prepared_commits = {}
    for event_type, offset, *position in events:
        if event_type == "commit":
            prepared_commits[offset] = OffsetAndMetadata(offset, "", 0, -1, None, None, -1, -1)
            offsets.prepare({_PARTITION: prepared_commits[offset]})
        elif event_type == "stored":
            offsets.complete(_PARTITION, prepared_commits[offset], position[0])
        else:
            offsets.drop_pending(_PARTITION, prepared_commits[offset])
    return _get_offset(offsets.committed.get(_PARTITION)), _get_offset(offsets.pending.get(_PARTITION))


def _get_offset(commit: OffsetAndMetadata | None) -> int | None:
    return None if commit is None else commit.offset


def _make_wrong_in_flight(mistake: str) -> Callable[[Events], CachedAndPending]:
    """Return a function for `in_flight` that makes one mistake. `mistake` is one of the texts that it compares."""

    def in_flight(events: Events) -> CachedAndPending:
        # The position in the log and the offset.
        cached: tuple[int, int] | None = None
        pending: int | None = None
        for event_type, offset, *position in events:
            if event_type == "commit":
                if mistake != "keeps the first pending" or pending is None:
                    pending = offset
            elif event_type == "stored":
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
                # A failed commit has no position in the log. 99 is larger than all positions in the cases.
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
    for event, offset, *position in events:
        if event == "commit":
            pending = offset
        elif event == "stored":
            if pending is not None and cached_at < position[0]:
                cached = offset
                cached_at = position[0]
        if event != "commit" and pending == offset:
            pending = None                         # remove only the entry of this commit
    return cached, pending"""

EXERCISES = (
    Exercise(
        "fits",
        _check_metadata_length,
        FITS,
        (
            "Java counts UTF-16 units: most characters are one unit. Characters above U+FFFF (𝄞) are two.",
            'metadata.encode("utf-16-le") has two bytes for each unit.',
        ),
        cases=(("till", 4), ("tills", 4), ("", 0), ("ü" * 4, 4), ("𝄞𝄞", 4), ("𝄞𝄞𝄞", 4)),
        known_mistakes={
            'exactly `limit` units still fit: <=, not <. And "utf-16" adds a byte order mark': _exclude_the_limit,
            "your function counts characters; 𝄞 is one character and two units": _count_characters,
            "your function counts UTF-8 bytes; ü is two bytes and one unit": _count_utf8_bytes,
        },
    ),
    Exercise(
        "commit_error",
        _convert_error,
        COMMIT_ERROR,
        (
            "Sort the errors by what the client should do: try again later, look for another coordinator, or give up.",
            "Return an error unchanged if the table does not contain it. NONE is one of these errors.",
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
            "that is the log's error; a client would conclude that its own partition failed": lambda error: error,
            "that is the answer if the append of a group's record fails": _convert_as_group_append,
            "this broker is no longer the leader: the client must find another broker": _make_wrong_commit_error(
                NOT_LEADER_OR_FOLLOWER="COORDINATOR_NOT_AVAILABLE", KAFKA_STORAGE_ERROR="COORDINATOR_NOT_AVAILABLE"
            ),
            "a time-out is returned unchanged: the client may commit again": _make_wrong_commit_error(
                REQUEST_TIMED_OUT="COORDINATOR_NOT_AVAILABLE"
            ),
            "all three errors for too large records get the same answer": _make_wrong_commit_error(
                RECORD_LIST_TOO_LARGE="RECORD_LIST_TOO_LARGE", INVALID_FETCH_SIZE="INVALID_FETCH_SIZE"
            ),
        },
    ),
    Exercise(
        "in_flight",
        _track_commits,
        IN_FLIGHT,
        (
            "Keep three variables: the cached offset, its position in the log, and the pending offset.",
            '"stored": cache the offset if an offset is pending and the position is above the cached one.',
            '"stored" and "failed" clear `pending`, but only if `pending` is the same offset.',
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
            "the commit that is later in the log is newer, even if it is answered first": _make_wrong_in_flight(
                "last answer wins"
            ),
            "a newer offset may be smaller: its position in the log decides, not its value": _make_wrong_in_flight(
                "largest offset wins"
            ),
            "an answer clears the pending entry of its own commit, not of a later commit": _make_wrong_in_flight(
                "success clears any pending"
            ),
            "a failure removes the pending entry of its own commit, not of a later commit": _make_wrong_in_flight(
                "failure clears any pending"
            ),
            "a failed commit is not cached": _make_wrong_in_flight("caches failed commits"),
            "pending holds the latest commit": _make_wrong_in_flight("keeps the first pending"),
            "the classic coordinator caches a commit only while an offset is pending": _make_wrong_in_flight(
                "ignores pending"
            ),
        },
    ),
)
