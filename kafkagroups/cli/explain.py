"""The command `explain`: every record of a group or of one of its offsets, and the fate of each record.

The fate says what happened to a record: a broker answers with it, a newer record superseded it, and so on. The text has
a row for each record, and indented lines below the row about what the columns do not show. A backward commit is a
commit of a smaller offset than the previous commit of the same topic-partition.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from kafkagroups.cli import answers
from kafkagroups.cli.options import SPARK, rules_to_json
from kafkagroups.cli.output import format_time_ms, print_table, print_text
from kafkagroups.cli.progress import spinner
from kafkagroups.errors import UsageError
from kafkagroups.groups.expiration import Expiration
from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Cause
from kafkagroups.history.explain import Explanation, LoadFailure
from kafkagroups.history.fates import RecordFate, history_json
from kafkagroups.history.words import count_of, describe_duration
from kafkagroups.loading.group_choice import has_wildcard
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.topic import Topic

LAST_RECORD_COUNT = 20
"""How many of the last records the text shows of a long history (more than twice this number of records)."""
UNCHANGED_MEMBER_COUNT = 10
"""How many members that neither joined nor left are listed below the record of a group. Others are only counted."""
MIN_USUAL_COMMITS = 3
"""From how many commits on the same metadata is the usual one, if most commits have it."""
_KEPT_FATES = (Fate.WINS, Fate.PENDING, Fate.DELETED, Fate.HIDDEN, Fate.TOMBSTONE)
_CAUSES = {
    Cause.EXPIRED: "the offset expired",
    Cause.GROUP_DELETED: "the group was deleted",
    Cause.OFFSET_DELETED: "a request deleted the offset",
    Cause.TOPIC_DELETED: "the topic was deleted",
    Cause.UNKNOWN: "the log does not tell",
}
_MEMBER_FIELDS = {"group_instance_id": "instance ", "member_epoch": "epoch ", "state": ""}
ARGUMENTS = f"""
PATH...
--group! G  the group id, or a pattern: * stands for any characters, and ? for one character
--topic TOPIC  only the group's offsets for this topic
--partition N  only this partition of the topic; needs --topic
--coordinator --kafka --partitions
--until N  read whole batches, and only those whose base offset is below N; in a folder of partitions, read only the
    partition with the group's records
--until-time
--since-time T  show only records with this timestamp or a later one; T is as in --until-time; the fates and the answer
    are those of the whole log
--retention
--all  show every record; by default, a long history is cut to the last {LAST_RECORD_COUNT} records, the group's own
    records, and the records that count, are pending, were deleted, or set an offset back
{SPARK}
--max-batch-bytes --past-damage
--json  one JSON object for each group, with every record
"""
EXAMPLES = """\
examples:
  kafkagroups explain data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups explain LOG --group billing --topic orders --partition 0
  kafkagroups explain LOG --group 'bill*' --topic orders --since-time 2026-11-21T10:00
  kafkagroups explain LOG --group billing --retention 7d
  kafkagroups explain LOG --group billing --until-time 2026-11-21T10:00 --json"""


def run(args: argparse.Namespace) -> int:
    return answers.answer_each(args, _ask, _print_explanation, _to_json, subjects=_list_subjects(args))


def _list_subjects(args: argparse.Namespace) -> Iterator[tuple[Topic, str]]:
    """Yield the topic of each PATH with each group that --group names."""
    for topic in answers.open_topics(args):
        group_ids = [args.group]
        # Without such a PATH, the question raises the same error.
        with spinner(str(topic.path)), suppress(UsageError):
            group_ids = topic.find_groups(args.group, until_time=args.until_time)
        yield from ((topic, group_id) for group_id in group_ids)


def _ask(args: argparse.Namespace, topic: Topic, group_id: str) -> Explanation:
    options = {"since_time": args.since_time, "retention_ms": args.retention, **answers.find_stop(args)}
    return topic.explain(group_id, args.topic, args.partition, **options)


def _to_json(args: argparse.Namespace, topic: Topic, explanation: Explanation) -> dict[str, Any]:
    partitions = {number: {"gaps": [asdict(gap) for gap in gaps]} for number, gaps in explanation.gaps.items()}
    damage = {number: asdict(place) for number, place in explanation.find_damage().items()}
    return {
        "path": topic.path,
        "group": explanation.group,
        "coordinator": explanation.coordinator,
        **rules_to_json(topic.dialect.rules_of),
        "history": [history_json(entry) for entry in explanation.history],
        "answer": explanation.answer,
        "error": explanation.error,
        "expires_next": [_expiration_to_json(expiration) for expiration in explanation.expires_next],
        "rewound": [position.to_json() for position in explanation.rewound],
        "expires_without_members": [_expiration_to_json(expiration) for expiration in explanation.protected],
        "next_offsets": explanation.next_offsets,
        "topic_partitions": explanation.topic_partitions.to_json(),
        **({"partitions": partitions} if partitions else {}),
        **({"damage": damage} if damage else {}),
    }


def _expiration_to_json(expiration: Expiration) -> dict[str, Any]:
    origin = "record" if expiration.is_from_record else "retention"
    return {
        "topic_partition": str(expiration.topic_partition),
        "offset": expiration.offset,
        "expire_ms": expiration.expire_ms,
        "from": origin,
    }


def _print_explanation(args: argparse.Namespace, topic: Topic, explanation: Explanation) -> None:
    answers.print_default_rules(args, topic)
    group = explanation.group
    subject = group or "the group with the empty id"
    if args.topic is not None:
        subject = f"{args.topic}{'' if args.partition is None else f'-{args.partition}'} of {subject}"
    broker = f"A {explanation.kafka} broker ({explanation.coordinator} coordinator)"
    if explanation.history or args.since_time is not None:
        if explanation.history:
            _print_history(explanation, shows_all=args.all)
        else:
            print_text(f"No record of {subject} since {format_time_ms(args.since_time)}.")
        _print_answer(args, explanation, subject, broker)
        _print_expirations(explanation, shows_all=args.all)
    else:
        unknown = f"No group in {topic.path} matches {group}."
        if not has_wildcard(group):
            unknown = answers.describe_unknown_group(subject, group, topic, explanation.topic_partitions)
        print_text(unknown)
        if explanation.error is not None:
            print_text(f"{broker} fails to load {explanation.error}.")
        for place in explanation.find_damage().values():
            print_text(f"Damage: {place}.")
    answers.print_topic_partitions(explanation.topic_partitions, explanation.coordinator, group)
    answers.print_gaps(explanation.gaps)
    answers.print_cut(args, explanation.next_offsets)


def _print_history(explanation: Explanation, *, shows_all: bool) -> None:
    """Print the records. If the history is long, print only some records (`_select_records`)."""
    history = explanation.history
    failed_at = {failure.partition: failure.offset for failure in explanation.failures}
    shown = history if shows_all else _select_records(history, failed_at)
    for failure in explanation.failures:
        if any(entry.is_unloaded and entry.partition == failure.partition for entry in history):
            _print_failure(failure, explanation.kafka)
    partitions = {entry.partition for entry in shown}
    times = [format_time_ms(entry.timestamp) for entry in shown]
    dates = {time.partition(" ")[0] for time in times}
    title = "Records"
    if len(partitions) == 1 and None not in partitions:
        title += f" in partition {shown[0].partition} of __consumer_offsets"
    if len(dates) == 1:
        title += f", written on {dates.pop()}"
        times = [time.partition(" ")[2] for time in times]
    if title != "Records":
        print_text(f"{title}:")
    usual = _find_usual_metadata(history)
    print_table(
        ("record", "written (UTC)", "about", "committed", "producer", "fate", "by"),
        [_list_cells(entry, time, len(partitions) > 1) for entry, time in zip(shown, times, strict=True)],
        below=[_describe(entry, usual, failed_at.get(entry.partition), shows_all=shows_all) for entry in shown],
    )
    notes = {
        f"Usual metadata of the commits: {usual}. Only other metadata stands below a row.": usual,
        "▼: this commit set the offset back.": any(entry.went_back for entry in shown),
        "producer: the producer id and the producer epoch of the transaction.": any(map(_name_producer, shown)),
        "by: the record that superseded, deleted, hid, committed or aborted this record.": any(
            entry.by is not None for entry in shown
        ),
        f"{len(shown)} of {len(history)} records: the last {LAST_RECORD_COUNT}, and all earlier ones that count, are "
        "pending, were deleted or set an offset back, and the group's own records. --all shows all records.": (
            len(shown) < len(history)
        ),
    }
    for note, is_needed in notes.items():
        if is_needed:
            print_text(note)


def _select_records(history: list[RecordFate], failed_at: Mapping[int | None, int | None]) -> list[RecordFate]:
    """Return the records that the text shows: the last ones, the important ones, and each backward commit with the
    commit before.

    `failed_at` has the offset at which the load of a partition fails. The records before it that would count are shown.
    """
    if len(history) <= 2 * LAST_RECORD_COUNT:
        return history
    previous_commit: dict[tuple[int | None, TopicPartition], RecordFate] = {}
    selected_ids = {id(entry) for entry in history[-LAST_RECORD_COUNT:]}
    for entry in history:
        failed_offset = failed_at.get(entry.partition)
        would_count = entry.is_unloaded and (failed_offset is None or entry.offset <= failed_offset)
        is_of_group = entry.group_record is not None or (entry.key is None and entry.type is not None)
        if would_count or is_of_group or entry.is_unreadable or entry.fate in _KEPT_FATES:
            selected_ids.add(id(entry))
        if entry.key is not None and entry.committed is not None:
            place = (entry.partition, entry.key)
            if entry.went_back:
                # With --since-time, the commit before can be missing.
                selected_ids |= {id(entry), id(previous_commit.get(place, entry))}
            previous_commit[place] = entry
    return [entry for entry in history if id(entry) in selected_ids]


def _print_failure(failure: LoadFailure, kafka: str) -> None:
    """Print what the failure of a load means for the records that it makes the coordinator ignore."""
    name = "this log" if failure.partition is None else f"partition {failure.partition}"
    print_text(f"Kafka {kafka} fails to load {name}: {failure.reason}.")
    if failure.conflict is not None and failure.conflict.type is not None:
        group_type = GROUP_TYPE_BY_RECORD_TYPE[failure.conflict.type]
        record = f"{_name_type(failure.conflict.type)} at {failure.conflict.offset}"
        print_text(
            f"The newest record of the {group_type} group before it is {record}: no tombstone deleted the group."
        )
    if failure.offset is not None:
        print_text(
            f"Ignored records before {failure.offset}: up to there, no other record has superseded, deleted or aborted "
            f"them. The load does not read the records after {failure.offset}."
        )


def _list_cells(entry: RecordFate, time: str, has_partition: bool) -> tuple[object, ...]:
    """Return the row of a record. If the records are in several partitions, it is shown as partition:offset."""
    about = "-" if entry.type is None else _name_type(entry.type)
    if entry.fate is Fate.MARKER:
        about = f"{entry.note} marker"
    partition = "-" if entry.partition is None else entry.partition
    committed = "" if entry.committed is None else entry.committed
    return (
        f"{partition}:{entry.offset}" if has_partition else entry.offset,
        time,
        entry.key or about,
        f"▼ {committed}" if entry.went_back else committed,
        _name_producer(entry),
        entry.fate.value if entry.fate else "",
        "" if entry.by is None else entry.by,
    )


def _name_type(record_type: int) -> str:
    return RECORD_TYPES[record_type].name if record_type in RECORD_TYPES else f"type {record_type}"


def _name_producer(entry: RecordFate) -> str:
    """Return the producer id and the producer epoch of a record in a transaction. Otherwise return ""."""
    if entry.producer_id is None or not (entry.is_transactional or entry.fate is Fate.MARKER):
        return ""
    return f"{entry.producer_id}/{entry.producer_epoch}"


def _find_usual_metadata(history: list[RecordFate]) -> str:
    """Return the metadata that most commits have, if there are enough commits. Otherwise return ""."""
    counts = Counter(entry.note or "" for entry in history if entry.committed is not None)
    [(metadata, count)] = counts.most_common(1) or [("", 0)]
    return metadata if count >= MIN_USUAL_COMMITS and 2 * count > counts.total() else ""


def _describe(entry: RecordFate, usual_metadata: str, failed_offset: int | None, *, shows_all: bool) -> Iterator[str]:
    """Yield what the columns do not show: metadata that is not the usual one, members, and reasons."""
    if entry.fate is not Fate.MARKER and entry.committed is not None and (entry.note or "") != usual_metadata:
        yield f"metadata: {entry.note}" if entry.note else "no metadata, although the other commits have some"
    if entry.producer_id is not None and not _name_producer(entry):
        yield f"producer {entry.producer_id}, epoch {entry.producer_epoch}, without a transaction: no marker will come"
    what = " ".join(part for part in (_describe_group(entry), entry.what) if part)
    if what:
        yield what
    if entry.group_record is not None:
        yield from _list_members(entry.group_record, shows_all=shows_all)
    if entry.fate is Fate.TOMBSTONE and (entry.key is not None or entry.cause is Cause.EXPIRED):
        yield f"cause: {_CAUSES[entry.cause or Cause.UNKNOWN]}"
    if not entry.is_unloaded and entry.why is not None:
        yield f"{entry.fate.value if entry.fate else ''}: {entry.why}"
    elif entry.is_unloaded and entry.offset == failed_offset:
        # The reason is above the table, once for all records.
        yield "The load fails at this record."


def _describe_group(entry: RecordFate) -> str:
    """Return the type, the state and the epochs of a group; "" for a member's record.

    The timeline's sentence about a change contains the generation or the epoch.
    """
    group = entry.group_record
    if group is None or entry.member_id is not None or group["type"] is None:
        return ""
    is_classic = group["type"] == "classic"
    parts = [f"{group['type']} group", group["state"]]
    if not is_classic:
        parts.append(f"assignment epoch {group['assignment_epoch']}")
    if entry.what is None:
        parts.append(f"generation {group['generation']}" if is_classic else f"epoch {group['group_epoch']}")
    return f"{', '.join(parts)}."


def _list_members(group: dict[str, Any], *, shows_all: bool) -> Iterator[str]:
    """Yield a line for each member: "+" before a member that joined, "-" before one that left."""
    yield from (f"- {member_id}" for member_id in group["members_left"])
    joined = set(group["members_joined"])
    members = sorted(group["members"], key=lambda member: member["member_id"] not in joined)
    shown_count = len(members) if shows_all else len(joined) + UNCHANGED_MEMBER_COUNT
    for member in members[:shown_count]:
        yield f"{'+' if member['member_id'] in joined else '='} {_describe_member(member)}"
    if len(members) > shown_count:
        yield f"= {count_of(len(members) - shown_count, 'more member')}; --all shows them"


def _describe_member(member: dict[str, Any]) -> str:
    parts = [member["member_id"]]
    parts += [f"{title}{member[name]}" for name, title in _MEMBER_FIELDS.items() if member.get(name) not in (None, "")]
    for name, title in (("session_timeout_ms", "session"), ("rebalance_timeout_ms", "rebalance")):
        duration_ms = member.get(name)
        if duration_ms is not None and duration_ms >= 0:
            parts.append(f"{title} time-out {describe_duration(duration_ms)}")
    return ", ".join(parts)


def _print_answer(args: argparse.Namespace, explanation: Explanation, subject: str, broker: str) -> None:
    """Print what a broker answers about the subject: a group, the offsets of a topic, or one offset."""
    answer = explanation.answer
    if answer is None:
        text = f"nothing about {subject}"
    elif args.topic is None:
        text = f"that {subject} is {answer['state']}, with {count_of(len(answer['offsets']), 'offset')}"
    elif args.partition is None:
        offsets = ", ".join(f"{key}: {offset['offset']}" for key, offset in answer.items())
        text = f"{offsets} for {subject}"
    else:
        metadata = f", with the metadata {answer['metadata']!r}" if answer["metadata"] else ""
        text = f"{answer['offset']} for {subject}{metadata}"
    if explanation.error is not None:
        text += f"; it fails to load {explanation.error}"
    damage = explanation.find_damage()
    if damage:
        cuts = (
            f"{place.offset}{'' if number is None else f' of partition {number}'}" for number, place in damage.items()
        )
        broker = (
            f"The log is damaged. After an unclean start has cut the log at offset {', '.join(cuts)}, a{broker[1:]}"
        )
    print_text(f"{broker} answers {text}.")
    for place in damage.values():
        print_text(f"Damage: {place}.")
    if damage:
        print_text("A clean start does not cut the log, and can fail. kafkagroups check says what each start does.")
    for entry in explanation.waiting:
        end = f"until producer {entry.producer_id}'s transaction ends"
        if not entry.is_transactional:
            end = f"for good: no marker will come, because producer {entry.producer_id} wrote it without a transaction"
        print_text(
            f"{entry.key}: record {entry.offset} is pending {end}. To a request for stable offsets, a broker answers "
            "UNSTABLE_OFFSET_COMMIT."
        )


def _print_expirations(explanation: Explanation, *, shows_all: bool) -> None:
    """Print which offsets expire next."""
    if protected := explanation.protected:
        print_text(
            f"Protected by the group's members: {count_of(len(protected), 'offset')} with an expire time in the "
            f"record, the first of them {format_time_ms(protected[0].expire_ms)} UTC. After this time, an offset "
            "expires as soon as the group has no member."
        )
    expirations = explanation.expires_next
    shown = expirations if shows_all else expirations[:LAST_RECORD_COUNT]
    reasons = {True: "expire time in the record", False: "retention time"}
    print_table(
        ("expires next", "offset", "at (UTC)", "because of"),
        [
            (each.topic_partition, each.offset, format_time_ms(each.expire_ms), reasons[each.is_from_record])
            for each in shown
        ],
    )
    if len(shown) < len(expirations):
        print_text(f"{len(shown)} of {len(expirations)} offsets. --all shows all of them.")
