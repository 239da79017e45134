"""The command `check`: the verdict before a failover, an upgrade or a downgrade, and then the findings."""

from __future__ import annotations

import argparse
from functools import partial

from kafkagroups.api import check
from kafkagroups.cli.log_text import print_topic_partitions
from kafkagroups.cli.options import answer_each, choose_dialect, find_rules, print_newer
from kafkagroups.cli.output import print_findings, print_text
from kafkagroups.cli.progress import spinner
from kafkagroups.history.after_cleaning import MAX_SIZE
from kafkagroups.history.check import Check
from kafkagroups.history.words import count_of, list_names

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
    rules = find_rules(args, choose_dialect(args))
    print_newer(args.to)

    def ask(path: str) -> Check:
        with spinner(path):
            return check(path, to=args.to, to_coordinator=args.to_coordinator, **rules)

    return answer_each(args, ask, lambda path, verdict: [verdict.to_json()], _print_verdict, _list_problems)


def _find_bad(verdict: Check) -> tuple[list[int | None], list[int | None]]:
    """Return the partitions that fail to load, and those that are damaged."""
    failed = [number for number, partition in verdict.partitions.items() if not partition.loads]
    damaged = [number for number, partition in verdict.partitions.items() if partition.damage is not None]
    return failed, damaged


def _list_problems(verdict: Check) -> list[str]:
    failed, damaged = _find_bad(verdict)
    problems = []
    if failed:
        kafka = verdict.judged.kafka
        problems.append(f"Kafka {kafka} fails to load {count_of(len(failed), 'partition')} ({list_names(failed)})")
    if damaged:
        problems.append(f"{count_of(len(damaged), 'partition')} damaged ({list_names(damaged)})")
    return [f"{verdict.path}: {'; '.join(problems)}"] if problems else []


def _print_verdict(path: str, verdict: Check) -> None:
    say = partial(print_text, indent="")
    partitions = verdict.partitions
    judged = verdict.judged
    broker = f"A Kafka {judged.kafka} broker ({judged.coordinator} coordinator)"
    failed, damaged = _find_bad(verdict)
    if failed:
        lost = sum(len(partition.groups_lost) for partition in partitions.values())
        numbers = list_names(["without a number" if number is None else number for number in failed])
        say(f"FAILS: {path}")
        say(
            f"{broker} fails to load {len(failed)} of {count_of(len(partitions), 'partition')} ({numbers}); "
            f"{count_of(lost, 'group')} lost."
        )
    else:
        after_cut = ", after a recovery has cut the damaged ones" if damaged else ""
        say(f"{'DAMAGED' if damaged else 'LOADS'}: {path}")
        say(f"{broker} loads {count_of(len(partitions), 'partition')}{after_cut}.")
    if damaged:
        say(
            f"{count_of(len(damaged), 'partition')} damaged ({list_names(damaged)}). The verdict is about what is "
            "before it. Before a recovery, a broker can fail to load the partition."
        )
    records = sum(partition.records for partition in partitions.values())
    seconds = sum(partition.seconds for partition in partitions.values())
    say(
        f"The load takes about {seconds:.1f} s for {count_of(records, 'record')}. Until then, clients get "
        "COORDINATOR_LOAD_IN_PROGRESS."
    )
    not_judged = [number for number, part in partitions.items() if not part.judged_after_cleaning and not part.damage]
    if not_judged:
        is_small = any(partitions[number].bytes <= MAX_SIZE for number in not_judged) and len(partitions) > 1
        say(
            f"Not judged after a cleaning, because of size or zeros: {count_of(len(not_judged), 'partition')} "
            f"({list_names(not_judged)}).{' Check the smaller ones one at a time.' if is_small else ''}"
        )
    for line in verdict.lost_fixes:
        say(line)
    say("No findings." if not verdict.findings else f"{count_of(len(verdict.findings), 'finding')}.")
    print_topic_partitions(verdict.topic_partitions, judged.coordinator)
    print_findings(verdict.findings)
