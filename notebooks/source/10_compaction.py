# %% [markdown]
# # 10 · Compaction
#
# **Why does the topic stay small, and when does it not?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which records a cleaning pass keeps, and by which rule; find what stops the cleaner; say whether cleaning can change an answer | {{minutes}} | no |
#
# ```
#               closed segments                  ║ active segment
#  offset     0     1     2     3     4     5    ║  6
#  before  │ A=1 │ B=1 │ A=2 │ C=1 │ A=3 │ B=∅   ║ A=4
#                              │
#                              ▼  the offset map: A → 4, B → 5, C → 3
#  after                       C=1 │ A=3 │ B=∅   ║ A=4
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. The **cleaner** is a thread of the broker. In a *pass*, it copies the records that remain into new segments. Each record keeps its offset.
# 2. The **newest record of each key** remains. The older ones no longer change an answer.
# 3. The cleaner does not change the **active segment**. It also stops at an **open transaction**.
# 4. A log that was never cleaned gives the same answers. It only takes longer to load.

# %% [markdown]
# ## Ten days of a dashboard
#
# The group `dashboard` committed 300 times. In the same partition, another group was deleted, and a third group committed in ten transactions. Then the cleaner of a 4.3.1 broker ran. These are the segments before the pass:

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
# The last segment is the *active* one: the broker still appends to it. The records in the log, except the markers, have seven different keys: six offsets and one group.
#
# *Predict*: how many of the 499 records remain after one pass?

# %%
# prediction
records_left = ...

# %%
course.reveal("records_left", records_left, sum(batch.count for batch in kg.open_log(cleaned)))

# %% [markdown]
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
# - The **clean part** was cleaned by an earlier pass. The *first dirty offset* is the first offset after it. The broker stores this number in the file `cleaner-offset-checkpoint`.
# - The **dirty range** contains the records that were appended since then.
# - The pass ends at the active segment. If a transaction is open, the pass ends at the segment in which this transaction begins.

# %% [markdown]
# A pass has two steps:
#
# 1. The cleaner reads the dirty range and fills the **offset map**. The map has the offset of the newest record of each key.
# 2. It reads the clean part and the dirty range. It copies a record, except if the map has a newer offset for the key.
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
# `A=1` is removed, because the map has a newer offset for A. B and C are not in the map, so `B=1` and `C=1` remain. The active segment, with a newer record of B, does not fill the map.

# %% [markdown]
# The cleaner compares keys as bytes. It does not decode them. It only checks whether a record has a value, or is a tombstone.
#
# Two kinds of records are never in the map: markers, and records of aborted transactions. A pass removes the records of aborted transactions.

# %% [markdown]
# ## Exercise: what remains
#
# Write `survivors(records, active_offset)`. `records` is a list of `(offset, key, value)`, and the active segment begins at `active_offset`. Everything before it is in the dirty range. Return the list of the offsets that remain. Treat a tombstone, whose value is `None`, like every other record.

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
# These are eight records with seven keys. Two records have the key of `orders-0`, because record 498 is in the active segment and not in the map. All other records that remained are markers of transactions.
#
# The list also has three tombstones. Why are they still there?

# %% [markdown]
# ## Why a tombstone stays for a day
#
# A replica that is behind may have the value and not yet the tombstone. If the tombstone were removed now, this replica would keep the value forever. So a tombstone stays for `delete.retention.ms`, one day by default.
#
# - The first pass that reads the tombstone keeps it and sets a **delete horizon**: the time of this pass plus this retention.
# - The first later pass at or after the horizon removes the tombstone. The horizon never changes.
#
# The header of a batch has no field for the horizon. The cleaner sets bit 6 of the attributes (`0x40`), and stores the horizon in the field of the base timestamp. Here is the batch with record 323, before and after the pass:

# %%
for path in (before, cleaned):
    batch = next(batch for batch in kg.open_log(path) if batch.base_offset == 323)
    horizon = batch.delete_horizon_ms
    time = "none" if horizon is None else f"{datetime.fromtimestamp(horizon / 1000, UTC):%H:%M:%S}"
    print(f"attributes {batch.attributes:#04x}, delete horizon {time}")

# %% [markdown]
# ## Exercise: when is it removed? On paper
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
# `kg.compact` is the cleaner of this package. It does one pass over one partition. Here it repeats three passes of the 4.3.1 broker, whose `delete.retention.ms` was only 2 seconds. We have the broker's files after pass 1 and after pass 3, so we compare these bytes:

# %%
passes = course.repeat_cleaner_passes(course.make_scratch_folder())
for done, copy in [(passes[0], "after-clean"), (passes[2], "after-clean-2")]:
    real = Path(course.find_data(f"harbour/cleaning/{copy}/__consumer_offsets-38"))
    ours, brokers = ({file.name: file.read_bytes() for file in folder.glob("*.log")} for folder in (done.log_after, real))
    course.compare_with_broker(ours, brokers, "4.3.1", verb="cleaned, and left byte for byte")

# %% [markdown]
# The figure shows three passes over a smaller log, one square for each record. Step through the passes. Then let the active segment begin earlier, or leave the transaction open:

# %%
# figure
course.Compaction()

# %% [markdown]
# A **marker** needs the most passes. It must stay as long as a record of its transaction is in the log:
#
# 1. One pass removes the last record of the transaction. The marker remains.
# 2. The next pass finds the marker without records, and sets its delete horizon.
# 3. A pass at or after the horizon removes the marker.
#
# <details><summary>What else can remain?</summary>
#
# If all records of a producer's last batch are removed, the header stays as an *empty batch* of 61 bytes. A broker needs its sequence number to recognise a batch that the producer sends twice.
#
# </details>

# %% [markdown]
# ## An open transaction stops the cleaner
#
# The *last stable offset* is the first offset of the first open transaction. The cleaner does not go beyond it, because it cannot know whether the transaction will be committed. A pass takes only whole segments. So it ends where the segment with the last stable offset begins.
#
# Here is the log of `dashboard` again, with one open transaction:

# %%
log = course.write_log_with_hanging_transaction(course.make_scratch_folder())
count = kg.stats(log).partitions[None]

print("segments begin at", *[int(Path(segment).stem) for segment in kg.open_log(log).segments])
print("last stable offset:", count.last_stable_offset, "  log end:", count.next_offset)
print(f"{count.bytes:,} bytes, of which {count.uncleanable_bytes:,} cannot be cleaned")

# %% [markdown]
# *Predict*: at which offset does a pass over this log end? Everything before it is cleaned.

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
# A broker does not clean all the time. It cleans a partition if more than half of its bytes are in the dirty range (`min.cleanable.dirty.ratio`, 0.5 by default). Here are two replicas of one partition with 50 groups. On the second broker, the cleaner thread is dead:

# %%
replicas = course.make_scratch_folder()
print("records   cleaned replica           never cleaned")
for grown in list(course.grow_replicas(replicas))[1::2]:
    sizes = round(grown.bytes_after_pass / 1000), round(grown.never_cleaned_bytes / 1000)
    bars = ["█" * -(-size // 90) for size in sizes]
    print(f"{grown.records:>7,}   {sizes[0]:>5} kB {bars[0]:<16} {sizes[1]:>5} kB {bars[1]}")

# %% [markdown]
# The size of the cleaned log depends on the number of **keys**. The size of the other log grows with **time**. Do both logs give the same answers?

# %%
for name in ("cleaned", "never-cleaned"):
    groups = kg.load(replicas / name)
    offsets = [commit.offset for group in groups.values() for commit in group.offsets.values()]
    records = kg.stats(replicas / name).partitions[None].records
    print(f"{name:<14} {records:>6,} records, {len(offsets)} offsets, sum of all offsets {sum(offsets):,}")

# %% [markdown]
# The answers are equal. The long log only takes longer to load, at about 0.4 million records per second.

# %% [markdown]
# ## Exercise: why does it grow?
#
# Three partitions of `__consumer_offsets` are larger than you expected:
#
# - **A**: 20 GB. All partitions of this broker grow. The replicas on other brokers are small. The last stable offset is the log end.
# - **B**: 20 GB. Only this partition grows, on all its replicas. The record at the last stable offset is three weeks old.
# - **C**: 95 MB. All 50 partitions have about this size, nearly all of it in the active segment.
#
# One of them has a hanging transaction and needs `kafka-transactions.sh abort`. Which one? Write the letter as a text.

# %%
# exercise: needs_an_abort
needs_an_abort = ...

# %%
course.check("needs_an_abort", needs_an_abort)
# course.hint("needs_an_abort")

# %% [markdown]
# ## Can cleaning change an answer?
#
# Normally not, because a newer record of the same key replaces the removed one. But a group and its offsets have different keys, and the cleaner treats each key alone. Here are two exceptions. The group has one offset:
#
# - `CD`: a plain commit (`C`), then a tombstone of the group (`D`). The offset has no tombstone.
# - `XTM`: a commit in a transaction (`X`), a tombstone of the offset (`T`), and the commit marker (`M`).

# %%
for letters, coordinator in [("CD", "new"), ("XTM", "classic"), ("XTM", "new")]:
    written, once, twice = course.load_small_log(letters, coordinator)
    print(f"{letters:<4} {coordinator:<8} offset as written: {written}, after one pass: {once}, after two: {twice}")

# %% [markdown]
# - `CD`: the new coordinator deletes the offset together with the group. But the first pass keeps both records, because their keys differ. The second pass removes the tombstone `D`. Only `C` remains, and the offset is back. A broker never writes such a log.
# - `XTM`: in the classic coordinator, `M` commits `X` in spite of `T`, as lesson 09 showed. The cleaner removes `X`, because `T` is a newer record of the same key. So a cleaned replica and an uncleaned one answer differently.
#
# If brokers wrote the log, the new coordinator loads the same offsets before and after cleaning. Tests with 2,000 random logs confirm this.

# %% [markdown]
# ## Where the classic coordinator differs
#
# The cleaner belongs to the broker, not to the coordinator. So only the answers differ:
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | what a pass keeps | as in this lesson | the same since 3.0 |
# | a tombstone during an open transaction | cleaning does not change the answer | cleaning can change the answer: `XTM` |
# | the tombstone of a group without tombstones of its offsets | hides the offsets until it is removed | does not hide them |
#
# <details><summary>Other versions</summary>
#
# Delete horizons exist since 3.0. Before that, the modification time of the segment's file counted. A merge of segments made this time newer, so a tombstone could stay forever. Since 1.1, a cleaner that fails on one partition marks only this partition as uncleanable. Before that, the whole thread died.
#
# </details>
#
# ## In five lines
#
# - A pass keeps the newest record of each key.
# - The offset map holds only keys of the dirty range. The active segment stays unchanged.
# - The second pass removes a tombstone, if a day has passed. A marker needs three passes.
# - An open transaction stops the cleaner at the start of its segment.
# - A log that was never cleaned gives the same answers, and it takes longer to load.

# %% [markdown]
# ## For your consumer
#
# - A new group name for every run makes new keys. They stay for `offsets.retention.minutes`, 7 days. Use few, stable names.
# - Each commit is a record. Ten commits per second for one partition are 864,000 records per day. A pass of the cleaner leaves one of them.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | One partition grows, on all replicas | `kafkagroups stats PATH` | It names the open transaction and the first offset that cannot be cleaned | If the transaction hangs, abort it as lesson 08 shows |
# | All partitions of one broker grow | `grep -i "log cleaner" log-cleaner.log`, and the metric `kafka.log:type=LogCleaner,name=DeadThreadCount` | The cleaner thread of this broker is dead | Restart this broker. Its cleaner begins again |
# | One partition grows, on one replica | The metric `kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count` | The cleaner gave this partition up after an error | Read the error in `log-cleaner.log`. Restart the broker |
# | Which replica is large? | `kafka-log-dirs.sh --bootstrap-server localhost:9092 --describe --topic-list __consumer_offsets` | It prints the size of each replica | Reading is safe |
# | How small would it be? | `kafkagroups compact PATH --out CLEANED` | It writes the log that a pass leaves, and prints its size | Reading a copy is safe. Never put CLEANED into a broker's folder |
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
# **Next:** [11 · Loading](11_loading.ipynb): a broker dies, and the next one reads this log.
