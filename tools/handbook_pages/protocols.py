"""The page about consumer groups at work: a change of the protocol, and the order of tombstones."""

from __future__ import annotations

from handbook_pages.facts import read_protocols
from handbook_pages.markdown import read_paragraphs


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    facts = read_protocols()
    parts = ["# Consumer groups at work", *read_paragraphs(facts.about)]
    for section in facts.sections:
        parts += [f"## {section.title}", section.text.strip()]
    parts.append(f"Source: {facts.source}")
    return {"protocols.md": "\n\n".join(parts) + "\n"}
