"""What a broker's operator sets for its group coordinator, and which Kafka it is."""

from __future__ import annotations

from dataclasses import dataclass

from kafkagroups.errors import UsageError
from kafkagroups.log.compression import CompressionType
from kafkagroups.records.versions import parse_release

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Settings:
    """Names and defaults as in 3.9's server.properties; times in ms. `zookeeper`: offsets may go there (v0 requests).

    `kafka` chooses among the rules of 1.0.1, 2.8.2 and 3.9.2: a version in between has those that it had.
    """

    kafka: str = "3.9.2"
    offsets_topic_num_partitions: int = 50
    offsets_topic_compression_codec: CompressionType = CompressionType.NONE
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    zookeeper: bool = False

    def __post_init__(self) -> None:
        if not (0, 11) <= self.version < (4,):
            raise UsageError(f"a classic coordinator's Kafka was expected, 0.11 to 3.9, not {self.kafka}")
        if self.offsets_topic_num_partitions < 1:
            raise UsageError(f"at least 1 partition was expected, not {self.offsets_topic_num_partitions}")

    @property
    def version(self) -> tuple[int, ...]:
        return parse_release(self.kafka)

    def since(self, *version: int) -> bool:
        return self.version >= version
