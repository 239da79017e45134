"""The tables against real brokers: records as Kafka's classes read them, and the answers of `load`.

tests/groups compares the answers of `load` with brokers. The logs are read without Java, as a Spark task reads them.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest

import kafkagroups as kg
from tests.captured import captured, rows
from tests.cases import case
from tests.groups.test_load_runs import cases
from tests.handmade import LogRecord, LogWriter, encode_batch
from tests.spark.tables import LOADED, in_order, loaded_rows, read

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMMIT = {
    **{name: name for name in ("leader_epoch", "metadata", "topic_id", "record_offset", "producer_id")},
    "committed_offset": "offset",
    "commit_timestamp_ms": "commit_timestamp",
    "expire_timestamp_ms": "expire_timestamp",
}
"""The columns of a commit, each with the field that `load --json` has."""
GROUP = ("type", "state", "protocol_type", "protocol", "generation", "leader", "group_epoch")
MEMBER = ("member_id", "group_instance_id", "client_id", "client_host", "session_timeout_ms", "member_epoch")
PARTITION = ("segments", "batches", "records", "start_offset", "next_offset", "error")


def check_times(row):
    """Check each time for people against the number next to it."""
    for name in [name for name in row if name.endswith("_ms") and name.removesuffix("_ms") in row]:
        try:
            time = EPOCH + timedelta(milliseconds=row[name])
        except (OverflowError, TypeError):
            time = None
        is_shown = time is not None and 1678 <= time.year <= 2261
        assert row[name.removesuffix("_ms")] == (time if is_shown else None)


def loads():
    """Yield the log and the rules of the loads that tests/groups compares with brokers."""
    for folder, file in (parameter.values for parameter in cases()):
        answers = json.loads(file.read_text())
        kafka = answers.get("broker") or "4.3.1"
        yield folder, answers.get("coordinator") or ("new" if kafka.startswith("4") else "classic"), kafka
    for log in sorted((captured("crafted") / "crafted" / "logs").iterdir()):
        yield log, "classic", "3.9.2"
        yield log, "new", "4.3.1"


@pytest.mark.slow
def test_the_tables_have_the_answers_of_a_load():
    """Offsets, pending commits, groups, members and partitions of every captured run, crafted log and the story."""
    for folder, coordinator, kafka in loads():
        with case((folder, coordinator)):
            groups = kg.load(folder, coordinator, kafka)
            tables = {table: loaded_rows(groups, table) for table in LOADED}
            assert in_order(read(folder, coordinator=coordinator, kafka=kafka)) == tables["offsets"]
            for name, expected in expected_rows(groups.to_json()).items():
                columns = expected[0] if expected else ()
                assert in_order(shown_rows(tables[name], columns)) == in_order(expected), name
            for row in [row for table in tables.values() for row in table]:
                check_times(row)


def shown_rows(table, names):
    """Return the columns of rows that are compared. `key` is the name of a topic-partition."""
    for row in table:
        key = {"key": f"{row['topic']}-{row['topic_partition']}"} if "topic" in row else {}
        yield {name: (row | key)[name] for name in names}


def expected_rows(loaded):
    """Return the rows of each table that follow from what `load --json` prints."""
    expected = {table: [] for table in LOADED}
    for name, group in loaded["groups"].items():
        expected["offsets"] += [commit_row(name, key, commit) for key, commit in group["offsets"].items()]
        for key, commits in group["pending"].items():
            expected["pending"] += [commit_row(name, key, commit) for commit in commits]
        counts = {"members": len(group["members"]), "offsets": len(group["offsets"]), "pending": len(group["pending"])}
        expected["groups"].append({"group": name} | {field: group.get(field) for field in GROUP} | counts)
        for member in group["members"]:
            row = {"group": name} | {field: member.get(field) for field in MEMBER}
            expected["members"].append(row | topics_of(group["type"], member))
    expected["partitions"] = [{field: each[field] for field in PARTITION} for each in loaded["partitions"].values()]
    return expected


def commit_row(group, key, commit):
    return {"group": group, "key": key} | {column: commit[field] for column, field in COMMIT.items() if field in commit}


def topics_of(kind, member):
    """Return the topics and partitions of a member; a streams member has tasks, other modern ones have topic ids."""
    assignment = member["assignment"] or {}
    if kind == "classic":
        topics = (member["subscription"] or {}).get("topics")
        return {"subscribed_topics": topics, "assigned_partitions": assignment.get("partitions")}
    sign, assigned = ("_", assignment["active"]) if kind == "streams" else ("-", assignment)
    partitions = [f"{name}{sign}{number}" for name, numbers in assigned.items() for number in numbers]
    return {"subscribed_topics": member.get("subscribed_topic_names"), "assigned_partitions": partitions}


@pytest.mark.slow
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
