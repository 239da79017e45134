"""The page about groups: every state and every transition."""

from __future__ import annotations

import inspect
import re
from enum import Enum

from handbook_pages.facts import Transition, read_transitions
from handbook_pages.markdown import make_sentence, make_table, read_paragraphs, read_source
from kafkagroups.groups import group
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.modern_group import MEMBER_STATES, ModernState

MODERN_TITLES = {"consumer": "Consumer groups", "share": "Share groups", "streams": "Streams groups"}


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    facts = read_transitions()
    parts = [
        "# States of groups",
        "A classic group has its state in the coordinator's memory. The state of all other groups is computed from "
        "their records. † marks a tombstone.",
        "## Classic groups",
        *read_paragraphs(group.__doc__)[1:],
        make_table(("state", "meaning"), list_states(ClassicState)),
        "### Transitions of classic groups",
        make_table(
            ("from", "to", "when", "records"),
            [
                (*each.change, make_sentence(each.when), make_sentence(each.records) if each.records else "")
                for each in facts.transitions["classic"]
            ],
        ),
        f"Source: {read_source(group.__doc__)}",
        "## Groups of the new protocols",
        *read_paragraphs(facts.about),
        make_table(("state", "meaning"), list_states(ModernState)),
        "In the tables, *records* are the types of the records in the batch, in their order. *Seen* says whether a log "
        "of a real broker in our tests contains the transition.",
    ]
    for group_type, title in MODERN_TITLES.items():
        parts += [f"### {title}", _make_modern_table(facts.transitions[group_type])]
    parts += [
        "### Changes of the type",
        "An Empty group can change its type. A classic group with members becomes a consumer group, and back, if "
        "group.consumer.migration.policy allows it. A share group never changes its type.",
        make_table(
            ("from", "to", "when", "records"),
            [(*each.change, make_sentence(each.when), each.records) for each in facts.conversions],
        ),
        f"Source: {facts.source}",
        "## States of members",
        "The record of a member's current assignment (types 8 and 22) contains the state of the member as a number. In "
        "share groups (type 14), the number is always 0.",
        make_table(("group", "number", "state", "meaning"), _list_member_states(facts.member_states)),
    ]
    return {"groups.md": "\n\n".join(parts) + "\n"}


def list_states(states_of_group: type[Enum]) -> list[tuple[str, str]]:
    """Return each state with its meaning. The meanings are paragraphs "NAME: meaning" of the docstring."""
    text = " ".join(inspect.cleandoc(states_of_group.__doc__ or "").split())
    names = "|".join(state.name for state in states_of_group)
    pieces = re.split(rf"\b({names}): ", text)
    meaning_by_name = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return [(str(state.value), make_sentence(meaning_by_name[state.name].strip())) for state in states_of_group]


def _make_modern_table(transitions: list[Transition]) -> str:
    rows = [
        (*each.change, make_sentence(each.when), each.records, "yes" if each.seen else "no") for each in transitions
    ]
    return make_table(("from", "to", "when", "records", "seen"), rows)


def _list_member_states(meanings: dict[str, str]) -> list[tuple[str, str, str, str]]:
    return [
        (group_type, str(number), name, meanings[name])
        for group_type, names in MEMBER_STATES.items()
        for number, name in names.items()
    ]
