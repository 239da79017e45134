# %% [markdown]
# # 03 · The log
#
# **What does the file on disk look like: batches, checksums, control batches?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | find your way in a hexdump of a segment, tell a commit from a marker and a tombstone, say what a checksum guards and what not | 25 + 20 | no |
#
# ```
#  __consumer_offsets-9/                          one folder a partition
#     00000000000000000000.log                    one file a segment, named by its first offset
#        ├── batch   61 bytes of header │ records
#        ├── batch   61 bytes of header │ records
#        └── batch   …                            one behind the other, nothing between them, no index needed
# ```
#
# Four things to hold on to:
#
# 1. A partition is a file to which batches are **appended**; nothing in the middle is ever changed. What is newest wins.
# 2. A commit of three partitions is one batch of three records: it is there as a whole or not at all.
# 3. The header says how long the batch is. A reader hops from header to header.
# 4. A checksum (CRC-32C: 32 bits computed from all bytes behind it) guards the records and most of the header. **Offset and length stand before it.**

# %% [markdown]
# ## The file
#
# Partition 37 of the shop's 1.0.1 broker. It belongs to `promo`: somebody joined, committed twice, left, and the topic that the group read was
# deleted. Five batches, 769 bytes, in one file (a *segment*; when it is full, the next one begins). The first 96 of them:

# %%
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

promo = Path(course.find_data("harbour/1.0.1/__consumer_offsets-37/00000000000000000000.log")).read_bytes()
course.hexdump(promo[:96])

# %% [markdown]
# Eight bytes of offset: 0. Then four of length: `00 00 01 11`. *Predict*: at which byte does the second batch begin? The length
# counts what follows **after** itself, so add the 12 bytes before. (`0x111` is 273.)

# %%
# prediction
second_batch = ...

# %%
course.compare_with_prediction(second_batch, 12 + 0x111)

# %%
batches = list(kg.open_log(course.find_data("harbour/1.0.1/__consumer_offsets-37")))

for batch in batches:
    print(f"byte {batch.position:>3}, {batch.size} bytes: offsets {batch.base_offset} to {batch.last_offset}")

# %% [markdown]
# ## One batch, byte by byte
#
# The second one: a commit of one partition. *next* steps through header and record.

# %%
course.BatchExplorer(promo, 285)

# %% [markdown]
# Inside stand, untouched, the key and the value of lesson 01:

# %%
record = kg.decode(batches[1].records[0].key, batches[1].records[0].value)
print(record.key)
print("offset", record.value.offset, "·", record.value.metadata)

# %% [markdown]
# ## Varints
#
# A record's own lengths and differences are **varints**: a small number takes one byte. Two rules:
#
# 1. A byte holds seven bits of the number, the first byte the lowest. Its **highest bit says: one more byte follows**.
# 2. Here the result is *zigzag*: even numbers are twice a positive one, odd ones stand for the negatives. So −1 fits into one byte.
#    (The varints of lesson 01's version 4 obey rule 1 only: no zigzag, and a length is written plus 1.)
#
# | bytes | the seven bits | together | zigzag undone |
# |---|---|---|---|
# | `36` | 0x36 = 54 | 54 | even: 54 / 2 = **27** |
# | `92 01` | 0x92 = more, and 18; then 1 | 18 + 1 · 128 = 146 | even: 146 / 2 = **73** |
# | `01` | 1 | 1 | odd: −(1 + 1) / 2 = **−1** |
#
# Write `read_varint(data, position)`: the number, and the position after it.

# %%
# exercise: read_varint
def read_varint(data, position):
    ...

# %%
course.check("read_varint", read_varint)

# %% [markdown]
# ## Exercise: the checksum
#
# Bytes 17 to 20 of a batch are the CRC-32C of everything behind them, a number without sign. Write `crc_is_right(batch)`, True or False.
# Here `batch` is plain bytes, from its base offset on; `crc32c(data)` computes a checksum, as a number.

# %%
from crc32c import crc32c

# %%
# exercise: crc_is_right
def crc_is_right(batch):
    ...

# %%
course.check("crc_is_right", crc_is_right)

# %% [markdown]
# ## Break a byte
#
# Move the slider: it changes one byte of the file. A broker that finds a wrong checksum after a crash cuts the log
# there, with all that follows. Now look for a byte that nobody guards.

# %%
course.ByteBreaker(promo, broken_position=420)

# %% [markdown]
# Bytes 7 and 298 (285 + 13) are two of them. Offset and leader's epoch stand in front of the checksum because the **broker** sets them when it
# appends: so it need not compute the checksum of a client's batch again. A slightly wrong offset or epoch nobody notices (an offset far out of
# the file's range a broker does). A wrong length shows: the checksum is then computed over too many or too few bytes. So does a wrong
# *magic* (the format, byte 16), for then nothing fits.
#
# ## What a transaction leaves
#
# A *producer* is a program that writes. In a *transaction* it writes to several partitions so that all of it counts, or nothing.
# `fraud-check` commits its offsets in transactions: they are written first, and count only when the transaction is committed. Who says so? A **marker**: a batch of one record that is no record of the topic, but of Kafka itself
# (a *control batch*). A *producer id* in the header tells which batches and markers belong together. Here are four batches of
# partition 9, which `billing` and `fraud-check` share:

# %%
path = course.find_data("harbour/1.0.1/__consumer_offsets-9")
shared = (Path(path) / "00000000000000000000.log").read_bytes()

for batch in kg.open_log(path):
    if 2713 <= batch.position < 3281:
        print(f"\nbyte {batch.position}")
        course.hexdump(shared[batch.position : batch.position + batch.size], batch.position)

# %% [markdown]
# Two transactions: offsets, marker, offsets, marker. One was committed and one aborted. Look at bytes 21 and 22 of each
# batch, the attributes:
#
# | bits | in hex | what |
# |---|---|---|
# | 0–2 | `00` to `04` | none, gzip, snappy, lz4, zstd |
# | 3 | `08` | whose time: 0 the client's |
# | 4 | `10` | transactional |
# | 5 | `20` | control |
#
# So `00 10` holds offsets, and `00 30` = `10` + `20` is a marker. Its record begins 61 bytes after the batch: length, attributes, two differences, then `08`, the key's
# length as a varint (4), and the **key**: two bytes of version, `00 00`, and two of type, `00 00` for abort or `00 01` for commit. (The `00 00 00 01` that ends the
# header is the count: one record. In the first batch the record begins at 2713 + 61 = 2774, with `88 01`.)
#
# **At which byte does the batch with the commit marker begin?**

# %%
# exercise: commit_marker
commit_marker = ...

# %%
course.check("commit_marker", commit_marker)
# course.hint("commit_marker")

# %% [markdown]
# What did the broker say in the end? The notes of the committed transactions were "clean", that of the aborted one "suspicious":

# %%
import json

answers = json.loads(Path(course.find_data("harbour/1.0.1/answers.json")).read_text())
for partition, offset in answers["offsets"]["fraud-check"].items():
    print(partition, offset["offset"], offset["metadata"])

# %% [markdown]
# Nothing suspicious is left. (31 comes from a later transaction, not shown above; `payments-0` was set back by a person. [Lesson 11](11_loading.ipynb) tells that.)
#
# ## And a tombstone
#
# Back to `promo`, whose topic was deleted. This is the last batch of its partition. It holds two records, 4 and 5, and both
# have no value. Remember: a length of −1 is written as `01`.

# %%
course.hexdump(promo[658:], 658)

# %% [markdown]
# **What is the offset of the record that deletes promo's committed offset (not the group)?**

# %%
# exercise: tombstone
tombstone = ...

# %%
course.check("tombstone", tombstone)

# %% [markdown]
# Beside each broker's files lies a diary of what was done to it and what that wrote. Its step "spring is over", the end of `promo`'s topic, says:

# %%
steps = json.loads(Path(course.find_data("harbour/1.0.1/acts.json")).read_text())
wrote = next(step["wrote"] for step in steps if step["step"] == "spring is over")
mine = [{"partition": 37, "first": batches[-1].base_offset, "last": batches[-1].last_offset}]
course.compare_with_broker(mine, wrote, "1.0.1")

# %% [markdown]
# ## Compression
#
# `offsets.topic.compression.codec` makes a broker compress its batches: the header stays as it is, and the records behind it shrink together.
# One commit of a few dozen bytes gains nothing, and most batches of this topic are just that. So it is off by default.

# %% [markdown]
# ## Older files
#
# Before 0.11 there were no batches: each message had its own header (*magic* 0 and 1), and a compressed set of messages was
# the value of a *wrapper* message. Files of that time are still about; `kg.open_log` reads them like the others.
#
# ## A small incident: 20 GB of parse errors a night
#
# A team has a program of its own that reads the *files* of `__consumer_offsets`, record by record. Since the payments team began to use
# transactions, it logs `cannot parse key 00 00 00 01` for each committed one, 20 GB a night. *What is it reading?* Decode that key as a record
# and look at what the message says.

# %%
try:
    kg.decode(bytes.fromhex("00000001"), bytes.fromhex("000000000000"))
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# `00 00` looks like record type 0, an offset of 0.8.2, and `00 01` like the length of a group's name: one byte, which is not
# there. It is the key of a commit marker. Kafka's own consumers leave control batches out; who reads the files must look at
# the **batch** before the record.
#
# ## In Kafka
#
# | what | where |
# |---|---|
# | batch and record | `DefaultRecordBatch`, `DefaultRecord` (clients) |
# | magic 0 and 1 | `LegacyRecord`, `AbstractLegacyRecordBatch` |
# | markers | `ControlRecordType`, `EndTransactionMarker` |
# | recovery after a crash | `LogSegment.recover` |
#
# ## What we left out, and why
#
# Beside a segment lie an index and a list of producers; a broker can make both anew from the `.log`, and so we read
# only that. How old batches go away is lesson 10.
#
# **Next:** [04 · Storing](04_storing.ipynb): what happens between `commitSync()` and the answer?
