# %% [markdown]
# # 02 · Partitions
#
# **On which of 50 partitions does a group live, and why must the number of partitions never change?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | compute a group's partition as a broker does; find the group's coordinator; explain a hot partition; say what breaks when the number of partitions changes | {{minutes}} + 10 for later | no |
#
# **Which Kafka:** all releases compute the partition in the same way. After the number has changed, 4.x and 3.9 answer differently; the lesson shows 4.x.
#
# ![The name billing goes through String.hashCode(), abs and % 50, and the result is partition 9 of the 50 partitions of __consumer_offsets.](pictures/02.svg)

# %% [markdown]
# Three things to hold on to:
#
# 1. Kafka keeps an order only inside one partition, so all records of a group are in **one**.
# 2. Two values decide which partition it is: the group's name and the number of partitions.
# 3. Nothing else matters: Kafka does not balance groups over the partitions, and never moves a group.

# %% [markdown]
# ## One group, one partition
#
# `__consumer_offsets` has 50 partitions, numbered 0 to 49. These are eight groups of the shop:

# %%
import kafkagroups as kg
from kafkagroups import course

shop = ["billing", "fraud-check", "shipping", "mailer", "café-☕", "stock-audit", "promo", "dashboard"]
for group in sorted(shop, key=kg.partition_for):
    print(f"partition {kg.partition_for(group):>2}  {group}")

# %% [markdown]
# Why not several partitions for a busy group? Kafka keeps an order only within one partition, so with two partitions, nobody could say which of two commits is newer.
#
# ## The coordinator of a group
#
# Each partition has one broker that accepts its writes, the *leader* of the partition. Only the leader of the group's partition can write about the group, so this broker also answers all requests of the group: it is the **coordinator** of the group. A consumer finds the coordinator in two steps:
#
# 1. It sends `FindCoordinator("billing")` to any broker. This broker computes the partition, and answers with the name of the partition's leader.
# 2. It sends its commits to the leader. If this broker no longer leads the partition, it answers `NOT_COORDINATOR`, and the consumer repeats step 1.
#
# When a broker dies, another broker becomes the leader. The group then has another coordinator, but its partition is the same.

# %% [markdown]
# ## Java's hash
#
# Kafka turns the name into a number, its [*hash*](../docs/handbook/glossary.md#hash), with Java's `String.hashCode`. The hash begins with 0. For each character, Java multiplies the hash by 31 and adds the character's code. The code of `A` is 65, and the code of `a` is 97:
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
# The hash is an `int` of Java, a number with 32 bits. After each step, Java keeps only the lowest 32 bits, and the highest of these is the sign, so the hash of a longer name can be negative:

# %%
for text in ["Aa", "billing", "mailer", "shipping"]:
    print(f"{text:<10} {java_hash(text):>12}")

# %% [markdown]
# <details><summary>What do the hashes of "Aa" and "BB" tell you?</summary>
#
# They are equal, so different names can have the same hash. Two groups with the same hash are always in the same partition.
#
# </details>

# %% [markdown]
# ## From the hash to the partition
#
# Two steps remain: take the absolute value, and then the remainder (`%`) of the division by the number of partitions:
#
# ```
#  "billing"    hash −109829509    absolute value 109829509    109829509 % 50 = 9
# ```
#
# <details><summary>One hash has no absolute value</summary>
#
# An `int` goes from −2³¹ to 2³¹ − 1. The absolute value of −2³¹ is 2³¹, which does not fit, so Java's `Math.abs` returns −2³¹ itself, and the remainder could be negative. Kafka's own `Utils.abs` returns 0 instead. The word `polygenelubricants` has exactly this hash, so Kafka puts it into partition 0.
#
# </details>
#
# ## Exercise: the partition, on paper
#
# The hash of `reports` is 1094603199. The hash of `barista` is −333401174. The topic has 50 partitions. Compute both partitions without the computer. Write a pair, for example `(12, 34)`.

# %%
# exercise: two_partitions
two_partitions = ...

# %%
course.check("two_partitions", two_partitions)
# course.hint("two_partitions")

# %% [markdown]
# ## Hot partitions
#
# A hash spreads names like random numbers, and random numbers are uneven. Here are 120 groups of a company:

# %%
from collections import Counter

services = ["billing", "shipping", "mailer", "search", "ads", "stock", "login", "audit", "reports", "invoices"]
names = [f"{service}-{stage}-{part}" for service in services for stage in ("dev", "test", "prod") for part in range(4)]

sizes = Counter(kg.partition_for(name) for name in names)
fullest, size = sizes.most_common(1)[0]
print(f"fullest: partition {fullest} with {size} groups   empty: {50 - len(sizes)} of 50 partitions")

# %% [markdown]
# Groups also differ in traffic. A [*hot* partition](../docs/handbook/glossary.md#hot-partition) has much more traffic than the others, so its log grows the fastest, and the next failover is slow (lesson 11). Kafka does not move a group, so two remedies are left: commit less often, or give the group another name. But a new name begins **without offsets**, so stop the consumers first, and set the offsets of the new name before you start them again.

# %% [markdown]
# ## Why the number must not change
#
# The setting `offsets.topic.num.partitions` (default 50) is used only when the topic is created. But a script can add partitions later, by mistake. Such a *widening* of the topic cannot be undone, because Kafka cannot remove partitions.
#
# A broker counts the partitions of the topic **once, when it starts**, and computes with this count until it restarts.
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
# A group stays only if its hash has the same remainder for 50 and for 60. `billing` gets another partition, because 109829509 % 50 is 9 and 109829509 % 60 is 49. On average, one group in six stays: of 300 hashes in a row, only 50 have the same remainder for 50 and for 60. Here, two of eight stay.
#
# ## What a broker answers after that
#
# A broker that counts 60 partitions writes new records of the group to the new partition, but the old records stay where they are. Now a consumer asks for the offsets of its group. Our model loads the shop's 50 partitions, but counts 60, as a broker does after its restart:

# %%
# script
def print_offsets(version, coordinator):
    groups = kg.load(course.find_data(f"harbour/{version}"), coordinator=coordinator, partitions=60)
    for name in ["billing", "shipping", "fraud-check"]:
        group = groups.get(name)
        print(f"{name:<12} {f'{len(group.offsets)} offsets' if group else 'nothing committed'}")


print_offsets("4.3.1", "new")

# %% [markdown]
# `fraud-check` keeps its partition. For `billing` and `shipping`, the broker looks only in the new partition, which has no record of the group. So the answer is *nothing committed*.
#
# *Nothing committed* is dangerous, because it is not an error. The consumer then starts where `auto.offset.reset` says: with `latest` at the end of the partition, so it skips records, and with `earliest` at the beginning, so it reads everything again.

# %% [markdown]
# ## From 50 partitions to 60, step by step
#
# The figure has 128 groups: the 120 from above and the shop's 8. You follow one group, first `shipping`. The blue cell is the partition where brokers look for this group. (The figure leaves out the sign of the hash.) Before the widening, all groups commit the offset 50, and after it the offset 60. So a group that is given 50 has gone back.
#
# Go through the steps, and choose other groups in the list.<span class="live-only"> You can also type a name of your own.</span> The last step widens the topic again, to 65 partitions. By chance, `shipping` then gets partition 8 again, where its consumers find the old offset 50.

# %%
# figure
course.PartitionGrid(names, shop)

# %% [markdown]
# ## While the brokers restart
#
# Brokers restart one after the other. A broker that still counts 50 sends consumers to the leader of the old partition, and a broker that counts 60 to the leader of the new one. So **two brokers can be the coordinator of one group**. Each of them knows only the members that joined there, so two members can read the same records.

# %% [markdown]
# ## Exercise: after the widening
#
# In a 4.3.1 cluster, `__consumer_offsets` was widened from 50 to 60 partitions. Since the restart of the brokers, the group `shipping` reads its topics again from the beginning. Which of these brings it back to its old positions? Write the letter in quotes.
#
# - **A**: set `offsets.topic.num.partitions` back to 50 and restart the brokers.
# - **B**: wait until the brokers have compacted the old partition.
# - **C**: stop the consumers, read the old offsets from the old partition, and set them with `kafka-consumer-groups.sh --reset-offsets`.
# - **D**: rename the group, and choose a name that has the same partition with 50 and with 60.

# %%
# exercise: after_widening
after_widening = ...

# %%
course.check("after_widening", after_widening)
# course.hint("after_widening")

# %% [markdown]
# ## What Java counts as a character
#
# You can skip this section and its exercise. Java counts [**UTF-16 units**](../docs/handbook/glossary.md#utf-16-unit), not characters and not bytes. `☕` is one unit, but `🥐` is two, a *surrogate pair*. Records store names as UTF-8, so one name can have three lengths:

# %%
print(f"{'':<8} {'characters':>10} {'UTF-16 units':>13} {'UTF-8 bytes':>12}")
for text in ["billing", "café-☕", "🥐"]:
    print(f"{text:<8} {len(text):>10} {len(text.encode('utf-16-be')) // 2:>13} {len(text.encode()):>12}")

# %% [markdown]
# ## Exercise for later: the hash
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
# ## Where 3.9 differs
#
# A broker keeps committed offsets in a cache, a map in memory. In 4.x, each partition has its own cache. In 3.9, all partitions of a broker share one, so the broker can also find offsets from the old partition:

# %%
print_offsets("3.9.2", "classic")

# %% [markdown]
# A group like `billing` then goes through three stages:
#
# 1. **Before the first restart**, brokers still count 50, so commits go to the old partition, and nothing has changed.
# 2. **After the first restart**, brokers count 60. If the same broker leads the old and the new partition, it answers with the group's old offset, and the group goes on. If not, the answer is *nothing committed*. New commits go to the new partition.
# 3. **After each later restart**, both partitions have records of the group. Suppose that one broker leads both. It keeps what it loads first: if it loads the old partition first, it ignores what the new one has of this group, and the other way round. The order is not fixed: if the broker loads the old partition first, the group gets its old offsets back.
#
# So before each later restart of a 3.9 broker, stop the consumers of the groups that moved, and note their offsets. After the restart, set each offset that went back.
#
# ## Check yourself
#
# <details><summary>What does a consumer do after the answer NOT_COORDINATOR?</summary>
#
# It sends FindCoordinator again, to any broker, because the broker that answered no longer leads the group's partition.
#
# </details>
#
# ## In five lines
#
# - A group's records are in one partition, because they need an order: `abs(hash(name)) % partitions`.
# - The hash is Java's: 32 bits, and it may be negative.
# - The leader of this partition is the group's coordinator. Any broker can compute where it is.
# - Groups are spread unevenly, and none is ever moved.
# - If the topic is widened, most groups get another partition, where their old offsets are not found.

# %% [markdown]
# ## For your consumer
#
# Consider `auto.offset.reset=none` (the default is `latest`). If a group then has no offset, `poll` throws an error, so no record is skipped unnoticed.

# %% [markdown]
# ## At 3 am
#
# In this lesson, PATH is a folder with the copies of all partitions ([how to copy them](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk). `kafkagroups partition billing --partitions 50` prints the partition of a group.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | One consumer group is slow or unavailable, others work | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The column COORDINATOR names the broker that leads the group's partition | Look at that broker first |
# | One broker has much more work | `kafkagroups stats PATH` | It lists the groups that write the most | Make these groups commit every few seconds instead of after each `poll` |
# | Consumers lost their positions after partitions were added | `kafkagroups stats PATH` | It prints the old and the new number of partitions, and each group that has records in two partitions, with its old and its new offset | Stop the consumers of these groups, choose an offset (below), and set it |
# | You notice a widening before a broker restarts | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | PartitionCount is the new number. The brokers still compute with the old one, so nothing is lost yet | Do not delete the topic, and do not restart a broker yet: follow the steps below |
#
# **If no broker has restarted since the widening**, the groups still work, and nothing has to be lost. (A broker counts at its start, so compare the start time of each broker's process with the time of the widening.)
#
# 1. Find the groups that will move, with the commands of [the runbook](../docs/operator.md#6-a-group-in-two-partitions). Stop their consumers, and note their offsets. All other groups can go on.
# 2. Restart all brokers, one after the other.
# 3. After the last one, set the offsets that you noted, and start the consumers:
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group shipping --topic orders:0 --reset-offsets --to-offset 33 --execute
# ```
#
# **If some brokers have already restarted**, groups can have two coordinators. Stop the consumers of the groups that move, and restart the other brokers, too.
#
# The consumers of some groups ran on. The new coordinator answered them *nothing committed*, so they began where `auto.offset.reset` says, and have committed new offsets. `kafkagroups stats PATH` lists the old and the new offset of each group. Choose for each group:
#
# - **Set the old offset**: the group repeats everything since the restart.
# - **Keep the new offset**: nothing is repeated, but with `latest`, skipped records are never processed.
#
# ## What we left out, and why
#
# How a partition gets its leader. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [03 · The log](03_the_log.ipynb): what the file of such a partition looks like.
