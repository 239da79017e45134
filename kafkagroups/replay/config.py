"""A broker's settings out of its server.properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkagroups.coordinator.settings import MINUTE_MS, Settings
from kafkagroups.log.compression import CompressionType
from kafkagroups.records.versions import parse_release


def settings(kafka: str, config: Mapping[str, Any]) -> Settings:
    """The settings of a broker of that version with that server.properties; what the file lacks has its default."""
    old = parse_release(kafka) < (2,)
    retention = int(config.get("offsets.retention.minutes", 24 * 60 if old else 7 * 24 * 60))
    defaults = Settings(kafka)
    return Settings(
        kafka,
        int(config.get("offsets.topic.num.partitions", 50)),
        CompressionType(int(config.get("offsets.topic.compression.codec", 0))),
        int(config.get("offset.metadata.max.bytes", defaults.offset_metadata_max_bytes)),
        retention * MINUTE_MS,
        int(config.get("offsets.retention.check.interval.ms", defaults.offsets_retention_check_interval_ms)),
        int(config.get("group.min.session.timeout.ms", defaults.group_min_session_timeout_ms)),
        int(config.get("group.max.session.timeout.ms", 300_000 if old else defaults.group_max_session_timeout_ms)),
        int(config.get("group.initial.rebalance.delay.ms", defaults.group_initial_rebalance_delay_ms)),
        int(config.get("group.max.size", defaults.group_max_size)),
        bool(config.get("zookeeper.connect", parse_release(kafka) < (3,))),
    )
