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
# A broker must replay a group's commits, members and deletions in the order in which they happened. Kafka keeps this order only within one partition. So all records of a group are in the same partition.
#
# Each partition has one broker that accepts its writes: the *leader*. The leader of the group's partition is the group's *coordinator*. A consumer sends `FindCoordinator("billing")` to any broker. That broker computes the partition and answers with the partition's leader.

# %% [markdown]
# ## Java's hash
#
# Kafka uses `String.hashCode` of Java. It begins with 0. For each character it multiplies the number by 31 and adds the character's code. The code of `A` is 65, and the code of `a` is 97:
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
# An `int` of Java has 32 bits. Higher bits are dropped after each step. The highest bit that remains is the sign, so a hash can be negative:

# %%
for text in ["Aa", "billing", "mailer", "shipping"]:
    print(f"{text:<10} {java_hash(text):>12}")

# %% [markdown]
# <details><summary>What do the hashes of "Aa" and "BB" tell you?</summary>
#
# They are equal. Different names can have the same hash. Two such groups are always in the same partition.
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
# There is one trap. A Java `int` can be −2³¹, but 2³¹ does not fit into an `int`. So `Math.abs(−2³¹)` is −2³¹ again, and a partition cannot be negative. Kafka has its own function for this: `Utils.abs` returns 0 in this one case. The word `polygenelubricants` has exactly this hash:

# %%
print("hash of polygenelubricants:", java_hash("polygenelubricants"))
print("its partition in Kafka:    ", kg.partition_for("polygenelubricants"))
print("with Python's abs:         ", abs(java_hash("polygenelubricants")) % 50)

# %% [markdown]
# ## Exercise: the partition, on paper
#
# The hash of `reports` is 1094603199. The hash of `barista` is −333401174. Compute both partitions with 50 partitions, without the computer. Write a pair, for example `(12, 34)`.

# %%
# exercise: two_partitions
two_partitions = ...

# %%
course.check("two_partitions", two_partitions)
# course.hint("two_partitions")

# %% [markdown]
# ## Hot partitions
#
# A hash spreads names like random numbers, so the result is uneven. Here are 120 groups of a middle-sized company: 2.4 groups per partition on average. Move the slider to change the number of partitions. Type a group name of your own to see its partition. Partitions without a group are not shown.

# %%
# figure
services = ["billing", "shipping", "mailer", "search", "ads", "stock", "login", "audit", "reports", "invoices"]
names = [f"{service}-{stage}-{part}" for service in services for stage in ("dev", "test", "prod") for part in range(4)]

course.PartitionHistogram(names, partitions=50)

# %% [markdown]
# Some partitions have no group, and some have several. Groups also differ in load. A group that commits a hundred offsets per second writes more than a thousand groups that commit once per hour.
#
# A *hot* partition has much more load than the others. One broker does most of the work, one log grows, and one failover takes long. Kafka does not move a group to another partition. Only a different group name helps.

# %% [markdown]
# ## Why the number must not change
#
# `offsets.topic.num.partitions` is 50 by default. A broker reads this setting when it creates the topic, and never again. But an administrator can add partitions to the topic, as to every other topic. When a broker restarts, it counts the partitions and computes with the new number. This cannot be undone, because Kafka cannot remove partitions.
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
# For most groups, brokers now look in the new partition. The old records are still in the old partition, and a broker of today does not look for them there. A consumer that restarts finds **no** offset. It starts where `auto.offset.reset` says: at the end, where it skips records, or at the beginning, where it reads everything again.
#
# The offsets are not lost. They are in the log of the old partition, and `kafkagroups` can read them there.
#
# <details><summary>Why do some groups stay?</summary>
#
# Two numbers have the same remainder for 50 and for 60 only by chance. Both remainders are equal if the absolute hash, divided by 300, leaves less than 50. That is one hash in six.
#
# </details>

# %% [markdown]
# ## Exercise: a decision
#
# The offsets topic of a cluster was widened from 50 to 60 partitions yesterday. Since the restart of the brokers, the group `shipping` reads its topics again from the beginning. You can do one of four things:
#
# - **A**: set `offsets.topic.num.partitions` back to 50 and restart the brokers.
# - **B**: wait until the log cleaner has compacted the old partition.
# - **C**: stop the consumers, read the old offsets from the old partition, and set them with `kafka-consumer-groups.sh --reset-offsets`.
# - **D**: rename the group.
#
# Which one brings the group back to its old positions? Write the letter as a text.

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
# | one broker leads the old and the new partition, and a consumer asks for its offset | the broker finds nothing: each partition has its own groups in memory | the broker answers **the old offset, without an error**: all partitions share one cache |
# | `ListGroups` after that | lists the group, because it lists the groups of every partition | lists the group |
#
# ## In five lines
#
# - A group's records are in one partition: `abs(hash(name)) % partitions`.
# - The hash is Java's: 32 bits, UTF-16 units, and it may be negative.
# - The leader of this partition is the group's coordinator.
# - Groups are spread unevenly, and Kafka never moves a group.
# - More partitions for `__consumer_offsets` hide the offsets of most groups.

# %% [markdown]
# ## For your consumer
#
# - `group.id` decides which broker your consumer depends on. Two applications whose groups share a partition share this broker.
# - If a consumer restarts and finds no offset, `auto.offset.reset` decides: `latest` (the default), `earliest`, or `none`. With `none` the consumer raises an error instead of skipping records.
# - If one group is too hot, give a part of its work a second `group.id`, or commit less often (`auto.commit.interval.ms`, 5 seconds by default).
#
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | One consumer group is slow or unavailable, others work | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The column COORDINATOR names the broker of the group's partition | Look at that broker first |
# | One broker has much more load | `kafkagroups stats PATH` on a copy of the partition's folder | It lists the groups that write the most | Let these groups commit less often |
# | Groups start again after partitions were added | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | The first line has the number of partitions | Stop the consumers. Read the old partition with `kafkagroups load PATH --group billing` and set the offsets |
#
# The partition of a group: `kafkagroups partition billing --partitions 50`.
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
