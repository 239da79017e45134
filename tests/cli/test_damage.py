"""A captured log, cut at every byte and flipped at every bit: no traceback, no hang, nothing whole is lost.

The log is partition 1 of the 1.0.1-txn run (plain and transactional commits, a tombstone, a marker); a gzip log and
one of magic 0 and 1 are cut and flipped too.
"""

import json

import pytest

from kafkagroups.cli import main
from kafkagroups.log.segments import read_batches
from tests.captured import captured

LOGS = {
    "magic 2": "runs/1.0.1-txn/log/__consumer_offsets-1/00000000000000000000.log",
    "gzip": "runs/1.0.1-gzip/log/__consumer_offsets-2/00000000000000000000.log",
    "magic 1": "runs/0.10.2.2-small/log/__consumer_offsets-1/00000000000000000000.log",
    "magic 0": "runs/0.8.2.2-gzip/log/__consumer_offsets-2/00000000000000000000.log",
}
MOST = 1200
"""Bytes of a log that are tried, in whole batches."""


@pytest.fixture(params=LOGS)
def log(request, tmp_path):
    data = (captured("runs") / LOGS[request.param]).read_bytes()
    batches = [batch for batch in read_batches(data) if batch.position + batch.size <= MOST]
    path = tmp_path / "__consumer_offsets-1" / "00000000000000000000.log"
    path.parent.mkdir()
    assert batches
    return path, data[: batches[-1].position + batches[-1].size], batches


def load(path, data, capsys):
    path.write_bytes(data)
    status = main(["load", str(path), "--json", "--coordinator", "classic", "--kafka", "1.0.1"])
    out, err = capsys.readouterr()
    assert err.count("\n") == status <= 1
    return status, json.loads(out)["partitions"]["1"]


def test_a_cut_inside_a_batch_is_damage_and_one_between_is_none(log, capsys):
    path, data, batches = log
    for cut in range(len(data)):
        whole = [batch for batch in batches if batch.position + batch.size <= cut]
        end = whole[-1].position + whole[-1].size if whole else 0
        status, loaded = load(path, data[:cut], capsys)
        assert loaded["batches"] == len(whole)
        if any(data[end:cut]):
            assert status == 1 and loaded["damage"]["position"] == end
        else:
            assert status == 0 and loaded["damage"] is None


def test_a_flip_under_a_checksum_or_in_the_framing_is_damage(log, capsys):
    """Else, in the base offset or the leader epoch of magic 2 or the offset of a message, the bytes' own answer."""
    path, data, batches = log
    for number, batch in enumerate(batches):
        unguarded = set(range(8)) | ({12, 13, 14, 15} if batch.magic == 2 else set())
        for bit in range(8 * batch.size):
            flipped = bytearray(data)
            flipped[batch.position + bit // 8] ^= 1 << bit % 8
            status, loaded = load(path, bytes(flipped), capsys)
            if bit // 8 in unguarded:
                assert (status, loaded["damage"], loaded["batches"]) == (0, None, len(batches))
            else:
                assert status == 1 and loaded["batches"] == number
                assert loaded["damage"]["position"] == batch.position
