"""A broker's settings (server.properties), and the Kafka version whose rules apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.expiration import DEFAULT_RETENTION_MS
from kafkagroups.helpers import parse_whole_number
from kafkagroups.log.compression import CompressionType
from kafkagroups.records.releases import FIRST_WITHOUT_CLASSIC_COORDINATOR, Coordinator, parse_release

MINUTE_MS = 60_000
CHECKED_VERSIONS = ("1.0.1", "2.8.2", "3.9.2", "4.3.1", "4.4.0")
"""The versions whose rules were compared with recorded conversations of a real broker."""


@dataclass(frozen=True)
class ConsumerSettings:
    """The broker's settings `group.consumer.*`, with Kafka's names and defaults. Times are in ms.

    `migration_policy` is `bidirectional`, `upgrade`, `downgrade` or `disabled`. The limits `min_…` and `max_…` hold for
    the settings of single groups.
    """

    session_timeout_ms: int = 45_000
    min_session_timeout_ms: int = 45_000
    max_session_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 5_000
    min_heartbeat_interval_ms: int = 5_000
    max_heartbeat_interval_ms: int = 15_000
    assignment_interval_ms: int = 1_000
    min_assignment_interval_ms: int = 0
    max_assignment_interval_ms: int = 15_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"

    def find(self, name: str, group_config: Mapping[str, str]) -> int:
        """Return a group's own setting within the broker's limits; the broker's if the group has none.

        `name` is a field of this class.
        """
        config = "consumer." + name.replace("_", ".")
        if (own := group_config.get(config)) is None:
            return int(getattr(self, name))
        smallest, largest = (getattr(self, f"{limit}_{name}") for limit in ("min", "max"))
        return int(min(max(parse_whole_number(own.strip(), config), smallest), largest))


def read_consumer_settings(properties: Mapping[str, Any]) -> ConsumerSettings:
    properties = {name: value for name, value in properties.items() if value is not None}
    values: dict[str, Any] = _read_numbers(ConsumerSettings, "group.consumer.", properties)
    if "group.consumer.assignors" in properties:
        values["assignors"] = tuple(part.strip() for part in str(properties["group.consumer.assignors"]).split(","))
    if "group.consumer.migration.policy" in properties:
        values["migration_policy"] = str(properties["group.consumer.migration.policy"]).lower()
    return ConsumerSettings(**values)


def _read_numbers(cls: type[Any], prefix: str, properties: Mapping[str, Any]) -> dict[str, int]:
    keys = {setting.name: prefix + setting.name.replace("_", ".") for setting in fields(cls) if setting.type == "int"}
    return {name: int(properties[key]) for name, key in keys.items() if properties.get(key) is not None}


@dataclass(frozen=True)
class Settings:
    """The settings of one broker, with the names and defaults of Kafka 3.9's server.properties. Times are in ms.

    `kafka` is the version whose rules the coordinator follows. `offset_metadata_max_bytes` counts UTF-16 units, as
    Kafka does, although the name says bytes. `group_max_size` exists since 2.2 (KIP-389), and `consumer`, the settings
    of consumer groups, since 4.0. With `zookeeper`, version 0 of OffsetCommit stores its offsets there. Raises
    UsageError if `kafka` is not in `CHECKED_VERSIONS`, or the topic has no partition.

    A version check in the code, for example `is_at_least(2, 3)`, names the version that introduced the rule. The checks
    are complete only for `CHECKED_VERSIONS`: 2.3.1 would pass this one, but unlike 2.8.2 it writes no group record when
    a static member is replaced.
    """

    kafka: str = "3.9.2"
    offsets_topic_num_partitions: int = 50
    offsets_topic_compression_codec: CompressionType = CompressionType.NONE
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = DEFAULT_RETENTION_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    zookeeper: bool = False
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)

    def __post_init__(self) -> None:
        if self.kafka not in CHECKED_VERSIONS:
            raise UsageError(
                f"Kafka {self.kafka}: the coordinator rules of this version were not checked against a broker; "
                f"use {', '.join(CHECKED_VERSIONS[:-1])} or {CHECKED_VERSIONS[-1]}"
            )
        count = self.offsets_topic_num_partitions
        if count < 1:
            raise UsageError(f"expected 1 or more, found {count}", field="offsets_topic_num_partitions")

    @cached_property
    def version(self) -> tuple[int, ...]:
        return parse_release(self.kafka)

    def is_at_least(self, *version: int) -> bool:
        return self.version >= version

    def is_before(self, *version: int) -> bool:
        return self.version < version

    @property
    def coordinator(self) -> Coordinator:
        return "classic" if self.is_before(*FIRST_WITHOUT_CLASSIC_COORDINATOR) else "new"


def read_settings(kafka: str, properties: Mapping[str, Any]) -> Settings:
    """Return the settings of a broker of version `kafka` from its server.properties, with that version's defaults."""
    defaults = Settings(kafka)
    is_before_2_0 = defaults.is_before(2, 0)
    default_retention_minutes = 24 * 60 if is_before_2_0 else DEFAULT_RETENTION_MS // MINUTE_MS
    default_max_session_timeout_ms = 300_000 if is_before_2_0 else defaults.group_max_session_timeout_ms

    minutes = int(properties.get("offsets.retention.minutes", default_retention_minutes))
    numbers = {
        "group_max_session_timeout_ms": default_max_session_timeout_ms,
        **_read_numbers(Settings, "", properties),
        "offsets_retention_ms": minutes * MINUTE_MS,
    }
    return Settings(
        kafka,
        offsets_topic_compression_codec=CompressionType(int(properties.get("offsets.topic.compression.codec", 0))),
        zookeeper=bool(properties.get("zookeeper.connect", defaults.is_before(3, 0))),
        consumer=read_consumer_settings(properties),
        **numbers,
    )
