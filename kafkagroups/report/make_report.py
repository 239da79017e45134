"""Builds the report: reads the facts of each path, and renders the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from kafkagroups.errors import UsageError
from kafkagroups.history.finding import Finding
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect
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


@dataclass(frozen=True)
class LogsOfPath:
    """The logs at one path."""

    path: str
    logs: Sequence[Log]


def make_report(
    sources: Sequence[LogsOfPath], dialect: Dialect, *, partitions: int | None = None, engine: str = "auto"
) -> Report:
    """Return the report on the logs of several paths. The other parameters are those of `kafkagroups.report`."""
    all_facts: list[LogFacts] = [
        read_facts(source.logs, dialect, source.path, partitions=partitions, engine=engine) for source in sources
    ]
    forks = render_forks([source.logs for source in sources], all_facts, partitions, engine)
    return Report(
        render_page(all_facts, metadata.version("kafkagroups"), forks),
        [finding for facts in all_facts for finding in facts.findings],
        [problem for facts in all_facts for problem in facts.stats.problems],
    )


def check_out(out: Path, sources: Sequence[LogsOfPath]) -> None:
    """Raise UsageError if the page cannot be written to `out`: it is a folder, or a segment of one of the logs."""
    if out.is_dir():
        raise UsageError(f"{out}: expected a file for the report, found a folder")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent}")
    if out.suffix == ".log" or any(out.exists() and out.samefile(path) for path in _list_segments(sources)):
        raise UsageError(f"{out}: a report must not replace a segment: choose another name")


def _list_segments(sources: Sequence[LogsOfPath]) -> Iterator[Path]:
    for source in sources:
        for log in source.logs:
            for segment in log.segments:
                path = Path(segment)
                if path.exists():
                    yield path


def write_report(report: Report, out: Path) -> None:
    """Write the page to a file, as UTF-8."""
    # An unpaired surrogate has no UTF-8 bytes. The page contains none, because names are escaped (visible_text.py).
    out.write_text(report.html, encoding="utf-8")
