# %% [markdown]
# # 01 · Records
#
# **What exactly does Kafka store for a commit, and for a group?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | read a commit byte by byte; say what a group record contains; recognise a tombstone; say which records a broker refuses | {{minutes}} + 10 for later | no |
#
# **Which Kafka:** 4.x and 3.9. The records are from a 4.3.1 broker; 3.9 writes the value of a commit in an older layout.
#
# ![A key has type, group, topic and partition. A value has version, offset and more. A record without a value is a tombstone.](pictures/01.svg)

# %% [markdown]
# After an upgrade to Kafka 4.1, some monitoring tools showed no groups any more. And a single bad record can make a broker refuse requests about many groups. The bytes of a record explain both. Four things to hold on to:
#
# 1. Each record has a [**key**](../docs/handbook/glossary.md#key), which says what the record is about, and a [**value**](../docs/handbook/glossary.md#value), the current data about it. If several records have the same key, only the newest record counts, which is the last one in the log. (Transactions are an exception: lesson 08.)
# 2. A record without a value is a [**tombstone**](../docs/handbook/glossary.md#tombstone): it deletes its key.
# 3. The key begins with the [**record type**](../docs/handbook/glossary.md#record-type), so that a reader knows what follows: 1 is an offset, 2 is a group.
# 4. The value begins with its [**version**](../docs/handbook/glossary.md#value-version), because the fields have changed over the years.

# %% [markdown]
# ## A commit in hex
#
# This is a commit of the group `billing` for the topic `orders`. Each line shows a position (in decimal), 16 bytes (in hex), and these bytes as text:

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
# The bytes contain no field names, so you count from the left, as a broker does. The key has the record type (`00 01`), the group, the topic and the partition. These are the fields of the value:
#
# | from byte | length | field | in this record |
# |---|---|---|---|
# | 0 | 2 | value version | `00 04`: 4 |
# | 2 | 8 | committed offset | `00 … 23`: 35 |
# | 10 | 4 | leader epoch | `00 00 00 00`: 0 |
# | 14 | 1 + 6 | metadata, with its length | `07`, then `till 1` |
# | 21 | 8 | commit timestamp | milliseconds since 1970 |
# | 29 | 19 | tagged fields | the topic id |
#
# - **Numbers** are *big-endian*: the high byte comes first. Hex 23 is 2 · 16 + 3 = 35.
# - **Metadata** is a text that a client may store with its offset. The byte before the text is the length plus one: `07` announces six bytes of text, and `00` means that there is no text (null). It is a *uvarint*: up to 127, it takes one byte (lesson 03).
# - **Leader epoch**: a partition's [*leader*](../docs/handbook/glossary.md#leader-of-a-partition) is the broker that accepts its writes, and each new leader raises the partition's [*leader epoch*](../docs/handbook/glossary.md#leader-epoch). This one belongs to `orders-0`, which the group reads (lesson 05).
# - **Tagged fields** are optional fields at the end. Here `01` means that one such field follows, `00` is its number (the tag), and `10`, which is hex for 16, its length. Tag 0 is the id of the topic: a topic that is deleted and created again has the same name, but another id.

# %% [markdown]
# What happens if one byte is wrong? In the figure, the length of the metadata is `08` instead of `07`, so every later field begins one byte too late. Go on with the arrows, and compare the fields with the table. Then choose other bytes in the list *changed byte*; *none* is the record as it was written.<span class="live-only"> You can also type a change, for example `key 22=01`.</span> Which changes does a reader notice?

# %%
# figure
course.RecordRibbon(key, value)

# %% [markdown]
# <details><summary>Which changes does a reader notice?</summary>
#
# Of the changes in the list, it notices only those of the version. If the version is 5, the reader refuses the record, because it does not know this version. If it is 3, the reader takes two bytes, `07 74`, for the length of the metadata, and finds fewer than 1,908 bytes. But if a byte of the offset or of the metadata's length is changed, the reader gets wrong values without an error, because nothing in a record protects its bytes. The file around the record does (lesson 03).
#
# </details>
#
# ## Exercise: a commit on paper
#
# This is the value of another commit. Its leader epoch, `ff ff ff ff`, is −1 and means *unknown*. The last byte, `00`, says that there are no tagged fields:

# %%
course.hexdump(course.read_record(log, 33)[1])

# %% [markdown]
# Which offset does the value contain, and how many bytes does the metadata have? Write a pair, for example `(80, 3)`.

# %%
# exercise: on_paper
on_paper = ...

# %%
course.check("on_paper", on_paper)
# course.hint("on_paper")

# %% [markdown]
# ## Null and empty texts
#
# A text can be empty or missing (null), and its length has one of two forms:
#
# | form | the length before the text | `billing` | empty text | null |
# |---|---|---|---|---|
# | in values of version 4 | a uvarint: the length plus one | `08` | `01` | `00` |
# | in all keys, and in values up to version 3 | two bytes: the length | `00 07` | `00 00` | `ff ff`, which is −1 |
#
# `course.read_string` reads the form with two bytes, and returns the text and the position after it:

# %%
for data in [b"\x00\x07billing", b"\x00\x00", b"\xff\xff"]:
    print(f"{data.hex(' '):<28} {course.read_string(data, 0)}")

# %% [markdown]
# <details><summary>Null metadata, and an empty group id</summary>
#
# If a client sends null as metadata, the broker stores an empty text. A commit with an empty group id is stored, too, as an offset of the group `""`. But this group cannot have members: their requests get `INVALID_GROUP_ID`.
#
# </details>

# %% [markdown]
# ## Tombstones
#
# A broker only appends to a log, so a deletion is a record, too: the key **without a value**. When the group `mailer` was deleted, the broker wrote four tombstones, three for its offsets and one for the group:

# %%
mailer = course.find_data("harbour/4.3.1/__consumer_offsets-12")
for offset in range(6, 10):
    record = kg.decode(*course.read_record(mailer, offset))
    what = f"{record.key.topic}-{record.key.partition}" if record.type == 1 else "the group"
    print(f"offset {offset}: type {record.type}, {record.key.group}, {what}: {record.value or 'no value'}")

# %% [markdown]
# ## A log is a list of changes
#
# A record with a value is an *upsert*: it inserts or updates its key. So the state of a group is the result of its upserts and tombstones, in order. If you stop reading earlier, you get the state of that moment.
#
# Here, we stop the life of `mailer` after the join (2 records), the commits (5), the leave (6) and the deletion (10):

# %%
for records in [2, 5, 6, 10]:
    group = kg.load(mailer, until=records).get("mailer")
    state = f"{group.state.value}, members: {len(group.members)}, offsets: {len(group.offsets)}" if group else "no group"
    print(f"after {records:>2} records: {state}")

# %% [markdown]
# ## Exercise: decode a commit
#
# Write `decode_commit(key, value)`. It returns the tuple `(group, topic, partition, offset)`. Use `course.read_string` for the texts, and this for the numbers:
#
# ```python
# int.from_bytes(b"\x00\x07", "big", signed=True)     # 7
# ```
#
# If `value` is `None`, the record is a tombstone, and the offset is `None`.

# %%
# exercise: decode_commit
def decode_commit(key, value):
    ...

# %%
course.check("decode_commit", decode_commit)
# course.hint("decode_commit")

# %% [markdown]
# ## The record of a group
#
# At the end of each rebalance, the broker writes the members of the group into a record of type 2, so that the next broker knows them. To read this record, you need these words:
#
# - The [**subscription**](../docs/handbook/glossary.md#subscription) of a member names the topics that it wants to read. Its [**assignment**](../docs/handbook/glossary.md#assignment) contains the partitions that it must read.
# - The [**generation**](../docs/handbook/glossary.md#generation) is the number of the rebalance. Each rebalance replaces all assignments.
# - The [**leader of the group**](../docs/handbook/glossary.md#leader-of-a-group) is one of the members, not a broker. It computes all assignments with a rule, the [*assignor*](../docs/handbook/glossary.md#assignor), for example `range`.
#
# This is the last group record of `billing`:

# %%
group_key, group_value = course.read_record(log, 36)
group = kg.decode(group_key, group_value).value

print(f"generation {group.generation}, assignor {group.protocol}")
print(f"leader {group.leader}")
for member in group.members:
    subscription = kg.decode_subscription(member.subscription).message
    assignment = kg.decode_assignment(member.assignment).message
    print(f"\nmember {member.member_id}")
    print("    subscription:", ", ".join(subscription.topics))
    for topic in assignment.assigned_partitions:
        print(f"    assignment:   {topic.topic}, partitions {', '.join(map(str, topic.partitions))}")

# %% [markdown]
# The clients encode subscriptions and assignments, and the broker stores these bytes as they are ([all fields](../docs/handbook/records-classic.md#type-2-groupmetadata)).
#
# Records of type 2 belong to [*classic groups*](../docs/handbook/glossary.md#classic-group), which are the default in 4.x, too. Lesson 13 has the other types of groups and their records, 3 to 23.
#
# ## What the record does not contain
#
# A group is in a *state*, for example `Stable` or `Empty` (lesson 06). The record contains the time at which the state last changed, but **not the state itself**. So a broker that reads the record after a crash looks at the members: a group with members is `Stable`, and a group without members is `Empty`. Before the crash, the group may have been in the middle of a rebalance, but the log has only the members of the last finished one.

# %% [markdown]
# ## The versions of a commit
#
# A record stays in the log until a newer record replaces it. So a broker must be able to read every version of a commit's value:
#
# | value version | written by | the fields after the version |
# |---|---|---|
# | 0 | Kafka 0.8.2, with the record type 0, which later releases still read | offset, metadata, commit timestamp |
# | 1 | 0.9 to 2.0 | offset, metadata, commit timestamp, *expire timestamp* (the offset may be deleted after this time) |
# | 2 | no release | |
# | 3 | 2.1 to 4.0 | offset, leader epoch, metadata, commit timestamp |
# | 4 | 4.1 and later | the same, with a uvarint before the metadata; then tagged fields |
#
# A cluster is upgraded one broker at a time, so a broker may have to load what a newer one has written. This works, because 3.9 and 4.0 can read version 4, although they do not write it ([all fields](../docs/handbook/records-offsets.md)).

# %% [markdown]
# ## One exception: a commit with a retention time
#
# An old client can send a *retention time* with its commit: how long the broker must keep the offset. The broker adds this time to the time of the commit, and stores the sum as the expire timestamp. The group `stock-audit` sent such a commit to the 4.3.1 broker, with 3 seconds.
#
# *Predict*: which value version did the broker write for this commit?

# %%
# prediction
version_of_stock_audit = ...

# %%
audit = kg.decode(*course.read_record(course.find_data("harbour/4.3.1/__consumer_offsets-22"), 0))

course.reveal("version_of_stock_audit", version_of_stock_audit, audit.value_version)

# %% [markdown]
# <details><summary>Why?</summary>
#
# Only version 1 has a field for an expire timestamp. So if a commit has a retention time, every release since 0.9 writes version 1, and so does 4.3.1. Version 1 has no topic id.
#
# </details>
#
# ## A reader must know the version
#
# When Kafka 4.1 began to write version 4, some monitoring tools knew only the versions up to 3. Each row of the figure shows the same commit, written by a different release. You choose which version the **reader** expects; begin with 3. Which reader gets wrong values **without** an error?

# %%
# figure
course.VersionOverlay()

# %% [markdown]
# <details><summary>Which reader gets wrong values?</summary>
#
# The reader that expects version 3 refuses the record of version 4: it takes `07 74`, which is 1908, as the length of the metadata, and the record has fewer bytes.
#
# The reader that expects version 1 gets wrong values from the records of versions 3 and 4, without an error. After the offset, this reader expects the length of the metadata, but the records have the leader epoch there. The reader takes its first two bytes, `00 00`, for the length, so it believes that there is no metadata. Then it takes the next 16 bytes for the two timestamps. There are enough bytes, so nothing fails.
#
# </details>
#
# ## What stops a load
#
# A broker that takes over a partition of `__consumer_offsets` [*loads*](../docs/handbook/glossary.md#load) it: it reads all records, in order. What does it do with a record that it cannot read?
#
# | the record | what the broker does | why |
# |---|---|---|
# | has a *type* that the broker does not know | skips it | The type belongs to a feature that this broker does not have. |
# | has a known type, and a value of an unknown *version* | **stops the load** | A broker that skipped this record could answer with an outdated position. |
# | has a known type, and a value of zero bytes (not a tombstone: it has no value) | **stops the load** | the same |
# | has a known type, and a null where a text must be | **stops the load** | the same |
#
# A broker never writes a value of zero bytes or such a null, but a faulty program with the right to write to the topic can. Because of one unreadable record, a 4.x broker refuses every request about **all** groups of the partition (lesson 11).

# %% [markdown]
# ## Exercise for later: three records, one broker
#
# A broker of Kafka 4.3.1 loads three partitions. Each partition has one of these records:
#
# - **A**: an offset of `billing` with key type 0. The value has version 0.
# - **B**: a record with key type 99, which no release writes.
# - **C**: an offset of `billing` with key type 1. The value has version 5.
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
# Kafka has a tool for the records of a running cluster, and one for the files of a broker:
#
# ```
# kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic __consumer_offsets --from-beginning \
#     --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
#
# kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log
# ```
#
# For group records, the formatter is `GroupMetadataMessageFormatter`. Both tools print JSON ([examples](../docs/releases.md#what-kafkas-tools-print)); a tombstone has `"value":null` in the first one, and `<DELETE>` in the second.
#
# ## Where 3.9 differs
#
# The two coordinators have the same records of classic groups, but 3.9 and 4.0 write the value of a commit in version 3.
#
# <details><summary>Other versions</summary>
#
# Up to 3.9, `inter.broker.protocol.version` could also make a broker write older versions; 4.x has no such choice. Before 3.4.1, a record of an unknown type stopped the load, too.
#
# </details>
#
# ## Check yourself
#
# <details><summary>Why is a group with members always Stable after a load?</summary>
#
# The group record stores the members, but neither the state nor a rebalance in progress.
#
# </details>
#
# <details><summary>What do the subscription and the assignment of a member contain?</summary>
#
# The topics that it wants to read, and the partitions that it must read.
#
# </details>
#
# <details><summary>How does Kafka's console consumer show that an offset was deleted?</summary>
#
# It prints the tombstone: the key, with `"value":null`. (Up to 3.8, the line ended with `NULL`.)
#
# </details>
#
# <details><summary>A topic was deleted and created again with the same name. Does a commit's record say which of the two it is about?</summary>
#
# Yes, if the record has version 4, by its topic id. A commit with a retention time has version 1, which has no topic id. Commits in a transaction (lesson 08) have no topic id either, although they have version 4. From 4.4 on, they have one.
#
# </details>
#
# <details><summary>A client commits null metadata. Does this record stop the next load?</summary>
#
# No. A null would stop it, so the broker stores an empty text instead.
#
# </details>
#
# <details><summary>Can a group have offsets if it never had a member?</summary>
#
# Yes, because a client can commit without joining the group. Then the log has only its offsets, and no group record. A group with an empty id is always like this.
#
# </details>
#
# ## In five lines
#
# - The key names an offset or a group, and only the newest record of a key counts.
# - A key begins with its type and a value with its version.
# - An unknown version stops a load, because the record may matter; an unknown type is skipped.
# - A group record stores members and assignments, but neither the state nor a rebalance in progress.
# - A record without a value is a tombstone, so the state is the result of all upserts and tombstones in order.
#
# ## For your consumer
#
# Value versions do not concern a consumer, because it asks the broker for its offset and never reads the topic. Your own tools can ask, too, in Java with `Admin.listConsumerGroupOffsets`.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A monitor of LAG shows nothing since the upgrade to 4.1 | `kafkagroups stats PATH --by type` | If the command counts records of value version 4, the monitor reads the topic itself, and only knows older versions | Update the monitor to a release that supports Kafka 4.1, and until then ask the brokers (lesson 00). The groups are fine: do not delete them. A downgrade does not help, because the records stay |
| A broker answers `NOT_COORDINATOR` for all groups of one partition, again and again | `kafkagroups check PATH` | It names the record that stops the load | Do not move the leadership: the next leader has the same record, so its load fails, too. For the [repair](../docs/operator.md#1-a-partition-does-not-load), you stop all brokers that have a replica; there, you also find a way without a stop |
#
# ## What we left out, and why
#
# The [other record types](../docs/handbook/records.md). The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [02 · Partitions](02_partitions.ipynb): in which partition a group's records are.
