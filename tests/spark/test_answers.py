"""The tables against real brokers: their rows are what brokers answered for the same bytes.

Every captured run, the story and every crafted log are read without Java, as a Spark task reads them. Not compared are
the states that a living broker's limits and timers decide: `m-dying`, `b32` and `o-session-0`.
"""

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.captured import captured, rows
from tests.cases import case
from tests.handmade import LogRecord, LogWriter, encode_batch
from tests.spark.tables import LOADED, in_order, loaded_rows, read

DATA = Path("data/harbour")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OLD_TOPICS = {f"{topic}-{p}" for topic in ("orders", "clicks", "pay-ments") for p in range(3)}
"""The partitions that were requested from brokers before 0.10.2, which cannot be asked for all."""
TIMED = ("m-dying", "b32", "o-session-0")
NEW_TYPES = ("consumer", "share", "streams")


def runs():
    """Yield (log folder, answers) of every captured run and of the story."""
    for run in sorted((captured("runs") / "runs").iterdir()):
        for file in sorted(run.glob("*answers.json")):
            folder = run / (file.name.removesuffix("answers.json").rstrip("-") or "log")
            yield folder, json.loads(file.read_text())
    for version in ("1.0.1", "3.9.2", "4.3.1"):
        yield DATA / version, json.loads((DATA / version / "answers.json").read_text())


def read_tables(folder, coordinator, kafka):
    """Return the rows of every table, with checked times. Those of the offsets are read as a Spark task reads them."""
    groups = kg.load(folder, coordinator, kafka)
    tables = {table: loaded_rows(groups, table) for table in LOADED}
    assert in_order(read(folder, coordinator=coordinator, kafka=kafka)) == tables["offsets"]
    for row in [row for table in tables.values() for row in table]:
        check_times(row)
    return tables


def check_times(row):
    """Check each time for people against the number next to it."""
    for name in [name for name in row if name.endswith("_ms") and name.removesuffix("_ms") in row]:
        try:
            time = EPOCH + timedelta(milliseconds=row[name])
        except (OverflowError, TypeError):
            time = None
        is_shown = time is not None and 1678 <= time.year <= 2261
        assert row[name.removesuffix("_ms")] == (time if is_shown else None)


@pytest.mark.slow
def test_the_tables_are_what_the_broker_answered():
    """Offsets, pending commits, groups, members and next offsets of every captured run and of the story."""
    for folder, answers in runs():
        version = answers.get("broker") or "4.3.1"
        coordinator = answers.get("coordinator") or ("new" if version.startswith("4") else "classic")
        with case(folder):
            tables = read_tables(folder, coordinator, version)
            known = {row["group"] for row in tables["groups"]}
            is_old = version in ("0.8.2.2", "0.9.0.1")
            offsets = answers["offsets"]
            if is_old:  # They answer offsets of groups that they do not know; the table has known groups only.
                offsets = {name: offsets[name] for name in offsets if name in known}
            check_offsets(tables["offsets"], offsets, is_old)
            named = answers.get("stable_every_live_partition_named") or {}
            check_pending(
                tables["pending"], {name: named[name] for name in named if name in known}, answers.get("topics")
            )
            check_groups(tables["groups"], answers.get("groups") or {}, answers.get("listed") or ())
            check_members(tables["members"], answers.get("groups") or {}, has_topics=version != "2.3.1")
            for row in tables["partitions"]:
                end = (answers.get("end_offsets") or {}).get(str(row["partition"]))
                assert end is None or row["next_offset"] == end


@pytest.mark.slow
@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_tables_of_crafted_logs_are_what_the_broker_answered(coordinator):
    """Hand-made logs: the same bytes were loaded by a 3.9.2 and a 4.3.1 broker."""
    for crafted in json.loads((captured("crafted") / "crafted" / "cases.json").read_text()):
        answers = crafted["answers"][coordinator]
        if crafted["id"].startswith("d-foreign-") or answers["load"] == "broker did not start":
            continue
        folder = captured("crafted") / "crafted" / "logs" / crafted["id"]
        with case(crafted["id"]):
            tables = read_tables(folder, coordinator, {"classic": "3.9.2", "new": "4.3.1"}[coordinator])
            (partition,) = tables["partitions"]
            assert (partition["error"] is not None) == (answers["load"] == "failed")
            check_offsets(tables["offsets"], answers["offsets"])
            known = {row["group"] for row in tables["groups"]}
            stable = {name: told for name, told in answers["stable"].items() if name in known and "error" not in told}
            check_pending(tables["pending"], stable)
            if answers["load"] == "ok" and crafted["id"] not in TIMED:
                listed = [{"group": name, **group} for name, group in answers["listed"].items()]
                check_groups(tables["groups"], answers["groups"], listed)


def check_offsets(found, answers, is_old=False):
    by_group = defaultdict(dict)
    for row in found:
        by_group[row["group"]][f"{row['topic']}-{row['topic_partition']}"] = row
    for name, expected in answers.items():
        if "error" in expected:
            assert name not in by_group
            continue
        mine = by_group[name]
        if is_old:
            mine = {tp: row for tp, row in mine.items() if tp in OLD_TOPICS and row["committed_offset"] != -1}
        assert set(mine) == set(expected), name
        for tp, offset in expected.items():
            assert mine[tp]["committed_offset"] == offset["offset"], (name, tp)
            assert mine[tp]["metadata"] == offset["metadata"], (name, tp)
            assert mine[tp]["leader_epoch"] == offset.get("leader_epoch", mine[tp]["leader_epoch"]), (name, tp)


def check_pending(found, answers, topics=None):
    by_group = defaultdict(set)
    for row in found:
        if topics is None or row["topic"] in topics:
            by_group[row["group"]].add(f"{row['topic']}-{row['topic_partition']}")
    for name, expected in answers.items():
        unstable = {tp for tp, answer in expected.items() if "UNSTABLE_OFFSET_COMMIT" in str(answer)}
        assert by_group[name] == unstable, name


def check_groups(found, answers, listed):
    by_name = {row["group"]: row for row in found if row["group"] not in TIMED}
    for entry in listed:
        name = entry.get("group", entry.get("groupId"))
        if name not in TIMED:
            row = by_name[name]
            assert row["protocol_type"] == entry.get("protocol_type", entry.get("protocolType")), name
            assert row["type"] == entry.get("type", entry.get("groupType", "classic")), name
    for name, expected in answers.items():
        is_error = expected.get("error", "NONE") not in ("NONE", 0)
        if name in TIMED or is_error:
            continue
        if expected["state"] == "Dead":
            assert name not in by_name or by_name[name]["type"] != "classic", name
            continue
        row = by_name[name]
        assert (row["state"], row["protocol"]) == (expected["state"], expected["protocol"]), name
        if expected.get("members") is not None and expected.get("type") not in NEW_TYPES:
            assert row["members"] == len(expected["members"]), name


def check_members(found, answers, has_topics):
    by_id = {(row["group"], row["member_id"]): row for row in found}
    for name, expected in answers.items():
        if name in TIMED:
            continue
        if expected.get("type") in NEW_TYPES:
            for member in expected["raw"]["members"]:
                row = by_id[name, member["memberId"]]
                assert row["group_instance_id"] == member.get("instanceId")
                assert (row["client_id"], row["client_host"]) == (member["clientId"], member["clientHost"])
                assert row["member_epoch"] == member["memberEpoch"]
                assert set(row["assigned_partitions"]) == set(assigned(expected["type"], member["assignment"]))
            continue
        for member in expected.get("members") or ():
            row = by_id[name, member["member_id"]]
            assert (row["client_id"], row["client_host"]) == (member["client_id"], member["host"])
            assert row["group_instance_id"] == member.get("instance_id", row["group_instance_id"])
            if expected["protocol_type"] == "consumer" and has_topics:
                assert sorted(row["subscribed_topics"]) == sorted(member["subscription_topics"])
                assert set(row["assigned_partitions"] or ()) == set(classic_partitions(member["assignment"]))


def assigned(kind, assignment):
    """Return the partitions by topic id, and the tasks of a streams member."""
    if kind == "streams":
        return [f"{part['subtopologyId']}_{task}" for part in assignment["activeTasks"] for task in part["partitions"]]
    return [f"{topic['topicId']}-{p}" for topic in assignment["topicPartitions"] for p in topic["partitions"]]


def classic_partitions(assignment):
    if isinstance(assignment, dict):
        return [f"{topic}-{p}" for topic, numbers in assignment.items() for p in numbers]
    return assignment or []


def test_the_table_records_is_what_kafkas_classes_read():
    """records.jsonl has each record as Kafka's own classes read it: magic 0 to 2, every codec, transactions."""
    seen = 0
    for file in sorted((captured("runs") / "runs").glob("*/records.jsonl")):
        with case(file.parent.name):
            found = read(file.parent / "log", table="records", coordinator="classic")
            expected = [row_of(line) for line in rows("runs", f"runs/{file.parent.name}/records.jsonl")]
            shown = [{name: row[name] for name in expected[0]} for row in found]
            assert in_order(shown) == in_order(expected)
            for row in found:
                check_times(row)
            seen += len(found)
    assert seen > 1000


def row_of(line):
    """Return the columns of table `records` that a line of records.jsonl contains."""
    has_producer = line["pid"] >= 0
    return {
        "partition": int(line["file"].split("/")[0].rpartition("-")[2]),
        "offset": line["offset"],
        "timestamp_ms": line["ts"] if line["magic"] else None,
        "producer_id": line["pid"] if has_producer else None,
        "producer_epoch": line["epoch"] if has_producer else None,
        "transactional": line["txn"],
        "key": None if line["key"] is None else bytes.fromhex(line["key"]),
        "value": None if line["value"] is None else bytes.fromhex(line["value"]),
    }


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def test_the_table_records_shows_kafkas_json_of_every_type(tmp_path):
    """Each vector is a record of one log. Its row has the type, the names and the JSON that Kafka's classes gave."""
    vectors = [
        row
        for file in sorted((captured("vectors") / "vectors").glob("*.jsonl"))
        for row in rows("vectors", f"vectors/{file.name}")
    ]
    records = [
        LogRecord(
            offset, 1000 + offset, bytes.fromhex(row["key_hex"]), row["value_hex"] and bytes.fromhex(row["value_hex"])
        )
        for offset, row in enumerate(vectors)
    ]
    with LogWriter(tmp_path / "__consumer_offsets-7") as writer:
        for start in range(0, len(records), 100):
            writer.append(encode_batch(records[start : start + 100], base_offset=start))
    found = read(tmp_path, table="records")
    assert len(found) == len(vectors) > 1000
    for row, vector in zip(found, vectors, strict=True):
        with case(vector["id"]):
            value = None
            if vector["value_hex"] is not None:
                value = {"version": str(vector["value_version"]), "data": vector["value"]}
            key = {"type": str(vector["type"]), "data": vector["key"]}
            assert json.loads(row["json"]) == {
                "type": vector["type"],
                "name": vector["name"],
                "key": key,
                "value": value,
            }
            assert (row["type"], row["name"]) == (vector["type"], vector["name"])
            assert row["group"] == vector["key"].get("group", vector["key"].get("groupId"))
            assert (row["topic"], row["topic_partition"]) == (
                vector["key"].get("topic"),
                vector["key"].get("partition"),
            )
            assert row["value_version"] == vector["value_version"]
            assert row["batch_offset"] == row["offset"] // 100 * 100
            assert (row["control"], row["error"]) == (None, None)
