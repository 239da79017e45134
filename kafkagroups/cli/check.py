"""The command `check`: the verdict before a failover, an upgrade or a downgrade, and then the findings."""

from __future__ import annotations

import argparse

from kafkagroups.cli import answers
from kafkagroups.cli.options import print_newer
from kafkagroups.cli.output import print_findings, print_text
from kafkagroups.history.after_cleaning import MAX_SIZE
from kafkagroups.history.check import Check
from kafkagroups.history.words import count_of, list_names
from kafkagroups.topic import Topic

ARGUMENTS = """
PATH... --coordinator --kafka --partitions
--to VERSION  judge an upgrade or downgrade to this Kafka version, and show what it refuses, skips or answers
    differently
--to-coordinator classic|new  the coordinator of the version in --to (default: the same one, if the version has it)
--engine --max-batch-bytes --fail-on-findings --json
"""
EXAMPLES = """\
examples:
  kafkagroups check /var/lib/kafka/data --kafka 4.3.1
  kafkagroups check /var/lib/kafka/data --coordinator classic --kafka 3.9.2 --to 4.3.1
  kafkagroups check LOG --kafka 4.1.1 --json

The exit code is 1 if a partition fails to load or is damaged, and 3 with
--fail-on-findings if there is another finding."""


def run(args: argparse.Namespace) -> int:
    print_newer(args.to)
    return answers.answer_each(args, _check, _print_verdict, list_problems=_list_problems)


def _check(args: argparse.Namespace, topic: Topic) -> Check:
    return topic.check(to=args.to, to_coordinator=args.to_coordinator)


def _list_bad(verdict: Check) -> tuple[list[str], list[str]]:
    """Return the partitions that fail to load, and those that are damaged."""
    names = {"without a number" if number is None else str(number): part for number, part in verdict.partitions.items()}
    failed = [name for name, partition in names.items() if not partition.loads]
    return failed, [name for name, partition in names.items() if partition.damage is not None]


def _list_problems(topic: Topic, verdict: Check) -> list[str]:
    failed, damaged = _list_bad(verdict)
    problems = []
    if failed:
        problems.append(f"Kafka {verdict.judged.kafka} fails to load {_count(failed)}")
    if damaged:
        problems.append(f"{_count(damaged, ' damaged')}")
    return [f"{verdict.path}: {'; '.join(problems)}"] if problems else []


def _count(partitions: list[str], verb: str = "") -> str:
    return f"{count_of(len(partitions), 'partition')}{verb} ({list_names(partitions)})"


def _print_verdict(args: argparse.Namespace, topic: Topic, verdict: Check) -> None:
    partitions = verdict.partitions.values()
    judged = verdict.judged
    broker = f"A Kafka {judged.kafka} broker ({judged.coordinator} coordinator)"
    failed, damaged = _list_bad(verdict)
    all_partitions = count_of(len(partitions), "partition")
    lines = []
    if failed:
        lines.append(f"FAILS: {topic.path}")
        lost = count_of(sum(len(partition.groups_lost) for partition in partitions), "group")
        lines.append(f"{broker} fails to load {len(failed)} of {all_partitions} ({list_names(failed)}); {lost} lost.")
    else:
        lines.append(f"{'DAMAGED' if damaged else 'LOADS'}: {topic.path}")
        after_cut = ", after a recovery has cut the damaged ones" if damaged else ""
        lines.append(f"{broker} loads {all_partitions}{after_cut}.")
    if damaged:
        lines.append(
            f"{_count(damaged, ' damaged')}. The verdict is about what is before it. Before a recovery, a broker can "
            "fail to load the partition."
        )
    records = count_of(sum(partition.records for partition in partitions), "record")
    lines.append(
        f"The load takes about {sum(partition.seconds for partition in partitions):.1f} s for {records}. Until then, "
        "clients get COORDINATOR_LOAD_IN_PROGRESS."
    )
    not_judged = {
        str(number): partition.bytes
        for number, partition in verdict.partitions.items()
        if not (partition.judged_after_cleaning or partition.damage)
    }
    if not_judged:
        is_small = min(not_judged.values()) <= MAX_SIZE and len(partitions) > 1
        hint = " Check the smaller ones one at a time." if is_small else ""
        lines.append(f"Not judged after a cleaning, because of size or zeros: {_count(list(not_judged))}.{hint}")
    lines += verdict.lost_fixes
    lines.append(f"{count_of(len(verdict.findings), 'finding')}." if verdict.findings else "No findings.")
    for line in lines:
        print_text(line, indent="")
    answers.print_topic_partitions(verdict.topic_partitions, judged.coordinator)
    print_findings(verdict.findings)
