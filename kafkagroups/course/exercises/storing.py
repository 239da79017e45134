"""The exercises of lesson 04."""

from __future__ import annotations

from collections.abc import Callable

from kafkagroups.coordinator.error_codes import Errors, convert_event_error
from kafkagroups.course.exercises.exercise import Exercise

# Exercise `commit_error`: which error does the client of a commit receive from Kafka 4.x if the append failed?
# `_convert_error` is correct. `_make_wrong_commit_error` makes mistakes of learners.
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


def _convert_error(append_error: str) -> str:
    return convert_event_error(Errors[append_error]).name


def _make_wrong_commit_error(**wrong_errors: str) -> Callable[[str], str]:
    return lambda append_error: wrong_errors.get(append_error, _convert_error(append_error))


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
            "If the table does not contain an error, return the same error.",
        ),
        cases=tuple((name,) for name in _APPEND_ERRORS),
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
        name="after_the_crash",
        correct=(6, 6, None, 5, None),
        solution="after_the_crash = (6, 6, None, 5, None)   # an error does not undo a record",
        hints=(
            "Ask for each line: who has the record of 6? The next broker loads its copy of the log, and nothing else.",
            "What the client knows changes nothing. In the lines 3 and 5, the record is in one log for certain, and "
            "perhaps in the copy.",
        ),
        known_mistakes={
            "Line 2: the replicas have the record, so the next broker has it. The answer to the client adds nothing": (
                (6, None, None, 5, None)
            ),
            "Line 3: a replica may have copied the record before the crash, although it has not confirmed it": (
                (6, 6, 5, 5, None)
            ),
            "Line 3: the record is only in the log of the broker that died. The copies may lack it": (
                (6, 6, 6, 5, None)
            ),
            "Line 4: the log refused the batch, so no log has the record": (6, 6, None, None, None),
            "Line 5: the error does not remove the record from the log. A copy may have it": (6, 6, None, 5, 5),
            "Line 5: a time-out means that the replicas had not confirmed the record. The copies may lack it": (
                (6, 6, None, 5, 6)
            ),
            "Lines 3 and 5: no answer and an error prove nothing. A copy of the log may have the record": (
                (6, 6, 5, 5, 5)
            ),
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
