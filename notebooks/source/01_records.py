# %% [markdown]
# # 01 · Records
#
# **What exactly is stored for a commit, and for a group? You will decode a commit by hand, from hex, and find your way in a group.**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | read an offset record of every version byte by byte, say what a group record holds, which Kafka wrote it, what a tombstone is | 25 + 20 | no |
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
# 2. The key begins with the record's **type**: 1 is an offset, 2 a group. (0 is an offset of Kafka 0.8.2; the newer ones come at the end.)
# 3. The value begins with its **version**. The version says which fields follow, and in what order. Nothing else does.
# 4. Numbers are big-endian: the high byte comes first. A text is a length in two bytes, then UTF-8.

# %% [markdown]
# ## One record, from a real broker
#
# It is the night the broker died. This is the last commit of `billing` for `orders-0` that a 3.9.2 broker wrote, copied from
# its disk. Mind two kinds of offset: this record has a place of its own in the topic `__consumer_offsets` (42, in partition 9); and *inside* it
# stands the offset that `billing` has reached in the topic `orders`. That one we are after.

# %%
import kafkagroups as kg
from kafkagroups import course

log = course.find_data("harbour/3.9.2/__consumer_offsets-9")
key, value = course.read_record(log, 42)

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

answers = json.loads(Path(course.find_data("harbour/3.9.2/answers.json")).read_text())
said = answers["offsets"]["billing"]["orders-0"]
record = kg.decode(key, value)
mine = {"offset": record.value.offset, "leader_epoch": record.value.leader_epoch, "metadata": record.value.metadata}

course.compare_with_broker(mine, said, "3.9.2")

# %% [markdown]
# `offset` is the *next* record that the group wants. `leader epoch` is a counter of the partition `orders-0`: it goes up each time
# another broker becomes that partition's leader. A consumer that comes back with an old epoch can ask whether what it read was cut
# away in between (KIP-320; a KIP is a written proposal of a change to Kafka). `metadata` is a note of the client's own; most write nothing.
#
# ## Exercise: a text
#
# Everything with a name in it begins with this. Write `read_string(data, position)`: it gives the text at a position
# and the position after it. A negative length means null, in Python `None`. Two tools of Python:
#
# ```python
# int.from_bytes(b"\x00\x07", "big", signed=True)     # 7: bytes to a number, high byte first
# b"billing".decode()                                 # "billing": bytes to a text
# ```

# %%
# exercise: read_string
def read_string(data, position):
    ...

# %%
course.check("read_string", read_string)
# course.hint("read_string")
read_string = course.ensure_correct("read_string", read_string)

# %% [markdown]
# `null` and `""` are two things, here as everywhere in Kafka.
#
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
# ## The same commit, by brokers eight years apart
#
# The same script ran against brokers of three versions. Here is `café-☕`, a group with a name to test people with.
# Its third commit, as a broker of 1.0.1 stored it (version 1):

# %%
cafe = {v: course.read_record(course.find_data(f"harbour/{v}/__consumer_offsets-21"), 2) for v in ["1.0.1", "3.9.2", "4.3.1"]}

course.RecordExplorer(*cafe["1.0.1"])

# %% [markdown]
# The offset stands where it stood; then comes the metadata at once, for a leader epoch there is none; and last, one time more: when
# the offset may be forgotten, here a day after the commit (1.0.1's default). The three side by side:

# %%
for version, (cafe_key, cafe_value) in cafe.items():
    data = kg.to_json(kg.decode(cafe_key, cafe_value))["value"]
    print(f"Kafka {version} wrote version {data['version']}: {', '.join(data['data'])}")
    course.hexdump(cafe_value)

# %% [markdown]
# | value version | written by | what changed, and why |
# |---|---|---|
# | 0 | 0.8.2 | offset, metadata, commit timestamp |
# | 1 | 0.9 to 2.0 | + expire timestamp: a client could say how long its offset shall live |
# | 2 | no release | − expire timestamp: offsets now live and die with their group (KIP-211) |
# | 3 | 2.1 to 4.0 | + leader epoch (KIP-320) |
# | 4 | since 4.1 | lengths as *varints*, plus 1 (below 127 one byte: `0a` = 9 and 1); at the end *tagged fields*: how many (`01`), then number (`00`), size (`10` = 16) and bytes of each. The first is the topic's id |
#
# An administrator chooses: a broker writes the version that its `inter.broker.protocol.version` allows, so that
# brokers of the old version can still read it during an upgrade. *Predict*: `stock-audit` committed to the 4.3.1 broker, and asked that its
# offset be forgotten after three seconds. Which version did the broker write?

# %%
# prediction
version_of_stock_audit = ...

# %%
audit_key, audit_value = course.read_record(course.find_data("harbour/4.3.1/__consumer_offsets-22"), 0)
course.compare_with_prediction(version_of_stock_audit, kg.decode(audit_key, audit_value).value_version)

# %% [markdown]
# Version 1 never died: it is the only one with a place for that wish. (`stock-audit` committed again, with a wish of an hour. That one was still
# there after the crash, in lesson 00.)
#
# ## Why the first two bytes decide everything
#
# No field has a name in the bytes, and nothing says where it ends but the layout. A reader that does not know the
# version cannot even skip a field. So Kafka's readers refuse an unknown version, and a broker that meets one while it
# loads a partition gives up **the whole partition**, with every group in it. Make it version 9, and look. (And null and empty
# are two things once more: a value of no bytes is no tombstone, for it has not even a version.)

# %%
for broken in (b"\x00\x09" + value[2:], b""):
    try:
        kg.decode(key, broken)
    except kg.InvalidRecord as error:
        print(error)

# %% [markdown]
# ## The version that broke everybody's monitoring
#
# Lag monitors read this topic themselves. When 4.1 began to write version 4 of an offset, with no switch to keep the old one, those that knew versions
# 0 to 3 went dark overnight; they had already at 2.1, when version 3 came. Those that were bold, and read version 4 as if it were 3, fared no
# better. Up to the leader epoch all is well. Then they look for a length of two bytes where there is only one:

# %%
monitor_key, monitor_value = cafe["4.3.1"]
try:
    kg.decode(monitor_key, b"\x00\x03" + monitor_value[2:])
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# ## Exercise: a compact text
#
# The length of a compact text is a *varint* of the number of bytes **plus one**; 0 says null. A varint has seven bits a byte, the low ones first, and
# the high bit of a byte (`0x80`) says that another one follows: `0a` is 10, so nine bytes; `ac 02` is 0x2c + 2 × 128 = 300, so 299 bytes.
# Write `read_compact(data, position)`: the text at a position (`None` for null) and the position after it.

# %%
# exercise: read_compact
def read_compact(data, position):
    ...

# %%
course.check("read_compact", read_compact)

# %% [markdown]
# ## The other record: a group
#
# Type 2 says who is in a group. Five words first:
#
# - a **member** is one process of the group; a *static* one has a name of its own and may come back under it;
# - a **rebalance**: the members agree anew on who reads which partition, whenever one comes or goes;
# - a **generation** is what a rebalance gives: numbered from 1, with its members and what each was given;
# - an **assignor** is the rule by which they share, `range` for example (in the bytes: *protocol*);
# - the group's **leader** is the member that applies the rule. (The *leader* of a partition is a broker. Two things, one word.)
#
# The record is written when a rebalance is over. This is generation 6 of `billing`, the last one before the night. Long, and made of
# the same bricks but one: raw *bytes* have a length of four bytes, a text of two. Find the generation, and who leads:

# %%
group_key, group_value = course.read_record(log, 35)
course.RecordExplorer(group_key, group_value)

# %% [markdown]
# | value version | written by | what changed, and why |
# |---|---|---|
# | 0 | 0.9, 0.10.0 | protocol type, generation, protocol, leader, members |
# | 1 | 0.10.1 to 2.0 | members' rebalance timeout: a slow consumer may be slow and alive (KIP-62) |
# | 2 | 2.1, 2.2 | since when the group is in its state: expiry counts from there (KIP-211) |
# | 3 | since 2.3 | members' `group.instance.id`: static members (KIP-345) |
# | 4 | nobody yet | compact and tagged |
#
# What the record does **not** say: the group's state. It says since when, but not which. A group with members counts as
# *Stable*, one without as *Empty*. That a rebalance was under way when the broker died, nobody will ever know.
#
# ## Bytes inside the bytes
#
# `subscription` and `assignment` are bytes that the broker never reads: the clients made them for each other.
# Consumers use one format for them, with a version of its own:

# %%
group = kg.decode(group_key, group_value).value
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
    record = kg.decode(*course.read_record(course.find_data("harbour/3.9.2/__consumer_offsets-12"), offset))
    print(offset, record.name, record.key, "→", record.value)

# %% [markdown]
# ## Groups whose leader is the broker
#
# Up to here the members lead: one of them shares out the partitions, and the broker stores what it is told, in *one* record. Since 4.0 there are
# groups where the broker does it, and there are 22 types of records in all. It writes only what changed, so a group is spread over many:
#
# | what a record says | consumer group (KIP-848) | share group (KIP-932) | streams group (KIP-1071) |
# |---|---|---|---|
# | the group is there, and its *epoch*: goes up at every change | 3 | 11 | 17 |
# | a member: who it is, what it asked for | 5 | 10 | 19 |
# | for which epoch the *target* was computed, and each member's share of it | 6, 7 | 12, 13 | 20, 21 |
# | what a member has *now*, on its way to the target | 8 | 14 | 22 |
# | more | 4 (topics, up to 4.0), 16 (patterns) | 15 (partitions it keeps a state for) | 23 (its topology) |
#
# There is no generation that all must reach at once. `loyalty` is such a group: one member had all of `orders`, then a second one came. *Predict* before
# you read the last lines: who gives what to whom, in how many steps? (State 0: all is well; 1: has to give back; 2: waits for others. In the
# explorer, `assignedPartitions[0].partitions[1]` is the second partition of the first topic; topics stand by their ids.)

# %%
loyalty = course.find_data("harbour/4.3.1/__consumer_offsets-24")
for batch in kg.open_log(loyalty):
    for stored in batch.records:
        record = kg.decode(stored.key, stored.value)
        if record.type == 8:
            now = record.value
            has, gives = ([list(t.partitions) for t in ts] for ts in (now.assigned_partitions, now.partitions_pending_revocation))
            print(stored.offset, record.key.member_id[:4], f"epoch {now.member_epoch}, state {now.state}: has {has}, gives back {gives}")

course.RecordExplorer(*course.read_record(loyalty, 15))

# %% [markdown]
# `PHUI` had 0, 1 and 2. At offset 15 it is told to give 2 back (state 1), while `ws8i` waits for it with nothing (state 2). At 16 it has
# done so, and only then, at 17, gets `ws8i` its partition, in epoch 3 as well. Nobody else had to stop. That is what all these records are for.
#
# A tombstone of each of them takes back what it said. The texts in them are compact, as in your exercise; and mind a trap in type 5: a tag that is
# *absent* stands for the default of its field, and there the default is a member of the old protocol. Members of the new one carry the tag, saying null.

# %% [markdown]
# ## Where this can be seen in the wild
#
# Kafka's console consumer has a formatter for this topic, `OffsetsMessageFormatter`; 1.0.1 prints
# `[billing,orders,0]::[OffsetMetadata[50,…],CommitTime …,ExpirationTime …]`, and `::NULL` for a tombstone; another shows groups, as
# `billing::GroupMetadata(groupId=billing, generation=6, protocolType=Some(consumer), currentState=Stable, …)`. Its dump tool printed
# `key: offset::billing:orders:0 payload: 50:…` in 1.0.1, `key: offset_commit::group=billing,partition=orders-0 payload: offset=50,metadata=…` from 2.4 on (`payload: <DELETE>` for a tombstone), and JSON in 4.x:
#
# ```
# | offset: 0 CreateTime: 1795256102893 keySize: 24 valueSize: 48 sequence: 0 headerKeys: []
#   key: {"type":"1","data":{"group":"café-☕","topic":"stock","partition":0}}
#   payload: {"version":"4","data":{"offset":1,"leaderEpoch":-1,"metadata":"crème","commitTimestamp":1795256102893,…}}
# ```
#
# `kafkagroups dump FOLDER --format dump-log` prints that, byte for byte (there in one line), and needs no Kafka.
#
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
# The fields of all 22 types: `kafkagroups decode` shows each with its bytes, and `kafkagroups/records/` declares them, a line a field. How
# a broker puts such a group together again after a crash is lesson 11's matter.
#
# **Next:** [02 · Partitions](02_partitions.ipynb): where these records are put.
