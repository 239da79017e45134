# %% [markdown]
# # 01 · Records
#
# **What exactly does Kafka store for a commit, and for a group?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | read a commit byte by byte; say what a group record contains; recognise a tombstone; say which records a broker refuses | {{minutes}} | no |
#
# ![A key has type, group, topic and partition. A value has version, offset and more. A record without a value is a tombstone.](pictures/01.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. Each record has a **key** and a **value**. If several records have the same key, the newest value counts.
# 2. A record without a value is a **tombstone**: it deletes its key.
# 3. The key begins with the **record type**: 1 is a committed offset, 2 is a group.
# 4. The value begins with its **version**. The version decides which fields follow.

# %% [markdown]
# ## A commit in hex
#
# The group `billing` committed an offset. A broker of Kafka 4.3.1 wrote this record to its disk.
#
# Each line shows a position, 16 bytes in hex, and the same bytes as text:

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
# ## Each byte has a name
#
# Go through the fields with *next*, or click a block.
#
# Numbers are *big-endian*: the high byte comes first. The offset ends with hex 23, and 2 · 16 + 3 = 35. The length of the metadata is stored **plus one**, so `07` means six bytes. The plus one leaves `00` free for null.
#
# Then choose a *changed byte*, or type a change, for example `value 15=54`. What does a reader believe now?

# %%
# figure
course.RecordRibbon(key, value)

# %% [markdown]
# - **Leader epoch**: each partition has one broker that accepts its writes, the *leader*. The epoch rises when another broker becomes the leader of `orders-0`.
# - **Tagged fields**: optional fields at the end. Field 0 is the *topic id*.

# %% [markdown]
# ## Exercise: a commit on paper
#
# This is the value of another commit of the 4.3.1 broker:

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
# Version 4 is the only layout with short lengths. In keys, and in values up to version 3, a text begins with its length in **two** bytes. A negative length means null. `course.read_string` returns such a text and the position after it:

# %%
for data in [b"\x00\x07billing", b"\x00\x00", b"\xff\xff"]:
    print(f"{data.hex(' '):<28} {course.read_string(data, 0)}")

# %% [markdown]
# So null and empty are different bytes. A client can send both:
#
# - **Null metadata**: the broker stores the empty text.
# - **Empty group id**: a broker accepts commits for the group `""`. It does not accept members for this group. They receive the error `INVALID_GROUP_ID`.

# %% [markdown]
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
# The layout of the value has changed four times:
#
# | value version | Kafka writes it | fields |
# |---|---|---|
# | 0 | 0.8.2 | offset, metadata, commit timestamp |
# | 1 | 0.9 to 2.0 | the same, and an *expire timestamp*: when the offset may be deleted |
# | 2 | no release by default | without the expire timestamp: offsets now live as long as their group |
# | 3 | 2.1 to 4.0 | a leader epoch after the offset |
# | 4 | since 4.1 | short lengths, tagged fields, the topic id |
#
# <details><summary>Other versions</summary>
#
# Up to 3.9, `inter.broker.protocol.version` can make a broker write an older version. So during an upgrade, the older brokers can still read the records. Kafka 4.x has no such setting for commits.
#
# </details>

# %% [markdown]
# An old client can still send a *retention time*, after which its offset expires. The group `stock-audit` sent one of three seconds to the 4.3.1 broker.
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
# A topic that is deleted and created again has the same name and another id. The id in a commit says which one is meant. Not every commit has one:

# %%
for folder, offset, kind in [(9, 38, "commit"), (9, 33, "commit in a transaction"), (22, 0, "with a retention time")]:
    record = kg.decode(*course.read_record(course.find_data(f"harbour/4.3.1/__consumer_offsets-{folder}"), offset))
    topic_id = record.value.topic_id.strip("A") or "none"     # an id of zero bytes prints as A's
    print(f"{kind:<24} topic id {topic_id}")

# %% [markdown]
# | commit | Kafka up to 4.0 | 4.1 to 4.3 | since 4.4 |
# |---|---|---|---|
# | plain | no topic id | topic id | topic id |
# | in a transaction | no topic id | no topic id | topic id |
# | with a retention time | no topic id | no topic id | no topic id |

# %% [markdown]
# ## A reader must know the version
#
# If a reader assumes the wrong version, it reads the wrong fields.
#
# Some monitoring tools knew only the versions 0 to 3 when Kafka 4.1 wrote version 4. Choose the reader that *expects version 3*. Which reader gets wrong values **without** an error?

# %%
# figure
course.VersionOverlay()

# %% [markdown]
# In version 4, this reader takes two bytes as the length of the metadata: hex `07 74` is 1908.
#
# Wrong fields are worse than no answer, so a broker never guesses. After a failover, the next broker *loads* the partition: it reads all records. If it finds an unknown value version, it stops the load. On Kafka 4.x, **all** groups of this partition are then unavailable.
#
# A value of zero bytes stops the load, too: it is not a tombstone.

# %% [markdown]
# ## Two key types for offsets
#
# The key of an offset begins with 0 or with 1. Kafka 0.8.2 wrote type 0. All later versions write type 1. Both types have the same fields and set the same offset. Not every broker accepts every combination:
#
# | key type | value version | up to 4.0 | since 4.1 |
# |---|---|---|---|
# | 0 | 0 | accepted | accepted |
# | 0 | 1 to 4 | accepted, if the release knows the value version | **the load stops** |
# | 1 | 0 to 4 | accepted, if the release knows the value version | accepted |

# %% [markdown]
# ## Other record types
#
# Kafka 4.x has 22 record types. Types 3 to 23 belong to the new group protocols (lesson 13).
#
# An unknown **type** does not stop the load. Since Kafka 3.4.1, a broker skips a record whose type it does not know.

# %% [markdown]
# ## The words of a group
#
# Type 2 describes a group:
#
# - A **member** is one consumer of the group.
# - The **subscription** of a member is the list of topics that it wants to read.
# - The **assignment** of a member is the list of partitions that it must read.
# - A **rebalance** computes new assignments. It happens when a member joins or leaves.
# - A **generation** is the numbered result of a rebalance.
# - The **leader** of a group is a member, not a broker. It computes the assignments with an *assignor*, for example `range`.

# %% [markdown]
# ## The record of a group
#
# A broker writes this record at the end of each rebalance. This is the last one of `billing`:

# %%
group_key, group_value = course.read_record(log, 36)
group = kg.decode(group_key, group_value).value

print(f"protocol type {group.protocol_type}, generation {group.generation}, assignor {group.protocol}")
print(f"leader {group.leader}")
for member in group.members:
    subscription = kg.decode_subscription(member.subscription).message
    assignment = kg.decode_assignment(member.assignment).message
    print(f"\nmember {member.member_id}")
    print(f"    client id {member.client_id}, host {member.client_host}, instance id {member.group_instance_id or 'none'}")
    print(f"    session timeout {member.session_timeout} ms, rebalance timeout {member.rebalance_timeout} ms")
    print("    subscription:", ", ".join(subscription.topics))
    for topic in assignment.assigned_partitions:
        print(f"    assignment:   {topic.topic}, partitions {', '.join(map(str, topic.partitions))}")

# %% [markdown]
# The *protocol type* is `consumer` for all consumers. Lesson 06 explains the timeouts and the *instance id*.
#
# Subscription and assignment are bytes that the clients write for each other. The broker only stores them. Both can contain *user data*. A subscription also contains the *owned partitions*, which the member had before.
#
# The record stores when the group entered its state, but **not the state** itself. After a restart, a group with members is `Stable`. A group without members is `Empty`. A rebalance that was in progress is not in the record.

# %% [markdown]
# ## Tombstones
#
# To delete an offset, a broker writes its key **without a value**. An administrator deleted the group `mailer`. The broker wrote four tombstones:

# %%
mailer = course.find_data("harbour/4.3.1/__consumer_offsets-12")
for offset in range(6, 10):
    record = kg.decode(*course.read_record(mailer, offset))
    what = f"{record.key.topic}-{record.key.partition}" if record.type == 1 else "the group"
    print(f"offset {offset}: type {record.type}, {record.key.group}, {what}: {record.value or 'no value'}")

# %% [markdown]
# ## A log is a list of changes
#
# A record with a value sets its key. This is an *upsert*: insert or update. A tombstone deletes the key. So the state of a group is the result of all its records, in order.
#
# If you stop at an earlier record, you get the state of that moment. This is the life of `mailer`:

# %%
for records in [2, 5, 6, 10]:
    group = kg.load(mailer, until=records).get("mailer")
    state = f"{group.state.value}, {len(group.members)} members, {len(group.offsets)} offsets" if group else "no group"
    print(f"after {records:>2} records: {state}")

# %% [markdown]
# ## Exercise: three records, one broker
#
# The log of a partition ends with one of these records. A broker of Kafka 4.3.1 loads the partition:
#
# - **A**: key type 0, group `billing`, `orders-0`. The value has version 0.
# - **B**: key type 99, a type that no release of today writes.
# - **C**: key type 1, group `billing`, `orders-0`. The value has version 5.
#
# Which record stops the load? Write the letter in quotes.

# %%
# exercise: stops_the_load
stops_the_load = ...

# %%
course.check("stops_the_load", stops_the_load)
# course.hint("stops_the_load")

# %% [markdown]
# ## Read the topic yourself
#
# Two tools of Kafka decode these records. On a running cluster:
#
# ```
# kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic __consumer_offsets --from-beginning \
#     --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
# ```
#
# `GroupMetadataMessageFormatter` prints group records instead of offsets. On the files of a broker:
#
# ```
# kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log
# ```
#
# Today, both print JSON.
#
# <details><summary>What the tools print, by version</summary>
#
# `kafkagroups dump` prints these texts, too (`--format formatter` and `--format dump-log`).
#
# The console consumer, for offsets:
#
# ```
# since 4.1     {"key":{"type":1,"data":{"group":"café-☕","topic":"stock","partition":0}},
#                "value":{"version":4,"data":{"offset":3,"leaderEpoch":-1,"metadata":"🥐 1€",…}}}
# 3.9 and 4.0   {"key":{"version":1,"data":…},"value":{"version":3,"data":…}}
# 2.1 to 3.8    [café-☕,stock,0]::OffsetAndMetadata(offset=3, leaderEpoch=Optional.empty, metadata=🥐 1€, …)
# 0.9 to 2.0    [café-☕,stock,0]::[OffsetMetadata[3,🥐 1€],CommitTime 1795255891721,ExpirationTime 1795342291721]
# ```
#
# For groups, 1.0.1 prints `mailer::GroupMetadata(groupId=mailer, generation=2, …)`. Up to 3.8, a tombstone is `…::NULL`. In JSON, it is `"value":null`.
#
# The dump tool:
#
# ```
# since 3.8     key: {"type":"1","data":…} payload: {"version":"3","data":…}
# 2.4 to 3.7    key: offset_commit::group=café-☕,partition=stock-0 payload: offset=3,metadata=🥐 1€
# 1.0 to 2.3    key: offset::café-☕:stock:0 payload: 3:🥐 1€
# ```
#
# Since 2.4, the payload of a tombstone is `<DELETE>`. If the metadata is empty, 2.4 to 3.7 print only `payload: offset=3`. In 1.0.1, the formatter is the class `kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter`.
#
# </details>

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | value version of a commit | 4 since 4.1, 3 in 4.0 | 3 since 2.1; `inter.broker.protocol.version` can choose an older one |
# | what the first join of a group writes | a group record without members, then the first generation | the first generation |
# | unknown record type | skipped | skipped since 3.4.1; older releases stop the load |
#
# <details><summary>Other versions: group records and ZooKeeper</summary>
#
# The group value has its own versions. Version 0: Kafka 0.9 and 0.10.0. Version 1 adds the rebalance timeout (0.10.1 to 2.0). Version 2 adds the time since which the group is in its state (2.1, 2.2). Version 3 adds the instance id of static members (since 2.3). Version 4 has short lengths. No release writes it by default.
#
# Before 0.8.2, offsets were in ZooKeeper. A commit in the oldest version of the request, 0, still went to ZooKeeper in 1.0.1.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - The key says which offset or which group. The newest value of a key counts.
# - A key begins with the record type, and a value begins with its version.
# - The version decides the fields. An unknown version stops a load, an unknown type does not.
# - Version 4 has short lengths and the topic id.
# - A record without a value is a tombstone. It deletes its key.

# %% [markdown]
# ## For your consumer
#
# - `commitSync(offsets)` can store metadata of at most 4,096 characters (`offset.metadata.max.bytes` of the broker). More is refused with `OFFSET_METADATA_TOO_LARGE`.
# - Do not read `__consumer_offsets` in your own code. `Admin.listConsumerGroupOffsets` returns the same offsets and does not depend on versions.
# - Set `group.id`. Without it, the Java consumer cannot commit.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of a folder such as `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A lag monitor shows nothing since the upgrade to 4.1 | `kafkagroups report PATH --out report.html` | Its table of versions shows version 4, which the monitor cannot read | Update the monitor, or use one that asks with the Admin API |
# | `Failed to load metadata` in the broker's log (4.x), or `Error loading offsets` (up to 3.9) | `kafkagroups check PATH --kafka 4.3.1` | It names the first record that stops the load | Do not delete files. Follow the remedy that it prints |
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
# The fields of all 22 record types: `kafkagroups decode` shows them.
#
# **Next:** [02 · Partitions](02_partitions.ipynb): in which partition a group's records are.
