"""What changes for a log if another release of Kafka loads it, after an upgrade or a downgrade (`check --to`).

- `skipped`: the old release reads a record of a group, and the new release skips it, because it does not know its type.
- `group_differs`, `offset_differs`, `pending_differs`: both releases load the partition, but answer differently, as
  `diff` compares answers. The epochs of a group are compared, too: without a record of its epoch, a group has epoch 0
  before Kafka 4.3, and epoch 1 from 4.3 on.
- `load_failure`: the old release cannot load a partition.

A release that fails to load a partition (`refused`, check.py, or `load_failure`) has no answers for its groups, so they
have no differences.

A difference is what a client sees if it sends the same request to both releases:

- The partitions that a member of a consumer group has not revoked yet are a difference between 4.2 and 4.3. From 4.3
  on, ConsumerGroupDescribe counts them as assigned, apart from topics that the broker does not know. A log does not say
  which topics exist, so this difference is also a finding if the topic was deleted.
- The name of a streams group's assignor is no difference between 4.3 and 4.4. Only StreamsGroupDescribe v1, which is
  new in 4.4, has a field for it.

Source: ConsumerGroupMember.asConsumerGroupDescribeMember (4.2.1, 4.3.1); StreamsGroupDescribeResponse.json (4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkagroups.groups.log_records import LogKeys, read_keys
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.history.finding import REMEDIES, Finding, count_of, list_names
from kafkagroups.history.replicas import is_same, list_answers
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import READ_TYPES, Dialect
from kafkagroups.records.refusals import LARGE_DECOMPRESSED_RECORD, REFUSALS
from kafkagroups.records.versions import AFTER_ALL_VERSIONS, parse_newest_patch

_ASSIGNOR_FIELDS = ("protocol", "assignor")
_EPOCH_FIELDS = ("group_epoch", "assignment_epoch")
_SHOWN_FIELDS = ("type", "state", "protocol_type", "protocol", *_EPOCH_FIELDS)
_KEEP_OFFSETS = (
    "Before the change, save the offsets of the group (kafkagroups rescue plan PATH --group GROUP), and set them again "
    "afterwards if they are still needed."
)
_NO_SHARE_GROUPS = (
    "The other release has no share groups. The group's progress is in the topic __share_group_state, and "
    "no committed offset contains it: let the group's consumers process everything before the change, or "
    "read its records with another group afterwards."
)
_REMEDIES = {
    "groups": "Save the offsets with kafkagroups rescue plan, because they expire once the group has no members. Then "
    "stop its members before the change, and start them again afterwards.",
    "offsets": _KEEP_OFFSETS,
    "pending": "Before the change, let the producer end its transaction.",
}


@dataclass(frozen=True)
class Change(Finding):
    """A finding about an answer that differs between two releases.

    `before` and `after` are the answers, in the form of `load --json`; None if a release has no such group or offset.
    """

    before: Any = None
    after: Any = None

    def to_json(self) -> dict[str, Any]:
        fields = super().to_json()
        del fields["before"], fields["after"]
        return fields | {"from": self.before, "to": self.after}


def find_changes(topic: OpenTopic, target: Dialect, before: Groups, after: Groups) -> list[Finding]:
    """Return what changes if a coordinator with other rules loads a topic. `before` and `after` are the two loads."""
    findings: list[Finding] = []
    for log in topic.logs:
        loaded = before.partitions[log.partition]
        if loaded.error is not None:
            what = f"Already Kafka {before.kafka}, before the change, cannot load the partition: {loaded.error}."
            remedy = (
                "Run kafkagroups check without --to first: the groups of this partition have no answers to compare."
            )
            place = (log.partition, loaded.record_offset, None, None)
            findings.append(Finding(*place, "load_failure", what, remedy))
        if after.partitions[log.partition].error is None:
            findings += _find_skipped(log, before, topic.dialect, target)
    findings += _find_differences(before, after)
    return findings


def find_lost_fixes(old_rules: Dialect, new_rules: Dialect) -> list[str]:
    """Return which fixes and limits an upgrade takes away, because the new release came out before the old one."""
    old = parse_newest_patch(old_rules.kafka)
    new = parse_newest_patch(new_rules.kafka)
    lost = []
    for refusal in (*REFUSALS, LARGE_DECOMPRESSED_RECORD) if old < new else ():
        refuses = refusal.applies_to(old)
        refuses_later = refusal.applies_to(new)
        is_limit = AFTER_ALL_VERSIONS in {releases.until for releases in refusal.releases}
        was_fixed = any(releases.until <= old for releases in refusal.releases)
        what = f"{refusal.description[0].lower()}{refusal.description[1:]}"
        releases_text = f"unlike {old_rules.kafka}, {new_rules.kafka}"
        if refuses_later and not refuses and was_fixed and not is_limit:
            issue = f" ({refusal.issue})" if refusal.issue else ""
            lost.append(f"The upgrade takes a fix away{issue}: {releases_text} refuses {what}.")
        if refuses and not refuses_later and is_limit:
            lost.append(f"The upgrade takes a limit away: {releases_text} accepts {what}.")
    return lost


def _find_skipped(log: Log, before: Groups, old_rules: Dialect, new_rules: Dialect) -> Iterator[Finding]:
    """Yield a finding for each group with records that only the new rules skip, and that the group still needs."""
    skipped_types = list_read_types(old_rules) - list_read_types(new_rules)
    keys = LogKeys(old_rules)
    found: dict[str, list[tuple[int, int]]] = {}
    for batch in log if skipped_types else ():
        for group_id, key, record in read_keys(batch, keys):
            if key.decoded.type in skipped_types:
                found.setdefault(group_id, []).append((record.offset, key.decoded.type))
    has_answers = before.partitions[log.partition].error is None
    for group_id, records in found.items():
        if has_answers and (group_id not in before or before[group_id].type == "classic"):
            continue
        types = sorted({number for _, number in records})
        kinds = list_names(sorted({GROUP_TYPE_BY_RECORD_TYPE[number] for number in types}))
        what = (
            f"Kafka {new_rules.kafka} ({new_rules.coordinator} coordinator) skips {count_of(len(records), 'record')} "
            f"of {kinds} group {group_id} (types {', '.join(map(str, types))}), so it does not know the group's "
            "members and assignments."
        )
        yield Finding(log.partition, records[0][0], group_id, None, "skipped", what, REMEDIES["skipped"])


def list_read_types(rules: Dialect) -> set[int]:
    """Return the record types above 2 that a coordinator reads."""
    is_classic = rules.coordinator == "classic"
    return {number for number, versions in READ_TYPES.items() if rules.version in versions and not is_classic}


def _find_differences(before: Groups, after: Groups) -> Iterator[Finding]:
    """Yield a finding for each answer that differs. Groups of partitions that one release cannot load are left out."""
    failed = {*before.failed, *after.failed}
    for group_id in sorted({*before, *after, *before.orphans, *after.orphans}):
        partition = _find_partition(group_id, before, after)
        if partition in failed and not (group_id in before and group_id in after):
            continue
        old_answers, new_answers = (list_answers(groups, group_id) for groups in (before, after))
        for table, name in dict.fromkeys([*old_answers, *new_answers]):
            old, new = (answers.get((table, name)) for answers in (old_answers, new_answers))
            differs = not is_same(table, old, new) or (table == "groups" and _has_other_epochs(old, new))
            if not differs or _is_new_assignor_name(table, old, new):
                continue
            answers = [
                f"Kafka {groups.kafka} ({groups.coordinator}) {_describe_answer(table, answer, other)}"
                for groups, answer, other in ((before, old, new), (after, new, old))
            ]
            what = f"Group {group_id}{f', {name}' if name else ''}: {answers[0]}, but {answers[1]}."
            remedy = _choose_remedy(table, old, new)
            command = ["kafkagroups", "rescue", "plan", "PATH", "--group", "GROUP"] if remedy == _KEEP_OFFSETS else None
            kept: Any = old if new is None else new
            records = kept if table == "pending" else [kept]
            offset = None if table == "groups" else records[0]["record_offset"]
            place = (partition, offset, group_id, name or None)
            yield Change(*place, f"{table.removesuffix('s')}_differs", what, remedy, command, before=old, after=new)


def _choose_remedy(table: str, old: Any, new: Any) -> str:
    if table == "groups" and new is None:
        return _NO_SHARE_GROUPS if old["type"] == "share" else _KEEP_OFFSETS
    if table == "groups" and old is not None and old["type"] == new["type"]:
        return "Nothing has to be done: the group keeps its type, and other findings say if its offsets change."
    return _REMEDIES[table]


def _has_other_epochs(old: Any, new: Any) -> bool:
    """A broker answers UNKNOWN_SERVER_ERROR about a streams group without a topology, so nobody sees its epochs."""
    is_described = old["type"] != "streams" or old["topology"] is not None
    return is_described and any(old.get(field) != new.get(field) for field in _EPOCH_FIELDS)


def _is_new_assignor_name(table: str, old: Any, new: Any) -> bool:
    """Return whether two answers about a streams group differ only in the assignor's name, which one of them lacks."""
    if table != "groups" or old is None or new is None or {old["type"], new["type"]} != {"streams"}:
        return False
    is_without = None in (old["protocol"], new["protocol"])
    return is_without and bool(old | dict.fromkeys(_ASSIGNOR_FIELDS) == new | dict.fromkeys(_ASSIGNOR_FIELDS))


def _find_partition(group_id: str, before: Groups, after: Groups) -> int | None:
    found = (groups.groups.get(group_id) or groups.orphans.get(group_id) for groups in (before, after))
    return next((parts.partition for parts in found if parts is not None), None)


def _describe_answer(table: str, answer: Any, other: Any) -> str:
    if table == "pending":
        text = f"answers UNSTABLE_OFFSET_COMMIT, because of {count_of(len(answer or ()), 'pending commit')}"
        return text if answer else "knows no pending commit"
    if table == "offsets":
        if answer is None:
            return "has no offset"
        return f"answers offset {answer['offset']}, metadata {answer['metadata']!r}, epoch {answer['leader_epoch']}"
    if answer is None:
        return "does not have the group"
    if other is None:
        return f"has a {answer['type']} group in state {answer['state']}"
    fields = [field for field in _SHOWN_FIELDS if field in answer and field in other and answer[field] != other[field]]
    texts = [
        f"no {field.replace('_', ' ')}" if answer[field] is None else f"{field.replace('_', ' ')} {answer[field]!r}"
        for field in fields
    ]
    if len(answer["members"]) != len(other["members"]):
        texts.append(count_of(len(answer["members"]), "member"))
    else:
        texts += [
            f"member {member['member_id']} with {field.replace('_', ' ')} {value!r}"
            for member, of_other in zip(answer["members"], other["members"], strict=True)
            for field, value in member.items()
            if value != of_other.get(field)
        ]
    return f"answers {', '.join(texts)}"
