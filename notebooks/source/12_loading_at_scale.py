# %% [markdown]
# # 12 · Loading at scale
#
# **When is one process enough, and what does Spark add?**
#
# **Which Kafka:** 4.x and 3.9, which load at the same speed.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say how fast a program can load the topic; decide when one process is enough; say what Spark adds, and what it costs | {{minutes}} + 10 for later | only the cells with Spark |
#
# ![A broker loads three partitions in turn, one program loads whole partitions in parallel, and a third one, which is slower, loads parts and merges the results.](pictures/12.svg)

# %% [markdown]
# Not only brokers load `__consumer_offsets`. Other programs read the same logs, too, often those of many clusters: for example a monitor, or a test of the next failover. This lesson is for people who write or run such a program; for others, the first table is enough. Does the program need one process, all processor cores of a machine, or Apache Spark, which runs a job on many machines?
#
# ## When one process is enough
#
# One process is nearly always enough, because it loads 5 to 10 million records per second (a broker: 0.4 million):
#
# | what you have | what to use | why |
# |---|---|---|
# | some gigabytes | `kafkagroups load PATH` | It is ready before Spark has started. |
# | one huge partition | `kafkagroups load PATH` | The largest partition is the limit, for Spark too. |
# | the same log every minute | `kafkagroups load PATH --snapshot STATE` | It reads only the new records. |
# | logs too large for one machine, or tables in Spark that you want to join with the offsets | Spark | Many machines read at the same time. |

# %% [markdown]
# ## How long does a broker load?
#
# We generate a topic with a thousand groups, some of which commit much more often than others. A broker loads 0.4 million records per second (lesson 11), so we can compute how long it needs:

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
# At this speed, a broker needs an hour for 1.4 billion records. A cleaned log is far from that, because it has little more than one record for each key (lesson 10). So a cleaned topic loads in seconds, and only a topic that was **not cleaned** for weeks takes minutes or hours.
#
# ## One process
#
# Can a program be faster? We compare a broker with three programs that read the same **million** records in one process:
#
# - A loop in Python changes a dictionary for each line of the log, as `replay` of lesson 11 does. The loop is slow, so we measure it with one small partition, and calculate its time for a million records.
# - `kg.load` follows the rules of a broker, in compiled code if that is installed (the *native engine*).
# - Kafka's dump tool only prints the records.

# %%
# figure
from functools import reduce


def apply_line(offsets, line):
    if line.record_type == "offset":
        offsets[line.group, line.partition] = line.value
        if line.value is None:
            del offsets[line.group, line.partition]
    return offsets


small = min(records, key=records.get)
partition = topic / f"__consumer_offsets-{small}"

race = course.LoadTimes()
race.add_speed("a broker", 400_000)
found = race.measure("a loop in Python", lambda: reduce(apply_line, course.read_lines(partition), {}), records[small])
groups = race.measure("kg.load, one thread", lambda: kg.load(topic, threads=1), rounds=3)
race.add_benchmark("Kafka's dump tool", "dump-log")
race

# %%
# A fast load with a wrong result is worth nothing, so we compare the results.
def count_offsets(groups):
    return sum(len(group.offsets) for group in groups.values())


print("kg.load used", course.name_engine())
print("small partition:", len(found), "offsets by the loop,", count_offsets(kg.load(partition)), "by kg.load")
print("whole topic:    ", count_offsets(groups), "offsets by kg.load,", written["live_offsets"], "were generated")

# %% [markdown]
# The loop in Python and the dump tool are slower than a broker. But with the native engine, `kg.load` is ten to thirty times as fast as a broker, depending on the machine and the log. So `kafkagroups check` can test the failover of a cluster in seconds, on a copy of its logs.

# %% [markdown]
# ## Continue where the last load ended
#
# A monitor loads the same log every minute, but few records are new. So it can save the records that still count, and the offset at which to continue. This is a [*saved load*](../docs/handbook/glossary.md#saved-load) (`kafkagroups load PATH --snapshot STATE`; STATE is a folder). Below, `yesterday` is the topic without the newest segment of each partition:

# %%
from kafkagroups.loading import snapshots  # `Snapshot`: a saved load, not the snapshot of lesson 04

yesterday, state = course.link_older_segments(topic), course.make_scratch_folder() / "state"
before = snapshots.take_snapshot(yesterday)
before.save(state)

after = snapshots.Snapshot.read(state).advance(topic)
read_before, read_after = (sum(snapshot.next_offsets.values()) for snapshot in (before, after))
print(f"records to read: {total:,} by a full load, {read_after - read_before:,} with the saved load")
print("offsets:", count_offsets(groups), "by a full load,", count_offsets(after.groups()), "with the saved load")

# %% [markdown]
# The offsets are the same. A broker has no saved load: it always reads the whole log.

# %% [markdown]
# ## Whole partitions at the same time
#
# The first load of a log must still read everything. Can more cores make it faster? A group lives in one partition (lesson 02), so each core can load whole partitions, and nothing has to be merged. But one core must load the largest partition alone.
#
# In our topic, partition 32 has 144,504 of the million records. *Predict*: how many times faster than one core can 50 cores be, at most? Round to a whole number.

# %%
# prediction
times_faster = ...

# %%
course.reveal("times_faster", times_faster, round(total / records[largest]))

# %% [markdown]
# <details><summary>Why?</summary>
#
# The core with partition 32 needs one seventh of the time that a single core needs for the topic. The other cores finish earlier, and wait for this one.
#
# </details>
#
# In practice, the gain is smaller, because the cores share memory and disk. With ten million records, two cores needed two thirds of the time of one core.

# %% [markdown]
# ## Why nobody divides a partition
#
# Could two cores share the largest partition, if one reads the first half of its log and the other one the second half? The loop of "One process" begins with an empty memory. For each record, a function (`apply_line`) takes the memory and the record, and returns the new memory. A computation of this kind, in which each step needs the result of the step before, is called a [*fold*](../docs/handbook/glossary.md#fold). We divide the log of `mailer`, a group that committed and was deleted:

# %%
mailer = course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))
print(*mailer, sep="\n")
print("offsets at the end:", reduce(apply_line, mailer, {}))

# %% [markdown]
# Core 1 reads the lines 0 to 4, and core 2 the lines 5 to 9, each with an empty dictionary. At the end, dictionary 2 is copied into dictionary 1.
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
# Core 2 reads three tombstones, but its dictionary is empty, so there is nothing to remove and it stays empty. The three offsets in dictionary 1 remain, although they were deleted.
#
# </details>
#
# A correct merge is possible, if the result of each part also contains:
#
# - its tombstones, because they may delete an offset of an earlier part
# - the position of each line, because the later line of a key wins
# - its pending offsets, because their marker may be in a later part
#
# This costs more than it saves. We divided a log with ten million records into 13 parts. Nearly every key occurs in each of the 13 parts, so each part keeps a line for nearly every key. So one process had to merge nearly seven million lines, and everything together took **nearly five times as long** as reading the log in one piece. The **largest partition is the limit**, also for many machines.

# %% [markdown]
# ## What Spark adds
#
# Spark divides a job into *tasks*, and runs them on many machines. With this package, each task loads whole partitions. Here, Spark has two cores of your machine, and loads our topic twice. (The format `noop` throws the rows away, so the cell measures only the load.)

# %% tags=["java"]
from kafkagroups import spark as kgs

try:
    spark = kgs.session("local[2]")
    offsets = spark.read.format("consumer_offsets").load(str(topic))
    for job in ("first", "second"):
        race.measure(f"Spark, {job} job", lambda: offsets.write.format("noop").mode("overwrite").save())
    print("offsets in the topic:", offsets.count())
except kg.UsageError as error:
    spark = None
    print(f"No Spark here: {error}")

race

# %% [markdown]
# On one machine, even the second job does not beat one process. What Spark adds is **more machines**, for logs that are too large for one machine, and **SQL**.
#
# ## What Spark costs
#
# Before Spark reads a record, it must start Java. The first job must also start Python in each task, so it is slower than the second job in the chart. One process starts at once. So Spark is faster only for a log that is so long that the seconds of its start no longer matter.
#
# ## Exercise: how long is long enough? On paper
#
# One process loads 10 million records per second, and starts immediately. A Spark cluster loads 100 million records per second, but needs 9 seconds to start.
#
# For how many **million** records do the process and the cluster need the same time? Write a whole number.

# %%
# exercise: equal_at
equal_at = ...

# %%
course.check("equal_at", equal_at)
# course.hint("equal_at")

# %% [markdown]
# ## With Spark: the offsets as a table
#
# In Spark, the offsets are a table that you can query, and join with your other tables. For example: which topics are read by more than one group?

# %% tags=["java"]
if spark:
    shop = course.find_data("harbour/4.3.1")
    spark.sql(f"CREATE TEMPORARY VIEW shop USING consumer_offsets OPTIONS (path '{shop}')")
    question = "SELECT topic, collect_set(`group`) AS groups FROM shop GROUP BY topic HAVING size(groups) > 1"
    for row in spark.sql(question).orderBy("topic").collect():
        print(f"{row.topic:<10} {', '.join(sorted(row.groups))}")
    spark.stop()

# %% [markdown]
# Often you have no segment files, but only a table of the records that a consumer has read, for example Spark's Kafka source. A consumer never gets the markers, so such a table does not show which transactions were aborted. The page about Spark says [how to read it, and how to load it](../docs/spark.md#rows-instead-of-segments).

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
# ## Exercise for later: merge two results
#
# What would a program that divides a partition have to do? The result of a part contains the **newest line** of each key, as a pair `(at, value)`:
#
# - `at` is the position of the line in the log.
# - `value` is the offset, or `None` for a tombstone.
#
# Write `merge(left, right)`. It returns a dictionary with the result of both parts together. `left` can be the earlier or the later part, and the result can be merged with a third part.

# %%
# exercise: merge
def merge(left, right):
    ...

# %%
course.check("merge", merge)
# course.hint("merge")

# %% [markdown]
# ## Where 3.9 differs
#
# Whole partitions and saved loads work for the logs of 3.9, too.
#
# ## Check yourself
#
# <details><summary>Half of a topic's records are in one partition. How many times faster can a cluster of 20 machines load the topic than one core?</summary>
#
# Twice, at most. One core must load the largest partition alone, and this is half of the work.
#
# </details>
#
# <details><summary>Why does a saved load help a monitor, and not a broker?</summary>
#
# A monitor loads the same log again and again, so it can keep the records that still count, and read only the new ones. A broker has no saved load, and reads its whole log.
#
# </details>
#
# ## In five lines
#
# - A broker loads 0.4 million records per second. Only a log that was not cleaned takes minutes.
# - A program can load whole partitions at the same time. The largest partition decides how long this takes.
# - A saved load makes the next load read only the new records.
# - One process is enough, unless the logs are too large for one machine, or you want to join them with tables in Spark.
# - Dividing a partition takes longer than reading it in one piece, because the results must be merged.

# %% [markdown]
# ## For your consumer
#
# Commit once per poll, or every few seconds. A commit after each message makes every load longer.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A monitor's values are minutes old | `kafkagroups stats PATH --by partition --top 5` | The largest partition decides how long the monitor loads | Use a saved load: `kafkagroups load PATH --snapshot STATE` |
# | One partition is much larger than the others | `kafkagroups stats PATH --by group --top 5` | The output names the groups with the most records | Let these groups commit less often. If only this replica is large: lesson 10 |
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
# | saved loads | none (the files `*.snapshot` in a partition's folder are about producers) | none |
#
# </details>

# %% [markdown]
# ## What we left out, and why
#
# [Spark](../docs/spark.md) has the options of the format, and streams.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [13 · The new protocols](13_the_new_protocols.ipynb): what consumer, share and streams groups record.
