"""The command `check`."""

from __future__ import annotations

from dataclasses import replace

from kafkagroups.cli import answers
from kafkagroups.cli.options import Options, print_newer
from kafkagroups.cli.output import print_findings, print_text
from kafkagroups.history.check import Check
from kafkagroups.history.finding import count_of, list_names
from kafkagroups.topic import Topic

ARGUMENTS = """
PATH... --coordinator --kafka --partitions
--to VERSION  judge an upgrade or downgrade to this version, and show what it refuses, skips or answers differently
--to-coordinator classic|new  the coordinator of the version in --to (default: the same one, if the version has it)
--engine --max-batch-bytes --past-damage --fail-on-findings --json
"""
EXAMPLES = """\
  kafkagroups check /var/lib/kafka/data --kafka 4.3.1
  kafkagroups check /var/lib/kafka/data --coordinator classic --kafka 3.9.2 --to 4.3.1

The exit code is 1 if a partition fails to load or is damaged, and 3 with
--fail-on-findings if there is another finding."""


def run(args: Options) -> int:
    print_newer(args.to)
    target = {"to": args.to, "to_coordinator": args.to_coordinator}
    return answers.answer_each(args, lambda topic: topic.check(**target), _print_verdict, list_problems=_list_problems)


def _list_bad(verdict: Check) -> tuple[list[str], list[str]]:
    names = {"without a number" if number is None else str(number): part for number, part in verdict.partitions.items()}
    failed = [name for name, partition in names.items() if not partition.loads]
    return failed, [name for name, partition in names.items() if partition.is_damaged]


def _list_problems(topic: Topic, verdict: Check) -> list[str]:
    failed, damaged = _list_bad(verdict)
    problems = [f"Kafka {verdict.judged.kafka} fails to load {_count(failed)}"] if failed else []
    problems += [_count(damaged, " damaged")] if damaged else []
    return [f"{verdict.path}: {'; '.join(problems)}"] if problems else []


def _count(partitions: list[str], verb: str = "") -> str:
    return f"{count_of(len(partitions), 'partition')}{verb} ({list_names(partitions)})"


def _print_verdict(args: Options, topic: Topic, verdict: Check) -> None:
    partitions = verdict.partitions.values()
    judged = verdict.judged
    broker = f"A Kafka {judged.kafka} broker ({judged.coordinator} coordinator)"
    failed, damaged = _list_bad(verdict)
    all_partitions = count_of(len(partitions), "partition")
    lost = count_of(sum(len(partition.groups_lost) for partition in partitions), "group")
    records = count_of(sum(partition.records for partition in partitions), "record")
    seconds = sum(partition.seconds for partition in partitions)
    lines = [f"{'DAMAGED' if damaged else 'LOADS'}: {topic.path}", f"{broker} loads {all_partitions}."]
    if failed:
        outcome = f"fails to load {len(failed)} of {all_partitions} ({list_names(failed)}); {lost} not loaded"
        if any(partition.start for partition in partitions):
            outcome = "does not start with this log, so no partition is answered"
        lines = [f"FAILS: {topic.path}", f"{broker} {outcome}."]
    if damaged:
        scope = "also what follows the damage" if args.past_damage else "what a recovery leaves, before the damage"
        lines.append(f"{_count(damaged, ' damaged')}. The verdict is about {scope}.")
    if len(failed) < len(partitions) and not any(partition.start for partition in partitions):
        wait = "Until then, clients get COORDINATOR_LOAD_IN_PROGRESS."
        lines.append(f"The load takes about {seconds:.1f} s for {records}. {wait}")
    findings = count_of(len(verdict.findings), "finding") if verdict.findings else "No findings about the load"
    for line in (*lines, *verdict.lost_fixes, f"{findings}."):
        print_text(line, indent="")
    # The change of the partition count is a finding.
    answers.print_topic_partitions(replace(verdict.topic_partitions, changed=None), judged.coordinator)
    print_findings(verdict.findings)
