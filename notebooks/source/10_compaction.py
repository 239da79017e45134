# %% [markdown]
# # 10 · Compaction
#
# **Why does the topic stay small, and when does it not?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which records a cleaning pass keeps, and by which rule; find what stops the cleaner; tell a long log from a wrong one | {{minutes}} | no |
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
# 1. The **cleaner** is a thread of the broker. It copies the records that remain into new segments. Each record keeps its offset.
# 2. The **newest record of each key** remains. Older ones cannot change an answer any more.
# 3. The cleaner touches neither the **active segment** nor anything after the start of an **open transaction**.
# 4. A log that is not cleaned is not wrong. It is long.
#
# ## Ten days of a dashboard
#
# `dashboard` committed 300 times. In the same partition, another group was deleted, and a third one committed in ten transactions. Then the cleaner of a 4.3.1 broker ran. This is the log before:

# %%
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

before = course.find_data("harbour/cleaning/before-clean/__consumer_offsets-38")
cleaned = course.find_data("harbour/cleaning/after-clean/__consumer_offsets-38")

for segment in kg.open_log(before).segments:
    print(Path(segment).name, f"{Path(segment).stat().st_size:>6,} bytes")
print("records:", sum(batch.count for batch in kg.open_log(before)))

# %% [markdown]
# The last segment is the *active* one: the broker still appends to it. The records belong to six offsets and one group. These are seven keys.
#
# *Predict*: how many of the 499 records remain after one pass?

# %%
# prediction
records_left = ...

# %%
course.reveal("records_left", records_left, sum(batch.count for batch in kg.open_log(cleaned)))

# %% [markdown]
# The next sections explain the number.
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
# - The **clean part** was cleaned before. The broker remembers its end in the file `cleaner-offset-checkpoint`: the *first dirty offset*.
# - The **dirty range** is new since then.
# - The pass ends at the active segment, or at the segment with the first open transaction.

# %% [markdown]
# First, the cleaner reads the dirty range. It fills the **offset map**, which has the offset of the newest record of each key. Then it reads the clean part and the dirty range. It copies a record if the map has no newer offset for its key.
#
# Keys are compared as bytes. The cleaner knows nothing of groups. It asks only one question about a value: is there one?
#
# ## Exercise: what remains
#
# Write `survivors(records, active_offset)`. `records` is a list of `(offset, key, value)`, and the active segment begins at `active_offset`. Everything before it is dirty. Return the list of the offsets that remain. Treat a tombstone, whose value is `None`, like every other record.

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
# These are the records that the cleaner of the broker left, without the markers of transactions:

# %%
for offset, key, value in course.list_offset_map_records(cleaned):
    record = kg.decode(key, value)
    name = f"{record.key.topic}-{record.key.partition}" if record.type == 1 else "the group"
    print(f"offset {offset}: {record.key.group}, {name}{' (tombstone)' if value is None else ''}")

# %% [markdown]
# Seven keys, and eight records. Record 498 is in the active segment. It is newer than 493, but the map ends before the active segment. So both remain.
#
# The other ten records are markers. The next sections show why tombstones and markers stay longer.
#
# ## Tombstones stay for a day
#
# A replica that reads the log slowly may have seen the value, and must still see the tombstone. So a tombstone stays for `delete.retention.ms`, one day by default.
#
# - The first pass that sees the tombstone sets a **delete horizon**: the time of this pass plus the retention. It removes nothing.
# - The first later pass at or after the horizon removes the tombstone. The horizon never changes.
#
# The horizon is stored in the header of the batch, where its base time was:

# %%
for path in (before, cleaned):
    batch = next(batch for batch in kg.open_log(path) if batch.base_offset == 323)
    print(f"attributes {batch.attributes:#04x}, delete horizon {batch.delete_horizon_ms}")

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
# `kg.compact` is the cleaner of this package: one pass over one partition. Here it repeats three passes of the 4.3.1 broker, at the same times. Two of its results exist as copies of the broker's files:

# %%
passes = course.repeat_cleaner_passes(course.make_scratch_folder())
for done, copy in [(passes[0], "after-clean"), (passes[2], "after-clean-2")]:
    real = Path(course.find_data(f"harbour/cleaning/{copy}/__consumer_offsets-38"))
    ours, brokers = ({file.name: file.read_bytes() for file in folder.glob("*.log")} for folder in (done.log_after, real))
    course.compare_with_broker(ours, brokers, "4.3.1", verb="cleaned, and left byte for byte")

# %% [markdown]
# Each letter is a record before the pass. **Capitals remain, small letters are removed.** `=` was not touched, and `·` is no record. Move the slider from pass to pass:

# %%
# figure
course.CompactionSlider(passes)

# %% [markdown]
# A **marker** takes longest:
#
# 1. One pass removes the last record of its transaction. The marker remains.
# 2. The next pass finds a marker without records, and sets its horizon.
# 3. A pass at or after the horizon removes the marker.
#
# An active producer's last batch stays as an **empty batch** of 61 bytes. A broker needs its sequence number, to recognise a batch that is sent twice.
#
# ## An open transaction stops the cleaner
#
# The first offset of the first open transaction is the *last stable offset*. The end of this transaction is unknown, so the cleaner does not go beyond it. A pass takes whole segments. So it ends where the segment with this offset begins.
#
# Here is the log of the dashboard again, with one open transaction:

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
# A broker does not clean all the time. It takes a partition if more than half of its bytes are dirty (`min.cleanable.dirty.ratio`, 0.5). Here are two replicas of one partition with 50 groups. On one of them, the cleaner is dead:

# %%
replicas = course.make_scratch_folder()
print("records   cleaned replica           never cleaned")
for grown in list(course.grow_replicas(replicas))[1::2]:
    sizes = round(grown.bytes_after_pass / 1000), round(grown.never_cleaned_bytes / 1000)
    bars = ["█" * -(-size // 90) for size in sizes]
    print(f"{grown.records:>7,}   {sizes[0]:>5} kB {bars[0]:<16} {sizes[1]:>5} kB {bars[1]}")

# %% [markdown]
# The size of a cleaned log follows the number of **keys**. The size of the other log follows **time**. Do they give the same answers?

# %%
for name in ("cleaned", "never-cleaned"):
    groups = kg.load(replicas / name)
    offsets = [commit.offset for group in groups.values() for commit in group.offsets.values()]
    records = kg.stats(replicas / name).partitions[None].records
    print(f"{name:<14} {records:>6,} records, {len(offsets)} offsets, sum of all offsets {sum(offsets):,}")

# %% [markdown]
# The answers are equal. The long log is only slower: when this broker dies, the next one must read all of it, at about 0.4 million records per second.
#
# ## Exercise: why does it grow?
#
# Three partitions of `__consumer_offsets` are larger than you expected:
#
# - **A**: 20 GB. All partitions of this broker grow. The replicas on other brokers are small. The last stable offset is the log end.
# - **B**: 20 GB. Only this partition grows, on all its replicas. The last stable offset is three weeks old.
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
# It should not: the records that are removed are no longer needed. But the cleaner compares **keys**, and a coordinator knows **groups**. Here are two small logs. `C` is a plain commit. `X` is a commit in a transaction, and `M` is its commit marker. `T` is a tombstone of the offset, and `D` is a tombstone of the group alone:

# %%
for letters, coordinator in [("CD", "new"), ("XTM", "classic"), ("XTM", "new")]:
    written, once, twice = course.load_small_log(letters, coordinator)
    print(f"{letters:<4} {coordinator:<8} offset as written: {written}, after one pass: {once}, after two: {twice}")

# %% [markdown]
# - `CD`: the new coordinator forgets the group with its offsets. But `C` and `D` have different keys, so the cleaner keeps `C`. When `D` is removed, the offset is back. A broker never writes `CD`. It writes a tombstone for each offset, too.
# - `XTM`: the classic coordinator lets `M` bring the offset back, as lesson 09 showed. The cleaner removes `X`, because `T` is newer. So two replicas can answer differently.
#
# For logs as brokers write them, the new coordinator loads the same offsets before and after cleaning. The tests of this project try that with 2,000 random logs.
#
# ## Where the classic coordinator differs
#
# The cleaner belongs to the broker, not to the coordinator:
#
# | | Kafka 4.x with the new coordinator | Kafka up to 3.9 with the classic coordinator |
# |---|---|---|
# | what a pass keeps | the same | the same since 3.0 |
# | a tombstone during an open transaction | cleaning does not change the answer | cleaning can change the answer: `XTM` |
# | the tombstone of a group without tombstones of its offsets | hides the offsets until it is removed | does not hide them |
#
# <details><summary>Other versions</summary>
#
# Delete horizons exist since 3.0. Before, the time of the segment's file counted. A tombstone in a segment that was merged again and again could stay forever. Since 1.1, a cleaner that fails on one partition marks only this partition as uncleanable. Before, the whole thread died.
#
# </details>
#
# ## In five lines
#
# - The newest record of each key remains.
# - A tombstone needs two passes and a day. A marker needs three passes.
# - The offset map holds the keys of the dirty range.
# - An open transaction stops the cleaner at the start of its segment.
# - A long log gives the right answers, slowly.

# %% [markdown]
# ## For your consumer
#
# - A new group name for every run makes new keys. They stay for `offsets.retention.minutes`, 7 days. Use few, stable names.
# - Each commit is a record. Ten commits per second and partition are 864,000 records a day, until the next pass.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | One partition grows, on all replicas | `kafkagroups stats PATH` | It names an open transaction, and the first offset that cannot be cleaned | Lesson 08: abort it, if no coordinator knows it |
# | All partitions of one broker grow | `grep -i "log cleaner" log-cleaner.log`, and the metric `kafka.log:type=LogCleaner,name=DeadThreadCount` | The cleaner thread of this broker is dead | Restart this broker. Its cleaner begins again |
# | One partition grows, on one replica | The metric `kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count` | The cleaner gave this partition up after an error | Read the error in `log-cleaner.log`. Restart the broker |
# | How small would it be? | `kafkagroups compact PATH --out CLEANED` | It writes what a pass leaves, and says the size | Reading a copy is safe. Never put CLEANED into a broker's folder |
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
# An offset map has room for about 5 million keys. If it is full, the pass ends there. This topic rarely has so many. `min.compaction.lag.ms` is 0 by default. `kg.compact` knows both.
#
# **Next:** [11 · Loading](11_loading.ipynb): a broker dies, and the next one reads this log.
