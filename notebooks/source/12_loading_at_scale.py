# %% [markdown]
# # 12 · Loading at scale
#
# **When can a load be divided, and is it worth it?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which loads can be divided; merge the results of two parts; choose between one process and Spark; continue a load where the last one ended | {{minutes}} | two cells |
#
# ```
#  one reader                     parts of a log, merged                whole partitions
#
#  │0 1 2 3 4 5│ ──▶ answer       │0 1│ ──▶ result ─┐                  partition 0 ──▶ its answer
#                                 │2 3│ ──▶ result ─┼──▶ answer        partition 1 ──▶ its answer
#                                 │4 5│ ──▶ result ─┘                  partition 2 ──▶ its answer
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. A load is a **fold**: a function gets a state and the next record, and returns the next state.
# 2. A log can be divided if the results of its parts can be **merged**.
# 3. A group lives in one partition. Tasks that read **whole partitions** need no merge.
# 4. **Measure first.** For one topic, one process is nearly always enough.
#
# The first run of this lesson on a machine compiles code for up to half a minute.

# %% [markdown]
# ## A load is a fold
#
# In lesson 11 you wrote a loop over the lines of a log. Here, its body is the function `step`. Python's `reduce` calls `step` for each line. This is a fold.
#
# The log is the partition of `mailer` on the 4.3.1 broker. The group came, committed and was deleted:

# %%
from functools import reduce

import kafkagroups as kg
from kafkagroups import course, synth
from kafkagroups.loading import snapshots


def step(offsets, line):
    if line.record_type == "offset":
        offsets[line.group, line.partition] = line.value
        if line.value is None:
            del offsets[line.group, line.partition]
    return offsets


mailer = course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))
print(*mailer, sep="\n")
print("offsets at the end:", reduce(step, mailer, {}))

# %% [markdown]
# ## Two machines
#
# Now two machines divide this log. One folds the lines 0 to 4. The other folds the lines 5 to 9, and begins with an empty dictionary. At the end, the entries of the second dictionary are copied into the first one.
#
# *Predict*: how many offsets does `mailer` have then?

# %%
# prediction
offsets_of_mailer = ...

# %%
first, second = reduce(step, mailer[:5], {}), reduce(step, mailer[5:], {})

course.reveal("offsets_of_mailer", offsets_of_mailer, len(first | second))

# %% [markdown]
# <details><summary>Why?</summary>
#
# The second machine reads three tombstones, but it has no offsets to remove. So its result is empty. The three offsets of the first machine remain, although they were deleted.
#
# </details>
#
# So the offsets alone are not enough as the result of a part.
#
# ## Exercise: merge two results
#
# Now the result of a part has the **newest line** of each key. It is a dictionary of pairs `(at, value)`:
#
# - `at` is the position of the line in the log.
# - `value` is the offset, or `None` for a tombstone.
#
# Write `merge(left, right)`. It returns the result of both parts together. `left` can be the earlier part or the later one. More parts can follow.

# %%
# exercise: merge
def merge(left, right):
    ...

# %%
course.check("merge", merge)
# course.hint("merge")

# %% [markdown]
# ## Collect the markers first
#
# An offset in a transaction counts only if the next marker of its producer commits. This marker can be in the part of another machine. But there are few markers. So they are collected first, and sent to all machines. Then each machine can decide about its own lines.
#
# Here is the log of the whole shop. Each line that counts is one part. The parts are merged in twenty random orders:

# %%
parts = course.list_part_results(course.find_data("harbour/4.3.1"))
merged = [course.merge_in_random_order(parts, seed) for seed in range(20)]
print(len(parts), "parts. The same offsets in every order:", all(each == merged[0] for each in merged))

answers = course.read_answers("harbour/4.3.1")["offsets"]
answered = {(group, name): found["offset"] for group, offsets in answers.items() for name, found in offsets.items()}
course.compare_with_broker(merged[0], answered, "4.3.1")

# %% [markdown]
# So the offsets of the **new** coordinator can be loaded in parts, even inside a partition. Only the markers must be known.
#
# ## The classic coordinator needs the order
#
# The classic coordinator decides about an offset of a transaction **when it reads the marker**. It compares this offset with the one in memory. If memory has no offset, or an older one, the offset of the transaction is stored.
#
# Here is a log of four batches about one offset:
#
# - `C` commits 100.
# - `X` commits 101 in a transaction.
# - `T` is a tombstone.
# - `M` is the marker that commits the transaction.

# %%
for coordinator in ("classic", "new"):
    [offset] = course.load_small_log("CXTM", coordinator, passes=0)
    print(f"CXTM  {coordinator:<8} loads {offset}")

# %% [markdown]
# In the log `CXMT`, only the marker has moved.
#
# *Predict*: which offset does the **classic** coordinator load from `CXMT`? Write `None` if there is no offset.

# %%
# prediction
from_cxmt = ...

# %%
[offset] = course.load_small_log("CXMT", "classic", passes=0)

course.reveal("from_cxmt", from_cxmt, offset)

# %% [markdown]
# <details><summary>Why?</summary>
#
# In `CXTM`, the tombstone removes 100. At the marker, memory has no offset, so 101 is stored. In `CXMT`, the marker stores 101, and the tombstone removes it.
#
# The new coordinator has no offset in both cases: the tombstone is newer than both commits.
#
# </details>
#
# The classic rule needs the offset that is in memory at the marker. It depends on everything before the marker. So a part of a partition cannot be loaded alone.
#
# ## Whole partitions need no merge
#
# Apache Spark divides a job into **tasks**, and runs them on many cores or machines. A group lives in one partition, as lesson 02 showed. So give each task whole partitions, which it reads in order:
#
# - Every rule works, also that of the classic coordinator.
# - The result of a task is final. Nothing is merged.
#
# But a partition is never divided.
#
# Here is a generated topic with a million records. A few groups are busy, and most groups are not:

# %%
topic = course.make_scratch_folder() / "topic"
shape = dict(groups=1000, keys=100, width=None, generations=0.01, segment_bytes=200_000, seed=10)
written = synth.write(topic, 1_000_000, **shape)

records = {number: partition["records"] for number, partition in written["partitions"].items()}
largest = max(records, key=records.get)
print(f"{sum(records.values()):,} records in {len(records)} partitions")
print(f"the largest is partition {largest} with {records[largest]:,} records")

# %% [markdown]
# *Predict*: you have 50 cores, and each task reads whole partitions. How many times faster than one core are they, at most? Round to a whole number.

# %%
# prediction
times_faster = ...

# %%
course.reveal("times_faster", times_faster, round(sum(records.values()) / records[largest]))

# %% [markdown]
# <details><summary>Why?</summary>
#
# One core reads the largest partition alone. This takes a seventh of the time that one core needs for everything. The other cores wait.
#
# </details>
#
# A broker does not use several cores for this. One thread loads its partitions, one after the other.
#
# ## Does it pay to divide a partition?
#
# We tried it with Spark: one partition, ten million records, the rule of the new coordinator. It took nearly **five times as long** as one task. The reason was the merge. In each part, two thirds of the records were the newest of their key, so all of these had to be merged.

# %% [markdown]
# ## Measure first
#
# The bars show the seconds for a **million** records. The slow ways load one partition, and their time is scaled.
#
# The last two bars are quoted from `docs/performance.md`, which was measured on another machine. The dump tool of Kafka only prints the records.

# %%
# figure
race = course.LoadTimes()
some = sorted(records, key=records.get)[25]
part = topic / f"__consumer_offsets-{some}"
folded = race.measure("reduce(step, lines, {})", lambda: reduce(step, course.read_lines(part), {}), records[some])
readable = race.measure("kg.load, readable engine", lambda: kg.load(part, engine="python"), records[some])

kg.load(topic, engine="compiled")  # The first load compiles, so it is not measured.
for threads in (1, 2):
    name = f"kg.load, compiled, threads={threads}"
    compiled = race.measure(name, lambda: kg.load(topic, engine="compiled", threads=threads), rounds=3)

race.add_benchmark("broker 4.3.1", "broker-4.3.1")
race.add_benchmark("kafka-dump-log 4.3.1", "dump-log")
race

# %% [markdown]
# A fast load with a wrong result is worth nothing. So compare the numbers of offsets:

# %%
def count(groups):
    return sum(len(group.offsets) for group in groups.values())


print("in the partition:", len(folded), "by reduce,", count(readable), "by the readable engine")
print("in the topic:", count(compiled), "by the compiled engine,", written["live_offsets"], "by the generator")

# %% [markdown]
# - The **readable** engine makes Python objects for each record. You can read its code.
# - The **compiled** engine has the same rules as machine code. From 16 MB on, `kg.load` chooses it.
#
# A second thread gains little, because the load is so short.
#
# ## How the time grows
#
# Each way needs time to **start**, and then time for **each record**. The curves show what `docs/performance.md` measured. Spark was already running, on the two cores of one machine:

# %%
course.LoadCurves(
    {
        "broker-4.3.1": "broker 4.3.1, one partition",
        "naive": "a loop in plain Python",
        "package-1": "kg.load, threads=1",
        "package-2": "kg.load, threads=2",
        "package-spark": "Spark, two cores",
    }
)

# %% [markdown]
# On a large log, Spark is as fast as two threads.
#
# ## Exercise: when is Spark as fast? On paper
#
# One process loads 10 million records per second, and starts immediately. A Spark cluster loads 100 million records per second, but needs 9 seconds to start.
#
# At how many **million** records do both need the same time? Write a whole number.

# %%
# exercise: equal_at
equal_at = ...

# %%
course.check("equal_at", equal_at)
# course.hint("equal_at")

# %% [markdown]
# ## Whole partitions on Spark
#
# Here Spark uses two cores of your own machine. Each task loads whole partitions, with the compiled engine. The format `noop` asks for all rows, and stores none:

# %% tags=["java"]
from kafkagroups import spark as kgs

try:
    spark = kgs.session("local[2]")
    kgs.register(spark)
    offsets = spark.read.format("consumer_offsets").option("table", "offsets").load(str(topic))
    read_all = offsets.write.format("noop").mode("overwrite").save
    race.measure("Spark, first job", read_all)
    race.measure("Spark, second job", read_all)
    print("offsets in the topic:", offsets.count())
except kg.UsageError as error:
    spark = None
    print(f"No Spark here: {error}")

race

# %% [markdown]
# The first job starts Python workers, and each of them loads the machine code. The second job still needs some tenths of a second before it reads a record.
#
# ## The merge on Spark
#
# Spark can also merge parts. `kafkagroups/spark/steps.py` has the rule of the new coordinator as operations on tables. One of them finds the commit with the largest record offset of each key. Spark does this for parts, and merges the results. Here it loads partition 9 of the shop:

# %% tags=["java"]
from kafkagroups.spark import steps

if spark is not None:
    path = course.find_data("harbour/4.3.1/__consumer_offsets-9")
    table = spark.read.format("consumer_offsets").option("table", "records").load(path)
    rows = steps.compute_answer(table).offsets.collect()
    found = {(row.group, f"{row.topic}-{row.topic_partition}"): row.committed_offset for row in rows}
    expected = {key: offset for key, offset in answered.items() if key[0] in ("billing", "fraud-check")}
    course.compare_with_broker(found, expected, "4.3.1")
    spark.stop()

# %% [markdown]
# ## Continue where the last load ended
#
# You can save the state of a fold, and continue later. This needs no merge, only the order. So it works for both coordinators.
#
# A **snapshot** stores the state of each partition, and the offset at which to continue. Below, `yesterday` is the topic without the newest segment of each partition:

# %%
yesterday, state = course.link_older_segments(topic), course.make_scratch_folder() / "state"
before = snapshots.take_snapshot(yesterday)
before.save(state)

after = snapshots.Snapshot.read(state).advance(topic)
read_before, read_after = (sum(each.next_offsets.values()) for each in (before, after))
print(f"yesterday {read_before:,} records, today {read_after - read_before:,} more")
print("offsets of the snapshot:", count(after.groups()), "  of a full load:", count(kg.load(topic)))

# %% [markdown]
# Is it faster?

# %%
resumed = course.measure_seconds(lambda: snapshots.Snapshot.read(state).advance(topic))
whole = course.measure_seconds(lambda: kg.load(topic))
print(f"read the snapshot and continue: {resumed:.2f} s")
print(f"load everything: {whole:.2f} s")

# %% [markdown]
# Here it is hardly faster. The time for a snapshot depends on the offsets that **exist**. The time for a full load depends on the records that were **written**. Here, each key was written only about ten times.
#
# A snapshot pays if each key was written a thousand times. It also pays if the log is behind a slow network.

# %% [markdown]
# ## Exercise: which one is for Spark?
#
# - **A**: a topic of 12 GB. 11 GB of it are one partition. A cluster of 20 machines is idle.
# - **B**: a topic of 3 GB. A dashboard shows its offsets every minute.
# - **C**: the topics of 300 clusters, 900 GB in an object store. Every night, their offsets are joined with a table of owners.
#
# Which load is for Spark? Write the letter as a text.

# %%
# exercise: for_spark
for_spark = ...

# %%
course.check("for_spark", for_spark)
# course.hint("for_spark")

# %% [markdown]
# ## When one process is enough
#
# One process is nearly always enough.
#
# | you want | use | why |
# |---|---|---|
# | one answer from some gigabytes | `kafkagroups load PATH` | It ends before Spark has started |
# | the same answer again and again | `kafkagroups load PATH --snapshot STATE` | It reads only new records |
# | logs that are too large for one machine | Spark | Many machines read at the same time |
# | to join the offsets with tables in Spark | Spark | The result is already there |
# | one huge partition | one process | More machines do not help |

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | an offset of a committed transaction counts, if | its key has no newer record | memory has no newer offset when the marker is read |
# | "newer" compares | the offsets of the records | the first offsets of the batches |
# | a tombstone in a transaction | deletes the offset immediately | deletes only what the same transaction has pending |
# | merge parts of a partition | possible, if all markers are known | impossible |
# | load whole partitions, continue from a snapshot | possible | possible |
# | threads that load, in a broker | one | one |
#
# No client can write a tombstone in a transaction.

# %% [markdown]
# <details><summary>Other versions</summary>
#
# Transactions exist since Kafka 0.11. In a log without transactions, the newest record of each key counts for the classic coordinator, too. So the parts of an older log can be merged.
#
# </details>
#
# ## In five lines
#
# - A load is a fold, from the first record to the last.
# - To merge parts, keep the newest line of each key with its position, tombstones too.
# - The classic coordinator asks for the state at the marker, so it needs the order.
# - Whole partitions need no merge. The largest one decides the time.
# - Measure first. One process is nearly always enough.
#
# ## For your consumer
#
# - All groups of a partition wait until it is loaded. One group that commits very often makes the others wait.
# - Commit once per poll, or every few seconds (`auto.commit.interval.ms`, 5 s). A commit after each message makes the log long.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of a partition's folder. FOLDER is a folder with copies of several partitions.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | How long will the next failover take? | `kafkagroups stats FOLDER --by partition` | It prints the records of each partition. A broker loads 0.4 to 0.6 million per second, one partition after the other | Reading a copy is safe. Lesson 10 makes long logs short |
# | One partition is much larger than the others | `kafkagroups stats PATH --by group --top 5` | It names the groups with the most records | Let these groups commit less often. Do not change the number of partitions |
# | The same folder is loaded again and again | `kafkagroups load FOLDER --snapshot STATE` | It continues from the state in STATE, and saves the new one there | STATE can be deleted. The next load reads everything |
# | Logs are in an object store | `kafkagroups load s3://bucket/logs --engine spark --master spark://host:7077 --to parquet:TABLES` | Each task loads whole partitions | TABLES must be a folder that all machines see |

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | where (4.3.1) | where (3.9.2) |
# |---|---|---|
# | one thread loads all partitions | `CoordinatorLoaderImpl`: `new KafkaScheduler(1)` | `GroupMetadataManager`: `new KafkaScheduler(1)` |
# | is it newer? | `OffsetMetadataManager.replayEndTransactionMarker` | `CommitRecordMetadataAndOffset.olderThan` |
# | a tombstone deletes a pending offset, too | `OffsetMetadataManager.replay` | – |
# | snapshots | none for this topic | none |
#
# </details>
#
# ## What we left out, and why
#
# - The tombstone of a group hides its older offsets. A merge needs the newest record of each group, too.
# - Records of the new protocols need their order. Lesson 13 shows them, and `steps.py` leaves them out.
# - Spark on several machines runs the same code. `kafkagroups.spark.keep` is a stream that keeps a snapshot current.
#
# **Next:** [13 · The new protocols](13_the_new_protocols.ipynb): what consumer, share and streams groups record.
