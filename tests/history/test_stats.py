"""`stats` against counting by hand: batches, decoded records, and what `load` answers."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import stats, synth
from tests.captured import captured
from tests.cases import case, first_quickly
from tests.command import ask_json
from tests.handmade import ControlType, decode_control_key, encode_batch
from tests.history.logs import ENGINES, commit, write, write_each
from tests.history.test_fates import LOGS


@pytest.mark.parametrize("coordinator", first_quickly(["new", "classic"], pytest.mark.slow))
def test_stats_agree_with_counting_by_hand(coordinator):
    """Every captured log: files and batches, records, tombstones, times, transactions, and what load answers from."""
    for path in LOGS:
        with case(path):
            check_stats(path, coordinator)


def list_partitions(path):
    return sorted({file.parent for file in Path(path).rglob("*.log")})


def check_stats(path, coordinator):
    shown = ask_json("stats", path, "--json", "--coordinator", coordinator)
    rules = kg.dialect(coordinator)
    for log in map(kg.open_log, list_partitions(path)):
        mine = shown["partitions"][str(log.partition)]
        batches = list(log)
        hand = {"records": 0, "tombstones": 0, "times": [], "open": {}}
        for batch in batches:
            for record in batch.records:
                hand["records"] += 1
                hand["times"] += [record.timestamp] if record.timestamp >= 0 else []
                if batch.is_control:
                    if decode_control_key(record.key) in (ControlType.COMMIT, ControlType.ABORT):
                        hand["open"].pop(batch.producer_id, None)
                    continue
                hand["tombstones"] += record.value is None and is_read(record.key, rules)
            if batch.is_transactional and not batch.is_control:
                hand["open"].setdefault(batch.producer_id, batch.base_offset)
        assert mine["segments"] == len(log.segments) and mine["batches"] == len(batches)
        assert (mine["records"], mine["tombstones"]) == (hand["records"], hand["tombstones"])
        assert mine["next_offset"] == (batches[-1].next_offset if batches else 0)
        assert mine["bytes"] == sum(batch.size for batch in batches)
        if hand["times"]:
            assert (mine["first_timestamp_ms"], mine["last_timestamp_ms"]) == (min(hand["times"]), max(hand["times"]))
        assert {t["producer_id"]: t["first_offset"] for t in mine["open_transactions"]} == hand["open"]
        assert mine["last_stable_offset"] == min(hand["open"].values(), default=mine["next_offset"])
    for name in ("records", "bytes", "live_records", "live_bytes", "tombstones"):
        whole = sum(partition[name] for partition in shown["partitions"].values())
        assert sum(row[name] for row in shown["rows"]) == whole
    groups = kg.load(path, coordinator)
    answered = {name: len(group.offsets) + waiting(group) for name, group in groups.items()}
    answered |= {name: waiting(orphan) for name, orphan in groups.orphans.items()}
    live = {row["group"]: row["live_records"] for row in shown["rows"]}
    for name, offsets in answered.items():
        assert live.get(name, 0) >= offsets, name
        if name in groups and groups[name].type == "classic":
            assert live[name] - offsets in (0, 1), "and the group's own record"
    assert all(count == 0 for name, count in live.items() if name not in answered)


def is_read(key, rules):
    try:
        return kg.decode(key, None, rules).name != "Unknown"
    except kg.InvalidRecord:
        return False


def waiting(holder):
    return sum(len(offsets) for offsets in holder.pending.values())


@pytest.mark.parametrize("by", ["topic", "type", "partition"])
def test_rows_add_up_whatever_they_are(by):
    """The rows of every kind add up to the bytes of the files of the 4.3.1 run."""
    path = captured("runs") / "runs" / "4.3.1-main" / "log"
    shown = ask_json("stats", path, "--json", "--by", by, "--top", 10_000)
    files = sum(os.path.getsize(file) for file in path.glob("*/*.log"))
    assert sum(row["bytes"] for row in shown["rows"]) == files == sum(p["bytes"] for p in shown["partitions"].values())
    assert all(by in row for row in shown["rows"])


def test_freed_bytes_is_about_what_the_cleaner_frees(tmp_path):
    """A synthetic log of small segments, and the cleaner's own count of the bytes before and after."""
    synth.write(tmp_path / "one", records=20_000, groups=50, partitions=1, tombstones=0.1)
    batches = [batch.data for batch in kg.open_log(tmp_path / "one" / "__consumer_offsets-0")]
    folder = write(tmp_path, batches, segment_bytes=100_000)
    shown = ask_json("stats", folder, "--json")["partitions"]["0"]
    done = kg.compact(folder, tmp_path / "cleaned")
    freed = done.before.bytes - done.after.bytes
    assert shown["bytes"] == done.before.bytes and freed > 0.5 * shown["bytes"]
    assert 0.8 * freed < shown["freed_bytes"] < 1.2 * freed


def test_value_versions_are_those_of_the_decoded_records(tmp_path):
    """Versions 3 and 4 of the same type, a tombstone, and times that are not in order."""
    parts = [(3, 50), (3, 40), (4, 60), (None, 70), (4, 55)]
    records = [commit(offset, time, version=version or 3) for offset, (version, time) in enumerate(parts)]
    records[3] = replace(records[3], value=None)
    path = write(tmp_path, [encode_batch(records)])
    for engine in ENGINES:
        found = ask_json("stats", path, "--json", "--by", "type", "--engine", engine)["value_versions"]
        assert found == [
            {"type": 1, "version": 3, "records": 2, "first_timestamp_ms": 40, "last_timestamp_ms": 50},
            {"type": 1, "version": 4, "records": 2, "first_timestamp_ms": 55, "last_timestamp_ms": 60},
            {"type": 1, "version": None, "records": 1, "first_timestamp_ms": 70, "last_timestamp_ms": 70},
        ]
        assert "value_versions" not in ask_json("stats", path, "--json", "--by", "topic", "--engine", engine)


def test_a_log_for_the_readable_engine_does_not_hide_what_lives_in_the_next_one(tmp_path):
    """Partition 0 has a torn end and an old record of a group, whose home is partition 1 of 2."""
    group = next(name for name in "abcdef" if kg.partition_for(name, 2) == 1)
    for number in (0, 1):
        write_each(tmp_path, [commit(0, 1000, group)], number)
    (segment,) = (tmp_path / "__consumer_offsets-0").glob("*.log")
    segment.write_bytes(segment.read_bytes() * 2 + b"torn")
    for engine in ENGINES:
        counted = stats(tmp_path, partitions=2, engine=engine)
        assert [part.live_records for part in counted.partitions.values()] == [0, 1]
