"""Exercises of lesson 04: the metadata limit, append errors, two commits in flight.

A commit is in flight from the append of its record until the replicas have the record. While the commit is in flight,
its offset is pending. When the replicas have the record, the offset is cached. A coordinator answers an OffsetFetch
with the cached offset.

Each key of `known_mistakes` is the correction that the learner sees. Its value is the wrong answer.
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

At a "commit" event, the append of the commit's record begins. A "stored" event means that the append succeeded, and a
"failed" event means that the append failed.
"""
CachedAndPending = tuple[int | None, int | None]
"""The cached offset and the pending offset of one partition. None: no offset is cached, or no offset is pending."""
_PARTITION = TopicPartition("orders", 0)

# Exercise `fits`: may a client commit this text as metadata? The text must have at most `limit` UTF-16 units. Java
# stores a character as one or two of these units.
# `_check_metadata_length` is correct. The functions after it contain mistakes of learners.


def _check_metadata_length(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) <= limit


def _exclude_the_limit(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) < limit


def _count_characters(metadata: str, limit: int) -> bool:
    return len(metadata) <= limit


def _count_utf8_bytes(metadata: str, limit: int) -> bool:
    return len(metadata.encode()) <= limit


# Exercise `commit_error`: which error does the client of a commit receive if the append failed? `append_error` is the
# error of the append.
# `_convert_error` is correct. The functions after it contain mistakes of learners.


def _convert_error(append_error: str) -> str:
    # Since Kafka 3.6, a broker verifies transactions. Network errors are converted only since then.
    return convert_commit_append_error(Errors[append_error], verifies_transactions=True).name


def _convert_as_group_append(append_error: str) -> str:
    return convert_group_append_error(Errors[append_error]).name


def _make_wrong_commit_error(**wrong_errors: str) -> Callable[[str], str]:
    """Return a function for `commit_error` that is wrong for some errors of the append.

    The keys of `wrong_errors` are append errors. The values are the wrong results.
    """
    return lambda append_error: wrong_errors.get(append_error, _convert_error(append_error))


# Exercise `in_flight`: which offsets of a partition are cached and pending after these events?
# `_track_commits` is correct. The functions after it contain mistakes of learners, or are helpers.


def _track_commits(events: Events) -> CachedAndPending:
    offsets = GroupOffsets()
    commits = {}
    for event_type, offset, *positions in events:
        if event_type == "commit":
            commits[offset] = OffsetAndMetadata(
                offset=offset,
                metadata="",
                commit_timestamp=0,
                leader_epoch=-1,
                expire_timestamp=None,
                topic_id=None,
                record_offset=-1,
                batch_offset=-1,
            )
            offsets.prepare({_PARTITION: commits[offset]})
        elif event_type == "stored":
            [position] = positions
            offsets.complete(_PARTITION, commits[offset], position)
        else:
            offsets.drop_pending(_PARTITION, commits[offset])
    return _get_offset(offsets.committed.get(_PARTITION)), _get_offset(offsets.pending.get(_PARTITION))


def _get_offset(commit: OffsetAndMetadata | None) -> int | None:
    return None if commit is None else commit.offset


def _make_wrong_in_flight(mistake: str) -> Callable[[Events], CachedAndPending]:
    """Return a function for `in_flight` that contains the mistake `mistake`.

    The possible values of `mistake` are the texts in the conditions below.
    """

    def in_flight(events: Events) -> CachedAndPending:
        cached_offset: int | None = None
        cached_position = -1
        pending: int | None = None
        for event_type, offset, *positions in events:
            if event_type == "commit":
                if pending is None or mistake != "keeps the first pending":
                    pending = offset
            elif event_type == "stored":
                [position] = positions
                is_newer = cached_position < position
                if mistake == "last answer wins":
                    is_newer = True
                elif mistake == "largest offset wins":
                    is_newer = cached_offset is None or cached_offset < offset
                may_cache = pending is not None or mistake == "ignores pending"
                if is_newer and may_cache:
                    cached_offset = offset
                    cached_position = position
                if pending == offset or mistake == "success clears any pending":
                    pending = None
            else:
                if pending == offset and mistake == "caches failed commits":
                    # A failed commit has no position in the log. 99 is larger than all positions in the cases.
                    cached_offset = offset
                    cached_position = 99
                if pending == offset or mistake == "failure clears any pending":
                    pending = None
        return cached_offset, pending

    return in_flight


_FITS_SOLUTION = """\
def fits(metadata, limit):
    return len(metadata.encode("utf-16-le")) // 2 <= limit"""

_COMMIT_ERROR_SOLUTION = """\
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

_IN_FLIGHT_SOLUTION = """\
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
        name="fits",
        correct=_check_metadata_length,
        solution=_FITS_SOLUTION,
        hints=(
            "Java counts UTF-16 units. Most characters have one unit. A character above U+FFFF, such as 𝄞, has two.",
            'metadata.encode("utf-16-le") has two bytes for each unit.',
        ),
        cases=(("till", 4), ("tills", 4), ("", 0), ("ü" * 4, 4), ("𝄞𝄞", 4), ("𝄞𝄞𝄞", 4)),
        known_mistakes={
            'a text of exactly `limit` units fits: use <=, not <. Use "utf-16-le", because "utf-16" adds a mark': (
                _exclude_the_limit
            ),
            "your function counts characters; 𝄞 is one character, but it has two units": _count_characters,
            "your function counts UTF-8 bytes; ü has two bytes, but only one unit": _count_utf8_bytes,
        },
    ),
    Exercise(
        name="commit_error",
        correct=_convert_error,
        solution=_COMMIT_ERROR_SOLUTION,
        hints=(
            "Sort the errors by what the client should do: try again later, look for another coordinator, or give up.",
            "If the table does not contain an error, return the same error. The table does not contain NONE.",
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
            "convert the append error: the client would relate the append error to its own topic": lambda error: error,
            "your function returns the error for the append of a group record": _convert_as_group_append,
            "this broker is no longer the leader: the client must find another broker": _make_wrong_commit_error(
                NOT_LEADER_OR_FOLLOWER="COORDINATOR_NOT_AVAILABLE", KAFKA_STORAGE_ERROR="COORDINATOR_NOT_AVAILABLE"
            ),
            "REQUEST_TIMED_OUT does not change: the client may commit again": _make_wrong_commit_error(
                REQUEST_TIMED_OUT="COORDINATOR_NOT_AVAILABLE"
            ),
            "all three errors of too large appends become INVALID_COMMIT_OFFSET_SIZE": _make_wrong_commit_error(
                RECORD_LIST_TOO_LARGE="RECORD_LIST_TOO_LARGE", INVALID_FETCH_SIZE="INVALID_FETCH_SIZE"
            ),
        },
    ),
    Exercise(
        name="in_flight",
        correct=_track_commits,
        solution=_IN_FLIGHT_SOLUTION,
        hints=(
            "Keep three variables: the cached offset, its position in the log, and the pending offset.",
            '"stored": cache the offset if an offset is pending and the cached offset has a smaller position.',
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
            "the commit with the larger position is newer, even if its event comes first": _make_wrong_in_flight(
                "last answer wins"
            ),
            "a newer offset may be smaller: the position in the log decides, not the offset": _make_wrong_in_flight(
                "largest offset wins"
            ),
            "a stored commit clears only its own pending offset, not that of a later commit": _make_wrong_in_flight(
                "success clears any pending"
            ),
            "a failed commit clears only its own pending offset, not that of a later commit": _make_wrong_in_flight(
                "failure clears any pending"
            ),
            "a failed commit is not cached": _make_wrong_in_flight("caches failed commits"),
            "the pending offset is the offset of the latest commit": _make_wrong_in_flight("keeps the first pending"),
            "the classic coordinator caches a commit only while an offset is pending": _make_wrong_in_flight(
                "ignores pending"
            ),
        },
    ),
)
