"""Kafka's error codes, the refusal of a request, and the code that clients get if an append fails.

Source: Errors.java (3.9).
"""

from __future__ import annotations

from enum import IntEnum


class Errors(IntEnum):
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128


_TOO_LARGE_ERRORS = (Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE, Errors.INVALID_FETCH_SIZE)
_COMMIT_ERRORS = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    **dict.fromkeys(_TOO_LARGE_ERRORS, Errors.INVALID_COMMIT_OFFSET_SIZE),
}
_GROUP_ERRORS = {
    **_COMMIT_ERRORS,
    **dict.fromkeys(_TOO_LARGE_ERRORS, Errors.UNKNOWN_SERVER_ERROR),
    Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS,
}
_EVENT_ERRORS = {
    **_GROUP_ERRORS,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NETWORK_EXCEPTION: Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}


def convert_group_append_error(error: Errors) -> Errors:
    """Return the error that members get if the append of their group's record ends with `error`.

    Source: GroupMetadataManager.storeGroup (3.9).
    """
    return _GROUP_ERRORS.get(error, error)


def convert_commit_append_error(error: Errors, *, verifies_transactions: bool) -> Errors:
    """Return the error that a client gets if the append of its commit ends with `error`.

    If `verifies_transactions`, the broker asks the transaction coordinator whether a transaction is open (since 3.7).
    If that does not answer, `error` is NETWORK_EXCEPTION, and the client must send the commit again.
    Source: GroupMetadataManager.maybeConvertOffsetCommitError (3.9).
    """
    if error is Errors.NETWORK_EXCEPTION and verifies_transactions:
        return Errors.COORDINATOR_LOAD_IN_PROGRESS
    return _COMMIT_ERRORS.get(error, error)


def convert_event_error(error: Errors) -> Errors:
    """Return the error that a client of the new coordinator gets if its request ends with `error`.

    Source: CoordinatorOperationExceptionHelper.handleOperationException,
    GroupMetadataManager.appendGroupMetadataErrorToResponseError (4.3.1).
    """
    return _EVENT_ERRORS.get(error, error)


def convert_heartbeat_error(error: Errors, message: str | None = None) -> Errors:
    """Return the answer to a Heartbeat that ends with `error`: during a load NONE, because no member is known yet.

    Source: GroupCoordinator.handleHeartbeat (3.9), GroupCoordinatorService.heartbeat (4.3.1).
    """
    return Errors.NONE if error is Errors.COORDINATOR_LOAD_IN_PROGRESS else error


class Refusal(Exception):
    """A request is refused: nothing is written, and the client gets the error and the text; None: only the error."""

    def __init__(self, error: Errors, message: str | None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message
