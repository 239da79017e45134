"""The rules about groups: which commit too often, keep offsets that nobody needs, are too many, or look the same.

- `busy_group`: in at least MIN_HISTORY_MS, a group wrote more than half of at least MIN_BUSY_RECORDS records of a
  partition, and more than BUSY_RATE commits a second for each of its offsets. enable.auto.commit writes 0.2 a second.
- `large_commits`: a group wrote more than half of the bytes of a partition of at least MIN_LARGE_BYTES, with records of
  more than LARGE_RECORD_BYTES: its commits have long metadata, or its many members have long assignments.
- `early_expiry`: a client asked for a retention time (OffsetCommit v2 to v4), so an offset goes earlier than
  the default of offsets.retention.minutes lets others go. Before KIP-211 (Kafka 2.1), that is usual.
- `expiry_in_use`: offsets will expire although the group still commits (find_expiry_in_use).
- `topic_created_again`: the id of a topic changed between commits, only its deletion can have deleted offsets, or the
  first commits after that are lower, which is only a sign.
- `unassigned_partition`: a group subscribes to the topic of an offset, and no member has its partition, while the
  group's other offsets move on.
- `group_family`: at least MIN_GROUPS groups without members have the same name apart from the last part, and have more
  than half of the live records of all partitions, and at least MIN_FAMILY_RECORDS. A program that uses a new group each
  time leaves such groups. The cleaner cannot remove these records, because each is the newest one of its key.
- `look_alike_groups`: several groups have ids that are equal after `fold`, for example because one was copied from a
  web page with a non-breaking hyphen (U+2011).
- `shared_instance_id`: two processes have the same group.instance.id (totals.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from unicodedata import category, normalize

from kafkagroups.groups.expiration import DEFAULT_RETENTION_MS, FIRST_WITH_KIP_211, find_expirations
from kafkagroups.groups.group import Group
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import TopicPartition, find_expiring
from kafkagroups.history.event import MIN_HISTORY_MS, Recreation
from kafkagroups.history.finding import GROUPS_TOOL, Finding, count_of, describe_time, list_groups, list_names
from kafkagroups.history.passes import Partition
from kafkagroups.history.stats import KnownGroup, Stats
from kafkagroups.history.totals import describe_settings, find_shared
from kafkagroups.records.releases import Dialect

MIN_LARGE_BYTES = 100_000
LARGE_RECORD_BYTES = 1_000
MIN_BUSY_RECORDS = 1_000
BUSY_RATE = 1.0
DAY_MS = 86_400_000
EXPIRY_NEAR_MS = 2 * DAY_MS
RECREATED_MS = 60_000
MIN_GROUPS = 20
MIN_FAMILY_RECORDS = 1000
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_TAIL = re.compile(f"(?:^|[-_.:/@#])(?:{_UUID}|[0-9a-fA-F]{{6,}})$|[0-9]+$")
"""The part of a name that differs: a UUID or hexadecimal digits after a separator, or decimal digits."""
_DASHES_OF_OTHER_CATEGORIES = "\u2043\u2212\u02d7\u00af"
"""Hyphen bullet, minus sign, modifier letter minus sign and macron. All other dashes have the category Pd."""
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def find_dominant_groups(partition: Partition) -> Iterator[Finding]:
    """Yield the findings `busy_group` and `large_commits`."""
    counts = partition.counts
    seconds = counts.span_ms / 1000
    for group_id, count in partition.by_group.items():
        parts = partition.parts.get(group_id)
        offsets = 0 if parts is None else len(parts.offsets)
        commits = partition.commits[group_id]
        is_majority = counts.records >= MIN_BUSY_RECORDS and 2 * commits > counts.records
        if counts.span_ms >= MIN_HISTORY_MS and is_majority and offsets and commits / seconds / offsets > BUSY_RATE:
            what = (
                f"Group {group_id} wrote {commits} of {counts.records} records: {commits / seconds / offsets:.1f} a "
                f"second for each of its {count_of(offsets, 'offset')}."
            )
            yield partition.finding(None, "busy_group", what, group=group_id)
        is_large = counts.bytes >= MIN_LARGE_BYTES and 2 * count.bytes > counts.bytes
        if is_large and count.bytes >= LARGE_RECORD_BYTES * count.records:
            what = (
                f"Group {group_id} wrote {100 * count.bytes // counts.bytes} % of the bytes with {count.records} of "
                f"{counts.records} records: {count.bytes // count.records} bytes in each."
            )
            sizes = [(len(each.metadata), key, each.offset) for key, each in parts.offsets.items()] if parts else []
            size, key, offset = max(sizes, default=(0, None, 0))
            if 2 * size >= LARGE_RECORD_BYTES:
                what += f" Of its offsets, {key} has the longest metadata: {size} characters, with offset {offset}."
            yield partition.finding(None, "large_commits", what, group=group_id)


def find_expiry_in_use(group: AnyGroup, rules: Dialect, now_ms: int) -> tuple[TopicPartition, str] | None:
    """Return what a group without members loses within DEFAULT_RETENTION_MS, although it still commits: the offset that
    expires first, and a sentence.

    `now_ms` is the newest time in the log. A consumer that assigns its partitions itself is no member. If the group had
    members once, all of its offsets expire together, counted from the moment when the last one left, even those that
    were committed a second ago. Otherwise each offset expires for itself, so that of a partition without new records
    goes first.
    """
    expirations = [each for each in find_expirations(group, rules, DEFAULT_RETENTION_MS) if not each.is_from_record]
    newest_ms = max((offset.commit_timestamp for offset in group.offsets.values()), default=0)
    if group.members or not expirations or not now_ms - DAY_MS <= newest_ms:
        return None
    first = expirations[0]
    begin_ms = first.expire_ms - DEFAULT_RETENTION_MS
    time = f"{describe_time(first.expire_ms)} (7 days, or offsets.retention.minutes, after {describe_time(begin_ms)})"
    commits = f"the newest commit is from {describe_time(newest_ms)}"
    is_counted_together = isinstance(group, Group) and bool(group.protocol_type)
    is_near = is_counted_together or first.expire_ms - now_ms <= EXPIRY_NEAR_MS
    if newest_ms - begin_ms < DAY_MS or not is_near:
        return None
    what = f"still commits ({commits}), but {first.topic_partition} expires at {time}"
    if is_counted_together:
        what = f"has no members since {describe_time(begin_ms)}, and {commits}. All its offsets expire at {time}"
    return first.topic_partition, f"Group {group.group_id} {what}."


def find_expiries(partition: Partition) -> Iterator[Finding]:
    """Yield the findings `early_expiry` and, of a log that covers at least a day, `expiry_in_use`."""
    rules = partition.dialect
    parts_here = dict(partition.list_groups()) if rules.since(*FIRST_WITH_KIP_211) else {}
    expiring = find_expiring({group_id: parts.offsets for group_id, parts in parts_here.items()})
    is_long = partition.counts.span_ms >= DAY_MS
    early: list[tuple[int, str, TopicPartition, int]] = []
    for group_id, parts in parts_here.items():
        if group_id not in expiring and (not is_long or parts.decode_group().members):
            continue
        group = parts.build()
        for key, _, expire_ms, _ in find_expirations(group, rules):
            offset = group.offsets[key]
            if expire_ms < offset.commit_timestamp + DEFAULT_RETENTION_MS:
                early.append((expire_ms, group_id, key, offset.record_offset))
        found = find_expiry_in_use(group, rules, partition.counts.last_timestamp_ms or 0) if is_long else None
        if found is not None:
            first, what = found
            record = group.offsets[first].record_offset
            yield partition.finding(record, "expiry_in_use", what, group=group_id, topic_partition=first)
    if not early:
        return
    expire_ms, group_id, key, record = min(early)
    groups = sorted({each[1] for each in early})
    what = (
        f"{count_of(len(early), 'offset')} ({list_groups(groups)}) will expire before the default of 7 days, by their "
        f"own expire times. The first is {key} of group {group_id}, at {describe_time(expire_ms)}."
    )
    only_group = group_id if len(groups) == 1 else None
    yield partition.finding(record, "early_expiry", what, group=only_group, topic_partition=key)


RecreationSigns = Iterable[tuple[int | None, str, Recreation]]


def list_recreated(signs: RecreationSigns) -> Iterator[tuple[int | None, Recreation, set[str]]]:
    """Yield the first sign of each topic that was created again, with its partition, and the groups that show it.

    If no topic ids show it, the signs of one group are enough only where nothing but the deletion of the topic can have
    deleted its offsets; or else, several groups have lost theirs within RECREATED_MS.
    """
    by_topic: dict[str, list[tuple[int | None, str, Recreation]]] = {}
    for sign in signs:
        by_topic.setdefault(sign[2].topic, []).append(sign)
    for _, found in sorted(by_topic.items()):
        groups = {group for _, group, _ in found}
        deleted_ms = [sign.deleted_ms for _, _, sign in found]
        is_together = len(groups) > 1 and max(deleted_ms) - min(deleted_ms) <= RECREATED_MS
        if is_together or any(sign.is_certain for _, _, sign in found):
            first = min(found, key=lambda each: (each[2].ids is None, not each[2].is_certain, each[2].time_ms or 0))
            yield first[0], first[2], groups


def find_recreated(signs: RecreationSigns) -> Iterator[Finding]:
    for partition, first, groups in list_recreated(signs):
        topic = first.topic
        time = "" if first.time_ms is None else f", at the latest at {describe_time(first.time_ms)}"
        was = "was"
        doubt = ""
        shown_by = "its offsets were deleted with it, and a broker stores no later commit without a new topic"
        if first.ids is not None:
            shown_by = f"its id changed from {first.ids[0]} to {first.ids[1]}"
        elif not first.is_certain:
            was = "can have been"
            doubt = "If its partition.metadata is older than the commits before, it is the same topic. If not: "
            shown_by = "its offsets went with it, or expired, or a script deleted them, and the next commits are lower"
        what = f"Topic {topic} {was} created again{time}: {shown_by}. Commits of {list_groups(groups)} show it."
        remedy = (
            f"{doubt}Do not set offsets of {topic} from before that time, by hand or from a plan: their records are "
            "gone. A running consumer can have committed its old position once more; then its later, lower commits are "
            "right. A group that began at the end (auto.offset.reset=latest) has skipped the first records: set it to "
            "0 if it needs them. A program with positions outside Kafka must forget those of the old topic first."
        )
        finding = Finding.make(partition, first.record, "topic_created_again", what, remedy, group=min(groups))
        yield finding if len(groups) == 1 else replace(finding, partition=None, offset=None, group=None)


def find_assigned(group: AnyGroup) -> set[TopicPartition] | None:
    """Return the partitions that the members of a group have, or should have; None if they are not all known.

    That is so if an assignment cannot be read, or if no commit says which topic a topic id belongs to, and for share
    and streams groups.
    """
    assigned: set[TopicPartition] = set()
    if isinstance(group, Group):
        for member in group.members.values():
            if member.assignment is None:
                return None
            topics = member.assignment.message.assigned_partitions
            assigned |= {TopicPartition(each.topic, number) for each in topics for number in each.partitions}
        return assigned
    if group.type != "consumer":
        return None
    names = {offset.topic_id: key.topic for key, offset in group.offsets.items()}
    current = [each.assignment for each in group.members.values() if each.assignment is not None]
    lists = [(each.assigned_partitions, each.partitions_pending_revocation) for each in current]
    lists += [(each.topic_partitions, ()) for each in group.targets.values()]
    for topic in chain.from_iterable(chain.from_iterable(lists)):
        if topic.topic_id not in names:
            return None
        assigned |= {TopicPartition(names[topic.topic_id], number) for number in topic.partitions}
    return assigned


def find_unowned(group: AnyGroup) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the partitions of a group that nobody has, and those that somebody has and that were never committed.

    There are none if the group does not commit MIN_HISTORY_MS after a rebalance.
    """
    newest_ms = max((offset.commit_timestamp for offset in group.offsets.values()), default=0)
    since_ms = group.current_state_timestamp if isinstance(group, Group) else group.assignment_timestamp
    subscribed = group.subscribed_topics if newest_ms - (since_ms or 0) >= MIN_HISTORY_MS else None
    assigned = find_assigned(group) if subscribed else None
    if not assigned:
        return [], []
    unassigned = [
        key
        for key, offset in sorted(group.offsets.items())
        if key.topic in (subscribed or ()) and key not in assigned
        if newest_ms - offset.commit_timestamp >= MIN_HISTORY_MS
    ]
    return unassigned, sorted(assigned - group.offsets.keys())


def find_unassigned(partition: Partition) -> Iterator[Finding]:
    """A log of a short time has no finding."""
    for group_id, parts in partition.list_groups() if partition.counts.span_ms >= MIN_HISTORY_MS else ():
        if not parts.decode_group().members:  # To build a group takes much longer.
            continue
        group = parts.build()
        found, _ = find_unowned(group)
        if found:
            what = (
                f"Group {group_id} subscribes to {list_names(sorted({key.topic for key in found}))}, and no member has "
                f"{list_names(found)}, while its other offsets move on."
            )
            record = group.offsets[found[0]].record_offset
            yield partition.finding(record, "unassigned_partition", what, group=group_id, topic_partition=found[0])


def find_prefix(group_id: str) -> str | None:
    """Return what the names of the group's family begin with; None if the name has no part that differs.

    >>> find_prefix("e2e-checkout-0002c71b578f"), find_prefix("tenant17"), find_prefix("billing")
    ('e2e-checkout-', 'tenant', None)
    """
    found = _TAIL.search(group_id)
    return None if found is None else group_id.removesuffix(found[0].lstrip("-_.:/@#"))


def list_known_groups(partition: Partition) -> dict[str, KnownGroup]:
    """Return the groups that a broker answers for from this partition."""
    known = {}
    for group_id, each in partition.parts.items():
        if each.group.partition == partition.number:
            is_idle = each.offsets and find_prefix(group_id) is not None and not each.decode_group().members
            known[group_id] = KnownGroup(partition.number, partition.by_group[group_id].live_records if is_idle else 0)
    return known


def find_families(stats: Stats) -> Iterator[Finding]:
    """Yield the findings about large families, of which several partitions can contain groups."""
    partition = next(iter(stats.partitions)) if len(stats.partitions) == 1 else None
    command = [*GROUPS_TOOL, "--delete", "--group", "GROUP"]
    sizes: dict[str, list[int]] = {}
    for group_id, group in stats.known_groups.items():
        if group.idle_records:
            sizes.setdefault(find_prefix(group_id) or "", []).append(group.idle_records)
    live = stats.total("live_records")
    for prefix, family in sorted(sizes.items()):
        records = sum(family)
        if len(family) >= MIN_GROUPS and records >= max(MIN_FAMILY_RECORDS, live // 2 + 1):
            names = f"named {prefix}…" if prefix else "with a random name"
            what = (
                f"{len(family)} groups {names} have no members. They hold {records} of {live} live records "
                f"({100 * records // live} %). The cleaner cannot remove live records."
            )
            yield Finding.make(partition, None, "group_family", what, command=command)


def fold(group_id: str) -> str:
    r"""Return a text that is equal for group ids that look the same.

    Upper and lower case, compatibility forms, dashes and spaces are equal. Invisible characters, and spaces at the
    start and the end, are left out. An id without any visible character becomes "".

    >>> fold("shipping\u2011router") == fold("Shipping-Router ")
    True
    """
    if group_id.isascii() and group_id.isprintable():
        return group_id.lower().strip()
    folded = ""
    for character in normalize("NFKC", group_id).casefold():
        kind = category(character)
        if kind == "Pd" or character in _DASHES_OF_OTHER_CATEGORIES:
            folded += "-"
        elif kind == "Zs" or character in "\t\n\r":
            folded += " "
        elif kind not in ("Cf", "Cc") and ord(character) not in _VARIATION_SELECTORS:
            folded += character
    return folded.strip()


def find_look_alikes(known_groups: Mapping[str, KnownGroup]) -> Iterator[Finding]:
    ids_by_look: dict[str, list[str]] = {}
    for group_id in known_groups:
        ids_by_look.setdefault(fold(group_id), []).append(group_id)
    for look, group_ids in ids_by_look.items():
        if not look or len(group_ids) == 1:
            continue
        numbers = {group_id: known_groups[group_id].partition for group_id in sorted(group_ids)}
        names = [
            f"{group_id} ({'in a partition without a number' if number is None else f'partition {number}'})"
            for group_id, number in numbers.items()
        ]
        spelled = ", ".join(f"'{group_id.encode('ascii', 'namereplace').decode()}'" for group_id in numbers)
        what = f"These group ids look the same but are different groups: {', '.join(names)}. In ASCII: {spelled}."
        partition = known_groups[group_ids[0]].partition if len(set(numbers.values())) == 1 else None
        yield Finding.make(partition, None, "look_alike_groups", what)


def find_shared_instances(partition: Partition) -> Iterator[Finding]:
    for (group, instance_id), replacements in partition.totals.static_members.items():
        for shared in find_shared(replacements):
            first, *_, last = shared
            what = (
                f"Static member {instance_id} of group {group} got a new member id {len(shared)} times, from offset "
                f"{first.offset} ({describe_time(first.timestamp_ms)}) to offset {last.offset} "
                f"({describe_time(last.timestamp_ms)}). {describe_settings(shared)}"
            )
            remedy = (
                f"Find every process with group.instance.id={instance_id}. If one is foreign, stop it, and give it its "
                "own group id; otherwise, give each its own instance id. Both may have handled the same records."
            )
            yield partition.finding(first.offset, "shared_instance_id", what, remedy, group=group)


RULES = (find_dominant_groups, find_expiries, find_unassigned, find_shared_instances)
