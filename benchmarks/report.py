"""Measurements as tables for a terminal and for docs/performance.md, and as a plot.

The ratio of a way is its least time divided by the least time of the first way, in the same comparison. The least time
shows what the machine can do. The median shows how much other work disturbed the run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

from benchmarks.comparisons import BASE, MILLION, WAYS, plan
from benchmarks.plot import HEIGHT, draw_curves
from kafkagroups.course.figures.marks import draw_svg

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = Path(__file__).with_name("measured.json")
PLOTTED = {
    "package-python": "readable engine",
    "naive": "Python by hand",
    "broker-4.3.1": "broker 4.3.1 (1 partition)",
    "kafka-classes": "Kafka's classes",
    "package-spark": "kafkagroups, Spark",
    BASE: "kafkagroups, 1 thread",
    "package-2": "kafkagroups, 2 threads",
}


def find_part(measured: dict, name: str, *ways: str, most: int = 10 * MILLION) -> dict:
    """Return the comparison of these ways with the most records up to `most`."""
    parts = [part for run in measured["runs"] for part in run["topics"] if part["part"] == name]
    parts = [part for part in parts if part["records"] <= most and part["ways"].keys() >= set(ways)]
    return max(parts, key=lambda part: part["records"])


def least_time(part: dict, way: str) -> float | None:
    return min(part["ways"][way]["seconds"], default=None)


def ratio(part: dict, way: str, base: str | None = None) -> float | None:
    """Return a way's least time divided by that of another one, or None if one of them has none."""
    way_time, base_time = (least_time(part, name) for name in (way, base or next(iter(part["ways"]))))
    return way_time / base_time if way_time and base_time else None


def make_table(part: dict) -> str:
    """Return the table of a comparison, a row per way. Its first line says how large the topic is."""
    rows = []
    for way, found in part["ways"].items():
        seconds = found["seconds"]
        if not seconds:
            rows.append((WAYS[way].title, "–", "–", "", f"left out: {found['problem']}"))
            continue
        memory = f"{found['peak_bytes'] / 1e6:,.0f}" if "peak_bytes" in found else ""
        times = ratio(part, way)
        times_text = f"{times:,.2f}" if times else ""
        both = (f"{min(seconds):,.3f}", f"{median(seconds):,.3f}")
        rows.append((WAYS[way].title, *both, memory, times_text))
    size = f"{part['records']:,} records, {part['bytes'] / 1e9:.2f} GB, {part['live']:,} live offsets"
    return f"{size}:\n\n" + format_markdown_table(("way", "least s", "median s", "peak MB", "ratio"), rows)


def format_markdown_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table; every column except the first one is right-aligned."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])


def format_machine(about: dict) -> str:
    """Return the machine and the versions in one line."""
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items() if version)
    return (
        f"{about['cpus']} CPUs ({about['cpu']}), {about['memory_bytes'] / 2**30:.0f} GiB, {about['system']}; "
        f"Python {about['python']}, {packages}, Java {about['java']}; load at the start {about['load']}."
    )


def format_terminal(measured: dict) -> str:
    tables = [f"{part['part']}: {make_table(part)}" for run in measured["runs"] for part in run["topics"]]
    return "\n\n".join([format_machine(measured["machine"]), *tables])


def make_blocks(measured: dict) -> dict[str, str]:
    """Return the text between the marks of docs/performance.md, by name: the machine, the ways, the comparisons."""
    notes = [(way.title, way.note) for way in WAYS.values() if way.note]
    names = [comparison.name for comparison in plan(MILLION)]
    parts = [part for run in measured["runs"] for part in run["topics"]]
    return {
        "machine": format_machine(measured["machine"]),
        "ways": format_markdown_table(("way", "what you must know about it"), notes).replace("---:", "---"),
        **{name: "\n\n".join(make_table(part) for part in parts if part["part"] == name) for name in names},
    }


def write_docs(measured: dict) -> None:
    """Store the results, and write the generated blocks and the plot of docs/performance.md."""
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n")
    page = DOCS / "performance.md"
    page.write_text(render(page.read_text(), measured))
    (DOCS / "performance.svg").write_text(draw_plot(measured))


def render(text: str, measured: dict) -> str:
    """Return the page with its generated blocks replaced."""
    for name, content in make_blocks(measured).items():
        begin = f"<!-- measured: {name} -->"
        end = "<!-- end -->"
        block = f"{begin}\n{content}\n{end}"
        text, count = re.subn(f"{re.escape(begin)}.*?{end}", lambda _, block=block: block, text, flags=re.S)
        assert count == 1, f"performance.md: expected one block {begin}, found {count}"
    return text


def draw_plot(measured: dict) -> str:
    """Return the plot of docs/performance.md as SVG."""
    curves: dict[str, dict[int, float]] = {}
    for run in measured["runs"]:
        for part in run["topics"]:
            for way in PLOTTED.keys() & part["ways"].keys():
                if seconds := least_time(part, way):
                    curves.setdefault(PLOTTED[way], {}).setdefault(part["records"], seconds)
    return draw_svg(draw_curves(dict(sorted(curves.items()))), HEIGHT, "Seconds to load a topic") + "\n"
