# %% [markdown]
# # 12 · Loading at scale
#
# **How long does a failover take, and can a program read the topic faster?**
#
# **Which Kafka:** 4.x and 3.9, which load at the same speed.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | estimate and shorten a failover, and restart brokers in the right order; divide a load and merge the results; decide when one process is enough | {{minutes}} | only the cells with Spark |
#
# ![A broker loads three partitions in turn, one program loads whole partitions in parallel, and another one loads parts and merges the results.](pictures/12.svg)

# %% [markdown]
# The lesson has two parts.
#
# - **Part A is for everybody who runs brokers, or waits for them.** A restart of the wrong broker can stop the groups of a partition for hours. You will know beforehand how long they wait, and which broker to restart first. It takes ten minutes, without programming.
# - **Part B is for people who write a program that reads the topic**, for example a monitor or an audit. It shows what such a program can divide. Everybody else can go on with lesson 13.
#
# Four things to hold on to:
#
# 1. A broker loads with one thread, about **0.4 million records per second** (A).
# 2. It loads **its own copy** of the log, so the copies on the brokers that take over must be short (A).
# 3. A program can load whole partitions at the same time, because a group lives in one of them (B).
# 4. **One process** is nearly always enough (B).

# %% [markdown]
# ## How long does a failover take?
#
# *Part A.* When a broker stops, other brokers become the leaders of its partitions of `__consumer_offsets`. Each of them has one thread for loads, and loads its new partitions one after the other.
#
# Running consumers go on reading, but they cannot commit until their partition is loaded. A consumer that starts has to wait for its offsets. For how long? We generate a topic with a thousand groups, some of which commit much more often than others:

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
# If one broker takes over all partitions, the last groups wait 2.5 seconds. An hour would mean 1.4 billion records, far more than a cleaned log has.
#
# ## Which copy does a restart load?
#
# Each broker has its own copy of a partition, and its cleaner cleans only this copy. If you restart a leader, another broker takes over and loads *its* copy. So the copy on the broker that you restart does not matter for this load:
#
# | long copies are on | a restart of this broker |
# |---|---|
# | this broker | is quick, and starts its dead cleaner thread again |
# | a broker that takes over | is slow: restart that broker first |
# | all brokers | is slow. Choose a quiet hour |
#
# One danger remains. After some minutes, Kafka makes the restarted broker the leader of its partitions again (`auto.leader.rebalance.enable`, on by default, checks every 5 minutes). If its new cleaner thread has not shortened its copies by then, it loads the long ones after all. The leadership goes to the first broker in a partition's list of replicas; `kafka-reassign-partitions.sh` can put another one first.
#
# So after a cleaner has died:
#
# 1. Find the brokers with long copies: `kafka-log-dirs.sh` (lesson 10).
# 2. Restart these first, one at a time. After each, wait until its copies are small.
# 3. Only then restart the others.
#
# ## Can it be faster?
#
# | what you change | what happens |
# |---|---|
# | The cleaner works, and the groups commit less often. | The logs become shorter. This helps most. |
# | You spread the leaders of the partitions over more brokers. | Several brokers load at the same time, and each loads fewer partitions. |
#
# No setting adds a second loading thread; `group.coordinator.threads` of 4.x is about requests, not loads.
#
# **Part A ends here.** The table *At 3 am* belongs to it.

# %% [markdown]
# ## A load is a fold
#
# *Part B.* A program can use many threads and machines. Which work can it divide? A load begins with an empty memory. For each record, a function takes the memory and the record, and returns the new memory. Such a computation is a [**fold**](../docs/handbook/glossary.md#fold), and whether it can be divided depends only on this function.
#
# For offsets, the function is `apply_line`, which Python's `reduce` calls for each line. Here it loads the log of `mailer`, a group that committed and was deleted:

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
# Program 1 reads the lines 0 to 4. Program 2 reads the lines 5 to 9 and begins with an empty dictionary, because it does not know the lines before. At the end, the entries of dictionary 2 are copied into dictionary 1.
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
# Program 2 reads three tombstones, but its dictionary is empty, so there is nothing to remove and it stays empty. The three offsets in dictionary 1 remain, although they were deleted.
#
# </details>
#
# So the result of a part must contain the tombstones too, until all parts are merged.
#
# ## Exercise: merge two results
#
# The result of a part contains the **newest line** of each key, as a pair `(at, value)`:
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
# An offset in a transaction counts only if the next marker of its producer commits, and this marker can be in another part of the log. So a program collects all markers first. Then it can decide about each line alone.
#
# The next cell does this for the whole shop. Each line that counts becomes one part, and the parts are merged in 20 random orders:

# %%
shop = course.find_data("harbour/4.3.1")
parts = course.list_part_results(shop)
results = [course.merge_in_random_order(parts, seed) for seed in range(20)]

print(len(parts), "parts. The same offsets in every order:", all(result == results[0] for result in results))
course.compare_with_broker(results[0], course.read_answered_offsets("harbour/4.3.1"), "4.3.1")

# %% [markdown]
# So a program that answers like 4.x can merge the offsets of parts in any order.

# %% [markdown]
# ## Whole partitions need no merge
#
# There is a simpler way. A group lives in one partition, so a program can give whole partitions to each core, and merge nothing. But one core must read the largest partition alone. In our topic, partition 32 has 144,504 of the million records.
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
# The core with partition 32 needs one seventh of the time that a single core needs for the topic. The others are ready earlier, and wait for it.
#
# </details>
#
# Does it help to divide the largest partition too? We tried it with ten million records, and it took nearly **five times as long** as reading the partition in one piece. In each part, two thirds of the records were the newest of their key, and had to be sent to the process that merges.

# %% [markdown]
# ## The race
#
# Four ways to read a **million** records in one process:
#
# - a loop with `apply_line`, measured with a small partition and multiplied,
# - `kg.load`, which follows the rules of a broker, in compiled code (the *native engine*) if that is installed,
# - a broker, with the speed from above,
# - Kafka's dump tool, which only prints the records.

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
# A fast load with a wrong result is worth nothing, so we compare the results.
def count_offsets(groups):
    return sum(len(group.offsets) for group in groups.values())


print("kg.load used", course.name_engine())
print("small partition:", len(found), "offsets by the loop,", count_offsets(kg.load(partition)), "by kg.load")
print("whole topic:    ", count_offsets(groups), "offsets by kg.load,", written["live_offsets"], "were generated")

# %% [markdown]
# One process loads the whole topic in less time than a broker needs for its largest partitions. So `kafkagroups check` can test a failover of a whole cluster in seconds, on a copy of its logs.
#
# ## What Spark adds
#
# Apache Spark divides a job into *tasks*, and runs them on many machines. With this package, each task loads whole partitions. Here Spark has only two cores of your own machine. With `noop`, it stores the rows nowhere:

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
# The first job also starts Python in the tasks. On one machine, even the second job does not beat one process. Spark pays when the logs are too large for one machine, or when their offsets are only one of the tables in a question. For example: which topics are read by more than one group?

# %% tags=["java"]
if spark:
    spark.sql(f"CREATE TEMPORARY VIEW shop USING consumer_offsets OPTIONS (path '{shop}')")
    question = "SELECT topic, collect_set(`group`) AS groups FROM shop GROUP BY topic HAVING size(groups) > 1"
    for row in spark.sql(question).orderBy("topic").collect():
        print(f"{row.topic:<10} {', '.join(sorted(row.groups))}")

# %% [markdown]
# Many companies have no files, but **rows**: Spark's Kafka source or a connector has read the topic into a table. `kgs.load` takes such a table like a path, if it was read with `kafka.isolation.level=read_committed`, because rows have no markers:

# %% tags=["java"]
if spark:
    records = spark.read.format("consumer_offsets").option("table", "records").load(str(shop))
    rows = records.where("control IS NULL").select("key", "value", "partition", "offset", "timestamp")
    for row in kgs.load(rows).offsets.where("group = 'shipping'").orderBy("topic", "topic_partition").collect():
        print(f"{row.group:<8} {row.topic}-{row.topic_partition}: {row.committed_offset}")
    spark.stop()

# %% [markdown]
# ## Exercise: how long is long enough? On paper
#
# Every way needs time to **start**, and then time for **each record**, so a Spark cluster catches up only if the log is long enough. One process loads 10 million records per second, and starts immediately. A Spark cluster loads 100 million records per second, but needs 9 seconds to start.
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
# A program that loads the same log every minute need not begin at its start each time. This package can save the records that still count, and the offset at which to continue. We call that a *saved load*; the package calls it a [`snapshot`](../docs/handbook/glossary.md#snapshot), a word that lesson 04 uses for a broker's memory.
#
# Below, `yesterday` is the topic without the newest segment of each partition. You can skip the code:

# %%
from kafkagroups.loading import snapshots

yesterday, state = course.link_older_segments(topic), course.make_scratch_folder() / "state"
before = snapshots.take_snapshot(yesterday)
before.save(state)

after = snapshots.Snapshot.read(state).advance(topic)
read_before, read_after = (sum(snapshot.next_offsets.values()) for snapshot in (before, after))
print(f"yesterday: {read_before:,} records. Today: {read_after - read_before:,} more")
print("offsets:", count_offsets(after.groups()), "with the saved load,", count_offsets(kg.load(topic)), "by a full load")

resumed = course.measure_seconds(lambda: snapshots.Snapshot.read(state).advance(topic))
whole = course.measure_seconds(lambda: kg.load(topic))
print(f"time: {resumed:.2f} s with the saved load, {whole:.2f} s for a full load")

# %% [markdown]
# The offsets are the same. The gain is small, because the log is small and the saved load must be read, too. A broker has no such help: it always reads the whole log. (The files `*.snapshot` in a partition's folder are about producers.)

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
# | some gigabytes | `kafkagroups load PATH` | It is ready before Spark has started. |
# | the same log every minute | `kafkagroups load PATH --snapshot STATE` | STATE is the saved load. It reads only the new records. |
# | one huge partition | `kafkagroups load PATH` | More machines do not help. |
# | logs too large for one machine, or tables in Spark to join with | Spark | Many machines read at the same time. |

# %% [markdown]
# ## Where 3.9 differs
#
# In 3.9, parts can be merged only if the log has no transactions: if an offset is deleted while a transaction is open, the answer depends on the memory at the marker, and therefore on all earlier records. Whole partitions and saved loads are right for both releases.
#
# ## In five lines
#
# - A failover takes about one second for 0.4 million records, and no setting adds a thread.
# - The brokers that take over load their own copies, so restart a broker with a dead cleaner first.
# - A load is a fold: parts can be merged if each keeps the newest line of each key, tombstones too.
# - Whole partitions need no merge, so the largest one decides the time.
# - One process is nearly always enough.

# %% [markdown]
# ## For your consumer
#
# Commit once per poll, or every few seconds. A commit after each message makes the log long, and then all groups of its partition wait longer in a failover.
#
# ## At 3 am
#
# FOLDER contains copies of the partitions' folders of one broker, and PATH is one of them.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | How long will the next failover take? | `kafkagroups stats FOLDER --by partition`, for a broker that **takes over** | The records of each partition. Divide them by 0.4 million per second | Reading is safe |
# | Groups wait for minutes during a failover | `grep "Finished loading" server.log` on the new leaders | A 4.x broker writes one line for each loaded partition | Wait. A restart begins the load again |
# | A broker must be restarted, and logs are long | `kafka-log-dirs.sh --bootstrap-server localhost:9092 --describe --topic-list __consumer_offsets` | The size of each copy | Restart the brokers with long copies first, as above |
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
# [Spark](../docs/spark.md) has the options of the format, streams, and topics that you have as rows of a table instead of segments.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [13 · The new protocols](13_the_new_protocols.ipynb): what consumer, share and streams groups record.
