"""Builds the report: reads the facts of each path, and renders the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from kafkagroups.errors import UsageError
from kafkagroups.history.finding import Finding
from kafkagroups.loading.load import OpenTopic
from kafkagroups.report.facts import LogFacts, read_facts
from kafkagroups.report.page import render_page
from kafkagroups.report.replica_section import render_forks


@dataclass(frozen=True)
class Report:
    """A report on logs.

    Attributes
    ----------
    html
        The page: one HTML document, which contains everything that it needs.
    findings
        The findings of all paths, of `stats` and `check`.
    problems
        A line for each partition that is damaged or whose load fails, as in `Groups.problems`.
    """

    html: str = field(repr=False)
    findings: list[Finding]
    problems: list[str]


def report_on(topics: Sequence[OpenTopic], out: str | Path | None = None) -> Report:
    """Return the report on the topics at several paths, and write it to the file `out`, if one is given."""
    if out is not None:
        check_out(Path(out), topics)
    report = make_report(topics)
    if out is not None:
        write_report(report, Path(out))
    return report


def make_report(topics: Sequence[OpenTopic]) -> Report:
    """Return the report on the topics at several paths."""
    all_facts: list[LogFacts] = [read_facts(topic) for topic in topics]
    forks = render_forks(topics, all_facts)
    return Report(
        render_page(all_facts, metadata.version("kafkagroups"), forks),
        [finding for facts in all_facts for finding in facts.findings],
        [problem for facts in all_facts for problem in facts.stats.problems],
    )


def check_out(out: Path, topics: Sequence[OpenTopic]) -> None:
    """Raise UsageError if the page cannot be written to `out`: it is a folder, or a segment of one of the logs."""
    if out.is_dir():
        raise UsageError(f"{out}: expected a file for the report, found a folder")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent}")
    if out.suffix == ".log" or any(out.exists() and out.samefile(path) for path in _list_segments(topics)):
        raise UsageError(f"{out}: a report must not replace a segment: choose another name")


def _list_segments(topics: Sequence[OpenTopic]) -> Iterator[Path]:
    for topic in topics:
        for log in topic.logs:
            for segment in log.segments:
                path = Path(segment)
                if path.exists():
                    yield path


def write_report(report: Report, out: Path) -> None:
    """Write the page to a file, as UTF-8."""
    # An unpaired surrogate has no UTF-8 bytes. The page contains none, because names are escaped (visible_text.py).
    out.write_text(report.html, encoding="utf-8")
