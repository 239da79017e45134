# %% [markdown]
# # 10 · Compaction
#
# **Why does the topic stay small, and when does it not?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | say of every record whether a cleaning pass keeps it and by which rule, find what stops the cleaner, tell a large log from a wrong one | 25 + 20 | no |
#
# ```
#                  closed segments                 ║ active segment
#  offset      0     1     2     3     4     5     ║  6
#  before   │ A=1 │ B=1 │ A=2 │ C=1 │ A=3 │ B=null ║ A=4
#                               │
#                               ▼  the offset map: A → 4, B → 5, C → 3
#  after    │                   C=1 │ A=3 │ B=null ║ A=4        each keeps its offset; gaps stay
# ```
#
# Four things to hold on to:
#
# 1. Nothing is changed in place. The **cleaner**, a thread of the broker, copies what stays of closed segments into new ones, which then take their place.
# 2. It keeps the **newest record of each key**; older ones can no longer change an answer. A tombstone is a record too, and stays for a while.
# 3. It touches neither the **active segment**, the last one, nor anything from the oldest **open transaction** on.
# 4. Cleaning must not change what a broker answers. We shall look for logs where it does.

# %% [markdown]
# ## Ten days of the dashboard
#
# The shop's `dashboard` committed 300 times in ten "days" (of a second or two). On the same partition of a 4.3.1 broker `menu-board` came and was deleted,
# and `invoices` committed in transactions: seven were committed, three aborted. Then that broker's cleaner was let loose. This is what it found:

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
# They speak of six offsets and one group: seven keys. *Predict*: how many of the 499 records are left after one pass?

# %%
# prediction
records_left = ...

# %%
course.compare_with_prediction(records_left, sum(batch.count for batch in kg.open_log(cleaned)))

# %% [markdown]
# More than seven. The next pages find out why, record by record.
#
# ## The offset map
#
# A pass walks twice. First it reads the closed segments and fills a map: for each key, the offset of its newest record. Then it reads them again and
# copies a record if the map holds no newer offset for its key. Keys are compared as bytes; the cleaner knows nothing of groups. It does not look at values
# either, but for one question: is there one?
#
# Write `survivors(records, active_offset)`. `records` is a list of `(offset, key, value)`; the active segment begins at offset `active_offset`. Return the list of the offsets that are there
# after the pass. A tombstone (its value is `None`) is kept like any newest record: this is the first pass that meets it.

# %%
# exercise: survivors
def survivors(records, active_offset):
    ...

# %%
course.check("survivors", survivors)
# course.hint("survivors")
survivors = course.ensure_correct("survivors", survivors)

# %% [markdown]
# Now on the real log. `course.list_offset_map_records` gives the records that the map may count: no markers, and no records of aborted transactions, which go at
# once. The same list, of what the broker's cleaner left:

# %%
mine = survivors(course.list_offset_map_records(before), active_offset=498)
theirs = [offset for offset, key, value in course.list_offset_map_records(cleaned)]

print(mine)
course.compare_with_broker(mine, theirs, "4.3.1", verb="cleaned, and left")

# %% [markdown]
# Seven keys, seven records. The eighth, 498, stands in the active segment. It supersedes 493, and both stay: the map ends where the active
# segment begins. The other ten are the transactions' markers: later.
#
# ## What a pass may not touch
#
# The **active segment** is still written to. And nobody knows yet how an **open transaction** ends. Its first offset is the *last
# stable offset*: there consumers that read only committed data stop, and so does the cleaner. Without one it is the log's end.
# `fraud-check` left one open in the night the broker died; `stats` finds it:

# %%
count = kg.stats(course.find_data("harbour/3.9.2/__consumer_offsets-9")).partitions[9]

print("the log ends at", count.next_offset, "and is stable up to", count.last_stable_offset)
print(count.open_transactions)

# %% [markdown]
# However often this log is rolled and cleaned, nothing from offset 32 on will go before a marker ends that transaction. One hanging transaction
# **pins** the cleaner, for all groups of the partition.
#
# ## Tombstones wait
#
# If a pass dropped a tombstone at once, a reader who had seen the value and comes back later would never learn that it is gone. (A replica that
# copies the log is such a reader.) So a tombstone stays for `delete.retention.ms`, a day. From when on? A pass that keeps one writes it down: attribute bit 6 (`40`) of
# the batch, and in place of its base time the **delete horizon**, the pass's own time plus the retention. Here is the batch of one, before and after. Bytes 21 and 22 are
# the attributes, 27 to 34 the base time:

# %%
for path in (before, cleaned):
    batch = next(batch for batch in kg.open_log(path) if batch.base_offset == 323)
    data = Path(batch.file).read_bytes()[batch.position : batch.position + 48]
    course.hexdump(data)
    print("horizon:", batch.delete_horizon_ms, " the record's own time:", batch.records[0].timestamp, "\n")

# %% [markdown]
# 1795256326030 is 1795256324030, the time of the pass, + 2000. The rule in full:
#
# - The first pass that meets the tombstone sets the horizon, and removes nothing, even if the retention is 0. So a tombstone needs **two passes**.
# - The first later pass whose time is **at or after** the horizon removes it. The horizon never changes.
#
# Write `removed_by(passes, retention)`: `passes` are the times of the passes after a tombstone was written. Which pass removes it, 1 for the first?
# `None` if none does.

# %%
# exercise: removed_by
def removed_by(passes, retention):
    ...

# %%
course.check("removed_by", removed_by)

# %% [markdown]
# ## Three passes
#
# The broker went on: ten records of "day 12", a pass, one more record, a pass. `kg.compact` is this package's cleaner, one pass over one partition. Here it makes the three again, with the broker's
# times and its `delete.retention.ms` of two seconds. (Eight of the ten records were superseded before anyone copied them. They are missing here, and cannot change what is left.)
#
# A letter is a record before the pass: **CAPITALS stay, small letters go**, `=` was not touched, `·` is no record. *Before you move the slider*: which records need three passes to go?

# %%
passes = course.repeat_cleaner_passes(course.make_scratch_folder())
for each, copy in [(passes[0], "after-clean"), (passes[2], "after-clean-2")]:
    real = Path(course.find_data(f"harbour/cleaning/{copy}/__consumer_offsets-38"))
    ours, brokers = ({file.name: file.read_bytes() for file in folder.glob("*.log")} for folder in (each.log_after, real))
    course.compare_with_broker(ours, brokers, "4.3.1", verb="cleaned, and left byte for byte")

course.CompactionSlider(passes)

# %% [markdown]
# A **marker** is the slowest. It may go only when its transaction has no record left. The pass that removes the last one still saw it; the next one does not,
# and sets the horizon; a third one, at or after it, removes the marker. The last transaction still counts, so its marker stays.
#
# ## An empty batch
#
# From now on a letter is a batch: `X` a commit of group `g` in a transaction, `M` its commit marker, `C` a plain commit of the same offset. Behind them stands an active segment
# with another group. `C` supersedes `X`. Three passes, an hour apart:

# %%
logs = [course.write_small_log(course.make_scratch_folder(), "XMC")]
for hour in range(3):
    logs.append(course.make_scratch_folder())
    kg.compact(logs[-2], logs[-1], now_ms=1700000000000 + hour * 3600000, delete_retention_ms=60000)

sizes = [[(batch.count, batch.size) for batch in kg.open_log(log)][:3] for log in logs]
for number, (x, m, c) in enumerate(sizes):
    print(f"after {number} passes, (records, bytes) of X {x}, of M {m}, of C {c}")

# %% [markdown]
# The record of `X` is gone, its batch is not: a header of 61 bytes is left. A broker knows a producer's last sequence number from its last batch, and with it whether a batch
# comes twice. So an active producer's **last batch stays, empty**, until it writes again or is forgotten (after a day). As long as it is there, the marker is not unused either.
#
# ## How large does it get?
#
# A broker does not clean all the time. It takes a log when more than half of the bytes in its closed segments are *dirty*, written since the last pass (`min.cleanable.dirty.ratio`,
# 0.5). Now one partition with 50 groups of 8 offsets each, on two replicas; on one of them the cleaner is dead. 40,000 records come to 2.8 MB. *Predict*: about how many
# **kilobytes** has the replica that is cleaned, after its last pass? (A record takes about 70 bytes.)

# %%
# prediction
kilobytes = ...

# %%
replicas = course.make_scratch_folder()
lines = ["records  live offsets   cleaned: before, after a pass      never cleaned"]
for grown in course.grow_replicas(replicas):
    kb = [round(size / 1000) for size in (grown.bytes_before_pass, grown.bytes_after_pass, grown.never_cleaned_bytes)]
    bars = "█" * -(-kb[1] // 60), "█" * -(-kb[2] // 60)
    lines.append(f"{grown.records:>7,} {grown.live_offsets:>8} {kb[0]:>15} kB {kb[1]:>8} kB {bars[0]:<5} {kb[2]:>10} kB {bars[1]}")

print("\n".join(lines))
course.compare_with_prediction(kilobytes, kb[1])

# %% [markdown]
# The log that is cleaned follows the number of **live keys**, the other one follows **time**. When a topic grows all the same, one of these is why:
#
# | what | how it looks |
# |---|---|
# | the cleaner is dead, on one broker | all partitions of that broker grow, their replicas on other brokers do not |
# | a transaction hangs | one partition grows from one moment on; `stats`: stable up to an old offset |
# | the keys live: a new group name for each run | few dead bytes; they go with `offsets.retention.minutes`, 7 days |
# | segments are large | up to 100 MB of active segment in each of 50 partitions are normal |
#
# ## How a dead cleaner looks
#
# Operators have met partitions of this topic with hundreds of gigabytes. What is in them? The two replicas from above, in `stats`, and what a broker would answer from each:

# %%
counts = {name: kg.stats(replicas / name).partitions[None] for name in ("never-cleaned", "cleaned")}
loaded = {name: kg.load(replicas / name) for name in counts}
offsets = {name: {group: groups[group].offsets for group in groups if groups[group].offsets} for name, groups in loaded.items()}

for name, count in counts.items():
    print(f"{name:<14} {count.records:>6,} records, {count.bytes:>9,} bytes, live: {count.live_bytes / count.bytes:.0%}")
print("the same offsets:", offsets["never-cleaned"] == offsets["cleaned"])

records = 952_000_000_000 / (58_854 / 499)
print(f"952 GB of the shop's records: {records / 1e9:.0f} billion, {records / 400_000 / 3600:.1f} hours to load")

# %% [markdown]
# (A broker loads about 0.4 million records a second: measured, 3.9.2 and 4.3.1 on two cores.) So the log is not *wrong*, it is *long*. Nobody notices, for the topic is not read when
# someone asks for an offset. Until the broker dies: then all groups of that partition wait while the next one reads.
#
# ## Does cleaning ever change an answer?
#
# It should not: what goes was superseded. But the cleaner goes by **keys**, and a broker goes by **meaning**. Let us look for the smallest log that is answered differently after a pass.
# We ask for one offset of one group, as a consumer does. The batches:
#
# | | | | |
# |---|---|---|---|
# | `C` | a plain commit | `T` | a tombstone of the offset |
# | `X` | a commit in a transaction | `M`, `A` | commit and abort marker |
# | `D` | a tombstone of the **group** alone | `K` | a deletion: tombstones of offset and group, in one batch |
#
# *Predict*: which two letters? (Hint: whose tombstone hides something that has another key?)

# %%
# prediction
two_letters = ...

# %%
from itertools import product

logs = ["".join(letters) for letters in product("CTXMADK", repeat=2)]
answers = {log: course.load_small_log(log, coordinator="new") for log in logs}
found = [log for log in logs if len(set(answers[log])) > 1]

for log in found:
    print(log, "as written, after one pass, after two:", answers[log])
course.compare_with_prediction(two_letters, *found)

# %% [markdown]
# Of 49 logs, one gives another offset. (Others only lose a group that holds nothing, from the list of groups.) `D` hides the offset: the new coordinator (4.x) forgets a group with all it has. But the keys are different, so for the cleaner `D` supersedes nothing. `D` itself
# is a tombstone, and goes in the second pass. The offset stays. And is there again: 100, back from a deleted group.
#
# A broker does not write `CD`. It deletes a group with `K`: a tombstone for **each** of its offsets in the same batch as the group's. So were `menu-board`'s, records 367 and 368 above.
#
# That is the property: *of a log as a broker writes it, the new coordinator loads the same offsets before and after cleaning*. This project's tests try it on 2,000 random logs each
# time, and on 20,000 in a night.
#
# The classic coordinator (up to 3.9) has a counterexample that real brokers can write. An offset is deleted while a transaction on it is open: `XTM`.

# %%
answers = {coordinator: course.load_small_log("XTM", coordinator) for coordinator in ("classic", "new")}
for coordinator, given in answers.items():
    print(f"{coordinator:<8} as written, after one pass, after two:", given)

# %% [markdown]
# Loading, the classic one keeps the pending `X` apart; `T` does not find it, and `M` makes it count. Resurrected. For the cleaner `X` and `T` have one key, and `T` is newer: after one
# pass the offset is gone. So two replicas of one partition answer differently, as long as only one was cleaned. The new coordinator lets `T` take the pending commit too.
#
# ## A small incident: the cleaner lives, the disk fills
#
# *"Partition 38 grows. The cleaner is alive, no log tells of an error, and the other partitions are small. But this one it has not cleaned for days."* The shop's ten days once more, in eight
# segments. Something is in there that was not before. And a pass takes whole segments: **up to which offset can the cleaner work?** (The first one that it leaves alone.)

# %%
log = course.write_log_with_hanging_transaction(course.make_scratch_folder())
count = kg.stats(log).partitions[None]

print("segments begin at", [int(Path(segment).stem) for segment in kg.open_log(log).segments], "and the log ends at", count.next_offset)
print("stable up to", count.last_stable_offset)
print(f"{count.bytes:,} bytes, live: {count.live_bytes:,}, not to be touched: {count.uncleanable_bytes:,}")

# %%
# exercise: cleaner_stops_at
cleaner_stops_at = ...

# %%
course.check("cleaner_stops_at", cleaner_stops_at)

# %% [markdown]
# Who is it? An administrator ends such a transaction by hand: `kafka-transactions.sh find-hanging` names the producer, `abort` writes the marker.

# %%
ended = course.abort_transaction(log, producer_id=count.open_transactions[0].producer_id)
passes = {"before the abort": kg.compact(log, course.make_scratch_folder()), "after it": kg.compact(ended, course.make_scratch_folder())}

print(count.open_transactions)
for when, done in passes.items():
    print(f"a pass {when}: next dirty offset {done.next_dirty_offset}, {done.after.bytes:,} bytes left")

# %% [markdown]
# ## In Kafka
#
# | what | where (4.3.1; package `storage.internals.log`) |
# |---|---|
# | one pass | `Cleaner.clean`, `cleanInto`; what stays of a batch: `MemoryRecords.filterTo` (clients) |
# | which log, from where to where | `LogCleanerManager.grabFilthiestCompactedLog`, `cleanableOffsets` |
# | the offset map | `SkimpyOffsetMap`: 16 bytes of a key's hash and 8 of its offset |
# | markers, aborted data | `CleanedTransactionMetadata` |
# | settings of the topic | `cleanup.policy=compact`, `min.cleanable.dirty.ratio`, `delete.retention.ms`, `segment.bytes` (from `offsets.topic.segment.bytes`) |
# | is it alive? (a cleaner that fails on one partition sets just that one aside, since 1.1: it grows alone, on one broker) | metrics `LogCleaner: DeadThreadCount`, `LogCleanerManager: uncleanable-partitions-count, max-dirty-percent` |
#
# ## What we left out, and why
#
# When the map is full (5 million keys), a pass ends there and the next one goes on; this topic hardly ever has so many. How long a record must stay before it may be cleaned
# (`min.compaction.lag.ms`) is 0 unless somebody sets it. `kg.compact` can do both: its docstring says how. Old brokers (2.3.1, for one) had no horizons: they looked at the
# time of the segment's file, and a tombstone in a segment that was merged again and again could live for ever.
#
# **Next:** [11 · Loading](11_loading.ipynb): a broker dies, and the next one reads what you have just seen cleaned.
