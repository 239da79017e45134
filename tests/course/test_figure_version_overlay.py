"""The overlay of value versions. Its commits are those that brokers of 1.0.1, 3.9.2 and 4.3.1 stored."""

from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import UsageError, course
from kafkagroups.course import VersionOverlay

DATA = Path(__file__).parents[2] / "data" / "harbour"
RECORDS = [
    course.read_record(str(DATA / kafka / "__consumer_offsets-9"), offset)
    for kafka, offset in [("1.0.1", 37), ("3.9.2", 37), ("4.3.1", 38)]
]
KNOWS, EXPECTS_1, EXPECTS_3, EXPECTS_4, KAFKA_1_0_1, KAFKA_2_8_2 = range(1, 7)


@pytest.fixture(scope="module")
def figure():
    return VersionOverlay(*RECORDS)


def read_results(figure, reader):
    """Return what the reader does with the versions 1, 3 and 4."""
    lines = dict(line.split(": ", 1) for line in figure.text(reader))
    return [lines[f"version {version}"] for version in (1, 3, 4)]


def test_the_records_are_the_same_commit():
    records = [kg.decode(key, value) for key, value in RECORDS]
    assert [record.value_version for record in records] == [1, 3, 4]
    assert {(record.key, record.value.offset, record.value.metadata) for record in records} == {
        (records[0].key, 35, "till 1")
    }


def test_a_reader_of_all_versions_reads_each_correctly(figure):
    assert read_results(figure, KNOWS) == ["reads it correctly ✓"] * 3


def test_a_reader_of_version_1_misreads_the_newer_versions_without_an_error(figure):
    assert read_results(figure, EXPECTS_1) == [
        "reads it correctly ✓",
        "no error, 3 wrong fields ✗",
        "no error, 3 wrong fields ✗",
    ]


def test_the_reader_of_version_3_fails_as_the_lesson_says(figure):
    """The length byte 07 and the letter t are one number: 0x0774 is 1908."""
    assert "version 4 refused: expected a string of length 1908, found 32 more bytes" in figure.text(EXPECTS_3)


@pytest.mark.parametrize(
    ("reader", "refused"),
    [(KAFKA_1_0_1, [False, True, True]), (KAFKA_2_8_2, [False, False, True])],
)
def test_old_brokers_refuse_what_they_do_not_know(figure, reader, refused):
    """Kafka's own code refuses these versions.

    Version 4: 1.0.1 says "Unknown offset schema version 4" and 2.8.2 "Unknown offset message version: 4". Version 3 is
    new in 2.1.
    """
    assert [result == "refuses it ✗" for result in read_results(figure, reader)] == refused


def test_another_leader_epoch(figure):
    """With the epoch -1, a reader of version 1 finds the length -1, which means null. Metadata cannot be null."""
    content = figure.compute_content("-1")
    lines = content.scenes[(EXPECTS_1,)].text
    assert "version 3: refuses it ✗" in lines
    assert "version 4: refuses it ✗" in lines
    assert "version 3 leaderEpoch: -1" in content.scenes[(KNOWS,)].text


@pytest.mark.parametrize("typed", ["", "-2", "zero", "2147483648"])
def test_a_leader_epoch_that_makes_no_sense(figure, typed):
    with pytest.raises(UsageError, match="expected a leader epoch from -1"):
        figure.compute_content(typed)
