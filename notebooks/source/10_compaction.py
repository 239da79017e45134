# %% [markdown]
# # 10 · Compaction
#
# **Why does the topic stay small, and when does it not?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which records a cleaning pass keeps, and by which rule; find what stops the cleaner; say whether cleaning can change an answer | {{minutes}} | no |
#
# ![A pass keeps the newest record of each key in the closed segments, offsets 3, 4 and 5, and leaves the active segment unchanged.](pictures/10.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The [**cleaner**](../docs/handbook/glossary.md#cleaner) is a thread of the broker. In one [*pass*](../docs/handbook/glossary.md#pass) over a partition, the cleaner copies the records that remain into new segments. Each record keeps its offset.
# 2. The **newest record of each key** remains. Older records of the key no longer change an answer.
# 3. The cleaner does not change the [**active segment**](../docs/handbook/glossary.md#active-segment). It also stops at an **open transaction**.
# 4. For every log that brokers write, a pass changes no answer of Kafka 4.x. Without passes, the log only takes longer to load.

# %% [markdown]
# ## The log of a dashboard
#
# The group `dashboard` committed 300 times. In the same partition, another group was deleted, and a third group committed in ten transactions. Then the cleaner of a 4.3.1 broker made one pass. These are the segments before this pass:

# %%
from datetime import UTC, datetime
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

before = course.find_data("harbour/cleaning/before-clean/__consumer_offsets-38")
cleaned = course.find_data("harbour/cleaning/after-clean/__consumer_offsets-38")

for segment in kg.open_log(before).segments:
    print(Path(segment).name, f"{Path(segment).stat().st_size:>6,} bytes")
print("records:", sum(batch.count for batch in kg.open_log(before)))

# %% [markdown]
# The last segment is the *active* one: the broker still appends to it. At 100 MB (`offsets.topic.segment.bytes`), the broker closes it and begins a new one. Here, this limit was much lower.
#
# The three closed segments have records of seven different keys: six offsets and one group. The active segment has one record, a commit for `orders-0` of `dashboard`. The closed segments have this key, too.
#
# *Predict*: how many records remain after the pass, if you do not count the markers of transactions?

# %%
# prediction
records_left = ...

# %%
course.reveal("records_left", records_left, len(course.list_offset_map_records(cleaned)))

# %% [markdown]
# <details><summary>Why?</summary>
#
# Of each key, the newest record in the closed segments remains. These are seven records. The cleaner did not touch the record in the active segment, so it is the eighth one. Ten markers remain, too. A later section shows why.
#
# </details>
#
# ## The dirty range and the offset map
#
# A pass works on a part of the log:
#
# ```
#  log start        first dirty offset               end of the pass        log end
#     │   clean part       │        dirty range             │   not touched     │
#     └────────────────────┴────────────────────────────────┴───────────────────┘
# ```
#
# - An earlier pass cleaned the **clean part**. The *first dirty offset* is the first offset after the clean part. The broker stores this number in the file `cleaner-offset-checkpoint`.
# - The [**dirty range**](../docs/handbook/glossary.md#dirty-range) contains the records that were appended after the earlier pass.
# - The pass ends where the active segment begins. An open transaction can end the pass earlier.

# %% [markdown]
# A pass has two steps:
#
# 1. The cleaner reads the dirty range and fills the [**offset map**](../docs/handbook/glossary.md#offset-map). For each key in the dirty range, the map has the offset of the newest record.
# 2. The cleaner reads the clean part and the dirty range. It copies a record unless the map has a newer offset for the key of the record.
#
# ```
#  offset      0     1     2   ║   3     4     5   ║   6
#  before    │ A=1 │ B=1 │ C=1 ║   A=2 │ D=1 │ A=3 ║   B=2
#              clean part      ║   dirty range     ║   active segment
#
#  the offset map    A → 5, D → 4
#  after             B=1 │ C=1 │ D=1 │ A=3 ║ B=2
# ```
#
# The records at 0 and 3 are removed, because the map has a newer offset for A. C is not in the map, so `C=1` remains. B is not in the map, because the cleaner does not read the active segment. So `B=1` remains, although `B=2` is newer.

# %% [markdown]
# The cleaner does not decode keys. It compares their bytes. It only checks whether a record has a value or is a tombstone.
#
# Records of aborted transactions are never in the map, and a pass removes them. Markers are never in the map, either.

# %% [markdown]
# ## Exercise: what remains
#
# Write `survivors(records, active_offset)`. `records` is a list of `(offset, key, value)`, and the active segment begins at `active_offset`. All records before `active_offset` are in the dirty range, so there is no clean part. Return the list of the offsets that remain after one pass. A tombstone has the value `None`. Treat it like every other record.

# %%
# exercise: survivors
def survivors(records, active_offset):
    ...

# %%
course.check("survivors", survivors)
# course.hint("survivors")

# %% [markdown]
# ## What remained of the dashboard
#
# These records remained after the pass of the broker's cleaner. Markers are left out:

# %%
for offset, key, value in course.list_offset_map_records(cleaned):
    record = kg.decode(key, value)
    name = f"{record.key.topic}-{record.key.partition}" if record.type == 1 else "the group"
    print(f"offset {offset}: {record.key.group}, {name}{' (tombstone)' if value is None else ''}")

# %% [markdown]
# The records 493 and 498 have the same key, because record 498 is in the active segment.
#
# Three of the eight records are tombstones. Why are they still there?

# %% [markdown]
# ## Why a tombstone stays for a day
#
# A replica that is behind may have the value and not yet the tombstone. If the leader removed the tombstone now, this replica would keep the value forever. So a tombstone stays for `delete.retention.ms`, one day by default.
#
# - The first pass that reads the tombstone keeps it. This pass also sets a [**delete horizon**](../docs/handbook/glossary.md#delete-horizon): the time of the pass plus `delete.retention.ms`.
# - The first later pass at or after the horizon removes the tombstone. The horizon never changes.
#
# On this broker, `delete.retention.ms` was only 2 seconds. Here is the horizon of record 323, before and after the pass:

# %%
for path in (before, cleaned):
    batch = next(batch for batch in kg.open_log(path) if batch.base_offset == 323)
    horizon = batch.delete_horizon_ms
    time = "none" if horizon is None else f"{datetime.fromtimestamp(horizon / 1000, UTC):%H:%M:%S}"
    print(f"attributes of the batch: {batch.attributes:#04x}, delete horizon: {time}")

# %% [markdown]
# <details><summary>Where does the broker store the horizon?</summary>
#
# The header of a batch has no field for the horizon. The cleaner sets bit 6 of the attributes (`0x40`). Then the field of the base timestamp contains the horizon.
#
# </details>

# %% [markdown]
# ## Exercise: when is a tombstone removed? On paper
#
# `delete.retention.ms` is 24 hours. A tombstone is written at hour 0. The cleaner runs at the hours 10, 20, 34 and 50. Which pass removes the tombstone? Write 1 for the first pass, 2 for the second, and so on.

# %%
# exercise: removing_pass
removing_pass = ...

# %%
course.check("removing_pass", removing_pass)
# course.hint("removing_pass")

# %% [markdown]
# ## Three passes
#
# `kg.compact` makes one pass over one partition. Here it repeats three passes of the 4.3.1 broker. We have the broker's files after pass 1 and after pass 3:

# %%
course.compare_cleaned_files(course.repeat_cleaner_passes(course.make_scratch_folder()))

# %% [markdown]
# The figure shows three passes over a smaller log, one square for each record. Step through the passes. Then let the active segment begin earlier, or leave the transaction open:

# %%
# figure
course.Compaction()

# %% [markdown]
# ## Why a marker stays longest
#
# A load needs the marker as long as the log has a record of its transaction. So the marker stays at least that long. When newer records have replaced **all** records of the transaction, the marker is removed in three passes:
#
# 1. The first pass removes the transaction's last record. The marker remains.
# 2. The second pass finds no record of the transaction, and sets the marker's delete horizon.
# 3. A third pass at or after the horizon removes the marker.
#
# <details><summary>What else can remain?</summary>
#
# The header of a producer's last batch stays, even if a pass removes all records of this batch. It is then an *empty batch* of 61 bytes. The header contains a sequence number. With this number, a broker recognises a batch that the producer sends twice.
#
# </details>

# %% [markdown]
# ## An open transaction stops the cleaner
#
# The [*last stable offset*](../docs/handbook/glossary.md#last-stable-offset) is the offset at which the first open transaction begins. Without an open transaction, it is the log end. The cleaner does not go beyond this offset, because it cannot find out whether the transaction will be committed. A pass cleans only whole segments. So the pass leaves out the segment with the last stable offset and all later segments.
#
# Here is the log of `dashboard` in smaller segments. One record was added at the end: it begins a transaction that never ends:

# %%
log = course.write_log_with_hanging_transaction(course.make_scratch_folder())
count = kg.stats(log).partitions[None]

print("segments begin at", *[int(Path(segment).stem) for segment in kg.open_log(log).segments])
print("last stable offset:", count.last_stable_offset, "  log end:", count.next_offset)
print(f"{count.bytes:,} bytes, of which {count.uncleanable_bytes:,} cannot be cleaned")

# %% [markdown]
# *Predict*: at which offset does a pass over this log end? The pass cleans all records before this offset.

# %%
# prediction
pass_ends_at = ...

# %%
with course.fold("pass_ends_at", pass_ends_at):
    ended = course.abort_transaction(log, producer_id=count.open_transactions[0].producer_id)
    stopped, whole = (kg.compact(each, course.make_scratch_folder()) for each in (log, ended))
    course.reveal("pass_ends_at", pass_ends_at, stopped.next_dirty_offset)
    print(f"{stopped.after.bytes:,} bytes remain. After an abort of the transaction, {whole.after.bytes:,} bytes remain.")

# %% [markdown]
# ## How large is the topic?
#
# A broker does not clean all the time. It cleans a partition if more than half of the bytes before the active segment are in the dirty range (`min.cleanable.dirty.ratio`, 0.5 by default). Here are two replicas of one partition with 50 groups. On the second broker, the cleaner thread is dead:

# %%
replicas = course.make_scratch_folder()
print("records   cleaned replica           never cleaned")
for grown in list(course.grow_replicas(replicas))[1::2]:
    sizes = round(grown.bytes_after_pass / 1000), round(grown.never_cleaned_bytes / 1000)
    bars = ["█" * -(-size // 90) for size in sizes]
    print(f"{grown.records:>7,}   {sizes[0]:>5} kB {bars[0]:<16} {sizes[1]:>5} kB {bars[1]}")

# %% [markdown]
# The size of the cleaned log depends on the number of **keys**. The other log grows with **time**. Do both logs give the same answers?

# %%
for name in ("cleaned", "never-cleaned"):
    groups = kg.load(replicas / name)
    offsets = [commit.offset for group in groups.values() for commit in group.offsets.values()]
    records = kg.stats(replicas / name).partitions[None].records
    print(f"{name:<14} {records:>6,} records, {len(offsets)} offsets, sum of all offsets {sum(offsets):,}")

# %% [markdown]
# The answers are equal.

# %% [markdown]
# ## Exercise: why does a partition grow?
#
# Three partitions of `__consumer_offsets` are larger than you expected:
#
# - **A** has 20 GB. All partitions of this broker grow. Their replicas on other brokers are small. The last stable offset is the log end.
# - **B** has 20 GB. Only this partition grows, on all its replicas. The record at the last stable offset is three weeks old.
# - **C** has 95 MB. All 50 partitions have about this size. Nearly all of their bytes are in the active segments.
#
# One of them has a hanging transaction and needs the abort command of lesson 08. Which one? Write the letter as a text.

# %%
# exercise: needs_an_abort
needs_an_abort = ...

# %%
course.check("needs_an_abort", needs_an_abort)
# course.hint("needs_an_abort")

# %% [markdown]
# ## Can cleaning change an answer?
#
# For every log that brokers write, cleaning changes no answer of the new coordinator. Tests with 2,000 random logs confirm this. But a cleaned log cannot show an earlier moment, because older records are gone.
#
# With the **classic** coordinator, cleaning changes an answer in one case: an offset was deleted while a transaction was open. Lesson 09 showed a similar log. Here are the answers of both coordinators, before and after a pass:

# %%
course.print_deletion_in_transaction()

# %% [markdown]
# Records 0 and 1 have the same key, so the pass removes record 0. Before the pass, the marker commits record 0 in a classic load. After the pass, there is nothing to commit. So two replicas can give different answers.
#
# <details><summary>A log that no broker writes</summary>
#
# Suppose that a log has the tombstone of a group, but no tombstones of its offsets. In the new coordinator, the group does not exist, and its offsets are hidden. The cleaner later removes the tombstone of the group, but not the offsets. Then the offsets are back. Brokers always write the tombstones of the offsets, too (lesson 09).
#
# </details>

# %% [markdown]
# ## Where the classic coordinator differs
#
# The cleaner belongs to the broker, not to the coordinator. So only answers can differ:
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | what a pass keeps | as in this lesson | since 3.1, as in this lesson |
# | an offset is deleted while a transaction is open | cleaning does not change the answer | cleaning can change the answer |
#
# <details><summary>Other versions</summary>
#
# Delete horizons exist since 3.1. Before 3.1, the waiting time of a tombstone began at the last modification of its segment's file. When the cleaner merged segments, the new file got the newest of their times, and the waiting time began again. So a tombstone could stay forever. Since 1.1, a cleaner that fails on one partition marks only this partition as uncleanable. Before 1.1, the whole cleaner thread died.
#
# </details>
#
# ## In five lines
#
# - A pass keeps the newest record of each key.
# - The offset map contains only keys of the dirty range. The active segment stays unchanged.
# - The first pass keeps a tombstone. A pass at least a day later removes it. A marker is removed at least two passes after the last record of its transaction.
# - An open transaction stops the cleaner at the start of the segment in which the transaction begins.
# - Cleaning a log that brokers wrote changes no answer of Kafka 4.x. A log that was never cleaned only takes longer to load.

# %% [markdown]
# ## For your consumer
#
# - A new group name for every run makes new keys. Their offsets stay for `offsets.retention.minutes`, 7 days. Use few, stable names.
# - Ten commits per second for one partition are 864,000 records per day. A pass leaves one of these records.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | One partition grows, on all replicas | `kafkagroups stats PATH` | It names the open transaction and the first offset that cannot be cleaned | If the transaction hangs, abort it as lesson 08 shows. The cleaner then begins by itself |
# | All partitions of one broker grow | `grep -i "log cleaner" log-cleaner.log`, and the metric `kafka.log:type=LogCleaner,name=DeadThreadCount` | The cleaner thread of this broker is dead | Restart this broker. Then the cleaner reads the whole dirty range twice, so the disk is busy. `log.cleaner.io.max.bytes.per.second` limits its speed |
# | One partition grows, on one replica | The metric `kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count` | After an error, the cleaner no longer cleans this partition | Read the error in `log-cleaner.log`. Restart the broker |
# | Which replica is large? | `kafka-log-dirs.sh --bootstrap-server localhost:9092 --describe --topic-list __consumer_offsets` | It prints the size of each replica | Reading is safe |
# | How small would the partition be? | `kafkagroups compact PATH --out CLEANED` | It writes the log that a pass leaves, and prints its size | Reading a copy is safe. Never put CLEANED into a broker's folder |
#
# <details><summary>Why not <code>cleanup.policy=delete</code>?</summary>
#
# With this policy, a broker deletes the oldest segments, even if they contain the newest offset of a group. You notice it only after the next load: the answer is −1. The topic must keep `cleanup.policy=compact`.
#
# </details>
#
# The settings of the topic: `kafka-configs.sh --bootstrap-server localhost:9092 --describe --entity-type topics --entity-name __consumer_offsets --all`.
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x, package `storage.internals.log`) |
# |---|---|
# | one pass | `Cleaner.clean`, `cleanInto`; batches: `MemoryRecords.filterTo` |
# | which partition, from where to where | `LogCleanerManager.grabFilthiestCompactedLog`, `cleanableOffsets` |
# | the offset map | `SkimpyOffsetMap`: a hash of 16 bytes for each key |
# | transactions | `CleanedTransactionMetadata` |
#
# </details>
#
# ## What we left out, and why
#
# An offset map has room for about 5 million keys. If the map is full, the pass ends there. Records younger than `min.compaction.lag.ms` are not cleaned, but its default is 0.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [11 · Loading](11_loading.ipynb): a broker dies, and the next one reads this log.
