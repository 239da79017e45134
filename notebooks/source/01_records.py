# %% [markdown]
# # 01 · Records
#
# **What exactly does Kafka store for a commit, and for a group?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | read a commit byte by byte; say which Kafka version wrote it; say what a group record contains; recognise a tombstone; say which records stop a load | {{minutes}} | no |
#
# ```
#            key: who and what?                           value: what is true now?
#  ┌──────┬───────────┬──────────┬───────────┐    ┌─────────┬────────┬─────────────────────────────┐
#  │ type │ group     │ topic    │ partition │ ─▶ │ version │ offset │ epoch, metadata, times, …   │
#  │  1   │ "billing" │ "orders" │ 0         │    │  4      │ 35     │                             │
#  └──────┴───────────┴──────────┴───────────┘    └─────────┴────────┴─────────────────────────────┘
#                                                  no value: a tombstone, which deletes
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. Each record has a **key** and a **value**. The newest value of a key is true. A record without a value deletes.
# 2. The key begins with the **record type**: 1 is a committed offset, 2 is a group.
# 3. The value begins with its **version**. The version decides which fields follow.
# 4. Numbers are **big-endian**: the high byte comes first.

# %% [markdown]
# ## A commit in hex
#
# A broker of Kafka 4.3.1 wrote this record to its disk. The group `billing` committed an offset for partition 0 of the topic `orders`:

# %%
import kafkagroups as kg
from kafkagroups import course

log = course.find_data("harbour/4.3.1/__consumer_offsets-9")
key, value = course.read_record(log, 38)

print("key")
course.hexdump(key)
print("value")
course.hexdump(value)

# %% [markdown]
# Read the key from the left. `00 01` is the record type, 1. `00 07` is a length. The next seven bytes are `billing`. `00 06` and six bytes are `orders`. The last four bytes are partition 0.
#
# The value begins with `00 04`: version 4. The next **eight** bytes are the offset: hex 23 is 2 · 16 + 3 = 35. Then come four bytes for the *leader epoch*, here 0.
#
# `07` is the length of the next text, **plus one**. So the text has six bytes: `till 1`. The plus one has a reason: a length of `00` can then mean null.
#
# ## Each byte has a name
#
# Click *next* to go through all fields:

# %%
# figure
course.RecordExplorer(key, value)

# %% [markdown]
# - **offset**: the offset of the next record that the group reads.
# - **leader epoch**: a counter of the partition `orders-0`. It rises when another broker becomes its leader. Lesson 05 uses it. −1 means unknown.
# - **metadata**: a text of the client. Most clients store an empty text.
# - **commit timestamp**: when the broker received the commit, in milliseconds since 1970.
# - **tagged fields**: optional fields at the end. First their count, then the number, the size and the bytes of each. Field 0 is the *topic id*.

# %% [markdown]
# ## Exercise: a commit on paper
#
# This is the value of another commit, also from the 4.3.1 broker:

# %%
course.hexdump(course.read_record(log, 33)[1])

# %% [markdown]
# Which offset does it contain, and how many bytes does its metadata have? Write a pair, for example `(12, 34)`.

# %%
# exercise: on_paper
on_paper = ...

# %%
course.check("on_paper", on_paper)
# course.hint("on_paper")

# %% [markdown]
# ## Null and empty texts
#
# In keys, and in values up to version 3, a text begins with its length in **two** bytes. A negative length means null. `course.read_string` reads such a text. It returns the text and the position after it:

# %%
for data in [b"\x00\x07billing", b"\x00\x00", b"\xff\xff"]:
    print(f"{data.hex(' '):<28} {course.read_string(data, 0)}")

# %% [markdown]
# Null and empty are different in the bytes. For commits, Kafka makes them equal: if a client sends null metadata, the broker stores the empty text.
#
# An empty **group id** is possible, too. A broker accepts commits for the group `""`. It refuses members for this group, with the error `INVALID_GROUP_ID`.
#
# ## Exercise: decode a commit
#
# Write `decode_commit(key, value)`. It returns the tuple `(group, topic, partition, offset)`. Use `course.read_string` for the texts, and this for the numbers:
#
# ```python
# int.from_bytes(b"\x00\x07", "big", signed=True)     # 7
# ```
#
# If `value` is `None`, the offset is `None`.

# %%
# exercise: decode_commit
def decode_commit(key, value):
    ...

# %%
course.check("decode_commit", decode_commit)
# course.hint("decode_commit")

# %% [markdown]
# ## The versions of a commit
#
# The same script ran with brokers of three versions. Each broker stored this commit of the group `café-☕`:

# %%
for version in ["1.0.1", "3.9.2", "4.3.1"]:
    cafe_key, cafe_value = course.read_record(course.find_data(f"harbour/{version}/__consumer_offsets-21"), 2)
    print(f"Kafka {version}, value version {kg.decode(cafe_key, cafe_value).value_version}")
    course.hexdump(cafe_value)

# %% [markdown]
# | value version | written by | difference from the version before |
# |---|---|---|
# | 0 | 0.8.2 | offset, metadata, commit timestamp |
# | 1 | 0.9 to 2.0 | an *expire timestamp* at the end: when the offset may be deleted |
# | 2 | no release | no expire timestamp: offsets now live as long as their group |
# | 3 | 2.1 to 4.0 | a leader epoch after the offset |
# | 4 | since 4.1 | short lengths, plus one; tagged fields; the topic id |
#
# An old client can still ask for its own expiry time. Such a request contains a *retention time*. The group `stock-audit` sent one to the 4.3.1 broker: three seconds.
#
# *Predict*: which value version did the broker write?

# %%
# prediction
version_of_stock_audit = ...

# %%
audit = kg.decode(*course.read_record(course.find_data("harbour/4.3.1/__consumer_offsets-22"), 0))

course.reveal("version_of_stock_audit", version_of_stock_audit, audit.value_version)

# %% [markdown]
# <details><summary>Why?</summary>
#
# Only version 1 has a field for an expire timestamp. So every release since 0.9 writes version 1 for such a request.
#
# </details>
#
# ## Which commits have a topic id
#
# A topic that is deleted and created again has the same name and another id. So the id tells a broker which of the two topics a commit means. Not every commit has one:

# %%
for folder, offset, kind in [(9, 38, "commit"), (9, 33, "commit in a transaction"), (22, 0, "with a retention time")]:
    record = kg.decode(*course.read_record(course.find_data(f"harbour/4.3.1/__consumer_offsets-{folder}"), offset))
    topic_id = record.value.topic_id.strip("A") or "none"     # an id of zero bytes prints as A's
    print(f"{kind:<24} topic id {topic_id}")

# %% [markdown]
# A commit of Kafka 4.1 to 4.3 has the id, except in a transaction and with a retention time. Since 4.4, commits in transactions have it, too.
#
# ## A reader must know the version
#
# No field has a name in the bytes. A reader with the wrong version reads the wrong bytes. Some monitoring tools read this topic themselves, and many of them only knew the versions 0 to 3. Version 4 came with Kafka 4.1. Here, version 4 is read as if it were version 3:

# %%
try:
    kg.decode(key, b"\x00\x03" + value[2:])
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# The reader expected a length in two bytes. It took the length byte `07` and the letter `t` for one number.
#
# So Kafka's own readers refuse a version that they do not know. If a broker finds one while it loads a partition, it stops. Then **all** groups of this partition are unavailable. A value of zero bytes stops the load, too: it is not a tombstone, and it has no version.

# %% [markdown]
# ## Two key types for offsets
#
# The key of an offset can begin with 0 or with 1. Kafka 0.8.2 wrote type 0. All later versions write type 1. Both types have the same fields, and both mean the same offset.
#
# | key type | value version | up to 4.0 | since 4.1 |
# |---|---|---|---|
# | 0 | 0 | accepted | accepted |
# | 0 | 1 to 4 | accepted | **the load stops** |
# | 1 | 0 to 4 | accepted up to the newest version that the release knows | accepted |
#
# ## Other record types
#
# Kafka 4.x has 22 record types. Types 3 to 23 belong to the new group protocols, which lesson 13 reads. A broker of Kafka 3.4.1 or newer **skips** a record whose type it does not know.
#
# ## The record of a group
#
# Type 2 describes a group. You need five words:
#
# - A **member** is one consumer of the group.
# - A **rebalance** decides again which member reads which partitions. It happens when a member comes or goes.
# - A **generation** is the result of a rebalance. Generations are numbered.
# - The **assignment** of a member is the list of its partitions.
# - The **leader** is the member that computes the assignments. It follows an *assignor*, for example `range`.

# %% [markdown]
# A broker writes the record at the end of each rebalance. This is the last one of `billing`:

# %%
group_key, group_value = course.read_record(log, 36)
group = kg.decode(group_key, group_value).value

print(f"{len(group_value)} bytes: generation {group.generation}, assignor {group.protocol}, leader {group.leader[:9]}")
for member in group.members:
    print(f"{member.client_id}: session timeout {member.session_timeout} ms, host {member.client_host}")
    for topic in kg.decode_assignment(member.assignment).message.assigned_partitions:
        print(f"    reads {topic.topic}, partitions {', '.join(map(str, topic.partitions))}")

# %% [markdown]
# The record has no field for the state of the group. After a restart, a group with members is `Stable`, and a group without members is `Empty`. If a rebalance was under way, the log does not say it.
#
# Two fields of each member are bytes that the broker only stores: the *subscription* and the *assignment*. The clients write them for each other. The cell above decoded the assignment.
#
# ## Tombstones
#
# To delete an offset, a broker writes its key **without a value**. The administrator deleted the group `mailer`. The broker wrote four tombstones:

# %%
for offset in range(6, 10):
    record = kg.decode(*course.read_record(course.find_data("harbour/4.3.1/__consumer_offsets-12"), offset))
    what = f"{record.key.topic}-{record.key.partition}" if record.type == 1 else "the group"
    print(f"offset {offset}: type {record.type}, {record.key.group}, {what}: {record.value or 'no value'}")

# %% [markdown]
# ## Exercise: three records, one broker
#
# The log of a partition ends with one of these records. A broker of Kafka 4.3.1 loads the partition:
#
# - **A**: key type 0, group `billing`, `orders-0`. The value has version 0.
# - **B**: key type 99, a type that no release of today writes.
# - **C**: key type 1, group `billing`, `orders-0`. The value has version 5.
#
# Which record stops the load? Write the letter as a text.

# %%
# exercise: stops_the_load
stops_the_load = ...

# %%
course.check("stops_the_load", stops_the_load)
# course.hint("stops_the_load")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | value version of a commit | 4 since 4.1, 3 in 4.0 | 3 since 2.1; `inter.broker.protocol.version` can choose an older one |
# | topic id in a commit | since 4.1 | never |
# | first record of a group | an empty group record at the first join, then the first generation | the first generation |
# | key type 0 with value version 1 to 4 | the load stops since 4.1 | accepted |
# | unknown record type | skipped | skipped since 3.4.1; older releases stop the load |
#
# <details><summary>Other versions</summary>
#
# The group value has its own versions. Version 0: Kafka 0.9 and 0.10.0. Version 1 adds the rebalance timeout (0.10.1 to 2.0). Version 2 adds the time since which the group is in its state (2.1, 2.2). Version 3 adds the instance id of static members (since 2.3).
#
# Before 0.8.2, offsets were in ZooKeeper. ZooKeeper is slow for frequent small writes, so they moved into a topic. A commit in the oldest version of the request still went to ZooKeeper in 1.0.1.
#
# </details>
#
# ## In five lines
#
# - The key says which offset or which group. The value says what is true now.
# - Key: record type first. Value: version first.
# - The version decides the fields, and an unknown version stops a load.
# - Version 4 has short lengths and the topic id.
# - A record without a value is a tombstone. It deletes.

# %% [markdown]
# ## For your consumer
#
# - `commitSync(offsets)` can store metadata of at most 4,096 characters (`offset.metadata.max.bytes` of the broker). More is refused with `OFFSET_METADATA_TOO_LARGE`.
# - Do not read `__consumer_offsets` in your own code. `Admin.listConsumerGroupOffsets` gives the same offsets and does not depend on versions.
# - Set `group.id`. The Java consumer does not accept an empty one.
#
# ## At 3 am
#
# PATH is a copy of a partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A lag monitor shows nothing since the upgrade to 4.1 | `kafkagroups report PATH --out report.html` | Its table of versions shows that the commits have version 4, and the monitor does not know it | Update the monitor, or use one that asks with the Admin API |
# | You want to read the records yourself | `kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log` or `kafkagroups dump PATH` | Both print each record. The second one reads every version | Reading is safe |
# | `Error loading offsets` in the broker's log | `kafkagroups check PATH --kafka 4.3.1` | It names the first record that stops the load | Do not delete files. Read the remedy that it prints |
#
# On a running broker: `kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic __consumer_offsets --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter --from-beginning`.
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) |
# |---|---|
# | the fields | `OffsetCommitKey.json`, `OffsetCommitValue.json`, `GroupMetadataKey.json`, `GroupMetadataValue.json` |
# | reading | `GroupCoordinatorRecordSerde`; up to 3.9 `GroupMetadataManager.readMessageKey` |
# | writing | `GroupCoordinatorRecordHelpers`; up to 3.9 `GroupMetadataManager.offsetCommitValue` |
# | subscriptions and assignments | `ConsumerProtocol`, in the clients |
#
# </details>
#
# ## What we left out, and why
#
# The fields of all 22 types: `kafkagroups decode` shows each of them with its bytes. Compression and checksums belong to batches, which lesson 03 reads.
#
# **Next:** [02 · Partitions](02_partitions.ipynb): in which partition a group's records are.
