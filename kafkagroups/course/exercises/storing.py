"""Exercises of lesson 04: append errors, commits in flight, a commit that is sent again.

A commit is in flight, and its offset is pending, from the append of its record until the replicas have the record. Then
the offset is cached, and the coordinator answers an OffsetFetch with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.classic_group import GroupOffsets
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition

Events = list[tuple[Any, ...]]
"""("commit", offset) when the append of the commit's record begins, then ("stored", offset, position in the log) if it
succeeded, or ("failed", offset).
"""
CachedAndPending = tuple[int | None, int | None]
"""The cached and the pending offset of one partition, or None."""
_PARTITION = TopicPartition("orders", 0)

# Exercise `commit_error`: which error does the client of a commit receive if the append failed? `append_error` is the
# error of the append.
# `_convert_error` is correct. The functions after it contain mistakes of learners.

# Source: CoordinatorOperationExceptionHelper.handleOperationException (4.3). The package's coordinator has the rules of
# the classic coordinator, which differ for a time-out and for a batch that is too large.
_CLIENT_ERROR_BY_APPEND_ERROR = {
    "UNKNOWN_TOPIC_OR_PARTITION": "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT": "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
    "KAFKA_STORAGE_ERROR": "NOT_COORDINATOR",
    "MESSAGE_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "RECORD_LIST_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "INVALID_FETCH_SIZE": "UNKNOWN_SERVER_ERROR",
}


def _convert_error(append_error: str) -> str:
    return _CLIENT_ERROR_BY_APPEND_ERROR.get(append_error, append_error)


def _make_wrong_commit_error(**wrong_errors: str) -> Callable[[str], str]:
    return lambda append_error: wrong_errors.get(append_error, _convert_error(append_error))


# Exercise `cached_and_pending`: which offsets of a partition are cached and pending after these events?


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


_EVENTS: Events = [
    ("commit", 5),
    ("stored", 5, 0),
    ("commit", 6),
    ("commit", 7),
    ("failed", 7),
    ("commit", 8),
    ("stored", 6, 1),
]

_COMMIT_ERROR_SOLUTION = """\
def commit_error(append_error):
    if append_error in ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"):
        return "COORDINATOR_NOT_AVAILABLE"
    if append_error in ("NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"):
        return "NOT_COORDINATOR"
    if append_error in ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_FETCH_SIZE"):
        return "UNKNOWN_SERVER_ERROR"
    return append_error"""

EXERCISES = (
    Exercise(
        name="commit_error",
        correct=_convert_error,
        solution=_COMMIT_ERROR_SOLUTION,
        hints=(
            "Ask for each error: may this broker store the commit later? If not, can another broker store it?",
            "Two of the errors say that another broker must take over. Three of them never go away.",
            "If the table does not contain an error, return the same error. The table does not contain NONE.",
        ),
        cases=tuple((name,) for name in ("NONE", *_CLIENT_ERROR_BY_APPEND_ERROR, "INVALID_PRODUCER_EPOCH")),
        known_mistakes={
            "convert the append error: the client would relate the append error to its own topic": lambda error: error,
            "this broker gives up the partition, so the client must find another broker": _make_wrong_commit_error(
                NOT_LEADER_OR_FOLLOWER="COORDINATOR_NOT_AVAILABLE", KAFKA_STORAGE_ERROR="COORDINATOR_NOT_AVAILABLE"
            ),
            "only the storage error is left: a broker whose disk has failed gives up the partition": (
                _make_wrong_commit_error(KAFKA_STORAGE_ERROR="COORDINATOR_NOT_AVAILABLE")
            ),
            "after a time-out, the client waits and commits again: COORDINATOR_NOT_AVAILABLE": _make_wrong_commit_error(
                REQUEST_TIMED_OUT="REQUEST_TIMED_OUT"
            ),
            "all three errors of batches that are too large become UNKNOWN_SERVER_ERROR": _make_wrong_commit_error(
                RECORD_LIST_TOO_LARGE="RECORD_LIST_TOO_LARGE", INVALID_FETCH_SIZE="INVALID_FETCH_SIZE"
            ),
        },
    ),
    Exercise(
        name="cached_and_pending",
        correct=_track_commits(_EVENTS),
        solution="cached_and_pending = (6, 8)   # `pending` has 8 when 6 is confirmed, so 6 is cached",
        hints=(
            "Write both values after each event. After the failure of 7, nothing is pending.",
            "When the replicas have 6, 8 is pending. So `pending` is not empty, and 6 is later in the log than 5.",
        ),
        known_mistakes={
            "When the replicas have 6, `pending` is not empty: it has 8. So 6 is cached": (5, 8),
            "The confirmation of 6 empties `pending` only if 6 is in it. 8 stays pending": (6, None),
            "The replicas do not have 8 yet. It is only pending": (8, None),
            "Commit 7 replaced 6 in `pending`, and later commit 8 arrived. So 8 is pending": (6, 6),
            "Only the failure of 7 empties `pending`. After that, commit 8 arrives": (5, None),
            "7 has failed, so it is never cached": (7, 8),
        },
    ),
    Exercise(
        name="commit_again",
        correct="B",
        solution='commit_again = "B"   # an offset may go back, and the later record is newer',
        hints=(
            "Which record is the last one in the log?",
            "A coordinator does not compare the offset of a commit with the offset before.",
        ),
        known_mistakes={
            "The larger offset does not win. The later record wins": "A",
            "A coordinator accepts an offset that goes back. Otherwise, nobody could reset a group": "C",
        },
    ),
)
