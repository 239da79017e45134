# %% [markdown]
# # 01 · Records
#
# **What exactly is stored for a commit, and for a group? You will decode both by hand, from hex.**
#
# | after this lesson you can | minutes | needs Java |
# |---|---|---|
# | read an offset record and a group record byte by byte, say which version of Kafka wrote it, and what a tombstone is | 25 + 20 | no |
#
# ```
#             key: who is it about?                            value: what is true of it now?
#  ┌──────┬───────────┬──────────┬───────────┐      ┌─────────┬────────┬──────────────┬────────────────┬───────────┐
#  │ type │ group     │ topic    │ partition │  ──▶ │ version │ offset │ leader epoch │ metadata       │ committed │
#  │  1   │ "billing" │ "orders" │ 0         │      │  3      │   ?    │ 0            │ "during the …" │ when      │
#  └──────┴───────────┴──────────┴───────────┘      └─────────┴────────┴──────────────┴────────────────┴───────────┘
#                                                    or nothing at all: a tombstone, "forget it"
# ```
#
# Four things to hold on to:
#
# 1. Every record has a **key** and a **value**. The newest value of a key is what is true; a null value deletes it.
# 2. The key begins with the record's **type**: 0 and 1 are offsets, 2 is a group. (Newer ones come later.)
# 3. The value begins with its **version**. The version says which fields follow, and in what order. Nothing else does.
# 4. Numbers are big-endian: the high byte comes first. A text is a length in two bytes, then UTF-8.

# %% [markdown]
# ## One record, from a real broker
#
# It is the night the broker died. This is the last commit of `billing` for `orders-0` that a 3.9.2 broker wrote,
# record 42 of partition 9, copied from its disk.

# %%
import kafkagroups as kg
from kafkagroups import course

log = course.data("harbour/3.9.2/__consumer_offsets-9")
key, value = course.record_bytes(log, 42)

print("key")
course.hexdump(key)
print("value")
course.hexdump(value)

# %% [markdown]
# Read the key aloud: `00 01` is the type, 1: an offset. `00 07` is a length, and the seven bytes behind it are
# `billing`. `00 06`, and six bytes: `orders`. Four bytes are left: partition 0.
#
# The value: `00 03` is version 3. *Predict* before you look further down: which offset did `billing` commit?
# It stands in the **eight** bytes after the version. Use paper if you like; that is what the next cell asks for.

# %%
# exercise: on_paper
on_paper = ...

# %%
course.check("on_paper", on_paper)
# course.hint("on_paper")

# %% [markdown]
# ## Every byte has a name
#
# Step through the record with *next*, or choose a field. The brackets show its bytes. (Where no kernel runs, the table says the same.)

# %%
course.RecordExplorer(key, value)

# %% [markdown]
# And this is what the broker said of it after it was started again:

# %%
import json
from pathlib import Path

answers = json.loads(Path(course.data("harbour/3.9.2/answers.json")).read_text())
said = answers["offsets"]["billing"]["orders-0"]
record = kg.decode(key, value)
mine = {"offset": record.value.offset, "leader_epoch": record.value.leader_epoch, "metadata": record.value.metadata}

course.confirm(mine, said, "3.9.2")

# %% [markdown]
# `offset` is the *next* record that the group wants. `leader epoch` lets a consumer notice that the partition it read from
# was cut after a crash (KIP-320). `metadata` is a note of the client's own; most write nothing. Hardly anybody reads it.
#
# ## Exercise: a text
#
# Everything with a name in it begins with this. Write `read_string(data, position)`: it gives the text at a position
# and the position after it. A negative length means null, in Python `None`.

# %%
# exercise: read_string
def read_string(data, position):
    ...

# %%
course.check("read_string", read_string)
# course.hint("read_string")

# %% [markdown]
# `null` and `""` are two things, here as everywhere in Kafka. The next cell goes on with the package's own function, in case yours is not ready.

# %%
from kafkagroups.records.fields import NEWEST
from kafkagroups.records.wire import STRING, At

read_string = STRING.reader(At(version=0, flexible=False, kafka=NEWEST), nullable=True)

# %% [markdown]
# ## Exercise: a commit
#
# Write `decode_commit(key, value)`. It gives `(group, topic, partition, offset)`; for a tombstone (`value` is `None`) the
# offset is `None`. The offset stands at the same place in every version.

# %%
# exercise: decode_commit
def decode_commit(key, value):
    ...

# %%
course.check("decode_commit", decode_commit)

# %% [markdown]
# ## The same commit, eight years apart
#
# The same script ran against brokers of three versions. Here is `café-☕`, a group with a name to test people with.
# Its third commit, as each of them stored it:

# %%
for version in ["1.0.1", "3.9.2", "4.3.1"]:
    key, value = course.record_bytes(course.data(f"harbour/{version}/__consumer_offsets-21"), 2)
    data = kg.to_json(kg.decode(key, value))["value"]
    print(f"Kafka {version} wrote version {data['version']}:")
    for field, content in data["data"].items():
        print(f"    {field:<16} {content}")

# %% [markdown]
# | value version | written by | what changed, and why |
# |---|---|---|
# | 0 | 0.8.2 | offset, metadata, commit timestamp |
# | 1 | 0.9 to 2.0 | + expire timestamp: a client could say how long its offset shall live |
# | 2 | (2.1 in the making) | − expire timestamp: offsets now live and die with their group (KIP-211) |
# | 3 | 2.1 to 4.0 | + leader epoch (KIP-320) |
# | 4 | since 4.1 | short lengths ("compact"), room for *tagged fields*; the first one is the topic's id |
#
# An administrator chooses: a broker writes the version that its `inter.broker.protocol.version` allows, so that
# brokers of the old version can still read it during an upgrade. And version 1 never died: whoever sends a commit
# with a retention time gets it, in every version. *Predict*: which version did 4.3.1 write for `stock-audit`, whose commits last three seconds?

# %%
version_of_stock_audit = ...

# %%
key, value = course.record_bytes(course.data("harbour/4.3.1/__consumer_offsets-22"), 0)
course.beside(version_of_stock_audit, kg.decode(key, value).value_version)

# %% [markdown]
# ## Why the first byte decides everything
#
# No field has a name in the bytes, and nothing says where it ends but the layout. A reader that does not know the
# version cannot even skip a field. So Kafka's readers refuse an unknown version, and a broker that meets one while it
# loads a partition gives up **the whole partition**. Change one byte, the version, and look:

# %%
try:
    kg.decode(key, b"\x00\x09" + value[2:])
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# ## The other record: a group
#
# Type 2 says who is in a group. It is written each time the group has agreed on who reads what. This is generation
# 6 of `billing`, the last one before the night:

# %%
key, value = course.record_bytes(log, 35)
course.RecordExplorer(key, value)

# %% [markdown]
# | value version | written by | what changed, and why |
# |---|---|---|
# | 0 | 0.9, 0.10.0 | protocol type, generation, protocol, leader, members |
# | 1 | 0.10.1 to 2.0 | members' rebalance timeout: a slow consumer may be slow and alive (KIP-62) |
# | 2 | 2.1, 2.2 | since when the group is in its state: expiry counts from there (KIP-211) |
# | 3 | since 2.3 | members' `group.instance.id`: static members (KIP-345) |
# | 4 | nobody yet | compact and tagged |
#
# What the record does **not** say: the group's state. There is no field for it. A group with members counts as
# *Stable*, one without as *Empty*. That a rebalance was under way when the broker died, nobody will ever know.
#
# ## Bytes inside the bytes
#
# `subscription` and `assignment` are bytes that the broker never reads: the clients made them for each other.
# Consumers use one format for them, with a version of its own:

# %%
group = kg.decode(key, value).value
for member in group.members:
    wants, has = kg.decode_subscription(member.subscription), kg.decode_assignment(member.assignment)
    print(member.client_id, "subscribes to", list(wants.message.topics), f"(version {wants.version})")
    for topic in has.message.assigned_partitions:
        print("    and reads", topic.topic, list(topic.partitions))

# %% [markdown]
# ## Tombstones
#
# To forget an offset, Kafka writes the same key with **no value**. Not an empty one: null. When `mailer` was deleted,
# the broker wrote three of them and one for the group itself:

# %%
for offset in range(5, 9):
    record = kg.decode(*course.record_bytes(course.data("harbour/3.9.2/__consumer_offsets-12"), offset))
    print(offset, record.name, record.key, "→", record.value)

# %% [markdown]
# Null and empty are two things once more: a value of zero bytes is no tombstone. It is an error, and costs the
# partition like an unknown version.

# %%
try:
    kg.decode(key, b"")
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# ## Where this can be seen in the wild
#
# Kafka's console consumer has a formatter for this topic, `OffsetsMessageFormatter`; 1.0.1 prints
# `[billing,orders,0]::[OffsetMetadata[50,…],CommitTime …,ExpirationTime …]`, and `::NULL` for a tombstone. The dump tool prints
# JSON in 4.x; `kafkagroups dump --format dump-log` gives the same text, byte for byte:

# %%
from kafkagroups.cli import main

main(["dump", course.data("harbour/4.3.1/__consumer_offsets-21"), "--format", "dump-log"]);

# %% [markdown]
# ## In Kafka
#
# | what | where |
# |---|---|
# | layouts | `OffsetCommitKey.json`, `OffsetCommitValue.json`, `GroupMetadataKey.json`, `GroupMetadataValue.json` |
# | reading | `GroupMetadataManager.readMessageKey`, `readOffsetMessageValue`, `readGroupMessageValue` (3.9.2); `GroupCoordinatorRecordSerde` (4.3.1) |
# | which version is written | `GroupMetadataManager.offsetCommitValue`, `groupMetadataValue` (3.9.2) |
# | the members' bytes | `ConsumerProtocol`, in the clients |
#
# Offsets were in ZooKeeper before 0.8.2. Frequent small writes do not suit it, so they moved into a topic; a commit in
# the oldest protocol (OffsetCommit v0) still went to ZooKeeper in 1.0.1.
#
# ## What we left out, and why
#
# Since 4.0 the topic holds twenty more types of records, for consumer groups of the new protocol, share groups and
# streams groups. They are made of the same bricks; they get a part of this lesson of their own.
#
# **Next:** [02 · Partitions](02_partitions.ipynb): where these records are put.
