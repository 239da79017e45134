"""The page: its head, the summary, and the sections of each path.

The page makes no request and runs no script. Its Content-Security-Policy forbids both: only the page's own style is
allowed, by its hash. No element has a style attribute or an event handler.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from kafkagroups.history.partition_count_text import describe_assumption, describe_beyond, describe_missing
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND
from kafkagroups.report.cause_sections import render_events, render_findings, render_transactions
from kafkagroups.report.facts import LogFacts
from kafkagroups.report.group_sections import render_damage, render_groups, render_verdict
from kafkagroups.report.markup import Html, element, join
from kafkagroups.report.size_sections import render_growth, render_live, render_load_time, render_writers
from kafkagroups.report.words import format_bytes, format_of, format_seconds, format_share, format_time

TITLE = "Report on __consumer_offsets"


def render_page(all_facts: Sequence[LogFacts], version: str, forks: Html) -> str:
    """Return the HTML of a report. `version` is that of this package. `forks` stands before the first path."""
    style = (files("kafkagroups.report") / "style.css").read_text(encoding="utf-8")
    parts = [render_log(number, facts, is_only=len(all_facts) == 1) for number, facts in enumerate(all_facts, start=1)]
    head = join(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_make_policy(style)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", TITLE),
        # The style is this package's own text. Escaping would change its quotes.
        Html(f"<style>{style}</style>"),
    )
    footer = element(
        "footer",
        element(
            "p", f"Written by kafkagroups {version}. Times are in UTC. The page makes no request and runs no script."
        ),
        element("p", "Control and direction characters in names are shown as escapes, for example \\u202e."),
    )
    body = element("body", element("h1", TITLE), forks, element("main", *parts), footer)
    return f"<!DOCTYPE html>\n{element('html', element('head', head), body, lang='en')}\n"


def _make_policy(style: str) -> str:
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render_log(number: int, facts: LogFacts, *, is_only: bool) -> Html:
    """Return the sections about one path. `number` is the path's place in the report."""
    name = f"p{number}"
    sections = (
        ("findings", "Findings and remedies", render_findings(facts)),
        ("events", "What stands out in the history", render_events(facts)),
        ("loads", "Does a broker load it?", render_verdict(facts)),
        ("transactions", "Open transactions", render_transactions(facts)),
        ("damage", "Damage", render_damage(facts)),
        ("growth", "Size and growth", render_growth(facts, name)),
        ("live", "Live and dead bytes", render_live(facts, name)),
        ("writers", "Who wrote what, and when", render_writers(facts, name)),
        ("time", "Load time", render_load_time(facts, name)),
        ("groups", "Groups", render_groups(facts)),
    )
    links = [element("li", element("a", title, href=f"#{name}-{key}")) for key, title, _ in sections]
    dialect = f"Read as the {facts.dialect.coordinator} coordinator of Kafka {facts.dialect.kafka} does."
    newest = f" Newest record: {format_time(facts.now_ms)} UTC." if facts.axis else ""
    return element(
        "section",
        element("h2", facts.path) if not is_only else element("p", element("b", facts.path)),
        element("p", dialect + newest, class_="soft"),
        _render_partition_count(facts),
        _render_summary(facts),
        element("nav", element("ul", *links), aria_label=f"Sections about {facts.path}"),
        *[join(element("h3", title, id=f"{name}-{key}"), content) for key, title, content in sections],
        id=name,
    )


def _render_partition_count(facts: LogFacts) -> Html:
    """Return what was assumed about the partition count, and which partitions the folder lacks."""
    topic = facts.stats.topic_partitions
    lines = (describe_assumption(topic, facts.dialect.coordinator), describe_beyond(topic), describe_missing(topic))
    return join(*[element("p", line, class_="soft") for line in lines if line is not None])


def _render_summary(facts: LogFacts) -> Html:
    partitions = facts.stats.partitions.values()
    size = sum(counts.bytes for counts in partitions)
    live = sum(counts.live_bytes for counts in partitions)
    records = sum(counts.records for counts in partitions)
    after = sum(cleaned.records for cleaned in facts.after_cleaning.values())
    open_count = sum(len(counts.open_transactions) for counts in partitions)
    failed = len(facts.groups.failed)
    damaged = sum(loaded.damage is not None for loaded in facts.groups.partitions.values())
    findings = len(facts.findings)
    count = len(facts.groups.partitions)
    loads = f"✓ {format_of(count, 'partition')}"
    if failed:
        loads = f"✗ {failed} of {count} fail"
    elif damaged:
        loads = "✗ only after a recovery"
    tiles = (
        ("Findings", "✓ none" if not findings else f"✗ {findings}", ""),
        ("Loads", loads, ""),
        ("Damage", "✓ none" if not damaged else f"✗ in {format_of(damaged, 'partition')}", ""),
        ("Groups to look at", str(len(facts.stories.stories) + facts.stories.left_out), "went back, deleted, pending"),
        ("Open transactions", str(open_count), "at the end of the log"),
        ("Size", format_bytes(size), f"{format_share(live, size)} live"),
        ("Records", format_of(records, "record"), f"{format_of(len(facts.groups), 'group')}"),
        (
            "Load time",
            format_seconds(records / RECORDS_LOADED_PER_SECOND),
            f"after cleaning: {format_seconds(after / RECORDS_LOADED_PER_SECOND)}",
        ),
    )
    items = [
        element("div", element("dt", label), element("dd", value, element("span", note, class_="note") if note else ""))
        for label, value, note in tiles
    ]
    return element("dl", *items, class_="tiles")
