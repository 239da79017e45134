# %% [markdown]
# # 00 · Start here
#
# **How does Kafka remember where every consumer is?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | check your set-up; solve an exercise; say what a committed offset means; find the partition of any group; choose your path | {{minutes}} + 10 for later | no |
#
# **Which Kafka:** this lesson is true for 4.x and 3.9. Its files and answers are from a real 4.3.1 broker.
#
# ![A consumer commits offset 17, a broker appends it to __consumer_offsets and dies, and another broker reads the topic and answers 17 again.](pictures/00.svg)

# %% [markdown]
# ## The problem
#
# Kafka stores streams of records, and programs called consumers read them in order. A consumer that crashes must continue where it stopped, so its position has to live outside of it. Kafka itself stores it. But the server that does so can crash, too, so who remembers it then?
#
# This course shows the bytes that Kafka stores for a position, and the rules by which it answers. With both, you can predict the answer after a crash, explain why a position went back, and restore lost positions.
#
# ## Is your set-up right?
#
# This page is a notebook. Click the next cell and press **Shift + Enter** to run it. Each line must say `ok`; any other line tells you how to repair a problem. In all lessons, you may skip most of the code (some of it is folded away), but read the output.

# %%
from kafkagroups.cli import doctor

needed_everywhere = {"python", "packages", "kernel"}
for check in doctor.run_checks():
    if check.check in needed_everywhere:
        print(f"{check.check:<12}", "ok" if check.ok else f"NOT OK: {check.found}. To repair it: {check.fix}")

# %% [markdown]
# ## Your first look inside
#
# Kafka keeps all positions in one place, `__consumer_offsets`. This is a record from there:

# %%
import kafkagroups as kg

key = bytes.fromhex("0001000762696c6c696e6700066f726465727300000002")
value = bytes.fromhex("0004000000000000002a000000000774696c6c2032000001a1fd9a708c010010654eb9f38edb4d3f95d39c92d6a96e89")

record = kg.decode(key, value)
print("group    ", record.key.group)
print("topic    ", record.key.topic)
print("partition", record.key.partition)
print("offset   ", record.value.offset)

# %% [markdown]
# This is the first commit that you read: the group `billing` continues at offset 42 in partition 2 of the topic `orders`.
#
# ## What Kafka stores
#
# A [**record**](../docs/handbook/glossary.md#record) is one message, with a key and a value. Records are collected in [**topics**](../docs/handbook/glossary.md#topic), for example `orders`. Because one machine may be too small for a topic, the topic is divided into numbered [**partitions**](../docs/handbook/glossary.md#partition); `orders-0` is partition 0 of `orders`. The partitions are stored on [**brokers**](../docs/handbook/glossary.md#broker), the servers of Kafka, and several brokers form a [**cluster**](../docs/handbook/glossary.md#cluster). A program that sends requests to brokers is a *client*.
#
# A partition is a list, its [**log**](../docs/handbook/glossary.md#log). New records are only [appended](../docs/handbook/glossary.md#append), at the end, so a record's place never changes. The number of this place is the record's [**offset**](../docs/handbook/glossary.md#offset); the first record has the offset 0.

# %% [markdown]
# ## Who reads it
#
# A **consumer** is a client that reads records. If one consumer is too slow for a topic, several can share the work. They are the [**members**](../docs/handbook/glossary.md#member) of a [**consumer group**](../docs/handbook/glossary.md#consumer-group), which has a name, its [**group id**](../docs/handbook/glossary.md#group-id). The partitions are divided among the members, so that each partition has one reader.
#
# Now and then, a consumer tells a broker how far it has read. This request is a [**commit**](../docs/handbook/glossary.md#commit), and the broker stores the [committed offset](../docs/handbook/glossary.md#committed-offset): the offset of the **next** record to read. It belongs to the group, not to the consumer, because another member may have to continue.
#
# If a broker stops, another broker takes over its work. The committed offsets must survive this [**failover**](../docs/handbook/glossary.md#failover).

# %% [markdown]
# ## How an exercise works
#
# Lessons 00 to 13 have three exercises each. The one that is marked *for later* is optional, and no later lesson builds on it. Replace `...` by your answer, and run this cell and the check after it. The check prints **✓** right, **✗** wrong, **!** your code failed or did not end, or **·** not attempted.
#
# A consumer has read the records 0 to 16 of a partition. Which offset does it commit?

# %%
# exercise: next_record
next_record = ...

# %%
from kafkagroups import course

course.check("next_record", next_record)
# course.hint("next_record")        # Remove the first # for a hint. hint("next_record", 2) gives the second one.
# course.solution("next_record")

# %% [markdown]
# ## A consumer in ten lines
#
# This is pseudo-code, with the names of Kafka's Java client:
#
# ```
#  1  def on_partitions_revoked(partitions):
#  2      consumer.commitSync()
#  3
#  4  consumer = Consumer({"group.id": "billing", "enable.auto.commit": False})
#  5  consumer.subscribe(["orders"], on_partitions_revoked)
#  6  while True:
#  7      records = consumer.poll()
#  8      for record in records:
#  9          process(record)
# 10      consumer.commitAsync()
# ```
#
# The lines run in this order:
#
# - **Line 4** names the group. It also switches off *auto commit* (explained below), because line 10 commits.
# - **Line 5** makes the consumer a member of the group, so the consumer gets a share of the partitions of `orders`.
# - **Line 7**: `poll` returns the next records of these partitions.
# - **Line 10** commits the position after these records. `commitAsync` does not wait for the answer; `commitSync` does. (Python's `confluent-kafka` has `commit(asynchronous=False)`.)
# - **Lines 1 and 2** are the function that line 5 passes to `subscribe`. When another consumer joins, for example, the group divides its partitions again, which is called a [*rebalance*](../docs/handbook/glossary.md#rebalance). Before the consumer gives up partitions, its `poll` calls this function. The function commits the position, so that the next reader continues exactly there.

# %% [markdown]
# ## Read but not committed
#
# The commit is all that a broker knows about your progress, not which records you have received or finished. So if a consumer dies, another member continues at the committed offset, and receives every record from there on, also those that were read but not committed.
#
# If you process first and commit afterwards, as in lines 9 and 10, a crash in between repeats records: each is processed *at least once*. If you commit first, a crash in between skips records: each is processed *at most once*.
#
# ## Auto commit
#
# Many programs have no line 10, because auto commit is on by default (`enable.auto.commit=true`). Then `poll` itself commits, if the last commit is at least 5 seconds old. Suppose your loop needs 6 seconds for 17 records:
#
# ```
#  poll()       returns the records 0 to 16
#  process      your loop works on the records 0 to 16
#  poll()       commits 17, and returns the records from 17 on
# ```
#
# The second `poll` commits 17, as if the records 0 to 16 were done. This is right if your loop processes all records before it calls `poll` again. But if the loop hands the records to a second thread, `poll` can commit 17 before this thread is done, and after a crash, the remaining records are skipped. Such a program must switch off auto commit, and commit an offset only when all records before it are done.

# %% [markdown]
# ## Exercise: three crashes
#
# Three groups have one consumer each, and the committed offset 0. Each consumer reads the records 0 to 16:
#
# - **A** processed all 17 records, committed 17, and died.
# - **B** processed all 17 records, and died before its commit.
# - **C** committed 17, and died before it processed the records.
#
# New consumers start. Which group processes records twice? Write the letter in quotes, for example `"X"`.

# %%
# exercise: processed_twice
processed_twice = ...

# %%
course.check("processed_twice", processed_twice)
# course.hint("processed_twice")

# %% [markdown]
# ## Why a topic?
#
# At first, consumers stored their offsets in ZooKeeper, a separate service that is slow for frequent small writes. But consumers commit every few seconds, and Kafka is built for such writes. So Kafka 0.8.2 moved the offsets into a topic of its own, `__consumer_offsets`.
#
# This topic is *internal*: the brokers create it and write to it. Because it is also [*compacted*](../docs/handbook/glossary.md#compaction), brokers remove a record if a newer record has the same key (here the group, the topic and the partition). So the topic stays small although groups commit all day (lesson 10).
#
# A commit is a record, so it has an offset of its own. The committed offset is another number, inside the record.

# %% [markdown]
# ## Where a group lives
#
# The topic `__consumer_offsets` has 50 partitions, and all records about a group are in **one** of them. The group's name decides in which partition. The lessons follow the groups of a small shop, Harbour Coffee.
#
# *Predict* (replace the `...` by what you expect, and run both cells): in how many different partitions do the shop's groups `billing`, `shipping`, `dashboard`, `fraud-check` and `mailer` live?

# %%
# prediction
different_partitions = ...

# %%
shop = ["billing", "shipping", "dashboard", "fraud-check", "mailer"]
home = {group: kg.partition_for(group, partitions=50) for group in shop}

with course.fold("different_partitions", different_partitions, len(set(home.values()))):
    for group, partition in home.items():
        print(f"{group:<12} partition {partition}")

# %% [markdown]
# <details><summary>Why?</summary>
#
# Kafka computes the partition from the characters of the group's name (lesson 02), so two groups can have the same partition.
#
# </details>
#
# One broker manages all groups whose records are in the same partition of `__consumer_offsets`. This broker is the [*coordinator*](../docs/handbook/glossary.md#coordinator) of these groups. Replace `my-team` by your own group:

# %%
kg.partition_for("my-team", partitions=50)

# %% [markdown]
# ## Exercise for later: the partition of promo
#
# On a broker's disk, each partition is a folder, for example `__consumer_offsets-9` for partition 9. What is the number of the folder with the records of the shop's group `promo`?

# %%
# exercise: home_of_promo
home_of_promo = ...

# %%
course.check("home_of_promo", home_of_promo)

# %% [markdown]
# ## Two group coordinators
#
# In these lessons, *coordinator* alone means the broker that manages a group. The code with which it does so, the *group coordinator*, has two versions: the [classic](../docs/handbook/glossary.md#classic-coordinator) one, up to 3.9, and the [new](../docs/handbook/glossary.md#new-coordinator) one, since 4.0. The lessons teach the new one, and you can skip "Where 3.9 differs" if you run only 4.x.
#
# The notebooks run a *model* of each version, a Python program with the same rules.

# %% [markdown]
# ## The same bytes, the same answers
#
# One night, the shop's brokers were killed. From the files on their disks, `kg.load` rebuilds all groups, as a broker does when it starts; `coordinator="new"` names the version. A `Stable` group has members. An `Empty` group has no members, but can have offsets. `mailer` and `promo` are missing, because they were deleted (lessons 01 and 09).

# %%
groups = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")

print(f"{'group':<12} {'state':<7} {'members':>7} {'offsets':>8}")
for name in sorted(groups):
    group = groups[name]
    print(f"{name:<12} {group.state.value:<7} {len(group.members):>7} {len(group.offsets):>8}")

# %% [markdown]
# A real 4.3.1 broker was started on the same files. The next cell prints its answers about two groups. The ✓ means that the offsets of *all* groups agree with those of `kg.load`:

# %%
answered = course.read_answers("harbour/4.3.1")["offsets"]

for name in ["billing", "dashboard"]:
    for partition, offset in answered[name].items():
        print(f"{name:<10} {partition:<11} {offset['offset']}")

ours = course.fetch_offsets(groups, answered)
course.compare_with_broker(ours, answered, "4.3.1")

# %% [markdown]
# ## Your progress
#
# `course.reset()` forgets which checks have passed.

# %%
course.progress()

# %% [markdown]
# ## Choose your path
#
# | you are | read these lessons | also |
# |---|---|---|
# | an application developer | 01 to 11, and 14 | 13, if you set `group.protocol=consumer` |
# | an operator | 01 to 11, 13 and 14 | 12, if your programs read the topic |
# | a contributor to Kafka, or curious | all | |
#
# | lesson | the question it answers |
# |---|---|
# | [01 · Records](01_records.ipynb) | What exactly is stored for a commit, and for a group? |
# | [02 · Partitions](02_partitions.ipynb) | On which of 50 partitions does a group live, and why must there always be 50? |
# | [03 · The log](03_the_log.ipynb) | What does the file on disk look like? |
# | [04 · Storing](04_storing.ipynb) | What happens between `commitSync()` and the answer? |
# | [05 · Fetching](05_fetching.ipynb) | Why is the topic never read when a consumer asks for its offset? |
# | [06 · The group's life](06_the_groups_life.ipynb) | What does a rebalance do, and what does a death cost? |
# | [07 · Who may commit](07_who_may_commit.ipynb) | Which checks must a commit pass? |
# | [08 · Transactions](08_transactions.ipynb) | When does an offset in a transaction count? |
# | [09 · Deleting](09_deleting.ipynb) | How do you delete from a growing file? |
# | [10 · Compaction](10_compaction.ipynb) | Why does the topic stay small, and when does it not? |
# | [11 · Loading](11_loading.ipynb) | A broker dies. How does the next one rebuild everything? |
# | [12 · Loading at scale](12_loading_at_scale.ipynb) | When is one process enough, and what does Spark add? |
# | [13 · The new protocols](13_the_new_protocols.ipynb) | What do consumer, share and streams groups record? |
# | [14 · Forensics](14_forensics.ipynb) | Ten incidents: what does the log say? |
#
# Each lesson has a [solved notebook](solutions/01_records.ipynb).

# %% [markdown]
# ## Check yourself
#
# <details><summary>Why did Kafka move the offsets from ZooKeeper into a topic?</summary>
#
# Thousands of consumers commit every few seconds, and each commit is a small write. ZooKeeper is slow for that, and a Kafka topic is fast.
#
# </details>
#
# ## In five lines
#
# - A commit becomes a record in the topic `__consumer_offsets`.
# - The committed offset is the offset of the next record to read.
# - A broker knows only commits, so records that were read but not committed are read again.
# - All records of a group are in one partition; the group's name decides which.
# - After a crash, the next broker reads this partition and has the same groups again.

# %% [markdown]
# ## For your consumer
#
# - Process first and commit afterwards if you would rather repeat records than lose them.
# - With auto commit, finish the records of one `poll` before you call `poll` again.
# - If your results are Kafka records, too, a *transaction* stores them together with the offsets (lesson 08). If they go to a database, make the processing *idempotent*: processing a record twice has the same effect as once.

# %% [markdown]
# ## At 3 am
#
# `kafka-consumer-groups.sh` is in the folder `bin` of each Kafka download; run it on any machine that reaches your brokers. On a cluster with TLS or SASL, it needs `--command-config FILE`, a file of client settings.
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing
# ```
#
# This shows the committed offset of each partition (`-`: none). LAG says how many records the group is behind; it should not keep growing.
#
# The command `kafkagroups` of this course (`pip install .` in its folder) runs on your own machine, and reads a **copy** of a broker's files, so it can do no harm. PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition)). Without access to the broker's disk, [`kafkagroups pull`](../docs/operator.md#with-pull) makes the copy through the network; it needs the right to read `__consumer_offsets`. For example, `kafkagroups load PATH` lists the groups and offsets that the next broker would have.
#
# [The runbook](../docs/operator.md#symptoms) leads from each symptom to a command.
#
# ## What we left out, and why
#
# How brokers copy partitions. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [01 · Records](01_records.ipynb): the bytes of a commit and of a group.
