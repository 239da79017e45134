"""Measure the package next to other ways to do the same, in one run. See docs/performance.md."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import machine, report
from benchmarks.comparisons import WAYS, Comparison, plan
from benchmarks.measure import compare
from benchmarks.topics import generate
from kafkagroups.cli.options import parse_count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--records", type=parse_count, nargs="+", default=[1_000_000], help="log sizes such as 1M 10M")
    parser.add_argument("--rounds", type=int, default=15, help="how often each way runs, within its time (15)")
    parser.add_argument("--seconds", type=float, default=30, help="the time of a way, in s; it runs once anyway (30)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these comparisons")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write docs/performance.md from these results")
    args = parser.parse_args()
    if args.write:
        report.write_docs(json.loads(args.write.read_text()))
        return
    measured = {"machine": machine.describe(), "runs": []}
    for records in args.records:
        comparisons = [each for each in plan(records) if not args.only or each.name in args.only]
        measured["runs"].append(measure(records, comparisons, args.rounds, args.seconds))
        if args.json:  # After each size, because a later one may fail.
            args.json.write_text(json.dumps(measured, indent=1) + "\n")
    print(report.format_terminal(measured))


def measure(records: int, comparisons: list[Comparison], rounds: int, seconds: float) -> dict:
    """Return one run: its comparisons, each over its own topic."""
    found: dict = {"records": records, "topics": []}
    for comparison in comparisons:
        print(comparison.name, file=sys.stderr)
        place = Path(tempfile.mkdtemp(prefix="kafkagroups-benchmark-"))
        try:
            topic = generate(place / "topic", comparison.topic)
            ways = compare(topic, {name: WAYS[name] for name in comparison.ways}, rounds, seconds)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        sizes = {"records": topic.records, "groups": topic.groups, "bytes": topic.bytes, "live": topic.live}
        found["topics"].append({"part": comparison.name, **sizes, "ways": ways})
    return found


if __name__ == "__main__":
    main()
