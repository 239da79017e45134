"""Frames: where batches begin and end, whatever follows them, in memory and in a file that is read in pieces."""

from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

import kafkagroups as kg
from kafkagroups.log import segment_file as framing
from kafkagroups.log.batches import Position
from kafkagroups.log.segment_file import WHOLE_FILE, ByteRange, FrameState, SegmentFile, find_frames, read_frames
from tests.handmade import LogRecord, encode_batch, log_of_buffers, read_batches, segment_name

BATCHES = [encode_batch([LogRecord(offset, 5, b"key", b"v" * offset)]) for offset in range(5)]
TAILS = {
    "nothing": (b"", FrameState.WHOLE),
    "zeros": (bytes(100), FrameState.ZEROS),
    "few zeros": (bytes(5), FrameState.ZEROS),
    "half a batch": (BATCHES[0][:40], FrameState.INCOMPLETE),
    "half a header": (b"\0\0\0\1", FrameState.INCOMPLETE),
    "an impossible size": (bytes(8) + b"\0\0\0\5" + bytes(60), FrameState.DAMAGED),
    "an impossible magic": (BATCHES[0][:16] + b"\3" + BATCHES[0][17:], FrameState.DAMAGED),
    "zeros and then bytes": (bytes(80) + b"\1", FrameState.DAMAGED),
}


@pytest.mark.parametrize("piece_bytes", [1, 7, 64, 1000])
@pytest.mark.parametrize("tail", TAILS)
def test_the_last_frame_tells_what_follows_the_batches(tail, piece_bytes, monkeypatch):
    """A file in pieces of any size has the same frames as its bytes in memory."""
    monkeypatch.setattr(framing, "_PIECE_BYTES", piece_bytes)
    content, state = TAILS[tail]
    data = b"".join(BATCHES) + content
    found = list(find_frames(data))
    assert [frame.base_offset for frame in found[:5]] == [0, 1, 2, 3, 4]
    assert [frame.size for frame in found[:5]] == [len(batch) for batch in BATCHES]
    assert found[-1].state is state
    assert bool(found[-1].reason) == (state is not FrameState.WHOLE)
    in_file = list(read_frames(SegmentFile(BytesIO(data), "s.log", WHOLE_FILE, len(data))))
    assert [frame[:-2] for frame, _ in in_file[:5]] == [frame[:-2] for frame in found[:5]]
    assert [part for _, part in in_file[:5]] == BATCHES
    assert (in_file[-1][0].position, in_file[-1][0].state) == (found[-1].position, found[-1].state)


@given(st.binary(max_size=200), st.integers(1, 100))
def test_any_bytes_have_the_same_frames_in_memory_and_in_a_file(data, piece_bytes):
    """All frames but the last one are whole, and they follow each other without a gap."""
    content = BATCHES[1] + data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "_PIECE_BYTES", piece_bytes)
        in_file = [frame for frame, _ in read_frames(SegmentFile(BytesIO(content), "s.log", WHOLE_FILE, len(content)))]
    in_memory = list(find_frames(content))
    assert [frame[0] for frame in in_file] == [frame[0] for frame in in_memory]
    assert [frame.state for frame in in_file] == [frame.state for frame in in_memory]
    for frame, following in pairwise(in_memory):
        assert frame.state is FrameState.WHOLE and following.position == frame.end


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_new_after_a_position(on_disk, tmp_path):
    """The batches with higher offsets, found by the byte in the same file, or else by their offset."""
    contents = {segment_name(0): b"".join(BATCHES[:3]), segment_name(3): b"".join(BATCHES[3:])}
    log = log_of_buffers(contents, 7)
    if on_disk:
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
        log = kg.open_log(tmp_path)
    found = list(log.read_new_batches(None))
    assert [each.data for each in found] == BATCHES
    for number, each in enumerate(found):
        for position in (each.end, Position(each.end.next_offset), each.end._replace(inode=-2)):
            assert [new.data for new in log.read_new_batches(position)] == BATCHES[number + 1 :]


def test_a_part_of_a_log_keeps_the_positions_of_its_file(tmp_path):
    """Damage in a part names the byte of the file, not of the part."""
    damaged = bytearray(b"".join(BATCHES))
    third = sum(map(len, BATCHES[:2]))
    damaged[third + 70] ^= 1
    (tmp_path / segment_name(0)).write_bytes(damaged)
    log = kg.open_log(tmp_path)
    start = len(BATCHES[0])
    part = log.select_ranges({log.segments[0]: ByteRange(start, len(damaged))}, 1)
    (batch,) = part
    assert (batch.position, batch.base_offset) == (start, 1)
    assert (part.damage.position, part.damage.offset) == (third, 2)
    assert str(part.damage).startswith(f"{log.segments[0]}, byte {third}: the log ends here at offset 2: ")
    with pytest.raises(kg.InvalidLog, match="checksum") as caught:
        list(read_batches(damaged, "file"))
    assert (caught.value.file, caught.value.position) == ("file", third)
