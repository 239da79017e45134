"""The fast readers of plain messages read the same values as the general readers, or leave the bytes to them."""

import pytest

import kafkagroups as kg
from kafkagroups.records.fields import list_fields
from kafkagroups.records.serde import decode_key
from tests.captured import rows

DIALECTS = (kg.dialect(), kg.dialect("classic"), kg.dialect("classic", "0.8.2.2"))


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def changed(value):
    """Yield a value, each of its beginnings, and the value with each byte changed in two ways."""
    yield value
    for end in range(2, len(value)):
        yield value[:end]
    for place in range(2, len(value)):
        for byte in (0, 0xFF):
            yield value[:place] + bytes([byte]) + value[place + 1 :]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_fast_readers_of_offsets_agree_with_decode(dialect):
    """For captured values and for damaged ones, a fast reader returns the fields that `decode` returns, or None."""
    read_count = 0
    for row in rows("records", "errors.jsonl"):
        key = unhex(row["key_hex"])
        value = unhex(row["value_hex"])
        if key is None or value is None or key[:2] not in (b"\0\0", b"\0\1"):
            continue
        try:
            readers = decode_key(key, dialect).readers
        except kg.InvalidRecord:
            continue
        for data in changed(value):
            read_fields = readers.read_offset_fields.get(data[:2]) if readers else None
            fields = read_fields(data, 2)[0] if read_fields else None
            if fields is not None:
                assert fields == list_fields(kg.decode(key, data, dialect).value)
                read_count += 1
    assert read_count > 100
