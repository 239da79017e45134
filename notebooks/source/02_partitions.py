# %% [markdown]
# # 02 · Partitions
#
# **On which of 50 partitions does my group live, and why may that number never change?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | compute a group's partition as a broker does, say why one partition can be hot, and what breaks when the count changes | 15 + 15 | no |
#
# ```
#  "billing"  ──▶  String.hashCode()  ──▶  abs  ──▶  % 50  ──▶  9
#                   (32 bits, Java's)
# ```
#
# Three things to hold on to:
#
# 1. One group lives in **one** partition, with its members and all its offsets. So its records have an order.
# 2. The partition is a function of two things only: the group's name and the number of partitions.
# 3. Nobody deals groups out evenly, and nobody moves one.

# %%
import kafkagroups as kg
from kafkagroups import course

shop = ["billing", "fraud-check", "shipping", "mailer", "café-☕", "stock-audit", "promo", "dashboard"]
for group in sorted(shop, key=kg.partition_for):
    print(f"{kg.partition_for(group):>3}  {group}")

# %% [markdown]
# ## Why one partition for a group
#
# A group's commits, its members and its tombstones must be replayed in the order in which they happened. Kafka keeps
# order within a partition, and nowhere else. So everything of a group goes to one partition. Each partition has one broker that
# takes all writes, its *leader*; the leader of the group's partition is the group's *coordinator*. A consumer asks any broker
# `FindCoordinator("billing")`; that broker computes the partition and answers with its leader.
#
# ## Java's hash, by hand
#
# `String.hashCode` is older than Kafka: begin with 0, and for each character multiply by 31 and add the character.
#
# ```
#  "Aa"    0 · 31 + 65 = 65        65 · 31 + 97 = 2112
# ```
#
# An `int` of Java has 32 bits. What grows beyond them is dropped, and the highest bit is the sign: numbers can
# come out negative. *Predict*: `"Aa"` gives 2112. What does `"BB"` give? (`B` is 66.)

# %%
# prediction
hash_of_BB = ...

# %%
from kafkagroups.records.text import java_hash

course.compare_with_prediction(hash_of_BB, java_hash("BB"))

# %% [markdown]
# Two names, one hash: a hash makes no promise that they differ.
#
# ## Characters, or what Java takes for them
#
# Java counts **UTF-16 units**, not characters and not bytes. For most letters that is the same. `☕` is one unit, `🥐` is
# two (a *surrogate pair*). Kafka stores names as UTF-8, where `☕` takes three bytes. Three counts for one name:

# %%
for text in ["billing", "café-☕", "🥐"]:
    utf16, utf8 = text.encode("utf-16-be"), text.encode()
    print(f"{text:<8} {len(text)} characters, {len(utf16) // 2} UTF-16 units, {len(utf8)} bytes of UTF-8:  {utf8.hex(' ')}")

# %% [markdown]
# ## Exercise: the hash
#
# Write `hash_of(text)`: what Java's `text.hashCode()` gives, as a Python int that may be negative.
# `text.encode("utf-16-be")` gives the units, two bytes each, high byte first.

# %%
# exercise: hash_of
def hash_of(text):
    ...

# %%
course.check("hash_of", hash_of)
# course.hint("hash_of")        # hint("hash_of", 2) is a larger one

# %% [markdown]
# ## The last two steps
#
# The absolute value, then the remainder. One trap waits: a Java `int` goes from −2³¹ to 2³¹ − 1, so −2³¹ has no
# absolute value. `Math.abs` gives −2³¹ back, and a negative partition would be nowhere. Kafka's `Utils.abs` takes 0 for
# it. It is no theory: the word `polygenelubricants` has that hash.

# %%
print("Kafka:", kg.partition_for("polygenelubricants"), "  Python, where abs(-2**31) is a number like any other:", abs(-2**31) % 50)

# %% [markdown]
# ## Exercise: the partition
#
# Write `partition_of(group, partitions)`, with `hash_of`: yours, if it is right.

# %%
hash_of = course.ensure_correct("hash_of", hash_of)

# %%
# exercise: partition_of
def partition_of(group, partitions):
    ...

# %%
course.check("partition_of", partition_of)

# %% [markdown]
# ## What real names do
#
# A hash spreads names as dice would, and dice are not even. Here are 120 groups of a middle-sized company: 2.4 a partition on average.
# Move the slider; type a group of your own to see where it goes. (Partitions without a group are left out.)

# %%
services = ["billing", "shipping", "mailer", "search", "ads", "stock", "login", "audit", "reports", "invoices"]
names = [f"{service}-{stage}-{part}" for service in services for stage in ("dev", "test", "prod") for part in range(4)]

course.PartitionHistogram(names, partitions=50)

# %% [markdown]
# Some partitions hold nothing and some several. And groups are not equal: one that commits a hundred offsets a
# second weighs more than a thousand that commit once an hour. A *hot* partition means one broker that works, one
# log that grows, one failover that takes long. What helps is a different group id; nothing in Kafka moves it for you.
#
# ## Why the number may not change
#
# The setting `offsets.topic.num.partitions` is read when the topic is made, and never again: to change it later does nothing. But an
# administrator can add partitions to the topic itself, as to any other. Each broker counts them when it starts, and from then on computes with
# the new number. It cannot be undone: a topic can grow, not shrink. *Predict*: how many of the 8 groups of the shop
# would be looked for in another partition, if 50 became 60?

# %%
# prediction
moved = ...

# %%
course.compare_with_prediction(moved, sum(kg.partition_for(group, 50) != kg.partition_for(group, 60) for group in shop))

# %%
for group in shop:
    print(f"{group:<12} of 50: {kg.partition_for(group, 50):>2}   of 60: {kg.partition_for(group, 60):>2}")

# %% [markdown]
# Two stay, by luck: both remainders agree only for one hash in six. For the others, brokers look in the new partition, and the records still
# lie in the old one. Every consumer of those six that restarts finds **no** offset, and starts from the end or from the beginning, as
# `auto.offset.reset` says: it skips what came meanwhile, or reads everything again. No record of the topic is lost; it only looks so.
#
# ## In Kafka
#
# | what | where |
# |---|---|
# | the partition | `GroupMetadataManager.partitionFor` (1.0.1 to 3.9), `GroupCoordinatorService.partitionFor` (4.x) |
# | the absolute value | `org.apache.kafka.common.utils.Utils.abs` |
# | how many | `offsets.topic.num.partitions`, 50; read when the topic is created |
#
# ## What we left out, and why
#
# Who leads a partition, and how leadership moves, is replication: another course. That a partition's leader is the
# coordinator of all its groups is all that we need of it.
#
# **Next:** [03 · The log](03_the_log.ipynb): what the file of such a partition looks like.
