# %% [markdown]
# # 00 · Start here
#
# **How does Kafka remember where every consumer is?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | check your set-up; solve an exercise; say what a committed offset means; find the partition of any group; choose your path through the course | {{minutes}} | no |
#
# ```
#  a consumer commits      orders-0 → 17
#        │
#        ▼
#  a broker appends it to  __consumer_offsets    on disk
#        │
#        ▼
#  the broker dies, another broker reads the topic, and still knows 17
# ```

# %% [markdown]
# ## What you will be able to do
#
# - Read the bytes of a commit, and say what each byte means.
# - Predict what a broker answers to a consumer, also after a crash.
# - Explain why offsets went back, disappeared, or never became visible.
# - Say before a failover whether the next broker can load its groups.
# - Repair a cluster whose offsets are lost.
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
# A line is not `ok`? Follow its advice and run the cell again. In a terminal, `.venv/bin/kafkagroups doctor` also checks Java, which only lesson 12 needs.
#
# ## Your first look inside
#
# Kafka keeps the positions of all consumers in one topic. Its name is `__consumer_offsets`. Here are the bytes of one record of this topic. A real broker wrote them. Run the cell:

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
# You have decoded your first commit. It says: the group `billing` continues at offset 42 in partition 2 of the topic `orders`. Lesson 01 shows how to read these bytes without a computer.
#
# ## The words of this course
#
# - A **topic** is a list of records. It only grows at its end. It is divided into numbered **partitions**.
# - An **offset** is the number of a record in its partition. The first one is 0. `orders-0` means partition 0 of the topic `orders`.
# - A **consumer** reads records. A **consumer group** is a set of consumers that divide the partitions of a topic among themselves. Its name is the **group id**.
# - A **broker** is a server of Kafka.
# - A **commit** tells a broker up to where the group has read. The committed offset is the offset of the **next** record to read.

# %% [markdown]
# ## How an exercise works
#
# Each lesson has three exercises. Replace `...` by your answer, run the cell, and run the check after it. A check prints one line:
#
# | sign | meaning |
# |---|---|
# | ✓ | right |
# | ✗ | wrong, and often why |
# | ! | your code failed or did not end |
# | · | not attempted |
#
# Here is the first exercise. A consumer has read the records 0 to 16 of a partition. Which offset does it commit?

# %%
# exercise: next_record
next_record = ...

# %%
from kafkagroups import course

course.check("next_record", next_record)
# course.hint("next_record")        # Remove the first # for a hint. hint("next_record", 2) gives the second one.
# course.solution("next_record")

# %% [markdown]
# ## Read and not committed
#
# Only a commit is remembered. Kafka does not remember what a consumer has read, and it does not know what the consumer did with it.
#
# Three consumers have read the records 0 to 16, and their committed offset was 0. All three die. Other consumers of their groups continue at the committed offset.
#
# - **A** processed all 17 records, committed 17, and died.
# - **B** processed all 17 records, and died before its commit.
# - **C** committed 17, and died before it processed the records.
#
# Which group processes records twice? Write the letter as a text.

# %%
# exercise: processed_twice
processed_twice = ...

# %%
course.check("processed_twice", processed_twice)
# course.hint("processed_twice")

# %% [markdown]
# ## Where a group lives
#
# The topic `__consumer_offsets` has 50 partitions. All records of a group are in **one** of them. The lessons follow the groups of a small shop, Harbour Coffee. These are five of them: `billing`, `shipping`, `dashboard`, `fraud-check` and `mailer`.
#
# A *prediction* is a question without a check. Write what you expect, then run both cells. Without a prediction, the answer stays folded away.
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
# Kafka computes the partition from a hash of the group's name. It does not look for a free partition. Lesson 02 computes the hash.
#
# </details>
#
# Replace `my-team` by the name of a group of your own:

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
# One night, the brokers of Harbour Coffee were killed. This course has the files that were left, from Kafka 1.0.1, 3.9.2 and 4.3.1. `kg.load` reads such files as the next broker does. It returns the groups, as this broker knows them:

# %%
groups = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")

for name in sorted(groups):
    group = groups[name]
    print(f"{name:<12} {group.state.value:<7} {len(group.members)} members, {len(group.offsets)} offsets")

# %% [markdown]
# `Stable` is a group with members. `Empty` is a group without members, which can still have offsets. A real 4.3.1 broker was started from the same files, and clients asked it for all offsets. Here are its answers about two groups, and a comparison of all answers with `groups`:

# %%
answered = course.read_answers("harbour/4.3.1")["offsets"]

for name in ["billing", "dashboard"]:
    print(name, *[f"{partition} at {offset['offset']}" for partition, offset in answered[name].items()], sep="   ")

course.compare_with_broker(course.fetch_offsets(groups, answered), answered, "4.3.1")

# %% [markdown]
# All results of this course are compared with real brokers in this way. At the end, you can say of each number which bytes made it so.
#
# ## Your progress
#
# A check that passes is remembered in a file next to the lessons. `course.reset()` deletes the file, and nothing else.

# %%
course.progress()

# %% [markdown]
# ## Choose your path
#
# | you are | read these lessons |
# |---|---|
# | an application developer | 01, 04, 05, 06, 07, 08, 09 |
# | an operator | 02, 03, 05, 09, 10, 11, 12 |
# | a contributor to Kafka, or curious | all, in order |
#
# | lesson | the question it answers |
# |---|---|
# | [01 · Records](01_records.ipynb) | What exactly is stored for a commit, and for a group? |
# | [02 · Partitions](02_partitions.ipynb) | On which of 50 partitions does a group live, and why must that number never change? |
# | [03 · The log](03_the_log.ipynb) | What does the file on disk look like? |
# | [04 · Storing](04_storing.ipynb) | What happens between `commitSync()` and the answer? |
# | [05 · Fetching](05_fetching.ipynb) | Why is the topic never read when a consumer asks for its offset? |
# | [06 · The group's life](06_the_groups_life.ipynb) | What does a rebalance do, and what does a death cost? |
# | [07 · Who may commit](07_who_may_commit.ipynb) | Which checks stand before a commit? |
# | [08 · Transactions](08_transactions.ipynb) | When does an offset in a transaction count? |
# | [09 · Deleting](09_deleting.ipynb) | How do you delete from a file that only grows? |
# | [10 · Compaction](10_compaction.ipynb) | Why does the topic stay small, and when does it not? |
# | [11 · Loading](11_loading.ipynb) | A broker dies. How does the next one rebuild everything? |
# | [12 · Loading at scale](12_loading_at_scale.ipynb) | When can a load be divided, and is it worth it? |
#
# Each lesson has a solved notebook, for example [solutions/01](solutions/01_records.ipynb).

# %% [markdown]
# ## In five lines
#
# - A commit is a record in the topic `__consumer_offsets`.
# - The committed offset is the offset of the next record to read.
# - What was read and not committed is read again after a crash.
# - All records of a group are in one partition, which its name decides.
# - After a crash, the next broker reads this partition and knows the group again.
#
# ## For your consumer
#
# Process first and commit afterwards: a crash then repeats records. Commit first: a crash then skips records. With `enable.auto.commit=true`, the default, the Java consumer commits what earlier calls of `poll` returned.
#
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | You do not know what a file of `__consumer_offsets` contains | `kafkagroups load PATH`. PATH is a copy of the folder | It lists the groups and their offsets, as the next broker would know them | Reading is always safe |
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
# **Next:** [01 · Records](01_records.ipynb): the bytes of a commit and of a group.
