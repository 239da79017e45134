"""Captured logs, cut at every byte and flipped at every byte: no traceback, no hang, and no whole batch is lost.

The first log is partition 1 of the 1.0.1-txn run: plain and transactional commits, a tombstone, a marker. The others
are a gzip log and logs of magic 0 and 1. Each cut and each flip is loaded by `kg.load`. Some are loaded by the command
too, because its arguments and its output take far longer than the load.

The fast profile flips one bit of each byte, a different one in each neighbour. The long profile flips every bit.
"""

import json
import os

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.command import main
from tests.handmade import read_batches

LONG = os.environ.get("KG_PROFILE") == "long"
LOGS = {
    "magic 2": "runs/1.0.1-txn/log/__consumer_offsets-1/00000000000000000000.log",
    "gzip": "runs/1.0.1-gzip/log/__consumer_offsets-2/00000000000000000000.log",
    "magic 1": "runs/0.10.2.2-small/log/__consumer_offsets-1/00000000000000000000.log",
    "magic 0": "runs/0.8.2.2-gzip/log/__consumer_offsets-2/00000000000000000000.log",
}
MOST = 1200
"""Bytes of a log that are tried, in whole batches."""
COMMAND_EVERY = 37
"""Of this many damaged logs the command loads one. The number is a prime, so that it meets every field."""


@pytest.fixture(params=LOGS)
def log(request, tmp_path):
    data = (captured("runs") / LOGS[request.param]).read_bytes()
    batches = [batch for batch in read_batches(data) if batch.position + batch.size <= MOST]
    path = tmp_path / "__consumer_offsets-1" / "00000000000000000000.log"
    path.parent.mkdir()
    assert batches
    return path, data[: batches[-1].position + batches[-1].size], batches


def load(path, data, number, capsys):
    """Return how many batches were loaded, and the position of the damage or None."""
    path.write_bytes(data)
    loaded = kg.load(path, "classic", "1.0.1").partitions[1]
    found = loaded.batches, loaded.damage and loaded.damage.position
    if LONG or number % COMMAND_EVERY == 0:
        status = main(["load", str(path), "--json", "--coordinator", "classic", "--kafka", "1.0.1"])
        out, err = capsys.readouterr()
        printed = json.loads(out)["partitions"]["1"]
        assert err.count("\n") == status == (loaded.damage is not None)
        assert (printed["batches"], printed["damage"] and printed["damage"]["position"]) == found
    return found


def test_a_cut_inside_a_batch_is_damage_and_a_cut_between_batches_is_none(log, capsys):
    path, data, batches = log
    for cut in range(len(data)):
        whole = [batch for batch in batches if batch.position + batch.size <= cut]
        end = whole[-1].position + whole[-1].size if whole else 0
        is_damaged = any(data[end:cut])
        assert load(path, data[:cut], cut, capsys) == (len(whole), end if is_damaged else None), cut


@pytest.mark.slow
def test_a_flip_under_a_checksum_or_in_the_framing_is_damage(log, capsys):
    """No checksum covers the base offset and the leader epoch of magic 2, and the offset of an older message."""
    path, data, batches = log
    for number, batch in enumerate(batches):
        unguarded = set(range(8)) | ({12, 13, 14, 15} if batch.magic == 2 else set())
        for place in range(batch.size):
            for bit in range(8) if LONG else [place % 8]:
                flipped = bytearray(data)
                flipped[batch.position + place] ^= 1 << bit
                expected = (len(batches), None) if place in unguarded else (number, batch.position)
                assert load(path, bytes(flipped), place, capsys) == expected, (batch.position, place, bit)
