"""Reading behind damaged bytes: nothing that is readable is lost, and every byte that is skipped is named.

The logs are captured segments. Their batches before the damage was made are the expected batches.
"""

from functools import cache

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

from tests.captured import captured
from tests.handmade import log_of_buffers, read_batches

LOGS = {
    "magic 2": "runs/1.0.1-txn/log/__consumer_offsets-1/00000000000000000000.log",
    "gzip": "runs/1.0.1-gzip/log/__consumer_offsets-2/00000000000000000000.log",
    "magic 1": "runs/0.10.2.2-basic/log/__consumer_offsets-2/00000000000000000000.log",
    "magic 0": "runs/0.8.2.2-gzip/log/__consumer_offsets-2/00000000000000000000.log",
}


@cache
def read(name):
    data = (captured("runs") / LOGS[name]).read_bytes()
    return data, list(read_batches(data))


def read_past_damage(*segments):
    """Return the offsets of the batches that a reader finds in segments, and the log."""
    names = [f"{number:020}.log" for number, _ in segments]
    log = log_of_buffers(dict(zip(names, [data for _, data in segments], strict=True)), 1).skip_damage()
    return [(batch.base_offset, batch.last_offset) for batch in log], log


def offsets_of(batches):
    return [(batch.base_offset, batch.last_offset) for batch in batches]


@pytest.mark.parametrize("name", LOGS)
@given(data=st.data())
def test_every_batch_without_a_damaged_byte_is_read(name, data):
    """A byte under the checksum is flipped in some batches: exactly the other batches are read."""
    original, batches = read(name)
    broken = data.draw(st.sets(st.integers(0, len(batches) - 1)))
    damaged = bytearray(original)
    for index in broken:
        batch = batches[index]
        first_covered = 21 if batch.magic == 2 else 16
        place = data.draw(st.integers(first_covered, batch.size - 1))
        damaged[batch.position + place] ^= data.draw(st.integers(1, 255))
    found, log = read_past_damage((0, bytes(damaged)))
    assert found == offsets_of(batch for index, batch in enumerate(batches) if index not in broken)
    skipped = sum(gap.bytes for gap in log.notes.gaps)
    last_readable = max(set(range(len(batches))) - broken, default=-1)
    assert skipped == sum(batches[index].size for index in broken if index < last_readable)
    assert (log.damage is not None) == (last_readable < len(batches) - 1)


@pytest.mark.parametrize("name", LOGS)
@given(data=st.data())
def test_batches_behind_overwritten_bytes_are_found(name, data):
    """Random bytes replace a part of the segment and can destroy lengths: each whole batch after them is read."""
    original, batches = read(name)
    start = data.draw(st.integers(0, len(original) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=300))
    damaged = (original[:start] + noise + original[start + len(noise) :])[: len(original)]
    found, _ = read_past_damage((0, damaged))
    whole = []
    for batch in batches:
        before = original[batch.position : batch.position + batch.size]
        after = damaged[batch.position : batch.position + batch.size]
        # No checksum covers the offset and, in magic 2, the leader epoch.
        unguarded_end = 16 if batch.magic == 2 else 12
        if before[:12] == after[:12] and before[unguarded_end:] == after[unguarded_end:]:
            whole.append(batch)
        else:
            assume(before[:8] == after[:8])
    assert found == offsets_of(whole)


@pytest.mark.parametrize("name", LOGS)
@given(data=st.data())
def test_bytes_between_batches_are_one_gap(name, data):
    """Bytes that are no batch stand between two batches: the gap has exactly these bytes, and no offset is missing."""
    original, batches = read(name)
    assume(len(batches) > 1)
    index = data.draw(st.integers(1, len(batches) - 1))
    position = batches[index].position
    noise = b"\xff" * data.draw(st.integers(1, 200))
    found, log = read_past_damage((0, original[:position] + noise + original[position:]))
    assert found == offsets_of(batches)
    (gap,) = log.notes.gaps
    expected_offset = batches[index - 1].next_offset
    assert (gap.position, gap.bytes) == (position, len(noise))
    assert (gap.from_offset, gap.to_offset) == (expected_offset, batches[index].base_offset)
    assert log.damage is None


def test_a_torn_segment_does_not_hide_the_next_segment():
    """The first of two segments loses its last byte: its last batch is a gap, and the second segment is read."""
    original, batches = read("magic 2")
    middle = len(batches) // 2
    position = batches[middle].position
    first = (0, original[: position - 1])
    second = (batches[middle].base_offset, original[position:])
    found, log = read_past_damage(first, second)
    assert found == offsets_of(batches[: middle - 1] + batches[middle:])
    (gap,) = log.notes.gaps
    torn = batches[middle - 1]
    assert (gap.position, gap.bytes) == (torn.position, torn.size - 1)
    assert (gap.from_offset, gap.to_offset) == (torn.base_offset, batches[middle].base_offset)


def test_an_older_batch_is_not_read_again():
    """A copy of the first batches follows the damage: their offsets are not above the last one, so they are skipped."""
    original, batches = read("magic 2")
    second = batches[2].position
    found, log = read_past_damage((0, original + b"\xff" * 30 + original[:second]))
    assert found == offsets_of(batches)
    assert log.notes.gaps == []
    assert log.damage.position == len(original)
