"""Measurements as tables for a terminal and for docs/performance.md, and as a plot.

The ratio of a way is its least time divided by the least time of the package on one thread, in the same run over the
same topic. The least time shows what the machine can do. The median shows how much other work disturbed the run.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.commands import COMMANDS
from benchmarks.plot import Line, draw_svg
from benchmarks.runs import MANY_GROUPS
from benchmarks.ways import BASE, WAYS

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = Path(__file__).with_name("measured.json")
MAIN = "50 partitions"
ONE = "1 partition"
LARGER = "larger log"
MEMORY_OWNER = {BASE: "own", "package-2": "own", "package-spark": "worker"}
PLOTTED = {  # way: (its name in the plot, the part of the run that is plotted)
    "kafka-python": ("kafka-python", MAIN),
    "udf": ("Arrow UDF", LARGER),
    "naive": ("Python by hand", MAIN),
    "broker-4.3.1": ("broker 4.3.1 (1 partition)", ONE),
    "aiokafka": ("aiokafka", MAIN),
    "sql": ("Spark SQL", LARGER),
    "numpy": ("NumPy", MAIN),
    "kafka-classes": ("Kafka's classes", MAIN),
    "package-spark": ("kafkagroups, Spark", LARGER),
    BASE: ("kafkagroups, 1 thread", MAIN),
    "package-2": ("kafkagroups, 2 threads", MAIN),
}


def find_part(run: dict, name: str) -> dict | None:
    """Return a topic of a run. If the main topic is large enough, it is also the larger log."""
    found = {each["part"]: each for each in run["topics"]}
    return found.get(name) or (found.get(MAIN) if name == LARGER else None)


def least_time(topic: dict | None, way: str) -> float | None:
    """Return the least time of a way, or None if it has none."""
    seconds = topic["ways"].get(way, {}).get("seconds") if topic else None
    return min(seconds) if seconds else None


def ratio(run: dict, name: str, way: str, base: str = BASE) -> float | None:
    """Return a way's least time divided by that of the base, or None if one of them has none."""
    way_time = least_time(find_part(run, name), way)
    base_time = least_time(find_part(run, name), base)
    return way_time / base_time if way_time and base_time else None


def make_rows(topic: dict) -> list[tuple[str, ...]]:
    """Return one table row per way."""
    base = least_time(topic, BASE)
    rows = []
    for way, found in topic["ways"].items():
        title = WAYS[way].title
        seconds = found["seconds"]
        if not seconds:
            rows.append((title, "", "", "", "", found.get("problem", "")))
            continue
        rate = topic["records"] / min(seconds)
        rows.append(
            (
                title,
                f"{min(seconds):,.3f}",
                f"{median(seconds):,.3f}",
                str(len(seconds)),
                f"{rate / 1e6:.2f} M",
                f"{min(seconds) / base:,.2f}" if base else "",
            )
        )
    return rows


HEAD = ("way", "least s", "median s", "rounds", "records/s", "ratio")


COMMAND_HEAD = ("way", "least s", "median s", "least CPU s", "rounds", "ratio")


def make_command_rows(run: dict, command: str) -> list[tuple[str, ...]]:
    """Return one table row per way of a command. The ratio is that to the first way."""
    rows = []
    for name, way in COMMANDS[command].items():
        found = run["commands"][command].get(name, {"seconds": [], "problem": "not measured"})
        seconds = found["seconds"]
        if not seconds:
            rows.append((way.title, "–", "–", "–", "", f"left out: {found['problem']}"))
            continue
        times = command_ratio(run, command, name)
        rows.append(
            (
                way.title,
                f"{min(seconds):,.3f}",
                f"{median(seconds):,.3f}",
                f"{min(found['cpu_seconds']):,.3f}",
                str(len(seconds)),
                f"{times:,.2f}" if times else "",
            )
        )
    return rows


def command_ratio(run: dict, command: str, way: str) -> float | None:
    """Return a way's least time divided by that of the command's first way, or None if one of them has none."""
    ways = run["commands"][command]
    first = next(iter(COMMANDS[command]))
    both = [ways[name]["seconds"] if name in ways else [] for name in (way, first)]
    return min(both[0]) / min(both[1]) if all(both) else None


def make_headline(topic: dict) -> str:
    """Return the title of a topic's table."""
    size = ""
    if "live" in topic:
        size = f"{topic['records']:,} records, {topic['bytes'] / 1e9:.2f} GB, {topic['live']:,} live"
    return f"{topic['part']}: {size}"


def format_terminal(measured: dict) -> str:
    """Return all tables and facts as text for a terminal."""
    lines = [format_machine(measured["machine"]), ""]
    for run in measured["runs"]:
        for topic in run["topics"]:
            lines += [make_headline(topic), "  {:<38}{:>10}{:>10}{:>8}{:>12}{:>9}".format(*HEAD)]
            for name, *cells, last in make_rows(topic):
                lines.append(
                    f"  {name:<38}{cells[0]:>10}{cells[1]:>10}{cells[2]:>8}{cells[3]:>12}{last:>9}"
                    if cells[0]
                    else f"  {name:<38}  left out: {last}"
                )
            lines.append("")
        lines += [*list_facts(run), ""]
        for command in run.get("commands", {}):
            lines += [
                f"{command}, {run['records']:,} records in one partition",
                "  {:<38}{:>10}{:>10}{:>13}{:>8}{:>9}".format(*COMMAND_HEAD),
            ]
            lines += ["  {:<38}{:>10}{:>10}{:>13}{:>8}{:>9}".format(*row) for row in make_command_rows(run, command)]
            lines.append("")
    lines += list_growth(measured)
    return "\n".join(lines)


def list_facts(run: dict) -> list[str]:
    """Return what no table of a topic shows: the hot partition, memory, cold starts."""
    out = []
    if slower := hot_partition_ratio(run):
        out.append(
            f"one hot partition needs {slower:.2f} times the time of an evenly spread log with as many live keys"
        )
    if share := ratio(run, MAIN, "naive", "package-python"):
        out.append(f"the readable engine reaches {share:.2f} of the speed of the loop that is written by hand")
    for topic in run["topics"]:
        for way, found in topic["ways"].items():
            if memory := found.get("memory", {}).get(MEMORY_OWNER.get(way)):
                out.append(
                    f"peak memory of {WAYS[way].title}, {topic['part']}, {topic['records']:,} records, "
                    f"{topic['live']:,} live: {memory['anonymous'] / 1e6:,.0f} MB, and {memory['file'] / 1e6:,.0f} MB "
                    f"of mapped files{' (the largest Spark worker)' if way == 'package-spark' else ''}"
                )
    for name, seconds in run.get("once", {}).items():
        time = f"{min(seconds):.2f} s" if seconds else "left out: it failed"
        out.append(f"a new process, {name}: {time}")
    return out


def hot_partition_ratio(run: dict) -> float | None:
    """Return the time of a log in one partition divided by that of the same log in fifty, with 10,000 groups."""
    for hot, spread in (("hot", "spread"), (ONE, MAIN)):
        one = find_part(run, hot)
        fifty = find_part(run, spread)
        if one and fifty and one["groups"] == MANY_GROUPS and least_time(one, BASE) and least_time(fifty, BASE):
            return least_time(one, BASE) / least_time(fifty, BASE)
    return None


def list_growth(measured: dict) -> list[str]:
    """Return how the time per record and the memory change from one size to the next."""
    out = []
    for small, large in pairwise(measured["runs"]):
        for way in (BASE, "package-2", "package-spark"):
            a = find_part(small, LARGER if way == "package-spark" else MAIN)
            b = find_part(large, MAIN)
            if least_time(a, way) and least_time(b, way) and a["records"] < b["records"]:
                cost = least_time(b, way) / least_time(a, way) / (b["records"] / a["records"])
                sizes = f"{a['records']:,} to {b['records']:,} records"
                line = f"{WAYS[way].title}, {sizes}: {cost:.2f} times the time per record"
                memory = [
                    topic["ways"][way].get("memory", {}).get(MEMORY_OWNER[way], {}).get("anonymous") for topic in (a, b)
                ]
                if all(memory) and a["groups"] == b["groups"]:
                    line += f", {memory[1] / memory[0]:.2f} times the memory (with as many live keys)"
                out.append(line)
    return out


def format_machine(about: dict) -> str:
    """Return the machine and the versions in one line."""
    packages = ", ".join(f"{name} {of}" for name, of in about["packages"].items() if of)
    return (
        f"{about['cpus']} CPUs ({about['cpu']}), {about['memory_bytes'] / 2**30:.0f} GiB, {about['system']}; "
        f"Python {about['python']}, {packages}, Java {about['java']}; load at the start {about['load']}"
    )


def format_markdown_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table; every column except the first one is right-aligned."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])


def make_blocks(measured: dict) -> dict[str, str]:
    """Return the text between the marks of docs/performance.md, by name."""
    tables = []
    paragraphs = []
    for run in measured["runs"]:
        for topic in run["topics"]:
            if count_measured_ways(topic) < 2:
                continue
            rows = [row if row[1] else (row[0], "–", "–", "", "–", f"left out: {row[-1]}") for row in make_rows(topic)]
            tables.append(f"**{make_headline(topic)}**\n\n{format_markdown_table(HEAD, rows)}")
        paragraphs.append(f"{run['records']:,} records:\n\n" + "\n".join(f"- {line}" for line in list_facts(run)))
    if len(measured["runs"]) > 1:
        tables.append(f"**Least seconds by the log's size**\n\n{format_times_by_size(measured)}")
    if growth := list_growth(measured):
        paragraphs.append("From one size to the next:\n\n" + "\n".join(f"- {line}" for line in growth))
    ways = [(way.title, way.note) for way in WAYS.values()]
    commands = [
        f"**{command}: {run['records']:,} records in one partition**\n\n"
        + format_markdown_table(COMMAND_HEAD, make_command_rows(run, command))
        for run in measured["runs"]
        for command in run.get("commands", {})
    ]
    return {
        "commands": "\n\n".join(commands),
        "machine": format_machine(measured["machine"]) + ".",
        "ways": format_markdown_table(("way", "what you must know about it"), ways).replace("---:", "---"),
        "tables": "\n\n".join(tables),
        "facts": "\n\n".join(paragraphs),
        "start-up": format_start_up(measured["start_up"]),
    }


def make_start_up_rows(measured: dict) -> list[tuple[str, ...]]:
    """Return a row for each command of start_up.py: the old and the new median and their ratio, elapsed and CPU."""
    rows = []
    for command, by_package in measured["seconds"].items():
        cells = []
        for kind in ("elapsed", "cpu"):
            old, new = (median(by_package[name][kind]) for name in ("old", "new"))
            cells += [f"{old:.2f}", f"{new:.2f}", f"{new / old:.2f}"]
        rows.append((command, *cells))
    return rows


def format_start_up(measured: dict) -> str:
    """Return the machine, a table and the facts of start_up.py."""
    rows = [
        (f"{row[0]}, {setting}", *row[1:])
        for setting in ("with bytecode", "without bytecode")
        for row in make_start_up_rows(measured[setting])
    ]
    head = ("a new process", "old s", "new s", "ratio", "old CPU s", "new CPU s", "ratio")
    facts = [
        f"{name}: the load {'imports' if found['numba'] else 'does not import'} numba, "
        f"and fetches {found['functions']} compiled functions"
        for name, found in measured["with bytecode"]["facts"].items()
    ]
    return "\n\n".join(
        [
            f"{format_machine(measured['machine'])}. Old is commit {measured['old_commit']}.",
            format_markdown_table(head, rows),
            "\n".join(f"- {fact}" for fact in facts),
        ]
    )


def count_measured_ways(topic: dict) -> int:
    return sum(bool(found["seconds"]) for found in topic["ways"].values())


def format_times_by_size(measured: dict) -> str:
    sizes = sorted({size for curve in find_curves(measured).values() for size in curve})
    rows = [
        (PLOTTED[way][0], *(f"{curve[size]:,.2f}" if size in curve else "" for size in sizes))
        for way, curve in find_curves(measured).items()
    ]
    return format_markdown_table(("", *(f"{size / 1e6:g} M" for size in sizes)), rows)


def find_curves(measured: dict) -> dict[str, dict[int, float]]:
    """Return the least time of each plotted way by number of records."""
    out: dict[str, dict[int, float]] = {}
    for way, (_, where) in PLOTTED.items():
        for run in measured["runs"]:
            if seconds := least_time(topic := find_part(run, where), way):
                out.setdefault(way, {})[topic["records"]] = seconds
    return out


def write_docs(measured: dict) -> None:
    """Write the generated blocks and the plot of docs/performance.md."""
    page = DOCS / "performance.md"
    page.write_text(render(page.read_text(), measured))
    (DOCS / "performance.svg").write_text(draw_plot(measured))


def render(text: str, measured: dict) -> str:
    """Return the page with its generated blocks replaced."""
    for name, content in make_blocks(measured).items():
        begin = f"<!-- measured: {name} -->"
        end = "<!-- end -->"
        text, count = re.subn(
            f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, new=f"{begin}\n{content}\n{end}": new, text, flags=re.S
        )
        assert count == 1, f"performance.md: expected one block {begin}, found {count}"
    return text


def draw_plot(measured: dict) -> str:
    """Return the plot of docs/performance.md as SVG."""
    lines = [
        Line(PLOTTED[way][0], sorted(curve.items()), way.startswith("package"))
        for way, curve in find_curves(measured).items()
    ]
    return draw_svg(lines, "records in the log", "seconds")
