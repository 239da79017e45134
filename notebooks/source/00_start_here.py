# %% [markdown]
# # 00 · Start here
#
# **How does Kafka remember where every consumer is?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | check your set-up; solve an exercise; say what a committed offset means; find the partition of any group; choose your path through the course | {{minutes}} | no |
#
# The last column says whether a lesson runs programs in Java. Most lessons run none.
#
# ![A consumer commits offset 17, a broker appends it to __consumer_offsets and dies, and another broker reads the topic and answers 17 again.](pictures/00.svg)

# %% [markdown]
# ## The problem
#
# Kafka is a system of servers that store records. Programs read these records, one after another. A program can crash. After a restart, it must continue where it stopped.
#
# So Kafka stores the position of every program. This course shows which bytes it stores, and which rules decide what it answers later.

# %% [markdown]
# ## What you will be able to do
#
# - Read the bytes of a stored position, and say what each byte means.
# - Predict what Kafka answers after a crash.
# - Explain why a position went back or disappeared.
# - Check in advance whether another server can take over.
# - Restore positions that were lost.
#
# ## Is your set-up right?
#
# This page is a notebook. Click the next cell and press **Shift + Enter** to run it. Each line must say `ok`.

# %%
from kafkagroups.cli import doctor

needed_everywhere = {"python", "environment", "packages", "kernel"}
for check in doctor.run_checks():
    if check.check in needed_everywhere:
        print(f"{check.check:<12}", "ok" if check.ok else f"NOT OK: {check.found}. To repair it: {check.fix}")

# %% [markdown]
# If a line is not `ok`, follow its advice and run the cell again.
#
# ## Your first look inside
#
# Kafka keeps all positions in one place. It is called `__consumer_offsets`. The next cell contains one record from there, as a real Kafka server wrote it. Run the cell:

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
# You have decoded your first commit. It means: the group `billing` continues at offset 42 in partition 2 of the topic `orders`. Lesson 01 reads these bytes without a computer.
#
# ## What Kafka stores
#
# A linked term leads to the glossary, which names the lesson that teaches the term.
#
# - A [**record**](../docs/handbook/glossary.md#record) is one message. It has a key and a value.
# - A [**topic**](../docs/handbook/glossary.md#topic) is a named collection of records, for example `orders`. It is divided into numbered [**partitions**](../docs/handbook/glossary.md#partition). `orders-0` means partition 0 of `orders`.
# - A partition is a list. New records are [appended](../docs/handbook/glossary.md#append) at its end.
# - An [**offset**](../docs/handbook/glossary.md#offset) is the number of a record in its partition. The first record has the offset 0.
# - A [**broker**](../docs/handbook/glossary.md#broker) is a Kafka server. It stores partitions on its disk. A **cluster** is a set of brokers.

# %% [markdown]
# ## Who reads it
#
# - A **consumer** is a program that reads records.
# - A [**consumer group**](../docs/handbook/glossary.md#consumer-group) is a set of consumers that divide the partitions of one or more topics among themselves. The consumers are the [**members**](../docs/handbook/glossary.md#member) of the group. The name of the group is its [**group id**](../docs/handbook/glossary.md#group-id).
# - A [**commit**](../docs/handbook/glossary.md#commit) is a request to a broker: "my group has read this partition up to here". The broker stores the position as an offset.
# - The [committed offset](../docs/handbook/glossary.md#committed-offset) is the offset of the **next** record to read.
# - A [**failover**](../docs/handbook/glossary.md#failover) happens when a broker stops: another broker takes over its work.

# %% [markdown]
# ## How an exercise works
#
# Each of the lessons 00 to 13 has three exercises. Replace `...` by your answer, run the cell, and run the check after it. A check prints one line:
#
# | sign | meaning |
# |---|---|
# | ✓ | right |
# | ✗ | wrong, and often why |
# | ! | your code failed or did not end |
# | · | not attempted |
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
# This program is simplified. In Kafka's Java client, the methods have the same names. Each lesson ends with a box *For your consumer*. Some of these boxes refer to the lines of this program:
#
# ```
#  1  def on_partitions_revoked(partitions):
#  2      consumer.commitSync()
#  3
#  4  consumer = Consumer({"group.id": "billing"})
#  5  consumer.subscribe(["orders"], on_partitions_revoked)
#  6  while True:
#  7      records = consumer.poll()
#  8      for record in records:
#  9          process(record)
# 10      consumer.commitAsync()
# ```
#
# - **Line 5**: `subscribe` makes the consumer a member of the group. The group assigns partitions of `orders` to it. A consumer that calls `assign` instead chooses its partitions itself, and is never a member.
# - **Line 7**: `poll` returns the next records of these partitions.
# - **Line 10** commits the position after these records. `commitAsync` does not wait for the answer; `commitSync` waits.
# - **Line 1**: a [*rebalance*](../docs/handbook/glossary.md#rebalance) assigns the partitions again, for example when a consumer joins. If this consumer loses partitions, `poll` first calls this function (in Java: `onPartitionsRevoked`).

# %% [markdown]
# <details><summary>Can a program store its results and its offsets together?</summary>
#
# Yes. It can write records and commit its offsets in one *transaction* (lesson 08). For this, it has a name, the setting `transactional.id`. With this name, Kafka finds the program's unfinished transaction after a restart.
#
# </details>
#
# ## Records that were read and not committed
#
# Kafka stores commits, and nothing else about a consumer's work. No broker stores which records a consumer has received or processed.
#
# If a consumer dies, another consumer of its group continues at the committed offset. The new consumer receives every record from there on. It also receives the records that the dead consumer had read and not committed.

# %% [markdown]
# ## Exercise: three crashes
#
# Three groups have one consumer each. The committed offset of each group is 0. Each consumer then reads the records 0 to 16. At the end, all three consumers die:
#
# - **A** processed all 17 records, committed 17, and died.
# - **B** processed all 17 records, and died before its commit.
# - **C** committed 17, and died before it processed the records.
#
# New consumers of these groups start. Which group processes records twice? Write the letter in quotes, for example `"X"`.

# %%
# exercise: processed_twice
processed_twice = ...

# %%
course.check("processed_twice", processed_twice)
# course.hint("processed_twice")

# %% [markdown]
# ## Why a topic?
#
# In the first versions of Kafka, consumers stored their offsets in ZooKeeper, a separate service. ZooKeeper is slow for frequent small writes, and consumers commit every few seconds. Kafka itself is built for frequent writes.
#
# So Kafka 0.8.2 moved the offsets into a topic, `__consumer_offsets`:
#
# - The topic is *internal*: the brokers create it and write to it.
# - The topic is [*compacted*](../docs/handbook/glossary.md#compaction): the brokers remove a record if a newer record has the same key. So the topic stays small (lesson 10).

# %% [markdown]
# ## Where a group lives
#
# The topic `__consumer_offsets` has 50 partitions. All records about a group are in **one** of them. The lessons follow the groups of a small shop, Harbour Coffee. Five of these groups are `billing`, `shipping`, `dashboard`, `fraud-check` and `mailer`.
#
# The next question is a *prediction*. Write what you expect, then run both cells. If you write nothing, the answer stays hidden until you open it.
#
# *Predict*: in how many different partitions do these five groups live?

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
# Kafka computes the partition from a *hash*: a number that depends on every character of the group's name. It does not look for an empty partition. So two groups can have the same partition. Lesson 02 computes the hash.
#
# </details>
#
# The partition also decides the broker: one broker manages all groups of a partition. This broker is the [*coordinator*](../docs/handbook/glossary.md#coordinator) of these groups. Replace `my-team` by a group name of your own:

# %%
kg.partition_for("my-team", partitions=50)

# %% [markdown]
# ## Exercise: the partition of promo
#
# In which of the 50 partitions is the shop's group `promo`?

# %%
# exercise: home_of_promo
home_of_promo = ...

# %%
course.check("home_of_promo", home_of_promo)

# %% [markdown]
# ## The same bytes, the same answers
#
# One night, the brokers of Harbour Coffee were killed. This course has the files from their disks. `kg.load` rebuilds the groups from these files, as a broker does when it starts.
#
# The part of a broker that manages groups is also called a coordinator. Kafka has had two of them: [`"new"`](../docs/handbook/glossary.md#new-coordinator) in Kafka 4.x, and [`"classic"`](../docs/handbook/glossary.md#classic-coordinator) up to 3.9. You choose whose rules `kg.load` follows.
#
# The next cell prints the groups of a broker of Kafka 4.3.1. A `Stable` group has members. An `Empty` group has no members, but it can have offsets. The groups `mailer` and `promo` are missing, because they were deleted before that night. Later lessons introduce the other names.

# %%
groups = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")

print(f"{'group':<12} {'state':<7} {'members':>7} {'offsets':>8}")
for name in sorted(groups):
    group = groups[name]
    print(f"{name:<12} {group.state.value:<7} {len(group.members):>7} {len(group.offsets):>8}")

# %% [markdown]
# Are these groups right? A real 4.3.1 broker was started on the same files, and a client asked it for all offsets. The next cell prints the broker's answers about two groups.
#
# Then `course.fetch_offsets` asks `groups` the same questions. The last line compares both lists of answers:

# %%
answered = course.read_answers("harbour/4.3.1")["offsets"]

for name in ["billing", "dashboard"]:
    for partition, offset in answered[name].items():
        print(f"{name:<10} {partition:<11} {offset['offset']}")

ours = course.fetch_offsets(groups, answered)
course.compare_with_broker(ours, answered, "4.3.1")

# %% [markdown]
# All lessons compare their results with real brokers. You can skip the code that does it. The line with ✓ is what matters.
#
# ## Your progress
#
# When a check passes, a file next to the lessons stores your progress. `course.reset()` deletes only this file.

# %%
course.progress()

# %% [markdown]
# ## Choose your path
#
# | you are | read these lessons | also |
# |---|---|---|
# | an application developer | 01 to 11 | 13, if you set `group.protocol=consumer` |
# | an operator | 01 to 11, and 13 | the beginning of 12, for the length of a failover |
# | a contributor to Kafka, or curious | all, in order | |
#
# Lesson 14 is for everyone: ten incidents, with logs in which you find the causes. It needs lessons 01 to 11.
#
# Lesson 12 begins with the length of a failover. The rest is about programs that read very large logs, for example with Spark. No other lesson needs it.
#
# | lesson | the question it answers |
# |---|---|
# | [01 · Records](01_records.ipynb) | What exactly is stored for a commit, and for a group? |
# | [02 · Partitions](02_partitions.ipynb) | On which of 50 partitions does a group live, and why must the number of partitions never change? |
# | [03 · The log](03_the_log.ipynb) | What does the file on disk look like? |
# | [04 · Storing](04_storing.ipynb) | What happens between `commitSync()` and the answer? |
# | [05 · Fetching](05_fetching.ipynb) | Why is the topic never read when a consumer asks for its offset? |
# | [06 · The group's life](06_the_groups_life.ipynb) | What does a rebalance do, and what does a death cost? |
# | [07 · Who may commit](07_who_may_commit.ipynb) | Which checks does a coordinator make before it stores a commit? |
# | [08 · Transactions](08_transactions.ipynb) | When does an offset in a transaction count? |
# | [09 · Deleting](09_deleting.ipynb) | How do you delete from a file that only grows? |
# | [10 · Compaction](10_compaction.ipynb) | Why does the topic stay small, and when does it not? |
# | [11 · Loading](11_loading.ipynb) | A broker dies. How does the next one rebuild everything? |
# | [12 · Loading at scale](12_loading_at_scale.ipynb) | How long does a failover take, and can it be faster? |
# | [13 · The new protocols](13_the_new_protocols.ipynb) | What do consumer, share and streams groups record? |
# | [14 · Forensics](14_forensics.ipynb) | Ten incidents: what does the log say? |
#
# Each lesson has a solved notebook, for example [solutions/01](solutions/01_records.ipynb).

# %% [markdown]
# ## Check yourself
#
# <details><summary>Why did Kafka move the offsets from ZooKeeper into a topic?</summary>
#
# ZooKeeper is slow for frequent small writes, and consumers commit every few seconds. Kafka itself is built for frequent writes.
#
# </details>
#
# Four boxes follow, as in every lesson. The last one names classes in Kafka's source code. You can skip it.
#
# ## In five lines
#
# - A commit becomes a record in the topic `__consumer_offsets`.
# - The committed offset is the offset of the next record to read.
# - Records that were read and not committed are read again after a crash.
# - All records of a group are in one partition, which its name decides.
# - After a crash, the next broker reads this partition and has the same groups again.

# %% [markdown]
# ## For your consumer
#
# - Process first and commit afterwards, as in lines 9 and 10. Then a crash repeats records.
# - If you commit first, a crash skips records.
# - `enable.auto.commit=true` is the default, and you do not need line 10. Then `poll` commits, if the last commit is 5 seconds old (`auto.commit.interval.ms`). It commits the offset that follows the records of the previous `poll`. After that, it returns new records. So finish the old records before you call `poll` again. If another thread still processes them, a crash can skip them.

# %% [markdown]
# ## At 3 am
#
# Most `kafkagroups` commands read a copy of a broker's files. None of them writes to a broker, except `kafkagroups rescue apply` with `--yes`. You can make the copy while the brokers run:
#
# - Through the brokers, from any machine: `kafkagroups pull --bootstrap localhost:9092 --out PATH`. Your user needs the permission READ for the topic `__consumer_offsets`.
# - With `cp` of all `.log` files of a partition's folder, on the broker that leads the partition. The end of the copy can be incomplete. This is harmless. Run `ls -l` before and after the copy. The broker appends to the file with the highest number. If another file has changed, or files are missing, copy all of them again: the broker may have compacted the topic meanwhile (lesson 10).

# %% [markdown]
# PATH is such a copy:
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | You do not know what a file of `__consumer_offsets` contains | `kafkagroups load PATH` | It lists the groups and their offsets, as the next broker would rebuild them | Reading is always safe |
# | You want a broker's own answer | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | CURRENT-OFFSET is the committed offset | Reading is always safe |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) |
# |---|---|
# | the partition of a group | `GroupCoordinatorService.partitionFor` |
# | the groups in memory | `GroupMetadataManager` and `OffsetMetadataManager` |
# | reading the partition after a crash | `CoordinatorLoaderImpl` |
#
# </details>
#
# ## What we left out, and why
#
# How brokers copy partitions from each other. You do not need it to follow the positions of consumers.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [01 · Records](01_records.ipynb): the bytes of a commit and of a group.
