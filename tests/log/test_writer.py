"""The log writer: appended batches are read back, segments roll as in Kafka, and a crash loses no whole batch."""

import pytest
from hypothesis import given, strategies as st

import kafkagroups as kg
from tests.handmade import LogRecord, LogWriter, encode_batch


def batch(offset, records=1, size=1):
    return encode_batch([LogRecord(offset + n, 5, b"k", b"v" * size) for n in range(records)])


@given(sizes=st.lists(st.integers(1, 300), max_size=20), segment_bytes=st.integers(1, 1000), reopen=st.booleans())
def test_appended_batches_are_read_back(sizes, segment_bytes, reopen, tmp_path_factory):
    """They keep their order. A segment's name is its first offset, and a segment of several batches keeps its limit."""
    folder = tmp_path_factory.mktemp("log")
    batches = [batch(number, size=size) for number, size in enumerate(sizes)]
    log = LogWriter(folder, segment_bytes)
    for data in batches:
        log.append(data)
        if reopen:
            log.close()
            log = LogWriter(folder, segment_bytes)
    log.close()
    assert log.next_offset == len(batches)
    if not batches:
        return
    assert [found.data for found in kg.open_log(folder)] == batches
    for segment in folder.iterdir():
        found = list(kg.open_log(segment))
        assert found[0].base_offset == int(segment.stem)
        assert len(found) == 1 or segment.stat().st_size <= segment_bytes


def test_a_segment_that_would_be_full_to_the_byte_is_not_rolled(tmp_path):
    """Kafka rolls if size > segment.bytes - batch size (LogSegment.shouldRoll)."""
    first = batch(0)
    second = batch(1)
    for name, room, segments in (("equal", 0, 1), ("less", 1, 2)):
        with LogWriter(tmp_path / name, len(first) + len(second) - room) as log:
            log.append(first)
            log.append(second)
        assert len(list((tmp_path / name).iterdir())) == segments


def test_an_offset_too_far_above_the_base_rolls(tmp_path):
    """A segment's offsets are int32 deltas from its base in the index (LogSegment.canConvertToRelativeOffset)."""
    with LogWriter(tmp_path) as log:
        for offset in (0, 2**31 - 1, 2**31):
            log.append(batch(offset))
    assert sorted(int(file.stem) for file in tmp_path.iterdir()) == [0, 2**31]


def test_offsets_do_not_go_back_and_batches_are_whole(tmp_path):
    good = batch(3, records=2)
    with LogWriter(tmp_path) as log:
        log.append(good)
        with pytest.raises(kg.UsageError, match="from offset 5 on, found offset 4"):
            log.append(batch(4))
        for wrong in (good[:-1] + b"?", good + good):
            with pytest.raises(kg.UsageError, match="one whole batch"):
                log.append(wrong)
        with pytest.raises(kg.InvalidLog):
            log.append(good[:-1])
    assert len(list(kg.open_log(tmp_path))) == 1


def test_a_torn_tail_is_cut_and_nothing_whole_is_lost(tmp_path):
    """A crash can cut a batch at any byte. The log then ends before this batch, and the next append begins there."""
    whole = batch(0, records=2)
    torn = batch(2)
    for cut in range(len(torn)):
        folder = tmp_path / str(cut)
        with LogWriter(folder) as log:
            log.append(whole)
        (segment,) = folder.iterdir()
        segment.write_bytes(whole + torn[:cut])
        with LogWriter(folder) as log:
            assert log.next_offset == 2
            log.append(torn)
        assert segment.read_bytes() == whole + torn
