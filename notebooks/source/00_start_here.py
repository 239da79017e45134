# %% [markdown]
# # 00 · Start here
#
# **How Kafka remembers where every consumer is, from the bytes of one record to a billion of them.**
#
# | after this page you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | say what happens to a commit, check that your set-up is right, find the home of any group | 10 + 5 | no |
#
# A consumer reads a topic and says, now and then, "I am done up to here". Kafka has to remember that: for every
# group and every partition, through crashes of the consumer and of the broker. It keeps it where it keeps everything,
# in a topic. Its name is `__consumer_offsets`, it has 50 partitions, and hardly anyone ever looks inside. We will.

# %% [markdown]
# ## A commit's life, in one picture
#
# ```
#  consumer of group "billing"
#     │  commitSync():  orders-0 → 17
#     ▼
#  the broker that coordinates "billing"
#     │  1. appends a record to __consumer_offsets   ──▶  on disk
#     │  2. puts 17 into a map in memory
#     ▼  3. answers "done"
#  later: "where was I?"  ──▶  answered from the map
#
#  the broker dies  ──▶  another one reads the topic's partition
#                        from its beginning, and has the same map
# ```
#
# *Topic*, *partition*, *offset*: a topic is a list to which one only appends, cut into numbered partitions; an offset is a place
# in one partition, counted from 0. `orders-0` is partition 0 of the topic `orders`. A *consumer group* is a set of
# processes that share the reading of a topic and are known by one name, the group id. A *broker* is a server of Kafka;
# each partition lies on several of them, and one, the partition's *leader*, takes all writes;
# the one that keeps a group's map is the group's *coordinator* (lesson 02 says which it is).
#
# Two questions carry the whole course. *Which bytes are in that record?* And: *is the map after the crash really the
# same?* All lessons follow one small shop, Harbour Coffee, whose groups real brokers of three versions served, until
# the night they were killed.

# %% [markdown]
# ## Is your set-up right?
#
# Run a cell with **Shift + Enter**. Every line below should say `ok`.

# %%
from kafkagroups.cli import doctor

everywhere = {"python", "environment", "packages", "kernel"}
for check in doctor.run_checks():
    if check.check in everywhere:
        print(f"{check.check:<12}", "ok" if check.ok else f"NOT OK: {check.found}. To mend it: {check.fix}")

# %% [markdown]
# Java, disk and memory differ from machine to machine, so they are not on this page: `.venv/bin/kafkagroups doctor` in
# a terminal shows them. Only the Spark cells of lesson 12 need Java.

# %% [markdown]
# ## How an exercise works
#
# A cell with `...` waits for you. Put your answer there, run it, and run the check behind it. It says one of four
# things: ✓ right, ✗ wrong and how people slip there, ! your code failed, · not attempted. Nothing is recorded anywhere.
#
# Here is the first one. A consumer has read the records 0 to 16 of a partition. Which number does it commit?

# %%
# exercise: next_record
next_record = ...

# %%
from kafkagroups import course

course.check("next_record", next_record)
# course.hint("next_record")        # without the first # it gives a hint; hint("next_record", 2) would be the second
# course.solution("next_record")    # and this one the solution

# %% [markdown]
# ## Where a group lives
#
# Every group lives in **one** partition of the topic. Before you run on, guess: do five groups of Harbour Coffee get five
# different ones? There are 50 to choose from. Write True or False in place of the dots. (No check: a prediction comes back beside
# the result. The saved answer stands below; cover it until you have guessed.)

# %%
# prediction
five_different = ...

# %%
import kafkagroups as kg

groups = ["billing", "shipping", "dashboard", "fraud-check", "mailer"]
for group in groups:
    print(f"{group:<12} {kg.partition_for(group, partitions=50):>2}")

course.compare_with_prediction(five_different, len({kg.partition_for(group) for group in groups}) == 5)

# %% [markdown]
# `billing` and `fraud-check` share one, although 46 are free: the number comes from a hash of the name, and
# nobody deals them out. That these are the right numbers, you do not have to believe: this project holds the files of
# brokers of Kafka 1.0.1, 3.9.2 and 4.3.1, which served these groups. Here is where their records lie. (`classic` and `new` are two ways
# of loading; take them as given until lesson 11.)

# %%
ours = {group: [kg.partition_for(group)] for group in groups}

for version, coordinator in [("1.0.1", "classic"), ("3.9.2", "classic"), ("4.3.1", "new")]:
    files = kg.load(course.find_data(f"harbour/{version}"), coordinator, kafka=version)
    course.compare_with_broker(ours, {group: files.partitions_of[group] for group in groups}, version, verb="stored")

# %% [markdown]
# Now yours. Write the name of a group that you know in place of `my-team` and run the cell. On a broker of yours it
# lives in that partition too, unless someone has set `offsets.topic.num.partitions`.

# %%
kg.partition_for("my-team", partitions=50)

# %% [markdown]
# And one for the check: where does the shop's group `promo` live?

# %%
# exercise: home_of_promo
home_of_promo = ...

# %%
course.check("home_of_promo", home_of_promo)

# %% [markdown]
# ## The map, after the crash
#
# The broker of Harbour Coffee was killed in the middle of the night. This is what the next one knew, from nothing but
# the files that were left. *Stable* is a group with members, *Empty* one without; a group may have offsets and no members.
# `mailer` is missing: it had been deleted before that night, and so had `promo`, when its topic went. Lessons 01 and 03 show the bytes.
# `café-☕` and `stock-audit` you will meet soon.
#
# At the end of the course you will be able to say of each number which bytes made it so.

# %%
loaded = kg.load(course.find_data("harbour/3.9.2"), coordinator="classic")

for group in sorted(loaded):
    print(f"{group:<12} {loaded[group].state.value:<7} {len(loaded[group].members)} members, {len(loaded[group].offsets)} offsets")

# %% [markdown]
# ## Any moment you like
#
# Nothing in the file is changed, only appended, like the binary log of a database: a value says "from now on", a null says "no more". So the map is
# what comes out when all records are applied in order, and applying only the first of them gives the map of an earlier moment. Here is
# `billing` in partition 9, after 21, 22 and all 44 records. (At noon the shop closed for lunch.)

# %%
for until in [21, 22, 44]:
    moment = kg.load(course.find_data("harbour/3.9.2/__consumer_offsets-9"), coordinator="classic", until=until)
    billing = moment["billing"]
    offset = billing.offsets[kg.TopicPartition("orders", 0)].offset
    print(f"after {until} records: {billing.state.value:<6}, generation {billing.generation}, orders-0 at {offset}")

# %% [markdown]
# ## The path
#
# | | lesson | the question it answers |
# |---|---|---|
# | 00 | **start here** | Is my set-up right, and where am I going? |
# | 01 | [records](01_records.ipynb) | What exactly is stored for a commit, and for a group? |
# | 02 | [partitions](02_partitions.ipynb) | On which of 50 partitions does my group live, and why may that number never change? |
# | 03 | [the log](03_the_log.ipynb) | What does the file on disk look like: batches, CRC, compression, control batches? |
# | 04 | [storing](04_storing.ipynb) | What happens between `commitSync()` and the answer? |
# | 05 | [fetching](05_fetching.ipynb) | Why is the topic never read when a consumer asks for its offset? |
# | 06 | [the group's life](06_the_groups_life.ipynb) | Join, sync, heartbeat, leave: what is answered in which state, and what does a death cost? |
# | 09 | [deleting](09_deleting.ipynb) | How do you delete from a file you can only append to? |
# | 10 | [compaction](10_compaction.ipynb) | Why does the topic stay small, and when does it not? |
# | 11 | [loading](11_loading.ipynb) | A broker dies. How does the next one know everything? |
# | 12 | [loading at scale](12_loading_at_scale.ipynb) | Replay is a fold. When may it be split, and does it pay? |

# %% [markdown]
# ## In Kafka
#
# (The last part of each lesson but one says where all this stands in Kafka's own source. Skip it unless you read that.)
#
# The partition came from `GroupMetadataManager.partitionFor` (Kafka 3.9.2): `Utils.abs(groupId.hashCode) %
# groupMetadataTopicPartitionCount`. The map is the `offsets` of `GroupMetadata`, the record is written by
# `storeOffsets`, and the next broker reads it back in `loadGroupsAndOffsets`. You will meet all of them by name.
