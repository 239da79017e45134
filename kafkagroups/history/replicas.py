"""The differences between two loads (`diff`), and where two replicas of a partition fork.

Two loads are compared by the answers of a broker. A pending commit is one in an open transaction; it is compared even
if the coordinator does not have the group.

After an unclean leader election, two replicas have different records at the same offsets. The newer replica is the one
with the newer leader epoch, which its broker stores when it is elected, before its first record. When the broker of the
older replica returns, it truncates its log and follows the newer one, and its own records after the fork are lost.

A difference between the answers of two replicas is healed in these cases:

- Both give the same answer again, although they did not at some time after the fork.
- The newer replica has changed the answer after the fork, and its offset is not lower than that of the older one.
- The older replica has not changed the answer after the fork. Then it only lacks records, and nothing is lost.

A later commit of the newer replica does not heal a deletion that the older one did after the fork. Nor is a difference
healed in a partition that only one side has, or if no replica has changed the answer after a fork: then the log of one
has lost records to its cleaner that the other has kept.
Source: AbstractFetcherThread.getOffsetTruncationState (4.3.1); KIP-101; KIP-279.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, permutations
from typing import Any, NamedTuple

from kafkagroups.coordinator.logs import find_truncation_offset
from kafkagroups.errors import BadBytes
from kafkagroups.groups.replay import LogKeys, read_keys
from kafkagroups.helpers import MAX_INT64
from kafkagroups.history.finding import count_of
from kafkagroups.loading.groups import Groups, description_json, offsets_json, pending_json
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.fork import Fork, find_fork, read_topic_id
from kafkagroups.log.segments import Stop, batches_until
from kafkagroups.records.offset_commit import OffsetCommitValue
from kafkagroups.records.serde import decode_with_key

Epochs = dict[int, tuple[int, int]]
"""The lowest and the highest committed offset by leader epoch, of one topic partition."""

_FIELDS = {
    "groups": ("type", "state", "protocol_type", "protocol", "members"),
    "offsets": ("offset", "metadata", "leader_epoch"),
    "pending": ("producer_id", "offset", "metadata"),
}
_SHOWN_FIELDS = (
    *("offset", "metadata", "leader_epoch", "type", "state", "protocol_type", "protocol", "generation"),
    *("group_epoch", "assignment_epoch", "leader"),
)


def compare(first: Groups, second: Groups) -> dict[str, dict[str, Any]]:
    """Return the differences between two loads, in the form that `kafkagroups.diff` describes."""
    differences: dict[str, dict[str, Any]] = {table: {} for table in _FIELDS}
    for table, group_id, key, pair in list_pairs(first, second):
        if not is_same(table, *pair):
            _put(differences, table, group_id, key, pair)
    return differences


def list_pairs(first: Groups, second: Groups) -> Iterator[tuple[str, str, str, list[Any]]]:
    """Yield everything that is compared: the table, the group, the topic partition ("" for the group itself), and the
    answers of both loads, None if a load has none.
    """
    return _list_all({*first, *second, *first.orphans, *second.orphans}, first, second)


def _list_all(group_ids: Iterable[str], *loads: Groups) -> Iterator[tuple[str, str, str, list[Any]]]:
    for group_id in sorted(group_ids):
        answers = [list_answers(loaded, group_id) for loaded in loads]
        for table, key in dict.fromkeys(chain.from_iterable(answers)):
            yield table, group_id, key, [each.get((table, key)) for each in answers]


def _put(tables: dict[str, dict[str, Any]], table: str, group_id: str, key: str, value: Any) -> None:
    if table == "groups":
        tables[table][group_id] = value
    else:
        tables[table].setdefault(group_id, {})[key] = value


def list_answers(loaded: Groups, group_id: str) -> dict[tuple[str, str], Any]:
    """Everything that is compared of a group, by table and topic partition ("" for the group itself)."""
    group = loaded.get(group_id)
    holder = group or loaded.orphans.get(group_id)
    answers: dict[tuple[str, str], Any] = {} if group is None else {("groups", ""): description_json(group)}
    answering = loaded.find_holder(group_id)
    offsets = {} if answering is None else offsets_json(answering.offsets)
    answers |= {("offsets", key): offset for key, offset in offsets.items()}
    answers |= {("pending", key): commits for key, commits in pending_json(holder.pending if holder else {}).items()}
    return answers


def is_same(table: str, first: Any, second: Any) -> bool:
    def select(answer: Any) -> list[Any]:
        rows = answer if table == "pending" else [answer]
        return [[row[name] for name in _FIELDS[table]] for row in rows]

    if first is None or second is None:
        return first is second
    return select(first) == select(second)


def describe_answer(table: str, answer: Any) -> str:
    if not answer:
        return "none"
    if table == "groups":
        return f"{answer['type']} {answer['state']}, {count_of(len(answer['members']), 'member')}"
    if table == "pending":
        return ", ".join(f"{commit['offset']} (producer {commit['producer_id']})" for commit in answer)
    return f"{answer['offset']} {answer['metadata']!r}".removesuffix(" ''")


def describe_difference(table: str, a: Any, b: Any) -> str:
    if table == "pending" or a is None or b is None:
        return f"{describe_answer(table, a)} → {describe_answer(table, b)}"
    return "; ".join(_list_changes(a, b)) or (f"offset {a['offset']}" if table == "offsets" else "no field")


def _list_changes(a: dict[str, Any], b: dict[str, Any]) -> Iterator[str]:
    for name in _SHOWN_FIELDS:
        if name in a and name in b and a[name] != b[name]:
            yield f"{name.replace('_', ' ')} {_show(a[name])} → {_show(b[name])}"
    members_a, members_b = ({member["member_id"]: member for member in group.get("members", ())} for group in (a, b))
    for title, member_ids in (("with", members_b.keys() - members_a), ("without", members_a.keys() - members_b)):
        if member_ids:
            yield f"{title} {', '.join(sorted(member_ids))}"
    for member_id in sorted(members_a.keys() & members_b):
        old = members_a[member_id]
        new = members_b[member_id]
        changed = [name for name in old if new.get(name) != old[name] and not name.endswith("_hex")]
        if old != new:
            yield f"member {member_id} with {', '.join(changed) or 'bytes'} changed"


def _show(value: object) -> str:
    if value is None:
        return "none"
    return repr(value) if isinstance(value, str) else str(value)


class Truncation(NamedTuple):
    """What a follower does when it returns. `newer` is the replica that it follows, "a" or "b".

    `offset` is the offset to which the other replica truncates its log; None if the leader epochs do not tell.
    `is_elected` says whether a leader epoch shows that the newer replica was elected last. If not, it is the one that
    was elected last in `other_partitions`, or else the longer one, and `reverse` is the offset to which it truncates if
    the other replica is elected. `are_strangers` says that the logs have no record in common, so they are probably
    those of two partitions, and nothing that one of them has was lost or healed on the other.
    """

    newer: str
    offset: int | None
    is_elected: bool
    reverse: int | None
    are_strangers: bool
    other_partitions: tuple[int | None, ...] = ()


class Healing(Enum):
    """What became of an answer after the fork.

    SAME: both replicas changed it, and give the same answer.
    HEALED, NEW: the newer replica has a later answer than the older one, which has changed its answer, or has not. A
        group is always new, because later members do not show that their positions are healed.
    BACK: the older replica deleted it, and the newer one has a later commit, or the group has members there.
    BEHIND: both replicas changed it, and the newer one has the lower offset.
    FORKED: the newer replica has a later offset, but the topic forks, too, so the offset counts other records.
    LOST: only the older replica changed it, or deleted a group that has no member on the newer one.
    KEPT: none changed it, so one has removed records that the other still has.
    """

    SAME = "same"
    HEALED = "healed"
    NEW = "new"
    BACK = "back"
    BEHIND = "behind"
    FORKED = "forked"
    LOST = "lost"
    KEPT = "kept"


class TopicFork(NamedTuple):
    """A record of a topic partition that has the leader epoch `epoch` on `side`, and at most `other` on the other one.

    A commit of offset N contains the leader epoch of record N - 1, and leader epochs never fall within a log. So one
    commit on each side can prove it.
    """

    record: int
    side: str
    epoch: int
    other: int


class Change(NamedTuple):
    """An answer that the replicas changed after the fork, or that differs.

    `table` is "groups", "offsets" or "pending". `key` is the topic partition; "" in the table "groups". The values are
    those of `load --json`; None means no answer. `before` is the older replica's answer before the fork, `older` and
    `newer` are the answers now, and `newer_name` is the name of the newer replica.
    """

    table: str
    group: str
    key: str
    before: Any
    older: Any
    newer: Any
    healing: Healing
    newer_name: str

    @property
    def is_healed(self) -> bool:
        return self.healing in (Healing.SAME, Healing.HEALED, Healing.NEW)


@dataclass
class Replicas:
    """The comparison of two logs that can be replicas: `a` and `b` are their loads.

    `differences` is the result of `kafkagroups.diff`. `forks` and `truncations` have an entry for each partition that
    differs, by partition number.
    """

    a: Groups
    b: Groups
    differences: dict[str, dict[str, Any]] = field(repr=False)
    forks: dict[int | None, Fork] = field(default_factory=dict, repr=False)
    truncations: dict[int | None, Truncation] = field(default_factory=dict, repr=False)
    changes: dict[int | None, list[Change]] = field(default_factory=dict, repr=False)
    """By partition number: the answers that the replicas changed after the fork, and those that differ."""
    deletions: dict[str, dict[str, dict[str, list[tuple[int | None, int]]]]] = field(default_factory=dict, repr=False)
    """By group, topic partition and side: the places of the tombstones of a changed offset after the fork; of two
    moments, those between them, on side "b"."""
    topic_forks: dict[str, TopicFork] = field(default_factory=dict, repr=False)
    """By topic partition: where commits after the fork prove that the topic forks, too."""
    of: str = "replicas"
    """What is compared: "replicas", two "moments" of one log, or two loads ("")."""
    topic_ids: tuple[str, str] | None = None
    """The ids of the topic on both sides, as far as they say it. If they differ, the logs are no replicas."""

    @property
    def is_created_again(self) -> bool:
        """Whether the topic was deleted and created again between the two sides."""
        return len(set(self.topic_ids or ())) == 2

    @property
    def problems(self) -> list[str]:
        """The problems of both loads, each once."""
        return list(dict.fromkeys([*self.a.problems, *self.b.problems]))

    def note_records(self, side: str, topic: OpenTopic, firsts: Mapping[int | None, int]) -> dict[str, Epochs]:
        """Note the deletions of changed offsets, and return the leader epochs in commits, by topic partition.

        `firsts` has the first offset that counts, by partition. A tombstone in a transaction deletes nothing that was
        committed.
        """
        changed = {(group, key) for group, found in self.differences["offsets"].items() for key in found}
        changed |= {(each.group, each.key) for each in chain(*self.changes.values()) if each.table == "offsets"}
        epochs: dict[str, Epochs] = {}
        keys = LogKeys(topic.dialect)
        for log in topic.logs if changed else ():
            first = firsts.get(log.partition, MAX_INT64)
            for batch in batches_until(log, topic.stop):
                is_wanted = batch.last_offset >= first and not batch.is_transactional
                for group, key, record in read_keys(batch, keys) if is_wanted else ():
                    name = str(key.partition)
                    if record.offset < first or (group, name) not in changed:
                        continue
                    if record.value is None:
                        sides = self.deletions.setdefault(group, {}).setdefault(name, {})
                        sides.setdefault(side, []).append((log.partition, record.offset))
                    else:
                        with suppress(BadBytes):
                            _note_epoch(epochs.setdefault(name, {}), decode_with_key(key.decoded, record.value).value)
        return epochs

    def healed(self) -> dict[str, dict[str, Any]]:
        """Return for each difference whether it is healed, in the form of the differences.

        An answer that is the same again has no difference, but an entry here: it is healed. A group is healed if all
        that the replicas changed of it is.
        """
        healed: dict[str, dict[str, Any]] = {table: {} for table in _FIELDS}
        for table, groups in self.differences.items():
            for group_id, content in groups.items():
                healed[table][group_id] = False if table == "groups" else dict.fromkeys(content, False)
        for change in chain(*self.changes.values()):  # That of a group comes before those of its offsets.
            _put(healed, change.table, change.group, change.key, change.is_healed)
            if not change.is_healed and change.group in healed["groups"]:
                healed["groups"][change.group] = False
        return healed

    def to_json(self) -> dict[str, Any]:
        """What `diff --json` prints, without the partition counts and the rules."""
        found = {**self.differences, "deleted": self.deletions}
        if self.of != "replicas":
            return found
        forks: dict[str, Any] = {}
        for partition, fork in self.forks.items():
            epochs = [fork.a.leader_epoch, fork.b.leader_epoch]
            sizes = {"a_only": fork.a.only, "b_only": fork.b.only}
            forks[json.dumps(partition)] = {"offset": fork.offset, "leader_epochs": epochs, **sizes}
        truncations = {
            json.dumps(partition): {"newer": each.newer, "offset": each.offset}
            for partition, each in self.truncations.items()
        }
        return {
            **found,
            "healed": self.healed(),
            "fork": None if self.is_created_again else forks,
            "truncation": truncations,
            "topic_ids": self.topic_ids,
        }


def compare_replicas(topics: tuple[OpenTopic, OpenTopic], loads: tuple[Groups, Groups]) -> Replicas:
    result = Replicas(*loads, compare(*loads))
    first_id, second_id = (next(filter(None, map(read_topic_id, topic.logs)), None) for topic in topics)
    if first_id is not None and second_id is not None:
        result.topic_ids = (first_id, second_id)
    if result.is_created_again:
        return result
    others = {log.partition: log for log in topics[1].logs}
    pairs = {log.partition: (log, others[log.partition]) for log in topics[0].logs if log.partition in others}
    forks = {partition: find_fork(*pair, topics[0].stop) for partition, pair in pairs.items()}
    result.forks = {partition: fork for partition, fork in forks.items() if fork is not None}
    result.truncations = _find_truncations(result.forks)
    for partition in pairs if any(result.differences.values()) or result.forks else ():
        sides = [(loaded, loaded) for loaded in loads]
        newer_name = "b"
        if fork := forks[partition]:
            if result.truncations[partition].are_strangers:
                continue
            newer_name = result.truncations[partition].newer
            until_fork = replace(topics[0], stop=Stop(fork.batch_offset, topics[0].stop.until_time))
            sides = [
                (until_fork.part(log).load() if branch.only else loaded, loaded)
                for log, branch, loaded in zip(pairs[partition], (fork.a, fork.b), loads, strict=True)
            ]
        older, newer = sides if newer_name == "b" else reversed(sides)
        result.changes[partition] = [*_find_changes(partition, older, newer, newer_name)]
    firsts = {partition: fork.offset for partition, fork in result.forks.items()}
    epochs = {name: result.note_records(name, topic, firsts) for name, topic in zip("ab", topics, strict=True)}
    for (side, found), (_, others_found) in permutations(epochs.items()):
        for name in found.keys() & others_found:
            if fork_of_topic := _find_topic_fork(side, found[name], others_found[name]):
                result.topic_forks[name] = fork_of_topic
    for partition, changes in result.changes.items():
        result.changes[partition] = [
            change._replace(healing=Healing.FORKED)
            if change.healing is Healing.HEALED and change.key in result.topic_forks
            else change
            for change in changes
        ]
    return result


def _note_epoch(epochs: Epochs, commit: object) -> None:
    if isinstance(commit, OffsetCommitValue) and commit.leader_epoch >= 0:
        lowest, highest = epochs.get(commit.leader_epoch, (commit.offset, commit.offset))
        epochs[commit.leader_epoch] = (min(lowest, commit.offset), max(highest, commit.offset))


def _find_topic_fork(side: str, epochs: Epochs, others: Epochs) -> TopicFork | None:
    found = [
        TopicFork(lowest - 1, side, epoch, other)
        for epoch, (lowest, _) in epochs.items()
        for other, (_, highest) in others.items()
        if other < epoch and lowest <= highest
    ]
    return min(found, default=None)


def compare_moments(topic: OpenTopic, a: Groups, b: Groups) -> Replicas:
    """Compare two moments of one log. `topic` ends at the later one, b."""
    result = Replicas(a, b, compare(a, b), of="moments")
    result.note_records("b", topic, {number: loaded.next_offset for number, loaded in a.partitions.items()})
    return result


def _find_truncations(forks: dict[int | None, Fork]) -> dict[int | None, Truncation]:
    """Where the leader epochs of a partition do not say who was elected last, those of the others are a sign.

    A broker that takes over leads several partitions, and an election without records leaves no epoch in a log.
    """
    truncations = {partition: _find_truncation(fork) for partition, fork in forks.items()}
    newer = {partition: each.newer for partition, each in truncations.items() if each.is_elected}
    if len({*newer.values()}) == 1:
        name = next(iter(newer.values()))
        for partition, each in truncations.items():
            if not each.is_elected:
                found = _find_truncation(forks[partition], name)
                truncations[partition] = found._replace(other_partitions=tuple(newer))
    return truncations


def _find_truncation(fork: Fork, newer: str | None = None) -> Truncation:
    """`newer` is the newer replica, if other partitions show it."""
    ages = [(branch.epochs[-1][0] if branch.epochs else -1, branch.end_offset) for branch in (fork.a, fork.b)]
    newer = newer or ("a" if ages[0] > ages[1] else "b")
    leader, follower = (fork.a, fork.b) if newer == "a" else (fork.b, fork.a)
    ends = [
        find_truncation_offset(second.epochs, second.end_offset, first.epochs, first.end_offset)
        for first, second in ((leader, follower), (follower, leader))
    ]
    is_elected = ages[0][0] != ages[1][0]
    are_strangers = not is_elected and fork.a.only > 0 < fork.b.only and fork.a.first == fork.b.first == 0
    return Truncation(newer, ends[0], is_elected, ends[1], are_strangers)


def _find_changes(
    partition: int | None, older_loads: tuple[Groups, Groups], newer_loads: tuple[Groups, Groups], newer_name: str
) -> Iterator[Change]:
    """Yield the answers of one partition that the replicas changed after the fork, or that differ.

    The loads of each replica are those of its log before the fork and of its whole log.
    """
    loads = [*chain(*zip(older_loads, newer_loads, strict=True))]
    group_ids = {name for loaded in loads[2:] for name, numbers in loaded.partitions_of.items() if partition in numbers}
    for table, group_id, key, (before, newer_before, older, newer) in _list_all(group_ids, *loads):
        healing = _judge(table, before, older, newer_before, newer)
        if healing is Healing.LOST and table == "pending" and older is not None:
            committed_before, committed = (list_answers(load, group_id).get(("offsets", key)) for load in loads[1::2])
            # A later commit of the newer replica stands for lost pending commits.
            if committed is not None and not is_same("offsets", committed, committed_before):
                is_later = committed["offset"] >= max(commit["offset"] for commit in older)
                healing = Healing.HEALED if is_later else healing
        if healing is not None:
            yield Change(table, group_id, key, before, older, newer, healing, newer_name)


def _judge(table: str, before: Any, older: Any, newer_before: Any, newer: Any) -> Healing | None:
    """`before` and `newer_before` are the answers at the fork. None: nothing that differs or was changed twice."""
    has_older_changed = not is_same(table, before, older)
    has_newer_changed = not is_same(table, newer_before, newer)
    if is_same(table, newer, older):
        return Healing.SAME if has_older_changed and has_newer_changed else None
    if not has_newer_changed:
        return Healing.LOST if has_older_changed else Healing.KEPT
    if not has_older_changed or (table == "groups" and older is not None):
        return Healing.NEW
    if table != "pending" and older is None:
        # A coordinator also writes a group when its last members leave or time out.
        return Healing.BACK if table == "offsets" or newer["members"] else Healing.LOST
    is_behind = table == "offsets" and newer and newer["offset"] < older["offset"]
    return Healing.BEHIND if is_behind else Healing.HEALED
