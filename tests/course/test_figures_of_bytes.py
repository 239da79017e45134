"""The figures of bytes, next to `annotate` and the package's recovery. test_figures.py freezes their scenes."""

from functools import cache, partial
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import InvalidRecord, course
from tests.course.figures import make_figure

DATA = Path(__file__).parents[2] / "data" / "harbour" / "4.3.1"
FOLDER = DATA / "__consumer_offsets-37"
SEGMENT = (FOLDER / f"{0:020}.log").read_bytes()
KEY, VALUE = course.read_record(str(DATA / "__consumer_offsets-9"), 38)

record_ribbon = partial(make_figure, "byte-ribbon-record")
batch_ribbon = partial(make_figure, "byte-ribbon-batch")
overlay = partial(make_figure, "version-overlay")


@cache
def segment():
    return course.Segment(SEGMENT)


# Lessons 01 and 03, the ribbons of a record and of a batch.


def read_text(lines):
    """Return the text form as a dict of the last line of each name."""
    return dict(line.split(": ", 1) for line in lines)


def test_each_block_of_a_record_has_the_bytes_and_the_value_of_annotate():
    for number, span in enumerate(kg.annotate(KEY, VALUE)):
        text = read_text(record_ribbon().text(number, 0))
        data = {"key": KEY, "value": VALUE}[span.part][span.start : span.end]
        assert text["bytes"] == data.hex(" ")
        assert text["value"] == span.text
        assert text["meaning"] == span.meaning


def test_each_offered_change_is_read_as_decode_reads_it():
    for number, change in enumerate(record_ribbon().changes):
        parts = change.apply({"key": KEY, "value": VALUE})
        lines = record_ribbon().text(0, number + 1)
        try:
            kg.decode(parts["key"], parts["value"])
        except InvalidRecord as error:
            assert f"refused: {error.field}: {error.reason}" in lines
        else:
            assert any(line.startswith("now believed: ") for line in lines)


def test_a_tombstone_has_only_a_key():
    assert {span.part for span in course.RecordRibbon(KEY, None).spans} == {"key"}


def test_only_bytes_before_the_checksum_go_unnoticed():
    """The checksum covers all bytes from 21 on (DefaultRecordBatch). Length and magic are noticed in other ways."""
    unnoticed = set()
    for number, change in enumerate(batch_ribbon().changes):
        if not any(line.startswith("refused: ") for line in batch_ribbon().text(0, number + 1)):
            unnoticed.add(change.position)
    assert unnoticed == {7, 15}


# Lesson 01, the overlay of value versions: its commits are those that brokers of 1.0.1, 3.9.2 and 4.3.1 stored.

END = 8
"""The step of the figure at which a reader has read all fields of each value."""
READ = "reads it correctly ✓"
MISREAD = "no error, 3 wrong fields ✗"
REFUSED = "refuses it ✗"


@pytest.mark.parametrize(
    ("reader", "results"),
    [
        pytest.param(0, [READ, READ, READ], id="knows all versions"),
        pytest.param(1, [READ, MISREAD, MISREAD], id="expects version 1"),
        # Its own code says "Unknown offset schema version 4". Version 3 is new in 2.1.
        pytest.param(4, [READ, REFUSED, REFUSED], id="Kafka 1.0.1"),
        pytest.param(5, [READ, READ, REFUSED], id="Kafka 2.8.2: Unknown offset message version: 4"),
    ],
)
def test_what_a_reader_makes_of_the_versions_1_3_and_4(reader, results):
    lines = dict(line.split(": ", 1) for line in overlay().text(reader, END))
    assert [lines[f"version {version}"] for version in (1, 3, 4)] == results


# Lesson 03, a segment: compared with the package's recovery of the same file.

CHECKED = 1
RECOVERED = 2


def list_results(lines):
    """Return the words at the right of each batch."""
    return [line.partition(": ")[2] for line in lines if line.startswith("offset")]


def test_a_leader_epoch_goes_unnoticed_and_a_length_does_not():
    """The checksum covers a batch from byte 21 on. The exercise of the lesson asks for this difference."""
    start = segment().batches[3].position
    numbers = {broken.position - start: number for number, broken in enumerate(segment().choices, start=1)}
    assert list_results(segment().text(numbers[15], RECOVERED)) == ["kept ✓"] * 3 + ["kept broken"] + ["kept ✓"] * 9
    assert list_results(segment().text(numbers[7], RECOVERED))[3] == "now offset 2"
    for noticed in (11, 16, 20):
        expected = ["fits ✓"] * 3 + ["wrong ✗"] + ["not checked"] * 9
        assert list_results(segment().text(numbers[noticed], CHECKED)) == expected


def test_a_typed_byte():
    content = segment().compute_content("2536=01")
    results = list_results(content.scenes[0, RECOVERED].text)
    assert results == ["kept ✓"] * 12 + ["cut away ✗"]
    assert list(content.scenes[1, 0].text) == list(segment().text(0, 0))
