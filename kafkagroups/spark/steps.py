"""The load as data-frame steps, written for readers: the new coordinator's answer.

    records ─┬▶ commits ──▶ decided ─┬▶ newest commits ──┬▶ offsets
             ├▶ markers ──────┘      └▶ pending commits ─┼▶ pending
             ├▶ tombstones ─ (to newest and pending) ─▶  │
             └▶ known groups ────────────────────────────┴▶ groups

`records` is the table of all records in the log, and `decided` are the commits with the fate of their transactions. A
marker is the control record that commits or aborts a transaction. Each step is a function, and its docstring has the
rule. All rules hold inside one log partition. So `partition` is part of every key, and one run of the steps can read
many logs. The steps read only the record types 0 to 2, because the groups of types 3 to 23 would need about as many
rules again. If the load of a log fails on a broker, the steps have no answer for this log either; table `partitions`
names this log.

Why Spark can split `find_newest_commits`. The committed offset of a key is its newest change: the commit or tombstone
whose record has the largest offset. If two changes are compared, the older change can be dropped, no matter which
changes are compared first. In other words, a maximum is mergeable. Spark computes the maximum of each part of the
records, and then the maximum of these maxima. Only the outcomes of the transactions must be known before this step.

Why the classic coordinator needs the order of the log. Its commit marker stores a pending commit if the key has no
offset, or if the key's offset comes from an older batch. It compares the base offsets of the two batches. Its
tombstones delete the committed offset and leave pending commits unchanged. A tombstone inside a transaction deletes the
pending commit of its producer and leaves the committed offset unchanged.

For example, a log contains a pending commit, a plain commit (without a transaction) and a tombstone, in this order. If
the marker of the pending commit comes last, no offset is stored when the marker is read, so the pending commit is the
answer. If the marker comes before the tombstone, the plain commit is newer and stays. The tombstone then deletes the
plain commit, and there is no answer. The commits and the tombstone are the same in both cases. The answer depends on
the position of the marker, and no maximum over the records can compute it. The classic rule must process the records
one after another in the order of the log, so one task loads a whole log partition (source.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, functions as F

from kafkagroups.tables.columns import END_MS, FIRST_MS, columns_of

JSON = """value struct<data struct<offset: long, leaderEpoch: int, metadata: string, commitTimestamp: long,
    expireTimestamp: long, topicId: string, protocolType: string, generation: int, protocol: string, leader: string,
    members: array<struct<memberId: string>>>>"""
"""The Spark type of a record's JSON, with only the fields that the steps read."""

KEY = ("partition", "group", "topic", "topic_partition")
"""The key of an offset. Records of type 0 and type 1 have the same key."""

COMMITTED = (
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "record_offset",
)
"""The content of a commit, and the offset of its record."""


@dataclass(frozen=True)
class AnswerTables:
    """The tables `offsets` and `pending`, and the columns of `groups` that the records contain."""

    offsets: DataFrame
    pending: DataFrame
    groups: DataFrame


def compute_answer(records: DataFrame) -> AnswerTables:
    """Run all steps and return the tables of the answer."""
    decided = add_fate(select_commits(records), select_markers(records))
    tombstones = select_tombstones(records)
    groups = find_known_groups(records)
    offsets = keep_known_groups(find_newest_commits(decided, tombstones), groups)
    pending = keep_known_groups(find_pending_commits(decided, tombstones), groups)
    return AnswerTables(offsets, pending, groups)


def select_commits(records: DataFrame) -> DataFrame:
    """Return the offset records with a value. A commit is transactional if its batch has a producer id.

    The new coordinator ignores the transactional bit of the batch. The classic coordinator uses only this bit.
    """
    parsed = records.where("type in (0, 1) and value is not null").withColumn("parsed", F.from_json("json", JSON))
    data = F.col("parsed.value.data")
    return parsed.select(
        *KEY,
        "producer_id",
        data["offset"].alias("committed_offset"),
        F.coalesce(data["leaderEpoch"], F.lit(-1)).alias("leader_epoch"),
        data["metadata"].alias("metadata"),
        data["commitTimestamp"].alias("commit_timestamp_ms"),
        F.nullif(data["expireTimestamp"], F.lit(-1)).alias("expire_timestamp_ms"),
        data["topicId"].alias("topic_id"),
        F.col("offset").alias("record_offset"),
    )


def select_markers(records: DataFrame) -> DataFrame:
    """Return the ends of transactions. Producer epochs are not compared, and other control records are ignored."""
    ends = records.where("control in ('commit', 'abort')")
    return ends.select("partition", "producer_id", "control", F.col("offset").alias("record_offset"))


def select_tombstones(records: DataFrame) -> DataFrame:
    """Return the offset records without a value. A tombstone applies immediately, even inside a transaction."""
    return records.where("type in (0, 1) and value is null").select(*KEY, F.col("offset").alias("record_offset"))


def add_fate(commits: DataFrame, markers: DataFrame) -> DataFrame:
    """Add the column `fate` to commits: `commit` or `abort`, as in the producer's next marker.

    The fate is null if no marker follows. A commit without a producer has the fate `commit`. Transactional commits and
    markers are put into one table, in the order of the log. Then a window finds the first marker of the same producer
    after each commit.
    """
    plain = commits.where("producer_id is null").withColumn("fate", F.lit("commit"))
    transactional = commits.where("producer_id is not null").unionByName(markers, allowMissingColumns=True)
    producer_window = Window.partitionBy("partition", "producer_id").orderBy("record_offset")
    following_rows = producer_window.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    next_marker = F.first("control", ignorenulls=True).over(following_rows)
    decided = transactional.withColumn("fate", next_marker).where("control is null")
    return plain.unionByName(decided.drop("control"))


def find_newest_commits(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Return each key's newest commit, unless a tombstone of the key is newer.

    The change whose record has the largest offset is the newest change. The position of the marker has no influence: a
    tombstone deletes each commit that was written before the tombstone, even if the commit's marker comes later.
    """
    changes = decided.where("fate = 'commit'").unionByName(tombstones, allowMissingColumns=True)
    return _take_last_change(changes, *KEY).where("committed_offset is not null")


def find_pending_commits(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """For each key and producer, return the newest commit without a marker, unless a tombstone of the key is newer."""
    deleted = tombstones.groupBy(*KEY).agg(F.max("record_offset").alias("deleted_at"))
    undecided = _take_last_change(decided.where("fate is null"), *KEY, "producer_id").join(deleted, list(KEY), "left")
    return undecided.where("deleted_at is null or record_offset > deleted_at").drop("deleted_at")


def _take_last_change(commits: DataFrame, *key: str) -> DataFrame:
    """Return, by key, the content of the record with the largest offset. Spark can merge partial results of this."""
    last = F.max_by(F.struct(*COMMITTED), "record_offset").alias("last")
    return commits.groupBy(*key).agg(last).select(*key, "last.*")


def find_known_groups(records: DataFrame) -> DataFrame:
    """Return the groups that have a value (of a group record) or a commit after their last group tombstone.

    So a group tombstone hides a group and its offsets until the next value. The offsets are not deleted: the next value
    shows the group and its offsets again. If a group's newest group record has a value, the value describes the group.
    If the newest group record is a tombstone or does not exist, the group is a simple group: Empty, with generation 0.
    """
    group_offset = F.when(F.col("type") == 2, F.col("offset"))
    is_value = F.col("value").isNotNull()
    parsed = records.where("type in (0, 1, 2)").withColumn("data", F.from_json("json", JSON)["value"]["data"])
    groups = parsed.groupBy("partition", "group").agg(
        F.max(F.when(is_value, F.col("offset"))).alias("last_value_offset"),
        F.max(F.when(~is_value, group_offset)).alias("last_tombstone_offset"),
        F.max_by(F.when(group_offset.isNotNull(), F.col("data")), group_offset).alias("data"),
    )
    members = F.coalesce(F.size(F.array_distinct("data.members")), F.lit(0))  # A record can contain a member twice.
    return groups.where("last_value_offset > coalesce(last_tombstone_offset, -1)").select(
        "partition",
        "group",
        F.when(members > 0, "Stable").otherwise("Empty").alias("state"),
        F.coalesce("data.protocolType", F.lit("")).alias("protocol_type"),
        F.when(members > 0, F.col("data.protocol")).otherwise("").alias("protocol"),
        F.coalesce("data.generation", F.lit(0)).alias("generation"),
        F.coalesce("data.leader", F.get("data.members", F.lit(0))["memberId"]).alias("leader"),
        members.alias("members"),
    )


def keep_known_groups(offsets: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the offsets of known groups, with the columns of table `offsets` or `pending`."""
    table = "pending" if "producer_id" in offsets.columns else "offsets"
    known = offsets.join(groups, ["partition", "group"], "left_semi")
    times = {name: _timestamp(F.col(f"{name}_ms")) for name in ("commit_timestamp", "expire_timestamp")}
    return known.withColumns(times).select(*(column.name for column in columns_of(table)))


def _timestamp(ms: Column) -> Column:
    return F.when((ms >= FIRST_MS) & (ms < END_MS), F.timestamp_millis(ms))
