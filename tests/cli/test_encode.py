"""`kafkagroups encode --kafka`: the bytes that a broker of that version writes."""

import json

import kafkagroups as kg
from tests.cases import case
from tests.records.test_writers import TABLE, kafkas


def test_encode_writes_the_bytes_that_a_brokers_own_writer_wrote(run):
    """Every row of writer_versions.json, with and without the version of the value that is given."""
    lines = {}
    expected = {}
    for version, rows in TABLE["kafka"].items():
        for row in rows:
            for kafka in writers_of_row(version, row):
                shown = shown_record(version, row)
                for given in (shown["value"], {"data": shown["value"]["data"]}):
                    lines.setdefault(kafka, []).append(json.dumps(shown | {"value": given}))
                    expected.setdefault(kafka, []).append((row["value_hex"], row["scenario"]))
    assert sum(map(len, lines.values())) > 200
    for kafka, given in lines.items():
        with case(f"--kafka {kafka}"):
            status, out, _ = run("encode", "--jsonl", "--kafka", kafka, stdin="\n".join(given) + "\n")
            assert status == 0
            written = [json.loads(line)["value_hex"] for line in out.splitlines()]
            for value_hex, (wanted, scenario) in zip(written, expected[kafka], strict=True):
                assert value_hex == wanted, scenario


def kind_of(version, row):
    if "group" in row["writer"].lower().rpartition(".")[2]:
        return 2
    return 0 if version == "0.8.2.2" else 1


def writers_of_row(version, row):
    """Return the Kafka versions that write these bytes."""
    if not row.get("value_hex"):
        return []
    if "expireTimestamp -1" in row["scenario"] and not version.startswith(("0.", "1.", "2.0")):
        return []
    named = sorted({kafka for end in row["version_args"] or ["any"] for kafka in kafkas(end, version)})
    return [kafka for kafka in named if not kafka.startswith("0.8") or not kind_of(version, row)]


def shown_record(version, row):
    kind = kind_of(version, row)
    key = bytes([0, kind]) + b"\x00\x01g"
    if kind != 2:
        key += b"\x00\x01t" + bytes(4)
    return kg.to_json(kg.decode(key, bytes.fromhex(row["value_hex"])))
