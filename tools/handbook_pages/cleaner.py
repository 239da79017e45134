"""The page about the log cleaner: every rule with its source."""

from __future__ import annotations

from itertools import groupby

from handbook_pages.markdown import make_table, read_paragraphs
from kafkagroups.log import cleaner, cleaner_rules
from kafkagroups.log.cleaner_rules import CLEANER_RULES


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    simplifications = [each for each in read_paragraphs(cleaner.__doc__) if each.startswith("Simpler than Kafka")]
    parts = ["# Rules of the log cleaner", *read_paragraphs(cleaner_rules.__doc__)[1:]]
    parts.append(
        "The sources are classes of Kafka 4.3.1. The last column names the function in `kafkagroups/log/` that follows "
        "the rule. `kafkagroups compact` runs one pass."
    )
    for subject, rules in groupby(CLEANER_RULES, key=lambda rule: rule.subject):
        parts.append(f"## {subject}")
        rows = [(rule.rule, rule.source, f"`{rule.code}`") for rule in rules]
        parts.append(make_table(("rule", "Kafka", "this package"), rows))
    parts += ["## What is simpler here", *simplifications]
    return {"cleaner.md": "\n\n".join(parts) + "\n"}
