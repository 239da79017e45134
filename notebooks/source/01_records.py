# %% [markdown]
# # 01 · Records
#
# **What exactly does Kafka store for a commit, and for a group?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | read a commit byte by byte; say what a group record contains; recognise a tombstone; say which records a broker refuses | {{minutes}} | no |
#
# **Which Kafka:** records that a 4.3.1 broker wrote. A broker of 3.9 writes the same records, but commits in an older version.
#
# ![A key has type, group, topic and partition. A value has version, offset and more. A record without a value is a tombstone.](pictures/01.svg)

# %% [markdown]
# You will rarely read such bytes, but they explain three surprises: a monitor that shows nothing after an upgrade, a broker that cannot take over, and a group that is suddenly Stable. Four things to hold on to:
#
# 1. Each record has a [**key**](../docs/handbook/glossary.md#key), which says what the record is about, and a [**value**](../docs/handbook/glossary.md#value), which says what is true of it now. If several records have the same key, only the newest one counts. (Lesson 08 has the one exception, transactions.)
# 2. A record without a value is a [**tombstone**](../docs/handbook/glossary.md#tombstone): it deletes its key.
# 3. The key begins with the [**record type**](../docs/handbook/glossary.md#record-type), so that a reader knows what follows: 1 is an offset, 2 is a group.
# 4. The value begins with its [**version**](../docs/handbook/glossary.md#value-version), because the fields have changed over the years.

# %% [markdown]
# ## A commit in hex
#
# The group `billing` committed its position in the topic `orders`, and a broker of Kafka 4.3.1 wrote this record to its disk. Each line shows a position, 16 bytes, and the same bytes as text:

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
# Where is the committed offset? The bytes contain no field names, so you find it as a broker does, by counting from the left:
#
# - **Numbers** are *big-endian*: the high byte comes first. The offset ends with hex 23, so it is 2 · 16 + 3 = 35.
# - **Metadata** is a text that a client may store with its offset. A number stands before the text: 0 means null, and any other number is the length of the text plus one. So `07` means six bytes, and `01` means an empty text. The number is a *uvarint*, which takes one byte up to 127 and more bytes above (lesson 03).
# - The [**leader epoch**](../docs/handbook/glossary.md#leader-epoch) is about `orders-0`, which the group reads. Each partition has a [**leader**](../docs/handbook/glossary.md#leader-of-a-partition), the broker that accepts its writes, and the leader epoch is a counter that rises with each new leader. If records were lost in such a change, a consumer can notice it by this number (lesson 05).
# - **Tagged fields** are optional fields at the end, each with its own number, the tag. Tag 0 is the id of the topic.

# %% [markdown]
# Go through the fields with *next*, or click a block. Then choose a *changed byte*<span class="live-only">, or type one, for example `value 14=08`</span>, and watch which fields a decoder now gets wrong: a changed length shifts everything that follows it.

# %%
# figure
course.RecordRibbon(key, value)

# %% [markdown]
# ## Exercise: a commit on paper
#
# This is the value of another commit of the 4.3.1 broker:

# %%
course.hexdump(course.read_record(log, 33)[1])

# %% [markdown]
# Which offset does the value contain, and how many bytes does the metadata have? Write a pair, for example `(12, 34)`.

# %%
# exercise: on_paper
on_paper = ...

# %%
course.check("on_paper", on_paper)
# course.hint("on_paper")

# %% [markdown]
# ## Null and empty texts
#
# In keys, and in values up to version 3, texts are stored in an older form: two bytes contain the length, *not* plus one, and null is `ff ff`, which is −1. `course.read_string` reads this form and returns the text, and the position after it:

# %%
for data in [b"\x00\x07billing", b"\x00\x00", b"\xff\xff"]:
    print(f"{data.hex(' '):<28} {course.read_string(data, 0)}")

# %% [markdown]
# Null and an empty text are different bytes, and a client can send both:
#
# - **Null metadata** is stored as an empty text, so no null is ever written there.
# - **An empty group id** is enough for commits: the broker stores offsets for the group `""`. But no consumer can become a *member* of this group; the broker answers `INVALID_GROUP_ID`.

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
# A record stays in the log until a newer one replaces it, perhaps for years. So a broker must be able to read all versions, although it writes only one or two of them:
#
# | value version | written by | what changed |
# |---|---|---|
# | 0 | Kafka 0.8.2 | offset, metadata, commit timestamp |
# | 1 | 0.9 to 2.0 | one more field: the *expire timestamp*, after which the offset may be deleted |
# | 3 | 2.1 to 4.0 | no expire timestamp; a leader epoch after the offset |
# | 4 | 4.1 and later | tagged fields for the topic id; lengths are uvarints |
#
# A cluster is upgraded one broker at a time, and meanwhile the old brokers must understand what the upgraded ones write. Therefore, up to 3.9, the setting `inter.broker.protocol.version` told upgraded brokers to go on with the old version. The handbook has [all fields](../docs/handbook/records-offsets.md).
#
# A topic that is deleted and created again has the same name but another id, so only the id says which of the two a commit is about. Commits in a *transaction*, a set of writes that become valid together (lesson 03), have it only since 4.4.
#
# An old client can still send a *retention time* with its commit, after which the offset expires. The group `stock-audit` sent a retention time of 3 seconds to the 4.3.1 broker.
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
# Only version 1 has a field for an expire timestamp, so every release since 0.9 writes it for such a commit. Version 1 has no tagged fields, so the commit has no topic id.
#
# </details>
#
# ## A reader must know the version
#
# When Kafka 4.1 began to write version 4, some monitoring tools knew only the versions up to 3. Choose a reader in the figure, first *expects version 3*. Which reader gets wrong values **without** an error?

# %%
# figure
course.VersionOverlay()

# %% [markdown]
# <details><summary>Which reader gets wrong values?</summary>
#
# A reader that expects version 3 fails at version 4: it takes `07 74`, which is 1908, as the length of the metadata.
#
# A reader that expects version 1 gets wrong values from versions 3 and 4, without an error. It takes the first two bytes of the leader epoch, which are zeros, as the length of the metadata, and believes that the metadata is empty. Then it reads two timestamps. There are enough bytes left for them, so nothing tells the reader that it is wrong.
#
# </details>
#
# ## What stops a load
#
# A broker that takes over a partition of `__consumer_offsets` [*loads*](../docs/handbook/glossary.md#load) it: it reads all its records in order. What does it do with a record that it cannot read?
#
# It **skips** a record whose *type* it does not know, because an unknown type belongs to a feature that this broker does not have. Types 3 to 23, for example, belong to the group protocols of lesson 13. The record stays in the log for a broker that knows it.
#
# It **stops the load** at a record of a known type that it cannot read, because without this record it could answer with an outdated position. Examples are:
#
# - a value whose version the broker does not know
# - a value of zero bytes (a tombstone has no value at all)
# - a null where a text must be, for example null metadata
#
# One such record takes **all** groups of its partition away: a 4.x broker refuses every request about them. Lesson 11 shows such a load in 4.x and 3.9, and a repair.
#
# Offsets also have an older key, of type 0, which Kafka 0.8.2 wrote. Later releases still read it, together with the value version of its time, 0.
#
# ## Exercise: three records, one broker
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
# ## The record of a group
#
# If a broker dies, the next one must know the members of each group, because otherwise all consumers would have to join again. The members change in a *rebalance*, which divides the partitions among them, so the broker writes a record of type 2 at the end of each rebalance. It uses these words:
#
# - The [**subscription**](../docs/handbook/glossary.md#subscription) of a member names the topics that it wants to read. Its [**assignment**](../docs/handbook/glossary.md#assignment) contains the partitions that it must read.
# - The [**generation**](../docs/handbook/glossary.md#generation) is the number of the rebalance. Each one replaces all assignments.
# - The [**leader of the group**](../docs/handbook/glossary.md#leader-of-a-group) is one of the members, not a broker. It computes all assignments with a rule, the [*assignor*](../docs/handbook/glossary.md#assignor), for example `range`.
#
# This is the last group record of `billing`:

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
# The *member id* is unique, whereas many clients may share a *client id*. An *instance id* is for members that keep their place over a restart (lesson 07), and lesson 06 explains the timeouts. The *protocol type* of consumers is `consumer`.
#
# Subscription and assignment are bytes of the clients: the broker stores them, but only the leader of the group computes with them. The handbook has [all fields](../docs/handbook/records-classic.md#type-2-groupmetadata), and which value version added each of them.
#
# ## What the record does not contain
#
# The record stores *when* the group entered its state, but **not the state**. It does not show a rebalance in progress either, because the broker writes only the result of a rebalance. So after a load, a group with members is `Stable`, and a group without members is `Empty`.
#
# ## Tombstones
#
# A broker only appends to a log, so a deletion is a record, too: the key **without a value**. When an administrator deleted the group `mailer`, the broker wrote four tombstones:

# %%
mailer = course.find_data("harbour/4.3.1/__consumer_offsets-12")
for offset in range(6, 10):
    record = kg.decode(*course.read_record(mailer, offset))
    what = f"{record.key.topic}-{record.key.partition}" if record.type == 1 else "the group"
    print(f"offset {offset}: type {record.type}, {record.key.group}, {what}: {record.value or 'no value'}")

# %% [markdown]
# ## A log is a list of changes
#
# A record with a value is an *upsert*: it inserts or updates its key. So the state of a group is the result of its upserts and tombstones in order, and if you stop earlier, you get the state of that moment. Here is the life of `mailer`. A load reads whole *batches* (lesson 03): records 2 to 4 are one batch, and 6 to 9 another.

# %%
for records in [2, 5, 6, 10]:
    group = kg.load(mailer, until=records).get("mailer")
    state = f"{group.state.value}, members: {len(group.members)}, offsets: {len(group.offsets)}" if group else "no group"
    print(f"after {records:>2} records: {state}")

# %% [markdown]
# ## Read the topic yourself
#
# Two tools of Kafka decode these records: the console consumer on a running cluster (for groups, with `GroupMetadataMessageFormatter`), and the dump tool on the files of a broker. Both print JSON today, in which a tombstone has no value:
#
# ```
# kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic __consumer_offsets --from-beginning \
#     --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
#
# kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log
# ```
#
# [What Kafka's tools print](../docs/releases.md#what-kafkas-tools-print) shows the output of each release.
#
# ## Where 3.9 differs
#
# Kafka 4.0 replaced the *classic coordinator*, the part of a broker that manages groups up to 3.9, by the *new coordinator*. Both read and write the same records. Only the value version of a commit differs: 3.9 writes version 3, and so does 4.0, but 4.1 and later write version 4. Before 3.4.1, a record of an unknown type stopped the load, too.
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
# <details><summary>How does Kafka's console consumer show a tombstone?</summary>
#
# In JSON, `value` is `null`. (Up to 3.8, the line ended with `NULL`.)
#
# </details>
#
# <details><summary>Which commits does a 4.3.1 broker store with a topic id?</summary>
#
# Only commits outside of transactions and without a retention time. Commits in transactions have a topic id since 4.4, and commits with a retention time never.
#
# </details>
#
# <details><summary>A client commits null metadata. What does the broker store?</summary>
#
# An empty text. A record with null metadata would stop the load.
#
# </details>
#
# <details><summary>What can a client do with an empty group id, and what can it not do?</summary>
#
# It can commit offsets, but it cannot become a member.
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
# - `commitSync(offsets)` can store metadata with each offset, by default up to a length of 4,096 (lesson 07).
# - Do not read `__consumer_offsets` in your own code. `Admin.listConsumerGroupOffsets` asks the broker for the offsets, so it does not depend on value versions.
#
# ## At 3 am
#
# PATH is a copy of a folder such as `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A monitor of consumer lag (how many records a group is behind) shows nothing since the upgrade to 4.1 | `kafkagroups stats PATH --by type` | The monitor reads the topic itself. The command counts the records of value version 4, which the monitor does not understand | Update the monitor, or let it use `Admin.listConsumerGroupOffsets` |
#
# ## What we left out, and why
#
# The fields of the [other record types](../docs/handbook/records.md). The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [02 · Partitions](02_partitions.ipynb): in which partition a group's records are.
