"""The settings of consumer groups: of the broker, and of single groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ConsumerSettings:
    """The broker's settings `group.consumer.*`, with Kafka's names and defaults. Times are in ms.

    `migration_policy` is `bidirectional`, `upgrade`, `downgrade` or `disabled`: how a group may change its protocol
    while it has members. The limits `min_…` and `max_…` hold for the settings of single groups.
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

    @property
    def can_upgrade(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def can_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group when only classic members are left."""
        return self.migration_policy in ("bidirectional", "downgrade")

    def find(self, name: str, group_config: Mapping[str, str]) -> int:
        """Return a group's own setting within the broker's limits; the broker's if the group has none.

        `name` is a field of this class. `group_config` has the group's settings, with Kafka's names.
        """
        own = group_config.get("consumer." + name.replace("_", "."))
        if own is None:
            return int(getattr(self, name))
        return int(min(max(int(own), getattr(self, f"min_{name}")), getattr(self, f"max_{name}")))


def read_consumer_settings(properties: Mapping[str, Any]) -> ConsumerSettings:
    """Return the settings. `properties` are the contents of server.properties; others than ours are ignored."""
    values: dict[str, Any] = {}
    for name in ConsumerSettings.__dataclass_fields__:
        value = properties.get("group.consumer." + name.replace("_", "."))
        if value is None:
            continue
        if name == "assignors":
            values[name] = tuple(part.strip() for part in str(value).split(","))
        elif name == "migration_policy":
            values[name] = str(value).lower()
        else:
            values[name] = int(value)
    return ConsumerSettings(**values)
