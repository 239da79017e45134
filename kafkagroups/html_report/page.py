"""The page: the facts of each path, laid out by `page.html.j2`.

The page makes no request and runs no script, and its Content-Security-Policy allows only its own style, by its hash, so
no element has a style attribute or an event handler.

A log can come from anyone, so Jinja2 escapes what would be markup in its names, and helpers.py makes control and format
characters visible.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import metadata, resources
from itertools import accumulate, chain
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.helpers import escape
from kafkagroups.history.check import Check, judge
from kafkagroups.history.event import Event
from kafkagroups.history.finding import Finding, count_of, describe_duration, describe_time, describe_topic, list_groups
from kafkagroups.history.group_log import load_group_logs
from kafkagroups.history.scan import CountedTopic
from kafkagroups.history.stats import Stats
from kafkagroups.history.timeline import build_history
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.folders import new_file
from kafkagroups.log.segments import Log

PARTS = 48
LINES_SHOWN = 200
"""The page shows at most this number of lines about the difference between two paths."""
MAX_RECORDS = 50_000
"""The limit for all groups whose history is read, which takes about five seconds."""
TOLD = ("rewind", "skip", "expired", "offset_deleted", "deleted", "transaction_open")
"""The events that make a group stand out."""


Story = tuple[str, int | None, list[Event]]
"""A group, its partition, and its events that stand out."""


def read_stories(counted: CountedTopic, stats: Stats) -> tuple[list[Story], int]:
    """Return the histories with events that stand out, the longest first, and of how many groups none was read.

    Groups with tombstones, open transactions or unusual commits come first, and of these the smallest ones.
    """
    rows = {name: count for name, count in stats.rows.items() if isinstance(name, str)}
    unusual = {name for totals in counted.totals.values() for name in totals.watched_groups}
    for part in stats.partitions.values():
        unusual.update(name for transaction in part.open_transactions for name in transaction.groups)

    def sort_key(name: str) -> tuple[bool, int, str]:
        return not (name in unusual or rows[name].tombstones), rows[name].records, name

    names = sorted(rows, key=sort_key)
    sizes = accumulate(rows[name].records for name in names)
    wanted = [name for name, size in zip(names, sizes, strict=True) if size <= MAX_RECORDS]
    stories: list[Story] = []
    for log in counted.topic.logs:
        groups = [name for name in wanted if log.partition in rows[name].in_partitions]
        for group, group_log in load_group_logs(counted.topic.part(log), groups)[1].items() if groups else ():
            history = build_history(group_log, log.partition, counted.groups.partitions[log.partition])
            events = [event for event in history.events if event.event in TOLD and not event.is_routine]
            stories += [(group, log.partition, events)] if events else []
    return sorted(stories, key=lambda story: (-len(story[2]), story[0])), len(names) - len(wanted)


@dataclass(frozen=True)
class LogFacts:
    """Everything that a report says about one path. `unread` counts the groups whose history was not read."""

    topic: OpenTopic
    groups: Groups
    stats: Stats
    check: Check
    stories: Sequence[Story]
    unread: int

    def command(self, name: str, *words: str) -> str:
        topic = self.stats.topic_partitions
        rules = ["--coordinator", self.topic.dialect.coordinator, "--kafka", self.topic.dialect.kafka]
        count = ["--partitions", str(topic.count)] if topic.origin == "option" else []
        return shlex.join(["kafkagroups", name, self.topic.path, *words, *rules, *count])

    def count_by_time(self) -> list[tuple[int, float]]:
        """Return the start of each of PARTS equal parts of the time, and the records per minute in it.

        Markers are left out, so nearly all of these records are commits.
        """
        partitions = self.stats.partitions.values()
        begin_ms = min(
            (part.first_timestamp_ms for part in partitions if part.first_timestamp_ms is not None), default=-1
        )
        length_ms = max(self.stats.newest_ms - begin_ms, 0) + 1
        counts: Counter[int] = Counter()
        for batch in chain.from_iterable(self.topic.logs):
            if not batch.is_control:
                counts[(batch.max_timestamp - begin_ms) * PARTS // length_ms] += min(batch.count, batch.size)
        per_minute = PARTS * 60_000 / length_ms
        return [(begin_ms + part * length_ms // PARTS, counts[part] * per_minute) for part in range(PARTS)]

    @property
    def largest_groups(self) -> list[str]:
        rows = self.stats.rows
        return sorted(self.groups, key=lambda name: (-rows[name].bytes if name in rows else 0, name))

    @staticmethod
    def list_offsets(group: AnyGroup) -> list[tuple[TopicPartition, OffsetAndMetadata | None, int | None]]:
        pending = {key: commit.offset for commits in group.pending.values() for key, commit in commits.items()}
        return [(key, group.offsets.get(key), pending.get(key)) for key in sorted({*group.offsets, *pending})]


def read_facts(topic: OpenTopic) -> LogFacts:
    counted = CountedTopic(topic)
    stats = counted.sum_stats()
    return LogFacts(counted.topic, counted.groups, stats, judge(counted, stats), *read_stories(counted, stats))


@dataclass(frozen=True)
class Report:
    """A report on logs. `html` is the page, one document that contains everything that it needs. `findings` are those
    of `stats`, and `problems` those of `Groups.problems`, of all paths.
    """

    html: str = field(repr=False)
    findings: list[Finding]
    problems: list[str]


def report_on(topics: Sequence[OpenTopic], out: str | Path | None = None, comparison: str = "") -> Report:
    """`comparison` is a text about two paths that can be replicas."""
    if out is not None:
        _check_out(Path(out), [log for topic in topics for log in topic.logs])
    all_facts = [read_facts(topic) for topic in topics]
    report = Report(
        _render(all_facts, comparison),
        [finding for facts in all_facts for finding in facts.stats.findings],
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


def _render(all_facts: Sequence[LogFacts], comparison: str) -> str:
    environment = Environment(
        loader=PackageLoader("kafkagroups.html_report", "."),
        autoescape=True,
        finalize=_show,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": describe_duration, "names": list_groups, "of": count_of, "time": format_time}
    # The change of the partition count is a finding.
    environment.filters["assumptions"] = lambda topic, *rules: describe_topic(replace(topic, changed=None), *rules)
    style = (resources.files("kafkagroups.html_report") / "style.css").read_text(encoding="utf-8")
    page = environment.get_template("page.html.j2").render(
        all_facts=all_facts,
        comparison=Markup("\n").join(comparison.splitlines()[:LINES_SHOWN]),
        style=Markup(style),
        digest=b64encode(sha256(style.encode()).digest()).decode(),
        version=metadata.version("kafkagroups"),
    )
    return page.lstrip()


def _show(value: object) -> object:
    """Markup comes from the template's own macros."""
    if value is None:
        return "-"
    return value if isinstance(value, Markup) else escape(str(value))


def format_time(ms: int | None) -> str:
    """A time (ms since 1970) in UTC, to the second. None and negative numbers mean no time: "-"."""
    return "-" if ms is None or ms < 0 else describe_time(ms).removesuffix(" UTC")
