"""The cheat sheet: the most important facts on one page, as Markdown and as HTML for print."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import NamedTuple

from handbook_pages.facts import read_cleaner_rules, read_errors, read_transitions
from handbook_pages.markdown import make_table
from handbook_pages.records import describe_all_writers, describe_type, describe_writers, find_family
from kafkagroups.cli import COMMANDS
from kafkagroups.groups.group import ClassicState
from kafkagroups.records.serde import RECORD_TYPES
from kafkagroups.records.written_versions import find_written_values

TITLE = "The topic __consumer_offsets on one page"
STYLE = (Path(__file__).parent / "cheat_sheet.css").read_text(encoding="utf-8")
SHOWN_ERRORS = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "REBALANCE_IN_PROGRESS",
    "FENCED_INSTANCE_ID",
    "UNSTABLE_OFFSET_COMMIT",
)
SHOWN_RULES = ("Records", "Tombstones", "Transactions")
SHOWN_COMMANDS = ("decode", "partition", "dump", "load", "explain", "timeline", "stats", "check", "diff", "compact")


class Section(NamedTuple):
    """A part of the cheat sheet: a title and a table. A text in backquotes is code."""

    title: str
    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]


def write_pages() -> dict[str, str]:
    """Return both forms of the page by their names."""
    sections = make_sections()
    return {"cheat-sheet.md": _write_markdown(sections), "cheat-sheet-print.html": _write_html(sections)}


def make_sections() -> list[Section]:
    """Return the sections in the order of the page."""
    return [
        Section("Where a group is", ("what", "rule"), _list_places()),
        Section("Record types", ("type", "about", "what it stores", "written"), _list_types()),
        Section("Value versions", ("type", "version", "written"), _list_value_versions()),
        Section("States of a classic group", ("state", "next"), _list_states()),
        Section("Errors", ("code", "error", "what the consumer does"), _list_errors()),
        Section("The log cleaner", ("rule",), _list_rules()),
        Section("Commands", ("`kafkagroups …`", "what it does"), _list_commands()),
    ]


def _list_places() -> list[tuple[str, ...]]:
    return [
        ("partition", "`abs(hashCode(group)) % offsets.topic.num.partitions` (50)"),
        ("coordinator", "the leader of this partition"),
        ("key", "int16 record type, then the fields of the key"),
        ("value", "int16 value version, then the fields. No value: a tombstone"),
        ("order", "the record later in the log wins. A commit in a transaction counts when its marker is read"),
    ]


def _list_types() -> list[tuple[str, ...]]:
    return [
        (str(each.id), find_family(each).about, describe_type(each), describe_all_writers(each))
        for each in RECORD_TYPES.values()
    ]


def _list_value_versions() -> list[tuple[str, ...]]:
    return [
        (str(type_id), str(written.version), describe_writers([written]))
        for type_id in (1, 2)
        for written in find_written_values(type_id)
    ]


def _list_states() -> list[tuple[str, ...]]:
    rows = []
    changes = [each.change for each in read_transitions().transitions["classic"]]
    for state in ClassicState:
        following = dict.fromkeys(after for before, after in changes if before == state.value)
        other_states = [name for name in following if name != state.value]
        rows.append((state.value, ", ".join(other_states) or "none"))
    return rows


def _list_errors() -> list[tuple[str, ...]]:
    errors = read_errors().classic
    return [(str(errors[name].code), name, errors[name].client) for name in SHOWN_ERRORS]


def _list_rules() -> list[tuple[str, ...]]:
    rules = read_cleaner_rules().rules
    return [(rule.rule,) for subject in SHOWN_RULES for rule in rules[subject]]


def _list_commands() -> list[tuple[str, ...]]:
    names = [name for name in COMMANDS if name in SHOWN_COMMANDS]
    return [(f"`{name}`", COMMANDS[name]) for name in names]


def _write_markdown(sections: list[Section]) -> str:
    parts = ["# Cheat sheet"]
    parts.append(
        "`__consumer_offsets` on one page. To print it on one sheet of A4, open `docs/handbook/cheat-sheet-print.html` "
        "of the repository in a browser."
    )
    for section in sections:
        parts += [f"## {section.title}", make_table(section.headers, section.rows)]
    return "\n\n".join(parts) + "\n"


def _write_html(sections: list[Section]) -> str:
    body = "\n".join(_write_html_section(section) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(TITLE)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{html.escape(TITLE)}</h1>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _write_html_section(section: Section) -> str:
    heads = "".join(f"<th>{_write_cell(header)}</th>" for header in section.headers)
    lines = ["<tr>" + "".join(f"<td>{_write_cell(cell)}</td>" for cell in row) + "</tr>" for row in section.rows]
    table = "\n".join(lines)
    return (
        f"<section>\n<h2>{html.escape(section.title)}</h2>\n<table>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{table}\n</tbody>\n</table>\n</section>"
    )


def _write_cell(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
