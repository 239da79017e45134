"""The page about events: what a coordinator does, in its memory, in the log, and towards clients."""

from __future__ import annotations

import re
from pathlib import Path

from handbook_pages.facts import Event, Reaction, read_events
from handbook_pages.markdown import make_table, read_paragraphs

TESTS = Path(__file__).resolve().parents[2] / "tests"
NO_CONSUMER_GROUPS = Reaction("–", "–", "–", "", [])
NOT_SHOWN = Reaction("not recorded", "not recorded", "not recorded", "", [])


def write_pages() -> dict[str, str]:
    """Return the page by its name. Raise LookupError if a named test does not exist."""
    facts = read_events()
    parts = ["# What a coordinator does, by event", *read_paragraphs(facts.about)]
    for event in facts.events:
        reactions = (("Classic", event.classic), ("Kafka 4.x", event.new))
        sources = [_make_source(name, reaction) for name, reaction in reactions if reaction is not None]
        parts += [f"## {event.event}", _make_table(event), "\n".join(sources)]
    parts.append(f"Source: {facts.source}")
    return {"events.md": "\n\n".join(parts) + "\n"}


def _make_table(event: Event) -> str:
    reactions = [event.classic or NO_CONSUMER_GROUPS, event.new or NOT_SHOWN]
    rows = [
        ("memory", *(each.memory for each in reactions)),
        ("log", *(each.log for each in reactions)),
        ("clients", *(each.clients for each in reactions)),
    ]
    return make_table((" ", "classic (3.9)", "Kafka 4.x"), rows)


def _make_source(coordinator: str, reaction: Reaction) -> str:
    """Return a line: the place in Kafka's code, and the tests. A test's name is written as words, so it can wrap."""
    tests = []
    for name in reaction.tests:
        check_test(name)
        file, _, test = name.partition("::")
        words = test.removeprefix("test_").replace("_", " ")
        tests.append(f"`{file}` ({words})" if words else f"`{file}`")
    return f"- {coordinator}: {reaction.source}. Tests: {', '.join(tests)}."


def check_test(name: str) -> str:
    """Return the name of a test. Raise LookupError if there is no such test."""
    file, _, test = name.partition("::")
    path = TESTS / file
    if not path.is_file() or (test and not re.search(rf"^def {test}\(", path.read_text(encoding="utf-8"), re.M)):
        raise LookupError(f"{name}: there is no such test")
    return name
