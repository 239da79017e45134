"""Kafka's dump tool reads synthetic segments; what it prints is what `dump --format dump-log` prints of them."""

import pytest

from kafkagroups import synth
from tests.broker.broker import VERSIONS, need_jars, run_dump_tool
from tests.broker.material import SYNTHETIC
from tests.command import main
from tests.handmade import CompressionType

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", [codec.name.lower() for codec in CompressionType])
def test_the_dump_tool_reads_a_synthetic_segment(version, codec, tmp_path, monkeypatch, capsys):
    """Every batch is valid and every record is decoded: transactions, generations, groups of the new protocol."""
    need_jars(version)
    written = synth.write(tmp_path, codec=codec, **{**SYNTHETIC, "partitions": 1, "segment_bytes": 2**31 - 1})
    monkeypatch.chdir(tmp_path / "__consumer_offsets-0")
    segment = "00000000000000000000.log"
    theirs = run_dump_tool(version, "--offsets-decoder", "--print-data-log", "--files", segment)
    assert theirs.returncode == 0 and "Non-consecutive" not in theirs.stderr + theirs.stdout
    assert theirs.stdout.count(" isvalid: true") == written["partitions"]["0"]["batches"]
    assert theirs.stdout.count("\n| offset: ") == SYNTHETIC["records"]
    assert main(["dump", "--format", "dump-log", "--kafka", version, segment]) == 0
    assert capsys.readouterr().out == theirs.stdout
