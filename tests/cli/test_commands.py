"""The command line: JSON to the letter, exit codes, one clear line for a mistake."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest

from kafkagroups.cli import main
from tests.captured import captured, rows

DATA = Path(__file__).parents[2] / "data" / "harbour"
BILLING = DATA / "1.0.1" / "__consumer_offsets-9"


@pytest.fixture
def run(capsys, monkeypatch):
    def call(*args, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as error:
            status = error.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return call


def jsonl(text):
    return [json.loads(line) for line in text.splitlines()]


def test_decode_and_encode_of_lines_are_inverse(run):
    """Every vector of types 0 to 2 through both commands gives its own bytes back."""
    lines = []
    for path in sorted((captured("vectors") / "vectors").glob("0[012]_*.jsonl")):
        lines += [{k: row[k] for k in ("key_hex", "value_hex")} for row in rows("vectors", f"vectors/{path.name}")]
    status, decoded, _ = run("decode", "--jsonl", stdin="".join(json.dumps(line) + "\n" for line in lines))
    assert status == 0 and len(jsonl(decoded)) == len(lines)
    status, encoded, _ = run("encode", "--jsonl", stdin=decoded)
    assert status == 0 and jsonl(encoded) == lines


def test_a_line_gives_a_line_errors_too(run):
    """Broken JSON, missing hex, an unreadable record: {"error": …} in their place, exit code 1."""
    good = '{"key_hex":"000200026869","value_hex":null}'
    stdin = "\n".join([good, "{", "{}", '{"key_hex":"zz"}', '{"key_hex":"00"}', '{"key_hex":null}', good]) + "\n"
    status, out, _ = run("decode", "--jsonl", stdin=stdin)
    answers = jsonl(out)
    assert status == 1 and len(answers) == 7
    assert answers[0] == answers[6] and answers[0]["key"] == {"type": "2", "data": {"group": "hi"}}
    assert all(set(answer) == {"error"} for answer in answers[1:6])
    status, out, _ = run("encode", "--jsonl", stdin="{}\n[]\n" + json.dumps(answers[0]) + "\n")
    assert status == 1 and [set(a) for a in jsonl(out)] == [{"error"}, {"error"}, {"key_hex", "value_hex"}]


def test_unknown_tags_and_types_stand_in_the_json_and_go_back(run):
    key, value = "0001000167000174000000ff", "00040000000000000005000000010161000000000000000902000003090178"
    value = "0004" + "0000000000000005" + "00000001" + "01" + "0000000000000009" + "01" + "0903" + "616263"
    status, out, _ = run("decode", "--jsonl", stdin=json.dumps({"key_hex": key, "value_hex": value}))
    data = json.loads(out)["value"]["data"]
    assert status == 0 and data["_unknownTaggedFields"] == [{"tag": 9, "data": "YWJj"}]
    assert json.loads(run("encode", "--jsonl", stdin=out)[1]) == {"key_hex": key, "value_hex": value}
    status, out, _ = run("decode", "--jsonl", stdin='{"key_hex":"001800","value_hex":"ff"}')
    assert json.loads(out) == {
        "type": 24, "name": "Unknown", "key": {"type": "24", "hex": "001800"}, "value": {"hex": "ff"}
    }  # fmt: skip
    assert json.loads(run("encode", "--jsonl", stdin=out)[1]) == {"key_hex": "001800", "value_hex": "ff"}


def test_decode_speaks_with_the_reader_that_is_asked_for(run):
    """Type 0 with a value of version 3: 3.9.2 reads it, 4.3.1 refuses; --strict refuses trailing bytes."""
    key, value = "00000001670001740000000a", "0003000000000000000500000001000000000000000000000009"
    value = "0003" + "0000000000000005" + "00000001" + "0000" + "0000000000000009"
    assert run("decode", key, value)[0] == 1
    assert run("decode", key, value, "--coordinator", "classic")[0] == 0
    assert run("decode", key, value, "--kafka", "4.0.2")[0] == 0
    assert run("decode", "000100016700017400000000ff")[0] == 0
    status, out, err = run("decode", "000100016700017400000000ff", "--strict")
    assert (status, out, err.count("\n")) == (1, "", 1) and "byte 12, key" in err
    unread = '{"key_hex":"00030001","value_hex":""}'
    assert json.loads(run("decode", "--jsonl", "--coordinator", "classic", stdin=unread)[1])["name"] == "Unknown"


def test_partition_prints_the_partition(run):
    """billing lives on 9 and dashboard on 38 of 50: where the shop's broker put them."""
    assert jsonl(run("partition", "billing", "dashboard", "--json")[1]) == [
        {"group": "billing", "partition": 9},
        {"group": "dashboard", "partition": 38},
    ]
    assert run("partition", "billing", "--partitions", "0")[0] == 2


def test_load_of_several_paths_is_a_line_each_and_one_bad_path_stops_nothing(run, tmp_path):
    status, out, err = run("load", DATA / "1.0.1", tmp_path / "nowhere", BILLING, "--json", "--coordinator", "classic")
    first, second = jsonl(out)
    assert status == 2 and "nowhere" in err and err.count("\n") == 1
    assert (first["path"], second["path"]) == (str(DATA / "1.0.1"), str(BILLING))
    assert list(first) == ["path", "coordinator", "kafka", "partitions", "groups", "orphans", "elsewhere"]
    assert first["groups"]["billing"] == second["groups"]["billing"]
    assert second["partitions"] == {
        "9": {
            "segments": 1,
            "batches": 22,
            "records": 44,
            "start_offset": 0,
            "next_offset": 44,
            "error": None,
            "damage": None,
        }
    }
    assert (first["coordinator"], first["kafka"]) == ("classic", "3.9.2")


def test_load_stops_at_an_offset_or_a_time(run):
    """The lunch break of act 1 is offset 21 of partition 9: until it, billing is alone and Stable."""
    args = ("load", BILLING, "--json", "--coordinator", "classic", "--kafka", "1.0.1")
    before = json.loads(run(*args, "--until", 21)[1])["groups"]["billing"]
    after = json.loads(run(*args, "--until", 22)[1])
    assert (before["state"], before["generation"]) == ("Stable", 3)
    assert (after["groups"]["billing"]["state"], after["partitions"]["9"]["next_offset"]) == ("Empty", 22)
    steps = json.loads((DATA / "1.0.1" / "acts.json").read_text())
    lunch = next(
        step for step in (steps["steps"] if isinstance(steps, dict) else steps) if step["step"] == "lunch break"
    )
    at = json.loads(run(*args, "--until-time", lunch["time_ms"])[1])["groups"]["billing"]
    assert at["state"] == "Stable"
    assert run("load", DATA / "1.0.1", "--until", 3)[0] == 2
    assert run("load", BILLING, "--until-time", "noon")[0] == 2


def test_a_load_that_fails_says_why_and_exits_1(run):
    """1.0.1-craft-a, partition 0: a value of version 9 at offset 5 costs the partition; others load."""
    folder = captured("runs") / "runs" / "1.0.1-craft-a" / "log"
    status, out, err = run("load", folder, "--json", "--coordinator", "classic", "--kafka", "1.0.1")
    partitions = json.loads(out)["partitions"]
    assert status == 1 and "offset 5" in partitions["0"]["error"] and partitions["2"]["error"] is None
    assert err.count("\n") == sum(partition["error"] is not None for partition in partitions.values())


def test_dump_prints_a_line_a_record(run):
    """What records.jsonl, read by Kafka's own classes, says of the same log."""
    run_folder = captured("runs") / "runs" / "1.0.1-txn"
    status, out, _ = run("dump", run_folder / "log", "--json")
    expected = rows("runs", "runs/1.0.1-txn/records.jsonl")
    lines = jsonl(out)
    assert status == 0 and len(lines) == len(expected)
    for line, row in zip(lines, expected, strict=True):
        assert list(line) == [
            "partition", "offset", "timestamp", "producer_id", "producer_epoch", "transactional", "control",
            "type", "name", "key", "value",
        ]  # fmt: skip
        assert f"__consumer_offsets-{line['partition']}/" in row["file"]
        assert (line["offset"], line["timestamp"]) == (row["offset"], row["ts"])
        assert (line["producer_id"], line["transactional"]) == (row["pid"], row["txn"])
        marker = {"00000000": "abort", "00000001": "commit"}[row["key"]] if row["control"] else None
        assert line["control"] == marker
        assert line["type"] == (None if row["control"] else int(row["key"][:4], 16))


def test_dump_takes_what_is_asked_for(run):
    def offsets(*args):
        return [line["offset"] for line in jsonl(run("dump", BILLING, "--json", *args)[1])]

    assert offsets("--from", 22, "--until", 25) == [22, 23, 24]
    assert offsets("--group", "billing", "--type", "GroupMetadata") == [0, 6, 15, 21, 34, 35]
    assert offsets("--type", "2") == offsets("--type", "GroupMetadata")
    assert run("dump", BILLING, "--type", "Offset")[0] == 2
    text = run("dump", BILLING)[1]
    assert "tombstone" not in text and "marker: abort" in text and "producer 0/0, transactional" in text


def dumps():
    for dump in sorted((captured("runs") / "runs").glob("*/*dump.txt")):
        if dump.parent.name[0] in "34":
            folder = "log" if dump.name == "dump.txt" else dump.name.removesuffix("-dump.txt")
            yield pytest.param(dump, dump.parent / folder, id=f"{dump.parent.name}-{folder}")
    for version in ("3.9.2", "4.3.1"):
        yield pytest.param(DATA / version / "dump.txt", DATA / version, id=f"harbour-{version}")
    for name in ("after-clean", "after-clean-2"):
        yield pytest.param(DATA / "cleaning" / f"{name}-dump.txt", DATA / "cleaning" / name, id=f"harbour-{name}")
    for name in (
        "magic0",
        "magic1",
        "magic2",
        "magic2_empty_assignment",
        "magic2_null_user_data",
        "v2_all",
        "v2_nullkey",
    ):
        folder = captured("dumplog") / "dumplog" / name
        yield pytest.param(folder / "offsets-decoder.4.3.1.txt", folder, id=f"dumplog-{name}")


NOT_YET = re.compile(r' key: (\{"type":"(?!0"|1"|2")\d+".*|Unknown record type \d+ at offset \d+, skipping\.)$', re.M)
"""What the tool prints of record types 3 and above, and what we do until they come."""


@pytest.mark.parametrize(("dump", "folder"), list(dumps()))
def test_dump_log_is_the_text_of_kafkas_own_tool(dump, folder, run, monkeypatch):
    """Byte for byte, as far as the logs hold classic records."""
    expected = dump.read_bytes().decode()
    monkeypatch.chdir(folder)
    files = re.findall(r"^Dumping (.*)$", expected, re.M)
    status, out, _ = run("dump", "--format", "dump-log", *files)
    assert NOT_YET.sub(" key: …", out) == NOT_YET.sub(" key: …", expected)
    assert status == (1 if "nullkey" in str(folder) else 0), "where the tool dies we end with 1"


@pytest.mark.parametrize("command", ["load", "dump"])
def test_a_wrong_path_is_one_clear_line(run, command, tmp_path):
    """A missing path, an empty folder, a picture: exit code 2; a picture that is named a segment: exit code 1."""
    picture = tmp_path / "cat.jpeg"
    picture.write_bytes(bytes.fromhex("ffd8ffe000104a46494600010100000100010000") * 30)
    (tmp_path / "empty" / "__consumer_offsets-7").mkdir(parents=True)
    for path in (tmp_path / "nowhere", tmp_path / "empty", tmp_path / "empty" / "__consumer_offsets-7", picture):
        status, out, err = run(command, path)
        assert (status, out, err.count("\n")) == (2, "", 1) and str(path) in err
    segment = tmp_path / "00000000000000000000.log"
    shutil.copy(picture, segment)
    status, _, err = run(command, segment)
    assert status == 1 and err.count("\n") == 1 and str(segment) in err and "byte 0" in err


@pytest.mark.parametrize(
    "args", [[], ["lod"], ["load"], ["load", "x", "--engin", "y"], ["load", "x", "--kafka", "new"], ["decode"]]
)
def test_bad_usage_is_one_line_and_exit_code_2(run, args):
    status, out, err = run(*args)
    assert (status, out) == (2, "") and err.count("\n") == 1 and err.startswith("kafkagroups")


def test_help_shows_examples(run):
    for command in ("decode", "encode", "partition", "dump", "load", "doctor"):
        status, out, _ = run(command, "--help")
        assert status == 0 and "examples:" in out
