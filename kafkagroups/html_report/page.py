"""The page: the facts of each path, laid out by `page.html.j2`.

The page makes no request and runs no script, and its Content-Security-Policy allows only its own style, by its hash, so
no element has a style attribute or an event handler.

A log can come from anyone, so Jinja2 escapes what would be markup in its names, and helpers.py makes control and format
characters visible.

A first reading, which looks only at group ids and committed offsets, because they have fixed places, finds who wrote
how much, and chooses the groups whose history a second reading takes from their records.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import metadata, resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.helpers import escape
from kafkagroups.history.check import Check, judge
from kafkagroups.history.event import Event
from kafkagroups.history.finding import (
    Finding,
    count_of,
    describe_duration,
    describe_time,
    describe_topic,
    list_groups,
    sort_findings,
)
from kafkagroups.history.group_log import load_group_logs
from kafkagroups.history.passes import list_readable, refuse_foreign_log
from kafkagroups.history.replicas import Replicas, compare_replicas, describe_answer
from kafkagroups.history.scan import CountedTopic
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, OpenTransaction, Stats, sort_moved
from kafkagroups.history.timeline import build_history
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.log.folders import new_file
from kafkagroups.log.segments import Log
from kafkagroups.records.wire import decode_utf8

PARTS = 24
MAX_STORIES = 12
MAX_RECORDS = 100_000
"""The limit for all groups with a history together."""
TOLD = ("rewind", "skip", "expired", "offset_deleted", "deleted", "transaction_open")
"""The events that make a group stand out."""
_OFFSET_TYPES = (b"\0\0", b"\0\1")
"""The first two bytes of the keys of offset records: their type."""
_GROUP_TYPE = b"\0\2"
_OFFSET_IN_VALUE = slice(2, 10)
"""Where each version of the value of an offset record contains the committed offset."""


@dataclass
class Activity:
    """What one reading of the logs found.

    `starts` divide the time that a report covers into PARTS equal parts. In each part, `bytes` are those of the
    batches, and `group_bytes` those of the records of some groups. By partition and group, `weights` counts what stands
    out: commits below an earlier one of the same topic partition, and tombstones.
    """

    starts: list[int]
    bytes: Counter[int] = field(default_factory=Counter)
    group_bytes: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    weights: Counter[tuple[int | None, str]] = field(default_factory=Counter)


def read_activity(logs: Sequence[Log], starts: list[int], groups_to_follow: Collection[str]) -> Activity:
    activity = Activity(starts)
    followed = {_encode(group): group for group in groups_to_follow}
    for log in logs:
        committed: dict[bytes, bytes] = {}
        for batch in log:
            part = max(0, bisect_right(starts, batch.max_timestamp) - 1)
            activity.bytes[part] += batch.size
            for record in () if batch.is_control else list_readable(batch):
                key = record.key or b""
                group = key[4 : 4 + int.from_bytes(key[2:4], "big")]
                if group in followed:
                    activity.group_bytes[part][followed[group]] += record.size
                weight = _weigh(key, record.value, committed, batch.is_transactional)
                if weight:
                    activity.weights[log.partition, decode_utf8(group)] += weight
    return activity


def _encode(group: str) -> bytes:
    return group.encode("utf-8", "surrogatepass")


def _weigh(key: bytes, value: bytes | None, committed: dict[bytes, bytes], is_transactional: bool) -> int:
    if key[:2] not in _OFFSET_TYPES:
        return int(value is None and key[:2] == _GROUP_TYPE)
    if value is None:
        committed.pop(key, None)
        return 2
    # Committed offsets are not negative, so their bytes are in the order of the numbers. Whether the transaction of a
    # commit was aborted does not matter here: the second reading is exact.
    offset = value[_OFFSET_IN_VALUE]
    steps_back = offset < committed.get(key, b"")
    if not (steps_back and is_transactional):
        committed[key] = offset
    return 4 * steps_back


@dataclass(frozen=True)
class Story:
    group: str
    partition: int | None
    events: list[Event]


def read_stories(topic: OpenTopic, activity: Activity, stats: Stats) -> tuple[list[Story], int]:
    """Return the histories that stand out most, in this order, and how many more groups stand out."""
    weights = activity.weights.copy()
    for number, counts in stats.partitions.items():
        for group in {group for transaction in counts.open_transactions for group in transaction.groups}:
            weights[number, group] += 3
    wanted: list[tuple[int | None, str]] = []
    budget = MAX_RECORDS
    for number, group in sorted(weights, key=lambda place: (-weights[place], place[1])):
        records = stats.rows[group].records if group in stats.rows else 0
        if len(wanted) < MAX_STORIES and records <= budget:
            wanted.append((number, group))
            budget -= records
    events = {}
    for log in topic.logs:
        groups = [group for number, group in wanted if number == log.partition]
        for group, group_log in load_group_logs(topic.part(log), groups)[1].items() if groups else ():
            history = build_history(group_log, log.partition, log.start_offset)
            told = [event for event in history.events if event.event in TOLD and not event.is_routine]
            events[log.partition, group] = told
    stories = [Story(group, number, events[number, group]) for number, group in wanted if events[number, group]]
    return stories, len(weights) - len(wanted)


FOLLOWED_GROUPS = 100


@dataclass(frozen=True)
class LogFacts:
    """Everything that a report says about one path. `untold` counts the groups that stand out beyond `stories`."""

    topic: OpenTopic
    groups: Groups
    stats: Stats
    check: Check
    last_ms: int
    activity: Activity
    stories: Sequence[Story]
    untold: int

    @property
    def findings(self) -> list[Finding]:
        others = [finding for finding in self.check.findings if finding not in self.stats.findings]
        return sort_findings([*self.stats.findings, *others])

    def command(self, name: str, *words: str, group: str | None = None) -> str:
        topic = self.stats.topic_partitions
        of_group = [] if group is None else [f"--group={group}"]
        rules = ["--coordinator", self.topic.dialect.coordinator, "--kafka", self.topic.dialect.kafka]
        count = ["--partitions", str(topic.count)] if topic.origin == "option" else []
        return shlex.join(["kafkagroups", name, self.topic.path, *of_group, *words, *rules, *count])

    @property
    def assumptions(self) -> list[str]:
        return list(describe_topic(self.stats.topic_partitions, self.topic.dialect.coordinator))

    @property
    def open_transactions(self) -> list[tuple[int | None, OpenTransaction]]:
        pairs = [(number, one) for number, part in self.stats.partitions.items() for one in part.open_transactions]
        return sorted(pairs, key=lambda pair: (pair[1].since_ms, pair[1].first_offset))

    @property
    def parts_of_time(self) -> list[tuple[int, int, str, int]]:
        parts = []
        for part, size in sorted(self.activity.bytes.items()):
            group, group_size = next(iter(self.activity.group_bytes[part].most_common(1)), ("-", 0))
            parts.append((self.activity.starts[part], size, group, group_size))
        return parts

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
    refuse_foreign_log(counted.topic, counted.groups.partitions_of)
    stats = counted.sum_stats()
    check = judge(counted, stats)
    times = [time for part in stats.partitions.values() for time in (part.first_timestamp_ms, part.last_timestamp_ms)]
    known = [time for time in times if time is not None] or [NO_TIMESTAMP]
    length_ms = max(known) - min(known) + 1
    starts = [min(known) + part * length_ms // PARTS for part in range(PARTS)]
    # The rows are sorted by bytes.
    followed = [name for name in stats.rows if isinstance(name, str)][:FOLLOWED_GROUPS]
    activity = read_activity(counted.topic.logs, starts, followed)
    stories, untold = read_stories(counted.topic, activity, stats)
    return LogFacts(topic, counted.groups, stats, check, max(known), activity, stories, untold)


@dataclass(frozen=True)
class Report:
    """A report on logs. `html` is the page, one document that contains everything that it needs. `findings` are those
    of `stats` and `check`, and `problems` those of `Groups.problems`, of all paths.
    """

    html: str = field(repr=False)
    findings: list[Finding]
    problems: list[str]


def report_on(topics: Sequence[OpenTopic], out: str | Path | None = None) -> Report:
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
        describe_answer=describe_answer,
        sort_moved=sort_moved,
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
