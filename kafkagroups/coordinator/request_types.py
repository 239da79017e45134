"""The requests with many fields, as dataclasses. A verb of the coordinator takes the fields as its arguments.

Source: the request schemas of 3.9 and 4.3.1 (JoinGroupRequest.json, OffsetCommitRequest.json, …).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from kafkagroups.coordinator.results import OffsetCommit
from kafkagroups.groups.classic_group import CONSUMER, ClassicMember
from kafkagroups.groups.offsets import TopicPartition


@dataclass(frozen=True)
class JoinGroupRequest:
    """The fields of a JoinGroup, which `GroupCoordinator.join_group` explains."""

    group_id: str
    _: KW_ONLY
    protocols: Sequence[tuple[str, bytes]]
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_type: str = CONSUMER
    require_known_member_id: bool | None = None
    supports_skip_assignment: bool | None = None

    def build_member(self) -> ClassicMember:
        """Return the member as the request describes it."""
        return ClassicMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocol_type,
            list(self.protocols),
        )


@dataclass(frozen=True)
class OffsetCommitRequest:
    """The fields of an OffsetCommit, which `GroupCoordinator.offset_commit` explains."""

    group_id: str
    offsets: Mapping[TopicPartition, OffsetCommit]
    _: KW_ONLY
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_ms: int = -1
    supports_group_not_found: bool = True


@dataclass(frozen=True)
class TxnOffsetCommitRequest:
    """The fields of a TxnOffsetCommit, which `GroupCoordinator.txn_offset_commit` explains."""

    group_id: str
    offsets: Mapping[TopicPartition, OffsetCommit]
    _: KW_ONLY
    transactional_id: str
    producer_id: int
    producer_epoch: int
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    supports_abortable_error: bool = True
    supports_stale_epoch: bool = True
