# %% [markdown]
# # 02 · Partitions
#
# **On which of 50 partitions does a group live, and why must that number never change?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | compute a group's partition as a broker does; find the group's coordinator; explain a hot partition; say what breaks when the number of partitions changes | {{minutes}} | no |
#
# ```
#  "billing"  ──▶  String.hashCode()  ──▶  abs  ──▶  % 50  ──▶  partition 9
#                   (a 32-bit int)
# ```

# %% [markdown]
# Three things to hold on to:
#
# 1. All records of a group are in **one** partition. So these records have an order.
# 2. Two values decide the partition: the group's name and the number of partitions.
# 3. Kafka does not balance groups over partitions, and it never moves a group.

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
# Each partition has one broker that accepts its writes: the *leader*. The leader of the group's partition is the group's **coordinator**. Only the coordinator answers the requests of the group.
#
# A consumer finds it in two steps:
#
# 1. It sends `FindCoordinator("billing")` to any broker. This broker computes the partition and answers with the partition's leader.
# 2. It sends its commits to this leader. If another broker receives them, that broker answers `NOT_COORDINATOR`, and the consumer starts again with step 1.

# %% [markdown]
# ## Java's hash
#
# Kafka computes the partition from a *hash*: a number that depends on every character of the name. It uses the method `String.hashCode` of Java.
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
from kafkagroups.records.text import java_hash

course.reveal("hash_of_BB", hash_of_BB, java_hash("BB"))

# %% [markdown]
# The hash is an `int` of Java. An `int` has 32 bits, so it is a number from −2³¹ to 2³¹ − 1. After each step, Java keeps only the lowest 32 bits. The highest one of them is the sign. So the hash of a longer name can be negative:

# %%
for text in ["Aa", "billing", "mailer", "shipping"]:
    print(f"{text:<10} {java_hash(text):>12}")

# %% [markdown]
# <details><summary>What do the hashes of "Aa" and "BB" tell you?</summary>
#
# They are equal. Different names can have the same hash. Groups with the same hash are always in the same partition.
#
# </details>
#
# ## What Java counts as a character
#
# Java counts **UTF-16 units**, not characters and not bytes. A letter is one unit, and `☕` is one unit. `🥐` is two units, a *surrogate pair*. Kafka stores names as UTF-8, where `☕` has three bytes. So one name can have three lengths:

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
# One hash needs special care. An `int` can be −2³¹, but it cannot be 2³¹. So Java's `Math.abs(−2³¹)` is −2³¹ again, and a partition cannot be negative. Kafka has its own function, `Utils.abs`. It returns 0 in this one case. The word `polygenelubricants` has exactly this hash:

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
# A hash spreads names over the partitions like random numbers, so the result is uneven. Here are 120 groups of a middle-sized company. On average, a partition has 2.4 groups. Partitions without a group are not shown.
#
# Move the slider to change the number of partitions. Type a group name of your own to see its partition.

# %%
# figure
services = ["billing", "shipping", "mailer", "search", "ads", "stock", "login", "audit", "reports", "invoices"]
names = [f"{service}-{stage}-{part}" for service in services for stage in ("dev", "test", "prod") for part in range(4)]

course.PartitionHistogram(names, partitions=50)

# %% [markdown]
# Some partitions have no group, and some have several. Groups also differ in load: one group commits a hundred offsets per second, another one commits once per hour.
#
# A *hot* partition has much more load than the others. Its broker has the most work, and its log grows the fastest. A long log also makes the next failover slow.
#
# Kafka does not move a group to another partition. You can give the group another name, or you can let it commit less often.

# %% [markdown]
# ## Why the number must not change
#
# `offsets.topic.num.partitions` is 50 by default. A broker reads this setting when it creates the topic, and never again.
#
# But an administrator can *widen* the topic: add partitions, as to every other topic. When a broker restarts, it counts the partitions and computes with the new number. This cannot be undone, because Kafka cannot remove partitions.
#
# *Predict*: the number changes from 50 to 60. For how many of the shop's 8 groups do brokers then look in another partition?

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
# A hash has the same remainder for 50 and for 60 only by chance. This happens if the remainder for 300 is below 50. That is one hash in six.
#
# </details>
#
# ## What a broker answers after that
#
# The group's old records are still in the old partition. Its new records are written to the new partition. Assume that one broker leads both partitions. A consumer restarts and asks it for the offsets of its group. What does the broker answer? `partitions=60` loads the shop's partitions with the new number:

# %%
for coordinator, version in [("new", "4.3.1"), ("classic", "3.9.2")]:
    groups = kg.load(course.find_data(f"harbour/{version}"), coordinator=coordinator, partitions=60)
    print(f"{coordinator} coordinator, Kafka {version}")
    for name in ["billing", "shipping", "fraud-check"]:
        group = groups.get(name)
        print(f"    {name:<12} {f'{len(group.offsets)} offsets' if group else 'nothing committed'}")

# %% [markdown]
# Neither coordinator answers with an error.
#
# - The **new** coordinator keeps the groups of each partition apart. It looks only in the new partition, so it finds nothing. (`fraud-check` stayed in its partition.)
# - The **classic** coordinator has one cache for all its partitions. It finds the group of the old partition there and answers **the old offset**. If another broker leads the old partition, it also finds nothing.
#
# A consumer that finds nothing starts where `auto.offset.reset` says. `latest` is the end, so the consumer skips records. `earliest` is the beginning, so it reads everything again.

# %% [markdown]
# ## Exercise: after the widening
#
# Yesterday, the topic `__consumer_offsets` of a 4.3.1 cluster was widened from 50 to 60 partitions. Since the restart of the brokers, the group `shipping` reads its topics again from the beginning. You can do one of four things:
#
# - **A**: set `offsets.topic.num.partitions` back to 50 and restart the brokers.
# - **B**: wait until the log cleaner has compacted the old partition.
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
# | the partition of a group | Java's hash, `Utils.abs`, remainder | the same |
# | after partitions were added | a broker computes with the old number until it restarts | the same |
# | memory | separate groups for each partition | one cache for all partitions |
# | fetch after the widening; one broker leads both partitions | no offset, no error | the old offset, no error |
# | `ListGroups` after the widening | lists the group | lists the group |
#
# ## In five lines
#
# - A group's records are in one partition: `abs(hash(name)) % partitions`.
# - The hash is Java's: 32 bits, UTF-16 units, and it may be negative.
# - The leader of this partition is the group's coordinator.
# - Groups are spread unevenly, and Kafka never moves a group.
# - If the topic is widened, brokers no longer find the offsets of most groups.

# %% [markdown]
# ## For your consumer
#
# - `group.id` decides which broker your consumer depends on. Two applications whose groups share a partition share this broker.
# - If a consumer restarts and finds no offset, `auto.offset.reset` decides: `latest` (the default), `earliest`, or `none`. With `none` the consumer raises an error instead of skipping records.
# - If a group has too much load, commit less often. `auto.commit.interval.ms` is 5 seconds by default. You can also give a part of the work a second `group.id`.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of the folder of one partition, for example `__consumer_offsets-9`. `kafkagroups partition billing --partitions 50` prints the partition of a group.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | One consumer group is slow or unavailable, others work | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The column COORDINATOR names the broker of the group's partition | Look at that broker first |
# | One broker has much more load | `kafkagroups stats PATH` | It lists the groups that write the most | Let these groups commit less often |
# | Groups start again after partitions were added | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | The first line has the number of partitions | Stop the consumers, and set their offsets (below) |
#
# To set the offsets of `billing`, read them from the old partition. Then set each of them:
#
# ```
# kafkagroups load PATH --group billing
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing \
#     --topic orders:0 --reset-offsets --to-offset 50 --execute
# ```
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
# **Next:** [03 · The log](03_the_log.ipynb): what the file of such a partition looks like.
