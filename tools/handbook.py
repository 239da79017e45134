"""Write the handbook, docs/handbook/: `python tools/handbook.py`, or `make handbook`.

Every fact is declared in the package, in docs/facts/ or in docs/terms.md. The generator adds only headings and
sentences that introduce a table. The modules of tools/handbook_pages/ make the pages.
"""

from __future__ import annotations

import sys
from pathlib import Path

from handbook_pages import cheat_sheet, cleaner, errors, events, glossary, groups, protocols, records, tombstones
from handbook_pages.facts import InvalidFacts

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "handbook"
NOTE = "<!-- Written by tools/handbook.py. Change the code or docs/facts/, and run: make handbook -->"
INDEX = """# Handbook

These pages are for looking things up. They are generated from the code and from tables that are tested against it.

| page | what it contains |
|---|---|
| [Record types](records.md) | all record types, the types on the wire, the markers, and which coordinator reads what |
| [Records of offsets](records-offsets.md) | every field of types 0 and 1 |
| [The record of a classic group](records-classic.md) | every field of type 2, and the bytes inside a member |
| [Records of consumer groups](records-consumer.md) | every field of types 3 to 8 and 16 |
| [Records of share groups](records-share.md) | every field of types 9 to 15 |
| [Records of streams groups](records-streams.md) | every field of types 17 and 19 to 23 |
| [States of groups](groups.md) | every state and every transition, with its trigger and its records |
| [Errors](errors.md) | every error of the coordinator: which request answers it, when, and what to do |
| [Rules of the log cleaner](cleaner.md) | every rule, with its place in Kafka's code |
| [What a coordinator does, by event](events.md) | for each event: the memory, the log, and what clients get |
| [What a tombstone deletes](tombstones.md) | what both coordinators have after each kind of tombstone |
| [Consumer groups at work](protocols.md) | changing a service, the order of tombstones, a bug that leaves them out |
| [Glossary](glossary.md) | the terms, each with the lesson that teaches it |
| [Cheat sheet](cheat-sheet.md) | the most important facts on one page |

If something is broken now, begin with the [operator's runbook](../operator.md). [Releases of Kafka](../releases.md)
lists the records that fail a load, and [what Kafka's tools print](../releases.md#what-kafkas-tools-print).
"""


def write_pages() -> dict[str, str]:
    """Return the text of every file of the handbook by its name."""
    pages = {"index.md": INDEX}
    for module in (records, groups, errors, cleaner, events, tombstones, protocols, glossary, cheat_sheet):
        pages |= module.write_pages()
    return {name: _add_note(name, text) for name, text in pages.items()}


def _add_note(name: str, text: str) -> str:
    """Add the note to a page. In HTML, nothing may come before the document type."""
    return f"{text}{NOTE}\n" if name.endswith(".html") else f"{NOTE}\n\n{text}"


def main() -> None:
    try:
        pages = write_pages()
    except InvalidFacts as error:
        sys.exit(str(error))
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print((FOLDER / name).relative_to(FOLDER.parents[1]))


if __name__ == "__main__":
    main()
