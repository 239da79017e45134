# %% [markdown]
# # 02 · Partitions
#
# **On which of 50 partitions does a group live, and why must the number of partitions never change?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | compute a group's partition as a broker does; find the group's coordinator; explain a hot partition; say what breaks when the number of partitions changes | {{minutes}} | no |
#
# ![The name billing goes through String.hashCode(), abs and % 50, and the result is partition 9 of the 50 partitions of __consumer_offsets.](pictures/02.svg)

# %% [markdown]
# Three things to hold on to:
#
# 1. All records of a group are in **one** partition. So these records have an order.
# 2. Two values decide the partition: the group's name and the number of partitions.
# 3. Kafka does not balance groups over the partitions. It never moves a group.

# %% [markdown]
# ## One group, one partition
#
# These are the groups of Harbour Coffee. The topic `__consumer_offsets` has 50 partitions, numbered 0 to 49.

# %%
import kafkagroups as kg
from kafkagroups import course

shop = ["billing", "fraud-check", "shipping", "mailer", "café-☕", "stock-audit", "promo", "dashboard"]
for group in sorted(shop, key=kg.partition_for):
    print(f"partition {kg.partition_for(group):>2}  {group}")

# %% [markdown]
# Why one partition? Lesson 01 showed that the state of a group is the result of all its records, in order. Kafka keeps an order only within one partition.
#
# ## The coordinator of a group
#
# Each partition has one broker that accepts its writes: the *leader* of the partition. The broker that leads the group's partition is the **coordinator** of the group. Only the coordinator answers the requests of the group.
#
# A consumer finds the coordinator in two steps:
#
# 1. The consumer sends `FindCoordinator("billing")` to any broker. This broker computes the partition, and answers with the name of the broker that leads it.
# 2. The consumer sends its commits to this broker. If the broker no longer leads the partition, it answers `NOT_COORDINATOR`. Then the consumer repeats step 1.

# %% [markdown]
# ## Java's hash
#
# Kafka computes the partition from a [*hash*](../docs/handbook/glossary.md#hash), a number that depends on every character of the name. The hash is the result of Java's method `String.hashCode`.
#
# The hash begins with 0. For each character, Java multiplies the hash by 31 and adds the character's code. The code of `A` is 65, and the code of `a` is 97:
#
# ```
#  "Aa"    0 · 31 + 65 = 65        65 · 31 + 97 = 2112
# ```
#
# *Predict*: the hash of `"Aa"` is 2112. What is the hash of `"BB"`? The code of `B` is 66.

# %%
# prediction
hash_of_BB = ...

# %%
from kafkagroups.records.wire import java_hash

course.reveal("hash_of_BB", hash_of_BB, java_hash("BB"))

# %% [markdown]
# The hash is an `int` of Java: a number with 32 bits, from −2³¹ to 2³¹ − 1. After each step, Java keeps only the lowest 32 bits of the result. The highest of these bits is the sign. So the hash of a longer name can be negative:

# %%
for text in ["Aa", "billing", "mailer", "shipping"]:
    print(f"{text:<10} {java_hash(text):>12}")

# %% [markdown]
# <details><summary>What do the hashes of "Aa" and "BB" tell you?</summary>
#
# The two hashes are equal. So different names can have the same hash. Two groups with the same hash are always in the same partition.
#
# </details>
#
# ## What Java counts as a character
#
# Java counts [**UTF-16 units**](../docs/handbook/glossary.md#utf-16-unit), not characters and not bytes. A letter is one unit, and `☕` is one unit. `🥐` is two units, a *surrogate pair*. Kafka's records store names as UTF-8, where `☕` has three bytes. So one name can have three lengths:

# %%
print(f"{'':<8} {'characters':>10} {'UTF-16 units':>13} {'UTF-8 bytes':>12}")
for text in ["billing", "café-☕", "🥐"]:
    print(f"{text:<8} {len(text):>10} {len(text.encode('utf-16-be')) // 2:>13} {len(text.encode()):>12}")

# %% [markdown]
# ## Exercise: the hash
#
# Write `hash_of(text)`. It returns what Java's `text.hashCode()` returns, as a Python int that may be negative. `text.encode("utf-16-be")` returns the units: two bytes for each unit, the high byte first.

# %%
# exercise: hash_of
def hash_of(text):
    ...

# %%
course.check("hash_of", hash_of)
# course.hint("hash_of")        # hint("hash_of", 2) helps more

# %% [markdown]
# ## From the hash to the partition
#
# Two steps remain: take the absolute value, then take the remainder of the division by the number of partitions.
#
# One hash is special: −2³¹. An `int` cannot be 2³¹, so Java's `Math.abs` returns −2³¹ again. But a partition cannot be negative. So Kafka has its own function, `Utils.abs`, which returns 0 for −2³¹. The word `polygenelubricants` has exactly this hash:

# %%
print("hash of polygenelubricants:", java_hash("polygenelubricants"))
print("its partition in Kafka:    ", kg.partition_for("polygenelubricants"))
print("with Python's abs:         ", abs(java_hash("polygenelubricants")) % 50)

# %% [markdown]
# ## Exercise: the partition, on paper
#
# The hash of `reports` is 1094603199. The hash of `barista` is −333401174. The topic has 50 partitions. Compute the partitions of both groups without the computer. Write a pair, for example `(12, 34)`.

# %%
# exercise: two_partitions
two_partitions = ...

# %%
course.check("two_partitions", two_partitions)
# course.hint("two_partitions")

# %% [markdown]
# ## Hot partitions
#
# A hash spreads names over the partitions like random numbers, so the result is uneven. Here are 120 groups of a middle-sized company. On average, a partition has 2.4 groups:

# %%
from collections import Counter

services = ["billing", "shipping", "mailer", "search", "ads", "stock", "login", "audit", "reports", "invoices"]
names = [f"{service}-{stage}-{part}" for service in services for stage in ("dev", "test", "prod") for part in range(4)]

sizes = Counter(kg.partition_for(name) for name in names)
fullest, size = sizes.most_common(1)[0]
print(f"fullest: partition {fullest} with {size} groups   empty: {50 - len(sizes)} of 50 partitions")

# %% [markdown]
# Groups also differ in load: one group commits a hundred offsets per second, another group commits once per hour. A [*hot* partition](../docs/handbook/glossary.md#hot-partition) has much more load than the others. Its broker has the most work, and its log grows the fastest. A long log makes the next failover slow.
#
# Kafka does not move a group to another partition. You can let the group commit less often. You can also give the group another name. But a new name begins **without offsets**. So stop the consumers, and set the offsets of the new name before you start them again.

# %% [markdown]
# ## Why the number must not change
#
# `offsets.topic.num.partitions` is 50 by default. A broker reads this setting only once, when it creates the topic. After that, only the real number of partitions matters. Each broker counts the partitions when it starts.
#
# An administrator can add partitions, as with any other topic. We say: the topic is *widened*. After its next restart, a broker computes with the new number. This cannot be undone, because Kafka cannot remove partitions.
#
# *Predict*: the number changes from 50 to 60. How many of the shop's 8 groups then have another partition?

# %%
# prediction
moved = ...

# %%
with course.fold("moved", moved, sum(kg.partition_for(group, 50) != kg.partition_for(group, 60) for group in shop)):
    for group in shop:
        before, after = kg.partition_for(group, 50), kg.partition_for(group, 60)
        print(f"{group:<12} of 50: {before:>2}   of 60: {after:>2}   {'stays' if before == after else 'other partition'}")

# %% [markdown]
# <details><summary>Why do some groups stay?</summary>
#
# A group stays if its hash has the same remainder for 50 and for 60.
#
# 300 is 6 · 50 and also 5 · 60, and no smaller number can be divided by both. So divide the hash by 300:
#
# - If the remainder is 0 to 49, it is also the remainder for 50 and for 60. The group stays.
# - If the remainder is 50 to 299, the remainders for 50 and for 60 differ. For example, 55 leaves the remainder 5 when you divide by 50, and 55 when you divide by 60. The group gets another partition.
#
# 50 of 300 remainders are one sixth. So about one group in six stays.
#
# </details>
#
# ## What a broker answers after that
#
# Kafka does not move the old records: they stay in the old partition. A broker writes new records of the group to the new partition.
#
# A consumer restarts and asks for the offsets of its group. Assume that one broker leads both partitions. What does this broker answer? The next cell loads the shop's files like a broker that counts 60 partitions:

# %%
for coordinator, version in [("new", "4.3.1"), ("classic", "3.9.2")]:
    groups = kg.load(course.find_data(f"harbour/{version}"), coordinator=coordinator, partitions=60)
    print(f"{coordinator} coordinator, Kafka {version}")
    for name in ["billing", "shipping", "fraud-check"]:
        group = groups.get(name)
        print(f"    {name:<12} {f'{len(group.offsets)} offsets' if group else 'nothing committed'}")

# %% [markdown]
# Both coordinators answer without an error. `fraud-check` keeps its partition. For the other groups:
#
# - The coordinator of Kafka 4.x looks only in the group's new partition, computed with 60. This partition has no record of the group. So the answer is *nothing committed*.
# - The classic coordinator has one cache, a map in memory, for all partitions that its broker leads. The cache contains the group from the old partition. So the answer is **the old offset**. In a cluster of several brokers, another broker often leads the old partition. Then the answer is *nothing committed*, too.
#
# A consumer without a committed offset starts where `auto.offset.reset` says. `latest` means the end of the partition: the consumer skips records. `earliest` means the beginning: the consumer reads everything again.

# %% [markdown]
# ## From 50 partitions to 60, step by step
#
# In the figure, each cell is a partition. A dot is one of the 120 groups, and a short name is a group of the shop. Each group commits offset 50 while the topic has 50 partitions, and 60 when it has 60. So offset 50 is an old commit.
#
# - **Step 1** shows the hot partitions. Look for the fullest cell and for empty cells.
# - **Step 2**: look for groups that stay, and for the old records (crossed) of groups that moved.
# - **Step 3**: choose the other coordinator. Which groups find an offset now?
# - **Step 4**: the groups commit again, in their new partitions.
# - **Step 5** widens the topic again, to 65 partitions. Look for groups that find an old offset.
#
# <span class="live-only">You can also type a name of your own.</span>

# %%
# figure
course.PartitionGrid(names, shop)

# %% [markdown]
# <details><summary>Why is an answer of step 5 old?</summary>
#
# With 65 partitions, `shipping` is in partition 8 again, as with 50. There, the coordinator of Kafka 4.x finds offset 50. The newer offset 60 is in partition 58, where it does not look.
#
# The classic coordinator finds both commits, in two partitions. If the cache already contains a group, this coordinator ignores the same group in another partition. So it keeps the group that it loads first, which may be the older one.
#
# </details>

# %% [markdown]
# ## While the brokers restart
#
# In a rolling restart, the brokers restart one after the other. After the widening, some brokers then compute with 50 partitions and others with 60. So **two brokers can be the coordinator of one group at the same time**. One broker writes commits to the old partition, the other one to the new partition. Some members of the group join at one broker, some at the other. So two members can read the same records.

# %% [markdown]
# ## Exercise: after the widening
#
# Yesterday, the topic `__consumer_offsets` of a 4.3.1 cluster was widened from 50 to 60 partitions. Since the restart of the brokers, the group `shipping` reads its topics again from the beginning. You can do one of four things:
#
# - **A**: set `offsets.topic.num.partitions` back to 50 and restart the brokers.
# - **B**: wait until the brokers have compacted the old partition.
# - **C**: stop the consumers, read the old offsets from the old partition, and set them with `kafka-consumer-groups.sh --reset-offsets`.
# - **D**: give the group a name that has the same partition with 50 and with 60 partitions.
#
# Which one brings the group back to its old positions? Write the letter in quotes.

# %%
# exercise: after_widening
after_widening = ...

# %%
course.check("after_widening", after_widening)
# course.hint("after_widening")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | how a broker computes the partition of a group | Java's hash, `Utils.abs`, remainder | the same way |
# | when a broker counts the partitions | when it starts | when it starts |
# | the groups in memory | each partition has its own groups | all partitions share one cache |
# | the answer to a consumer after the widening, if one broker leads both partitions | nothing committed, no error | the old offset, no error |
#
# ## Check yourself
#
# <details><summary>What does a consumer do after the answer NOT_COORDINATOR?</summary>
#
# It sends FindCoordinator again, to any broker. The broker that it asked first no longer leads the group's partition.
#
# </details>
#
# ## In five lines
#
# - A group's records are in one partition: `abs(hash(name)) % partitions`.
# - The hash is Java's: 32 bits, UTF-16 units, and it may be negative.
# - The leader of this partition is the group's coordinator.
# - Groups are spread unevenly, and Kafka never moves a group.
# - If the topic is widened, most groups get another partition, and their old offsets are not found there.

# %% [markdown]
# ## For your consumer
#
# - `group.id` decides which broker your consumer depends on. If the groups of two applications are in one partition, both applications depend on one broker.
# - If a consumer restarts and its group has no offset, `auto.offset.reset` decides: `latest` (the default), `earliest`, or `none`. With `none`, `poll` throws an error, and no record is skipped.
# - If a group commits too often, do not commit after each `poll` (line 10 in lesson 00). Commit every few seconds.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of the folders of all partitions (lesson 00). `kafkagroups partition billing --partitions 50` prints the partition of a group.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | One consumer group is slow or unavailable, others work | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The column COORDINATOR names the broker of the group's partition | Look at that broker first |
# | One broker has much more load | `kafkagroups stats PATH` | It lists the groups that write the most | Let these groups commit less often |
# | Consumers lost their positions after partitions were added | `kafkagroups stats PATH` | It names the old number, the new number, and each group whose records are in two partitions | Stop the consumers of these groups, and set their offsets (below) |
# | You notice a wrong widening before a broker restarts | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | PartitionCount is the new number. The brokers still compute with the old one | You cannot avoid the restart forever, so prepare it. Stop the consumers of all groups that move. Restart all brokers. Then set the offsets of these groups (below) |
#
# To set the offsets of `billing`, read them from the folder of the old partition. Then set each of them:
#
# ```
# kafkagroups load PATH/__consumer_offsets-9 --group billing
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing \
#     --topic orders:0 --reset-offsets --to-offset 50 --execute
# ```
#
# <details><summary>Which groups move?</summary>
#
# These commands print each group that moves, with its partition before (`<`) and after (`>`). The consumers of the other groups can continue.
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --list > groups.txt
# xargs -d '\n' kafkagroups partition --partitions 50 < groups.txt > before.txt
# xargs -d '\n' kafkagroups partition --partitions 60 < groups.txt > after.txt
# diff before.txt after.txt
# ```
#
# </details>
#
# <details><summary>In Kafka</summary>
#
# | what | where |
# |---|---|
# | the partition | `GroupCoordinatorService.partitionFor` (4.x), `GroupMetadataManager.partitionFor` (1.0.1 to 3.9) |
# | the absolute value | `org.apache.kafka.common.utils.Utils.abs` |
# | the number of partitions | `offsets.topic.num.partitions`, read when the topic is created |
#
# </details>
#
# ## What we left out, and why
#
# How a partition gets its leader, and how another broker becomes the leader, is replication. That is another course. Here you need one fact: the leader of the partition is the coordinator of all its groups.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [03 · The log](03_the_log.ipynb): what the file of such a partition looks like.
