"""The rules that need the history of a group: storms, skips, two writers, and a partition that is not given back.

To replay a group costs much more than to count its records. So the groups are chosen first: those that the totals name,
because they rebalance often, or because an offset skips or goes back, and those with a member that has to give a
partition back when the log ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.groups.modern_group import MEMBER_STATES, ModernGroup
from kafkagroups.history.finding import Finding
from kafkagroups.history.group_log import GroupLog, load_group_logs
from kafkagroups.history.offset_events import OffsetEvents
from kafkagroups.history.passes import Partition
from kafkagroups.history.storms import find_storms
from kafkagroups.history.timeline import find_waiting_members, walk
from kafkagroups.history.words import count_of
from kafkagroups.loading.load import OpenTopic

MAX_WATCHED = 20
"""At most this many groups of a partition are replayed: if more are in trouble, the cause is not one of the groups."""
MIN_WAIT_MS = 60_000
"""A consumer gives partitions back with its next heartbeat, which it sends every few seconds."""
UNREVOKED_REMEDY = (
    "Look at this process: its poll loop or its rebalance listener is stuck. If you end it, the other members get the "
    "partitions at once, and read again what it has not committed."
)
SKIP_REMEDY = (
    "Find out who committed this: a consumer that found no offset and began at the end (auto.offset.reset), a tool, or "
    "another program. To read the records, stop the group and set it back to the offset before, as far as the topic "
    "still has them."
)
WRITERS_REMEDY = (
    "Give each program a group id of its own: each of them continues at the other one's offset after a rebalance. "
    "kafkagroups stats --by writer shows how both commit."
)


def watch_groups(partition: Partition, topic: OpenTopic) -> Iterator[Finding]:
    """Yield the findings about the groups of a partition that are worth a replay."""
    chosen = sorted({*partition.totals.watched_groups, *_find_unrevoked(partition)} & partition.parts.keys())
    _, logs = load_group_logs(topic.part(partition.log), chosen[:MAX_WATCHED]) if chosen else (None, {})
    for log in logs.values():
        yield from _replay(partition, log)


def _find_unrevoked(partition: Partition) -> Iterator[str]:
    for group_id, parts in partition.parts.items():
        group = parts.group
        if isinstance(group, ModernGroup) and group.type == "consumer" and group.partition == partition.number:
            states = [MEMBER_STATES["consumer"].get(member.state or 0) for member in group.members.values()]
            if "UnrevokedPartitions" in states:
                yield group_id


def _replay(partition: Partition, log: GroupLog) -> Iterator[Finding]:
    steps = log.steps.get(partition.number, [])
    offsets = OffsetEvents(partition.number, partition.dialect, skips_routine=True)
    history = walk(steps, offsets, partition.loaded.start_offset)
    group = log.group
    rules = ("--coordinator", partition.dialect.coordinator, "--kafka", partition.dialect.kafka)
    command = ["kafkagroups", "timeline", partition.log.path, *rules, f"--group={group}"]
    for storm in find_storms(history.events):
        what = f"Group {group}: {storm.what[0].lower()}{storm.what[1:]}."
        offset = storm.rebalances[0].offset
        yield partition.finding(offset, "rebalance_storm", what, storm.remedy, group=group, command=command)
    for waiting in find_waiting_members(steps, history.group.state, offsets.topic_ids):
        waited_ms = (partition.counts.last_timestamp_ms or 0) - waiting.since_ms
        if waiting.partitions and waited_ms >= MIN_WAIT_MS:
            what = f"Group {group}: {waiting.what}"
            place = {"group": group, "topic_partition": waiting.partitions[0], "command": command}
            yield partition.finding(waiting.offset, "unrevoked_partition", what, UNREVOKED_REMEDY, **place)
    skips = [event for event in history.events if event.event == "skip"]
    if skips:
        first = skips[0]
        more = f" There are {count_of(len(skips) - 1, 'more skip')}." if len(skips) > 1 else ""
        what = f"Group {group} has skipped records: {first.what}{more}"
        place = {"group": group, "topic_partition": str(first.topic_partition), "command": command}
        yield partition.finding(first.offset, "skipped_records", what, SKIP_REMEDY, **place)
    for position in offsets.positions.values():
        if position.has_two_writers and position.rereads:
            place = {"group": group, "topic_partition": str(position.topic_partition), "command": command}
            what = f"Group {group}: {position.describe_rewound()}"
            yield partition.finding(position.record, "two_writers", what, WRITERS_REMEDY, **place)
            return
