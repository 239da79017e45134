"""Loading and compaction: what a coordinator answers before and after the log cleaner, on logs made of small steps.

Other tests compare the cleaner (tests/log/test_cleaner.py) and the loaders with Kafka. These tests check whether the
two fit together. In Kafka they do not always (the crafted logs have examples).
"""

import itertools
import os

import pytest
from hypothesis import given, settings, strategies as st

from tests.groups.compaction import differs

pytestmark = pytest.mark.slow
RANDOM_LOGS = 20_000 if os.environ.get("KG_PROFILE") == "long" else 300
REST = ("R",)
"""A batch of another group in the active segment, which the cleaner does not touch."""


def answers_that_differ(steps, rolls, coordinator, **cleaning):
    """Return what `differs` returns, without simple groups that hold nothing.

    Such a group is listed as Empty until the cleaner removes its last record.
    """
    found = differs(steps, rolls, coordinator, **cleaning)
    groups = {name: pair for name, pair in found.pop("groups", {}).items() if not holds_nothing(pair)}
    return found | ({"groups": groups} if groups else {})


def holds_nothing(pair):
    before, after = pair
    return after is None and (before["type"], before["state"], before["generation"]) == ("classic", "Empty", 0)


@st.composite
def logs_that_a_broker_writes(draw):
    """Plain and transactional commits, tombstones and group records outside of transactions, whole deletions."""
    partitions = st.integers(0, 2)
    producers = st.integers(1, 2)
    step = st.one_of(
        st.tuples(st.just("C"), partitions),
        st.tuples(st.just("X"), producers, partitions),
        st.tuples(st.just("T"), partitions),
        st.tuples(st.sampled_from("MA"), producers),
        st.tuples(st.sampled_from("GEKR")),
    )
    return draw(st.lists(step, min_size=1, max_size=12))


@pytest.mark.thorough
@settings(max_examples=RANDOM_LOGS)
@given(logs_that_a_broker_writes(), st.sets(st.integers(1, 12), max_size=4), st.integers(1, 3), st.data())
def test_the_new_coordinator_loads_the_same_offsets_from_a_cleaned_log(steps, rolls, passes, data):
    """Wherever it is rolled, whenever it is cleaned, and whatever is written afterwards."""
    cut = data.draw(st.integers(1, len(steps)))
    entries = data.draw(st.none() | st.integers(1, 4))
    assert (
        answers_that_differ(
            [*steps, REST], {*rolls, cut, len(steps)}, "new", passes=passes, cut=cut, map_entries=entries
        )
        == {}
    )
    assert answers_that_differ([*steps, REST], {*rolls, len(steps)}, "new", passes=passes) == {}


STEPS = [("C", 0), ("X", 1, 0), ("T", 0), ("U", 1, 0), ("M", 1), ("A", 1), ("G",), ("E",), ("D",), ("V", 1, 0)]


def counterexamples(coordinator, length, steps=STEPS):
    """All logs of so many steps that a coordinator answers otherwise when they were cleaned, by their letters."""
    return {
        "".join(step[0] for step in log): found
        for log in itertools.product(steps, repeat=length)
        if (found := differs([*log, REST], {length}, coordinator))
    }


def test_the_smallest_logs_that_the_new_coordinator_answers_otherwise_when_cleaned():
    """Two steps: found by trying every log of one and of two."""
    assert counterexamples("new", 1) == {}
    found = counterexamples("new", 2)
    assert {log: sorted(kinds) for log, kinds in found.items()} == NEW


NEW = {
    # A group tombstone that outlives what it hides: once it is cleaned, the offset is there again.
    "CD": ["groups", "offsets"],
    # An offset's tombstone, an aborted commit: the group that is left without anything is forgotten.
    "CT": ["groups"],
    "XA": ["groups"],
    # A producer id without a transaction: the new coordinator waits for a marker, the cleaner sees a plain record. What
    # only a producer that is no Kafka client would write.
    "CV": ["offsets"],
    "VC": ["pending"],
    "VM": ["offsets", "pending"],
    "VA": ["pending"],
    "VT": ["groups"],
    "VD": ["groups"],
}


@pytest.mark.thorough
def test_the_smallest_logs_that_the_classic_coordinator_answers_otherwise_when_cleaned():
    """Three steps: tombstone and pending commit pass each other by in memory, and meet in the cleaner."""
    assert counterexamples("classic", 1) == counterexamples("classic", 2) == {}
    found = counterexamples("classic", 3)
    assert {log: sorted(kinds) for log, kinds in found.items()} == CLASSIC


CLASSIC = {
    # a pending commit, a plain tombstone, the commit marker: resurrected, until the cleaner compared the keys
    "XTM": ["groups", "offsets"],
    # a tombstone inside a transaction takes only what that transaction had pending
    "CUM": ["groups", "offsets"],
    "VUM": ["groups", "offsets"],
}
