# %% [markdown]
# # 12 · Loading at scale
#
# **How long does a failover take, and can it be faster?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | estimate and shorten a failover; divide a load and merge the results; choose between one process and Spark | {{minutes}} | one cell |
#
# ![A broker loads three partitions in turn, one program loads whole partitions in parallel, and another one loads parts and merges the results.](pictures/12.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. A broker loads with one thread, about **0.4 million records per second**.
# 2. A shorter log makes a failover **shorter**.
# 3. A program can load **whole partitions** at the same time.
# 4. **One process** is nearly always enough.

# %% [markdown]
# ## How long does a failover take?
#
# A broker dies. Each partition that it led gets another leader, which loads the log. Every broker has one thread for this work. The thread loads one partition after the other, at about **0.4 million records per second**. Our benchmark measured 0.3 to 0.6 million on other machines and versions.
#
# Here is a generated topic with a thousand groups. Some groups commit much more often than others:

# %%
import kafkagroups as kg
from kafkagroups import course, synth

topic = course.make_scratch_folder() / "topic"
written = synth.write(topic, 1_000_000, groups=1000, segment_bytes=200_000, seed=10)

records = {number: partition["records"] for number, partition in written["partitions"].items()}
total = sum(records.values())
largest = max(records, key=records.get)
print(f"all {len(records)} partitions: {total:>9,} records, {total / 400_000:.1f} s")
print(f"    partition {largest}: {records[largest]:>9,} records, {records[largest] / 400_000:.1f} s")

# %% [markdown]
# If one broker takes over all partitions, the groups of the last partition wait 2.5 seconds.
#
# ## Can it be faster?
#
# | what you change | what happens |
# |---|---|
# | The cleaner works, and the groups commit less often. | The logs become shorter. This helps most. |
# | You spread the leaders of the partitions over more brokers. | Several brokers load at the same time, and each loads fewer partitions. |
#
# No setting adds a second loading thread. But a **program** that loads copies of the logs can use all cores.

# %% [markdown]
# ## A load is a fold
#
# A load works like the balance of a bank account. You go through the payments in their order. After each payment, there is a new balance.
#
# A load begins with an empty memory. A function gets the memory and the next record, and returns the new memory. Programmers call this a [**fold**](../docs/handbook/glossary.md#fold).
#
# Here the function is `apply_line`. Python's `reduce` calls it for each line. The log is that of `mailer`, which committed and was deleted:

# %%
from functools import reduce


def apply_line(offsets, line):
    if line.record_type == "offset":
        offsets[line.group, line.partition] = line.value
        if line.value is None:
            del offsets[line.group, line.partition]
    return offsets


mailer = course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))
print(*mailer, sep="\n")
print("offsets at the end:", reduce(apply_line, mailer, {}))

# %% [markdown]
# ## Two programs divide the log
#
# Program 1 reads the lines 0 to 4. Program 2 reads the lines 5 to 9, and begins with an empty dictionary. At the end, the entries of dictionary 2 are copied into dictionary 1.
#
# *Predict*: how many offsets does `mailer` have then?

# %%
# prediction
offsets_of_mailer = ...

# %%
first, second = reduce(apply_line, mailer[:5], {}), reduce(apply_line, mailer[5:], {})

course.reveal("offsets_of_mailer", offsets_of_mailer, len(first | second))

# %% [markdown]
# <details><summary>Why?</summary>
#
# Program 2 reads three tombstones. Its dictionary is empty, so there is nothing to remove, and it stays empty. The three offsets in dictionary 1 remain, although they were deleted.
#
# </details>
#
# So a program that reads a part must also return the tombstones.
#
# ## Exercise: merge two results
#
# Now the result of a part contains the **newest line** of each key, as a pair `(at, value)`:
#
# - `at` is the position of the line in the log.
# - `value` is the offset, or `None` for a tombstone.
#
# Write `merge(left, right)`. It returns a dictionary with the result of both parts together. `left` can be the earlier part or the later part. The result can be merged with a third part.

# %%
# exercise: merge
def merge(left, right):
    ...

# %%
course.check("merge", merge)
# course.hint("merge")

# %% [markdown]
# ## Transactions: collect the markers first
#
# An offset in a transaction counts only if the next marker of its producer commits. This marker can be in another part of the log. So a program first collects all markers. Then the program can decide about each line without the other lines.
#
# The next cell does this for the whole shop. Lines of aborted and open transactions are left out. Each other line becomes one part. The parts are merged in 20 random orders:

# %%
shop = course.find_data("harbour/4.3.1")
parts = course.list_part_results(shop)
results = [course.merge_in_random_order(parts, seed) for seed in range(20)]

print(len(parts), "parts. The same offsets in every order:", all(result == results[0] for result in results))
course.compare_with_broker(results[0], course.read_answered_offsets("harbour/4.3.1"), "4.3.1")

# %% [markdown]
# So the offsets of the **new** coordinator can be loaded in parts.

# %% [markdown]
# ## The classic coordinator needs the order
#
# When the classic coordinator reads a **marker**, it looks into its memory. If the memory has an offset of this key from a later record, this offset stays. Otherwise, the coordinator stores the offset of the transaction.
#
# In the next log, an offset is deleted during a transaction. All four records are about the same key:

# %%
log_1 = [
    "commit: 100",
    "commit in a transaction: 101",
    "tombstone",
    "marker that commits the transaction",
]
for coordinator in ("classic", "new"):
    print(f"{coordinator:<8} loads {course.load_described_log(log_1, coordinator)}")

# %% [markdown]
# In the second log, the marker comes before the tombstone.
#
# *Predict*: which offset does the **classic** coordinator load from the second log? Write `None` if there is no offset.

# %%
# prediction
from_log_2 = ...

# %%
log_2 = [
    "commit: 100",
    "commit in a transaction: 101",
    "marker that commits the transaction",
    "tombstone",
]
course.reveal("from_log_2", from_log_2, course.load_described_log(log_2, "classic"))

# %% [markdown]
# <details><summary>Why?</summary>
#
# In log 1, the tombstone removes 100. Then the marker comes. The memory has no offset, so the classic coordinator stores 101.
#
# In log 2, the marker comes first and stores 101. Then the tombstone removes 101.
#
# The new coordinator loads `None` from both logs. In both, the tombstone is later than both commits.
#
# </details>
#
# The memory depends on all records before the marker. So the classic rule cannot begin in the middle of a partition.

# %% [markdown]
# ## Whole partitions need no merge
#
# A group lives in one partition. So a program can give whole partitions to each core, which reads them in order. This is correct for both coordinators.
#
# But one core must read the largest partition alone. In our topic, partition 32 has 144,504 of the million records.
#
# *Predict*: you have 50 cores. How many times faster than one core can they be, at most? Round to a whole number.

# %%
# prediction
times_faster = ...

# %%
course.reveal("times_faster", times_faster, round(total / records[largest]))

# %% [markdown]
# <details><summary>Why?</summary>
#
# The core with partition 32 needs one seventh of the time that a single core needs for the topic. The other cores are ready earlier, and wait.
#
# </details>

# %% [markdown]
# ## Is it worth it to divide the largest partition?
#
# No. We divided a partition of ten million records. This took nearly **five times as long** as one task for the whole partition.
#
# <details><summary>Why?</summary>
#
# In a part, a record is dropped only if the same part has a newer record of its key. Two thirds of all records were left. All of them had to be sent to other tasks and merged.
#
# </details>

# %% [markdown]
# ## The race
#
# Four ways to read a **million** records:
#
# - The loop with `apply_line` is slow. So we measure it with one small partition, and multiply.
# - `kg.load` follows the rules of a broker. It uses the native engine if there is one.
# - The broker has the speed from above.
# - Kafka's dump tool only prints the records.

# %%
# figure
small = min(records, key=records.get)
partition = topic / f"__consumer_offsets-{small}"

race = course.LoadTimes()
found = race.measure("a loop in Python", lambda: reduce(apply_line, course.read_lines(partition), {}), records[small])
groups = race.measure("kg.load, one thread", lambda: kg.load(topic, threads=1), rounds=2)
race.add_speed("a broker", 400_000)
race.add_benchmark("Kafka's dump tool", "dump-log")
race

# %%
# A fast load with a wrong result is worth nothing. So compare the results.
def count_offsets(groups):
    return sum(len(group.offsets) for group in groups.values())


print("kg.load used", course.name_engine())
print("small partition:", len(found), "offsets by the loop,", count_offsets(kg.load(partition)), "by kg.load")
print("whole topic:    ", count_offsets(groups), "offsets by kg.load,", written["live_offsets"], "were generated")

# %% [markdown]
# So `kafkagroups check` can test a failover of your whole cluster in seconds.
#
# ## Spark
#
# Apache Spark divides a job into **tasks**, and runs them on many cores or machines. Here each task loads whole partitions, on two cores of your own machine. The format `noop` makes Spark read all rows and store none:

# %% tags=["java"]
from kafkagroups import spark as kgs

try:
    spark = kgs.session("local[2]")
    kgs.register(spark)
    offsets = spark.read.format("consumer_offsets").option("table", "offsets").load(str(topic))
    for job in ("first", "second"):
        race.measure(f"Spark, {job} job", lambda: offsets.write.format("noop").mode("overwrite").save())
    print("offsets in the topic:", offsets.count())
    spark.stop()
except kg.UsageError as error:
    print(f"No Spark here: {error}")

race

# %% [markdown]
# The first job is slow, because it starts Python for the tasks.
#
# ## How the time grows
#
# Each way needs time to **start**, and then time for **each record**. The curves show what our benchmark measured, on the two cores of one machine. Spark was already running:

# %%
# figure
course.LoadCurves(
    {
        "package-1": "kg.load, one thread",
        "package-2": "kg.load, two threads",
        "package-spark": "Spark, two cores",
    }
)

# %% [markdown]
# The longer the log, the closer are the curves. So on one machine, Spark gains nothing. It pays with **more machines**, if the log is long enough.

# %% [markdown]
# ## Exercise: how long is long enough? On paper
#
# One process loads 10 million records per second, and starts immediately. A Spark cluster loads 100 million records per second, but needs 9 seconds to start.
#
# For how many **million** records do both need the same time? Write a whole number.

# %%
# exercise: equal_at
equal_at = ...

# %%
course.check("equal_at", equal_at)
# course.hint("equal_at")

# %% [markdown]
# ## Continue where the last load ended
#
# If you know yesterday's balance, you only need today's payments. A [**snapshot**](../docs/handbook/glossary.md#snapshot) is a small log: the records that still count, with the position at which to continue. It works for both coordinators, because the next load reads it before the rest of the log.
#
# Below, `yesterday` is the topic without the newest segment of each partition:

# %%
from kafkagroups.loading import snapshots

yesterday, state = course.link_older_segments(topic), course.make_scratch_folder() / "state"
before = snapshots.take_snapshot(yesterday)
before.save(state)

after = snapshots.Snapshot.read(state).advance(topic)
read_before, read_after = (sum(snapshot.next_offsets.values()) for snapshot in (before, after))
print(f"yesterday: {read_before:,} records. Today: {read_after - read_before:,} more")
print("offsets:", count_offsets(after.groups()), "by the snapshot,", count_offsets(kg.load(topic)), "by a full load")

resumed = course.measure_seconds(lambda: snapshots.Snapshot.read(state).advance(topic))
whole = course.measure_seconds(lambda: kg.load(topic))
print(f"time: {resumed:.2f} s with the snapshot, {whole:.2f} s for a full load")

# %% [markdown]
# The snapshot must be read, too. So it pays if the log is very long. A broker saves no snapshots of this topic.

# %% [markdown]
# ## Exercise: which one is for Spark?
#
# - **A**: a topic of 12 GB. 11 GB of it are one partition. A cluster of 20 machines is idle.
# - **B**: a topic of 3 GB. A dashboard shows its offsets every minute.
# - **C**: the topics of 300 clusters, 900 GB. Every night, their offsets are joined with a table of owners.
#
# Which load is for Spark? Write the letter in quotes.

# %%
# exercise: for_spark
for_spark = ...

# %%
course.check("for_spark", for_spark)
# course.hint("for_spark")

# %% [markdown]
# ## When one process is enough
#
# | what you have | what to use | why |
# |---|---|---|
# | some gigabytes | `kafkagroups load PATH` | It ends before Spark has started. |
# | the same log every minute | `kafkagroups load PATH --snapshot STATE` | It reads only the new records. |
# | one huge partition | `kafkagroups load PATH` | More machines do not help. |
# | logs too large for one machine, or tables in Spark to join with | Spark | Many machines read at the same time. |

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | When does an offset of a committed transaction count? | If its record is the newest of its key. Tombstones count, too. | If the memory at the marker has no offset from a later record. A tombstone leaves nothing in the memory. |
# | Can parts of a partition be merged? | Yes, if all markers are known. | No. |

# %% [markdown]
# <details><summary>Other versions</summary>
#
# Transactions exist since Kafka 0.11. In a log without transactions, the newest record of each key counts for the classic coordinator, too. So the parts of an older log can be merged.
#
# </details>
#
# ## In five lines
#
# - A failover takes about one second for 0.4 million records.
# - Shorter logs make a failover faster. No setting adds a thread.
# - To merge parts, keep the newest line of each key, tombstones too.
# - Whole partitions need no merge. The largest one decides the time.
# - One process is nearly always enough.

# %% [markdown]
# ## For your consumer
#
# - Commit once per poll, or every few seconds. A commit after each message makes the log long. Then all groups of the partition wait longer in a failover.
#
# ## At 3 am
#
# FOLDER contains copies of the partitions' folders. PATH is one of these copies.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | How long will the next failover take? | `kafkagroups stats FOLDER --by partition` | It prints the records of each partition. Divide them by 0.4 million per second | Reading a copy is safe |
# | Groups wait for minutes during a failover | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | It prints the leader of each partition. Each leader loads its partitions one after the other | Wait. After a restart, the load begins again |
# | A broker will restart soon, and its logs are long | `kafkagroups stats PATH` | It says why the log was not cleaned | Delay the restart, and repair the cleaner first: lesson 10 |
# | One partition is much larger than the others | `kafkagroups stats PATH --by group --top 5` | It names the groups with the most records | Let these groups commit less often |
#
# <details><summary>Logs in an object store</summary>
#
# `kafkagroups load s3://bucket/logs --engine spark --master spark://host:7077 --to parquet:TABLES` loads whole partitions in each task. TABLES must be a folder that all machines can write to.
#
# </details>

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | where (4.3.1) | where (3.9.2) |
# |---|---|---|
# | one thread loads all partitions | `CoordinatorLoaderImpl`: `new KafkaScheduler(1)` | `GroupMetadataManager`: `new KafkaScheduler(1)` |
# | is an offset of a transaction newer? | `OffsetMetadataManager.replayEndTransactionMarker` | `CommitRecordMetadataAndOffset.olderThan` |
# | snapshots | none for this topic | none |
#
# </details>
#
# ## What we left out, and why
#
# Our merge ignores the tombstone of a group, which hides the group's older offsets (lesson 11). A complete merge needs the newest record of each group, too.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [13 · The new protocols](13_the_new_protocols.ipynb): what consumer, share and streams groups record.
