"""The page about groups: every state and every transition."""

from __future__ import annotations

import inspect
import re
from enum import Enum

from handbook_pages.markdown import make_sentence, make_table, read_paragraphs, read_source
from kafkagroups.groups import modern_transitions, states
from kafkagroups.groups.modern_group import MEMBER_STATES, ModernState
from kafkagroups.groups.modern_transitions import CONVERSIONS, MEMBER_STATE_MEANINGS, MODERN_TRANSITIONS
from kafkagroups.groups.states import CLASSIC_TRANSITIONS, ClassicState

MODERN_TITLES = {"consumer": "Consumer groups", "share": "Share groups", "streams": "Streams groups"}
NO_GROUP = "(no group)"


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    parts = [
        "# States of groups",
        "A classic group has its state in the coordinator's memory. The state of all other groups is computed from "
        "their records. † marks a tombstone.",
        "## Classic groups",
        *read_paragraphs(states.__doc__)[1:],
        make_table(("state", "meaning"), list_states(ClassicState)),
        "### Transitions of classic groups",
        make_table(
            ("from", "to", "when", "records"),
            [
                (
                    each.before.value,
                    each.after.value,
                    make_sentence(each.trigger),
                    make_sentence(each.records) if each.records else "",
                )
                for each in CLASSIC_TRANSITIONS
            ],
        ),
        f"Source: {read_source(states.__doc__)}",
        "## Groups of the new protocols",
        *read_paragraphs(modern_transitions.__doc__)[1:],
        make_table(("state", "meaning"), list_states(ModernState)),
        "In the tables, *records* are the types of the records in the batch, in their order. *Seen* says whether a log "
        "of a real broker in our tests contains the transition.",
    ]
    for group_type, title in MODERN_TITLES.items():
        parts += [f"### {title}", _make_modern_table(group_type)]
    parts += [
        "### Changes of the type",
        "An Empty group can change its type. A classic group with members becomes a consumer group, and back, if "
        "group.consumer.migration.policy allows it. A share group never changes its type.",
        make_table(
            ("from", "to", "when", "records"),
            [(each.before, each.after, make_sentence(each.trigger), each.records) for each in CONVERSIONS],
        ),
        f"Source: {read_source(modern_transitions.__doc__)}",
        "## States of members",
        "The record of a member's current assignment (types 8 and 22) contains the state of the member as a number. In "
        "share groups (type 14), the number is always 0.",
        make_table(("group", "number", "state", "meaning"), _list_member_states()),
    ]
    return {"groups.md": "\n\n".join(parts) + "\n"}


def list_states(states_of_group: type[Enum]) -> list[tuple[str, str]]:
    """Return each state with its meaning. The meanings are paragraphs "NAME: meaning" of the docstring."""
    text = " ".join(inspect.cleandoc(states_of_group.__doc__ or "").split())
    names = "|".join(state.name for state in states_of_group)
    pieces = re.split(rf"\b({names}): ", text)
    meaning_by_name = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return [(str(state.value), make_sentence(meaning_by_name[state.name].strip())) for state in states_of_group]


def _make_modern_table(group_type: str) -> str:
    rows = [
        (
            NO_GROUP if each.before is None else each.before.value,
            NO_GROUP if each.after is None else each.after.value,
            make_sentence(each.trigger),
            each.records,
            "yes" if each.is_recorded else "no",
        )
        for each in MODERN_TRANSITIONS
        if each.type == group_type
    ]
    return make_table(("from", "to", "when", "records", "seen"), rows)


def _list_member_states() -> list[tuple[str, str, str, str]]:
    return [
        (group_type, str(number), name, MEMBER_STATE_MEANINGS[name])
        for group_type, names in MEMBER_STATES.items()
        for number, name in names.items()
    ]
