# %% [markdown]
# # 03 · The log
#
# **What does the file on disk look like: batches, checksums, control batches?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find batches and records in a hex dump; distinguish a commit, a marker and a tombstone; say what a checksum protects, and what it does not protect | {{minutes}} + 10 for later | no |
#
# **Which Kafka:** the format has been the same since 0.11. The files are from a 4.3.1 broker.
#
# ![A partition is a folder, for example __consumer_offsets-9. A segment is a file, named by its first offset. The file contains batches without gaps. Each batch has a header of 61 bytes and records.](pictures/03.svg)

# %% [markdown]
# Perhaps you will never read such a file, but your program relies on its structure. A commit can contain the offsets of several partitions. Each offset becomes a record, and the broker **appends** these records together, as one [**batch**](../docs/handbook/glossary.md#batch). A crash can leave half a batch. But each batch says how long it is, so a broker notices that bytes are missing, and drops the whole batch. So the log has all offsets of the commit, or none.
#
# Each batch begins with a **header**, and its records follow. The header answers three questions of a reader:
#
# 1. **Where does the next batch begin?** The header has the length of the batch.
# 2. **Are the bytes intact?** The header has a checksum.
# 3. **Do the records count?** Records can belong to a *transaction*, which may fail (explained below). The header says so.

# %% [markdown]
# ## A segment
#
# A partition is a folder of files, its [*segments*](../docs/handbook/glossary.md#segment). After 100 MiB (`offsets.topic.segment.bytes`), the broker begins the next one. In partition 37 of the shop's broker, the first 987 bytes are about the group `promo`. These are the first 96:

# %%
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

log = course.find_data("harbour/4.3.1/__consumer_offsets-37")
promo = (Path(log) / "00000000000000000000.log").read_bytes()[:987]
course.hexdump(promo[:96])

# %% [markdown]
# Question 1: where does the next batch begin? The first eight bytes are the offset of the first record: 0. The next four, `00 00 00 59`, are the length: 89. It counts the bytes **after** itself.
#
# *Predict*: at which byte does the second batch begin?

# %%
# prediction
second_batch = ...

# %%
batches = [batch for batch in kg.open_log(log) if batch.position < 987]

course.reveal("second_batch", second_batch, batches[1].position)

# %% [markdown]
# So question 1 needs only twelve bytes of each batch. `kg.open_log` jumps from batch to batch, and finds seven batches with one record each:

# %%
for batch in batches:
    record = batch.records[0]
    what = "commit" if kg.decode(record.key, record.value).type == 1 else "group"
    ending = ", no value (tombstone)" if record.value is None else ""
    print(f"from byte {batch.position:>3}: {batch.size:>3} bytes, offset {batch.base_offset}, {what}{ending}")

# %% [markdown]
# The group was created (offset 0, lesson 06), a consumer joined (1), committed twice (2 and 3) and left (4). Later, its topic `promo-spring` was deleted (5), and then the group (6).
#
# ## One batch, byte by byte
#
# The batch that begins at byte 406 of the file is a commit of one partition. Its header takes 61 bytes. The numbers on the left count **from the start of the batch**:

# %%
start = batches[2].position
course.hexdump(promo[start : start + 61])

# %% [markdown]
# The lesson needs these fields:
#
# | bytes | field | used for |
# |---|---|---|
# | 0–7 | offset of the first record | |
# | 8–11 | length | question 1 |
# | 12–15 | leader epoch | |
# | 16 | magic, the number of the format | |
# | 17–20 | checksum | question 2 |
# | 21–22 | attributes | question 3 |
# | 43–50 | producer id | question 3 |
# | 51–52 | producer epoch | lesson 08 |
#
# Inside the record are a key and a value (lesson 01):

# %%
record = kg.decode(batches[2].records[0].key, batches[2].records[0].value)
print(f"key    group {record.key.group}, topic {record.key.topic}, partition {record.key.partition}")
print(f"value  offset {record.value.offset}, metadata '{record.value.metadata}'")

# %% [markdown]
# ## The checksum
#
# Question 2: are the bytes intact? A disk can change a byte, and the length does not show it. So the header has a checksum, a *CRC-32C*: a number computed from all bytes of the batch that follow the checksum. If one of these bytes has changed, a reader computes another number.

# %% [markdown]
# ## After a wrong checksum
#
# After a crash, a broker checks the batches at the end of its log, which is called *recovery*. At the first wrong checksum, the broker *truncates* the log: it removes this batch **and everything after it**.
#
# Why not only this batch? Several brokers store the partition. One of them is the partition's leader, and the others, the *followers*, copy the leader's log. A follower asks the leader only for what comes after its own last record. So take a follower that finds record 5 damaged. If it removed only record 5 and kept 6 and 7, it would ask for record 8, and record 5 would never come back.
#
# After a clean stop, a broker checks nothing: it loads the bytes as they are, so a changed byte can become [an offset that nobody has committed](../docs/operator.md#8-a-segment-is-damaged).
#
# ## Are the removed batches lost?
#
# That depends on the leader of the partition:
#
# | the leader is | what happens |
# |---|---|
# | another broker | The leader still has these batches, and the truncated broker copies them from there. |
# | the truncated broker | The others must follow the leader: they shorten their copies to match its log, and the batches are lost. |
#
# In this figure, one byte of the file has changed on the disk. Step from *the file* to *after recovery* to see what the broker keeps. Choose another *broken byte*<span class="live-only">, or type a position in the file and a byte</span>. Can you find a byte whose change goes unnoticed?

# %%
# figure
course.Segment(promo)

# %% [markdown]
# ## Exercise: an unnoticed change
#
# On each of three disks, one byte of a segment changed. When the broker starts after a crash, it checks the batches. Which change does it **not** notice? The figure can test each one.
#
# - **A**: the lowest byte of the field *length*.
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
# The offset, the length, the leader epoch and the magic of a batch stand before the checksum, which does not cover them:
#
# - The **length** and the **magic** must be read before the checksum can be computed at all.
# - The **offset** and the **leader epoch**: in normal topics, the client computes the checksum before it sends the batch, and the broker sets these two fields later. So the checksum cannot cover them. `__consumer_offsets` has the same format, although here the broker writes everything.
#
# In the figure, a batch begins at byte 556, so its offset ends at byte 563, and its leader epoch at byte 571. What does a broker notice?
#
# - A wrong **leader epoch** goes unnoticed. (This is the leader epoch of the partition of `__consumer_offsets`. A commit has another leader epoch, that of the partition that the group reads.)
# - The **offset** of a batch: a broker notices a wrong one only if it is lower than that of the batch before.
# - A wrong **length** is noticed, because the broker then computes the checksum of too many or too few bytes.
#
# </details>
#
# ## What a transaction leaves in the log
#
# Question 3: do the records count? A [*producer*](../docs/handbook/glossary.md#producer) is a program that writes records. It can write some of them in a [**transaction**](../docs/handbook/glossary.md#transaction): then either all of them count, or the transaction is *aborted*, and none of them counts. The shop's group `fraud-check` commits its offsets in this way.
#
# When the offsets are appended, nobody knows how the transaction will end, and an appended record cannot be changed. So when the transaction ends, the broker appends one more record, the [**marker**](../docs/handbook/glossary.md#marker), which says *commit* or *abort*. In between, other groups go on writing:
#
# ```
#  batch   offsets of fraud-check   producer id 1   do not count yet
#  batch   other commits            producer id −1  (no transaction)
#  batch   marker: commit           producer id 1   now the offsets count
# ```
#
# The [*producer id*](../docs/handbook/glossary.md#producer-id) in the header connects a marker with the records of its transaction. A marker is alone in its batch, which is called a [**control batch**](../docs/handbook/glossary.md#control-batch): Kafka writes control batches for itself, and consumers never hand them to an application.
#
# ## How to recognise a marker
#
# The *attributes* in the header are a sum of flags. Two flags matter here: hex 10 for a batch in a transaction, and hex 20 for a control batch. So `00 10` is a batch in a transaction, and `00 30` is a marker, which is both.
#
# After the 61 bytes of header comes the marker. Its first five fields are small numbers, so each takes one byte:
#
# | bytes | field |
# |---|---|
# | 61 | length of the record |
# | 62 | attributes of the record |
# | 63 | its time, counted from the batch's |
# | 64 | its offset, counted from the batch's |
# | 65 | length of the key |
# | 66–67 | key: version of the marker |
# | 68–69 | key: type of the marker, `00 00` for abort or `00 01` for commit |

# %% [markdown]
# ## Exercise: the commit marker, in hex
#
# In partition 9, one transaction of `fraud-check` was committed, and one was aborted. These are the batches of their markers. The numbers on the left are positions in the file, in decimal:

# %%
shared = (Path(course.find_data("harbour/4.3.1/__consumer_offsets-9")) / "00000000000000000000.log").read_bytes()

course.hexdump(shared[3352:3430], 3352)
print()
course.hexdump(shared[3633:3711], 3633)

# %% [markdown]
# At which position does the batch with the **commit** marker begin? And which number is in its bytes 51 and 52? (Byte 51 of the first batch is at position 3352 + 51. The number is the *producer epoch*, which lesson 08 explains.) Write a pair, for example `(1234, 5)`.

# %%
# exercise: commit_marker
commit_marker = ...

# %%
course.check("commit_marker", commit_marker)
# course.hint("commit_marker")

# %% [markdown]
# ## A small incident: 20 GB of parse errors per night
#
# A team wrote a program that reads the *files* of `__consumer_offsets`, record by record, and does not ask question 3. Then another team began to use transactions. Now the program logs `cannot parse key 00 00 00 01` for each transaction, 20 GB per night. `kg.decode` cannot read this key, either:

# %%
try:
    kg.decode(bytes.fromhex("00000001"), bytes.fromhex("000000000000"))
except kg.InvalidRecord as error:
    print(error)

# %% [markdown]
# <details><summary>What does the program read?</summary>
#
# The program takes the key of a commit marker for the key of a record:
#
# | bytes | in a marker | what the program reads |
# |---|---|---|
# | `00 00` | the version of the marker, 0 | the record type, 0 |
# | `00 01` | the type of the marker, *commit* | the length of the group's name, 1; but no name follows |
#
# Kafka's consumers skip control batches, and so must a program that reads the files: look at the header of a batch before you decode its records.
#
# </details>

# %% [markdown]
# ## A tombstone in the file
#
# When the topic of `promo` was deleted, the broker wrote a tombstone for the group's offset. In each record, the value's length stands before the value. In a tombstone, this length is −1, written as `01`. Here it is the second-to-last byte of the batch. The last byte, `00`, is the number of *record headers*, which records of this topic never have.

# %%
course.hexdump(promo[815:910], 815)

record = batches[5].records[0]
key = kg.decode(record.key, record.value).key
print(f"\noffset {record.offset}: {key.group}, {key.topic}-{key.partition}, {record.value or 'no value'}")

# %% [markdown]
# ## Inside a record: varints
#
# Why does a tombstone have `01` for the length −1? (You can skip this section and its exercise.) Inside a record, most numbers, such as lengths, are small. So they are [**varints**](../docs/handbook/glossary.md#varint), in which a small number takes one byte:
#
# 1. The first byte holds the lowest seven bits, the next byte the next seven, and so on. The **highest bit** of a byte is 1 if another byte follows.
# 2. So step 1 gives a number n that is never negative. But a field can have a negative value, such as the length −1. So an even n stands for n / 2, and an odd n for −(n + 1) / 2. This is called *zigzag*, and makes −1 as short as 1.
#
# | bytes | the seven bits | n | after zigzag |
# |---|---|---|---|
# | `36` | 0x36 = 54 | 54 | even: 54 / 2 = **27** |
# | `ae 01` | 0xae without its highest bit is 0x2e = 46; then 1 | 46 + 1 · 128 = 174 | even: 174 / 2 = **87** |
# | `01` | 1 | 1 | odd: −(1 + 1) / 2 = **−1** |
#
# A *uvarint* (lesson 01) has only step 1.

# %% [markdown]
# ## Exercise for later: a varint
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
# ## Where 3.9 differs
#
# The format is the same. In 3.9, a batch has the records of one request. In 4.x, a batch can have those of several requests, because the coordinator can collect requests for a short time before it appends (`group.coordinator.append.linger.ms`).
#
# In both, `offsets.topic.compression.codec` chooses the compression, from 0 (none, the default) to 4 (zstd). The number is in the lowest three bits of the attributes.
#
# <details><summary>Other versions</summary>
#
# The magic is 2 since Kafka 0.11. Before 0.11, each message had its own header (magic 0 and 1). Up to 3.9, the setting `log.message.format.version` could still choose one of these old formats, and brokers then wrote the commits in it. Kafka 4.x writes only magic 2.
#
# </details>
#
# ## Check yourself
#
# <details><summary>A broker truncates its log after a crash, and then becomes the leader. What do the followers do?</summary>
#
# They shorten their logs to match the leader's log, so the records are lost, although the followers had them.
#
# </details>
#
# <details><summary>Why does a marker follow the records of a transaction, instead of a flag in them?</summary>
#
# When the records are appended, nobody knows how the transaction will end, and an appended record cannot be changed.
#
# </details>
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
# - The offsets of one commit are in one batch with one checksum, so the log has them together or not at all.
# - The checksum covers all bytes after it. The offset, the length, the leader epoch and the magic are not covered.
# - A marker is in a control batch, which has the attributes `00 30`. The key of the marker says abort or commit.
# - A tombstone is a record whose value has the length −1.

# %% [markdown]
# ## For your consumer
#
# A broker can accept some offsets of a `commitSync` and refuse the others (lesson 07). Those that it accepts are one batch, so a crash keeps all of them or none. If your own tool reads `__consumer_offsets`, set `isolation.level=read_committed`. Then the consumer skips the offsets of aborted transactions.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk). The folder is in `log.dirs` of the broker.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `server.log` of a broker says that it found a corrupt batch and truncated the segment | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | `Leader` is the broker from which the others copy | If another broker leads, wait: the truncated broker copies the records from it. If the truncated broker leads, the others shorten their logs within seconds. If a broker is still down, its log still has the removed batches: **copy its folder before you start it**, and [compare](../docs/operator.md#9-two-replicas-differ) the copy with the leader's log |
# | A file seems damaged | `kafkagroups load PATH --past-damage` | The command also prints the offsets after the damage | **Before** the broker starts, copy the file from its disk, because the start may truncate it. (`pull` stops at the damage.) [Set the lost offsets](../docs/operator.md#8-a-segment-is-damaged) from this copy |
# | Your own program cannot parse keys | on the broker, in the folder: `kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log` | `isControl: true` marks a control batch | Let the program skip control batches |
#
# ## What we left out, and why
#
# The index files: a broker can rebuild them from the `.log` file. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [04 · Storing](04_storing.ipynb): what happens between `commitSync()` and the answer.
