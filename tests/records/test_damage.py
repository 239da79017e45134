"""Every vector, cut at every byte and with every byte changed: a record or InvalidRecord, and no deviation is missed.

The fast profile changes every byte of the shortest vector of each file. It changes some bytes of the other vectors, at
different places in each. The long profile changes every byte of every vector.
"""

import os

import pytest

import kafkagroups as kg
from tests.captured import captured, rows
from tests.records.judge import judge

VECTORS = sorted(path.name for path in (captured("vectors") / "vectors").glob("*.jsonl"))
LONG = os.environ.get("KG_PROFILE") == "long"
FLIPS = (0x01, 0x80, 0xFF)
EVERY = 53
"""The fast profile changes every 53rd byte. The number is a prime, so that it meets every field."""


def vectors(name):
    for row in rows("vectors", f"vectors/{name}"):
        yield bytes.fromhex(row["key_hex"]), None if row["value_hex"] is None else bytes.fromhex(row["value_hex"])


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_cut_short_is_refused(name):
    """Every proper prefix of a key or a value lacks a field, which the error names."""
    for key, value in vectors(name):
        for cut in cuts(key):
            refused("key", key[:cut], value)
        for cut in cuts(value or b""):
            refused("value", key, value[:cut])


def cuts(data):
    """Return every length below that of `data`. The fast profile leaves out the middle of long data."""
    return [cut for cut in range(len(data)) if LONG or not 400 < cut < len(data) - 100]


def refused(part, key, value):
    with pytest.raises(kg.InvalidRecord) as caught:
        kg.decode(key, value)
    assert caught.value.field.startswith(part) and caught.value.reason


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_with_a_changed_byte_is_refused_or_read_and_written_back(name):
    shortest = min(vectors(name), key=lambda pair: len(pair[1] or pair[0]))
    for number, (key, value) in enumerate(vectors(name)):
        step = 1 if LONG or (key, value) == shortest else EVERY
        for flip in FLIPS:
            for place in range((number + flip) % step, len(key), step):
                judge(changed(key, place, flip), value)
            for place in range((number + flip) % step, min(len(value or b""), 10**6 if LONG else 600), step):
                judge(key, changed(value, place, flip))


def changed(data, place, flip):
    return data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]
