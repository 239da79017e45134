# %% [markdown]
# # 03 · The log
#
# **What does the file on disk look like: batches, checksums, control batches?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find batches and records in a hex dump; distinguish a commit, a marker and a tombstone; say what a checksum protects, and what it does not protect | {{minutes}} | no |
#
# ![A partition is a folder, for example __consumer_offsets-9. A segment is a file, named by its first offset. The file contains batches without gaps. Each batch has a header of 61 bytes and records.](pictures/03.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. A broker only **appends** to the file. It never changes a byte in the middle.
# 2. It appends whole **batches**. A request with three offsets becomes one batch with three records. The log contains all of them or none.
# 3. The header of a batch contains its length. So a reader can go from batch to batch.
# 4. A checksum protects the records and most of the header.

# %% [markdown]
# ## A segment
#
# The file of a partition is divided into *segments*, so that old parts can be removed. Most partitions of the shop have one segment.
#
# This is partition 37 of the shop's 4.3.1 broker. Its first 987 bytes are the life of the group `promo`. A consumer joined, committed twice and left. Then its topic was deleted. These are the first 96 bytes:

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
# `kg.open_log` reads offset and length, and jumps to the next batch in this way. It found these batches:

# %%
for batch in batches:
    record = batch.records[0]
    what = "commit" if kg.decode(record.key, record.value).type == 1 else "group"
    ending = ", no value" if record.value is None else ""
    print(f"from byte {batch.position:>3}: {batch.size:>3} bytes, offset {batch.base_offset}, {what}{ending}")

# %% [markdown]
# ## One batch, byte by byte
#
# The batch from byte 406 is a commit of one partition. The positions in the figure begin with 0 at the start of the batch. Go through the header and the record with *next*, or click a block:

# %%
# figure
course.BatchRibbon(promo, batches[2].position)

# %% [markdown]
# The record contains the key and the value of lesson 01, unchanged:

# %%
record = kg.decode(batches[2].records[0].key, batches[2].records[0].value)
print(f"key    group {record.key.group}, topic {record.key.topic}, partition {record.key.partition}")
print(f"value  offset {record.value.offset}, metadata '{record.value.metadata}'")

# %% [markdown]
# ## Varints
#
# A record stores its lengths and differences as **varints**, so a small number takes only one byte. To read a varint:
#
# 1. Each byte holds seven bits of the number, the lowest seven first. If the **highest bit** of a byte is 1, another byte follows.
# 2. The result n is still *zigzag* encoded. If n is even, the number is n / 2. If n is odd, the number is −(n + 1) / 2.
#
# Zigzag gives small negative numbers one byte, too: −1 is stored as 1, and 1 is stored as 2.
#
# | bytes | the seven bits | n | after zigzag |
# |---|---|---|---|
# | `36` | 0x36 = 54 | 54 | even: 54 / 2 = **27** |
# | `ae 01` | 0x2e = 46, and another byte follows; then 1 | 46 + 1 · 128 = 174 | even: 174 / 2 = **87** |
# | `01` | 1 | 1 | odd: −(1 + 1) / 2 = **−1** |

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
# Bytes 17 to 20 of a batch are a checksum. It is a *CRC-32C* of all bytes that follow it in the batch. If one of them changes, the checksum no longer fits.
#
# After a crash, a broker checks the batches at the end of its log. At the first wrong checksum, it *truncates* the log: it removes this batch and everything after it.
#
# Choose a *broken byte*. Then step from *the file* to *after recovery*: what does the broker keep? Find a byte whose change goes unnoticed. You can also type a position and a byte.

# %%
# figure
course.Segment(promo)

# %% [markdown]
# ## Exercise: an unnoticed change
#
# Three disks each changed one byte of a segment while the broker was down. After the start, the broker checks the batches. Which change does it **not** notice? The figure can test each one.
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
# The offset and the leader epoch of a batch: in the figure, for example, bytes 563 and 571. Both are before the checksum, so it does not cover them. The **broker** sets them when it appends the batch. So it does not have to compute the client's checksum again.
#
# - A slightly wrong offset or epoch goes unnoticed. A broker does notice an offset far outside the file's range.
# - A wrong length is noticed: the checksum is then computed over too many or too few bytes.
# - A wrong *magic* is noticed. Byte 16 says which format the batch has, and in another format the bytes make no sense.
#
# </details>

# %% [markdown]
# ## What a transaction leaves in the log
#
# A *producer* is a program that writes records. In a **transaction**, it writes to several partitions: either all of these records count, or none. The group `fraud-check` commits its offsets in transactions. A broker appends these offsets immediately. They count only after the transaction is committed.
#
# The end of a transaction is a **marker**. It says *commit* or *abort*. A marker is the only record of a **control batch**: a batch that Kafka writes for itself.
#
# The header of each batch contains a *producer id*. It connects the marker with the records of its transaction.

# %% [markdown]
# ## How to recognise a marker
#
# Bytes 21 and 22 of a batch are its *attributes*. Each bit has a meaning:
#
# | bits | in hex | meaning |
# |---|---|---|
# | 0–2 | `00` to `04` | compression: none, gzip, snappy, lz4, zstd |
# | 3 | `08` | which time the batch has: 0 is the client's time |
# | 4 | `10` | the batch belongs to a transaction |
# | 5 | `20` | control batch |
#
# So `00 10` is a batch of offsets in a transaction. `00 30` is a marker, because `10` + `20` = `30`.
#
# The record of the marker begins at byte 61. Its key begins at byte 66. The key has two bytes of version, `00 00`, and two bytes of type. Type `00 00` means abort, and `00 01` means commit.

# %% [markdown]
# ## Exercise: the commit marker, in hex
#
# Partition 9 contains two transactions of `fraud-check`, one after the other. One of them was aborted. These are their two markers. The numbers on the left are positions in the file:

# %%
shared = (Path(course.find_data("harbour/4.3.1/__consumer_offsets-9")) / "00000000000000000000.log").read_bytes()

course.hexdump(shared[3352:3430], 3352)
print()
course.hexdump(shared[3633:3711], 3633)

# %% [markdown]
# At which byte does the batch with the **commit** marker begin? Which *producer epoch* does its header have? The epoch is in the bytes 51 and 52 of the batch. Write a pair, for example `(1234, 5)`.

# %%
# exercise: commit_marker
commit_marker = ...

# %%
course.check("commit_marker", commit_marker)
# course.hint("commit_marker")

# %% [markdown]
# ## The epoch of a marker
#
# The producer id says which producer wrote a batch. The producer *epoch* is a counter of this producer. These are the batches of both transactions:

# %%
for batch in kg.open_log(course.find_data("harbour/4.3.1/__consumer_offsets-9")):
    if 3159 <= batch.position < 3711:
        what = "marker" if batch.is_control else "offsets"
        print(f"from byte {batch.position}: {what:<7} producer id {batch.producer_id}, epoch {batch.producer_epoch}")

# %% [markdown]
# Since Kafka 4.0, the end of a transaction raises the epoch by one, if the client is also of version 4.0 or newer. The marker already has the new epoch. A late request of the old transaction has the old epoch, and the broker refuses it.
#
# Up to 3.9, a marker usually has the epoch of its records. Lesson 08 shows what a late request could do then.

# %% [markdown]
# ## A tombstone in the file
#
# A tombstone is a record without a value. When the topic of `promo` was deleted, the broker wrote a tombstone for its offset. The length of the value is −1, and its varint is `01`. It is the second-to-last byte:

# %%
course.hexdump(promo[815:910], 815)

record = batches[5].records[0]
key = kg.decode(record.key, record.value).key
print(f"\noffset {record.offset}: {key.group}, {key.topic}-{key.partition}, {record.value or 'no value'}")

# %% [markdown]
# We wrote down each step of the experiment with the real broker, and which records it caused. The deletion of the topic caused the same record:

# %%
import json

steps = json.loads(Path(course.find_data("harbour/4.3.1/acts.json")).read_text())
wrote = next(step["wrote"] for step in steps if step["step"] == "spring is over")
ours = [{"partition": 37, "first": record.offset, "last": record.offset}]
course.compare_with_broker(ours, wrote, "4.3.1", verb="wrote")

# %% [markdown]
# ## A small incident: 20 GB of parse errors per night
#
# A team wrote a program that reads the *files* of `__consumer_offsets`, record by record. Since the payments team uses transactions, the program logs `cannot parse key 00 00 00 01` for each transaction. That is 20 GB per night. Our decoder cannot read this key either:

# %%
try:
    kg.decode(bytes.fromhex("00000001"), bytes.fromhex("000000000000"))
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# <details><summary>What does the program read?</summary>
#
# The key of a commit marker. `00 00` looks like record type 0. `00 01` looks like the length of a group name, and the name itself is missing. Kafka's consumers skip control batches. If you read the files yourself, check the batch header first, then the records.
#
# </details>
#
# ## Where the classic coordinator differs
#
# The file format belongs to the log and not to the coordinator, so it is the same. What the coordinators put into a batch differs:
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | one batch contains | the records of one or more requests, if they arrive within `group.coordinator.append.linger.ms` | the records of one request |
# | compression | `offsets.topic.compression.codec`: 0 (none, the default) to 4 (zstd) | the same |
# | epoch of a marker | one more than the epoch of its records | usually the epoch of its records |
#
# The broker compresses the records of a batch together. The header stays readable. If you change the setting, old batches stay as they are.

# %% [markdown]
# <details><summary>Other versions</summary>
#
# The *magic* in byte 16 is the number of the format. Magic 2 came with Kafka 0.11. Before 0.11 there were no batches: each message had its own header (magic 0 and 1). A compressed set of messages was the value of a *wrapper* message. Such files still exist, and `kg.open_log` reads them.
#
# Before each write, the classic coordinator looks up which magic the partition uses, and uses the same. In older releases, `message.format.version` can choose an old one. Kafka 4.x writes only magic 2.
#
# </details>
#
# ## In five lines
#
# - A partition is a folder, a segment is a file, and a file is a sequence of batches.
# - A batch has a header of 61 bytes with offset, length, checksum, attributes and producer id.
# - The checksum covers everything after itself. Offset, length and leader epoch are before it.
# - A marker is a control batch: attributes `00 30`. Its key says abort or commit.
# - A tombstone is a record whose value has the length −1.

# %% [markdown]
# ## For your consumer
#
# - `commitSync` with several partitions is one batch. After a crash, all offsets of this commit are there, or none.
# - If you read `__consumer_offsets` with a consumer, set `isolation.level=read_committed`. Otherwise you also see offsets of aborted transactions.
# - Long metadata makes each commit larger. The limit is `offset.metadata.max.bytes`, 4096 by default.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of a folder such as `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | The broker's log says that it found a corrupt batch and truncated the segment | `kafkagroups check PATH` | After a crash, the last bytes were incomplete or changed | If other replicas are in sync, nothing: they have the records. Keep a copy of the file |
# | Your own reader cannot parse keys | `kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log` | `isControl: true` marks a control batch | Skip control batches |
# | A file seems damaged | `kafkagroups dump PATH --past-damage` | It prints the position of the damage, and the readable batches after it | Work on a copy, never in the broker's folder |
#
# <details><summary>In Kafka</summary>
#
# | what | where |
# |---|---|
# | batch and record | `DefaultRecordBatch`, `DefaultRecord` (clients) |
# | magic 0 and 1 | `LegacyRecord`, `AbstractLegacyRecordBatch` |
# | markers | `ControlRecordType`, `EndTransactionMarker` |
# | recovery after a crash | `LogSegment.recover` |
#
# </details>
#
# ## What we left out, and why
#
# A segment also has an index and a snapshot of its producers. A broker can rebuild both from the `.log` file, so this course reads only that file. Lesson 10 shows how old records are removed.
#
# **Next:** [04 · Storing](04_storing.ipynb): what happens between `commitSync()` and the answer.
