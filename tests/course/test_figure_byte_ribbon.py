"""The ribbons of a record and of a batch, compared with `annotate`, captured records and captured broker batches."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import InvalidRecord, course
from kafkagroups.course import BatchRibbon, RecordRibbon

DATA = Path(__file__).parents[2] / "data" / "harbour" / "4.3.1"
SEGMENT = (DATA / "__consumer_offsets-37" / "00000000000000000000.log").read_bytes()
KEY, VALUE = course.read_record(str(DATA / "__consumer_offsets-9"), 38)
COMMIT_POSITION = 406


@pytest.fixture(scope="module")
def record():
    return RecordRibbon(KEY, VALUE)


@pytest.fixture(scope="module")
def batch():
    return BatchRibbon(SEGMENT, COMMIT_POSITION)


def read_text(lines):
    """Return the text form as a dict of the last line of each name."""
    return dict(line.split(": ", 1) for line in lines)


def find_scene(figure, change):
    """Return the number of the offered change with this beginning."""
    options = figure.content.controls[1].options
    return next(number for number, option in enumerate(options) if option.startswith(change))


def test_each_block_of_a_record_has_the_bytes_and_the_value_of_annotate(record):
    for number, span in enumerate(kg.annotate(KEY, VALUE)):
        text = read_text(record.text(number, 0))
        data = {"key": KEY, "value": VALUE}[span.part][span.start : span.end]
        assert text["bytes"] == data.hex(" ")
        assert text["value"] == span.text
        assert text["meaning"] == span.meaning


def test_the_offset_in_the_record_is_the_one_that_kafkas_own_tool_prints(record):
    """dump.txt is the output of Kafka's DumpLogSegments for the logs of the 4.3.1 broker."""
    lines = (DATA / "dump.txt").read_text().replace(" ", "").splitlines()
    [printed] = [line for line in lines if '"group":"billing"' in line and '"offset":35' in line and "orders" in line]
    assert '"partition":0' in printed
    assert '"metadata":"till1"' in printed
    texts = [read_text(record.text(number, 0)) for number in range(len(record.spans))]
    assert [text["value"] for text in texts if text["field"] == "offset"] == ["35"]


def test_a_reader_believes_another_offset(record):
    """Byte 9 of the value is the last byte of the offset, hex 23. One more is 36."""
    lines = record.text(0, find_scene(record, "value byte 9: 23 becomes 24"))
    assert "now believed: offset: 35 → 36" in lines


def test_a_reader_refuses_the_version_that_it_does_not_have(record):
    lines = record.text(0, find_scene(record, "value byte 1: 04 becomes 05"))
    with pytest.raises(InvalidRecord) as error:
        kg.decode(KEY, b"\x00\x05" + VALUE[2:])
    assert f"refused: value.version: {error.value.reason}" in lines


def test_each_offered_change_is_read_as_decode_reads_it(record):
    for number, change in enumerate(record.changes):
        parts = change.apply({"key": KEY, "value": VALUE})
        lines = record.text(0, number + 1)
        try:
            kg.decode(parts["key"], parts["value"])
        except InvalidRecord as error:
            assert f"refused: {error.field}: {error.reason}" in lines
        else:
            assert any(line.startswith("now believed: ") for line in lines)


def test_a_tombstone_has_only_a_key():
    figure = RecordRibbon(KEY, None)
    assert {span.part for span in figure.spans} == {"key"}


def test_the_batch_is_the_one_that_the_broker_wrote(batch):
    """acts.json names the offsets that the 4.3.1 broker wrote for the first commit of `promo`."""
    wrote = [
        range_
        for step in json.loads((DATA / "acts.json").read_text())
        for range_ in step.get("wrote", [])
        if range_["partition"] == 37
    ]
    assert any(range_["first"] <= 2 <= range_["last"] for range_ in wrote)
    assert read_text(batch.text(0, 0))["value"] == "2"


def test_only_bytes_before_the_checksum_go_unnoticed(batch):
    """The checksum covers all bytes from 21 on (DefaultRecordBatch). Length and magic are noticed in other ways."""
    unnoticed = set()
    for number, change in enumerate(batch.changes):
        if not any(line.startswith("refused: ") for line in batch.text(0, number + 1)):
            unnoticed.add(change.position)
    assert unnoticed == {7, 15}
