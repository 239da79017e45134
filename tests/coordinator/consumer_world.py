"""A broker of 4.x with consumer groups, and the short forms of a member's heartbeats."""

import kafkagroups as kg
from kafkagroups.coordinator import Clock, open_logs, read_settings, start_broker
from tests.coordinator.world import NOW

IDS = {"orders": "Jlm7tiTSTTyzsN-NaMyQPQ", "clicks": "450KdPOnRUiD9U6kSaE0XA"}


class World:
    """A broker with one partition of the offsets topic, and the record types of each batch that it wrote."""

    def __init__(self, folder, kafka="4.3.1", **consumer):
        self.batches = []
        self.topics = {"orders": 3, "clicks": 3}
        self.topic_ids = dict(IDS)
        self.configs = {}
        self.clock = Clock(NOW)
        settings = {"assignment_interval_ms": 0, **consumer}
        properties = {f"group.consumer.{name.replace('_', '.')}": value for name, value in settings.items()}
        self.settings = read_settings(kafka, {"offsets.topic.num.partitions": 1, **properties})
        self.logs = open_logs(folder, self.settings)
        self.start()

    def start(self):
        self.clock.clear_timers()
        self.coordinator = start_broker(
            self.logs,
            self.clock,
            self.settings,
            new_member_id=lambda prefix: f"{prefix}-id",
            topics=self.topics,
            topic_ids=self.topic_ids,
            group_configs=self.configs,
        )

    def written(self):
        """The record types of the batches since the last call; a tombstone is negative."""
        batches = [
            [
                -kg.decode(record.key, None).type if record.value is None else kg.decode(record.key, record.value).type
                for record in batch.records
            ]
            for batch in self.logs.read(0)
        ]
        new = batches[len(self.batches) :]
        self.batches = batches
        return new

    def send(self, member_id, epoch, **fields):
        return self.coordinator.consumer_group_heartbeat("g", member_id, epoch, **fields).value

    def join(self, member_id, topics=("orders",), timeout_ms=60_000, **fields):
        names = topics if "subscribed_topic_regex" not in fields else None
        return self.send(
            member_id,
            0,
            rebalance_timeout_ms=timeout_ms,
            subscribed_topic_names=names,
            topic_partitions={},
            **fields,
        )

    def describe(self):
        return self.coordinator.consumer_group_describe(["g"])[0]

    def member_ids(self):
        return sorted(each.member.member_id for each in self.describe().members)


def owned(*partitions):
    return {IDS["orders"]: list(partitions)}
