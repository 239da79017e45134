"""What a learner types into a figure: a value that makes no sense is refused in one line, and others are computed."""

from pathlib import Path

import pytest

from kafkagroups import UsageError, course

DATA = Path(__file__).parents[2] / "data" / "harbour" / "4.3.1"
SEGMENT = (DATA / "__consumer_offsets-37" / f"{0:020}.log").read_bytes()
RECORD = course.read_record(str(DATA / "__consumer_offsets-9"), 38)

REFUSED = [
    (course.RecordRibbon, RECORD, "9=24", "expected key or value before the position"),
    (course.RecordRibbon, RECORD, "value 9=zz", "one byte in hex"),
    (course.RecordRibbon, RECORD, "value 15=74", "byte 15 of the value is already 74"),
    (course.RecordRibbon, RECORD, "value 48=00", "the value has the positions 0 to 47"),
    (course.BatchRibbon, (SEGMENT, 406), "150=00", "position"),
    (course.BatchRibbon, (SEGMENT, 406), "value 3=00", "position"),
    (course.BatchRibbon, (SEGMENT, 406), "7", "position"),
    (course.Segment, (SEGMENT,), "byte 3", "one byte in hex"),
    (course.Segment, (SEGMENT,), "99999999=00", "positions 0 to"),
    (course.Segment, (SEGMENT,), f"100={SEGMENT[100]:02x}", "byte 100 of the file is already"),
    (course.PartitionGrid, (("billing",), ("billing",)), "  ", "empty text"),
    (course.PartitionGrid, (("billing",), ("billing",)), "x" * 41, "at most 40"),
    (course.PartitionGrid, (("billing",), ("billing",)), "a\x00b", "printable"),
    (course.RebalanceLanes, (), "billing-3 at 9", "for example 'billing-1 at 9'"),
    (course.RebalanceLanes, (), "billing-1 at 99", "ends at second 15"),
    (course.RebalanceLanes, (), "billing-2 at 3", "has not joined yet"),
    (course.RebalanceLanes, (), "billing-1 at 14", "has already left"),
]


@pytest.mark.parametrize(("figure", "arguments", "typed", "message"), REFUSED)
def test_a_value_that_makes_no_sense_is_refused(figure, arguments, typed, message):
    with pytest.raises(UsageError, match=message):
        figure(*arguments).compute_content(typed)


def test_a_typed_byte_changes_the_first_scene_that_shows_it():
    record = course.RecordRibbon(*RECORD).compute_content("value 15=54")
    assert "now believed: metadata: till 1 → Till 1" in record.scenes[0, 0].text
    batch = course.BatchRibbon(SEGMENT, 406).compute_content(" 21=01 ")
    assert any(line.startswith("refused: expected checksum") for line in batch.scenes[0, 0].text)
