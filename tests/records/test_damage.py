"""Every vector with every byte changed: a record or InvalidRecord, and no deviation is missed.

The fast profile changes every byte of the shortest vector of each file. It changes some bytes of the other vectors, at
different places in each. The long profile changes every byte of every vector.
"""

import os

import pytest

from tests.captured import captured, rows
from tests.records.judge import bytes_of, judge

VECTORS = sorted(path.name for path in (captured("vectors") / "vectors").glob("*.jsonl"))
LONG = os.environ.get("KG_PROFILE") == "long"
FLIPS = (0x01, 0x80, 0xFF)
EVERY = 53
"""The fast profile changes every 53rd byte. The number is a prime, so that it meets every field."""


def vectors(name):
    return map(bytes_of, rows("vectors", f"vectors/{name}"))


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
