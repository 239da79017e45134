"""What the commands that answer about logs share: each PATH becomes a `Topic`, whose answer is printed as JSON or
text."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from kafkagroups.cli.options import Options, choose_dialect
from kafkagroups.cli.output import print_error, print_json, print_text, spinner
from kafkagroups.errors import ForeignLog, KafkagroupsError, UsageError
from kafkagroups.history.finding import count_of, describe_topic
from kafkagroups.loading.partition_count import TopicPartitions, has_wildcard, match_groups
from kafkagroups.log.batches import Damage, Gap
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segment_file import DEFAULT_PARTITION_COUNT, base_offset_of, partition_for
from kafkagroups.topic import Limits, Topic

_MEMBER_FACTS = {
    "client_id": "client",
    "group_instance_id": "instance",
    "state": "state",
    "member_epoch": "epoch",
    "previous_member_epoch": "previous epoch",
    "session_timeout_ms": "session time-out in ms",
    "rebalance_timeout_ms": "rebalance time-out in ms",
    "subscribed_topic_regex": "pattern",
}
_NO_FACT = (None, "", -1)


@dataclass(frozen=True)
class _SparkTopic(Topic):
    master: str | None = None

    def load(self, *, progress: object = None, **stop: Any) -> Any:
        return self._ask("load_groups", **stop)

    def explain_groups(self, pattern: str, *question: Any, **options: Any) -> Any:
        group_ids = [pattern]
        if has_wildcard(pattern):
            group_ids = match_groups(self.load(until_time=options["until_time"]).partitions_of, pattern)
        return [self._ask("explain", group_id, *question, **options) for group_id in group_ids]

    def stats(self, by: str = "group") -> Any:
        return self._ask("stats", by)

    def _ask(self, question: str, *words: Any, **options: Any) -> Any:
        from kafkagroups import spark

        rules = {**vars(self), **options, "fail_on_damage": None}  # The command prints the problems itself.
        return getattr(spark, question)(rules.pop("path"), *words, **rules)


def open_topics(args: Options) -> list[Topic]:
    dialect = choose_dialect(args)
    rules = {name: getattr(args, name) for name in Limits.__annotations__ if name in args}
    kind: type[Topic] = Topic
    if rules.get("engine") == "spark":
        kind = _SparkTopic
        rules |= {"engine": "auto", "master": args.master}
    paths = args.paths if "paths" in args else [args.path]
    return [kind(path, dialect.coordinator, dialect.kafka, **rules) for path in paths]


def find_stop(args: Options) -> dict[str, Any]:
    return {"until": args.until, "until_time": args.until_time}


def answer_each(
    args: Options,
    ask: Callable[..., Any],
    show: Callable[[Options, Topic, Any], None],
    to_json: Callable[[Topic, Any], object] = lambda topic, answer: answer.to_json(),
    *,
    list_problems: Callable[[Topic, Any], list[str]] = lambda topic, answer: answer.problems,
    subjects: Iterable[tuple[Any, ...]] | None = None,
    spins: bool = True,
) -> int:
    """Ask about each PATH, print the answers, and return the exit code. A PATH that is wrong does not stop the others.

    `ask` gets the topic of a PATH, or what `subjects` yields, the topic first. The problems are lines about bad data,
    for stderr.
    """
    statuses: list[int] = []
    has_findings = False
    has_text = False
    problems: set[str] = set()
    for topic, *more in subjects or [(topic,) for topic in open_topics(args)]:
        path = str(topic.path)
        try:
            scheme, is_uri, _ = path.partition("://")
            if is_uri and getattr(args, "engine", "spark") != "spark" and not os.path.exists(path):
                raise UsageError(f"{scheme}:// needs --engine spark")
            with spinner(path) if spins else nullcontext():
                answer = ask(topic, *more)
        except KafkagroupsError as error:
            print_error(error)
            if args.json and isinstance(error, ForeignLog):
                print_json({"path": path, "error": str(error)})
            statuses.append(2 if isinstance(error, UsageError) else 1)
            continue
        for each in answer if isinstance(answer, list) else [answer]:
            if args.json:
                found = to_json(topic, each)
                for value in found if isinstance(found, list) else [found]:
                    print_json(value)
            else:
                if has_text:
                    print_text()
                has_text = True
                show(args, topic, each)
            new = [line for line in list_problems(topic, each) if line not in problems]
            problems.update(new)
            statuses.append(print_problems(new))
            has_findings = has_findings or (getattr(args, "fail_on_findings", False) and bool(each.findings))
    return max(statuses, default=0) or (3 if has_findings else 0)


def print_problems(problems: list[str]) -> int:
    sys.stdout.flush()
    for line in problems:
        print_error(line)
    return int(bool(problems))


def describe_member(member: Mapping[str, Any]) -> str:
    facts = [f"{title} {member[name]}" for name, title in _MEMBER_FACTS.items() if member.get(name) not in _NO_FACT]
    return ", ".join([member["member_id"], *facts, *(["classic protocol"] if member.get("member_type") == 0 else [])])


def name_partition(partition: int | None) -> str:
    return "The log" if partition is None else f"Partition {partition}"


def print_default_rules(args: Options, topic: Topic) -> None:
    if args.kafka is None:
        rules = topic.dialect
        print_text(f"As Kafka {rules.kafka} reads it ({rules.coordinator} coordinator; --kafka names another release).")


def print_damage(name: str, damage: Damage, scope: str) -> None:
    print_text(
        f"{name} is damaged: {damage}. {scope} A recovery after an unclean stop cuts the log there; a broker that was "
        "stopped cleanly reads these bytes as they are, or fails to load the partition."
    )


def print_gaps(gaps_by_partition: Mapping[int | None, list[Gap] | None]) -> None:
    for partition, gaps in gaps_by_partition.items():
        for gap in gaps or []:
            print_text(f"{name_partition(partition)} has a gap: {gap}.")


def print_cut(until: int | None, until_time: int | None, next_offsets: Mapping[int | None, int]) -> None:
    if until is None and until_time is None:
        return
    reason = "" if until_time is None else ", at the first batch with a later time or at the end of the log"
    print_text(f"Reading stopped before offset {', '.join(name_ends(next_offsets))}{reason}.")


def name_ends(next_offsets: Mapping[int | None, int]) -> list[str]:
    return [f"{end}{'' if number is None else f' in partition {number}'}" for number, end in next_offsets.items()]


def describe_unknown_group(subject: str, group: str, topic: Topic, found: TopicPartitions) -> str:
    partition = partition_for(group, found.count or DEFAULT_PARTITION_COUNT)
    condition = {
        "option": "",
        "folder": f", because the topic has {count_of(found.count or 0, 'partition')}, as this folder",
        "unknown": f" if the topic has {DEFAULT_PARTITION_COUNT} partitions (see --partitions)",
    }[found.origin]
    # Spark reads addresses that this process cannot open.
    logs = [] if isinstance(topic, _SparkTopic) else open_logs(topic.path)
    begins = [base_offset_of(log.segments[0]) for log in logs if log.partition == partition]
    lost = f" This partition begins at offset {begins[0]}: older records are gone." if any(begins) else ""
    lost += " Write \\u… in the id as the character itself." if "\\u" in group else ""
    return f"No record of {subject} in {topic.path}; group {group} is stored in partition {partition}{condition}.{lost}"


def print_topic_partitions(topic: TopicPartitions, coordinator: str, group: str | None = None) -> None:
    for line in describe_topic(topic, coordinator, group):
        print_text(line)
