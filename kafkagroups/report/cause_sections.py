"""The first sections of a report: findings with remedies, and what else stands out in the history of groups."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.history.event import Event, list_names
from kafkagroups.history.finding import Finding, join_words, quote
from kafkagroups.history.stats import OpenTransaction
from kafkagroups.history.transactions import abort_command
from kafkagroups.loading.topic_partitions import PartitionCountChange
from kafkagroups.log.partitioning import partition_for
from kafkagroups.report.facts import LogFacts
from kafkagroups.report.markup import Html, command, details, element, join, limited_table, paragraph
from kafkagroups.report.offset_tables import render_moved_offsets
from kafkagroups.report.stories import TOLD, Story
from kafkagroups.report.words import format_count, format_duration, format_of, format_partition, format_time

MAX_FINDINGS = 50
MAX_TOLD_EVENTS = 8
MAX_EVENTS = 60
MAX_MOVED = 50
MAX_TRANSACTIONS = 30
_EVENT_WORDS = {
    "rewind": "went back",
    "expired": "expired",
    "offset_deleted": "offset deleted",
    "deleted": "group deleted",
    "transaction_open": "open transaction",
    "transaction_aborted": "aborted",
    "transaction_committed": "committed in a transaction",
}


def render_findings(facts: LogFacts) -> Html:
    """Return the findings, each with its remedy."""
    findings = facts.findings
    if not findings:
        line = element("p", "No findings: the log itself needs no remedy.", class_="good")
        if not facts.stands_out:
            return line
        return join(line, element("p", "If something is wrong, the next section shows where to look.", class_="next"))
    items = [_render_finding(number, finding) for number, finding in enumerate(findings[:MAX_FINDINGS], start=1)]
    if len(findings) > MAX_FINDINGS:
        items.append(_cut(MAX_FINDINGS, len(findings), "findings"))
    return join(*items)


def _render_finding(number: int, finding: Finding) -> Html:
    kind = finding.kind.replace("_", " ")
    where = "" if finding.partition is None else f", partition {finding.partition}"
    return element(
        "section",
        element("h4", f"Finding {number}: ", element("span", kind, class_="kind"), where),
        paragraph(finding.what),
        element("p", element("strong", "Remedy: "), finding.advice, class_="remedy"),
        command(finding.command_line) if finding.command_line else "",
        class_="finding",
    )


def render_events(facts: LogFacts) -> Html:
    """Return what stands out without being a finding: a changed partition count, offsets that went back, deletions."""
    change = facts.stats.topic_partitions.changed
    items = [] if change is None else [_render_change(facts, change)]
    items += [_render_story(facts, story) for story in facts.stories.stories]
    if not items:
        return paragraph("No offset went back, no offset or group was deleted, and no transaction is open.")
    if facts.stories.left_out:
        left_out = format_of(facts.stories.left_out, "more group")
        items.append(element("p", f"{left_out} with commits that went back or deletions: not shown.", class_="cut"))
    return join(
        paragraph(
            "These events are not wrong in themselves: people reset offsets, and groups are deleted. Compare the times "
            "with what you see."
        ),
        *items,
    )


def _render_change(facts: LogFacts, change: PartitionCountChange) -> Html:
    old_counts = " or ".join(str(count) for count in change.possible_counts)
    rows = [
        (group, partition_for(group, change.from_count), partition_for(group, change.to_count))
        for group in change.groups
    ]
    if facts.groups.coordinator == "classic":
        effect = (
            "A classic broker loads the partitions in any order, and answers from the first one with records of a "
            "group. So these groups can go back to their old offsets at each start."
        )
    else:
        effect = "A new coordinator answers only from the new partition. Commits in the old partition have no effect."
    return element(
        "section",
        element("h4", element("span", "The topic's partition count was changed", class_="kind")),
        paragraph(
            f"It was changed from {old_counts} to {change.to_count}, at the latest at {format_time(change.since_ms)} "
            f"UTC. {format_of(len(change.groups), 'group')} moved to another partition, and left old records behind. "
            f"{effect}"
        ),
        limited_table(("group", "old partition", "new partition"), rows, "The groups that moved", MAX_MOVED),
        render_moved_offsets(facts.moved_offsets),
        class_="story",
    )


def _render_story(facts: LogFacts, story: Story) -> Html:
    told = [event for event in story.events if event.event in TOLD]
    # A rewind repeats the commit right before it.
    rewound = {event.offset for event in story.events if event.event == "rewind"}
    events = [event for event in story.events if not (event.event == "commit" and event.offset in rewound)]
    heading = element("h4", element("span", _summarize(told), class_="kind"), " in group ", element("b", story.group))
    facts_line = paragraph(f"Partition {format_partition(story.partition)}. {_describe_now(facts, story)}")
    bullets = [element("li", _describe_event(event)) for event in told[-MAX_TOLD_EVENTS:]]
    line = f"kafkagroups timeline {quote(facts.path)} --group={quote(story.group)} {facts.options}"
    return element(
        "section",
        heading,
        facts_line,
        element("ul", *bullets),
        _cut(MAX_TOLD_EVENTS, len(told), "of these events", "last") if len(told) > MAX_TOLD_EVENTS else "",
        details(
            f"History of the group ({format_of(len(events), 'event')})",
            limited_table(
                ("time (UTC)", "record", "event", "what"),
                [
                    (format_time(event.timestamp_ms), event.offset, _name_event(event), event.what)
                    for event in events[-MAX_EVENTS:]
                ],
                "Events of the group in the order of the log; commits that only move forward are left out",
                MAX_EVENTS,
            ),
            _cut(MAX_EVENTS, len(events), "events", "last") if len(events) > MAX_EVENTS else "",
            command(line),
        ),
        class_="story",
    )


def _summarize(told: list[Event]) -> str:
    """Return the words for the most striking events of a group, for example "2 offsets went back"."""
    counts = {name: sum(event.event == name for event in told) for name in TOLD}
    parts = []
    if counts["rewind"]:
        parts.append(f"{format_of(counts['rewind'], 'offset')} went back")
    if counts["expired"]:
        parts.append(f"{format_of(counts['expired'], 'offset')} expired")
    if counts["offset_deleted"]:
        parts.append(f"{format_of(counts['offset_deleted'], 'offset')} deleted")
    if counts["deleted"]:
        parts.append("group deleted")
    if counts["transaction_open"]:
        parts.append(f"{format_of(counts['transaction_open'], 'pending offset')}")
    words = ", ".join(parts)
    return words[0].upper() + words[1:]


def _describe_event(event: Event) -> str:
    return f"{format_time(event.timestamp_ms)}, record {event.offset}: {event.what}"


def _name_event(event: Event) -> str:
    return _EVENT_WORDS.get(event.event, event.event)


def _describe_now(facts: LogFacts, story: Story) -> str:
    """Return how the group is at the end of the log."""
    group = facts.groups.get(story.group)
    if group is None:
        return "The group does not exist after a load."
    members = format_of(len(group.members), "member")
    return f"After a load: {group.state.value}, {members}, {format_of(len(group.offsets), 'committed offset')}."


def render_transactions(facts: LogFacts) -> Html:
    """Return the open transactions: since when, of which groups, how unusual, and how to end them."""
    rows = sorted(_find_transactions(facts), key=lambda row: (row[1].since_ms, row[1].first_offset))
    if not rows:
        return paragraph("✓ No transaction is open at the end of the log.")
    longest = {activity.partition: activity for activity in facts.activities}
    now_ms = facts.now_ms or 0
    cells = []
    lines = []
    for partition, transaction in rows[:MAX_TRANSACTIONS]:
        activity = longest[partition]
        age_ms = now_ms - transaction.since_ms
        cells.append(
            (
                format_partition(partition),
                transaction.first_offset,
                transaction.producer_id,
                list_names(transaction.groups) or "-",
                format_time(transaction.since_ms),
                format_duration(age_ms),
                _judge_age(age_ms, activity.longest_transaction_ms),
            )
        )
        lines.append(join_words(abort_command(partition, transaction.first_offset)))
    columns = ("partition", "first record", "producer", "groups", "since (UTC)", "age", "compared with ended ones")
    return join(
        paragraph(
            "While a transaction is open, its groups get UNSTABLE_OFFSET_COMMIT for the pending offsets, if their "
            "clients require stable offsets. The cleaner stops at the transaction. The age is measured at the newest "
            "record of the log, so the transaction may have ended after the copy."
        ),
        limited_table(columns, cells, "Transactions without a marker, the oldest first", MAX_TRANSACTIONS),
        _cut(MAX_TRANSACTIONS, len(rows), "transactions") if len(rows) > MAX_TRANSACTIONS else "",
        details(
            "Commands for a transaction that does not end by itself",
            paragraph(
                "First look whether the transaction is still open: kafka-transactions.sh find-hanging. Its coordinator "
                "ends a transaction that it knows after transaction.timeout.ms. What it does not know stays open."
            ),
            *[command(line) for line in lines],
        ),
    )


def _find_transactions(facts: LogFacts) -> Iterator[tuple[int | None, OpenTransaction]]:
    for partition, counts in facts.stats.partitions.items():
        for transaction in counts.open_transactions:
            yield partition, transaction


def _judge_age(age_ms: int, longest_ms: int | None) -> str:
    if longest_ms is None:
        return "No transaction of this partition has ended"
    longest = format_duration(longest_ms)
    if age_ms > max(10 * longest_ms, 1_000):
        return f"⚠ Far longer: every ended one took at most {longest}"
    return f"Not unusual: ended ones took up to {longest}"


def _cut(shown: int, total: int, noun: str, which: str = "first") -> Html:
    return element("p", f"Only the {which} {shown} of {format_count(total)} {noun} are shown.", class_="cut")
