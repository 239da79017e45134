"""`--kafka VERSION`: every command refuses other texts, and prints what the version has."""

import json

import pytest

import kafkagroups as kg
from tests.handmade import LogRecord, LogWriter, encode_batch

LOG = "data/harbour/1.0.1/__consumer_offsets-9"


def test_dump_prints_a_share_group_with_the_fields_of_its_version(run, tmp_path):
    """4.0 has no metadataHash. `decode --kafka 4.0` and `dump --kafka 4.0 --json` agree."""
    rules = kg.dialect("new", "4.0")
    key = bytes.fromhex("000b000167")
    value = bytes.fromhex("00000000000500")
    assert kg.to_json(kg.decode(key, value, rules), rules)["value"]["data"] == {"epoch": 5}
    with LogWriter(tmp_path / "__consumer_offsets-0") as log:
        log.append(encode_batch([LogRecord(0, 1000, key, value)]))
    status, out, _ = run("dump", tmp_path, "--json", "--kafka", "4.0")
    assert status == 0 and json.loads(out)["value"]["data"] == {"epoch": 5}


def test_a_version_that_was_not_compared_with_a_broker_uses_the_rules_of_the_nearest_one(run):
    """`kafka_rules` in the JSON and a line on stderr. A feature release is its newest patch release."""
    for coordinator, kafka, rules in (
        ("classic", "2.4.0", "2.3.1"),
        ("classic", "2.7.2", "2.8.2"),
        ("classic", "1.1", "1.0.1"),
        ("classic", "3.9.1", "3.9.2"),
        ("new", "3.8.0", "3.9.2"),
        ("classic", "2.1.1", "2.1.1"),
        ("new", "4.5.0", "4.4.0"),
    ):
        status, out, err = run("load", "data/harbour/1.0.1", "--json", "--coordinator", coordinator, "--kafka", kafka)
        assert (status, json.loads(out)["kafka"], json.loads(out)["kafka_rules"]) == (0, kafka, rules)
        origin = "were read in Kafka's source" if rules == kafka else f"are those of {rules}"
        not_compared = "this package was not compared with a broker of this version"
        assert err == f"kafkagroups: Kafka {kafka}: {not_compared}; the rules {origin}\n"
    for coordinator, kafka in (
        ("classic", "2.8"),
        ("classic", "3.9"),
        ("new", "4.3"),
        ("new", "4.0.0"),
        ("new", "3.9.2"),
    ):
        status, out, err = run("load", "data/harbour/1.0.1", "--json", "--coordinator", coordinator, "--kafka", kafka)
        assert status == 0 and "kafka_rules" not in json.loads(out) and not err


@pytest.mark.parametrize(
    "arguments",
    [
        ("load", LOG),
        ("explain", LOG, "--group", "billing"),
        ("timeline", LOG, "--group", "billing"),
        ("stats", LOG),
        ("diff", LOG, LOG),
        ("dump", LOG),
        ("decode", "000200016700"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_json_of_every_command_names_the_rules(run, arguments):
    """Each line of JSON has `kafka_rules`, and stderr has a line, if the version was not compared."""
    _, out, err = run(*arguments, "--json", "--kafka", "2.7.2")
    assert out and all(json.loads(line)["kafka_rules"] == "2.8.2" for line in out.splitlines())
    assert err.startswith("kafkagroups: Kafka 2.7.2: ") and err.endswith("the rules are those of 2.8.2\n")
    _, out, err = run(*arguments, "--json", "--kafka", "2.8.2")
    assert out and not err and not any("kafka_rules" in json.loads(line) for line in out.splitlines())


def test_lines_of_records_name_the_rules(run):
    """`decode --jsonl` names them, and `encode --jsonl` accepts these lines."""
    row = {"key_hex": "000200016700", "value_hex": None}
    _, out, err = run("decode", "--jsonl", "--kafka", "2.7.2", stdin=json.dumps(row))
    assert json.loads(out)["kafka_rules"] == "2.8.2" and err.count("\n") == 1
    assert json.loads(run("encode", "--jsonl", stdin=out)[1]) == {"key_hex": "0002000167", "value_hex": None}
