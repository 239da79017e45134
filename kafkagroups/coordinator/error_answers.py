"""Every error of the coordinators: which request answers it, when, and what a client and an operator should do.

`CLASSIC_ERRORS` are the errors of the classic coordinator, which this package runs. `NEW_PROTOCOL_ERRORS` are the
errors that only the new coordinator answers, as brokers of 4.3.1 and 4.4.0 answered them. The sentences about clients
describe the Java consumer; other clients may do something else.
Source: GroupCoordinator.scala, GroupMetadataManager.scala, KafkaApis.scala (3.9); AbstractCoordinator.java,
ConsumerCoordinator.java (3.9); conversations with 4.3.1 and 4.4.0.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.coordinator.error_codes import Errors

_MEMBER_REQUESTS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")
_COMMITS = ("OffsetCommit", "TxnOffsetCommit")
_GROUP_REQUESTS = ("DescribeGroups", "DeleteGroups", "OffsetDelete")
_WITHOUT_SYNC_AND_HEARTBEAT = ("JoinGroup", "LeaveGroup", *_COMMITS, "OffsetFetch", *_GROUP_REQUESTS)
_ALL_ABOUT_GROUPS = (*_MEMBER_REQUESTS, *_COMMITS, "OffsetFetch", *_GROUP_REQUESTS)


class Answer(NamedTuple):
    """The requests that answer an error, and when they answer it."""

    requests: tuple[str, ...]
    when: str


class ErrorEntry(NamedTuple):
    """An error with its answers. `client` and `operator` say what to do.

    If `answers` is empty, no client gets the error: an append ends with it, and the coordinator answers another error.
    """

    answers: tuple[Answer, ...]
    client: str
    operator: str


_RETRY = "The consumer repeats the request."
_FIND_AGAIN = "The consumer asks for the group's coordinator, and repeats the request."
_FIX_PROGRAM = "Change the program or its configuration."
_APPEND_ONLY = "No client gets this error."

CLASSIC_ERRORS: dict[Errors, ErrorEntry] = {
    Errors.UNKNOWN_SERVER_ERROR: ErrorEntry(
        (
            Answer(
                ("JoinGroup", "SyncGroup"), "The group's record is too large for the log, so the append is refused."
            ),
            Answer(("JoinGroup",), "A static member joins with a member id that was given to a dynamic member."),
            Answer(("DescribeGroups",), "The group is Stable and has no protocol, which no broker writes."),
        ),
        "The consumer throws an exception. Close it, and start it again.",
        "If the group has many members with large subscriptions, raise max.message.bytes of `__consumer_offsets`. "
        "Otherwise read the stack trace in the broker's log.",
    ),
    Errors.NONE: ErrorEntry(
        (
            Answer((*_ALL_ABOUT_GROUPS, "ListGroups", "FindCoordinator"), "The request succeeded."),
            Answer(("Heartbeat",), "The group's partition is being loaded. The member is not checked."),
            Answer(("OffsetFetch",), "No offset is stored. The answer then has the offset −1."),
            Answer(("DescribeGroups",), "The group does not exist. The answer then has the state Dead."),
        ),
        "If a fetched offset is −1, the consumer applies auto.offset.reset.",
        "Nothing.",
    ),
    Errors.UNKNOWN_TOPIC_OR_PARTITION: ErrorEntry(
        (
            Answer((*_COMMITS, "OffsetDelete"), "The topic or the partition does not exist."),
            Answer(("OffsetFetch",), "Version 0 only: the topic does not exist, or no offset is stored."),
        ),
        "The consumer repeats the commit until its timeout. Check the name of the topic.",
        "Check whether the topic was deleted, or whether the broker's metadata is old.",
    ),
    Errors.INVALID_FETCH_SIZE: ErrorEntry((), _APPEND_ONLY, "Check max.message.bytes of `__consumer_offsets`."),
    Errors.NOT_LEADER_OR_FOLLOWER: ErrorEntry((), _APPEND_ONLY, "Nothing: another broker has become the leader."),
    Errors.REQUEST_TIMED_OUT: ErrorEntry(
        (Answer(_COMMITS, "The replicas did not store the commit in time. The commit may still be in the log."),),
        "The consumer asks for the coordinator again and repeats the commit. Do not assume that the commit is lost.",
        "Check the replicas of the partition: a slow disk, a slow network, or a broker that is down.",
    ),
    Errors.MESSAGE_TOO_LARGE: ErrorEntry((), _APPEND_ONLY, "Raise max.message.bytes of `__consumer_offsets`."),
    Errors.OFFSET_METADATA_TOO_LARGE: ErrorEntry(
        (Answer(_COMMITS, "The metadata of this partition's offset is longer than offset.metadata.max.bytes."),),
        "Shorten the metadata. The other partitions of the commit are stored.",
        "Raise offset.metadata.max.bytes only if the application really needs long metadata.",
    ),
    Errors.NETWORK_EXCEPTION: ErrorEntry((), _APPEND_ONLY, "Check the transaction coordinator's broker."),
    Errors.COORDINATOR_LOAD_IN_PROGRESS: ErrorEntry(
        (
            Answer(_WITHOUT_SYNC_AND_HEARTBEAT, "The group's partition is being loaded."),
            Answer(("ListGroups",), "A partition is being loaded. The groups that are already loaded are listed."),
            Answer(_COMMITS, "The append of the commit ends with NETWORK_EXCEPTION (since 3.7)."),
        ),
        _RETRY,
        "Wait. If it lasts for minutes, read `kafkagroups stats`: the partition may be too large.",
    ),
    Errors.COORDINATOR_NOT_AVAILABLE: ErrorEntry(
        (
            Answer((*_ALL_ABOUT_GROUPS, "ListGroups"), "The coordinator is shutting down."),
            Answer((*_MEMBER_REQUESTS, *_COMMITS), "The group is Dead (since 2.3)."),
            Answer(("JoinGroup", "SyncGroup", *_COMMITS), "The partition has too few replicas in sync for an append."),
            Answer(("FindCoordinator",), "The group's partition has no leader."),
        ),
        _FIND_AGAIN,
        "If it lasts, check the leader and the replicas in sync of the group's partition.",
    ),
    Errors.NOT_COORDINATOR: ErrorEntry(
        (
            Answer(_ALL_ABOUT_GROUPS, "Another broker is the coordinator, or the partition has moved away."),
            Answer(("JoinGroup", "SyncGroup"), "The partition moves to another broker while the member waits."),
            Answer(
                ("JoinGroup", "SyncGroup", *_COMMITS), "The broker is no longer the leader, or its disk has failed."
            ),
        ),
        _FIND_AGAIN,
        "If it lasts, the partition probably does not load: run `kafkagroups check`.",
    ),
    Errors.RECORD_LIST_TOO_LARGE: ErrorEntry((), _APPEND_ONLY, "Check segment.bytes of `__consumer_offsets`."),
    Errors.NOT_ENOUGH_REPLICAS: ErrorEntry(
        (), _APPEND_ONLY, "Start the missing replicas, or check min.insync.replicas."
    ),
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorEntry(
        (), _APPEND_ONLY, "Start the missing replicas. The batch is in the leader's log, although the append failed."
    ),
    Errors.ILLEGAL_GENERATION: ErrorEntry(
        (
            Answer(
                ("SyncGroup", "Heartbeat", *_COMMITS), "The generation in the request is not the group's generation."
            ),
            Answer(("OffsetCommit",), "The group does not exist, and the commit has a generation."),
        ),
        "The consumer joins again. A commit throws CommitFailedException: another member may read the same records.",
        "Look for members that process longer than max.poll.interval.ms.",
    ),
    Errors.INCONSISTENT_GROUP_PROTOCOL: ErrorEntry(
        (
            Answer(("JoinGroup",), "The member has another protocol type, or no assignor that all members support."),
            Answer(("SyncGroup",), "The request names another protocol type or protocol than the group has."),
        ),
        "Configure an assignor that all members of the group have.",
        "Check whether two different applications use the same group id.",
    ),
    Errors.INVALID_GROUP_ID: ErrorEntry(
        (
            Answer((*_MEMBER_REQUESTS, "TxnOffsetCommit", "OffsetDelete"), "The group id is empty."),
            Answer(("JoinGroup",), "Before 2.0, only JoinGroup checks the group id."),
        ),
        "Set group.id.",
        _FIX_PROGRAM,
    ),
    Errors.UNKNOWN_MEMBER_ID: ErrorEntry(
        (
            Answer(
                (*_MEMBER_REQUESTS, *_COMMITS), "The group has no member with this id, for example after a timeout."
            ),
            Answer(("OffsetCommit",), "A client that is not a member commits, and the group is not Empty."),
            Answer(("JoinGroup",), "The member is removed while its JoinGroup waits (since 2.2)."),
            Answer((*_MEMBER_REQUESTS, *_COMMITS), "Before 2.3: the group is Dead."),
        ),
        "The consumer joins again as a new member. A commit throws CommitFailedException.",
        "Look for members whose session times out, and for programs that commit for an active group.",
    ),
    Errors.INVALID_SESSION_TIMEOUT: ErrorEntry(
        (
            Answer(
                ("JoinGroup",),
                "The session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms.",
            ),
        ),
        "Change session.timeout.ms.",
        "Change the limits if the application needs it.",
    ),
    Errors.REBALANCE_IN_PROGRESS: ErrorEntry(
        (
            Answer(("Heartbeat",), "The group is PreparingRebalance: the member must join again."),
            Answer(("SyncGroup",), "A new rebalance has begun, or the group's partition is being loaded (since 2.0)."),
            Answer(("OffsetCommit",), "The group is CompletingRebalance: it waits for the leader's assignment."),
            Answer(("JoinGroup", "SyncGroup"), "The append of the group's record timed out."),
        ),
        "The consumer joins again. A commit throws RebalanceInProgressException: call poll, and commit again.",
        "Nothing, unless rebalances never end. Then read `kafkagroups timeline`.",
    ),
    Errors.INVALID_COMMIT_OFFSET_SIZE: ErrorEntry(
        (Answer(_COMMITS, "The batch of the commit is too large for the log."),),
        "Commit fewer partitions in one request, or shorter metadata.",
        "Raise max.message.bytes of `__consumer_offsets`.",
    ),
    Errors.TOPIC_AUTHORIZATION_FAILED: ErrorEntry(
        (Answer((*_COMMITS, "OffsetFetch", "OffsetDelete"), "The client may not read this topic."),),
        "The consumer throws TopicAuthorizationException.",
        "Grant READ on the topic (for a fetch: DESCRIBE).",
    ),
    Errors.GROUP_AUTHORIZATION_FAILED: ErrorEntry(
        (Answer((*_ALL_ABOUT_GROUPS, "FindCoordinator"), "The client may not use this group."),),
        "The consumer throws GroupAuthorizationException.",
        "Grant READ on the group. For OffsetFetch, DescribeGroups and FindCoordinator, grant DESCRIBE. For deletions, "
        "grant DELETE.",
    ),
    Errors.CLUSTER_AUTHORIZATION_FAILED: ErrorEntry(
        (Answer(("ListGroups",), "Before 2.0: the client may not describe the cluster."),),
        _FIX_PROGRAM,
        "Grant DESCRIBE on the cluster. Since 2.0, the answer has only the groups that the client may describe.",
    ),
    Errors.UNSUPPORTED_VERSION: ErrorEntry(
        (Answer(("OffsetCommit", "OffsetFetch"), "Version 0 of the request, and the broker has no ZooKeeper."),),
        "Use a newer client.",
        "Find the old client by its address in the request log.",
    ),
    Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT: ErrorEntry(
        (Answer(("TxnOffsetCommit",), "The partition stores messages in a format before 0.11."),),
        "The producer throws an exception: transactions do not work on this cluster.",
        "Set log.message.format.version to 0.11 or later.",
    ),
    Errors.INVALID_PRODUCER_EPOCH: ErrorEntry(
        (Answer(("TxnOffsetCommit",), "A newer producer has the same transactional id (since 2.5)."),),
        "The producer throws ProducerFencedException. Close it.",
        "Check whether two instances use the same transactional.id.",
    ),
    Errors.INVALID_TXN_STATE: ErrorEntry(
        (
            Answer(
                ("TxnOffsetCommit",),
                "The transaction is not open, and the client or the broker does not support TRANSACTION_ABORTABLE.",
            ),
        ),
        "The producer throws an exception. Close it, and start a new one.",
        "Check transaction.timeout.ms: the coordinator may have aborted the transaction.",
    ),
    Errors.INVALID_PRODUCER_ID_MAPPING: ErrorEntry(
        (
            Answer(
                ("TxnOffsetCommit",), "The transaction coordinator has another producer id for the transactional id."
            ),
        ),
        "The producer throws an exception. Close it, and start a new one.",
        "Check transactional.id.expiration.ms: the transactional id may have expired.",
    ),
    Errors.CONCURRENT_TRANSACTIONS: ErrorEntry(
        (Answer(("TxnOffsetCommit",), "The transaction coordinator still ends the previous transaction (since 3.7)."),),
        _RETRY,
        "Nothing, unless it lasts. Then look for a transaction that hangs.",
    ),
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorEntry(
        (Answer(("TxnOffsetCommit",), "The client may not use this transactional id."),),
        "The producer throws TransactionalIdAuthorizationException.",
        "Grant WRITE on the transactional id.",
    ),
    Errors.KAFKA_STORAGE_ERROR: ErrorEntry((), _APPEND_ONLY, "Replace the disk. Another replica becomes the leader."),
    Errors.NON_EMPTY_GROUP: ErrorEntry(
        (
            Answer(("DeleteGroups",), "The group has members."),
            Answer(("OffsetDelete",), 'The group has members, and its protocol type is not "consumer".'),
        ),
        "Stop all members first.",
        "Wait for the session timeout of the members that have crashed.",
    ),
    Errors.GROUP_ID_NOT_FOUND: ErrorEntry(
        (Answer(("DeleteGroups", "OffsetDelete"), "The group does not exist, or is Dead."),),
        "Check the group id.",
        "The group may already have expired. `kafkagroups timeline` shows when.",
    ),
    Errors.MEMBER_ID_REQUIRED: ErrorEntry(
        (Answer(("JoinGroup",), "A new dynamic member must join again with the member id in the answer (since 2.2)."),),
        "The consumer joins again with this id.",
        "Nothing.",
    ),
    Errors.GROUP_MAX_SIZE_REACHED: ErrorEntry(
        (Answer(("JoinGroup",), "The group already has group.max.size members (since 2.2)."),),
        "The consumer throws an exception. Start fewer members.",
        "Raise group.max.size, or divide the application into several groups.",
    ),
    Errors.FENCED_INSTANCE_ID: ErrorEntry(
        (Answer((*_MEMBER_REQUESTS, *_COMMITS), "Another member has the group.instance.id of the request."),),
        "The consumer throws FencedInstanceIdException. Close it.",
        "Check whether two processes have the same group.instance.id.",
    ),
    Errors.GROUP_SUBSCRIBED_TO_TOPIC: ErrorEntry(
        (Answer(("OffsetDelete",), "A member of the group subscribes to the topic."),),
        "Stop the members, or remove the topic from their subscriptions.",
        "The same.",
    ),
    Errors.UNSTABLE_OFFSET_COMMIT: ErrorEntry(
        (
            Answer(
                ("OffsetFetch",), "A commit of the partition is not finished, and the client asks for stable offsets."
            ),
        ),
        "The consumer fetches again.",
        "If it lasts, a transaction hangs: `kafkagroups stats` names the producer.",
    ),
    Errors.TRANSACTION_ABORTABLE: ErrorEntry(
        (Answer(("TxnOffsetCommit",), "The transaction is not open for this partition (since 3.8)."),),
        "Abort the transaction, and begin a new one.",
        "Check transaction.timeout.ms: the coordinator may have aborted the transaction.",
    ),
}
"""The errors of the classic coordinator, by their code."""


class NewProtocolError(NamedTuple):
    """An error that only the new coordinator answers: its code, its name, its answers, and what to do."""

    code: int
    name: str
    answers: tuple[Answer, ...]
    client: str
    operator: str


_HEARTBEATS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat")
_DESCRIPTIONS = ("ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe", "DescribeGroups")

NEW_PROTOCOL_ERRORS = (
    NewProtocolError(
        25,
        "UNKNOWN_MEMBER_ID",
        (
            Answer(("ConsumerGroupHeartbeat",), "The group has no member with this id or this group.instance.id."),
            Answer(("OffsetFetch",), "The request names a member that the group does not have."),
        ),
        "The consumer joins again with epoch 0.",
        "Look for members whose session times out.",
    ),
    NewProtocolError(
        35,
        "UNSUPPORTED_VERSION",
        (Answer(("OffsetCommit",), "A member with the new protocol commits with version 8 or older."),),
        "Use a newer client.",
        _FIX_PROGRAM,
    ),
    NewProtocolError(
        42,
        "INVALID_REQUEST",
        (Answer(_HEARTBEATS, "A field has a value that is not allowed, for example an empty group id."),),
        "This is a bug in the client. Read the error message.",
        _FIX_PROGRAM,
    ),
    NewProtocolError(
        69,
        "GROUP_ID_NOT_FOUND",
        (
            Answer(
                ("ConsumerGroupHeartbeat",),
                "The group does not exist, has another type, or cannot be upgraded (the message has the reason).",
            ),
            Answer(_DESCRIPTIONS, "The group does not exist, or has another type."),
            Answer(("OffsetCommit",), "The group does not exist and the commit has an epoch, or it is a share group."),
        ),
        "Check group.protocol and the group id.",
        "Read the error message. group.consumer.migration.policy decides whether a group can be upgraded.",
    ),
    NewProtocolError(
        81,
        "GROUP_MAX_SIZE_REACHED",
        (Answer(_HEARTBEATS, "The group already has group.consumer.max.size or group.share.max.size members."),),
        "Start fewer members.",
        "Raise the limit, or divide the application into several groups.",
    ),
    NewProtocolError(
        82,
        "FENCED_INSTANCE_ID",
        (Answer(("ConsumerGroupHeartbeat",), "Another member has the group.instance.id of the request."),),
        "The consumer throws an exception. Close it.",
        "Check whether two processes have the same group.instance.id.",
    ),
    NewProtocolError(
        100,
        "UNKNOWN_TOPIC_ID",
        (Answer(("OffsetCommit", "OffsetFetch"), "Version 10: no topic has this id."),),
        "Load new metadata, and use the new id.",
        "Check whether the topic was deleted and created again.",
    ),
    NewProtocolError(
        110,
        "FENCED_MEMBER_EPOCH",
        (Answer(_HEARTBEATS, "The member's epoch is greater than the coordinator's, or too old."),),
        "The consumer gives its partitions up, and joins again with epoch 0.",
        "Nothing, unless it repeats.",
    ),
    NewProtocolError(
        111,
        "UNRELEASED_INSTANCE_ID",
        (Answer(("ConsumerGroupHeartbeat",), "A member that has not left has the group.instance.id of the request."),),
        "Close the other process first.",
        "Wait for the session timeout of a process that has crashed.",
    ),
    NewProtocolError(
        112,
        "UNSUPPORTED_ASSIGNOR",
        (Answer(("ConsumerGroupHeartbeat",), "The broker does not have the assignor in group.remote.assignor."),),
        "Configure one of the assignors in the error message.",
        "group.consumer.assignors lists the assignors of the broker.",
    ),
    NewProtocolError(
        113,
        "STALE_MEMBER_EPOCH",
        (Answer(("OffsetCommit", "OffsetFetch"), "The request does not have the member's current epoch."),),
        "The consumer repeats the request with its new epoch.",
        "Nothing, unless it repeats.",
    ),
    NewProtocolError(
        128,
        "INVALID_REGULAR_EXPRESSION",
        (Answer(("ConsumerGroupHeartbeat",), "RE2J cannot read the pattern of the subscription."),),
        "Correct the pattern. RE2J has no look-ahead and no back references.",
        _FIX_PROGRAM,
    ),
)
"""The errors of the requests that only the new coordinator has, and those that only it adds to older requests."""
