# %% [markdown]
# # 08 · Transactions
#
# **When does an offset in a transaction count?**
#
# **Which Kafka:** every 4.x, with the new *group coordinator*. **Which groups:** all, with the classic and the new protocol.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offset a fetch returns after commits inside and outside of transactions; explain UNSTABLE_OFFSET_COMMIT; find a hanging transaction and end it safely | {{minutes}} + 10 for later | no |
#
# ![In the log, an offset of producer 1 is pending until the marker that commits the transaction, and counts from there on.](pictures/08.svg)

# %% [markdown]
# Three things to hold on to:
#
# 1. An offset in a transaction is **pending** until its producer's *marker* is in the log.
# 2. An offset *counts* if it was committed outside of a transaction, or if the marker of its transaction commits it. Of several offsets that count, the last one in the log *wins*: a fetch returns it.
# 3. While an offset is pending, a stable fetch gets `UNSTABLE_OFFSET_COMMIT`. If no marker comes, the consumers of the group stand still.

# %% [markdown]
# ## Why offsets are in transactions
#
# `fraud-check` reads payments and writes alarms to another topic. If it writes the alarm first, a crash before the commit repeats the alarm. If it commits first, a crash loses the alarm. In a transaction, the alarms and the offsets count together or not at all, which is called [*exactly once*](../docs/handbook/glossary.md#exactly-once).
#
# The word *commit* has two meanings here: a consumer commits an **offset**, which stores a position, and a producer commits a **transaction**, which makes everything in it count.
#
# The service's loop, with the names of the Java client (its consumer has `enable.auto.commit=false`, because an automatic commit would be outside of the transaction):
#
# ```
# producer.initTransactions()
# while True:
#     records = consumer.poll()
#     producer.beginTransaction()
#     producer.send(...)                                  # the alarms
#     producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata())
#     producer.commitTransaction()                        # after an error: see below
# ```
#
# The producer sends the offsets to the **group coordinator**, which appends them to `__consumer_offsets`. `commitTransaction` and `abortTransaction` go to the [**transaction coordinator**](../docs/handbook/glossary.md#transaction-coordinator), which writes a **marker** into each partition that has records of the transaction.
#
# **Always pass `consumer.groupMetadata()`.** It contains the member id and the generation, so the group coordinator can check them (lesson 07). With only the group id, a removed member can overwrite the offset.

# %% [markdown]
# ## Four transactions in a real log
#
# A 4.3.1 broker wrote this log of `fraud-check`. It has four transactions of producer 1:
#
# - The first was committed, and the second was aborted.
# - During the third, somebody committed offset 25 of `payments-0` outside of any transaction. This commit counts at once.
# - The fourth has no marker: the brokers were killed before.

# %%
from kafkagroups import course

log = course.find_data("harbour/4.3.1/__consumer_offsets-9")
lines = [line for line in course.read_lines(log) if line.group == "fraud-check" or line.record_type in ("commit", "abort")]
print(*lines, sep="\n")

# %% [markdown]
# *Predict*: a broker has loaded the records up to 31, and the marker at 32 is not yet in the log. Which offset of `payments-1` wins?

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
# Record 24 wins, because its transaction was committed. Record 27 was aborted. Record 30 is pending until its marker comes.
#
# </details>
#
# ## The record later in the log wins
#
# Now the broker loads the whole log. The marker at 32 commits the third transaction, so its records 29 and 30 count from here on:

# %%
for partition, commit in sorted(kg.load(log)["fraud-check"].offsets.items()):
    print(partition, "=", commit.offset)

# %% [markdown]
# For `payments-1`, record 30 is the last one that counts, so it wins. For `payments-0`, two records count now: record 29, and record 31 outside of the transaction. Record 31 is later in the log, so 25 wins. Only the places of these two records matter, and not the place of the marker.
#
# ## Record by record
#
# A coordinator has two maps in memory, one for offsets that count and one for pending offsets. A marker of producer 1 ends all pending offsets of producer 1 in this partition of `__consumer_offsets`. Step through the figure, and then let the transactions end in another way.

# %%
# figure
course.TwoMaps()

# %% [markdown]
# <details><summary>A group record or a tombstone in a transactional batch</summary>
#
# Only commits wait for a marker. A group record or a tombstone in a transactional batch, which no broker writes, takes effect at once, even if the transaction is aborted ([the logs](../docs/handbook/tombstones.md#the-tombstone-of-an-offset-in-a-transactional-batch)).
#
# </details>
#
# ## Stable offsets
#
# While an offset is pending, a consumer gets `UNSTABLE_OFFSET_COMMIT` (lesson 05). What would happen if the consumer got the older offset?
#
# 1. Process A writes its alarms, calls `commitTransaction`, and dies. The transaction is committed, but the marker is not yet in this partition.
# 2. Process B takes over, gets the old offset, and begins there.
# 3. The marker comes, so A's alarms count, and B writes each of them again.
#
# We send the requests of the third transaction to brokers of both versions. `log ←` is a record that the broker wrote:

# %%
# script
from IPython.display import display

from kafkagroups.coordinator import OffsetCommit

PAYMENTS_0 = kg.TopicPartition("payments", 0)
TRANSACTION = {"transactional_id": "fraud-check", "producer_id": 1, "producer_epoch": 0}


def third_transaction(broker):
    group = "fraud-check"
    yield "a commit of 20", broker.offset_commit(group, {PAYMENTS_0: OffsetCommit(20)})
    yield "a commit of 30 in a transaction", broker.txn_offset_commit(group, {PAYMENTS_0: OffsetCommit(30)}, **TRANSACTION)
    yield "a fetch", broker.offset_fetch(group)
    yield "a fetch of stable offsets", broker.offset_fetch(group, require_stable=True)
    yield "a commit of 25, outside of the transaction", broker.offset_commit(group, {PAYMENTS_0: OffsetCommit(25)})
    yield "the transaction ends", course.end_transaction(broker, group, 1, commits=True)
    yield "a fetch of stable offsets, again", broker.offset_fetch(group, require_stable=True)


course.compare_brokers(third_transaction, ("4.3.1", "3.9.2"))

# %% [markdown]
# If the producer crashes, the consumer waits until the transaction's timeout, by default 60 seconds. Then the transaction coordinator writes an abort marker.

# %% [markdown]
# ## Exercise: after two markers, on paper
#
# A log has these records of a group for `orders-0`:
#
# | offset in the log | record |
# |---|---|
# | 10 | commit of 5, outside of a transaction |
# | 11 | commit of 9 in a transaction of producer 4 |
# | 12 | commit of 7 in a transaction of producer 8 |
# | 13 | commit of 6, outside of a transaction |
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
# ## A second process is fenced
#
# If a process wakes up after a pause, and a new one has taken over its payments, both would write the same alarms. So an application gives its producer a name, the `transactional.id`, which `initTransactions` sends to the transaction coordinator. The answer has two numbers: the *producer id*, the same for each process with this name, and the [*producer epoch*](../docs/handbook/glossary.md#producer-epoch), higher for each new process.
#
# Each request of a producer contains both numbers, and brokers refuse a producer epoch below the newest one. So the old process is [*fenced*](../docs/handbook/glossary.md#fence): it can neither continue its own transaction nor touch one of the new process.
#
# ## From the exception to your code
#
# | exception of Java's producer | what happened | what your code should do |
# |---|---|---|
# | `ProducerFencedException` | A newer process has this `transactional.id`. | Close the producer and stop. |
# | `CommitFailedException`, from `sendOffsetsToTransaction` | The consumer is not a member any more, or its generation is old. | Abort the transaction, and call `poll`, which joins again. |
# | `TimeoutException`, from `commitTransaction` | No answer for 60 seconds (`max.block.ms`). Perhaps the transaction is committed. | Call `commitTransaction` again, or close the producer. You cannot abort now. |
# | `AuthorizationException`, `OutOfOrderSequenceException` | A permission is missing, or the producer's records are out of order. | Close the producer and stop. |
# | another `KafkaException` | This transaction cannot succeed. | Abort it. |
#
# An abort does not move the consumer back: in memory, its position is already after the payments of the aborted transaction, so they would be skipped. So after `abortTransaction`, set the position back to the committed offsets (`seek`) before the next `poll`.

# %% [markdown]
# ## A transaction that hangs
#
# After a marker, the producer's next transactional record begins a new transaction. Suppose that a request with offsets is delayed in the network, and arrives after the marker. Then its record begins a new transaction:
#
# ```
#  record   time
#  100      10:00:00   fraud-check payments-0 = 50, producer 7
#  101      10:00:05   producer 7 aborts
#  102      10:00:07   fraud-check payments-1 = 51, producer 7     ← the late request
#           10:30:00   no marker follows
# ```
#
# Nobody ends this transaction. It is [*hanging*](../docs/handbook/glossary.md#hanging-transaction): open in the log of a partition, but not in the transaction coordinator. Consumers of the group get `UNSTABLE_OFFSET_COMMIT` again and again. The partition also grows, because the log cleaner, which removes old records (lesson 10), stops before record 102.

# %% [markdown]
# ## Exercise: which one hangs?
#
# Does a transaction hang, or is it only slow? `kafka-transactions.sh list` prints what the transaction coordinator knows: `Ongoing` means an open transaction. If the list says `CompleteCommit` or `CompleteAbort`, but the transaction is open in the log, it hangs.
#
# It is 10:05. The brokers have version 3.6, which stores a late request (newer ones: see below). A log ends with records of three producers:
#
# - **A**: an offset of producer 1 is from 10:00, and no marker follows. The list shows `Ongoing`.
# - **B**: an abort marker of producer 2 is from 09:58:00. An offset in a transactional batch of producer 2 follows at 09:58:02. The list shows `CompleteAbort`.
# - **C**: an offset of producer 3 is from 10:03, and its abort marker from 10:04. The list shows `CompleteAbort`.
#
# Which producer has a hanging transaction? Write its letter as a text.

# %%
# exercise: which_hangs
which_hangs = ...

# %%
course.check("which_hangs", which_hangs)
# course.hint("which_hangs")

# %% [markdown]
# ## Two protections against a late request
#
# **Protection 1**: since 3.7, a broker asks the transaction coordinator before it stores an offset: does this producer have an open transaction with offsets in this partition of `__consumer_offsets`? For the late request of 10:00:07, the answer is no, so the broker refuses it.
#
# This protection has a gap. Suppose that the producer has already begun its **next** transaction, with offsets in this partition. Then the answer is yes: the broker accepts the late request, and its offset becomes part of the wrong transaction.
#
# **Protection 2** closes the gap with the producer epoch, which now also rises by 1 at each end of a transaction. Take the late request of 10:00:07 again: its transaction had the producer epoch 0, and the abort raised it to 1. The late request still has 0, so it is always refused.
#
# Protection 2 needs 4.x brokers, 4.x clients, and the feature `transaction.version` at level 2. New clusters have this level; **after an upgrade, you must set it**: `kafka-features.sh --bootstrap-server localhost:9092 upgrade --feature transaction.version=2` (`describe` prints the level).
#
# <details><summary>Which brokers have which protection?</summary>
#
# | brokers | a late request, no open transaction | a late request during the next transaction |
# |---|---|---|
# | up to 3.6 | is stored, and hangs | becomes part of it |
# | 4.x with a 4.x client and `transaction.version` at level 2 | is refused | is refused |
# | 3.7 to 3.9, and 4.x with an older client or a lower level | is refused (unless `transaction.partition.verification.enable=false`) | becomes part of it |
#
# </details>

# %% [markdown]
# *Predict*: the log of `fraud-check` was written with protection 2. The offsets of the first transaction have the producer epoch 0. Which producer epoch do the offsets of the **fourth** transaction have?

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
# ## Exercise for later: replay with transactions
#
# `course.read_lines` returns a line for each record:
#
# | field | content |
# |---|---|
# | `line.record_offset` | the position of the record in the log |
# | `line.record_type` | `"offset"`, `"group"`, or for a marker `"commit"` or `"abort"` |
# | `line.group`, `line.partition` | for example `"billing"` and `"orders-0"` |
# | `line.value` | the committed offset, or `None` for a tombstone |
# | `line.producer` | the producer's id, or `None` outside of transactions |
#
# Write `replay_transactions(lines)`. It returns a dictionary from pairs `(group, partition)` to the offset that wins at the end. Two cases do not occur: a tombstone in a transaction, and a tombstone for a partition with a pending offset.

# %%
# exercise: replay_transactions
def replay_transactions(lines):
    ...

# %%
course.check("replay_transactions", replay_transactions)
# course.hint("replay_transactions")

# %% [markdown]
# ## Where 3.9 differs
#
# In 3.9, the end of a transaction does not raise the producer epoch, so a marker normally has the producer epoch of its records. And a deleted offset can come back. Suppose that this happens:
#
# 1. Offset 20 is committed, and 41 is pending.
# 2. An operator deletes the offset, which writes a tombstone.
# 3. The marker commits the transaction. A fetch finds no offset.
# 4. The broker dies, and another broker of the same version loads the log.
#
# *Predict*: which version finds 41 again? Write `"4.3.1"`, `"3.9.2"`, `"both"` or `"neither"`.

# %%
# prediction
after_the_load = ...

# %%
deletion = course.compare_brokers(course.delete_while_pending, ("4.3.1", "3.9.2"))
after_failover = dict(zip(deletion.kafka, deletion.steps[-1].answers, strict=True))
finds_41 = [version for version, answer in after_failover.items() if answer == "payments-0: 41"]

with course.fold("after_the_load", after_the_load, " and ".join(finds_41)):
    display(deletion)

# %% [markdown]
# <details><summary>Why?</summary>
#
# Both logs have the same four records. In 4.x, a tombstone deletes committed and pending offsets, so the marker finds nothing. A running 3.9 broker deletes both offsets, too. Only its load is different: there, the tombstone deletes the committed offset 20, but not the pending 41, which the marker then commits. To repair this, wait until no transaction is open, and delete the offset again.
#
# </details>
#
# <details><summary>Other versions</summary>
#
# Transactions exist since 0.11. *requireStable* exists since 2.5, and `kafka-transactions.sh` since 3.0.
#
# </details>
#
# ## Check yourself
#
# <details><summary>A transaction with offset 30 is open. A commitSync of 25 is stored, and then the transaction is committed. Which offset wins?</summary>
#
# 25. After the marker, both offsets count, and the record of 25 is later in the log than the record of 30. The place of the marker does not matter.
#
# </details>
#
# <details><summary>Which records of the log wait for a marker, and which take effect at once?</summary>
#
# A commit in a transaction waits. A commit outside of transactions takes effect at once, and so does each group record and each tombstone.
#
# </details>
#
# ## In five lines
#
# - An offset in a transaction is pending until its producer's marker.
# - After a commit marker, this offset counts. After an abort marker, it never counts.
# - Of all offsets that count, the last one in the log wins.
# - `UNSTABLE_OFFSET_COMMIT` means an open transaction, so the client asks again.
# - A hanging transaction blocks its group and the log cleaner.

# %% [markdown]
# ## For your consumer
#
# - To read topics of a transactional service, set `isolation.level=read_committed`, or you also read records of aborted transactions.
# - In a group with transactions, switch off auto commit, and never call `commitSync`: such a commit can be later in the log than the offsets of a transaction, and then it wins.
# - Restart a crashed service with the same `transactional.id`, because the new process first aborts the open transaction.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `UNSTABLE_OFFSET_COMMIT` for minutes | `kafkagroups stats PATH` | It prints the producer id of the open transaction, its first record (for example 870) and its groups | First wait for the producer's `transaction.timeout.ms`, 60 seconds by default |
# | Which application is it? | `kafka-transactions.sh --bootstrap-server localhost:9092 list` | The `transactional.id`, the producer id and the state of each producer | If the state is `Ongoing`, do not abort: the transaction coordinator will end the transaction |
# | The state is not `Ongoing`, but the error does not end | `kafka-transactions.sh --bootstrap-server localhost:9092 find-hanging --topic __consumer_offsets --partition 9` | It prints the hanging transactions of partition 9, where the group is (lesson 02), or without `--partition`, of the whole topic | Abort only these |
# | The transaction hangs | `kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic __consumer_offsets --partition 9 --start-offset 870` | It writes an abort marker into this partition only; records in other topics stay as they are | The group goes back to its last committed offset, which `kafkagroups load PATH --group fraud-check` prints |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | a transactional commit | `OffsetMetadataManager.commitTransactionalOffset` | `GroupMetadata.prepareTxnOffsetCommit`, `onTxnOffsetCommitAppend` |
# | the marker | `OffsetMetadataManager.replayEndTransactionMarker` | `GroupMetadata.completePendingTxnOffsetCommit` |
# | which one is newer | `OffsetAndMetadata.recordOffset` | `CommitRecordMetadataAndOffset.olderThan` |
#
# </details>

# %% [markdown]
# ## What we left out, and why
#
# The topic of the transaction coordinator, `__transaction_state`. All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [09 · Deleting](09_deleting.ipynb): how do you delete from a file that only grows?
