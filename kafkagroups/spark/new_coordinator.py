"""The load of the new coordinator as steps on DataFrames. This module is written for readers, not for speed.

    records ─┬▶ commits ──▶ decided ─┬▶ newest commits ──┬▶ offsets
             ├▶ markers ──────┘      └▶ pending commits ─┼▶ pending
             ├▶ tombstones ─ (to newest and pending) ─▶  │
             └▶ known groups ────────────────────────────┴▶ groups

`records` is the table of all records in the log. A marker is the control record that commits or aborts a transaction.
`decided` contains the commits with the column `fate`: whether the marker of the commit's transaction commits or aborts.
These are not the fates of `explain`. Each step is a function, and the docstring of the function has the rule. Every
rule is about one log partition. So `partition` is part of every key, and the steps can read many logs together.

The steps read only the record types 0 to 2. The record types 3 to 23 belong to the groups of newer protocols and would
need about as many rules again. If a broker's load of a log would fail, the steps give no valid result for this log. The
table `partitions` (tables.py) says for which logs the load would fail.

Why Spark can divide the work of `find_newest_commits`: the newest change of a key decides. A change is a commit or a
tombstone, and the newest change is the change whose record has the largest offset. Spark can divide the records into
parts, compute the newest change in each part, and then the newest of these changes.

The steps cannot follow the classic coordinator, because its answer depends on where the marker stands. A commit marker
stores a pending commit unless the committed offset comes from a later batch, and a tombstone outside a transaction
deletes the committed offset only. So with a pending commit, a plain commit and a tombstone in this order, the pending
commit is the answer if its marker comes last, and there is none if the marker comes before the tombstone. No maximum
over the records can distinguish the two cases, so one task loads a whole log partition in the data source (source.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, functions as F

from kafkagroups.loading.columns import MIN_TIMESTAMP_MS, TIMESTAMP_END_MS, columns_of

JSON = """value struct<data struct<offset: long, leaderEpoch: int, metadata: string, commitTimestamp: long,
    expireTimestamp: long, topicId: string, protocolType: string, generation: int, protocol: string, leader: string,
    members: array<struct<memberId: string>>>>"""

KEY = ("partition", "group", "topic", "topic_partition")
"""The columns of the key of a committed offset. A record of type 0 and a record of type 1 can have the same key."""

COMMITTED = (
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "record_offset",
)


@dataclass(frozen=True)
class AnswerTables:
    """The result of the steps. `groups` has only the columns of the table `groups` that can be read from records."""

    offsets: DataFrame
    pending: DataFrame
    groups: DataFrame


def compute_answer(records: DataFrame) -> AnswerTables:
    """Return what a broker would answer after loading these records."""
    decided = add_fate(select_commits(records), select_markers(records))
    tombstones = select_tombstones(records)
    groups = find_known_groups(records)
    offsets = keep_known_groups(find_newest_commits(decided, tombstones), groups)
    pending = keep_known_groups(find_pending_commits(decided, tombstones), groups)
    return AnswerTables(offsets, pending, groups)


def select_commits(records: DataFrame) -> DataFrame:
    """Return the commits: the offset records with a value. A commit is transactional if its batch has a producer id.

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
    """Return the markers. Producer epochs are not compared, and other control records are ignored."""
    markers = records.where("control in ('commit', 'abort')")
    return markers.select("partition", "producer_id", "control", F.col("offset").alias("record_offset"))


def select_tombstones(records: DataFrame) -> DataFrame:
    """Return the tombstones: the offset records without a value.

    In the new coordinator, a tombstone deletes the offset immediately, even inside a transaction.
    """
    return records.where("type in (0, 1) and value is null").select(*KEY, F.col("offset").alias("record_offset"))


def add_fate(commits: DataFrame, markers: DataFrame) -> DataFrame:
    """Return the commits with the column `fate`: "commit" or "abort", as in the producer's next marker.

    The fate is null if no marker follows. A commit without a producer has the fate "commit". A window over the commits
    and the markers finds the first marker of the same producer after each commit.
    """
    without_transaction = commits.where("producer_id is null").withColumn("fate", F.lit("commit"))
    transactional = commits.where("producer_id is not null").unionByName(markers, allowMissingColumns=True)
    producer_window = Window.partitionBy("partition", "producer_id").orderBy("record_offset")
    following_rows = producer_window.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    next_marker = F.first("control", ignorenulls=True).over(following_rows)
    decided = transactional.withColumn("fate", next_marker).where("control is null")
    return without_transaction.unionByName(decided.drop("control"))


def find_newest_commits(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Return each key's newest commit whose fate is "commit". Leave out a key if one of its tombstones is newer.

    The newest change is the change whose record has the largest offset. So a tombstone deletes each commit that was
    written before the tombstone, even if the commit's marker comes later.
    """
    changes = decided.where("fate = 'commit'").unionByName(tombstones, allowMissingColumns=True)
    return _take_newest_change(changes, *KEY).where("committed_offset is not null")


def find_pending_commits(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Return, for each key and producer, the newest commit without a marker.

    Leave out a commit if a tombstone of its key is newer.
    """
    last_tombstones = tombstones.groupBy(*KEY).agg(F.max("record_offset").alias("tombstone_offset"))
    undecided = _take_newest_change(decided.where("fate is null"), *KEY, "producer_id")
    with_tombstones = undecided.join(last_tombstones, list(KEY), "left")
    is_not_deleted = "tombstone_offset is null or record_offset > tombstone_offset"
    return with_tombstones.where(is_not_deleted).drop("tombstone_offset")


def _take_newest_change(changes: DataFrame, *key: str) -> DataFrame:
    newest = F.max_by(F.struct(*COMMITTED), "record_offset").alias("newest")
    return changes.groupBy(*key).agg(newest).select(*key, "newest.*")


def find_known_groups(records: DataFrame) -> DataFrame:
    """Return the known groups: the groups that exist after the load, with their state.

    A group exists if it has a group record with a value, or a commit, after its last group tombstone (a group record
    without a value). A group tombstone does not delete the offsets of the group. If the group exists again later, its
    old offsets are visible again.

    If the newest group record has a value, this value describes the group. If the newest group record is a tombstone or
    does not exist, the group is a simple group: a group with offsets, in the state Empty, with generation 0.
    """
    group_record_offset = F.when(F.col("type") == 2, F.col("offset"))
    has_value = F.col("value").isNotNull()
    parsed = records.where("type in (0, 1, 2)").withColumn("data", F.from_json("json", JSON)["value"]["data"])
    groups = parsed.groupBy("partition", "group").agg(
        F.max(F.when(has_value, F.col("offset"))).alias("last_value_offset"),
        F.max(F.when(~has_value, group_record_offset)).alias("last_tombstone_offset"),
        F.max_by(F.when(group_record_offset.isNotNull(), F.col("data")), group_record_offset).alias("data"),
    )
    # A record can contain a member twice.
    member_count = F.coalesce(F.size(F.array_distinct("data.members")), F.lit(0))
    return groups.where("last_value_offset > coalesce(last_tombstone_offset, -1)").select(
        "partition",
        "group",
        F.when(member_count > 0, "Stable").otherwise("Empty").alias("state"),
        F.coalesce("data.protocolType", F.lit("")).alias("protocol_type"),
        F.when(member_count > 0, F.col("data.protocol")).otherwise("").alias("protocol"),
        F.coalesce("data.generation", F.lit(0)).alias("generation"),
        F.coalesce("data.leader", F.get("data.members", F.lit(0))["memberId"]).alias("leader"),
        member_count.alias("members"),
    )


def keep_known_groups(offsets: DataFrame, groups: DataFrame) -> DataFrame:
    table = "pending" if "producer_id" in offsets.columns else "offsets"
    known = offsets.join(groups, ["partition", "group"], "left_semi")
    times = {name: _to_timestamp(F.col(f"{name}_ms")) for name in ("commit_timestamp", "expire_timestamp")}
    return known.withColumns(times).select(*(column.name for column in columns_of(table)))


def _to_timestamp(time_ms: Column) -> Column:
    return F.when((time_ms >= MIN_TIMESTAMP_MS) & (time_ms < TIMESTAMP_END_MS), F.timestamp_millis(time_ms))
