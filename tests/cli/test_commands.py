"""The command line: JSON to the letter, exit codes, one clear line for a mistake."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.captured import captured, rows
from tests.handmade import LogRecord, encode_batch, write_segment

DATA = Path(__file__).parents[2] / "data" / "harbour"
BILLING = DATA / "1.0.1" / "__consumer_offsets-9"


def jsonl(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (["load"], kg.load),
        (["stats", "--by", "writer"], partial(kg.stats, by="writer")),
        (["explain", "--group", "billing"], partial(kg.explain, group="billing")),
    ],
)
def test_a_result_is_the_json_of_its_command(run, command, ask):
    """Only a load knows its path itself. What a notebook shows of a result is one line."""
    answer = ask(DATA / "3.9.2", kafka="3.9.2")
    (line,) = jsonl(run(command[0], DATA / "3.9.2", *command[1:], "--kafka", "3.9.2", "--json")[1])
    path = {"path": str(DATA / "3.9.2")}
    assert line == json.loads(json.dumps({**path, **answer.to_json()}))
    assert len(repr(answer)) < 200


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
    key = "0001000167000174000000ff"
    value = "0004" + "0000000000000005" + "00000001" + "01" + "0000000000000009" + "01" + "0903" + "616263"
    status, out, _ = run("decode", "--jsonl", stdin=json.dumps({"key_hex": key, "value_hex": value}))
    data = json.loads(out)["value"]["data"]
    assert status == 0 and data["_unknownTaggedFields"] == [{"tag": 9, "data": "YWJj"}]
    assert json.loads(run("encode", "--jsonl", stdin=out)[1]) == {"key_hex": key, "value_hex": value}
    status, out, _ = run("decode", "--jsonl", stdin='{"key_hex":"001800","value_hex":"ff"}')
    assert json.loads(out) == {
        "type": 24,
        "name": "Unknown",
        "key": {"type": "24", "hex": "001800"},
        "value": {"hex": "ff"},
    }
    assert json.loads(run("encode", "--jsonl", stdin=out)[1]) == {"key_hex": "001800", "value_hex": "ff"}


def test_decode_speaks_with_the_reader_that_is_asked_for(run):
    """Type 0 with a value of version 3: 3.9.2 reads it, 4.3.1 refuses; --strict refuses trailing bytes."""
    key = "00000001670001740000000a"
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


def test_a_load_that_fails_says_why_and_exits_1(run):
    """1.0.1-craft-a, partition 0: a value of version 9 at offset 5 costs the partition; others load."""
    folder = captured("runs") / "runs" / "1.0.1-craft-a" / "log"
    status, out, err = run("load", folder, "--json", "--coordinator", "classic", "--kafka", "1.0.1")
    partitions = json.loads(out)["partitions"]
    assert status == 1 and "offset 5" in partitions["0"]["error"] and partitions["2"]["error"] is None
    assert err.count("\n") == sum(partition["error"] is not None for partition in partitions.values())


def test_dump_prints_a_line_a_record(run):
    """dump --json prints the records that Kafka's own classes read (records.jsonl)."""
    run_folder = captured("runs") / "runs" / "1.0.1-txn"
    status, out, _ = run("dump", run_folder / "log", "--json")
    expected = rows("runs", "runs/1.0.1-txn/records.jsonl")
    lines = jsonl(out)
    assert status == 0 and len(lines) == len(expected)
    for line, row in zip(lines, expected, strict=True):
        assert f"__consumer_offsets-{line['partition']}/" in row["file"]
        assert (line["offset"], line["timestamp"]) == (row["offset"], row["ts"])
        assert (line["leader_epoch"], line["delete_horizon_ms"]) == (row["leaderEpoch"], None)
        assert (line["producer_id"], line["transactional"]) == (row["pid"], row["txn"])
        marker = {"00000000": "abort", "00000001": "commit"}[row["key"]] if row["control"] else None
        assert line["control"] == marker
        assert line["type"] == (None if row["control"] else int(row["key"][:4], 16))
        assert {"producer_epoch", "name", "key", "value"} <= line.keys()


ODD_LINES = [
    b"[" * 100_000,
    b'{"key_hex":1' + b"1" * 5000 + b"}",
    b"\xff",
    b"",
    b'{"key":{"type":Infinity,"data":{}},"value":null}',
    b'{"key":{"type":true,"data":{}},"value":null}',
    b'{"key":{"type":2.7,"data":{"group":"g"}},"value":null}',
    b'{"key":{"type":"1","data":{"group":"g","topic":"t","partition":0}},"value":{"version":"4","data":{"offset":1,'
    b'"leaderEpoch":1,"metadata":"","commitTimestamp":1,"_unknownTaggedFields":[{"tag":"9","data":""}]}}}',
]


@pytest.mark.parametrize("command", ["decode", "encode"])
@pytest.mark.parametrize("line", ODD_LINES, ids=range(len(ODD_LINES)))
def test_no_line_stops_the_stream(run, command, line):
    """A wrong line gives one line of error, and the next line is converted."""
    good = b'{"key_hex":"000200026869","value_hex":null,"key":{"type":"2","data":{"group":"hi"}},"value":null}\n'
    status, out, err = run(command, "--jsonl", stdin=line + b"\n" + good)
    first, second = jsonl(out)
    assert status == 1 and set(first) == {"error"} and "error" not in second
    assert err.startswith("kafkagroups: line 1: ") and err.count("\n") == 1


def test_encode_takes_utf_8_whatever_the_locale(run):
    row = '{"key":{"type":"2","data":{"group":"é"}},"value":null}'.encode()
    assert jsonl(run("encode", "--jsonl", stdin=row)[1])[0]["key_hex"] == "00020002c3a9"


def test_what_an_older_reader_kept_as_unknown_tag_goes_back(run):
    """4.1's topic id is an unknown tag to 3.9.2 and 4.0: decode with them, encode, and the bytes are the same."""
    row = rows("vectors", "vectors/01_OffsetCommit_v4.jsonl")
    row = next(r for r in row if "topicId" in r["value"])
    pair = {"key_hex": row["key_hex"], "value_hex": row["value_hex"]}
    for options in (["--coordinator", "classic"], ["--kafka", "4.0.2"], ["--kafka", "4.3"]):
        decoded = run("decode", "--jsonl", *options, stdin=json.dumps(pair))[1]
        assert jsonl(run("encode", "--jsonl", stdin=decoded)[1]) == [pair]


def test_a_segment_that_cannot_be_read_stops_no_other_path(run, tmp_path):
    (tmp_path / "__consumer_offsets-3" / "00000000000000000000.log").mkdir(parents=True)
    for command in (["load", "--json"], ["dump", "--json"], ["dump", "--format", "dump-log"]):
        status, out, err = run(command[0], tmp_path, BILLING, *command[1:])
        assert status == 2 and err.count("\n") == 1 and "billing" in out
    assert run("load", "x" * 5000)[0] == 2


def test_undecodable_records_keep_their_bytes(run):
    """dump prints the error and the raw bytes, says the first on stderr, and exits with 1."""
    folder = captured("runs") / "runs" / "1.0.1-craft-b" / "log"
    status, out, err = run("dump", folder, "--json", "--kafka", "1.0.1")
    bad = [line for line in jsonl(out) if "error" in line]
    assert status == 1 and bad and err.count("\n") == 1
    assert all({"key_hex", "value_hex"} <= set(line) for line in bad)


def test_links_and_strays_do_not_confuse_a_folder(run, tmp_path):
    """A linked partition keeps the number of its link; hidden copies and other files are no segments."""
    store = tmp_path / "store"
    shutil.copytree(BILLING, store)
    (store / "._00000000000000000000.log").write_bytes(b"\0\5\x16\7")
    (store / "notes.log").write_bytes(b"hello")
    broker = tmp_path / "broker"
    broker.mkdir()
    for number in (9, 14):
        (broker / f"__consumer_offsets-{number}").symlink_to(store)
    loaded = jsonl(run("load", broker, "--json", "--kafka", "1.0.1")[1])[0]
    assert list(loaded["partitions"]) == ["9", "14"] and loaded["coordinator"] == "classic"
    assert all(p["damage"] is None and p["batches"] == 22 for p in loaded["partitions"].values())
    alone = jsonl(run("load", store / "00000000000000000000.log", "--json", "--partitions", "50")[1])[0]
    assert set(alone["groups"]) == {"billing", "fraud-check"} and alone["elsewhere"] == {}


def test_a_real_process_stops_quietly_when_its_reader_does(tmp_path):
    """`| head -1` is no error, and a closed or full output is one line at most."""
    kafkagroups = [sys.executable, "-m", "kafkagroups"]
    for args in (["dump", str(DATA / "1.0.1")], ["load", str(DATA / "1.0.1")]):
        process = subprocess.Popen(kafkagroups + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0
        process.stderr.close()
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*kafkagroups, "dump", str(BILLING)], stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    latin = os.environ | {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    done = subprocess.run([*kafkagroups, "load", str(DATA / "1.0.1")], capture_output=True, env=latin, check=True)
    assert "café-☕" in done.stdout.decode()


def test_a_closed_stream_is_no_damage(tmp_path):
    """A wrapper that closes stdout or stderr still gets the exit code, and the answer on the other one."""
    report = tmp_path / "report.html"
    closings = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")
    calls = [(f"load {DATA / '1.0.1'}", each, 0) for each in closings]
    calls += [("load nope", ">&-", 2), ("load nope", "2>&-", 2), (f"report {BILLING} --out {report}", closings[-1], 0)]
    for command, closed, status in calls:
        line = f"{sys.executable} -m kafkagroups {command} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == status
        assert bool(done.stderr) == (status == 2 and "2>" not in closed)
        if command.startswith("load"):
            assert bool(done.stdout) == (status == 0 and closed in ("<&-", "2>&-"))
    assert report.exists()


CUT = pytest.mark.parametrize("arguments", [["load"], ["dump"], ["explain", "--group", "g"]], ids=" ".join)


@CUT
def test_until_takes_whole_batches_and_names_the_first_offset_after_the_cut(arguments, run, tmp_path):
    """--until 5 keeps the batch with offsets 0 to 9 as a whole, and says that 10 is the next offset."""
    data = b"".join(
        encode_batch([LogRecord(offset, 5, b"\0\x02\0\x01g", None) for offset in range(base, base + 10)])
        for base in (0, 10)
    )
    folder = write_segment(tmp_path, data, 7)
    command, *options = arguments
    status, out, err = run(command, folder, *options, "--until", "5")
    assert (status, err) == (0, "") and "Reading stopped before offset 10 in partition 7." in out
    status, out, _ = run(command, "--help")
    assert status == 0 and "only those whose base offset is below N" in " ".join(out.split())


@CUT
def test_until_time_names_the_cut_of_every_partition(arguments, run, tmp_path):
    """Partition 3 has no batch before the cut, and partition 7 has one."""
    for number, time in ((3, 9), (7, 5)):
        records = [LogRecord(offset, time, b"\0\x02\0\x01g", None) for offset in range(10)]
        write_segment(tmp_path, encode_batch(records), number)
    command, *options = arguments
    status, out, err = run(command, tmp_path, *options, "--until-time", "6")
    assert (status, err) == (0, "")
    assert "0 in partition 3" in out and "10 in partition 7" in out
    if command == "explain":
        _, out, _ = run(command, tmp_path, *options, "--until-time", "6", "--json")
        assert json.loads(out)["next_offsets"] == {"3": 0, "7": 10}
