"""What a coordinator does, by event: what changes in its memory and in the log, and what clients get.

The coordinator answers requests from its memory. It reads the log only in a load. So after an event, the memory and the
log can differ, until the next load.

The classic coordinator first notes a commit as pending, then appends it, and changes its memory when the append is
confirmed. The new coordinator replays the record in its memory immediately, but answers and shows it only when the
append is confirmed.

Below each table are the places in Kafka's code, and the tests in `tests/` that show the event. Tests in `broker/` start
real brokers. *Not recorded* means that we have no test and no recording of it.
Source: GroupCoordinator.scala, GroupMetadataManager.scala (3.9); CoordinatorRuntime.java, GroupMetadataManager.java,
OffsetMetadataManager.java (4.3.1); conversations and runs with brokers of 3.9.2 and 4.3.1.
"""

from __future__ import annotations

from typing import NamedTuple


class Reaction(NamedTuple):
    """What one coordinator does. `shown_by` are tests: `folder/file.py::test`, or a golden script."""

    memory: str
    log: str
    clients: str
    source: str
    shown_by: tuple[str, ...]


class CoordinatorEvent(NamedTuple):
    """An event, and the reactions of both coordinators. None: no test and no recording shows the reaction."""

    title: str
    classic: Reaction
    new: Reaction | None


_GOLDEN = "golden/coordinator"
_RUNNING_NEW = "coordinator/test_running_tombstones.py::test_a_running_new_coordinator_answers_as_a_load_of_its_log"
_FOREIGN = "broker/test_foreign_records.py::test_a_running_coordinator_and_a_record_of_another_program"
_FAILED_APPEND = "broker/test_failed_appends.py::test_a_commit_whose_append_fails_leaves_the_old_offset"
_FAILED_LOAD = "broker/test_failed_load.py::test_a_commit_after_a_failed_load"
_ON_ITS_WAY = "broker/test_commit_on_its_way.py::test_a_fetch_returns_the_old_offset_until_the_commit_is_confirmed"
_CRAFTED = "groups/test_load_crafted.py::test_crafted_logs_load_as_on_that_broker"

COORDINATOR_EVENTS = (
    CoordinatorEvent(
        "Leadership won: the load",
        Reaction(
            "The coordinator collects offsets and group records. It creates the groups after the last record, and "
            "starts the session timers of their members.",
            "It is read from its start to its end. Nothing is written.",
            "COORDINATOR_LOAD_IN_PROGRESS. SyncGroup gets REBALANCE_IN_PROGRESS, and Heartbeat gets NONE.",
            "GroupMetadataManager.doLoadGroupsAndOffsets",
            (
                f"{_GOLDEN}/09_owner.txt",
                _CRAFTED,
                "coordinator/test_membership_rules.py::test_a_crash_keeps_what_is_in_the_record",
            ),
        ),
        Reaction(
            "Each record changes the groups immediately.",
            "It is read from its start to its end. Nothing is written.",
            "OffsetFetch gets COORDINATOR_LOAD_IN_PROGRESS.",
            "CoordinatorLoaderImpl.load",
            (_CRAFTED, _FOREIGN),
        ),
    ),
    CoordinatorEvent(
        "The load fails at a record",
        Reaction(
            "The partition counts as loaded, without its groups.",
            "It does not change. Later commits are appended.",
            "OffsetFetch gets no offset and no error. Commits get NONE.",
            "GroupMetadataManager.loadGroupsAndOffsets",
            (_CRAFTED, _FAILED_LOAD),
        ),
        Reaction(
            "The coordinator has no groups of the partition.",
            "It does not change.",
            "NOT_COORDINATOR, until a load succeeds.",
            "CoordinatorRuntime.CoordinatorContext",
            (_CRAFTED, _FAILED_LOAD),
        ),
    ),
    CoordinatorEvent(
        "A fetch arrives",
        Reaction(
            "It is read, and does not change.",
            "It is not read.",
            "The confirmed offset. With require stable: UNSTABLE_OFFSET_COMMIT if a commit is pending.",
            "GroupMetadataManager.getOffsets",
            (
                "coordinator/test_fetching_rules.py::test_fetching_does_not_read_the_log",
                "coordinator/test_fetching_rules.py::test_a_plain_commit_on_its_way_is_unstable_too",
            ),
        ),
        Reaction(
            "It is read, and does not change.",
            "It is not read.",
            "The confirmed offset. With require stable: UNSTABLE_OFFSET_COMMIT if a transaction has a pending commit.",
            "OffsetMetadataManager.fetchOffsets",
            (_CRAFTED, _FOREIGN),
        ),
    ),
    CoordinatorEvent(
        "The first JoinGroup of a group arrives, without a member id",
        Reaction(
            "An Empty group, with a pending member id.",
            "Nothing is written.",
            "MEMBER_ID_REQUIRED, with the member id.",
            "GroupCoordinator.doDynamicNewMemberJoinGroup",
            (
                "coordinator/test_membership_rules.py::test_a_new_member_is_first_given_its_id",
                "coordinator/test_events.py::test_the_first_join_writes_a_record_in_4_x_only",
            ),
        ),
        Reaction(
            "An Empty group, with a pending member id.",
            "The record of the group, with generation 0 and without members.",
            "MEMBER_ID_REQUIRED, with the member id.",
            "GroupMetadataManager.classicGroupJoin",
            ("coordinator/test_events.py::test_the_first_join_writes_a_record_in_4_x_only",),
        ),
    ),
    CoordinatorEvent(
        "A commit arrives, and its append is not answered yet",
        Reaction(
            "The cache has the old offset. The new one is pending.",
            "The record is appended.",
            "No answer yet. A stable fetch gets UNSTABLE_OFFSET_COMMIT.",
            "GroupMetadataManager.storeOffsets",
            (f"{_GOLDEN}/16_store_offsets.txt", f"{_GOLDEN}/16_store_offsets_in_flight.txt"),
        ),
        Reaction(
            "The new offset is in the memory, but not confirmed. Fetches read the confirmed state.",
            "The record can wait for more records before the batch is appended.",
            "No answer yet. A fetch gets the old offset. A stable fetch waits, and gets the new offset.",
            "CoordinatorRuntime; GroupCoordinatorService.fetchOffsets",
            (_ON_ITS_WAY,),
        ),
    ),
    CoordinatorEvent(
        "The append of a commit is confirmed",
        Reaction(
            "The offset moves from pending to the cache, unless the cache has an offset of a later record.",
            "It does not change.",
            "First the cache has the offset, then the client gets NONE.",
            "GroupMetadataManager.createPutCacheCallback",
            (
                f"{_GOLDEN}/16_store_offsets_in_flight.txt",
                "course/test_storing.py::test_a_commit_is_cached_before_its_client_gets_the_answer",
                "coordinator/test_storing_rules.py::test_the_commit_that_stands_later_in_the_log_counts",
            ),
        ),
        Reaction(
            "The memory has the same offsets as a load of the log.",
            "It does not change.",
            "NONE.",
            "OffsetMetadataManager.replay",
            (_RUNNING_NEW,),
        ),
    ),
    CoordinatorEvent(
        "The append of a commit fails",
        Reaction(
            "The offset is no longer pending. The cache has the old offset.",
            "If the replicas were late, the record is in the log. The next load finds it.",
            "The [translated error](errors.md#errors-of-an-append), for example COORDINATOR_NOT_AVAILABLE.",
            "GroupMetadataManager.createPutCacheCallback",
            (
                f"{_GOLDEN}/16_append_errors.txt",
                "coordinator/test_live_and_loaded.py::test_a_commit_that_failed_though_it_is_in_the_log_counts_later",
                _FAILED_APPEND,
            ),
        ),
        Reaction(
            "The old offset.",
            "A batch that is too large is not written.",
            "Too large: UNKNOWN_SERVER_ERROR (classic: INVALID_COMMIT_OFFSET_SIZE).",
            "CoordinatorRuntime; CoordinatorOperationExceptionHelper",
            (_FAILED_APPEND,),
        ),
    ),
    CoordinatorEvent(
        "DeleteGroups deletes the group while a commit is on its way, then the append is confirmed",
        Reaction(
            "The group is Dead and not in the cache. The cache does not change.",
            "The record is in the log. The next load finds it, if no tombstone for it follows.",
            "The commit gets NONE.",
            "GroupMetadataManager.createPutCacheCallback",
            (
                f"{_GOLDEN}/16_commits_to_a_dead_group.txt",
                "coordinator/test_storing_rules.py::test_a_commit_whose_group_is_dead_when_its_append_is_answered",
            ),
        ),
        Reaction(
            "The requests take effect in their order, so the group is deleted.",
            "A load has no group.",
            "The commit and the deletion get NONE, after the append.",
            "CoordinatorRuntime",
            (_ON_ITS_WAY,),
        ),
    ),
    CoordinatorEvent(
        "The leader's SyncGroup arrives",
        Reaction(
            "CompletingRebalance until the append is confirmed, then Stable. If the append fails, the assignment is "
            "deleted and the group rebalances.",
            "The record of the group with its members.",
            "After the append: the assignments, or an error for all waiting SyncGroups. If the group has begun another "
            "rebalance, they get REBALANCE_IN_PROGRESS.",
            "GroupCoordinator.doSyncGroup",
            (
                f"{_GOLDEN}/20_sync_in_flight.txt",
                f"{_GOLDEN}/18_store_group_errors.txt",
                "coordinator/test_membership_rules.py::test_the_leaders_sync_is_written_then_the_group_is_stable",
            ),
        ),
        Reaction(
            "The group is Stable.",
            "The record of the group with its members.",
            "The assignments, with NONE.",
            "GroupMetadataManager.classicGroupSync",
            ("coordinator/test_events.py::test_the_leaders_sync_writes_the_group_in_4_x",),
        ),
    ),
    CoordinatorEvent(
        "A marker is written",
        Reaction(
            "The producer has no pending offsets any longer. A commit marker puts them into the cache, unless the "
            "cache has an offset of a later record.",
            "The transaction coordinator has written the marker.",
            "Nothing. Later fetches return the offset.",
            "GroupMetadataManager.handleTxnCompletion",
            (
                f"{_GOLDEN}/17_txn_committed_aborted.txt",
                f"{_GOLDEN}/17_txn_place_in_the_log.txt",
                "coordinator/test_storing_rules.py::test_a_pending_commit_counts_by_where_it_stands",
            ),
        ),
        Reaction(
            "The same.",
            "The same.",
            "The same.",
            "OffsetMetadataManager.replayEndTransactionMarker",
            (_CRAFTED, _RUNNING_NEW),
        ),
    ),
    CoordinatorEvent(
        "Another program writes a record into the topic",
        Reaction(
            "It does not change.",
            "The record is in the log.",
            "The old offset, until the next load.",
            "GroupMetadataManager (no check)",
            (_FOREIGN,),
        ),
        Reaction(
            "It does not change until the coordinator's next own write. This write gets another offset than expected, "
            "so the coordinator loads the partition again.",
            "The record is in the log, and so is the coordinator's own record.",
            "First the old offset. The request that wrote gets NOT_COORDINATOR, although its record counts. Then "
            "COORDINATOR_LOAD_IN_PROGRESS, and after the load the new offset.",
            "CoordinatorRuntime.CoordinatorContext",
            (_FOREIGN,),
        ),
    ),
    CoordinatorEvent(
        "OffsetDelete or DeleteGroups",
        Reaction(
            "The offsets are deleted immediately, and so are pending commits in a transaction. DeleteGroups makes the "
            "group Dead.",
            "A tombstone for each committed offset, not for pending ones. A tombstone of the group above generation 0.",
            "NONE, immediately, even if the append fails. Then the next load has the offsets again.",
            "GroupMetadataManager.cleanupGroupMetadata",
            (
                "coordinator/test_deleting_rules.py::test_a_deleted_group_gets_all_its_tombstones_in_one_batch",
                "coordinator/test_deleting_rules.py::test_what_is_only_pending_gets_no_tombstone",
                "coordinator/test_live_and_loaded.py::test_tombstones_that_could_not_be_appended",
            ),
        ),
        Reaction(
            "The offsets are deleted, and so are pending commits in a transaction. DeleteGroups removes the group.",
            "A tombstone for each committed or pending offset. DeleteGroups always adds a tombstone of the group.",
            "NONE. A load of the log has the same.",
            "OffsetMetadataManager.deleteAllOffsets; GroupMetadataManager.createGroupTombstoneRecords",
            (_RUNNING_NEW,),
        ),
    ),
    CoordinatorEvent(
        "A retention check",
        Reaction(
            "Expired offsets are deleted, even if a commit in a transaction is pending. An Empty group without offsets "
            "becomes Dead.",
            "One batch of tombstones for each group. A tombstone of the group above generation 0.",
            "Nothing.",
            "GroupMetadataManager.cleanupGroupMetadata",
            (
                f"{_GOLDEN}/26_sweeps.txt",
                "coordinator/test_deleting_rules.py::test_a_sweep_leaves_pending_transactional_commits_alone",
                "coordinator/test_events.py::test_the_batches_of_a_retention_check",
            ),
        ),
        Reaction(
            "Expired offsets are deleted, but not if a commit in a transaction is pending. An Empty group without "
            "offsets is removed.",
            "One batch of tombstones for all groups of the partition. It has a tombstone of each removed group.",
            "Nothing.",
            "GroupCoordinatorShard.cleanupGroupMetadata",
            (
                "coordinator/test_events.py::test_the_batches_of_a_retention_check",
                "broker/test_incidents.py::test_lag_of_the_dead_only_the_new_coordinator_writes_a_tombstone",
            ),
        ),
    ),
    CoordinatorEvent(
        "Leadership lost",
        Reaction(
            "Each group becomes Dead and is removed, with its timers. A later marker changes nothing here.",
            "It does not change. The next leader loads it.",
            "Waiting JoinGroups and SyncGroups, a commit on its way, and all later requests get NOT_COORDINATOR. The "
            "record of the commit can be in the log. A request that still finds the Dead group gets "
            "COORDINATOR_NOT_AVAILABLE.",
            "GroupCoordinator.onGroupUnloaded; ReplicaManager (answers the append)",
            (
                "coordinator/test_request_validation.py::test_unloading_sends_everybody_away",
                "coordinator/test_request_validation.py::test_a_marker_after_the_group_moved_away",
                "coordinator/test_events.py::test_a_commit_on_its_way_when_the_partition_moves",
                f"{_GOLDEN}/09_owner.txt",
                f"{_GOLDEN}/23_dead_group.txt",
            ),
        ),
        None,
    ),
    CoordinatorEvent(
        "The broker dies",
        Reaction(
            "It is lost, with what no record stores: the rebalance, pending member ids, timers, waiting requests.",
            "It keeps all appended records, also those of commits without an answer.",
            "No answer. After the next load, a commit without an answer can count.",
            "GroupMetadataManager.doLoadGroupsAndOffsets",
            (
                "coordinator/test_live_and_loaded.py::test_a_commit_in_flight_counts_later",
                "coordinator/test_live_and_loaded.py::test_a_rebalance_is_lost",
                "coordinator/test_live_and_loaded.py::test_soft_state_is_lost",
                f"{_GOLDEN}/23_crash_in_a_rebalance.txt",
            ),
        ),
        Reaction(
            "It is lost, with what no record stores: the rebalance, waiting requests. A restarted broker answers as a "
            "load of the log.",
            "It keeps all appended records.",
            "After the next load, the answers follow from the log.",
            "CoordinatorLoaderImpl.load",
            (_RUNNING_NEW, "groups/test_load_runs.py::test_load_answers_what_the_broker_answered"),
        ),
    ),
)
"""Every event, in the order of the page."""
