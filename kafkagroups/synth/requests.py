"""Who asks for what, in the order of time: requests of all groups, drawn by a seed. Request n comes at n ms."""

from __future__ import annotations

import numpy as np

from kafkagroups.synth.names import Array
from kafkagroups.synth.settings import WIDEST, Settings

COMMIT, NOTED, TXN = 0, 1, 2
"""Commits: plain, NOTED with a metadata string, TXN in a transaction; NOTED | TXN is both."""
TOMBSTONES, GENERATION, EMPTY, MODERN, COMMITTED, ABORTED, OPEN = range(4, 11)
"""Other batches. EMPTY is a generation without members; COMMITTED and ABORTED are markers, OPEN stands for none."""
REQUEST = np.dtype([("group", "i4"), ("start", "i4"), ("width", "i2"), ("what", "i1"), ("end", "i1")])
"""Whose, the first of its keys, records in the batch, which kind of batch, how its transaction ends (0: none)."""
_ROUND = 1 << 20
"""Requests that are drawn at once."""


def draw(settings: Settings) -> Array:
    """The REQUESTs of which `settings.records` records come."""
    s = settings
    random = np.random.default_rng(s.seed)
    busy = 1 / np.arange(1, s.groups + 1) ** s.skew  # with a skew of 1 the second group commits half as often
    busy /= busy.sum()
    transactional, modern = _some(s, 1, s.transactional), _some(s, 2, s.modern)
    dead, generation = _chances(s)
    hung = np.zeros(s.groups, bool)
    rounds, left = [np.empty(0, REQUEST)], s.records
    while left:
        drawn = np.zeros(min(_ROUND, -(-left // (s.widest if s.width else 1))), REQUEST)
        group = drawn["group"] = random.choice(s.groups, len(drawn), p=busy)
        chance = random.random(len(drawn))
        what = np.where(chance < dead, TOMBSTONES, np.where(chance < dead + generation, GENERATION, COMMIT))
        what[(what == GENERATION) & modern[group]] = MODERN
        if s.metadata:
            what[(what == COMMIT) & (random.random(len(what)) < s.metadata)] = NOTED
        drawn["what"] = what
        drawn["width"] = np.where((what == GENERATION) | (what == MODERN), 1, _widths(s, len(what), random))
        if s.width is None or s.widest < s.keys:
            drawn["start"] = random.integers(s.keys, size=len(what))
        if s.transactional:
            _transactions(s, drawn, transactional, hung, random)
        drawn = _cut(s, drawn, left)
        left -= int(sizes(s, drawn).sum())
        rounds.append(drawn)
    return np.concatenate(rounds)


def sizes(settings: Settings, requests: Array) -> Array:
    """How many records come of each request, its transaction's marker among them."""
    size: Array = requests["width"] + ((requests["end"] == COMMITTED) | (requests["end"] == ABORTED)).astype(np.int64)
    size[requests["what"] == MODERN] = settings.modern_records
    return size


def _some(settings: Settings, number: int, share: float) -> Array:
    """Which groups are of that share; `number` tells one draw from another."""
    order = np.random.default_rng([settings.seed, number]).permutation(settings.groups)
    return order < round(share * settings.groups)


def _chances(settings: Settings) -> tuple[float, float]:
    """The chances that a request writes tombstones, or a generation, that give these their shares of the records."""
    s = settings
    mean = s.widest if s.width else (1 + np.arange(5, WIDEST + 1).clip(max=s.keys).mean()) / 2
    commit = mean + s.transactional * (1 - s.hanging)
    group = 1 + s.modern * (s.modern_records - 1)
    dead, generation = s.tombstones / mean, s.generation_share / group
    records = commit / (1 - s.tombstones - s.generation_share + commit * (dead + generation))
    return float(dead * records), float(generation * records)


def _widths(settings: Settings, many: int, random: np.random.Generator) -> Array:
    if settings.width:
        return np.full(many, settings.widest)
    wide = random.integers(5, WIDEST + 1, many).clip(max=settings.keys)
    return np.where(random.random(many) < 0.5, 1, wide)


def _transactions(s: Settings, drawn: Array, transactional: Array, hung: Array, random: np.random.Generator) -> None:
    """Puts commits into transactions and says how they end. `hung` are the groups with an undecided one, noted here.

    Such a group writes no tombstones from then on: the coordinators differ in what these do to a pending offset.
    """
    group, what = drawn["group"], drawn["what"]
    own = np.flatnonzero((what <= NOTED) & transactional[group])
    what[own] |= TXN
    chance = random.random(len(own))
    drawn["end"][own] = np.where(chance < s.hanging, OPEN, np.where(chance < s.hanging + s.aborts, ABORTED, COMMITTED))
    since = np.where(hung, -1, len(drawn))
    hanging = np.flatnonzero(drawn["end"] == OPEN)
    np.minimum.at(since, group[hanging], hanging)
    what[(what == TOMBSTONES) & (np.arange(len(drawn)) > since[group])] = COMMIT
    hung[group[hanging]] = True


def _cut(settings: Settings, drawn: Array, left: int) -> Array:
    """The requests up to `left` records; the last ones are smaller than they were drawn."""
    ends = np.cumsum(sizes(settings, drawn))
    whole = int(np.searchsorted(ends, left, "right"))
    if whole == len(drawn):
        return drawn
    rest = left - int(ends[whole - 1] if whole else 0)
    widths = [settings.widest] * (rest // settings.widest) + [rest % settings.widest] * (rest % settings.widest > 0)
    last = np.repeat(drawn[whole : whole + 1], len(widths))
    last["width"], last["end"] = widths, 0
    last["what"] = np.where(last["what"] == TOMBSTONES, TOMBSTONES, COMMIT)
    return np.concatenate([drawn[:whole], last])
