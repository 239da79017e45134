"""One broker's group coordinator, on a given clock, over a given log: `GroupCoordinator` and what it takes and gives.

clock = Clock(now_ms)
coordinator = GroupCoordinator(DiskLogs(folder), clock, Settings("3.9.2"), new_member_id=ids)
coordinator.elect(partition)
answer = coordinator.join_group("billing", protocols=[("range", subscription)])
"""

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.coordinator import GroupCoordinator
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.leader_epochs import offset_for_leader_epoch
from kafkagroups.coordinator.logs import DiskLogs, HeldLogs, NewBatch, OffsetsLogs
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.results import Answer, FetchedOffset, MemberIdentity, OffsetCommit
from kafkagroups.coordinator.settings import Settings
from kafkagroups.groups.offsets import TopicPartition

__all__ = [
    "Answer",
    "Clock",
    "DiskLogs",
    "Errors",
    "FetchedOffset",
    "GroupCoordinator",
    "GroupMetadataManager",
    "HeldLogs",
    "MemberIdentity",
    "NewBatch",
    "OffsetCommit",
    "OffsetsLogs",
    "Settings",
    "TopicPartition",
    "offset_for_leader_epoch",
]
