"""The load as data-frame steps, written to be read: the new coordinator's answer, computed from table `records`.

    records ─┬▶ commits ──▶ with_fate ─┬─▶ newest ──┬▶ offsets
             ├▶ markers ───────┘       └─▶ pending ─┼▶ pending
             ├▶ tombstones ─────── (to both) ──▶    │
             └▶ known_groups ───────────────────────┴▶ groups

Each step is a function that states its rule. All rules hold inside one log partition, so `partition` is part of every
key, and many logs can go through the steps together. The steps read record types 0 to 2 only; the newer groups (types 3
to 23) have about as many rules again. A log whose load fails on a broker has no answer here either; table `partitions`
names it.

Why `newest` can be split. The committed offset of a key is its newest change: the commit or tombstone whose own record
has the largest offset. Of two changes, the older one can be dropped before a third one is read, in any order. In other
words, a maximum is mergeable. Spark computes the maximum of each part of the records, sends these on, and computes the
maximum of the maxima. Only the transactions' outcomes must be known before.

Why the classic coordinator needs an order. Its commit marker stores a pending commit if there is no offset yet, or if
the stored one comes from an older batch. It compares the base offsets of the batches. Its tombstones delete the
committed offset and leave pending commits alone. A tombstone inside a transaction deletes the pending commit of its
producer and leaves the committed offset alone.

As an example, take a pending commit, a plain commit and a tombstone, in this order. If the marker of the pending commit
comes last, no offset is stored when the marker is read, so the pending commit is the answer. If the marker comes before
the tombstone, the plain commit is newer and stays. The tombstone then deletes it, and there is no answer. The records
are the same in both cases: the answer depends on the position of the marker, and no maximum over the records gives it.
The classic rule is a fold in the order of the log, so one task owns a whole log partition (source.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, functions as F

from kafkagroups.tables.columns import END_MS, FIRST_MS, columns_of

JSON = """value struct<data struct<offset: long, leaderEpoch: int, metadata: string, commitTimestamp: long,
    expireTimestamp: long, topicId: string, protocolType: string, generation: int, protocol: string, leader: string,
    members: array<struct<memberId: string>>>>"""
"""The fields of a record's JSON that the steps read."""

KEY = ("partition", "group", "topic", "topic_partition")
"""The key of an offset. Key types 0 and 1 mean the same."""

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


def answer(records: DataFrame) -> AnswerTables:
    """Run all steps."""
    decided = with_fate(commits(records), markers(records))
    deletions = tombstones(records)
    groups = known_groups(records)
    offsets = of_known_groups(newest(decided, deletions), groups)
    pending_offsets = of_known_groups(pending(decided, deletions), groups)
    return AnswerTables(offsets, pending_offsets, groups)


def commits(records: DataFrame) -> DataFrame:
    """Return the offset records with a value. In a batch with a producer id, commits are transactional.

    The new coordinator ignores the transactional bit of the batch; the classic coordinator uses only the bit.
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


def markers(records: DataFrame) -> DataFrame:
    """Return the ends of transactions. Epochs are not compared; other control records (KRaft's) end no transaction."""
    ends = records.where("control in ('commit', 'abort')")
    return ends.select("partition", "producer_id", "control", F.col("offset").alias("record_offset"))


def tombstones(records: DataFrame) -> DataFrame:
    """Return the offset records without a value. They apply immediately, even inside a transaction."""
    return records.where("type in (0, 1) and value is null").select(*KEY, F.col("offset").alias("record_offset"))


def with_fate(commits: DataFrame, markers: DataFrame) -> DataFrame:
    """Add `fate`: `commit` or `abort`, as in the producer's next marker; null if there is no later marker.

    A commit without a producer is committed when it is written. A window joins each transactional commit with the first
    marker after it. Both are in one table, in the order of the log. Each commit looks ahead to the next marker.
    """
    plain = commits.where("producer_id is null").withColumn("fate", F.lit("commit"))
    both = commits.where("producer_id is not null").unionByName(markers, allowMissingColumns=True)
    in_order = Window.partitionBy("partition", "producer_id").orderBy("record_offset")
    ahead = in_order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    decided = both.withColumn("fate", F.first("control", ignorenulls=True).over(ahead)).where("control is null")
    return plain.unionByName(decided.drop("control"))


def newest(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Return each key's newest change, by the offset of the change's record, unless that change is a tombstone.

    The marker's position does not count: a tombstone deletes a commit that was written before it, even if the commit's
    marker follows the tombstone.
    """
    changes = decided.where("fate = 'commit'").unionByName(tombstones, allowMissingColumns=True)
    return _last(changes, *KEY).where("committed_offset is not null")


def pending(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Return the newest commit without a marker of each key and producer, unless a tombstone of the key is newer."""
    deleted = tombstones.groupBy(*KEY).agg(F.max("record_offset").alias("deleted_at"))
    undecided = _last(decided.where("fate is null"), *KEY, "producer_id").join(deleted, list(KEY), "left")
    return undecided.where("deleted_at is null or record_offset > deleted_at").drop("deleted_at")


def _last(commits: DataFrame, *key: str) -> DataFrame:
    """Return the content of each key's record with the largest offset: the mergeable aggregate."""
    last = F.max_by(F.struct(*COMMITTED), "record_offset").alias("last")
    return commits.groupBy(*key).agg(last).select(*key, "last.*")


def known_groups(records: DataFrame) -> DataFrame:
    """Return the groups that have a value after their last group tombstone: a group record or any commit.

    So a group tombstone hides a group and its offsets until the next value shows both again; the offsets themselves
    remain. If a group's newest group record is a value, that value describes the group. If not, the group is a simple
    group: Empty, with generation 0.
    """
    own = F.when(F.col("type") == 2, F.col("offset"))
    is_value = F.col("value").isNotNull()
    parsed = records.where("type in (0, 1, 2)").withColumn("data", F.from_json("json", JSON)["value"]["data"])
    groups = parsed.groupBy("partition", "group").agg(
        F.max(F.when(is_value, F.col("offset"))).alias("shown"),
        F.max(F.when(~is_value, own)).alias("hidden"),
        F.max_by(F.when(own.isNotNull(), F.col("data")), own).alias("data"),
    )
    members = F.coalesce(F.size(F.array_distinct("data.members")), F.lit(0))  # A member can be listed twice.
    return groups.where("shown > coalesce(hidden, -1)").select(
        "partition",
        "group",
        F.when(members > 0, "Stable").otherwise("Empty").alias("state"),
        F.coalesce("data.protocolType", F.lit("")).alias("protocol_type"),
        F.when(members > 0, F.col("data.protocol")).otherwise("").alias("protocol"),
        F.coalesce("data.generation", F.lit(0)).alias("generation"),
        F.coalesce("data.leader", F.get("data.members", F.lit(0))["memberId"]).alias("leader"),
        members.alias("members"),
    )


def of_known_groups(offsets: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the offsets of known groups, in the columns of tables `offsets` or `pending`, with readable times."""
    table = "pending" if "producer_id" in offsets.columns else "offsets"
    known = offsets.join(groups, ["partition", "group"], "left_semi")
    times = {name: _timestamp(F.col(f"{name}_ms")) for name in ("commit_timestamp", "expire_timestamp")}
    return known.withColumns(times).select(*(column.name for column in columns_of(table)))


def _timestamp(ms: Column) -> Column:
    return F.when((ms >= FIRST_MS) & (ms < END_MS), F.timestamp_millis(ms))
