# %% [markdown]
# # 08 · Transactions
#
# **When does an offset in a transaction count?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offset counts after commits, aborts and plain commits; explain UNSTABLE_OFFSET_COMMIT; say why a producer's epoch rises; find a hanging transaction and end it safely | {{minutes}} | no |
#
# ![In the log, an offset of producer 1 is pending until the marker that commits the transaction, and counts from there on.](pictures/08.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. An offset in a transaction is **pending** until a *marker* of its producer is in the log.
# 2. The marker decides **whether** a pending offset *counts*: a fetch can return it. If several offsets of one partition count, the coordinator uses the offset whose record is later in the log.
# 3. While an offset is pending, a client that asks for stable offsets gets `UNSTABLE_OFFSET_COMMIT`.
# 4. If no marker comes, the offset stays pending forever. The *log cleaner* (lesson 10) does not go beyond it.

# %% [markdown]
# ## Why offsets are in transactions
#
# `fraud-check` reads payments and writes alarms to another topic. If the service writes an alarm and crashes before its commit, the next process writes a second alarm. If the service commits first and then crashes, the alarm is lost.
#
# A transaction prevents both: the alarms and the offsets count together, or not at all. This is called [*exactly once*](../docs/handbook/glossary.md#exactly-once).

# %% [markdown]
# Two coordinators take part in a transaction:
#
# - The producer of `fraud-check` sends its offsets to the **group coordinator**, with `sendOffsetsToTransaction`. The group coordinator appends the offsets to `__consumer_offsets`.
# - At the end, the producer asks the [**transaction coordinator**](../docs/handbook/glossary.md#transaction-coordinator) for a commit or an abort. The transaction coordinator writes a **marker** into each partition with records of this transaction.
#
# `sendOffsetsToTransaction` can name the member. Then an unknown member gets `UNKNOWN_MEMBER_ID`, and an old generation gets `ILLEGAL_GENERATION`. If it names no member, these checks are left out. Offsets are accepted in CompletingRebalance, too.

# %% [markdown]
# ## Four transactions in a real log
#
# A 4.3.1 broker wrote this log of `fraud-check`. It has four transactions of producer 1:
#
# - The first transaction was committed, and the second one was aborted.
# - During the third transaction, somebody set `payments-0` back with a [*plain* commit](../docs/handbook/glossary.md#plain-commit). A plain commit is outside of transactions, so it counts without a marker.
# - The fourth transaction has no marker, because the brokers were killed before it ended.

# %%
from kafkagroups import course

log = course.find_data("harbour/4.3.1/__consumer_offsets-9")
lines = [line for line in course.read_lines(log) if line.group == "fraud-check" or line.record_type in ("commit", "abort")]
print(*lines, sep="\n")

# %% [markdown]
# *Predict*: a broker has loaded the records up to 31, and the marker at 32 is not yet in the log. Which offset of `payments-1` counts?

# %%
# prediction
payments_1 = ...

# %%
import kafkagroups as kg

before = kg.load(log, until=32)["fraud-check"]

course.reveal("payments_1", payments_1, before.offsets[kg.TopicPartition("payments", 1)].offset)

# %% [markdown]
# <details><summary>Why?</summary>
#
# Record 24 counts, because its transaction was committed. Record 27 was aborted. Record 30 still waits for its marker.
#
# </details>
#
# ## The record later in the log wins
#
# Now the broker loads the whole log. The marker at 32 commits the third transaction, so its records 29 and 30 may count:

# %%
for partition, commit in sorted(kg.load(log)["fraud-check"].offsets.items()):
    print(partition, "=", commit.offset)

# %% [markdown]
# - `payments-1`: record 30 now counts, so the offset is 31.
# - `payments-0`: record 29 and the plain commit at 31 both count. Record 31 is later in the log, so the offset is 25.
#
# The position of the **record** decides. The position of the marker does not matter.
#
# ## Record by record
#
# A coordinator has two maps in memory: one for offsets that count, and one for pending offsets. The figure shows both maps for a shorter log with two producers. Load the log record by record. Then let the transactions end in another way:

# %%
# figure
course.TwoMaps()

# %% [markdown]
# ## Stable offsets
#
# With *requireStable* (lesson 05), a client asks for stable offsets only. While an offset is pending, the answer for its partition is `UNSTABLE_OFFSET_COMMIT`. The client waits and asks again.
#
# Why not the old offset? It is too small if the transaction is committed a moment later. A consumer that starts there processes the records of the transaction a second time.
#
# A client asked a broker that had loaded the log of `fraud-check` for stable offsets:

# %%
answers = course.read_answers("harbour/4.3.1")
stable = answers["stable_every_live_partition_named"]["fraud-check"]
for partition, answer in sorted(stable.items()):
    print(f"{partition}: {answer if isinstance(answer, str) else answer['offset']}")

ours = course.fetch_offsets(kg.load(log), ["fraud-check"], require_stable=True)["fraud-check"]
course.compare_with_broker(ours, stable, "4.3.1")

# %% [markdown]
# The fourth transaction is still open. At the end of its timeout (`transaction.timeout.ms`, 60 seconds by default), the transaction coordinator writes an abort marker. Then the answer for `payments-1` is 31.

# %% [markdown]
# ## Exercise: after two markers, on paper
#
# A log has these records of one group. All offsets are for `orders-0`:
#
# | offset in the log | record |
# |---|---|
# | 10 | plain commit of 5 |
# | 11 | commit of 9 in a transaction of producer 4 |
# | 12 | commit of 7 in a transaction of producer 8 |
# | 13 | plain commit of 6 |
# | 14 | marker: the transaction of producer 8 is committed |
# | 15 | marker: the transaction of producer 4 is aborted |
#
# Which offset does a fetch of `orders-0` return now?

# %%
# exercise: after_two_markers
after_two_markers = ...

# %%
course.check("after_two_markers", after_two_markers)
# course.hint("after_two_markers")

# %% [markdown]
# ## The epoch of a producer
#
# An application gives its producer a name, the `transactional.id`. Kafka gives the producer a *producer id*, which is a number, and an *epoch*. Both are in the header of each batch in a transaction.
#
# If a second process starts with the same `transactional.id`, it gets the same producer id and a higher epoch. From then on, brokers refuse requests with the old epoch. The first process is [*fenced*](../docs/handbook/glossary.md#fence). So a slow process cannot end a transaction of its successor.

# %% [markdown]
# ## Why the epoch rises at the end of a transaction
#
# A request with offsets can be delayed in the network until its transaction has ended. Up to Kafka 3.6, the broker could accept this late request, because its producer id and its epoch were still right. The late record came after the marker, so it began a new transaction, which no client ended.
#
# Kafka 3.7 to 3.9 refuse the late request, unless the producer has begun its next transaction: the late offset can then join it.
#
# Since Kafka 4.0, each end of a transaction raises the producer's epoch by one. The marker already has the new epoch. A late request has the old epoch, so the broker refuses it. The client must have 4.0, too.

# %% [markdown]
# *Predict*: the records of the first transaction in the log above have epoch 0. Which epoch do the records of the **fourth** transaction have?

# %%
# prediction
epoch_of_the_fourth = ...

# %%
batches = [batch for batch in kg.open_log(log) if batch.producer_id >= 0]
with course.fold("epoch_of_the_fourth", epoch_of_the_fourth, batches[-1].producer_epoch):
    for batch in batches:
        what = "marker" if batch.is_control else "two offsets"
        print(f"record {batch.base_offset}: {what:<12} epoch {batch.producer_epoch}")

# %% [markdown]
# A coordinator that **loads** a log does not compare epochs. A marker of producer 1 ends all pending offsets of producer 1, with any epoch.

# %% [markdown]
# ## A transaction that hangs
#
# A [*hanging* transaction](../docs/handbook/glossary.md#hanging-transaction) is open in the log of a partition, but not in the transaction coordinator. So the marker never comes. A late request is one cause. A hanging transaction has three effects:
#
# - Clients that ask for stable offsets get `UNSTABLE_OFFSET_COMMIT`, again and again.
# - The log cleaner does not go beyond the first record of the transaction. So the partition grows without limit.
# - Each failover takes longer, because the next broker reads the whole log.
#
# `kafka-transactions.sh list` prints the state of each producer. `Ongoing` means an open transaction. `CompleteCommit` and `CompleteAbort` mean that the last transaction has ended. `kafka-transactions.sh abort` writes a missing marker. "At 3 am" has the complete commands.

# %% [markdown]
# ## Exercise: which one hangs?
#
# The brokers have version 3.6, and it is 10:05. Transactions have a timeout of 15 minutes. The end of a log has records of three producers:
#
# - **A**: an offset of producer 1 is from 10:00. No marker of producer 1 follows. `kafka-transactions.sh list` shows producer 1 as `Ongoing`.
# - **B**: an abort marker of producer 2 is from 09:58:00. An offset in a transactional batch of producer 2 follows at 09:58:02. The list shows producer 2 as `CompleteAbort`.
# - **C**: an offset of producer 3 is from 10:03. An abort marker of producer 3 follows at 10:04. The list shows producer 3 as `CompleteAbort`.
#
# Which producer has a hanging transaction? Write the letter as a text.

# %%
# exercise: which_hangs
which_hangs = ...

# %%
course.check("which_hangs", which_hangs)
# course.hint("which_hangs")

# %% [markdown]
# ## Tombstones and group records in a transactional batch
#
# Coordinators write only offsets into transactional batches. But a tool that copies the topic can write **all** records in its own transactions.
#
# **Commits wait for the marker.** A group record and the tombstone of a group count immediately, even if the transaction is aborted. For tombstones of offsets, the coordinators differ:
#
# | tombstone of an offset | the new coordinator deletes | the classic coordinator deletes |
# |---|---|---|
# | in a transactional batch | the committed offset and all pending offsets | only the pending offset of the same producer |
# | outside of transactions, as brokers write it (lesson 09) | the same | only the committed offset |
#
# Real brokers loaded these two test logs. `g` is the group:

# %%
course.print_crafted_log("t-txn-tomb-committed")
print()
course.print_crafted_log("t-gt-in-txn-abort")

# %% [markdown]
# ## Exercise: replay with transactions
#
# `course.read_lines` returns one line for each record. A line has these fields:
#
# | field | content |
# |---|---|
# | `line.record_offset` | the position of the record in the log |
# | `line.record_type` | `"offset"`, `"group"`, `"commit"` or `"abort"`. The last two are markers |
# | `line.group`, `line.partition` | for example `"billing"` and `"orders-0"` |
# | `line.value` | the committed offset, or `None` for a tombstone |
# | `line.producer` | the producer's id, or `None` outside of transactions |
#
# Write `replay_transactions(lines)`. It returns a dictionary. Each key is a pair `(group, partition)`. Its value is the offset that counts at the end. In the logs of this exercise, no tombstone is in a transaction. When a tombstone deletes an offset, nothing is pending.

# %%
# exercise: replay_transactions
def replay_transactions(lines):
    ...

# %%
course.check("replay_transactions", replay_transactions)
# course.hint("replay_transactions")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | epoch of the marker | one more than the epoch of the records, if the client has 4.0 or newer | equal to the epoch of the records. After a timeout, or if a new process takes over, it is higher |
# | topic id in transactional commits | since 4.4 | never |
#
# <details><summary>Other versions</summary>
#
# Transactions exist since 0.11. If the topic still has an older message format, a broker refuses transactional commits with `UNSUPPORTED_FOR_MESSAGE_FORMAT`. *requireStable* exists since 2.5. Before that, a consumer got the old offset while a transaction was open. `kafka-transactions.sh` exists since 3.0. Since 3.7, a group coordinator first asks the transaction coordinator whether the transaction is open. With `transaction.partition.verification.enable=false`, it does not ask, and a late request can cause a hanging transaction.
#
# </details>
#
# ## Check yourself
#
# <details><summary>When does a group record in a transactional batch count?</summary>
#
# Immediately, even if the transaction is aborted. The same is true for the tombstone of a group.
#
# </details>
#
# <details><summary>What does the tombstone of an offset delete if it is in a transactional batch?</summary>
#
# The new coordinator immediately deletes the committed offset and all pending offsets of the partition. The classic coordinator deletes only the pending offset of the same producer. Outside of transactions, it is the other way round: the classic coordinator deletes only the committed offset.
#
# </details>
#
# ## In five lines
#
# - An offset in a transaction is pending until a marker of its producer.
# - After a commit marker, the offset counts. After an abort marker, it never counts.
# - Of all offsets that count, the offset that is later in the log wins.
# - `UNSTABLE_OFFSET_COMMIT` means that a transaction is open. The client asks again.
# - A transaction without a marker stops the log cleaner.

# %% [markdown]
# ## For your consumer
#
# - If your application reads topics of a transactional service, set `isolation.level=read_committed`. Otherwise it also reads records of aborted transactions.
# - Do not mix `commitSync` and `sendOffsetsToTransaction` in one group. The commit that is later in the log wins, and the plain commit may be later.
# - Restart a crashed service with the same `transactional.id`: the new process first aborts the open transaction. Without this restart, other consumers wait until `transaction.timeout.ms` is over.
# - After an abort, the group continues at its last offset that counts. The service reads the later payments again, and writes the alarms again. A consumer with `read_committed` never sees the aborted alarms.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `UNSTABLE_OFFSET_COMMIT` for minutes | `kafkagroups stats PATH` | It names the producer id of the open transaction, its first offset and its groups | Wait for the transaction's timeout first |
# | The error does not end | `kafka-transactions.sh --bootstrap-server localhost:9092 find-hanging --broker-id 1` | It prints hanging transactions | Find the producer before you abort |
# | Which application is it? | `kafka-transactions.sh --bootstrap-server localhost:9092 list` | It prints the `transactional.id`, the producer id and the state of each producer | If the state is `Ongoing`, do not abort: the transaction coordinator will end the transaction |
# | The transaction hangs | `kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic __consumer_offsets --partition 9 --start-offset 870` | It writes an abort marker. 870 is the first offset of the hanging transaction | The group continues at its last offset that counts. `kafkagroups load PATH --group fraud-check` prints this offset |

# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | a transactional commit | `OffsetMetadataManager.commitTransactionalOffset` | `GroupMetadata.prepareTxnOffsetCommit`, `onTxnOffsetCommitAppend` |
# | its append failed | the records are not replayed | `GroupMetadata.failPendingTxnOffsetCommit` |
# | the marker | `OffsetMetadataManager.replayEndTransactionMarker` | `GroupMetadata.completePendingTxnOffsetCommit` |
# | which one is newer | `OffsetAndMetadata.recordOffset` | `CommitRecordMetadataAndOffset.olderThan` |
# | epochs | `TransactionMetadata`, `prepareComplete` | the same |
#
# </details>

# %% [markdown]
# ## What we left out, and why
#
# The transaction coordinator has its own topic, `__transaction_state`. It contains no offsets of groups.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [09 · Deleting](09_deleting.ipynb): how do you delete from a file that only grows?
