"""`kafkagroups encode --kafka`: the bytes that a broker of that version writes."""

import json

import pytest

import kafkagroups as kg
from kafkagroups.records.fields import kafka_version
from tests.records.test_writers import TABLE, kafkas


@pytest.mark.parametrize(
    ("version", "row"),
    [(version, row) for version, rows in TABLE["kafka"].items() for row in rows if row.get("value_hex")],
)
def test_encode_writes_the_bytes_that_a_brokers_own_writer_wrote(version, row, run):
    """Every row of writer_versions.json: from whatever version the same offset or group is given in."""
    kind = 2 if "group" in row["writer"].lower().rpartition(".")[2] else 0 if version == "0.8.2.2" else 1
    value = bytes.fromhex(row["value_hex"])
    told = sorted({kafka for end in row["version_args"] or ["any"] for kafka in kafkas(end, version)})
    key = bytes([0, kind]) + b"\x00\x01g" + (b"" if kind == 2 else b"\x00\x01t" + bytes(4))
    shown = kg.to_json(kg.decode(key, value))
    for kafka in told:
        if kafka_version(kafka) < (0, 9) and kind:
            continue
        if "expireTimestamp -1" in row["scenario"] and kafka_version(version) >= (2, 1):
            continue
        written = dict(shown["value"])
        for given in (written, {"data": written["data"]}):
            status, out, _ = run("encode", "--jsonl", "--kafka", kafka, stdin=json.dumps(shown | {"value": given}))
            assert status == 0 and json.loads(out)["value_hex"] == row["value_hex"], (kafka, row["scenario"])
