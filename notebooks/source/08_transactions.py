# %% [markdown]
# # 08 · Transactions
#
# **When does an offset in a transaction count?**
#
# **Which Kafka:** every 4.x, which always has the new *group coordinator*. The tables show 4.3.1 beside 3.9.2 with the classic coordinator; a row with one answer is true for both. **Which groups:** all consumer groups, whatever their setting `group.protocol`.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offset counts after commits inside and outside of transactions; explain UNSTABLE_OFFSET_COMMIT; find a hanging transaction and end it safely | {{minutes}} + 10 for later | no |
#
# ![In the log, an offset of producer 1 is pending until the marker that commits the transaction, and counts from there on.](pictures/08.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. An offset in a transaction is **pending** until a *marker* of its producer is in the log.
# 2. An offset *counts* if it was committed outside of a transaction, or if the marker of its transaction commits it. If several offsets of a partition count, a fetch returns the last one in the log.
# 3. While an offset is pending, a client that asks for stable offsets gets `UNSTABLE_OFFSET_COMMIT`.
# 4. If no marker comes, the offset stays pending forever. The log grows, too, because the cleaner, which removes replaced records (lesson 10), stops before the offset.

# %% [markdown]
# ## Why offsets are in transactions
#
# `fraud-check` reads payments and writes alarms to another topic. If a process writes an alarm and crashes before its commit, the next process writes the alarm again. If it commits first and then crashes, the alarm is lost. In a transaction, the alarms and the offsets count together or not at all, which is called [*exactly once*](../docs/handbook/glossary.md#exactly-once). The service's loop, with the names of the Java client:
#
# ```
# producer.initTransactions()
# while True:
#     records = consumer.poll()
#     producer.beginTransaction()
#     producer.send(...)                                  # the alarms
#     producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata())
#     producer.commitTransaction()                        # after an error: abortTransaction()
# ```
#
# The producer talks to two coordinators:
#
# - `sendOffsetsToTransaction` sends the offsets to the **group coordinator**, which appends them to `__consumer_offsets`.
# - `commitTransaction` and `abortTransaction` go to the [**transaction coordinator**](../docs/handbook/glossary.md#transaction-coordinator), which writes a **marker** into each partition that has records of the transaction.
#
# **Always pass `consumer.groupMetadata()`.** It contains the member and its generation, so the coordinator can make the checks of lesson 07. With a group id alone, a removed member can overwrite the offset.
#
# <details><summary>One check is left out</summary>
#
# A commit in a transaction is accepted in CompletingRebalance, too.
#
# </details>

# %% [markdown]
# ## Four transactions in a real log
#
# A 4.3.1 broker wrote this log of `fraud-check`. It has four transactions of producer 1:
#
# - The first transaction was committed, and the second one was aborted.
# - During the third transaction, somebody committed offset 25 of `payments-0` outside of any transaction. This commit counts at once, without a marker.
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
# Record 24 counts, because its transaction was committed. Record 27 was aborted. Record 30 is pending until its marker comes.
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
# For `payments-1`, record 30 is the newest record that counts, so the offset is 31. For `payments-0`, two records count now: record 29, and record 31 outside of the transaction. Record 31 is later in the log, so the offset is 25. The marker of record 29 comes after record 31, but only the place of the **record** decides.
#
# ## Record by record
#
# A coordinator has two maps in memory, one for offsets that count and one for pending offsets. A marker of producer 1 ends everything of producer 1 that is pending. The figure loads a shorter log with two producers. Step through it, then let the transactions end in another way:

# %%
# figure
course.TwoMaps()

# %% [markdown]
# <details><summary>A group record or a tombstone in a transactional batch</summary>
#
# Kafka's coordinators write only offsets in a transaction. If another program has written a group record or a tombstone into a transactional batch, a load does not wait for the marker: this record takes effect at once, even if the transaction is aborted.
#
# </details>
#
# ## Stable offsets
#
# While an offset is pending, a consumer does not get the older offset that counts, but `UNSTABLE_OFFSET_COMMIT` (lesson 05). What would happen otherwise?
#
# 1. Process A writes its alarms, calls `commitTransaction`, and dies. The transaction coordinator commits the transaction, but its marker is not yet in this partition.
# 2. Process B takes over, gets the old offset, and begins there.
# 3. The marker comes, so A's alarms count. B writes each alarm a second time.
#
# Both brokers go through the third transaction:

# %%
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
# When the shop's brokers were killed, the fourth transaction was still open, so the next broker answered `UNSTABLE_OFFSET_COMMIT` for its two partitions. At the end of the transaction's timeout, 60 seconds by default, the transaction coordinator writes an abort marker, and the answer for `payments-1` becomes 31.

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
# ## The epoch of a producer
#
# An application gives its producer a name, the `transactional.id`. Kafka gives the producer a *producer id* and a [*producer epoch*](../docs/handbook/glossary.md#producer-epoch), and both are in the header of each batch in a transaction. A second process with the same `transactional.id` gets the same producer id and a higher producer epoch. From then on, brokers refuse requests with the old producer epoch, so a slow process cannot end a transaction of its successor. The slow process is [*fenced*](../docs/handbook/glossary.md#fence).
#
# ## Why the epoch rises at the end of a transaction
#
# A request with offsets can be delayed in the network until its transaction has ended. Suppose that a broker stores the late request:
#
# ```
#  record   time
#  100      10:00:00   fraud-check payments-0 = 50, producer 7
#  101      10:00:05   producer 7 aborts
#  102      10:00:07   fraud-check payments-1 = 51, producer 7     ← the late request
#           10:30:00   no marker follows
# ```
#
# Nothing in a log marks the beginning of a transaction: the first record of a producer after its last marker is the beginning. So record 102 opens a new transaction, of which no client knows. Nobody ends it.
#
# Two protections refuse a late request:
#
# - **In 4.x**, each end of a transaction raises the producer epoch by one, so a late request has an old epoch. This needs a 4.x client and the feature `transaction.version` 2, which you must switch on after an upgrade.
# - **Without this**, a broker since 3.7 asks the transaction coordinator whether the producer has an open transaction with this partition. If the producer has already begun its next transaction, the answer can be yes. Then the late offset becomes part of this **next** transaction, and is committed or aborted with it.

# %% [markdown]
# *Predict*: `fraud-check` had a 4.x client and a 4.x broker. Its first transaction has the producer epoch 0. Which one does its **fourth** transaction have?

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
# Each marker already has the new producer epoch. In 3.9, a marker normally has the producer epoch of its records. A load does not compare the two epochs.
#
# ## A transaction that hangs
#
# The transaction of record 102 is a [*hanging* transaction](../docs/handbook/glossary.md#hanging-transaction): it is open in the log of a partition, but not in the transaction coordinator, so its marker never comes. Brokers up to 3.6 have neither protection. Later brokers lose the second one with `transaction.partition.verification.enable=false`.
#
# Consumers of the group then get `UNSTABLE_OFFSET_COMMIT` again and again. The partition also grows, because the cleaner stops before the first record of the transaction, so the next failover takes longer.
#
# `kafka-transactions.sh list` prints what the transaction coordinator knows of each producer. `Ongoing` means an open transaction. So if a transaction is open in the log, and the list says `CompleteCommit` or `CompleteAbort`, the transaction hangs.

# %% [markdown]
# ## Exercise: which one hangs?
#
# The brokers have version 3.6, and it is 10:05. A transaction may take 15 minutes. A log ends with records of three producers:
#
# - **A**: an offset of producer 1 is from 10:00, and no marker follows. `kafka-transactions.sh list` shows producer 1 as `Ongoing`.
# - **B**: an abort marker of producer 2 is from 09:58:00. An offset in a transactional batch of producer 2 follows at 09:58:02. The list shows it as `CompleteAbort`.
# - **C**: an offset of producer 3 is from 10:03, and its abort marker from 10:04. The list shows it as `CompleteAbort`.
#
# Which producer has a hanging transaction? Write the letter as a text.

# %%
# exercise: which_hangs
which_hangs = ...

# %%
course.check("which_hangs", which_hangs)
# course.hint("which_hangs")

# %% [markdown]
# ## Exercise for later: replay with transactions
#
# `course.read_lines` returns a line for each record, with these fields:
#
# | field | content |
# |---|---|
# | `line.record_offset` | the position of the record in the log |
# | `line.record_type` | `"offset"`, `"group"`, `"commit"` or `"abort"`. The last two are markers |
# | `line.group`, `line.partition` | for example `"billing"` and `"orders-0"` |
# | `line.value` | the committed offset, or `None` for a tombstone |
# | `line.producer` | the producer's id, or `None` outside of transactions |
#
# Write `replay_transactions(lines)`. It returns a dictionary from pairs `(group, partition)` to the offset that counts at the end. Tombstones are never in a transaction, and when a tombstone comes, its partition has no pending offset.

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
# In 3.9, a deleted offset can come back. To delete an offset, a coordinator appends a *tombstone*, a record with the same key and no value (lesson 09). Suppose that offset 20 is committed and 41 is pending when an operator deletes the offset.
#
# *Predict*: after the deletion, the transaction is committed, and neither broker finds an offset. Then both brokers die, and a broker of the same version loads each log. Which one finds 41 again? Write `"4.3.1"`, `"3.9.2"`, `"both"` or `"neither"`.

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
# Both logs have the same four records. In 4.x, a tombstone deletes whatever the partition has, committed or pending, so the marker finds nothing.
#
# In 3.9, the running broker also forgets both offsets. But in a load, the tombstone deletes only the committed one. Offset 41 stays pending until the marker commits it, and the deleted offset is back. The same happens if the group or the topic is deleted. To repair this, wait until no transaction is open, and delete the offset again.
#
# <details><summary>Other versions</summary>
#
# Transactions exist since 0.11. *requireStable* exists since 2.5, and `kafka-transactions.sh` since 3.0.
#
# </details>
#
# ## Check yourself
#
# <details><summary>A transaction with offset 30 is open. A commitSync of 25 is stored, and then the transaction is committed. Which offset counts?</summary>
#
# 25. After the marker, both offsets count, and the record of 25 is later in the log. The place of the marker does not matter.
#
# </details>
#
# <details><summary>When does a group record or a tombstone in a transactional batch take effect?</summary>
#
# At once, even if the transaction is aborted ([the logs](../docs/handbook/tombstones.md#the-tombstone-of-an-offset-in-a-transactional-batch)). Only commits wait for the marker.
#
# </details>
#
# ## In five lines
#
# - An offset in a transaction is pending until its producer's marker.
# - After a commit marker, the offset counts. After an abort marker, it never counts.
# - Of all offsets that count, the last one in the log wins.
# - `UNSTABLE_OFFSET_COMMIT` means an open transaction, so the client asks again.
# - A transaction without a marker stops the log cleaner.

# %% [markdown]
# ## For your consumer
#
# - To read topics of a transactional service, set `isolation.level=read_committed`, or you also read records of aborted transactions.
# - Do not mix `commitSync` and `sendOffsetsToTransaction` in one group, because the commit outside of the transaction can be later in the log and win.
# - Restart a crashed service with the same `transactional.id`, because the new process first aborts the open transaction.
# - After `abortTransaction`, a running consumer does not go back by itself. Let it `seek` to the committed offsets before the next `poll`, or it skips the payments of the aborted transaction.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `UNSTABLE_OFFSET_COMMIT` for minutes | `kafkagroups stats PATH` | It names the producer id of the open transaction, the first record of the transaction and its groups | First wait for the producer's `transaction.timeout.ms`, 60 seconds by default |
# | Which application is it? | `kafka-transactions.sh --bootstrap-server localhost:9092 list` | It prints the `transactional.id`, the producer id and the state of each producer | If the state is `Ongoing`, do not abort: the transaction coordinator will end the transaction |
# | The transaction is not `Ongoing`, but the error does not end | `kafka-transactions.sh --bootstrap-server localhost:9092 find-hanging --topic __consumer_offsets --partition 9` | It prints the hanging transactions of this partition | Abort only these |
# | The transaction hangs | `kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic __consumer_offsets --partition 9 --start-offset 870` | It writes an abort marker. 870 is the first offset of the hanging transaction | The group goes back to its last offset that counts, and reads the records after it again. `kafkagroups load PATH --group fraud-check` prints this offset |

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
# The transaction coordinator has its own topic, `__transaction_state`.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [09 · Deleting](09_deleting.ipynb): how do you delete from a file that only grows?
