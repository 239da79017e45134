"""The section about two paths that are replicas of each other: where they fork, and which answers differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkagroups.history.finding import quote
from kafkagroups.history.replicas import Change, Replicas, compare_replicas
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.fork import Branch
from kafkagroups.report.facts import LogFacts
from kafkagroups.report.markup import Content, Html, command, element, limited_table, paragraph
from kafkagroups.report.words import format_of, format_partition

MAX_ROWS = 50


def render_forks(topics: Sequence[OpenTopic], facts: Sequence[LogFacts]) -> Html:
    """Return the forks of two paths; nothing if there are more or fewer paths, or if they are no replicas.

    Two logs of a partition are replicas if they have at least one batch in common.
    """
    if len(facts) != 2:
        return Html("")
    result = compare_replicas((topics[0], topics[1]), (facts[0].groups, facts[1].groups))
    starts = {log.partition: log.start_offset for topic in topics for log in topic.logs}
    forked = [number for number, fork in result.forks.items() if fork.batch_offset > starts[number]]
    if not forked:
        return Html("")
    options = f"--coordinator {facts[0].dialect.coordinator} --kafka {facts[0].dialect.kafka}"
    return element(
        "section",
        element("h2", "Two replicas that differ"),
        *[_render_fork(number, result, facts) for number in forked],
        command(f"kafkagroups diff {quote(facts[0].path)} {quote(facts[1].path)} {options}"),
    )


def _render_fork(number: int | None, result: Replicas, facts: Sequence[LogFacts]) -> Html:
    fork = result.forks[number]
    truncation = result.truncations[number]
    is_a_newer = truncation.newer == "a"
    newer, older = (facts[0].path, facts[1].path) if is_a_newer else (facts[1].path, facts[0].path)
    changes = [change for change in result.changes[number] if change.differs and not change.is_healed]
    healed = sum(change.is_healed for change in result.changes[number])
    lost = fork.b.only if is_a_newer else fork.a.only
    fate = "The other one only lacks records."
    if lost:
        cut = "an unknown record" if truncation.offset is None else f"record {truncation.offset}"
        fate = (
            f"If the broker of {older} returns as a follower, it cuts its log at {cut}, and loses the "
            f"{format_of(lost, 'record')} that only it has. Save its folder before."
        )
    rows = [_change_row(change) for change in changes]
    columns = ("group", "what", "in the first path", "in the second path")
    heading = element("span", f"Fork at record {fork.offset}", class_="kind")
    answers = paragraph("No answer is lost.")
    if rows:
        answers = limited_table(columns, rows, "Answers that differ, not healed", MAX_ROWS)
    return element(
        "section",
        element("h4", heading, f", partition {format_partition(number)}"),
        element(
            "ul",
            element("li", f"{facts[0].path}: {_describe_branch(fork.a)}"),
            element("li", f"{facts[1].path}: {_describe_branch(fork.b)}"),
        ),
        paragraph(f"{newer} is the newer replica. {fate}"),
        answers,
        paragraph(f"Healed, because later records give the same or a newer answer: {format_of(healed, 'answer')}."),
        class_="finding",
    )


def _describe_branch(branch: Branch) -> str:
    if not branch.only:
        return f"no records of its own, ends at offset {branch.end_offset}"
    return (
        f"{format_of(branch.only, 'record')} of its own, {branch.first} to {branch.last}, written in leader epoch "
        f"{branch.leader_epoch}"
    )


def _change_row(change: Change) -> tuple[Content, ...]:
    what = {"groups": "the group", "offsets": change.key, "pending": f"pending for {change.key}"}[change.table]
    return (change.group, what, _describe_answer(change.a), _describe_answer(change.b))


def _describe_answer(answer: Any) -> str:
    """Return an answer of `load --json` in a few words."""
    if answer is None:
        return "none"
    if isinstance(answer, list):
        return ", ".join(str(commit["offset"]) for commit in answer)
    if "offset" in answer:
        return str(answer["offset"])
    return f"{answer['state']}, {format_of(len(answer['members']), 'member')}"
