"""What was measured, told: as tables for a terminal and for docs/performance.md, and as a plot.

The ratio of a way is its least time by that of the package's one thread, in the same run, over the same topic. The
least, because it is what the machine can do; the median beside it shows how quiet the run was.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.plot import Line, svg
from benchmarks.runs import MANY_GROUPS
from benchmarks.ways import BASE, WAYS

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = Path(__file__).with_name("measured.json")
MAIN, ONE, LARGER = "50 partitions", "1 partition", "larger log"
WHOSE = {BASE: "own", "package-2": "own", "package-spark": "worker"}
PLOTTED = {  # way: (what the plot calls it, the part it is taken from)
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


def part(run: dict, name: str) -> dict | None:
    """A topic of a run; the larger log is the main one where that is large enough."""
    found = {each["part"]: each for each in run["topics"]}
    return found.get(name) or (found.get(MAIN) if name == LARGER else None)


def least(topic: dict | None, way: str) -> float | None:
    seconds = topic["ways"].get(way, {}).get("seconds") if topic else None
    return min(seconds) if seconds else None


def ratio(run: dict, name: str, way: str, base: str = BASE) -> float | None:
    """How many times the base's least time a way took; None where one of them has none."""
    mine, its = least(part(run, name), way), least(part(run, name), base)
    return mine / its if mine and its else None


def rows_of(topic: dict) -> list[tuple[str, ...]]:
    base = least(topic, BASE)
    rows = []
    for way, found in topic["ways"].items():
        title, seconds = WAYS[way].title, found["seconds"]
        if not seconds:
            rows.append((title, "", "", "", "", found.get("problem", "")))
            continue
        rate = topic["records"] / min(seconds)
        rows.append((
            title, f"{min(seconds):,.3f}", f"{median(seconds):,.3f}", str(len(seconds)),
            f"{rate / 1e6:.2f} M", f"{min(seconds) / base:,.2f}" if base else "",
        ))  # fmt: skip
    return rows


HEAD = ("way", "least s", "median s", "rounds", "records/s", "ratio")


def headline(topic: dict) -> str:
    size = (
        f"{topic['records']:,} records, {topic['bytes'] / 1e9:.2f} GB, {topic['live']:,} live"
        if "live" in topic
        else ""
    )
    return f"{topic['part']}: {size}"


def terminal(measured: dict) -> str:
    lines = [machine(measured["machine"]), ""]
    for run in measured["runs"]:
        for topic in run["topics"]:
            lines += [headline(topic), "  {:<38}{:>10}{:>10}{:>8}{:>12}{:>9}".format(*HEAD)]
            for name, *cells, last in rows_of(topic):
                lines.append(
                    f"  {name:<38}{cells[0]:>10}{cells[1]:>10}{cells[2]:>8}{cells[3]:>12}{last:>9}"
                    if cells[0]
                    else f"  {name:<38}  left out: {last}"
                )
            lines.append("")
        lines += [*facts(run), ""]
    lines += growth(measured)
    return "\n".join(lines)


def facts(run: dict) -> list[str]:
    """What no table of a topic shows: the hot partition, memory, cold starts."""
    out = []
    if slower := hot_partition(run):
        out.append(f"one hot partition takes {slower:.2f} times the evenly spread log of as many live keys")
    for topic in run["topics"]:
        for way, found in topic["ways"].items():
            if took := found.get("memory", {}).get(WHOSE.get(way)):
                out.append(
                    f"peak memory of {WAYS[way].title}, {topic['part']}, {topic['records']:,} records, "
                    f"{topic['live']:,} live: {took['anonymous'] / 1e6:,.0f} MB, and {took['file'] / 1e6:,.0f} MB of "
                    f"mapped files{' (the largest Spark worker)' if way == 'package-spark' else ''}"
                )
    for name, seconds in run.get("once", {}).items():
        out.append(f"a new process, {name}: {f'{min(seconds):.2f} s' if seconds else 'left out: it failed'}")
    return out


def hot_partition(run: dict) -> float | None:
    """What a log in one partition takes, by the same one in fifty; with 10,000 groups, however small the log is."""
    for hot, spread in (("hot", "spread"), (ONE, MAIN)):
        one, fifty = part(run, hot), part(run, spread)
        if one and fifty and one["groups"] == MANY_GROUPS and least(one, BASE) and least(fifty, BASE):
            return least(one, BASE) / least(fifty, BASE)
    return None


def growth(measured: dict) -> list[str]:
    """From one size to the next: how much more a record costs, and how much more memory is taken."""
    out = []
    for small, large in pairwise(measured["runs"]):
        for way in (BASE, "package-2", "package-spark"):
            a, b = part(small, LARGER if way == "package-spark" else MAIN), part(large, MAIN)
            if least(a, way) and least(b, way) and a["records"] < b["records"]:
                cost = least(b, way) / least(a, way) / (b["records"] / a["records"])
                line = (
                    f"{WAYS[way].title}, {a['records']:,} to {b['records']:,} records: a record takes {cost:.2f} times"
                )
                took = [topic["ways"][way].get("memory", {}).get(WHOSE[way], {}).get("anonymous") for topic in (a, b)]
                if all(took) and a["groups"] == b["groups"]:
                    line += f", {took[1] / took[0]:.2f} times the memory (as many live keys)"
                out.append(line)
    return out


def machine(about: dict) -> str:
    packages = ", ".join(f"{name} {of}" for name, of in about["packages"].items() if of)
    return (
        f"{about['cpus']} CPUs ({about['cpu']}), {about['memory_bytes'] / 2**30:.0f} GiB, {about['system']}; "
        f"Python {about['python']}, {packages}, Java {about['java']}; load at the start {about['load']}"
    )


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown; what is after the first column stands at the right."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])


def blocks(measured: dict) -> dict[str, str]:
    """What docs/performance.md gets between its marks, by name."""
    tables, told = [], []
    for run in measured["runs"]:
        for topic in run["topics"]:
            if took_part(topic) < 2:
                continue
            rows = [row if row[1] else (row[0], "–", "–", "", "–", f"left out: {row[-1]}") for row in rows_of(topic)]
            tables.append(f"**{headline(topic)}**\n\n{table(HEAD, rows)}")
        told.append(f"{run['records']:,} records:\n\n" + "\n".join(f"- {line}" for line in facts(run)))
    if len(measured["runs"]) > 1:
        tables.append(f"**Least seconds by the log's size**\n\n{by_size(measured)}")
    if more := growth(measured):
        told.append("From size to size:\n\n" + "\n".join(f"- {line}" for line in more))
    ways = [(way.title, way.note) for way in WAYS.values()]
    return {
        "machine": machine(measured["machine"]) + ".",
        "ways": table(("way", "what one must know"), ways).replace("---:", "---"),
        "tables": "\n\n".join(tables),
        "facts": "\n\n".join(told),
    }


def took_part(topic: dict) -> int:
    return sum(bool(found["seconds"]) for found in topic["ways"].values())


def by_size(measured: dict) -> str:
    sizes = sorted({size for curve in curves(measured).values() for size in curve})
    rows = [
        (PLOTTED[way][0], *(f"{curve[size]:,.2f}" if size in curve else "" for size in sizes))
        for way, curve in curves(measured).items()
    ]
    return table(("", *(f"{size / 1e6:g} M" for size in sizes)), rows)


def curves(measured: dict) -> dict[str, dict[int, float]]:
    """Of each way in the plot: records and least seconds."""
    out: dict[str, dict[int, float]] = {}
    for way, (_, where) in PLOTTED.items():
        for run in measured["runs"]:
            if seconds := least(topic := part(run, where), way):
                out.setdefault(way, {})[topic["records"]] = seconds
    return out


def write_docs(measured: dict) -> None:
    page = DOCS / "performance.md"
    page.write_text(rendered(page.read_text(), measured))
    (DOCS / "performance.svg").write_text(plot(measured))


def rendered(text: str, measured: dict) -> str:
    """The page with its blocks anew."""
    for name, content in blocks(measured).items():
        begin, end = f"<!-- measured: {name} -->", "<!-- end -->"
        text, many = re.subn(
            f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, new=f"{begin}\n{content}\n{end}": new, text, flags=re.S
        )
        assert many == 1, f"performance.md has no place for {name}"
    return text


def plot(measured: dict) -> str:
    lines = [
        Line(PLOTTED[way][0], sorted(curve.items()), way.startswith("package"))
        for way, curve in curves(measured).items()
    ]
    return svg(lines, "records in the log", "seconds")
