# %% [markdown]
# # 03 · The log
#
# **What does the file on disk look like: batches, CRC, compression, control batches?**
#
# | after this lesson you can | minutes | needs Java |
# |---|---|---|
# | find your way in a hexdump of a segment, tell a commit from a marker and a tombstone, say what a checksum guards and what not | 25 + 20 | its last cell |
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
# 1. A partition is a file to which batches are **appended**. Nothing in it is ever changed. What is newest wins.
# 2. A commit of three partitions is one batch of three records: it is there as a whole or not at all.
# 3. The header says how long the batch is. A reader hops from header to header.
# 4. A checksum guards the records and most of the header. **Offset and length stand before it**: the broker sets them.

# %% [markdown]
# ## The file
#
# Partition 37 of the shop's 1.0.1 broker. It belongs to `promo`: somebody joined, committed twice, left, and the topic was deleted.
# Five batches, 769 bytes. The first 96 of them:

# %%
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

promo = Path(course.data("harbour/1.0.1/__consumer_offsets-37/00000000000000000000.log")).read_bytes()
course.hexdump(promo[:96])

# %% [markdown]
# Eight bytes of offset: 0. Then four of length: `00 00 01 11`. *Predict*: at which byte does the second batch begin? The length
# counts what follows **after** itself, so add the 12 bytes before. (`0x111` is 273.)

# %%
second_batch = ...

# %%
course.beside(second_batch, 12 + 0x111)

# %%
batches = list(kg.open_log(course.data("harbour/1.0.1/__consumer_offsets-37")))

for batch in batches:
    print(f"byte {batch.position:>3}, {batch.size} bytes: offsets {batch.base_offset} to {batch.last_offset}")

# %% [markdown]
# ## One batch, byte by byte
#
# The second one: a commit of one partition. *next* steps through header and record.

# %%
course.BatchExplorer(promo, 285)

# %% [markdown]
# The record's own numbers are **varints**: small numbers take one byte, and each offset and each time is told as the
# difference from the header's. `92 01` is 73: seven bits a byte, the low ones first, make 146, and *zigzag* writes twice
# the number for positive ones, so that −1 fits into one byte too (`01`).
# Inside stand, untouched, the key and the value of lesson 01:

# %%
print(kg.decode(batches[1].records[0].key, batches[1].records[0].value))

# %% [markdown]
# ## Exercise: the checksum
#
# Bytes 17 to 20 of a batch are the CRC-32C of everything behind them. Write `crc_is_right(batch)`; `crc32c(data)` computes one.

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
# there, with all that follows. Now look for a byte that nobody guards. (Try 7, and then 298.)

# %%
course.ByteBreaker(promo, broken=420)

# %% [markdown]
# The offset and the length stand in front of the checksum because the **broker** sets them when it appends: so it need
# not compute the checksum of a client's batch again. The leader's epoch is the broker's too, and unguarded. A wrong
# length does not go unnoticed: the next "batch" begins in the middle of something.
#
# ## What a transaction leaves
#
# `fraud-check` commits in transactions: the offsets are written first, and count only when the transaction is
# committed. Who says so? A **marker**: a batch of one record that is no record of the topic, but of Kafka itself
# (a *control batch*). Here are 600 bytes of partition 9, which `billing` and `fraud-check` share:

# %%
path = course.data("harbour/1.0.1/__consumer_offsets-9")
shared = (Path(path) / "00000000000000000000.log").read_bytes()

for batch in kg.open_log(path):
    if 2713 <= batch.position < 3281:
        print(f"\nbyte {batch.position}")
        course.hexdump(shared[batch.position : batch.position + batch.size], batch.position)

# %% [markdown]
# Two transactions: offsets, marker, offsets, marker. One was committed and one aborted. Look at bytes 21 and 22 of each
# batch, the attributes: `00 10` is transactional, `00 30` is transactional and control. In a marker the record's key is four
# bytes: version 0, and then 0 for abort or 1 for commit.
#
# **At which byte does the batch with the commit marker begin?**

# %%
# exercise: commit_marker
commit_marker = ...

# %%
course.check("commit_marker", commit_marker)
# course.hint("commit_marker")

# %% [markdown]
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
# The shop's diary agrees: the step "spring is over" of act 6 wrote offsets 4 to 5.

# %%
import json

steps = json.loads(Path(course.data("harbour/1.0.1/acts.json")).read_text())
wrote = next(step["wrote"] for step in steps if step["step"] == "spring is over")
mine = [{"partition": 37, "first": batches[-1].base_offset, "last": batches[-1].last_offset}]
course.confirm(mine, wrote, "1.0.1")

# %% [markdown]
# ## Compression
#
# `offsets.topic.compression.codec` makes a broker compress its batches; the header stays as it is, and only the
# records behind it shrink. For one commit that is no gain: one small record hardly shrinks. Here are 100
# commits in one batch, as nobody writes them, to see what the codecs can do:

# %%
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.record_batch import encode_batch

one = batches[1].records[0]
many = [LogRecord(offset, one.timestamp, one.key, one.value) for offset in range(100)]
print(f"none    {len(encode_batch(many)):>6} bytes")
for codec in [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD]:
    smaller = len(encode_batch(many, attributes=codec)) < len(encode_batch(many)) / 10
    print(f"{codec.name.lower():<7} less than a tenth: {smaller}")

# %% [markdown]
# ## Older files
#
# Before 0.11 there were no batches: each message had its own header (*magic* 0 and 1), and a compressed set of messages was
# the value of a *wrapper* message. Files of that time are still about; `kg.open_log` reads them like the others.
#
# ## A small incident: 20 GB of parse errors a night
#
# A team reads `__consumer_offsets` with a consumer of its own. Since the payments team began to use transactions, its
# log fills with `cannot parse key 00 00 00 01`. *What is it reading?* Decode that key as a record and look at what the
# message says; then look at lesson 01's list of types.

# %%
try:
    kg.decode(bytes.fromhex("00000001"), bytes.fromhex("000000000000"))
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# `00 00` looks like record type 0, an offset of 0.8.2, and `00 01` like the length of a group's name: one byte, which is not
# there. It is the key of a commit marker. A consumer of Kafka's own never shows control batches; theirs read
# the files. Whoever reads this topic must look at the **batch** before the record.
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
# Index files and producer snapshots lie beside a segment; a broker can make both anew from the `.log`, and so we read
# only that. How old batches go away is lesson 08.
#
# ## Last: a log that is not small
#
# A synthetic topic of 100,000 commits and tombstones, loaded on Spark: each task owns whole partitions and runs the same
# loader as everything above. Without Java 17 the cell says so.

# %% tags=["java"]
import tempfile

from kafkagroups import spark as kgs, synth

try:
    spark = kgs.session()
    kgs.register(spark)
    with tempfile.TemporaryDirectory() as folder:
        synth.write(folder, records=100_000, partitions=10, groups=500, seed=3)
        offsets = spark.read.format("consumer_offsets").option("table", "offsets").load(folder)
        offsets.groupBy("partition").count().orderBy("partition").show()
    spark.stop()
except kg.UsageError as error:
    print(f"No Spark here: {error}")

# %% [markdown]
# **Next:** lesson 04, *storing*, is to come: what happens between `commitSync()` and the answer.
