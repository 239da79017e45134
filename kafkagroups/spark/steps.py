"""The load as data-frame steps, to be read: what the new coordinator answers, out of the table `records`.

    records ─┬▶ commits ──▶ with_fate ─┬─▶ newest ──┬▶ offsets
             ├▶ markers ───────┘       └─▶ waiting ─┼▶ pending
             ├▶ tombstones ─────── (to both) ──▶    │
             └▶ known_groups ───────────────────────┴▶ groups

Each step is a function that states its rule. All rules hold inside one log partition, so `partition` is part of every
key, and many logs can go through the steps at once. Record types 0 to 2 only: the newer groups (types 3 to 23) have as
many rules again. A log whose load fails on a broker has no answer here either; table `partitions` names it.

Why `newest` may be split. What is committed for a key in the end is the newest of its changes, commits and tombstones
alike, by the offset of their own records. Of two changes the older one can be dropped before a third is known, and in
any order: a maximum is mergeable. Spark takes it of every part of the records, sends those on and takes the maximum of
the maxima. Only which transactions were committed has to be known before.

Why the classic coordinator needs an order. Its commit marker puts a pending commit where nothing is, or where what is
there comes from an older batch (it compares the batches' base offsets); its tombstones take the committed offset and
leave pending ones alone, inside a transaction they take that producer's pending one and leave the committed one alone.
Take a pending commit, a plain one and a tombstone, in this order. If the pending one's marker comes last, nothing is
there when it is decided: it is the answer. If the marker comes before the tombstone, the plain commit is newer and
stays, the tombstone takes it, and there is no answer. The same records: it hangs on where the marker stands, and no
maximum over the records can tell. It is a fold in the order of the log, and so a task owns a whole log partition
(source.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, functions as F

from kafkagroups.tables.columns import END_MS, FIRST_MS, columns_of

JSON = """value struct<data struct<offset: long, leaderEpoch: int, metadata: string, commitTimestamp: long,
    expireTimestamp: long, topicId: string, protocolType: string, generation: int, protocol: string, leader: string,
    members: array<struct<memberId: string>>>>"""
"""What the steps read of Kafka's JSON of a record."""

KEY = ("partition", "group", "topic", "topic_partition")
"""Whose offset it is. Key types 0 and 1 mean the same."""

COMMITTED = (
    "committed_offset", "leader_epoch", "metadata", "commit_timestamp_ms", "expire_timestamp_ms", "topic_id",
    "record_offset",
)  # fmt: skip
"""What a commit says, and where it stands."""


@dataclass(frozen=True)
class Answer:
    """The tables `offsets` and `pending`, and of `groups` what their records say."""

    offsets: DataFrame
    pending: DataFrame
    groups: DataFrame


def answer(records: DataFrame) -> Answer:
    """All steps together."""
    decided, dead, groups = with_fate(commits(records), markers(records)), tombstones(records), known_groups(records)
    return Answer(shown(newest(decided, dead), groups), shown(waiting(decided, dead), groups), groups)


def commits(records: DataFrame) -> DataFrame:
    """Offset records with a value. A batch with a producer id makes its commits transactional.

    That is the new coordinator's rule, whatever the batch's transactional bit says; the classic one goes by the bit.
    """
    said = records.where("type in (0, 1) and value is not null").withColumn("said", F.from_json("json", JSON))
    data = F.col("said.value.data")
    return said.select(
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
    """Where transactions end. Epochs are not compared, and other control records (KRaft's) end none."""
    ends = records.where("control in ('commit', 'abort')")
    return ends.select("partition", "producer_id", "control", F.col("offset").alias("record_offset"))


def tombstones(records: DataFrame) -> DataFrame:
    """Offset records without a value. They act at once, also inside a transaction: no marker is asked."""
    return records.where("type in (0, 1) and value is null").select(*KEY, F.col("offset").alias("record_offset"))


def with_fate(commits: DataFrame, markers: DataFrame) -> DataFrame:
    """Adds `fate`: `commit` or `abort`, what the next marker of the producer says; null as long as there is none.

    A commit without a producer is committed as it is written. The join of each transactional commit with the first
    marker behind it is a window: both in one table, in the order of the log, and from each commit a look ahead.
    """
    plain = commits.where("producer_id is null").withColumn("fate", F.lit("commit"))
    both = commits.where("producer_id is not null").unionByName(markers, allowMissingColumns=True)
    ahead = Window.partitionBy("partition", "producer_id").orderBy("record_offset")
    ahead = ahead.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    decided = both.withColumn("fate", F.first("control", ignorenulls=True).over(ahead)).where("control is null")
    return plain.unionByName(decided.drop("control"))


def newest(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Of each key the newest change, by its own record's offset; where that is a tombstone, nothing is committed.

    The marker's place does not count: a commit that was written before a tombstone is dead, though its marker follows.
    """
    changes = decided.where("fate = 'commit'").unionByName(tombstones, allowMissingColumns=True)
    return _last(changes, *KEY).where("committed_offset is not null")


def waiting(decided: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Commits without a marker: of each key and producer the newest, unless a tombstone of the key is newer."""
    dead = tombstones.groupBy(*KEY).agg(F.max("record_offset").alias("dead"))
    still = _last(decided.where("fate is null"), *KEY, "producer_id").join(dead, list(KEY), "left")
    return still.where("dead is null or record_offset > dead").drop("dead")


def _last(commits: DataFrame, *key: str) -> DataFrame:
    """The mergeable aggregate: of each key what its record with the largest offset says."""
    last = F.max_by(F.struct(*COMMITTED), "record_offset").alias("last")
    return commits.groupBy(*key).agg(last).select(*key, "last.*")


def known_groups(records: DataFrame) -> DataFrame:
    """Groups with a value behind their last group tombstone: a group's own, or a commit's, whatever became of it.

    So a group tombstone hides a group with its offsets, which stay, until the next value shows both again. A group
    whose newest group record is a value is what that says; another one is simple: Empty, of generation 0.
    """
    own = F.when(F.col("type") == 2, F.col("offset"))
    is_value = F.col("value").isNotNull()
    told = records.where("type in (0, 1, 2)").withColumn("said", F.from_json("json", JSON)["value"]["data"])
    groups = told.groupBy("partition", "group").agg(
        F.max(F.when(is_value, F.col("offset"))).alias("shown"),
        F.max(F.when(~is_value, own)).alias("hidden"),
        F.max_by(F.when(own.isNotNull(), F.col("said")), own).alias("said"),
    )
    members = F.coalesce(F.size(F.array_distinct("said.members")), F.lit(0))  # one may stand twice
    return groups.where("shown > coalesce(hidden, -1)").select(
        "partition",
        "group",
        F.when(members > 0, "Stable").otherwise("Empty").alias("state"),
        F.coalesce("said.protocolType", F.lit("")).alias("protocol_type"),
        F.when(members > 0, F.col("said.protocol")).otherwise("").alias("protocol"),
        F.coalesce("said.generation", F.lit(0)).alias("generation"),
        F.coalesce("said.leader", F.get("said.members", F.lit(0))["memberId"]).alias("leader"),
        members.alias("members"),
    )


def shown(offsets: DataFrame, groups: DataFrame) -> DataFrame:
    """Of the groups that are known, in the columns of tables `offsets` and `pending`, with the times for people."""
    table = "pending" if "producer_id" in offsets.columns else "offsets"
    known = offsets.join(groups, ["partition", "group"], "left_semi")
    times = {name: _calendar(F.col(f"{name}_ms")) for name in ("commit_timestamp", "expire_timestamp")}
    return known.withColumns(times).select(*(column.name for column in columns_of(table)))


def _calendar(ms: Column) -> Column:
    return F.when((ms >= FIRST_MS) & (ms < END_MS), F.timestamp_millis(ms))
