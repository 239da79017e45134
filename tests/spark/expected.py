"""What each table must hold, built from `load --json` and from the records themselves, not from the package's rows."""

import json
from datetime import UTC, datetime, timedelta

import kafkagroups as kg
from kafkagroups.cli.load import to_json
from kafkagroups.records.control import decode_control_key
from kafkagroups.tables.columns import TABLES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOADED = ("offsets", "pending", "groups", "members", "partitions")


def calendar(ms):
    """The time for people."""
    try:
        time = EPOCH + timedelta(milliseconds=ms)
    except (OverflowError, TypeError):
        return None
    return time if 1678 <= time.year <= 2261 else None


def rows(table, groups):
    """The rows of a table that `groups`, as kg.load gives them, make; in any order."""
    loaded = to_json(groups)
    out = []
    if table == "partitions":
        for number, partition in loaded["partitions"].items():
            damage = partition.pop("damage")
            if damage:
                damage = "{file}, byte {position}: the log ends here at offset {offset}: {reason}".format(**damage)
            out.append({"partition": -1 if number == "null" else int(number), **partition, "damage": damage})
    for name, group in loaded["groups"].items():
        common = {"partition": -1 if group["partition"] is None else group["partition"], "group": name}
        if table == "offsets":
            out += [{**common, **offset(tp, content)} for tp, content in group["offsets"].items()]
        elif table == "pending":
            for producer, waiting in groups[name].pending.items():
                for tp, content in waiting.items():
                    shown = {**vars_of(content), "topic_id": content.topic_id}
                    out.append({**common, **offset(str(tp), shown), "producer_id": producer})
        elif table == "groups":
            fields = ("type", "state", "protocol_type", "protocol", "generation", "leader", "group_epoch")
            counts = {count: len(group[count]) for count in ("members", "offsets", "pending")}
            out.append({**common, **{field: group.get(field) for field in fields}, **counts})
        elif table == "members":
            for member in group["members"]:
                fields = ("member_id", "group_instance_id", "client_id", "client_host")
                fields += ("session_timeout_ms", "rebalance_timeout_ms", "member_epoch")
                topics, partitions = topics_and_partitions(group["type"], member)
                row = {**common, **{field: member.get(field) for field in fields}}
                out.append({**row, "subscribed_topics": topics, "assigned_partitions": partitions})
    return out


def topics_and_partitions(kind, member):
    """A classic member's as in its bytes; topic ids for the newer types, and tasks for streams."""
    there = member["assignment"]
    if kind == "classic":
        return (member["subscription"] or {}).get("topics"), (there or {}).get("partitions")
    if kind == "streams":
        return None, [f"{part}_{task}" for part in there["active"] for task in there["active"][part]]
    return member["subscribed_topic_names"], [f"{topic}-{p}" for topic in there for p in there[topic]]


def vars_of(content):
    return {field: getattr(content, field) for field in type(content).__slots__}


def offset(tp, content):
    topic, _, partition = tp.rpartition("-")
    if topic.endswith("-"):  # foo--1 is partition -1
        topic, partition = topic[:-1], f"-{partition}"
    return {
        "topic": topic,
        "topic_partition": int(partition),
        "committed_offset": content["offset"],
        "leader_epoch": content["leader_epoch"],
        "metadata": content["metadata"],
        "commit_timestamp_ms": content["commit_timestamp"],
        "commit_timestamp": calendar(content["commit_timestamp"]),
        "expire_timestamp_ms": content["expire_timestamp"],
        "expire_timestamp": calendar(content["expire_timestamp"]),
        "topic_id": content["topic_id"],
        "record_offset": content["record_offset"],
    }


def records(path, coordinator, kafka):
    """The rows of table `records` of one partition, record by record."""
    log, rules = kg.open_log(path), kg.dialect(coordinator, kafka)
    out = []
    for batch in log:
        for record in batch.records:
            producer = batch.producer_id >= 0
            row = dict.fromkeys((column.name for column in TABLES["records"]), None) | {
                "partition": -1 if log.partition is None else log.partition,
                "offset": record.offset,
                "timestamp_ms": record.timestamp if batch.magic else None,
                "timestamp": calendar(record.timestamp) if batch.magic else None,
                "batch_offset": batch.base_offset,
                "producer_id": batch.producer_id if producer else None,
                "producer_epoch": batch.producer_epoch if producer else None,
                "transactional": batch.is_transactional,
                "key": record.key,
                "value": record.value,
            }
            try:
                if batch.is_control:
                    kind = decode_control_key(record.key).name
                    row["control"] = kind.lower() if kind in ("COMMIT", "ABORT") else kind
                else:
                    decoded = kg.decode(record.key, record.value, rules)
                    row |= {"type": decoded.type, "name": decoded.name, "value_version": decoded.value_version}
                    row["json"] = json.dumps(kg.to_json(decoded))
                    data = key_data(record.key, decoded.type)
                    row["group"], row["topic"] = data.get("group", data.get("groupId")), data.get("topic")
                    row["topic_partition"] = data.get("partition")
            except kg.InvalidRecord as error:
                row["error"] = str(error)
            out.append(row)
    return out


def key_data(key, kind):
    """The fields of a key of any type that a Kafka has written: whoever skips it can still tell whose it is."""
    try:
        record = kg.decode(key, None, kg.dialect("new", "4.0.2" if kind == 9 else "4.3.1"))
    except kg.InvalidRecord:
        return {}
    return kg.to_json(record)["key"].get("data", {})


def collected(frame):
    """The rows as `load_columns` would give them: Spark's times have no zone and are this machine's."""
    out = []
    for row in frame.collect():
        times = {name: time.astimezone(UTC) for name, time in row.asDict().items() if hasattr(time, "astimezone")}
        binary = {name: bytes(part) for name, part in row.asDict().items() if isinstance(part, bytearray)}
        out.append({**row.asDict(), **times, **binary})
    return out


def in_order(rows):
    """Rows without their order."""
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))
