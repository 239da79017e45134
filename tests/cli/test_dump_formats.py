"""`dump --format dump-log` and `--format formatter`: byte for byte what Kafka's own tools printed."""

import json
import re
import struct
from base64 import b64encode
from collections import Counter
from pathlib import Path

import pytest

from tests.captured import captured, rows
from tests.handmade import LogRecord, encode_batch

DATA = Path(__file__).parents[2] / "data" / "harbour"
BILLING = DATA / "1.0.1" / "__consumer_offsets-9"
SEGMENT = "00000000000000000000.log"


def dumps():
    """Every captured text of a dump tool of 0.10.2 or later: whose it is, and where its segments lie."""
    for path in sorted((captured("runs") / "runs").glob("*/*dump.txt")):
        version = path.parent.name.split("-")[0]
        if not version.startswith(("0.8", "0.9")):
            folder = "log" if path.name == "dump.txt" else path.name.removesuffix("-dump.txt")
            # the runs of 3.9.2 were dumped with 4.3.1's tool
            tool = "4.3.1" if version[0] in "34" else version
            yield pytest.param(path, path.parent / folder, tool, id=f"{path.parent.name}-{folder}")
    for version, tool in (("1.0.1", "1.0.1"), ("3.9.2", "4.3.1"), ("4.3.1", "4.3.1")):
        yield pytest.param(DATA / version / "dump.txt", DATA / version, tool, id=f"harbour-{version}")
    for name in ("after-clean", "after-clean-2"):
        folder = DATA / "cleaning"
        yield pytest.param(folder / f"{name}-dump.txt", folder / name, "4.3.1", id=f"harbour-{name}")
    for path in sorted((captured("dumplog") / "dumplog").glob("*/offsets-decoder*.txt")):
        name, tool = re.fullmatch(r"offsets-decoder(.*?)[.](.*)[.]txt", path.name).groups()
        shallow = tool == "1.0.1" and not name and list(path.parent.glob("*-deep*"))
        if name != "-skip-metadata" and not shallow:
            yield pytest.param(path, path.parent, tool, id=f"{path.parent.name}-{tool}")


@pytest.mark.parametrize(("path", "folder", "tool"), list(dumps()))
def test_dump_log_is_the_text_of_kafkas_own_tool(path, folder, tool, run, monkeypatch):
    """File by file, as the tool was called, and up to the byte at which it died; stderr is not compared."""
    monkeypatch.chdir(folder)
    text = path.read_bytes().decode()
    for section in re.split(r"^(?=Dumping )", text, flags=re.M)[1:]:
        expected, died = re.match(r"(.*?)(\n?--- stderr\nException.*|\n?--- stderr.*|)\Z", section, re.S).groups()
        segment = re.match("Dumping (.*)", section)[1]
        status, out, err = run("dump", "--format", "dump-log", "--kafka", tool, segment)
        assert out == expected
        log = path.with_suffix(".stderr")
        died = "Exception in thread" in (log.read_text() if log.exists() else died)
        assert (status, "tool fails at this point" in err) == (int(died), died)


def test_bad_records_are_told_in_kafkas_words(run, tmp_path):
    """errors.jsonl has the message of 4.3.1's reader for each input with a key; without a key the tool fails."""
    cases = []
    for row in rows("records", "errors.jsonl"):
        kind = int.from_bytes(bytes.fromhex(row["key_hex"] or "")[:2], "big", signed=True)
        if row["key_hex"] is not None:
            cases.append((row, kind))
    log = bytearray()
    for offset, (row, _) in enumerate(cases):
        value = None if row["value_hex"] is None else bytes.fromhex(row["value_hex"])
        log += encode_batch([LogRecord(offset, 0, bytes.fromhex(row["key_hex"]), value)])
    (tmp_path / SEGMENT).write_bytes(log)
    status, out, _ = run("dump", "--format", "dump-log", tmp_path / SEGMENT)
    records = re.split("^[|] ", out, flags=re.M)[1:]
    assert status == 0 and len(records) == len(cases) > 800
    for offset, ((row, kind), shown) in enumerate(zip(cases, records, strict=True)):
        answer = row["4.3.1"].get("error")
        told = shown.split("headerKeys: [] ")[1].split("\nbaseOffset")[0].rstrip("\n")
        if answer is None:
            assert told.startswith('key: {"type"'), row["id"]
        elif answer["class"].endswith("UnknownRecordTypeException"):
            assert told == f"key: Unknown record type {kind} at offset {offset}, skipping.", row["id"]
        else:
            assert told == f"key: Error at offset {offset}, skipping. {answer['message']}", row["id"]


def formatted():
    for path in sorted((captured("runs") / "runs").glob("*/formatter-offsets.txt")):
        yield pytest.param(path.parent, path.parent.name.split("-")[0], id=path.parent.name)


@pytest.mark.parametrize(("folder", "kafka"), list(formatted()))
def test_formatters_print_what_the_console_consumer_printed(folder, kafka, run):
    """Lines are compared without order, because the consumer read the partitions in turn."""
    expected = [line for path in folder.glob("formatter-*.txt") for line in path.read_text().split("\n")[:-1]]
    expected = [line for line in expected if not re.match(r"\[?console-consumer-\d+[,:]", line)]
    if folder.name == "0.9.0.1-basic":
        expected.remove("java-sub::NULL")  # that group's member timed out after the restart
    status, out, _ = run("dump", "--format", "formatter", "--kafka", kafka, folder / "log")
    assert status == 0 and Counter(out.split("\n")[:-1]) == Counter(expected)


@pytest.mark.parametrize("run_name", ["3.9.2-expiry", "4.3.1-expiry", "4.3.1-main", "4.3.1-mid", "4.3.1-next"])
def test_formatters_of_4_3_1_print_json(run_name, run):
    """console.jsonl: each record by the formatter that knows it, in the log's order of each partition."""
    folder = captured("runs") / "runs" / run_name
    captures = [row for row in rows("runs", f"runs/{run_name}/console.jsonl")]
    captures = [row for row in captures if not row["line"]["key"]["data"]["group"].startswith("console-consumer-")]
    expected = [row["line"] for row in sorted(captures, key=lambda row: (row["partition"], row["offset"]))]
    status, out, _ = run("dump", "--format", "formatter", folder / "log")
    assert status == 0 and [json.loads(line) for line in out.split("\n")[:-1]] == expected


def test_the_console_consumer_ends_at_a_record_that_it_cannot_read(run):
    """2.8.2-craft-a, partition 0: a value of version 9 at offset 5; what came before is printed."""
    log = captured("runs") / "runs" / "2.8.2-craft-a" / "log" / "__consumer_offsets-0"
    status, out, err = run("dump", "--format", "formatter", "--kafka", "2.8.2", log)
    assert (status, out.count("\n"), err.count("\n")) == (1, 5, 1)


def group_log(folder, subscription, assignment, members=1):
    """A log of one group value, version 1; its members are called a, b, ... in turn, but the second is an a too."""

    def string(text):
        return struct.pack(">h", len(text)) + text.encode()

    def data(content):
        return struct.pack(">i", len(content)) + content

    value = b"\0\1" + string("consumer") + struct.pack(">i", 1) + string("range") + string("a")
    value += struct.pack(">i", members)
    for name in "aab"[:members]:
        value += string(name) + string("c") + string("/h") + struct.pack(">ii", 1, 1)
        value += data(bytes.fromhex(subscription)) + data(bytes.fromhex(assignment))
    (folder / SEGMENT).write_bytes(encode_batch([LogRecord(0, 0, b"\0\2" + string("g"), value)]))
    return folder / SEGMENT


OWNS = "0000000100017400000000000000010001740000000100000001"
HAS = "000000010001740000000100000001ffffffff"


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        (
            "ffff",
            '"subscription":{"topics":["t"],"userData":""},'
            '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[1]}],"userData":null}',
        ),
        (
            "0001",
            '"subscription":{"topics":["t"],"userData":"","ownedPartitions":[{"topic":"t","partitions":[1]}]},'
            '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[1]}],"userData":null}',
        ),
        ("0004", None),
    ],
)
def test_dump_log_reads_members_of_any_version_as_the_tool_does(version, shown, run, tmp_path):
    """4.3.1's tool, asked with these bytes: a negative version is 0, above 3 no partitions are read."""
    out = run("dump", "--format", "dump-log", group_log(tmp_path, version + OWNS, version + HAS))[1]
    if shown is None:
        owns, has = (bytes.fromhex(version + content) for content in (OWNS, HAS))
        shown = f'"subscription":"{b64encode(owns).decode()}","assignment":"{b64encode(has).decode()}"'
    assert shown + "}]}}\n" in out


@pytest.mark.parametrize(
    ("subscription", "members", "status"),
    [("", 1, 0), ("000000", 1, 0), ("0000" + "ffffffff", 1, 1), ("0000" + "7fffffff", 1, 1), ("", 2, 0), ("", 3, 1)],
    ids=["empty", "cut", "null topics", "too many topics", "one id twice", "and another member"],
)
def test_the_old_tool_dies_of_what_it_reads_beside(subscription, members, status, run, tmp_path):
    """2.8.2's tool, asked with these bytes: it reads subscriptions, and counts members, without printing either."""
    log = group_log(tmp_path, subscription, "0000" + HAS, members)
    got, out, _ = run("dump", "--format", "dump-log", "--kafka", "2.8.2", log)
    assert (got, '"assignment":"{a=[t-1]}"' in out) == (status, status == 0)


def test_unknown_tags_stand_in_no_text_of_kafka(run, tmp_path):
    """Kafka's JSON has no place for them; crafted case v-oc4-tag5, as 4.3.1's tool and formatter print it."""
    value = bytes.fromhex("0004" + "000000000000000b" + "ffffffff" + "01" + "0000000000000000" + "01" + "0503616263")
    key = bytes.fromhex("0001" + "000167" + "000174" + "00000000")
    (tmp_path / SEGMENT).write_bytes(encode_batch([LogRecord(0, 0, key, value)]))
    for form in ("dump-log", "formatter"):
        out = run("dump", "--format", form, tmp_path / SEGMENT)[1]
        assert out.count("offset") and "nknownTagged" not in out and "YWJj" not in out


def test_dump_log_frames_as_the_tool_does(run, tmp_path):
    """DumpLogSegments: what is not whole is counted, a wrong checksum is printed, an impossible size kills it."""
    data = (BILLING / "00000000000000000000.log").read_bytes()
    segment = tmp_path / "00000000000000000000.log"

    def dumped(content):
        segment.write_bytes(content)
        return run("dump", "--format", "dump-log", segment, BILLING)

    whole = dumped(data)[1]
    status, out, _ = dumped(data + data[:40])
    assert status == 0 and "Found 40 invalid bytes at the end of 00000000000000000000.log\n" in out
    spoiled = bytearray(data)
    spoiled[17] ^= 1
    status, out, _ = dumped(bytes(spoiled))
    assert status == 0 and out.count("isvalid: false") == 1 and out.count("\n") == whole.count("\n")
    status, out, err = dumped(data + bytes(30))
    assert status == 1 and "Found" not in out and out.count("Dumping") == 1 and err.count("\n") == 1
    other = tmp_path / "oddly.log"
    other.write_bytes(data)
    assert run("dump", "--format", "dump-log", other, segment)[:2] == (1, f"Dumping {other}\n")


def parse_lines(text):
    """Return the lines of batches and records, each with its first and its last offset."""
    pattern = r"baseOffset: (\d+) lastOffset: (\d+) |[|] offset: (\d+) "
    matches = ((line, re.match(pattern, line)) for line in text.splitlines())
    return [(line, int(found[1] or found[3]), int(found[2] or found[3])) for line, found in matches if found]


@pytest.mark.parametrize(("tool", "version"), [("3.9.2", "4.3.1"), ("4.3.1", "4.3.1"), ("1.0.1", "1.0.1")])
def test_a_range_of_dump_log_has_lines_of_the_whole_text(tool, version, run, monkeypatch):
    """The range has the tool's own lines of the batches and records in it (dump.txt), and no others.

    --until ends before the first batch whose base offset is not below it. The tool of 1.0.1 has no lines of batches.
    """
    monkeypatch.chdir(DATA / tool)
    text = (DATA / tool / "dump.txt").read_text().replace("\noffset: ", "\n| offset: ")
    for section in re.split("^Dumping ", text, flags=re.M)[1:]:
        segment = section.partition("\n")[0]
        lines = parse_lines(section)
        middle = lines[len(lines) // 2][1]
        command = ("dump", "--format", "dump-log", "--kafka", version, segment)
        _, out, _ = run(*command, "--from", middle)
        tail = [line for line, _, last in lines if last >= middle]
        assert [line for line, *_ in parse_lines(out.replace("\noffset: ", "\n| offset: "))] == tail
        _, out, _ = run(*command, "--until", middle)
        if version != "1.0.1":  # There, --until at an offset inside a batch takes the whole batch.
            cut = [line for line, first, _ in lines if line.startswith("base") and first < middle]
            assert [line for line, *_ in parse_lines(out) if line.startswith("base")] == cut
        _, out, _ = run(*command, "--from", lines[-1][2] + 1)
        assert not parse_lines(out)


def test_a_range_of_the_formatters_has_lines_of_the_whole_text(run):
    """console.jsonl has the offset of each line, and each batch of these partitions has one offset."""
    folder = captured("runs") / "runs" / "4.3.1-expiry"
    captures = [row for row in rows("runs", "runs/4.3.1-expiry/console.jsonl")]
    captures = [row for row in captures if not row["line"]["key"]["data"]["group"].startswith("console-consumer-")]
    for partition in sorted({row["partition"] for row in captures}):
        lines = sorted((row["offset"], row["line"]) for row in captures if row["partition"] == partition)
        first = lines[len(lines) // 2][0]
        log = folder / "log" / f"__consumer_offsets-{partition}"
        _, out, _ = run("dump", "--format", "formatter", log, "--from", first)
        assert [json.loads(line) for line in out.splitlines()] == [line for offset, line in lines if offset >= first]


def test_a_time_selects_records_of_dump_log(run):
    """Each line of a record in dump.txt has its time (CreateTime)."""
    pattern = r"[|] offset: \d+ CreateTime: (\d+)"
    times = sorted(map(int, re.findall(pattern, (DATA / "4.3.1" / "dump.txt").read_text())))
    middle = times[len(times) // 2]
    out = run("dump", "--format", "dump-log", DATA / "4.3.1", "--since-time", middle)[1]
    assert sorted(map(int, re.findall(pattern, out))) == [time for time in times if time >= middle]
