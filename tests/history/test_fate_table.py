"""The tables `records` and `fates`: their rows, and the fates are those of `explain`."""

import pytest

import kafkagroups as kg
from kafkagroups import UsageError
from tests.captured import captured, folders
from tests.cases import case
from tests.groups.small_logs import commit
from tests.handmade import crc32c, encode_batch, write_segment


@pytest.mark.thorough
@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_fates_are_those_of_explain(coordinator):
    """Every group of the captured runs: the table has the records of `explain`, with the same fates.

    `explain` also shows a record that the coordinator cannot read, if its key names the group. The table has no group
    for such a record.
    """
    for folder in folders("runs"):
        with case(folder.relative_to(captured("runs"))):
            rows = kg.record_table(folder, coordinator=coordinator).read_all().to_pylist()
            for group in sorted({row["group"] for row in rows if row["group"] is not None}):
                history = kg.explain(folder, group, coordinator=coordinator, engine="python").history
                wanted = [
                    (entry.partition, entry.offset, entry.fate.value, entry.by, entry.member_id, entry.committed)
                    for entry in history
                    if entry.group is not None
                ]
                given = [
                    (row["partition"], row["offset"], row["fate"], row["by"], row["member_id"], row["committed_offset"])
                    for row in rows
                    if row["group"] == group
                ]
                without_group = {(row["partition"], row["offset"]) for row in rows if row["error"] is not None}
                assert given == [row for row in wanted if row[:2] not in without_group], group


def test_a_table_that_does_not_exist():
    with pytest.raises(UsageError, match="no table 'offset': expected one of records, fates, offsets"):
        kg.record_table("data/harbour/3.9.2", "offset")
    with pytest.raises(UsageError, match="key"):
        kg.record_table("data/harbour/3.9.2", "fates", columns=["key"])


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_batch_without_readable_records_and_a_record_with_its_offset(engine, tmp_path):
    """The batch has a row of its own, which has nothing of the record at the same offset."""
    good = encode_batch([commit(5)])
    bad = bytearray(good)
    bad[57:61] = (2).to_bytes(4, "big")  # The number of records. The batch has one.
    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    folder = write_segment(tmp_path, bytes(bad) + good)
    rows = kg.record_table(folder, "fates", coordinator="classic", engine=engine).read_all().to_pylist()
    found = [(row["offset"], row["group"], row["committed_offset"]) for row in rows]
    assert found == [(5, None, None), (5, "g", 5)]
