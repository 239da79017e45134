# %% [markdown]
# # 03 · The log
#
# **What does the file on disk look like: batches, checksums, control batches?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find batches and records in a hex dump of a segment; distinguish a commit, a marker and a tombstone; say what a checksum protects | {{minutes}} | no |
#
# ```
#  __consumer_offsets-9/                 one folder per partition
#     00000000000000000000.log           one file per segment, named by its first offset
#        ├── batch   61 bytes of header │ records
#        ├── batch   61 bytes of header │ records
#        └── batch   …                   one after another, without gaps
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. A broker only **appends** batches to the file. It never changes a byte in the middle.
# 2. A request with three offsets becomes one batch with three records. The log contains all of them or none.
# 3. The header contains the batch's length. So a reader can go from batch to batch.
# 4. A checksum protects the records and most of the header. It does **not** protect the offset and the length.

# %% [markdown]
# ## A segment
#
# This is partition 37 of the shop's 1.0.1 broker. It contains one group, `promo`. A consumer joined, committed twice and left. Then the topic that it read was deleted. The file has 769 bytes. These are the first 96:

# %%
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

promo = Path(course.find_data("harbour/1.0.1/__consumer_offsets-37/00000000000000000000.log")).read_bytes()
course.hexdump(promo[:96])

# %% [markdown]
# The first eight bytes are the offset of the first record: 0. The next four bytes are the length: `00 00 01 11`, which is 273. The length counts the bytes **after** itself.
#
# *Predict*: at which byte does the second batch begin?

# %%
# prediction
second_batch = ...

# %%
batches = list(kg.open_log(course.find_data("harbour/1.0.1/__consumer_offsets-37")))

course.reveal("second_batch", second_batch, batches[1].position)

# %% [markdown]
# `kg.open_log` reads the headers in this way. The file has five batches:

# %%
print(f"{len(batches)} batches, the last one begins at byte {batches[-1].position}")
print(f"records: {sum(len(batch.records) for batch in batches)}, with the offsets 0 to {batches[-1].last_offset}")

# %% [markdown]
# ## One batch, byte by byte
#
# The second batch is a commit of one partition. Click *next* to go through its header and its record.

# %%
# figure
course.BatchExplorer(promo, batches[1].position)

# %% [markdown]
# The record contains the key and the value of lesson 01, unchanged:

# %%
record = kg.decode(batches[1].records[0].key, batches[1].records[0].value)
print(f"key    group {record.key.group}, topic {record.key.topic}, partition {record.key.partition}")
print(f"value  offset {record.value.offset}, metadata {record.value.metadata!r}")

# %% [markdown]
# ## Varints
#
# A record stores its lengths and differences as **varints**. A small number takes one byte. Two rules:
#
# 1. A byte holds seven bits of the number. The first byte holds the lowest bits. If its **highest bit** is 1, another byte follows.
# 2. The result is *zigzag* encoded: an even number is twice a positive number, and an odd number stands for a negative one. So −1 takes one byte.
#
# | bytes | the seven bits | together | after zigzag |
# |---|---|---|---|
# | `36` | 0x36 = 54 | 54 | even: 54 / 2 = **27** |
# | `92 01` | 0x12 = 18, and more follows; then 1 | 18 + 1 · 128 = 146 | even: 146 / 2 = **73** |
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
# Bytes 17 to 20 of a batch are a checksum, a CRC-32C of all bytes after them. If one of these bytes changes, the checksum is wrong. After a crash a broker checks the batches at the end of its log. If it finds a wrong checksum, it truncates the log: this batch and everything after it are removed.
#
# Move the slider. It changes one byte of the file. Then look for a byte whose change goes unnoticed.

# %%
# figure
course.ByteBreaker(promo, broken_position=420)

# %% [markdown]
# <details><summary>Which bytes did you find?</summary>
#
# Byte 7 is part of an offset, and byte 298 is part of a leader epoch. Both are before the checksum, so it does not cover them. The **broker** sets them when it appends the batch, and so it need not compute the client's checksum again.
#
# - A slightly wrong offset or epoch goes unnoticed. A broker does notice an offset far outside the file's range.
# - A wrong length is noticed: the checksum is then computed over too many or too few bytes.
# - A wrong *magic* is noticed. Byte 16 says which format the batch has, and with the wrong format nothing fits.
#
# </details>

# %% [markdown]
# ## What a transaction leaves in the log
#
# A *producer* is a program that writes records. In a *transaction* it writes to several partitions, and either everything counts or nothing does. `fraud-check` commits its offsets in transactions. The log contains the offsets first. They count only after the transaction is committed.
#
# The end of a transaction is a **marker**. A marker is a *control batch*: a batch with one record that Kafka writes for itself. The *producer id* in the header says which batches and which marker belong together.
#
# Partition 9 contains the groups `billing` and `fraud-check`. Two transactions of `fraud-check` are there one after the other, and one of them was aborted. These are their two markers:

# %%
path = course.find_data("harbour/1.0.1/__consumer_offsets-9")
shared = (Path(path) / "00000000000000000000.log").read_bytes()

for batch in kg.open_log(path):
    if batch.is_control and 2713 <= batch.position < 3281:
        print(f"\na marker, from byte {batch.position}")
        course.hexdump(shared[batch.position : batch.position + batch.size], batch.position)

# %% [markdown]
# Bytes 21 and 22 of a batch are its attributes:
#
# | bits | in hex | meaning |
# |---|---|---|
# | 0–2 | `00` to `04` | compression: none, gzip, snappy, lz4, zstd |
# | 3 | `08` | timestamp type: 0 means the client's time |
# | 4 | `10` | the batch belongs to a transaction |
# | 5 | `20` | control batch |
#
# So `00 10` is a batch of offsets in a transaction, and `00 30` is a marker. The record begins 61 bytes after the start of the batch. It has a length, attributes, two differences, and `08`, the key's length 4 as a varint. The **key** follows: two bytes of version, `00 00`, and two bytes of type. The type `00 00` aborts, and `00 01` commits.

# %% [markdown]
# ## Exercise: the commit marker, in hex
#
# At which byte does the batch with the **commit** marker begin?

# %%
# exercise: commit_marker
commit_marker = ...

# %%
course.check("commit_marker", commit_marker)
# course.hint("commit_marker")

# %% [markdown]
# ## A tombstone
#
# A record without a value is a *tombstone*. It deletes its key. The last batch of `promo` has two tombstones, because the topic was deleted. A length of −1 means "no value", and its varint is `01`:

# %%
course.hexdump(promo[658:], 658)
for record in batches[-1].records:
    print(f"record {record.offset}: key {record.key.hex()}, value {record.value}")

# %% [markdown]
# The project also has the notes about each step that the brokers were asked to do, with the records that it caused:

# %%
import json

steps = json.loads(Path(course.find_data("harbour/1.0.1/acts.json")).read_text())
wrote = next(step["wrote"] for step in steps if step["step"] == "spring is over")
ours = [{"partition": 37, "first": batches[-1].base_offset, "last": batches[-1].last_offset}]
course.compare_with_broker(ours, wrote, "1.0.1", verb="wrote")

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
# The key of a commit marker. `00 00` looks like record type 0, and `00 01` looks like a group name of one byte, which is not there. Kafka's consumers skip control batches. If you read the files yourself, check the batch header first, then the records.
#
# </details>

# %% [markdown]
# ## Exercise: a decision
#
# Three disks each changed one byte of a segment while the broker was down. After the start, the broker checks the batches. Which change does it **not** notice?
#
# - **A**: the last byte of a batch's length.
# - **B**: the last byte of a batch's leader epoch.
# - **C**: the last byte of a committed offset inside a record.

# %%
# exercise: unnoticed_change
unnoticed_change = ...

# %%
course.check("unnoticed_change", unnoticed_change)
# course.hint("unnoticed_change")

# %% [markdown]
# ## Where the classic coordinator differs
#
# Both coordinators write the same batches. The file format belongs to the broker's log, and not to the coordinator. What they put into a batch differs:
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | one batch contains | the records of one or more requests, if they arrive within `group.coordinator.append.linger.ms` | the records of one request |
# | compression | `offsets.topic.compression.codec`, none by default | the same |
#
# <details><summary>Other versions</summary>
#
# Before 0.11 there were no batches. Each message had its own header (*magic* 0 and 1), and a compressed set of messages was the value of a *wrapper* message. Such files still exist, and `kg.open_log` reads them.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - A partition is a folder, a segment is a file, and a file is a sequence of batches.
# - A batch has a header of 61 bytes with offset, length, checksum, attributes and producer id.
# - The checksum covers everything after itself. Offset, length and leader epoch are before it.
# - A marker is a control batch: attributes `00 30`, and its key says abort or commit.
# - A tombstone is a record whose value has the length −1.
#
# ## For your consumer
#
# - `commitSync` with several partitions is one batch. After a crash all offsets of this commit are there, or none.
# - If you read `__consumer_offsets` with a consumer, set `isolation.level=read_committed`, or you also see offsets of aborted transactions.
# - Long metadata makes each commit larger. The limit is `offset.metadata.max.bytes`, 4096 by default.

# %% [markdown]
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | The broker's log says that it found a corrupt batch and truncated the segment | (1) | The bytes after a crash were incomplete or changed | If other replicas are in sync, nothing: they have the records. Keep a copy of the file |
# | Your own reader cannot parse keys | (2) | `isControl: true` marks a control batch | Skip control batches |
# | A file seems damaged | (3) | The command names the position, and what is readable after it | Work on a copy, never in the broker's folder |
#
# ```
# (1) kafkagroups check PATH
# (2) kafka-dump-log.sh --offsets-decoder --print-data-log --files 00000000000000000000.log
# (3) kafkagroups dump PATH
# ```
#
# `PATH` is a copy of a folder such as `__consumer_offsets-9`.
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
