"""The command `explain`.

A backward commit is a commit of a smaller offset than the previous commit of the same topic-partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkagroups.cli import answers
from kafkagroups.cli.options import SPARK, Options
from kafkagroups.cli.output import format_time_ms, print_table, print_text, shorten
from kafkagroups.groups.offsets import Fate
from kafkagroups.history.explain import Explanation
from kafkagroups.history.fates import RecordFate
from kafkagroups.history.finding import SHARE_NOTE, count_of, name_record
from kafkagroups.loading.partition_count import has_wildcard
from kafkagroups.records.releases import rules_to_json
from kafkagroups.records.serde import RECORD_TYPES
from kafkagroups.topic import Topic

LAST_RECORD_COUNT = 20
"""How many of the last records the text shows of a history of more than twice this number of records."""
_KEPT_FATES = (Fate.WINS, Fate.PENDING, Fate.DELETED, Fate.HIDDEN, Fate.TOMBSTONE)
ARGUMENTS = f"""
PATH...
--group! G  the group id, or a pattern: * stands for any characters, and ? for one character
--topic --partition --coordinator --kafka --partitions --until --until-time --since-time --retention --all
{SPARK}
--max-batch-bytes --past-damage --json
"""
EXAMPLES = """\
  kafkagroups explain data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups explain LOG --group billing --topic orders --partition 0
  kafkagroups explain LOG --group 'bill*' --until-time 2026-11-21T10:00 --json"""


def run(args: Options) -> int:
    def explain(topic: Topic) -> list[Explanation]:
        options = {"since_time": args.since_time, "retention_ms": args.retention, **answers.find_stop(args)}
        return topic.explain_groups(args.group, args.topic, args.partition, **options)

    def to_json(topic: Topic, explanation: Explanation) -> dict[str, Any]:
        return {"path": topic.path, **rules_to_json(topic.dialect.rules_of), **explanation.to_json()}

    return answers.answer_each(args, explain, _print_explanation, to_json)


def _print_explanation(args: Options, topic: Topic, explanation: Explanation) -> None:
    answers.print_default_rules(args, topic)
    group = explanation.group
    subject = group or "the group with the empty id"
    if args.topic is not None:
        subject = f"{args.topic}{'' if args.partition is None else f'-{args.partition}'} of {subject}"
    broker = f"A {explanation.kafka} broker ({explanation.coordinator} coordinator)"
    is_known = bool(explanation.history) or args.since_time is not None
    if explanation.history:
        _print_history(explanation, shows_all=args.all)
    elif is_known:
        print_text(f"No record of {subject} since {format_time_ms(args.since_time)}.")
    elif has_wildcard(group):
        print_text(f"No group in {topic.path} matches {group}.")
    else:
        print_text(answers.describe_unknown_group(subject, group, topic, explanation.topic_partitions))
    for partition, damage in explanation.find_damage().items():
        answers.print_damage(answers.name_partition(partition), damage, "The answer is what comes before it.")
    if is_known:
        _print_answer(args, explanation, subject, broker)
        if explanation.writers is not None:
            print_text(explanation.writers)
        _print_expirations(explanation, shows_all=args.all)
    elif explanation.error is not None:
        print_text(f"{broker} fails to load {explanation.error}.")
    answers.print_topic_partitions(explanation.topic_partitions, explanation.coordinator, group)
    answers.print_gaps({number: loaded.gaps for number, loaded in explanation.partitions.items()})
    answers.print_cut(
        args.until, args.until_time, {number: loaded.next_offset for number, loaded in explanation.partitions.items()}
    )


def _print_history(explanation: Explanation, *, shows_all: bool) -> None:
    history = explanation.history
    shown = history if shows_all else _select_records(explanation)
    for number in explanation.conflicts:
        if any(entry.is_unloaded and entry.partition == number for entry in history):
            _print_failure(explanation, number)
    days = {time[:10] if len(time) == 23 else "" for time in (format_time_ms(entry.timestamp) for entry in shown)}
    day = days.pop() if len(days) == 1 else ""
    rewinds = "▼: the offset went back. " if any(entry.went_back for entry in shown) else ""
    skips = "▲: the offset jumped ahead. " if any(entry.skipped for entry in shown) else ""
    below = []
    metadata = ""
    for entry in shown:
        below.append([*_describe(entry, metadata, explanation.partitions[entry.partition].record_offset)])
        metadata = metadata if entry.committed is None else entry.note or ""
    print_table(
        ("record", f"{day or 'written'} (UTC)", "about", "committed", "producer", "fate", "by"),
        [_list_cells(entry, day) for entry in shown],
        note=f"Record: partition:offset. {rewinds}{skips}Producer: id/epoch of the transaction. By: the offset of "
        "the record that decided the fate.",
        below=below,
    )
    if len(shown) < len(history):
        print_text(
            f"{len(shown)} of {len(history)} records: the last {LAST_RECORD_COUNT}, and all earlier ones that count, "
            "are pending, were deleted, went back or jumped ahead, and the group's own. --all shows all records."
        )


def _select_records(explanation: Explanation) -> list[RecordFate]:
    """Return the records that the text shows: the last ones and the important ones.

    Where the load of a partition fails, the records before it that would count are shown.
    """
    history = explanation.history
    if len(history) <= 2 * LAST_RECORD_COUNT:
        return history
    selected_ids = {id(entry) for entry in history[-LAST_RECORD_COUNT:]}
    for entry in history:
        failed_offset = explanation.partitions[entry.partition].record_offset
        would_count = entry.is_unloaded and (failed_offset is None or entry.offset <= failed_offset)
        is_of_group = entry.group_record is not None or (entry.key is None and entry.type is not None)
        is_unusual = entry.went_back or entry.skipped or entry.is_unreadable
        if would_count or is_of_group or is_unusual or entry.fate in _KEPT_FATES:
            selected_ids.add(id(entry))
    return [entry for entry in history if id(entry) in selected_ids]


def _print_failure(explanation: Explanation, partition: int | None) -> None:
    loaded = explanation.partitions[partition]
    name = "this log" if partition is None else f"partition {partition}"
    text = f"Kafka {explanation.kafka} fails to load {name}: {loaded.error}.{explanation.conflicts[partition]}"
    if loaded.record_offset is not None:
        text += (
            f" Ignored records before {loaded.record_offset}: up to there, no other record has superseded, deleted or "
            f"aborted them. The load does not read the records after {loaded.record_offset}."
        )
    print_text(text)


def _list_cells(entry: RecordFate, day: str) -> tuple[object, ...]:
    marks = {entry.went_back: "▼ ", entry.skipped: "▲ "}
    about = f"{entry.note} marker" if entry.fate is Fate.MARKER else _name_type(entry.type)
    return (
        name_record(entry.partition, entry.offset),
        format_time_ms(entry.timestamp).removeprefix(day).strip(),
        entry.key or about,
        f"{marks.get(True, '')}{'' if entry.committed is None else entry.committed}",
        _name_producer(entry),
        entry.fate.value if entry.fate else "",
        "" if entry.by is None else entry.by,
    )


def _name_type(record_type: int | None) -> str:
    if record_type is None:
        return "-"
    return RECORD_TYPES[record_type].name if record_type in RECORD_TYPES else f"type {record_type}"


def _name_producer(entry: RecordFate) -> str:
    if entry.producer_id is None or not (entry.is_transactional or entry.fate is Fate.MARKER):
        return ""
    return f"{entry.producer_id}/{entry.producer_epoch}"


def _describe(entry: RecordFate, metadata: str, failed_offset: int | None) -> Iterator[str]:
    if entry.fate is not Fate.MARKER and entry.committed is not None and (entry.note or "") != metadata:
        yield f"metadata: {shorten(entry.note)}" if entry.note else "no metadata"
    if entry.producer_id is not None and not _name_producer(entry):
        yield f"producer {entry.producer_id}, epoch {entry.producer_epoch}, without a transaction: no marker will come"
    what = " ".join(filter(None, (_describe_group(entry), entry.what)))
    if what:
        yield what
    if not entry.is_unloaded and entry.why is not None:
        yield f"{entry.fate.value if entry.fate else ''}: {entry.why}"
    elif entry.is_unloaded and entry.offset == failed_offset:
        # The reason is above the table, once for all records.
        yield "The load fails at this record."


def _describe_group(entry: RecordFate) -> str:
    group = entry.group_record
    if group is None or entry.member_id is not None or group["type"] is None:
        return ""
    text = f"{group['type']} group, {group['state']}"
    epoch = "generation" if group["type"] == "classic" else "group_epoch"
    if epoch == "group_epoch":
        text += f", assignment epoch {group['assignment_epoch']}"
    return f"{text}." if entry.what else f"{text}, {epoch.removeprefix('group_')} {group[epoch]}."


def _print_answer(args: Options, explanation: Explanation, subject: str, broker: str) -> None:
    answer = explanation.answer
    if answer is None:
        text = f"nothing about {subject}"
    elif args.topic is None:
        state = f"{answer['state']}, with" if "state" in answer else "Dead, and all the same its"
        text = f"that {subject} is {state} {count_of(len(answer['offsets']), 'offset')}"
        if answer.get("type") == "share":
            text = f"that {subject} is {answer['state']}. {SHARE_NOTE.removesuffix('.')}"
    elif args.partition is None:
        offsets = ", ".join(f"{key}: {offset['offset']}" for key, offset in answer.items())
        text = f"{offsets} for {subject}"
    else:
        metadata = f", with the metadata {shorten(answer['metadata'])!r}" if answer["metadata"] else ""
        text = f"{answer['offset']} for {subject}{metadata}"
    failure = "" if explanation.error is None else f"; it fails to load {explanation.error}"
    print_text(f"{broker} answers {text}{failure}.")
    for entry in explanation.waiting:
        end = f"until producer {entry.producer_id}'s transaction ends"
        if not entry.is_transactional:
            end = f"for good: no marker will come, because producer {entry.producer_id} wrote it without a transaction"
        answered = "A request for stable offsets is answered UNSTABLE_OFFSET_COMMIT."
        print_text(f"{entry.key}: record {entry.offset} is pending {end}. {answered}")


def _print_expirations(explanation: Explanation, *, shows_all: bool) -> None:
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
        [(*each[:2], format_time_ms(each.expire_ms), reasons[each.is_from_record]) for each in shown],
    )
    if len(shown) < len(expirations):
        print_text(f"{len(shown)} of {len(expirations)} offsets. --all shows all of them.")
