"""Measure the package next to other ways to load the same log, in one run. See docs/performance.md."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks import commands, machine, once, report, runs
from benchmarks.ways import WAYS
from kafkagroups.cli.synth import parse_count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--records",
        type=parse_count,
        nargs="+",
        default=[1_000_000],
        metavar="N",
        help="log sizes such as 1M or 10M, one run each",
    )
    parser.add_argument(
        "--partitions",
        type=int,
        nargs="+",
        choices=(50, 1),
        default=[50, 1],
        help="the partition counts of the topics (both)",
    )
    parser.add_argument("--rounds", type=int, default=7, help="how often each way loads the log, within its time (7)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=90,
        help="the time of a slow way, in s; after it, the way has no further rounds (90)",
    )
    parser.add_argument("--only", nargs="+", choices=WAYS, default=[], metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="generate the topics in this folder and keep them (a temporary folder)",
    )
    verbs = parser.add_subparsers(dest="verb")
    report_parser = verbs.add_parser("report", help="write docs/performance.md and its plot from results")
    report_parser.add_argument("files", type=Path, nargs="*", default=[report.MEASURED], metavar="FILE")
    verbs.add_parser("commands", help="only compare the package's commands with Kafka's tools")
    args = parser.parse_args()
    if args.verb == "report":
        measured = merge([json.loads(file.read_text()) for file in args.files])
        report.MEASURED.write_text(json.dumps(measured, indent=1) + "\n")
        report.write_docs(measured)
        return
    place = args.folder or Path(tempfile.mkdtemp(prefix="kafkagroups-benchmark-"))
    place.mkdir(parents=True, exist_ok=True)
    measured = {"machine": machine.describe(), "runs": []}
    try:
        for records in args.records:
            if args.verb == "commands":
                found = {"records": records, "topics": [], "commands": measure_commands(place, records, args)}
            else:
                found = measure(place, records, args)
            measured["runs"].append(found)
            if args.json:  # After each size, because a later one may fail.
                args.json.write_text(json.dumps(measured, indent=1) + "\n")
            if not args.folder:
                remove_content(place)
    finally:
        if not args.folder:
            shutil.rmtree(place, ignore_errors=True)
        print(report.format_terminal(measured))


def measure(place: Path, records: int, args: argparse.Namespace) -> dict:
    """Return one run: every way over the topics of one size."""
    cases = runs.plan(records, args.partitions, args.only)
    found = {"records": records, "topics": runs.run(place, cases, args.rounds, args.seconds, memory=True)}
    if not args.only:
        large = [case.spec for case in cases if case.spec.part == "50 partitions"]
        folder = place / large[0].description.removesuffix(".json") if large and records <= 10_000_000 else None
        found["once"] = once.measure(folder, args.rounds)
        if 1 in args.partitions and records <= runs.ONE_PARTITION_TO:
            found["commands"] = measure_commands(place, records, args)
    return found


def measure_commands(place: Path, records: int, args: argparse.Namespace) -> dict:
    """Return the times of the package's commands and of Kafka's tools, over a topic in one partition."""
    return commands.measure(commands.generate_topic(place, records), args.rounds, args.seconds)


def merge(all_measured: list[dict]) -> dict:
    """Return the runs of several files by size. Of two runs of one size, the later one counts, part by part."""
    by_size: dict[int, dict] = {}
    for measured in all_measured:
        for run in measured["runs"]:
            by_size.setdefault(run["records"], {}).update({part: found for part, found in run.items() if found})
    start_up = json.loads(report.MEASURED.read_text())["start_up"]  # start_up.py measures it separately.
    runs = [by_size[size] for size in sorted(by_size)]
    return {"machine": all_measured[-1]["machine"], "runs": runs, "start_up": start_up}


def remove_content(place: Path) -> None:
    for each in place.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


if __name__ == "__main__":
    main()
