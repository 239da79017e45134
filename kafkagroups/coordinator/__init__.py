"""One broker's group coordinator, classic (up to 3.9) or new (4.x). The caller supplies the clock and the log, here in
the folder `folder`:

    coordinator = start_broker(folder, Clock(now_ms), Settings("3.9.2"))
    response = coordinator.join_group("billing", protocols=[("range", subscription)])
"""

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.coordinator import GroupCoordinator, open_logs, start_broker
from kafkagroups.coordinator.logs import DiskLogs, HeldLogs, NewBatch, OffsetsLogs, offset_for_leader_epoch
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.messages import Errors, FetchedOffset, MemberIdentity, OffsetCommit, ResponseFuture
from kafkagroups.coordinator.settings import Settings, read_settings
from kafkagroups.coordinator.simulated_consumers import Consumer, ConsumerProtocolConsumer
from kafkagroups.groups.offsets import TopicPartition

__all__ = [
    "Clock",
    "Consumer",
    "ConsumerProtocolConsumer",
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
