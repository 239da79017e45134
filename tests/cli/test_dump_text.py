"""The text and JSON of `dump`, next to what Kafka's own dump tool printed for the same segments (dump.txt)."""

import json
import re
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.captured import captured
from tests.handmade import LogRecord, encode_batch, write_segment

DATA = Path(__file__).parents[2] / "data" / "harbour"
COMMIT_KEY = bytes.fromhex("0001" + "000167" + "000174" + "00000000")
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.]\d{3}"
KAFKA_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) .* partitionLeaderEpoch: (\d+) .*"
    r"deleteHorizonMs: \S+?(?:\[(\d+)\])? position: (\d+) CreateTime: (-?\d+)"
)
KAFKA_RECORD = re.compile(r"[|] offset: (\d+) CreateTime: (-?\d+)")
OUR_BATCH = re.compile(
    rf"(?:partition \d+ )?offsets (\d+) to (\d+), byte (\d+), .*max timestamp ({TIME}|no time), leader epoch (\d+)"
    rf"(?:.*delete horizon ({TIME}))?"
)
OUR_RECORD = re.compile(rf"  (\d+)  ({TIME})  leader epoch (\d+)  ")


def dumps():
    """Yield the captured texts of Kafka 4.3.1's dump tool, and the folders with their segments."""
    yield pytest.param(DATA / "4.3.1" / "dump.txt", DATA / "4.3.1", id="harbour")
    run = captured("runs") / "runs" / "4.3.1-compaction-short"
    for name in ("after-clean", "after-clean-2"):
        yield pytest.param(run / f"{name}-dump.txt", run / name, id=name)


def parse_time(text):
    """Return ms since 1970; None for no text, and -1 for no time."""
    if text is None or text == "no time":
        return None if text is None else -1
    time = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def parse_number(text):
    return None if text is None else int(text)


def kafka_rows(text):
    """Yield a batch as (first, last, leader epoch, horizon, position, time), and a record as (offset, time, epoch)."""
    epoch = None
    for line in text.splitlines():
        if batch := KAFKA_BATCH.match(line):
            first, last, epoch, horizon, position, time = map(parse_number, batch.groups())
            yield first, last, epoch, horizon, position, time
        elif record := KAFKA_RECORD.match(line):
            yield *map(int, record.groups()), epoch


def our_rows(text):
    """Yield the same for our text."""
    for line in text.splitlines():
        if batch := OUR_BATCH.match(line):
            first, last, position, time, epoch, horizon = batch.groups()
            yield int(first), int(last), int(epoch), parse_time(horizon), int(position), parse_time(time)
        elif record := OUR_RECORD.match(line):
            yield int(record[1]), parse_time(record[2]), int(record[3])


@pytest.mark.parametrize(("path", "folder"), list(dumps()))
def test_each_batch_and_record_has_its_time_and_leader_epoch(path, folder, run, monkeypatch):
    """Kafka's tool has the same times, epochs and delete horizons, for tombstones and markers, too."""
    monkeypatch.chdir(folder)
    for section in re.split("^Dumping ", path.read_text(), flags=re.M)[1:]:
        segment, _, text = section.partition("\n")
        expected = list(kafka_rows(text))
        assert expected == list(our_rows(run("dump", segment)[1])), segment
        rows = json_rows(run, segment)
        in_records = []
        for row in expected:
            if len(row) == 6:
                *_, horizon, _, _ = row
            else:
                in_records.append((*row, horizon))
        names = ("offset", "timestamp", "leader_epoch", "delete_horizon_ms")
        assert [tuple(row[name] for name in names) for row in rows] == in_records


def json_rows(run, *args):
    return [json.loads(line) for line in run("dump", *args, "--json")[1].splitlines()]


def test_a_record_without_a_time_and_a_time_after_the_year_9999(run, tmp_path):
    """A timestamp of -1 is "no time". A timestamp that no calendar has stays a number."""
    for number, timestamp, shown in ((0, -1, "no time"), (1, 2**62, f"{2**62} ms")):
        folder = write_segment(tmp_path, encode_batch([LogRecord(0, timestamp, COMMIT_KEY, None)]), number)
        _, out, _ = run("dump", folder)
        assert out.count(shown) == 2 and f"  0  {shown}  leader epoch 0  OffsetCommit" in out


def test_subscriptions_and_assignments_of_classic_groups_are_decoded(run):
    """Kafka's dump tool prints the same fields (dump.txt). JSON keeps the bytes in base64 next to the fields."""
    printed = (DATA / "3.9.2" / "dump.txt").read_text()
    payloads = re.findall(r'^[|] offset: (\d+) .*"type":"2".* payload: ([{].*"members":.*)$', printed, re.M)
    expected = [(int(offset), json.loads(payload)["data"]["members"]) for offset, payload in payloads]
    assert sum(len(members) for _, members in expected) > 5
    rows = [row for row in json_rows(run, DATA / "3.9.2", "--type", "2") if row["value"]]
    decoded = []
    for row in rows:
        members = row["value"]["data"]["members"]
        for member in members:
            for name in ("subscription", "assignment"):
                data = b64decode(member[name])
                fields = member.pop(f"{name}Data")
                if fields is not None:
                    assert fields.pop("version") == int.from_bytes(data[:2], "big")
                    member[name] = fields
        decoded.append((row["offset"], members))
    assert sorted(decoded, key=str) == sorted(expected, key=str)


def test_the_text_shows_the_topics_of_members_and_encode_reads_the_json(run):
    """The text has no base64 of a subscription, and the rows give the bytes of the log again."""
    log = DATA / "3.9.2" / "__consumer_offsets-9"
    _, text, _ = run("dump", log, "--type", "2", "--group", "billing")
    assert '"subscription": {"version": 3, "topics": ["orders", "payments"]' in text
    assert '"assignedPartitions": [{"topic": "payments", "partitions": [0, 1]}' in text
    _, out, _ = run("dump", log, "--json", "--type", "2")
    _, encoded, _ = run("encode", "--jsonl", stdin=out)
    data = b"".join(path.read_bytes() for path in sorted(log.glob("*.log")))
    lines = [json.loads(line) for line in encoded.splitlines()]
    assert len(lines) == out.count("\n") > 3
    assert all(bytes.fromhex(line["value_hex"]) in data for line in lines if line["value_hex"])


GAP = re.compile(r"(?:  |partition \d+ )gap: offsets? (\d+)(?: to (\d+))? ha(?:s|ve) no record")


@pytest.mark.parametrize(("path", "folder"), list(dumps()))
@pytest.mark.parametrize("first", [None, 3, 40])
def test_offsets_without_a_record_are_marked_as_gaps(path, folder, first, run):
    """Kafka's tool prints the offset of each record (dump.txt): between the first and the last, the others are gaps."""
    printed = {}
    for section in re.split("^Dumping ", path.read_text(), flags=re.M)[1:]:
        partition = re.search(r"__consumer_offsets-\d+", section)[0]
        found = [(int(record[1]), int(record[1])) for record in KAFKA_RECORD.finditer(section)]
        lasts = [int(batch[2]) for batch in KAFKA_BATCH.finditer(section)]
        printed.setdefault(partition, []).append((found, lasts))
    for partition, sections in printed.items():
        present = {offset for found, _ in sections for offset, _ in found}
        end = max((last for _, lasts in sections for last in lasts), default=-1) + 1
        range_options = [] if first is None else ["--from", first]
        _, out, _ = run("dump", folder / partition, *range_options)
        missing = set()
        for gap in GAP.finditer(out):
            missing |= set(range(int(gap[1]), int(gap[2] or gap[1]) + 1))
        assert missing == set(range(first or 0, end)) - present
        assert "gap" not in run("dump", folder / partition, "--tombstones")[1]


def test_a_log_that_begins_with_a_later_segment_has_no_gap_before_it(run, tmp_path):
    """The name of the first segment is the first offset of the log."""
    folder = write_segment(tmp_path, encode_batch([LogRecord(102, 5, COMMIT_KEY, None)]), base_offset=100)
    _, out, _ = run("dump", folder)
    assert out.startswith("partition 0 gap: offsets 100 to 101 have no record\n") and out.count("gap") == 1


def test_the_state_of_a_member_has_kafkas_name(run):
    """MemberState of consumer groups (4.3.1): 0 is STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS."""
    _, out, _ = run("dump", DATA / "4.3.1" / "__consumer_offsets-24")
    states = [line.partition('"state": ')[2].partition(",")[0] for line in out.splitlines() if '"state": ' in line]
    assert states[:4] == ['"Stable"', '"UnreleasedPartitions"', '"UnreleasedPartitions"', '"UnrevokedPartitions"']
