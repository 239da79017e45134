"""Extreme lengths, counts and varints: they are refused immediately, without using much memory.

Every length and varint of a sample of every type and version is replaced, one at a time. Kafka refuses a count that is
larger than the number of bytes left. Every element has at least one byte. So a reader never makes more elements than
there are bytes.
"""

import tracemalloc

import pytest

import kafkagroups as kg
from tests.handmade import (
    ConsumerProtocolSubscription,
    VersionedMessage,
    encode_end_transaction_marker,
    encode_versioned,
)
from tests.records.messages import NEWEST, readable, sample

MOST_BYTES = 32 * 1024
"""A sample has less than 200 bytes. Its record, or an error and its traceback, needed at most 5 kB. A list of two
billion elements would need 16 GB. A list of 32767 elements, the most of an int16, would need 256 kB."""
ENDLESS = ["ffffffffff01", "808080808000", "ff" * 300]
"""Varints of more than five bytes."""
EXTREMES = {
    "int16 length": ["ffff", "fffe", "8000", "7fff"],
    "int32 length": ["ffffffff", "fffffffe", "80000000", "7fffffff", "000f4240"],
    "uvarint": ["ffffffff07", "8080808008", "ffffffff0f", "ffffffff7f", "8080808070", "c0843d", *ENDLESS],
}
"""-1, -2, the least, the most, a million. For varints: 2^31 - 1, 2^31, 2^32 - 1, and bits above the 32nd."""
SAMPLES = [
    pytest.param(*sample(kind, cls, version, NEWEST), id=f"{kind.id}-v{version}")
    for kind, cls, version in readable(NEWEST)
]


def cases(key, value):
    """Yield (path, whether it must be refused there, key, value) for every extreme of every length and varint."""
    for span in kg.annotate(key, value):
        path = f"{span.part}.{span.field}"
        extremes = EXTREMES.get("uvarint" if span.type.startswith("uvarint") else span.type, [])
        if span.type == "uvarint, uvarint":  # the number and the size of a tag, here of one byte each
            known = "tag 99" not in path  # then its size is not looked at
            path = path.rpartition(".")[0] + ".tagged fields"
            edits = [(0, 1, text, text in ENDLESS) for text in EXTREMES["uvarint"]]
            edits += [
                (1, 2, text, text in ENDLESS or (not known and number(text) != 0)) for text in EXTREMES["uvarint"]
            ]
        else:
            edits = [(0, span.end - span.start, text, is_too_much(span, text)) for text in extremes]
        for start, end, text, refused in edits:
            parts = {"key": key, "value": value}
            data = parts[span.part]
            data = data[: span.start + start] + bytes.fromhex(text) + data[span.start + end :]
            yield path, refused, *(parts | {span.part: data}).values()


def is_too_much(span, text):
    """Whether these bytes are a length above the rest of the data, or not a varint at all."""
    if not span.type.startswith("uvarint"):
        return int.from_bytes(bytes.fromhex(text), "big", signed=True) > 0
    if text in ENDLESS:
        return True
    if span.type == "uvarint length":
        return 0 < (number(text) - 1) % 2**32 < 2**31
    return span.field.endswith("tagged fields") and 0 < number(text) < 2**31  # else the presence of a struct


def number(text):
    """The 32 bits of a varint."""
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(bytes.fromhex(text))) % 2**32


@pytest.mark.parametrize(("key", "value"), SAMPLES)
def test_a_length_above_the_rest_of_the_data_is_refused_at_its_field(key, value):
    """A length below 0 is null, or no tags. If null is not possible, it is refused, too."""
    kg.decode(key, value)
    refusals = 0
    for path, refused, odd_key, odd_value in cases(key, value):
        record, error, peak = measured(kg.decode, odd_key, odd_value)
        assert peak < MOST_BYTES, path
        if refused:
            refusals += 1
            inside = path.endswith("tagged fields")  # too many tags: the bytes end in one of them
            assert error and (error.field == path or (inside and error.field.startswith(path[:-13]))), path
        elif record:
            assert kg.deviations(odd_key, odd_value) or kg.encode(record) == (odd_key, odd_value)
    assert refusals >= 1


def measured(read, *args):
    """Return what was read, or the error, and the most memory that was used."""
    tracemalloc.start()
    try:
        return read(*args), None, tracemalloc.get_traced_memory()[1]
    except kg.InvalidRecord as error:
        assert error.reason
        return None, error, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [-1, -(2**15), 2**15])
def test_a_subscription_with_a_version_that_no_reader_accepts(version):
    """A writer refuses the version with UsageError: it is negative, or it is no int16."""
    with pytest.raises(kg.UsageError, match=r"expected a version of 0 or above|expected an int16"):
        encode_versioned(VersionedMessage(version, ConsumerProtocolSubscription(topics=("t",))))


@pytest.mark.parametrize("epoch", [-(2**31) - 1, 2**31, None])
def test_a_marker_with_an_epoch_that_is_no_int32(epoch):
    """A writer refuses the epoch with UsageError."""
    with pytest.raises(kg.UsageError, match="expected an int32"):
        encode_end_transaction_marker(epoch)
