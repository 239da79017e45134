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
# 1. Each record has a [**key**](../docs/handbook/glossary.md#key) and a [**value**](../docs/handbook/glossary.md#value). If several records have the same key, the newest value is valid.
# 2. A record without a value is a [**tombstone**](../docs/handbook/glossary.md#tombstone): it deletes its key.
# 3. The key begins with the [**record type**](../docs/handbook/glossary.md#record-type): 1 is an offset, 2 is a group.
# 4. The value begins with its [**version**](../docs/handbook/glossary.md#value-version), which decides the fields that follow.

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
# - **Numbers** are *big-endian*: the high byte comes first. The offset ends with hex 23, and 2 · 16 + 3 = 35.
# - A **uvarint** is a number that takes one byte up to 127, and more bytes above 127 (lesson 03).
# - **Metadata** is a text that a client stores with its offset. Its length is a uvarint, **plus one**. So `07` means six bytes, and `00` means null.
# - The [**leader of a partition**](../docs/handbook/glossary.md#leader-of-a-partition) is the broker that accepts its writes. The [**leader epoch**](../docs/handbook/glossary.md#leader-epoch) is a counter. It rises when another broker becomes the leader of `orders-0`.
# - **Tagged fields** are optional fields at the end. The field with the tag 0 is the *topic id* (below).

# %% [markdown]
# Go through the fields with *next*, or click a block.
#
# Then choose a *changed byte*<span class="live-only">, or type a change, for example `value 15=54`</span>. What does a reader believe now?

# %%
# figure
course.RecordRibbon(key, value)

# %% [markdown]
# <details><summary>How many bytes does each field have?</summary>
#
# | field | bytes in the key |
# |---|---|
# | type | 2 |
# | group, topic | 2 for the length, then the text |
# | partition | 4 |
#
# | field | bytes in a value of version 4 |
# |---|---|
# | version | 2 |
# | offset | 8 |
# | leader epoch | 4 |
# | metadata | a uvarint for the length, then the text |
# | commit timestamp | 8 |
# | tagged fields | a uvarint for their number. Each field has its tag, its length and its bytes |
#
# </details>
#
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
# In keys, and in values up to version 3, a text begins with **two bytes** that contain its length (not plus one). Null is `ff ff`, which is −1. `course.read_string` reads this form. It returns the text and the position after it:

# %%
for data in [b"\x00\x07billing", b"\x00\x00", b"\xff\xff"]:
    print(f"{data.hex(' '):<28} {course.read_string(data, 0)}")

# %% [markdown]
# So null and an empty text are different bytes. A client can send both:
#
# - **Null metadata**: the broker stores an empty text.
# - **An empty group id**: a broker accepts commits for the group `""`. If a consumer asks to become a member, the broker answers `INVALID_GROUP_ID`.

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
# The layout of the value has changed four times. This table is about *plain* commits: outside of transactions, and without a *retention time* (below):
#
# | value version | Kafka release | fields |
# |---|---|---|
# | 0 | 0.8.2 | offset, metadata, commit timestamp |
# | 1 | 0.9 to 2.0 | one more field: the *expire timestamp*. After this time, the offset may be deleted |
# | 2 | no release by default | the fields of version 0 again |
# | 3 | 2.1 to 4.0 | the fields of version 0, and a leader epoch after the offset |
# | 4 | 4.1 and later | the fields of version 3, and tagged fields. Lengths are uvarints |
#
# <details><summary>Other versions</summary>
#
# Up to 3.9, the setting `inter.broker.protocol.version` can make a broker write an older version. So during an upgrade, the older brokers can still read the records. Kafka 4.x has no setting of this kind for commits.
#
# The last table of `kafkagroups stats PATH` says which releases can have written the records of each partition.
#
# </details>

# %% [markdown]
# An old client can send a *retention time* with its commit. After this time, the offset expires. The group `stock-audit` sent a retention time of 3 seconds to the 4.3.1 broker.
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
# Only version 1 has a field for an expire timestamp. So for a commit with a retention time, every release since 0.9 writes version 1.
#
# </details>

# %% [markdown]
# ## Which commits have a topic id
#
# If a topic is deleted and created again, it has the same name and another id. So the id in a commit says which of the two topics is meant. Not every commit has an id (lesson 03 explains *transactions*):

# %%
records = [(9, 38, "plain commit"), (9, 33, "in a transaction"), (22, 0, "with a retention time")]
for folder, offset, kind in records:
    record = kg.decode(*course.read_record(course.find_data(f"harbour/4.3.1/__consumer_offsets-{folder}"), offset))
    topic_id = record.value.topic_id.strip("A") or "none"     # an id of zero bytes prints as A's
    print(f"{kind:<22} topic id {topic_id}")

# %% [markdown]
# Plain commits have a topic id since Kafka 4.1, and commits in transactions since 4.4. Commits with a retention time never have one.

# %% [markdown]
# ## A reader must know the version
#
# If a reader assumes the wrong version, it reads the wrong fields.
#
# Some monitoring tools knew only the versions 0 to 3 when Kafka 4.1 wrote version 4. Choose a reader in the figure, first *expects version 3*. Which reader gets wrong values **without** an error?

# %%
# figure
course.VersionOverlay()

# %% [markdown]
# <details><summary>Which reader gets wrong values?</summary>
#
# A reader that expects version 3 fails at version 4: it takes `07 74`, which is 1908, as the length of the metadata. A reader that expects version 1 gets wrong values from versions 3 and 4, **without an error**.
#
# </details>

# %% [markdown]
# ## What stops a load
#
# After a failover, the next broker [*loads*](../docs/handbook/glossary.md#load) the partition: it reads all records. Some records **stop the load**, for example these (lesson 11 has more):
#
# - a value whose version the broker does not know
# - a value of zero bytes (a tombstone has no value at all)
# - a null where a text must be, for example null metadata (no broker writes this)
#
# Kafka 4.x then answers all requests for **all** groups of this partition with `NOT_COORDINATOR`. Lesson 11 shows the classic coordinator.

# %% [markdown]
# ## Two key types for offsets
#
# Kafka 0.8.2 wrote offsets with key type 0. All later releases write key type 1. Both keys have the same fields, and both set the committed offset of a partition.
#
# | key type | a broker up to 4.0 accepts | a broker since 4.1 accepts |
# |---|---|---|
# | 1 | every value version that it knows | every value version that it knows |
# | 0 | every value version that it knows | value version 0 |
#
# Any other version **stops the load**.

# %% [markdown]
# ## Other record types
#
# The newest releases have 22 record types: the numbers 0 to 23 without 9 and 18. Types 3 to 23 belong to the new group protocols (lesson 13).
#
# An unknown **type** does not stop the load: since Kafka 3.4.1, a broker skips this record.

# %% [markdown]
# ## The words of a group
#
# A record of type 2 describes a group and its members:
#
# - The [**subscription**](../docs/handbook/glossary.md#subscription) of a member: the topics that it wants to read.
# - The [**assignment**](../docs/handbook/glossary.md#assignment) of a member: the partitions that it must read.
# - A *rebalance* replaces the assignments. Each rebalance has a number, the [**generation**](../docs/handbook/glossary.md#generation).
# - The [**leader of the group**](../docs/handbook/glossary.md#leader-of-a-group) is a member, not a broker. It computes the assignments with a rule, the [*assignor*](../docs/handbook/glossary.md#assignor), for example `range`.

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
# The *protocol type* of consumers is `consumer`. Lesson 06 explains the timeouts, and lesson 07 the *instance id*.
#
# <details><summary>Where do subscription and assignment come from?</summary>
#
# Each member sends its subscription in a JoinGroup request (lesson 06). The leader of the group sends all assignments in a SyncGroup request. The broker forwards the bytes of both, and stores them. The coordinator does not use their content in a rebalance. Only the leader of the group uses it. The bytes can contain *user data* for the assignor. A subscription can also contain the *owned partitions*, which the member had before.
#
# Since Kafka 2.4, a broker also reads the topics in a subscription. It keeps the offsets of topics that a member reads (lesson 09).
#
# </details>
#
# <details><summary>A subscription, byte by byte</summary>
#
# These are the 38 bytes of the subscription of `billing-1`:
#
# ```
# 00 03                                                    version 3
# 00 00 00 02                                              two topics
# 00 06 6f 72 64 65 72 73                                  orders
# 00 08 70 61 79 6d 65 6e 74 73                            payments
# ff ff ff ff                                              user data: null
# 00 00 00 00                                              owned partitions: none
# ff ff ff ff                                              generation of the owned partitions: none
# ff ff                                                    rack: null
# ```
#
# The length of the user data has four bytes: −1 is null, and 0 is empty. The owned partitions exist since version 1, their generation since version 2, and the rack since version 3.
#
# </details>

# %% [markdown]
# ## What the record does not contain
#
# The record stores the time when the group entered its state, but **not the state**. A rebalance in progress is not in the record, either. So after a load, a group with members is `Stable`, and a group without members is `Empty`.

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
# A record with a value is an *upsert*: it inserts or updates its key. So the state of a group is the result of its upserts and tombstones, in order.
#
# If you stop earlier, you get the state of that moment. A load reads whole *batches* (lesson 03). In the life of `mailer`, records 2 to 4 are one batch, and 6 to 9 another:

# %%
for records in [2, 5, 6, 10]:
    group = kg.load(mailer, until=records).get("mailer")
    state = f"{group.state.value}, members: {len(group.members)}, offsets: {len(group.offsets)}" if group else "no group"
    print(f"after {records:>2} records: {state}")

# %% [markdown]
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
# ## Read the topic yourself
#
# Two tools of Kafka decode these records. New releases print JSON.
#
# <details><summary>The commands</summary>
#
# On a running cluster:
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
# Since 3.8, this tool also decodes the subscriptions and assignments of a group record. The console consumer prints them as base64.
#
# </details>
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
# | the value version of a plain commit | 3 in Kafka 4.0, then 4 | 3 since Kafka 2.1 |
# | a record of an unknown type | the broker skips it | the broker skips it since 3.4.1; older releases stop the load |
#
# <details><summary>Other versions: group records and ZooKeeper</summary>
#
# The value of a group record has its own versions:
#
# | value version | releases that write it | what it adds |
# |---|---|---|
# | 0 | Kafka 0.9 and 0.10.0 | |
# | 1 | Kafka 0.10.1 to 2.0 | the rebalance timeout |
# | 2 | Kafka 2.1 and 2.2 | the time when the group entered its state |
# | 3 | Kafka 2.3 and later | the instance id of a static member (lesson 07) |
# | 4 | no release by default | lengths are uvarints |
#
# Before 0.8.2, offsets were in ZooKeeper. If a client sends the oldest commit request, version 0, Kafka 1.0.1 still stores the offset in ZooKeeper.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>Why is a group with members always Stable after a load?</summary>
#
# The group record stores members, generation, leader and assignor, but not the state. A rebalance in progress is not in the record, either.
#
# </details>
#
# <details><summary>What do the subscription and the assignment of a member contain?</summary>
#
# The subscription contains the topics that the member wants to read. The assignment contains the partitions that it must read.
#
# </details>
#
# <details><summary>How does Kafka's console consumer show a tombstone?</summary>
#
# Up to Kafka 3.8, the line ends with `NULL`. In the JSON of later versions, `value` is `null`.
#
# </details>
#
# <details><summary>Which commits does a 4.3.1 broker store with a topic id?</summary>
#
# Plain commits, in value version 4. Commits in transactions have none before 4.4. Commits with a retention time never have one.
#
# </details>
#
# <details><summary>A client commits null metadata. What does the broker store?</summary>
#
# An empty text. No broker writes null metadata, and a record with it would stop the load.
#
# </details>
#
# <details><summary>What can a client do with an empty group id, and what can it not do?</summary>
#
# It can commit offsets for this group. It cannot become a member: the broker answers `INVALID_GROUP_ID`.
#
# </details>
#
# ## In five lines
#
# - The key names an offset or a group. The newest value of a key is valid.
# - A key begins with its type, and a value begins with its version.
# - An unknown version stops a load. An unknown type does not stop it.
# - Since Kafka 4.1, a plain commit has value version 4, with a topic id.
# - A record without a value is a tombstone. It deletes its key.

# %% [markdown]
# ## For your consumer
#
# - `commitSync(offsets)` can store metadata with each offset. If a text is longer than 4,096 UTF-16 units (lesson 07; `offset.metadata.max.bytes`), the broker answers `OFFSET_METADATA_TOO_LARGE`.
# - Do not read `__consumer_offsets` in your own code. `Admin.listConsumerGroupOffsets` returns the offsets and does not depend on value versions.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of a folder such as `__consumer_offsets-9` (lesson 00). A *lag monitor* shows how many records a group has not read yet.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A lag monitor shows nothing since the upgrade to 4.1 | `kafkagroups stats PATH --by type` | It counts the records of value version 4, which the monitor cannot read | Update the monitor, or use the Admin API |
# | The broker logs `Failed to load metadata` (4.x) or `Error loading offsets` (up to 3.9) | `kafkagroups check PATH --kafka 4.3.1` | It names each record that stops the load, and a remedy | Do not delete files. Lesson 11 carries out a remedy |
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
# The fields of the other record types. `kafkagroups decode` shows them.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [02 · Partitions](02_partitions.ipynb): in which partition a group's records are.
