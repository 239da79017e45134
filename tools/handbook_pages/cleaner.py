"""The page about the log cleaner: every rule with its source."""

from __future__ import annotations

from handbook_pages.facts import read_cleaner_rules
from handbook_pages.markdown import make_table, read_paragraphs
from kafkagroups.log import cleaner


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    simplifications = [each for each in read_paragraphs(cleaner.__doc__) if each.startswith("Simpler than Kafka")]
    facts = read_cleaner_rules()
    parts = ["# Rules of the log cleaner", *read_paragraphs(facts.about)]
    for subject, rules in facts.rules.items():
        parts.append(f"## {subject}")
        rows = [(rule.rule, rule.kafka, f"`{rule.code}`") for rule in rules]
        parts.append(make_table(("rule", "Kafka", "this package"), rows))
    parts += ["## What is simpler here", *simplifications]
    return {"cleaner.md": "\n\n".join(parts) + "\n"}
