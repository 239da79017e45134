"""Random requests of all groups in order of time, drawn from a seed. Request n comes at n ms."""

from __future__ import annotations

import numpy as np

from kafkagroups.synth.names import Array
from kafkagroups.synth.settings import WIDEST, Settings

COMMIT = 0
NOTED = 1
TXN = 2
"""Kinds of commits. NOTED has a metadata string, TXN is in a transaction, NOTED | TXN is both."""
TOMBSTONES, GENERATION, EMPTY, MODERN, COMMITTED, ABORTED, OPEN = range(4, 11)
"""Other kinds of batches.

EMPTY is a generation without members. MODERN is a new epoch of a group with the new consumer protocol. COMMITTED and
ABORTED are markers; OPEN means that the transaction has no marker."""
REQUEST = np.dtype([("group", "i4"), ("start", "i4"), ("width", "i2"), ("what", "i1"), ("end", "i1")])
"""One request: its group, the first of its keys, the number of its offsets, the kind of its batch, and how its
transaction ends (0: there is no transaction)."""
_ROUND = 1 << 20
"""How many requests are drawn in one step."""


def draw_requests(settings: Settings) -> Array:
    """Return the REQUESTs that give `settings.records` records."""
    s = settings
    random = np.random.default_rng(s.seed)
    busy = 1 / np.arange(1, s.groups + 1) ** s.skew  # With a skew of 1, the second group commits half as often.
    busy /= busy.sum()
    transactional = _choose_fraction(s, 1, s.transactional)
    modern = _choose_fraction(s, 2, s.modern)
    tombstone_chance, generation_chance = _calculate_chances(s)
    hanging = np.zeros(s.groups, bool)
    rounds = [np.empty(0, REQUEST)]
    left = s.records
    while left:
        drawn = np.zeros(min(_ROUND, -(-left // (s.widest if s.width else 1))), REQUEST)
        group = random.choice(s.groups, len(drawn), p=busy)
        drawn["group"] = group
        chance = random.random(len(drawn))
        what = np.where(chance < tombstone_chance + generation_chance, GENERATION, COMMIT)
        what[chance < tombstone_chance] = TOMBSTONES
        what[(what == GENERATION) & modern[group]] = MODERN
        if s.metadata:
            what[(what == COMMIT) & (random.random(len(what)) < s.metadata)] = NOTED
        drawn["what"] = what
        drawn["width"] = np.where((what == GENERATION) | (what == MODERN), 1, _draw_widths(s, len(what), random))
        if s.width is None or s.widest < s.keys:
            drawn["start"] = random.integers(s.keys, size=len(what))
        if s.transactional:
            _add_transactions(s, drawn, transactional, hanging, random)
        drawn = _cut(s, drawn, left)
        left -= int(count_records(s, drawn).sum())
        rounds.append(drawn)
    return np.concatenate(rounds)


def count_records(settings: Settings, requests: Array) -> Array:
    """Return the number of records of each request, with its transaction's marker."""
    has_marker = (requests["end"] == COMMITTED) | (requests["end"] == ABORTED)
    count: Array = requests["width"] + has_marker.astype(np.int64)
    count[requests["what"] == MODERN] = settings.modern_records
    return count


def _choose_fraction(settings: Settings, number: int, fraction: float) -> Array:
    """Return which groups belong to a random fraction of all groups; `number` makes two choices independent."""
    order = np.random.default_rng([settings.seed, number]).permutation(settings.groups)
    return order < round(fraction * settings.groups)


def _calculate_chances(settings: Settings) -> tuple[float, float]:
    """Return the chances that a request writes tombstones, and that it writes a generation.

    They follow from the fractions of the records that the settings give to both.
    """
    s = settings
    mean_width = s.widest if s.width else (1 + np.arange(5, WIDEST + 1).clip(max=s.keys).mean()) / 2
    commit_records = mean_width + s.transactional * (1 - s.hanging)
    generation_records = 1 + s.modern * (s.modern_records - 1)
    tombstones = s.tombstones / mean_width
    generations = s.generation_fraction / generation_records
    commits = 1 - s.tombstones - s.generation_fraction
    mean_records = commit_records / (commits + commit_records * (tombstones + generations))
    return float(tombstones * mean_records), float(generations * mean_records)


def _draw_widths(settings: Settings, many: int, random: np.random.Generator) -> Array:
    if settings.width:
        return np.full(many, settings.widest)
    wide = random.integers(5, WIDEST + 1, many).clip(max=settings.keys)
    return np.where(random.random(many) < 0.5, 1, wide)


def _add_transactions(
    s: Settings, drawn: Array, transactional: Array, hanging: Array, random: np.random.Generator
) -> None:
    """Put commits into transactions and draw how they end. Mark in `hanging` the groups with a hanging transaction.

    These groups write no tombstones after that, because the two coordinators treat a tombstone of a pending offset
    differently.
    """
    group = drawn["group"]
    what = drawn["what"]
    own = np.flatnonzero((what <= NOTED) & transactional[group])
    what[own] |= TXN
    chance = random.random(len(own))
    end = np.where(chance < s.hanging + s.aborts, ABORTED, COMMITTED)
    end[chance < s.hanging] = OPEN
    drawn["end"][own] = end
    hangs_since = np.where(hanging, -1, len(drawn))
    newly_hanging = np.flatnonzero(drawn["end"] == OPEN)
    np.minimum.at(hangs_since, group[newly_hanging], newly_hanging)
    what[(what == TOMBSTONES) & (np.arange(len(drawn)) > hangs_since[group])] = COMMIT
    hanging[group[newly_hanging]] = True


def _cut(settings: Settings, drawn: Array, left: int) -> Array:
    """Return the requests that give the first `left` records; the last requests become smaller."""
    ends = np.cumsum(count_records(settings, drawn))
    whole = int(np.searchsorted(ends, left, "right"))
    if whole == len(drawn):
        return drawn
    rest = left - int(ends[whole - 1] if whole else 0)
    widths = [settings.widest] * (rest // settings.widest) + [rest % settings.widest] * (rest % settings.widest > 0)
    last = np.repeat(drawn[whole : whole + 1], len(widths))
    last["width"] = widths
    last["end"] = 0
    last["what"] = np.where(last["what"] == TOMBSTONES, TOMBSTONES, COMMIT)
    return np.concatenate([drawn[:whole], last])
