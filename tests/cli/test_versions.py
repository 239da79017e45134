"""`--kafka VERSION`: every command refuses other texts, and prints what the version has (CONTRACT.md 4 and 9)."""

import json

import kafkagroups as kg
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.writer import LogWriter

DATA = "data/harbour/3.9.2"


def test_every_command_refuses_a_version_that_does_not_exist(run):
    """Exit code 2, one line on stderr, nothing on stdout."""
    for command in (
        ["load", DATA],
        ["stats", DATA],
        ["explain", DATA, "--group", "billing"],
        ["diff", DATA, DATA],
        ["dump", DATA],
        ["dump", "--format", "dump-log", DATA],
        ["dump", "--format", "formatter", DATA],
        ["decode", "000200016700"],
        ["encode", "--jsonl"],
    ):
        status, out, err = run(*command, "--kafka", "3.9.2foo", stdin="")
        assert (status, out) == (2, "") and err.count("\n") == 1 and "'3.9.2foo'" in err, command
    assert run("load", DATA, "--coordinator", "classic", "--kafka", "4.3.1")[0] == 2


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
