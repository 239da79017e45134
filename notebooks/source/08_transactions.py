# %% [markdown]
# # 08 · Transactions
#
# **When does an offset in a transaction count?**
#
# **Which Kafka:** the coordinator of 4.x and that of 3.9, side by side
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offset counts after commits, aborts and plain commits; explain UNSTABLE_OFFSET_COMMIT; find a hanging transaction and end it safely | {{minutes}} | no |
#
# ![In the log, an offset of producer 1 is pending until the marker that commits the transaction, and counts from there on.](pictures/08.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. An offset in a transaction is **pending** until a *marker* of its producer is in the log.
# 2. The marker decides **whether** a pending offset *counts*, which means that a fetch can return it. If several offsets of a partition count, the one whose record is later in the log wins.
# 3. While an offset is pending, a client that asks for stable offsets gets `UNSTABLE_OFFSET_COMMIT`.
# 4. If no marker comes, the offset stays pending forever, and the partition can no longer be cleaned (lesson 10).

# %% [markdown]
# ## Why offsets are in transactions
#
# `fraud-check` reads payments and writes alarms to another topic. If the service writes an alarm and crashes before its commit, the next process writes the alarm again. If it commits first and then crashes, the alarm is lost. A transaction prevents both, because the alarms and the offsets count together or not at all. This is called [*exactly once*](../docs/handbook/glossary.md#exactly-once).

# %% [markdown]
# Two coordinators take part:
#
# - The producer of `fraud-check` sends its offsets to the **group coordinator**, with `sendOffsetsToTransaction`. The group coordinator appends them to `__consumer_offsets`.
# - At the end, the producer asks the [**transaction coordinator**](../docs/handbook/glossary.md#transaction-coordinator) for a commit or an abort. The transaction coordinator writes a **marker** into each partition that has records of the transaction.
#
# If `sendOffsetsToTransaction` names the member, the group coordinator makes the checks of lesson 07, except that of CompletingRebalance. A call that names no member is not checked.

# %% [markdown]
# ## Four transactions in a real log
#
# A 4.3.1 broker wrote this log of `fraud-check`. It has four transactions of producer 1:
#
# - The first transaction was committed, and the second one was aborted.
# - During the third transaction, somebody set `payments-0` back (the group has no members, so any client may commit) with a [*plain* commit](../docs/handbook/glossary.md#plain-commit), which is outside of transactions and so counts without a marker.
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
# Now the broker loads the whole log. The marker at 32 commits the third transaction, so its records 29 and 30 are now candidates:

# %%
for partition, commit in sorted(kg.load(log)["fraud-check"].offsets.items()):
    print(partition, "=", commit.offset)

# %% [markdown]
# For `payments-1`, record 30 now counts, so the offset is 31. For `payments-0`, record 29 and the plain commit at 31 both count, and record 31 is later in the log, so the offset is 25. The position of the **record** decides, not that of the marker.
#
# ## Record by record
#
# Each coordinator has two maps in memory, one for offsets that count and one for pending offsets. Load a shorter log with two producers record by record, then let the transactions end in another way:

# %%
# figure
course.TwoMaps()

# %% [markdown]
# ## Stable offsets
#
# With *requireStable* (lesson 05), a client asks for stable offsets only. While an offset is pending, the answer for its partition is `UNSTABLE_OFFSET_COMMIT`, and the client asks again later. With the old offset, it would read again the payments that the transaction has already handled, if the transaction is committed a moment later.
#
# Here two brokers live through the third transaction of the log. `course.end_transaction` does what the transaction coordinator does:

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
    yield "a plain commit of 25", broker.offset_commit(group, {PAYMENTS_0: OffsetCommit(25)})
    yield "the transaction ends", course.end_transaction(broker, group, 1, commits=True)
    yield "a fetch of stable offsets, again", broker.offset_fetch(group, require_stable=True)


course.compare_brokers(third_transaction)

# %% [markdown]
# Both coordinators do the same. A real broker that had loaded the log of `fraud-check` was asked for stable offsets, too:

# %%
answers = course.read_answers("harbour/4.3.1")
stable = answers["stable_every_live_partition_named"]["fraud-check"]
for partition, answer in sorted(stable.items()):
    print(f"{partition}: {answer if isinstance(answer, str) else answer['offset']}")

ours = course.fetch_offsets(kg.load(log), ["fraud-check"], require_stable=True)["fraud-check"]
course.compare_with_broker(ours, stable, "4.3.1")

# %% [markdown]
# The fourth transaction is still open. At the end of its timeout (`transaction.timeout.ms`, 60 seconds by default), the transaction coordinator writes an abort marker, and the answer for `payments-1` becomes 31.

# %% [markdown]
# ## Exercise: after two markers, on paper
#
# A log has these records of one group, all for `orders-0`:
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
# An application gives its producer a name, the `transactional.id`. Kafka gives the producer a *producer id* and a *producer epoch*. Both are in the header of each batch in a transaction. A second process with the same `transactional.id` gets the same producer id and a higher producer epoch. From then on, brokers refuse requests with the old one: the first process is [*fenced*](../docs/handbook/glossary.md#fence), so a slow process cannot end a transaction of its successor.
#
# ## Why the epoch rises at the end of a transaction
#
# A request with offsets can be delayed in the network until its transaction has ended. Up to Kafka 3.6, the broker could accept it, because its producer id and its epoch were still right, and the late record began a new transaction, which no client ever ended. Kafka 3.7 to 3.9 ask the transaction coordinator first, so the late offset is accepted only if the producer has already begun another transaction, and then counts with that one.
#
# Kafka 4.0 closes this gap, too. Each end of a transaction raises the producer epoch by one, beginning with the marker, so a late request has an old epoch and is refused. The client must have 4.0, too.

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
# A coordinator that **loads** a log does not compare producer epochs, because its broker did so before each append. A marker of producer 1 ends all pending offsets of producer 1, with any epoch.

# %% [markdown]
# ## A transaction that hangs
#
# A [*hanging* transaction](../docs/handbook/glossary.md#hanging-transaction) is open in the log of a partition, but not in the transaction coordinator, so its marker never comes. A late request is one cause. Clients that ask for stable offsets get `UNSTABLE_OFFSET_COMMIT` again and again. The log cleaner stops before the first record of the transaction, so the partition grows without limit, and failovers take longer.
#
# `kafka-transactions.sh list` prints the state of each producer: `Ongoing` means an open transaction, `CompleteCommit` or `CompleteAbort` that the last one has ended.

# %% [markdown]
# ## Exercise: which one hangs?
#
# Brokers of version 3.6, at 10:05; transactions have a timeout of 15 minutes. A log ends with records of three producers:
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
# ## Exercise: replay with transactions
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
# Write `replay_transactions(lines)`. It returns a dictionary from pairs `(group, partition)` to the offset that counts at the end. Here no tombstone is in a transaction, and when one deletes an offset, nothing is pending.

# %%
# exercise: replay_transactions
def replay_transactions(lines):
    ...

# %%
course.check("replay_transactions", replay_transactions)
# course.hint("replay_transactions")

# %% [markdown]
# ## A deletion during a transaction
#
# To delete an offset, a coordinator appends a *tombstone*, a record with its key and no value (lesson 09). Suppose that 20 is committed and 41 is pending. Should a deletion also delete what is pending?
#
# *Predict*: an operator deletes the offset, and then the transaction is committed. Neither broker now finds an offset. Then each dies, and another one of the same version loads the log. Which offset does the **classic** coordinator answer? `None` means that there is no offset.

# %%
# prediction
after_the_load = ...

# %%
deletion = course.compare_brokers(course.delete_while_pending)
classic_answer = deletion.steps[-1].answers[0]

with course.fold("after_the_load", after_the_load, int(classic_answer.removeprefix("payments-0: "))):
    display(deletion)

# %% [markdown]
# Both logs have the same four records, but in 4.x a tombstone deletes whatever the partition has, committed or pending, so the marker finds nothing. In a classic load, a tombstone outside of transactions reaches only the map of committed offsets. Offset 41 is still in the other map, and the marker commits it: the deleted offset is back. `DeleteGroups` and the deletion of the topic end in the same way.
#
# ## Tombstones and group records in a transactional batch
#
# Coordinators write only offsets into transactional batches, but a tool that copies the topic can write **all** records in its own transactions. Then only commits wait for the marker. Real brokers loaded these two test logs of the group `g`:

# %%
course.print_crafted_log("t-txn-tomb-committed")
print()
course.print_crafted_log("t-gt-in-txn-abort")

# %% [markdown]
# ## Where the classic coordinator differs
#
# The answers differ in one case, a deletion during a transaction, and the logs in the epoch of the marker: with a client of 4.0 or newer it has the next producer epoch, whereas up to 3.9 it has the epoch of the records, unless the transaction timed out or a new process took over.
#
# <details><summary>Other versions</summary>
#
# Transactions exist since 0.11. *requireStable* exists since 2.5, and `kafka-transactions.sh` since 3.0. With `transaction.partition.verification.enable=false`, Kafka 3.7 and later do not ask the transaction coordinator, and a late request can cause a hanging transaction.
#
# </details>
#
# ## Check yourself
#
# <details><summary>When does a group record in a transactional batch count?</summary>
#
# At once, even if the transaction is aborted. The same is true for the tombstone of a group.
#
# </details>
#
# <details><summary>What does the tombstone of an offset delete if it is in a transactional batch?</summary>
#
# The new coordinator at once deletes the committed offset and all pending offsets of the partition. The classic coordinator deletes only the pending offset of the same producer.
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
# - To read topics of a transactional service, set `isolation.level=read_committed`, or you also read records of aborted transactions.
# - Do not mix `commitSync` and `sendOffsetsToTransaction` in one group, because the plain commit may be the later one, and win.
# - Restart a crashed service with the same `transactional.id`, because the new process first aborts the open transaction.
# - After an abort, the service reads the payments again from the last offset that counts, and writes the alarms again.
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
# | the marker | `OffsetMetadataManager.replayEndTransactionMarker` | `GroupMetadata.completePendingTxnOffsetCommit` |
# | which one is newer | `OffsetAndMetadata.recordOffset` | `CommitRecordMetadataAndOffset.olderThan` |
#
# </details>

# %% [markdown]
# ## What we left out, and why
#
# The transaction coordinator has its own topic, `__transaction_state`, which contains no offsets of groups.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [09 · Deleting](09_deleting.ipynb): how do you delete from a file that only grows?
