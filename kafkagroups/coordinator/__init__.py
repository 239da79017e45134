"""One broker's group coordinator, classic (up to 3.9) or new (4.x). The caller supplies the clock and the log.

An example with a log in the folder `folder`:

    coordinator = start_broker(folder, Clock(now_ms), Settings("3.9.2"))
    response = coordinator.join_group("billing", protocols=[("range", subscription)])
"""

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.coordinator import GroupCoordinator
from kafkagroups.coordinator.disk_logs import DiskLogs
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.leader_epochs import offset_for_leader_epoch
from kafkagroups.coordinator.logs import HeldLogs, NewBatch, OffsetsLogs
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.response_future import ResponseFuture
from kafkagroups.coordinator.results import FetchedOffset, MemberIdentity, OffsetCommit
from kafkagroups.coordinator.settings import Settings, read_settings
from kafkagroups.coordinator.start import open_logs, start_broker
from kafkagroups.groups.offsets import TopicPartition

__all__ = [
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
    "ResponseFuture",
    "Settings",
    "TopicPartition",
    "offset_for_leader_epoch",
    "open_logs",
    "read_settings",
    "start_broker",
]
