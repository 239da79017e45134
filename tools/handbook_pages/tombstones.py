"""The page about tombstones: what a coordinator has after each of them."""

from __future__ import annotations

from handbook_pages.facts import Remains, TombstoneRow, read_tombstones
from handbook_pages.markdown import make_sentence, make_table, read_paragraphs

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
NOT_REMOVED = Remains("not removed", "not removed")


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    facts = read_tombstones()
    parts = [
        "# What a tombstone deletes",
        *read_paragraphs(facts.about),
        "## How to read the tables",
        "Each log is about one group and one partition of a topic. One word is one batch:",
        make_table(("word", "batch"), [(f"`{word}`", make_sentence(meaning)) for word, meaning in facts.words.items()]),
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
    for table in facts.tables:
        parts += [f"## {table.title}", table.about, make_table(HEADERS, [_make_row(row) for row in table.rows])]
    parts.append(f"Source: {facts.source}")
    return {"tombstones.md": "\n\n".join(parts) + "\n"}


def _make_row(row: TombstoneRow) -> tuple[str, ...]:
    cleaned = row.cleaned or NOT_REMOVED
    recorded = ", ".join(f"`{name}`" for name in row.recorded)
    loaded = (row.loaded.classic, row.loaded.new)
    return (f"`{row.log}`", row.when, row.running or "", *loaded, cleaned.classic, cleaned.new, recorded)
