"""The figures of bytes: compared with `annotate`, with the package's recovery, and with records that brokers stored."""

from functools import cache, partial
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import InvalidRecord, course
from tests.course.figures import make_figure

HARBOUR = Path(__file__).parents[2] / "data" / "harbour"
DATA = HARBOUR / "4.3.1"
FOLDER = DATA / "__consumer_offsets-37"
SEGMENT = (FOLDER / f"{0:020}.log").read_bytes()
KEY, VALUE = course.read_record(str(DATA / "__consumer_offsets-9"), 38)

record_ribbon = partial(make_figure, "byte-ribbon-record")
overlay = partial(make_figure, "version-overlay")


@cache
def segment():
    return course.Segment(SEGMENT)


# Lesson 01, the ribbon of a record.

LAST = len(kg.annotate(KEY, VALUE)) - 1
"""The step at which a reader has read all fields."""


def read_text(lines):
    """Return the text form as a dict of the last line of each name."""
    return dict(line.split(": ", 1) for line in lines)


def find_scene(change):
    """Return the number of the offered change with this beginning."""
    options = record_ribbon().content.controls[1].options
    return next(number for number, option in enumerate(options) if option.startswith(change))


def test_each_block_of_a_record_has_the_bytes_and_the_value_of_annotate():
    for number, span in enumerate(kg.annotate(KEY, VALUE)):
        text = read_text(record_ribbon().text(number, 0))
        data = {"key": KEY, "value": VALUE}[span.part][span.start : span.end]
        assert text["bytes"] == data.hex(" ")
        assert text["value"] == span.text
        assert text["meaning"] == span.meaning


def test_the_offset_in_the_record_is_the_one_that_kafkas_own_tool_prints():
    """dump.txt is the output of Kafka's DumpLogSegments for the logs of the 4.3.1 broker."""
    lines = (DATA / "dump.txt").read_text().replace(" ", "").splitlines()
    [printed] = [line for line in lines if '"group":"billing"' in line and '"offset":35' in line and "orders" in line]
    assert '"partition":0' in printed
    assert '"metadata":"till1"' in printed
    texts = [read_text(record_ribbon().text(number, 0)) for number in range(len(record_ribbon().spans))]
    assert [text["value"] for text in texts if text["field"] == "offset"] == ["35"]


def test_a_reader_believes_another_offset():
    """Byte 9 of the value is the last byte of the offset, hex 23. One more is 36."""
    lines = record_ribbon().text(LAST, find_scene("offset 23 → 24"))
    assert "now believed: offset: 35 → 36" in lines


def test_a_reader_refuses_the_version_that_it_does_not_have():
    lines = record_ribbon().text(LAST, find_scene("version 04 → 05"))
    with pytest.raises(InvalidRecord) as error:
        kg.decode(KEY, b"\x00\x05" + VALUE[2:])
    assert f"refused: value.version: {error.value.reason}" in lines


def test_each_offered_change_is_read_as_decode_reads_it():
    for number, change in enumerate(record_ribbon().changes):
        parts = change.apply({"key": KEY, "value": VALUE})
        lines = record_ribbon().text(LAST, number + 1)
        try:
            kg.decode(parts["key"], parts["value"])
        except InvalidRecord as error:
            assert f"refused: {error.field}: {error.reason}" in lines
        else:
            assert any(line.startswith("now believed: ") for line in lines)


def test_a_tombstone_has_only_a_key():
    assert {span.part for span in course.RecordRibbon(KEY, None).spans} == {"key"}


# Lesson 01, the overlay of value versions: its commits are those that brokers of 1.0.1, 3.9.2 and 4.3.1 stored.

RECORDS = [
    course.read_record(str(HARBOUR / kafka / "__consumer_offsets-9"), offset)
    for kafka, offset in [("1.0.1", 37), ("3.9.2", 37), ("4.3.1", 38)]
]
KNOWS, EXPECTS_1, EXPECTS_3, EXPECTS_4, KAFKA_1_0_1, KAFKA_2_8_2 = range(6)
END = 7
"""The step of the figure at which a reader has read all fields of each value."""


def read_results(reader):
    """Return what the reader does with the versions 1, 3 and 4."""
    lines = dict(line.split(": ", 1) for line in overlay().text(reader, END))
    return [lines[f"record of version {version}"] for version in (1, 3, 4)]


def test_the_records_are_the_same_commit():
    records = [kg.decode(key, value) for key, value in RECORDS]
    assert [record.value_version for record in records] == [1, 3, 4]
    assert {(record.key, record.value.offset, record.value.metadata) for record in records} == {
        (records[0].key, 35, "till 1")
    }


def test_a_reader_of_all_versions_reads_each_correctly():
    assert read_results(KNOWS) == ["reads it correctly ✓"] * 3


def test_a_reader_of_version_1_misreads_the_newer_versions_without_an_error():
    assert read_results(EXPECTS_1) == [
        "reads it correctly ✓",
        "no error, 3 wrong fields ✗",
        "no error, 3 wrong fields ✗",
    ]


def test_the_reader_of_version_3_fails_as_the_lesson_says():
    """The length byte 07 and the letter t are one number: 0x0774 is 1908."""
    assert "version 4 refused: length 1908: only 32 bytes left" in overlay().text(EXPECTS_3, END)


@pytest.mark.parametrize(
    ("reader", "refused"),
    [(KAFKA_1_0_1, [False, True, True]), (KAFKA_2_8_2, [False, False, True])],
)
def test_old_brokers_refuse_what_they_do_not_know(reader, refused):
    """Kafka's own code refuses these versions.

    Version 4: 1.0.1 says "Unknown offset schema version 4" and 2.8.2 "Unknown offset message version: 4". Version 3 is
    new in 2.1.
    """
    assert [result == "refuses it ✗" for result in read_results(reader)] == refused


# Lesson 03, a segment: compared with the package's recovery of the same file.

CHECKED = 1
RECOVERED = 2


def list_results(lines):
    """Return the words at the right of each batch."""
    return [line.partition(": ")[2] for line in lines if line.startswith("offset")]


def test_the_batches_are_those_of_the_log():
    batches = list(kg.open_log(FOLDER))
    assert len(batches) == 13
    lines = [line.partition(" at byte ")[2] for line in segment().text(0, CHECKED) if line.startswith("offset")]
    assert [int(line.partition(":")[0]) for line in lines] == [batch.position for batch in batches]


def test_a_leader_epoch_goes_unnoticed_and_a_length_does_not():
    """The checksum covers a batch from byte 21 on. The exercise of the lesson asks for this difference."""
    start = segment().batches[3].position
    numbers = {broken.position - start: number for number, broken in enumerate(segment().choices, start=1)}
    assert list_results(segment().text(numbers[15], RECOVERED)) == ["kept ✓"] * 3 + ["kept broken"] + ["kept ✓"] * 9
    assert list_results(segment().text(numbers[7], RECOVERED))[3] == "now offset 2"
    for noticed in (11, 16, 20):
        expected = ["fits ✓"] * 3 + ["wrong ✗"] + ["not read"] * 9
        assert list_results(segment().text(numbers[noticed], CHECKED)) == expected


def test_a_typed_byte():
    content = segment().compute_content("2536=01")
    results = list_results(content.scenes[0, RECOVERED].text)
    assert results == ["kept ✓"] * 12 + ["cut away ✗"]
    assert list(content.scenes[1, 0].text) == list(segment().text(0, 0))
