# %% [markdown]
# # 10 · Compaction
#
# **Why does the topic stay small, and when does it not?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which records a cleaning pass keeps, and by which rule; find what stops the cleaner; say whether cleaning can change an answer | {{minutes}} + 10 for later | no |
#
# **Which Kafka:** 4.x and 3.9 alike, because the cleaner belongs to the broker and not to the coordinator. Its rules have not changed since 3.1.
#
# ![A pass keeps the newest record of each key in the closed segments, offsets 3, 4 and 5, and leaves the active segment unchanged.](pictures/10.svg)

# %% [markdown]
# Groups commit all day, so the topic grows, although answers need only the newest record of each key. The [**cleaner**](../docs/handbook/glossary.md#cleaner), a thread of the broker, therefore copies the records that are still needed into new segments. Each record keeps its offset, so there are gaps between the offsets. This is called *compaction*, and one run over a partition is a [*pass*](../docs/handbook/glossary.md#pass).

# %% [markdown]
# ## The log of a dashboard
#
# The group `dashboard` committed 300 times, and its offset of `orders-2` was deleted. In the same partition, another group was deleted, and a third one committed in ten transactions. Then the cleaner of a 4.3.1 broker made one pass. These are the segments before it:

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
# The last segment is the [**active segment**](../docs/handbook/glossary.md#active-segment), to which the broker still appends, and which a pass leaves unchanged. The broker closes this segment at 100 MiB (`offsets.topic.segment.bytes`) or after a week (`segment.ms`, here 6 seconds).
#
# The three closed segments have records of seven different keys: six offsets and one group. The active segment has one record, a commit of `dashboard` for `orders-0`, and this key is one of the seven.
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
# Of each of the seven keys, the newest record in the closed segments remains. The eighth record is the one in the active segment. The pass does not read this segment, so the cleaner does not know that it has a newer record of `orders-0`. The ten markers remain as well ("Why a marker stays longest").
#
# </details>
#
# ## The dirty range and the offset map
#
# How can a thread with little memory find the newest record of each key in a log of any length? It need not remember the keys of the whole log:
#
# ```
#  clean part: each key once  │  dirty range: what came later  │  active segment
#  A = 1   B = 1   C = 1      │  A = 2   D = 1   A = 3         │  B = 2
# ```
#
# After the last pass, the *clean part* has each key at most once. So only a record of the [**dirty range**](../docs/handbook/glossary.md#dirty-range) can replace a record of the clean part, and the cleaner has to remember only the keys of the dirty range. A pass has two steps:
#
# 1. It reads the dirty range, and notes in the [**offset map**](../docs/handbook/glossary.md#offset-map) the newest offset of each key, here the offsets of `A = 3` and `D = 1`.
# 2. It reads the clean part and the dirty range. For each record, it looks up the key in the map. If the map has a higher offset for the key, the record is not copied. So `A = 1` and `A = 2` are gone.
#
# Step through a pass in the figure. At the end, `B = 1` remains, although the log has a newer record, `B = 2`. Why?

# %%
# figure
course.OffsetMap()

# %% [markdown]
# <details><summary>Why does B = 1 remain?</summary>
#
# `B = 2` is in the active segment, which the pass does not read. So the map does not contain `B = 2`, and `B = 1` is the newest B that the cleaner knows.
#
# </details>
#
# ## Exercise: what remains
#
# Write `survivors(records, active_offset)`. `records` is a list of `(offset, key, value)`, and the active segment begins at `active_offset`. All records before it are in the dirty range. Return the list of the offsets that remain after one pass. Treat a tombstone, with the value `None`, like every other record.

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
# The broker's cleaner left these records, and the markers:

# %%
for offset, key, value in course.list_offset_map_records(cleaned):
    record = kg.decode(key, value)
    name = f"{record.key.topic}-{record.key.partition}" if record.type == 1 else "the group"
    print(f"offset {offset}: {record.key.group}, {name}{' (tombstone)' if value is None else ''}")

# %% [markdown]
# Record 493 remains, although 498 has the same key, because 498 is in the active segment. Three of the eight records are tombstones. Why are they still there?

# %% [markdown]
# ## Why a tombstone stays for a day
#
# A replica that is behind may have copied a value, but not yet its tombstone. If the tombstone were then removed, this replica would keep the value forever. So a tombstone stays for `delete.retention.ms`, 24 hours by default.
#
# The 24 hours begin at the first pass over the tombstone, for example:
#
# | hour | what happens |
# |---|---|
# | 0 | The tombstone is written. |
# | 5 | The first pass removes the value and keeps the tombstone. It stores a [**delete horizon**](../docs/handbook/glossary.md#delete-horizon) in the header of its batch: 5 + 24 = 29. |
# | 28 | The second pass keeps the tombstone, because 28 is before 29. The horizon never changes. |
# | 40 | The third pass removes the tombstone. |
#
# So the horizon is the time of the first pass plus `delete.retention.ms`, and the first pass **at or after** the horizon removes the tombstone. On our broker, `delete.retention.ms` was only 2 seconds. We print the horizon of tombstone 323 of `dashboard`, and the time of the pass, from the broker's log file:

# %%
server_log = Path(course.find_data("harbour/cleaning/server-lines.txt")).read_text(encoding="utf-8").splitlines()
pass_time = next(line for line in server_log if "Beginning cleaning" in line)[12:20]

for moment, path in (("before the pass:", before), (f"after the pass at {pass_time}:", cleaned)):
    horizon = next(batch for batch in kg.open_log(path) if batch.base_offset == 323).delete_horizon_ms
    print("horizon", moment, "none" if horizon is None else f"{datetime.fromtimestamp(horizon / 1000, UTC):%H:%M:%S}")

# %% [markdown]
# ## Exercise for later: when is a tombstone removed? On paper
#
# `delete.retention.ms` is 24 hours. A tombstone is written at hour 0. Passes run at the hours 10, 20, 34 and 50. Which pass removes the tombstone: 1, 2, 3 or 4?

# %%
# exercise: removing_pass
removing_pass = ...

# %%
course.check("removing_pass", removing_pass)
# course.hint("removing_pass")

# %% [markdown]
# ## Why a marker stays longest
#
# A marker says whether the records of its transaction count, so a load needs the marker as long as the log has one of these records. When a pass begins, it looks whether the log still has records of the transaction. If it has, the pass keeps the marker, although the pass itself may remove these records. The next pass finds none, and the marker's 24 hours begin:
#
# | pass | what the pass finds | what the pass does with the marker |
# |---|---|---|
# | 1, at hour 0 | records of the transaction | It removes these records, and keeps the marker. |
# | 2, at hour 25 | no record of the transaction | It sets the marker's delete horizon: 25 + 24 = 49. |
# | 3, at hour 50 | the horizon, which has passed | It removes the marker. |
#
# A pass removes the records of an **aborted** transaction, because they never count. They do not get into the offset map either, so they replace nothing.
#
# The figure makes these three passes over a log. Watch tombstone 4 and marker 7, which ends the transaction of the records 5 and 6. Which pass removes the tombstone, and which one the marker? Then let the active segment begin earlier, or leave the transaction open:

# %%
# figure
course.Compaction()

# %% [markdown]
# <details><summary>What else can remain?</summary>
#
# If a pass removes all records of the last batch of a producer, the header of this batch stays, as an *empty batch* of 61 bytes. It contains the producer's last *sequence number*, by which the broker recognises a batch that is sent twice.
#
# </details>

# %% [markdown]
# ## An open transaction stops the cleaner
#
# While a transaction is open, nobody can say whether its records will count, so they must not replace older records. The cleaner therefore stops at the [*last stable offset*](../docs/handbook/glossary.md#last-stable-offset): the first offset of the first open transaction, or the end of the log if no transaction is open. A pass cleans only whole segments, so the segment with the last stable offset and all later segments are not changed.
#
# We wrote the log of `dashboard` again, in smaller segments, with a record at offset 216 whose transaction never ends:

# %%
log = course.write_log_with_hanging_transaction(course.make_scratch_folder())
count = kg.stats(log).partitions[None]

print("segments begin at", *[int(Path(segment).stem) for segment in kg.open_log(log).segments])
print("last stable offset:", count.last_stable_offset, "  log end:", count.next_offset)
print(f"{count.bytes:,} bytes, of which {count.uncleanable_bytes:,} cannot be cleaned")

# %% [markdown]
# *Predict*: at which offset does a pass over this log end? The pass cleans all records before that offset.

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
# One hanging transaction (lesson 08) therefore keeps all later records of **all** groups of the partition until somebody ends it.
#
# ## When a pass begins
#
# A pass reads and writes much, even if only a few records are dirty, so a broker does not clean all the time. It begins a pass when the dirty range is larger than the clean part, for example when 60 MB are dirty and 40 MB are clean (`min.cleanable.dirty.ratio`, 0.5 by default).
#
# ## How large is the topic?
#
# Here are two replicas of one partition with 50 groups. On the second broker, the cleaner thread is dead:

# %%
replicas = course.make_scratch_folder()
print("records   cleaned replica           never cleaned")
for grown in list(course.grow_replicas(replicas))[1::2]:
    sizes = round(grown.bytes_after_pass / 1000), round(grown.never_cleaned_bytes / 1000)
    bars = ["█" * -(-size // 90) for size in sizes]
    print(f"{grown.records:>7,}   {sizes[0]:>5} kB {bars[0]:<16} {sizes[1]:>5} kB {bars[1]}")

# %% [markdown]
# The number of **keys** limits the size of the cleaned replica, but the other one grows with every **commit**. Do both give the same answers?

# %%
for name in ("cleaned", "never-cleaned"):
    groups = kg.load(replicas / name)
    offsets = [commit.offset for group in groups.values() for commit in group.offsets.values()]
    records = kg.stats(replicas / name).partitions[None].records
    print(f"{name:<14} {records:>6,} records, {len(offsets)} offsets, sum of all offsets {sum(offsets):,}")

# %% [markdown]
# They do, because a load does not need the removed records. (The cleaned replica has more records than offsets, mostly because of its active segment.) So the broker without a cleaner gives right answers, and nobody notices until it has to load its large replica (lesson 11).

# %% [markdown]
# ## Exercise: why does a partition grow?
#
# Three partitions are larger than you expected:
#
# - **A** has 20 GB. All partitions of this broker grow. Their replicas on other brokers are small. The last stable offset is the log end.
# - **B** has 20 GB. Only this partition grows, on all its replicas. Its last stable offset has not moved for three weeks.
# - **C** has 95 MB. All 50 partitions have about this size, and nearly all of it is the active segment.
#
# Which partition has a hanging transaction, and needs the abort command of lesson 08? Write the letter as a text.

# %%
# exercise: needs_an_abort
needs_an_abort = ...

# %%
course.check("needs_an_abort", needs_an_abort)
# course.hint("needs_an_abort")

# %% [markdown]
# ## Where 3.9 differs
#
# The cleaner of 3.9 removes the same records. But a pass can change what a load of 3.9 answers: for an offset that was deleted while it was pending, such as 41 in lesson 08. Before the pass, the load finds 41 again. After the pass, it finds no offset, because the newer tombstone has replaced the record of 41 ([all cases](../docs/handbook/tombstones.md)).
#
# ## Check yourself
#
# <details><summary>After a pass, the log has two records with the same key. Is the cleaner broken?</summary>
#
# No. The newer one is in the active segment, which a pass does not read, so the cleaner cannot know that it replaces the older one.
#
# </details>
#
# <details><summary>A tombstone was written on Monday, and the first pass over it was on Wednesday at 8:00. When does the cleaner remove it?</summary>
#
# In the first pass on Thursday at 8:00 or later, because the 24 hours begin at the first pass over the tombstone. Without another pass, it stays.
#
# </details>
#
# ## In five lines
#
# - A pass keeps the newest record of each key, and leaves the active segment unchanged.
# - A tombstone stays for at least 24 hours after the first pass over it.
# - A marker stays for at least 24 hours after the first pass that finds no record of its transaction.
# - An open transaction stops the cleaner at the start of the segment in which the transaction begins.
# - In 4.x, a log that was never cleaned gives the same answers, but takes longer to load.

# %% [markdown]
# ## For your consumer
#
# - Use few, stable group names. A new name for every run makes new keys, which stay for 7 days (`offsets.retention.minutes`).
# - Do not commit more often than your work needs. Ten commits per second are 864,000 records a day, and a load before the next pass must read them all.
#
# ## At 3 am
#
# First find out which replicas are large: `kafka-log-dirs.sh --bootstrap-server localhost:9092 --describe --topic-list __consumer_offsets` prints their sizes.
#
# **As long as one broker has large replicas, restart no other broker.** The broker with the large replicas could become the leader instead, and the groups would wait for the long load (lesson 11).
#
# PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | what is large | command | what it means | what is safe to do |
# |---|---|---|---|
# | One partition, on all brokers | `kafkagroups stats PATH` | The output names the open transaction and the first offset that cannot be cleaned | If the transaction hangs, abort it as lesson 08 shows. The cleaner then begins by itself |
# | All partitions of one broker, here broker 2 | On this broker: `grep -i "log cleaner" log-cleaner.log`, or the metric `kafka.log:type=LogCleaner,name=DeadThreadCount` | An error in the log, or a metric above 0: the cleaner thread of this broker is dead | First repair the cause, for example a full disk. Then change the number of cleaner threads, which starts new ones **without a restart**: `kafka-configs.sh --bootstrap-server localhost:9092 --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=2`. Choose another number than now (`--describe --all` prints it), at most twice as large |
# | One partition, on one broker | On this broker: `log-cleaner.log`, or the metric `kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count` | After an error, the cleaner skips this partition. The log names it, and the error | Only a restart of this broker helps, but first let another broker lead the partition: step 5 of the [runbook](../docs/operator.md#a-cleaner-has-stopped) |
# | All partitions, on all brokers | `kafkagroups stats PATH` | If `DeadThreadCount` is 0 everywhere, the topic has many keys: look for group names that are new for every run | Give these programs stable names. Their old offsets expire |
#
# A cleaner that catches up keeps the disk busy; `log.cleaner.io.max.bytes.per.second` limits it.
#
# **Never set `cleanup.policy=delete`** to make the topic smaller. A broker would delete the oldest segments, even those with the newest offset of a group, and the next load would find no offset.
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
# An offset map has room for about 5 million keys. If the map is full, the pass cleans only up to the last record in the map, and the next pass continues from there. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [11 · Loading](11_loading.ipynb): a broker dies, and the next one reads this log.
