"""The page: the facts of each path, laid out by `page.html.j2`.

The page makes no request and runs no script, and its Content-Security-Policy forbids both: only its own style is
allowed, by its hash, so no element has a style attribute or an event handler.

A log can come from anyone, so Jinja2 escapes what would be markup in its names, and helpers.py makes control and format
characters visible.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import metadata, resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafkagroups.errors import UsageError
from kafkagroups.helpers import escape
from kafkagroups.history.finding import Finding, quote
from kafkagroups.history.replicas import Replicas, compare_replicas
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, sort_moved
from kafkagroups.history.words import count_of, describe_duration, describe_time, list_groups
from kafkagroups.html_report.facts import LogFacts, read_facts
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.outputs import new_file
from kafkagroups.log.segments import Log


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
    """Return the report on the topics at several paths, and write its page to the file `out`, if one is given."""
    if out is not None:
        _check_out(Path(out), [log for topic in topics for log in topic.logs])
    all_facts = [read_facts(topic) for topic in topics]
    report = Report(
        _render(all_facts, _compare(all_facts)),
        [finding for facts in all_facts for finding in facts.findings],
        [problem for facts in all_facts for problem in facts.stats.problems],
    )
    if out is not None:
        with new_file(Path(out), replaces=True) as file:
            # An unpaired surrogate has no UTF-8 bytes, but the page has none: it shows them as escapes.
            file.write(report.html.encode())
    return report


def _check_out(out: Path, logs: Sequence[Log]) -> None:
    if out.is_dir():
        raise UsageError(f"{out}: expected a file for the report, found a folder")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent}")
    segments = (Path(segment) for log in logs for segment in log.segments)
    if out.suffix == ".log" or any(out.exists() and path.exists() and out.samefile(path) for path in segments):
        raise UsageError(f"{out}: a report must not replace a segment: choose another name")


def _compare(all_facts: Sequence[LogFacts]) -> Replicas | None:
    """Return the comparison of two paths, with the partitions that have a batch in common and then fork."""
    if len(all_facts) != 2:
        return None
    a, b = all_facts
    result = compare_replicas((a.topic, b.topic), (a.groups, b.groups))
    starts = {log.partition: log.start_offset for log in (*a.topic.logs, *b.topic.logs)}
    result.forks = {number: fork for number, fork in result.forks.items() if fork.batch_offset > starts[number]}
    return result


def _render(all_facts: Sequence[LogFacts], replicas: Replicas | None) -> str:
    environment = Environment(
        loader=PackageLoader("kafkagroups.html_report", "."),
        autoescape=True,
        finalize=_show,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": describe_duration, "names": list_groups, "of": count_of, "time": format_time}
    style = (resources.files("kafkagroups.html_report") / "style.css").read_text(encoding="utf-8")
    page = environment.get_template("page.html.j2").render(
        all_facts=all_facts,
        replicas=replicas,
        style=Markup(style),
        digest=b64encode(sha256(style.encode()).digest()).decode(),
        version=metadata.version("kafkagroups"),
        records_per_ms=RECORDS_LOADED_PER_SECOND // 1000,
        describe_answer=_describe_answer,
        quote=quote,
        sort_moved=sort_moved,
    )
    return page.lstrip()


def _show(value: object) -> object:
    """Return what the page shows for the value of an expression. Markup comes from the template's own macros."""
    if value is None:
        return "-"
    return value if isinstance(value, Markup) else escape(str(value))


def format_time(ms: int | None) -> str:
    """A time (ms since 1970) in UTC, to the second. None and negative numbers mean no time: "-"."""
    return "-" if ms is None or ms < 0 else describe_time(ms).removesuffix(" UTC")


def _describe_answer(answer: object) -> str:
    if isinstance(answer, list):
        return ", ".join(str(commit["offset"]) for commit in answer)
    return str(answer.get("offset", answer.get("state"))) if isinstance(answer, dict) else "none"
