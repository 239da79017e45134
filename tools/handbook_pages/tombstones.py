"""The page about tombstones: what a coordinator has after each of them."""

from __future__ import annotations

from handbook_pages.markdown import make_sentence, make_table, read_paragraphs, read_source
from kafkagroups.groups import tombstones
from kafkagroups.groups.tombstones import TOMBSTONE_TABLES, WORDS, Remains, TombstoneRow

HEADERS = (
    "log",
    "situation",
    "classic, running",
    "classic, loaded",
    "4.x, running or loaded",
    "classic, cleaned",
    "4.x, cleaned",
    "recorded",
)


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    parts = [
        "# What a tombstone deletes",
        *read_paragraphs(tombstones.__doc__)[1:],
        "## How to read the tables",
        "Each log is about one group and one partition of a topic. One word is one batch:",
        make_table(("word", "batch"), [(f"`{word}`", make_sentence(meaning)) for word, meaning in WORDS.items()]),
        "The columns say what the coordinator has after the last batch. “C” means that a fetch returns the offset of "
        "commit `C`. The columns are:",
        "- *classic, running*: a classic coordinator (3.9) that wrote this log. “–” means that it does not write it.\n"
        "- *classic, loaded* and *4.x, running or loaded*: the coordinator has read the log.\n"
        "- *classic, cleaned* and *4.x, cleaned*: the coordinator has loaded the log after the cleaner removed the "
        "tombstones. “not removed” means that the open transaction stops the cleaner.\n"
        "- *recorded*: our captured logs with the same records, and with the answers of brokers of 3.9.2 and 4.3.1.",
        "“Load error” is the error `Unexpected unload of active group`. The classic coordinator raises it at the end "
        "of a load, when all groups are already in its cache. So it still answers all requests.",
    ]
    for table in TOMBSTONE_TABLES:
        parts += [f"## {table.title}", table.summary, make_table(HEADERS, [_make_row(row) for row in table.rows])]
    parts.append(f"Source: {read_source(tombstones.__doc__)}")
    return {"tombstones.md": "\n\n".join(parts) + "\n"}


def _make_row(row: TombstoneRow) -> tuple[str, ...]:
    running = "" if row.running is None else describe(row.running)
    classic_cleaned = describe_cleaned(row.classic_cleaned)
    new_cleaned = describe_cleaned(row.new_cleaned)
    recorded = ", ".join(f"`{name}`" for name in row.recorded)
    loaded = (describe(row.classic), describe(row.new))
    return (f"`{row.log}`", row.event, running, *loaded, classic_cleaned, new_cleaned, recorded)


def describe_cleaned(remains: Remains | None) -> str:
    return "not removed" if remains is None else describe(remains)


def describe(remains: Remains) -> str:
    """Return the text of a cell, for example "no group, C hidden"."""
    committed = remains.committed.replace(" ", " and ")
    pending = f"{remains.pending} pending" if remains.pending else ""
    hidden = f"{remains.hidden.replace(' ', ' and ')} hidden" if remains.hidden else ""
    group = "" if remains.has_group else "no group"
    error = "load error" if remains.fails else ""
    texts = [text for text in (group, committed, hidden, pending, error) if text]
    return ", ".join(texts) if texts else "Empty group"
