"""The logs of the rows of kafkagroups/groups/tombstones.py, and what a coordinator has of their group."""

import kafkagroups as kg
from kafkagroups.groups.tombstones import TOMBSTONE_TABLES, Remains

ROWS = {row.log: row for table in TOMBSTONE_TABLES for row in table.rows}
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


def read_remains(groups, name, words):
    """Return what loaded groups have of a group. `words` gives the word of a commit by its offset."""
    group = groups.get(name)
    orphan = groups.orphans.get(name)
    holder = group or orphan
    committed = join_words(words, holder.offsets.values()) if holder else ""
    pending = (
        join_words(words, [it for offsets in holder.pending.values() for it in offsets.values()]) if holder else ""
    )
    return Remains(
        has_group=group is not None,
        committed=committed if group else "",
        pending=pending,
        hidden="" if group else committed,
        fails=bool(groups.failed),
    )


def join_words(words, offsets):
    return " ".join(words[each.offset] for each in sorted(offsets, key=lambda it: it.record_offset))


def load_remains(folder, coordinator, log):
    """Return what a coordinator loads of group g. The commit of step n has the offset 100 + n (small_logs.py)."""
    words = {100 + number: word for number, word in enumerate(log.split())}
    return read_remains(kg.load(folder, coordinator), "g", words)


def strip_hidden(remains):
    """Return the remains as a broker shows them: no request returns a hidden offset."""
    return remains._replace(hidden="")
