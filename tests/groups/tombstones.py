"""The logs of the rows of docs/facts/tombstones.yaml, and what a coordinator has of their group."""

import kafkagroups as kg
from tools.handbook_pages.facts import read_tombstones

FACTS = read_tombstones()
ROWS = {row.log: row for table in FACTS.tables for row in table.rows}
STEPS = {
    "C": ("C", 0),
    "X": ("X", 1, 0),
    "Y": ("X", 1, 1),
    "M": ("M", 1),
    "M2": ("M", 2),
    "A": ("A", 1),
    "A2": ("A", 2),
    "T": ("T", 0),
    "U": ("U", 1, 0),
    "U2": ("U", 2, 0),
    "E": ("E",),
    "D": ("D",),
    "W": ("W", 1),
    "K": ("K",),
}
"""The step of small_logs.py of each word."""


def make_steps(log):
    return [STEPS[word] for word in log.split()]


def describe(has_group, committed=(), pending=(), hidden=(), fails=False):
    """Return what is left of a group in the words of the table, for example "no group, C hidden".

    `committed`, `pending` and `hidden` are the words of commits. `fails` says whether the load ends with an error.
    """
    parts = [
        "" if has_group else "no group",
        " and ".join(committed),
        f"{' and '.join(hidden)} hidden" if hidden else "",
        f"{' and '.join(pending)} pending" if pending else "",
        "load error" if fails else "",
    ]
    return ", ".join(filter(None, parts)) or "Empty group"


def load_remains(folder, coordinator, log):
    """Return what a coordinator loads of group g. The commit of step n has the offset 100 + n (small_logs.py)."""
    groups = kg.load(folder, coordinator)
    group = groups.get("g")
    holder = group or groups.orphans.get("g")
    words = {100 + number: word for number, word in enumerate(log.split())}
    committed = name_commits(words, holder.offsets.values()) if holder else []
    pending = name_commits(words, [it for each in holder.pending.values() for it in each.values()]) if holder else []
    return describe(
        group is not None,
        committed=committed if group else (),
        pending=pending,
        hidden=() if group else committed,
        fails=bool(groups.failed),
    )


def name_commits(words, offsets):
    return [words[each.offset] for each in sorted(offsets, key=lambda it: it.record_offset)]


def strip_hidden(remains):
    """Return the remains as a broker shows them: no request returns a hidden offset."""
    return ", ".join(part for part in remains.split(", ") if not part.endswith(" hidden"))
