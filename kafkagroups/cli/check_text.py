"""The text of the command `check`: the verdict first, then a paragraph for each finding with its remedy."""

from __future__ import annotations

from kafkagroups.cli.output import escape, print_line, wrap
from kafkagroups.cli.topic_partitions import print_topic_partitions
from kafkagroups.history.after_cleaning import MAX_SIZE
from kafkagroups.history.check import Check
from kafkagroups.history.event import count_of, list_names
from kafkagroups.history.finding import TOPIC_KINDS, Finding

FINDINGS_SHOWN = 50
"""The largest number of findings in the text. JSON contains all findings."""


def print_check(verdict: Check) -> None:
    """Print the verdict about the logs at one path. A remedy that is the same as the one before is printed once."""
    for line in _describe_verdict(verdict):
        _print_wrapped(line)
    print_topic_partitions(verdict.topic_partitions, verdict.judged.coordinator)
    findings = verdict.findings
    last_remedy = ""
    for number, finding in enumerate(findings[:FINDINGS_SHOWN], start=1):
        print_line("")
        _print_wrapped(f"Finding {number}. {_describe_place(finding)}: {finding.what}")
        if finding.remedy != last_remedy:
            _print_wrapped(f"Remedy: {finding.advice}")
            if finding.command_line:
                print_line(f"    {finding.command_line}")
        last_remedy = finding.remedy
    if len(findings) > FINDINGS_SHOWN:
        print_line("")
        _print_wrapped(f"{len(findings) - FINDINGS_SHOWN} more findings are not shown; --json shows all of them.")


def _describe_verdict(verdict: Check) -> list[str]:
    partitions = verdict.partitions
    judged = verdict.judged
    broker = f"A Kafka {judged.kafka} broker ({judged.coordinator} coordinator)"
    failed = [number for number, partition in partitions.items() if not partition.loads]
    damaged = [number for number, partition in partitions.items() if partition.damage is not None]
    if not failed:
        word = "DAMAGED" if damaged else "LOADS"
        after_cut = ", after a recovery has cut the damaged ones" if damaged else ""
        lines = [f"{word}: {verdict.path}", f"{broker} loads {count_of(len(partitions), 'partition')}{after_cut}."]
    else:
        lost = sum(len(partition.groups_lost) for partition in partitions.values())
        numbers = list_names(["without a number" if number is None else number for number in failed])
        lines = [
            f"FAILS: {verdict.path}",
            f"{broker} fails to load {len(failed)} of {count_of(len(partitions), 'partition')} ({numbers}); "
            f"{count_of(lost, 'group')} lost.",
        ]
    if damaged:
        numbers = list_names(damaged)
        lines.append(
            f"{count_of(len(damaged), 'partition')} damaged ({numbers}). The verdict is about what is before it. "
            "Before a recovery, a broker can fail to load the partition."
        )
    records = sum(partition.records for partition in partitions.values())
    seconds = sum(partition.seconds for partition in partitions.values())
    lines.append(
        f"The load takes about {seconds:.1f} s for {count_of(records, 'record')}. Until then, clients get "
        "COORDINATOR_LOAD_IN_PROGRESS."
    )
    not_judged = [number for number, part in partitions.items() if not part.judged_after_cleaning and not part.damage]
    if not_judged:
        is_small = any(partitions[number].bytes <= MAX_SIZE for number in not_judged) and len(partitions) > 1
        hint = " Check the smaller ones one at a time." if is_small else ""
        lines.append(
            f"Not judged after a cleaning, because of size or zeros: {count_of(len(not_judged), 'partition')} "
            f"({list_names(not_judged)}).{hint}"
        )
    count = len(verdict.findings)
    lines.append("No findings." if count == 0 else f"{count_of(count, 'finding')}.")
    return lines


def _describe_place(finding: Finding) -> str:
    places = ["Partition" if finding.partition is None else f"Partition {finding.partition}"]
    if finding.partition is None and finding.kind in TOPIC_KINDS:
        places = ["The topic"]
    if finding.offset is not None:
        places.append(f"offset {finding.offset}")
    if finding.group is not None:
        places.append(f"group {finding.group}")
    return ", ".join(places)


def _print_wrapped(line: str) -> None:
    for part in wrap(escape(line), indent=""):
        print_line(part)
