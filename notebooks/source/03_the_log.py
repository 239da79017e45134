# %% [markdown]
# # 03 · The log
#
# **What does the file on disk look like: batches, checksums, control batches?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find batches and records in a hex dump; distinguish a commit, a marker and a tombstone; say what a checksum protects, and what it does not protect | {{minutes}} | no |
#
# **Which Kafka:** files of a 4.3.1 broker. The format has been the same since 0.11, so all of this is true for 3.9 as well. The few differences stand near the end.
#
# ![A partition is a folder, for example __consumer_offsets-9. A segment is a file, named by its first offset. The file contains batches without gaps. Each batch has a header of 61 bytes and records.](pictures/03.svg)

# %% [markdown]
# You may never read such a file, but your program relies on what it promises: the offsets of one commit are stored together or not at all. Four things to hold on to:
#
# 1. A broker only **appends** to the file. It never changes a byte in the middle.
# 2. The broker appends whole [**batches**](../docs/handbook/glossary.md#batch). All offsets of a commit that the coordinator accepts (lesson 07) become records of one batch, so the log contains all of them or none.
# 3. The header of a batch contains its length, so a reader can go from batch to batch without understanding the records.
# 4. A checksum protects the records and most of the header.

# %% [markdown]
# ## A segment
#
# A partition is divided into [*segments*](../docs/handbook/glossary.md#segment), each of which is one file; after 100 MiB (`offsets.topic.segment.bytes`), the broker begins the next one. This is partition 37 of the shop's broker. The first 987 bytes of the file hold everything about the group `promo`: a consumer joined, committed twice and left, and later its topic `promo-spring` and the group itself were deleted. These are the first 96 bytes:

# %%
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

log = course.find_data("harbour/4.3.1/__consumer_offsets-37")
promo = (Path(log) / "00000000000000000000.log").read_bytes()[:987]
course.hexdump(promo[:96])

# %% [markdown]
# The first eight bytes are the offset of the first record: 0. The next four bytes are the length: `00 00 00 59`, which is 89. The length counts the bytes **after** itself.
#
# *Predict*: at which byte does the second batch begin?

# %%
# prediction
second_batch = ...

# %%
batches = [batch for batch in kg.open_log(log) if batch.position < 987]

course.reveal("second_batch", second_batch, batches[1].position)

# %% [markdown]
# `kg.open_log` reads the offset and the length of a batch, jumps to the next one, and so finds these batches:

# %%
for batch in batches:
    record = batch.records[0]
    what = "commit" if kg.decode(record.key, record.value).type == 1 else "group"
    ending = ", no value" if record.value is None else ""
    print(f"from byte {batch.position:>3}: {batch.size:>3} bytes, offset {batch.base_offset}, {what}{ending}")

# %% [markdown]
# ## One batch, byte by byte
#
# The batch that begins at byte 406 of the file is a commit of one partition. The figure counts **from the start of the batch**. Press *next*, or click a block, and notice where the header of 61 bytes ends:

# %%
# figure
course.BatchRibbon(promo, batches[2].position)

# %% [markdown]
# Inside the record you find a key and a value, in the form of lesson 01:

# %%
record = kg.decode(batches[2].records[0].key, batches[2].records[0].value)
print(f"key    group {record.key.group}, topic {record.key.topic}, partition {record.key.partition}")
print(f"value  offset {record.value.offset}, metadata '{record.value.metadata}'")

# %% [markdown]
# ## Varints
#
# The numbers in the header have a fixed size. Inside a record, most numbers are small: the lengths of its key and its value, and its offset and time, which are stored as differences from the header. They are [**varints**](../docs/handbook/glossary.md#varint), so each small number takes one byte. To read a varint:
#
# 1. The first byte holds the lowest seven bits, the next byte the next seven, and so on. The **highest bit** of a byte is 1 if another byte follows.
# 2. The result n is *zigzag-encoded*, so that a small negative number is short as well, for example −1, the length of a missing value. If n is even, the number is n / 2. If n is odd, the number is −(n + 1) / 2.
#
# | bytes | the seven bits | n | after zigzag |
# |---|---|---|---|
# | `36` | 0x36 = 54 | 54 | even: 54 / 2 = **27** |
# | `ae 01` | 0x2e = 46, and another byte follows; then 1 | 46 + 1 · 128 = 174 | even: 174 / 2 = **87** |
# | `01` | 1 | 1 | odd: −(1 + 1) / 2 = **−1** |
#
# A *uvarint* (lesson 01) has only step 1, because it is never negative.

# %% [markdown]
# ## Exercise: a varint
#
# Write `read_varint(data, position)`. It returns a pair: the number, and the position after the varint.

# %%
# exercise: read_varint
def read_varint(data, position):
    ...

# %%
course.check("read_varint", read_varint)
# course.hint("read_varint")

# %% [markdown]
# ## The checksum
#
# A broker that loses power can leave half a batch at the end of the file, and a disk can change a byte. So bytes 17 to 20 of a batch are a checksum, a *CRC-32C*: a number that is computed from all later bytes of the batch. If one of them has changed, a reader computes another number.
#
# After a crash, a broker checks the batches at the end of its log. At the first wrong checksum it *truncates* the log: it removes this batch **and everything after it**. Why not only this batch? A broker that copies a partition asks only for what comes after the end of its own log, so nobody would ever fill a hole in the middle. A log that ends too early becomes complete again, as long as another broker has the records.
#
# This figure counts **from the start of the file**. Choose a *broken byte*<span class="live-only">, or type a position and a byte</span>, and step from *the file* to *after recovery* to see what the broker keeps. Can you find a byte whose change goes unnoticed?

# %%
# figure
course.Segment(promo)

# %% [markdown]
# ## Exercise: an unnoticed change
#
# After a crash, three disks each changed one byte of a segment. When the broker starts, it checks the batches. Which change does it **not** notice? The figure can test each one.
#
# - **A**: the last byte of a batch's length.
# - **B**: the last byte of a batch's leader epoch.
# - **C**: the last byte of a committed offset inside a record.
#
# Write the letter in quotes.

# %%
# exercise: unnoticed_change
unnoticed_change = ...

# %%
course.check("unnoticed_change", unnoticed_change)
# course.hint("unnoticed_change")

# %% [markdown]
# <details><summary>Which bytes are not protected, and why?</summary>
#
# The offset and the leader epoch of a batch stand before the checksum, for example bytes 563 and 571 of the file. Normally a client computes the checksum, and the broker sets these two fields when it appends the batch. If the checksum covered them, the broker would have to compute it again.
#
# So the broker does not notice a wrong leader epoch, and it notices a wrong offset only if the offset is lower than the one before. It notices a wrong length, because it then computes the checksum of too many or too few bytes.
#
# </details>
#
# ## What a transaction is
#
# Some records must become valid together. A [*producer*](../docs/handbook/glossary.md#producer), a program that writes records, can write them in a [**transaction**](../docs/handbook/glossary.md#transaction): either all of them become valid, or the transaction is *aborted* and none does. Offsets can be among them, and the shop's group `fraud-check` commits its offsets in this way.
#
# ## What a transaction leaves in the log
#
# How can the broker leave a decision open if it may only append? It appends the offsets immediately, and when the transaction ends it appends a [**marker**](../docs/handbook/glossary.md#marker), which says *commit* or *abort*. Other groups go on writing in between:
#
# ```
#  batch   offsets of fraud-check   producer id 1   not valid yet
#  batch   other commits            producer id −1  (no transaction)
#  batch   marker: commit           producer id 1   now the offsets are valid
# ```
#
# The [*producer id*](../docs/handbook/glossary.md#producer-id) in the header connects a marker with the records of its transaction. A marker is the only record of its batch, a [**control batch**](../docs/handbook/glossary.md#control-batch), which Kafka writes for itself and never hands to an application.
#
# ## How to recognise a marker
#
# The header says what a batch is. Bytes 21 and 22 are its *attributes*. Two of their bits matter here: `10` (in hex) is set if the batch belongs to a transaction, and `20` if it is a control batch. So `00 10` is a batch in a transaction, and `00 30` is a marker, because `10` + `20` = `30`.
#
# The key of the marker begins at byte 66 of the batch. It has two bytes of version, `00 00`, and two bytes of type: `00 00` means abort, and `00 01` means commit.
#
# The attributes also say how the records are compressed. Their lowest three bits are 0 (not at all, as here) to 4 (zstd).

# %% [markdown]
# ## Exercise: the commit marker, in hex
#
# Partition 9 contains two transactions of `fraud-check`, one after the other. One was committed, the other one was aborted. These are the batches of their markers. The numbers on the left are positions in the file:

# %%
shared = (Path(course.find_data("harbour/4.3.1/__consumer_offsets-9")) / "00000000000000000000.log").read_bytes()

course.hexdump(shared[3352:3430], 3352)
print()
course.hexdump(shared[3633:3711], 3633)

# %% [markdown]
# At which byte does the batch with the **commit** marker begin? And which number is in bytes 51 and 52 of this batch? This number is the *producer epoch*. Write a pair, for example `(1234, 5)`.

# %%
# exercise: commit_marker
commit_marker = ...

# %%
course.check("commit_marker", commit_marker)
# course.hint("commit_marker")

# %% [markdown]
# ## The epoch of a marker
#
# Three counters have the word *epoch* in their names, and each counts something else:
#
# | epoch | where | what it counts |
# |---|---|---|
# | leader epoch of a batch | header | the leaders of *this* partition, `__consumer_offsets-9` |
# | leader epoch of a commit (lesson 01) | value of the record | the leaders of the partition that the group reads, for example `orders-0` |
# | [*producer epoch*](../docs/handbook/glossary.md#producer-epoch) | header | the processes of a producer, and in 4.x also its transactions |
#
# With the producer epoch, a broker recognises outdated requests of a producer. These are the batches of both transactions:

# %%
for batch in kg.open_log(course.find_data("harbour/4.3.1/__consumer_offsets-9")):
    if 3159 <= batch.position < 3711:
        what = "marker" if batch.is_control else "offsets"
        print(f"offset {batch.base_offset}: {what:<7} producer id {batch.producer_id}, epoch {batch.producer_epoch}")

# %% [markdown]
# Each marker has an epoch one higher than the offsets before it, because in 4.x the end of a transaction raises the producer epoch (if the client has version 4.0 or newer, too). A late request of the old transaction still has the old epoch, so the broker refuses it. Lesson 08 shows what such a request does in 3.9.
#
# ## A tombstone in the file
#
# A tombstone is a record without a value. When the topic of `promo` was deleted, the broker wrote a tombstone for the offset of the group. The second-to-last byte of its batch is the length of the value: `01`, the varint for −1. The last byte, `00`, is the number of *record headers*, which only clients use:

# %%
course.hexdump(promo[815:910], 815)

record = batches[5].records[0]
key = kg.decode(record.key, record.value).key
print(f"\noffset {record.offset}: {key.group}, {key.topic}-{key.partition}, {record.value or 'no value'}")

# %% [markdown]
# ## A small incident: 20 GB of parse errors per night
#
# A team wrote a program that reads the *files* of `__consumer_offsets`, record by record. Then another team began to use transactions. Now the program logs `cannot parse key 00 00 00 01` for each transaction, 20 GB per night. `kg.decode` cannot read this key, either:

# %%
try:
    kg.decode(bytes.fromhex("00000001"), bytes.fromhex("000000000000"))
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# <details><summary>What does the program read?</summary>
#
# It reads the key of a commit marker. It takes `00 00` for record type 0 and `00 01` for the length of a group name, but no name follows.
#
# Kafka's consumers skip control batches, and so must a program that reads the files: look at the header of a batch before you decode its records.
#
# </details>
#
# ## Where 3.9 differs
#
# Both write the same format, and neither divides a request over two batches. In 4.x, a coordinator can also wait for more requests (`group.coordinator.append.linger.ms`) and append them together:
#
# | | 4.x | 3.9 |
# |---|---|---|
# | one batch contains | the records of one or more requests | the records of one request |
# | the producer epoch of a marker | usually one more than the epoch of its records | usually the epoch of its records |
#
# With both, `offsets.topic.compression.codec` chooses the compression, 0 (none, the default) to 4 (zstd). A broker compresses the records of new batches, but not the header. Old batches stay as they are.
#
# <details><summary>Other versions</summary>
#
# Byte 16 of a batch is its *magic*, the number of the format: 2 since Kafka 0.11. Before, each message had its own header (magic 0 and 1). Because a setting could choose an older format, 3.9 looks up the magic of the partition before it writes (`getMagic`). Kafka 4.x writes only magic 2.
#
# </details>
#
# ## Check yourself
#
# <details><summary>You set offsets.topic.compression.codec to 4. What happens to the old batches?</summary>
#
# They stay as they are. Only the records of new batches are compressed with zstd.
#
# </details>
#
# ## In five lines
#
# - A partition is a folder, a segment is a file, and a file is a sequence of batches.
# - A batch is appended as a whole, so the offsets of one commit are in the log together or not at all.
# - The checksum covers all bytes after it. The offset, the length and the leader epoch are before it.
# - A marker is in a control batch, which has the attributes `00 30`. The key of the marker says abort or commit.
# - A tombstone is a record whose value has the length −1.

# %% [markdown]
# ## For your consumer
#
# - All accepted offsets of one `commitSync` are in one batch, so after a crash the log contains all or none.
# - If you must read `__consumer_offsets` (lesson 01), set `isolation.level=read_committed`. Otherwise you also read the offsets of aborted transactions.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of a folder such as `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | The broker's log says that it found a corrupt batch and truncated the segment | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | `Isr` (*in-sync replicas*) lists the brokers that have a complete copy of the partition | If `Isr` lists another broker, wait: the truncated broker copies the records from it. If not, the truncated records are lost. Set the offsets again (lesson 02) |
# | A file seems damaged | `kafkagroups load PATH --past-damage` | It also prints the offsets after the damage | Make the copy **before** the broker starts. The start truncates the file |
# | Your own program cannot parse keys | `kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log` | `isControl: true` marks a control batch | Skip control batches |
#
# ## What we left out, and why
#
# A segment also has an index and a file about its producers. A broker can rebuild both from the `.log` file. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [04 · Storing](04_storing.ipynb): what happens between `commitSync()` and the answer.
