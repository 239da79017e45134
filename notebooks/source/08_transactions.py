# %% [markdown]
# # 08 · Transactions
#
# **When does an offset in a transaction count?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offset counts after commits, aborts and plain commits; explain UNSTABLE_OFFSET_COMMIT; find a hanging transaction and end it safely | {{minutes}} | no |
#
# ```
#  a service reads payments, writes alarms, and commits its offsets in ONE transaction
#
#  __consumer_offsets-9    …  payments-0 = 10, producer 1   …   marker: producer 1 COMMITS
#                              │                                │
#                              └── pending ─────────────────────┴── counts from here on
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. An offset in a transaction is **pending** until a *marker* of its producer is in the log.
# 2. The marker says **whether** the offset counts. The place of the commit's record says **which** offset is newer.
# 3. While an offset is pending, a client that asks for stable offsets gets `UNSTABLE_OFFSET_COMMIT`.
# 4. Without a marker, the offset stays pending forever, and the cleaner stops there.
#
# ## Why offsets are in transactions
#
# `fraud-check` reads payments and writes alarms. If it crashes between the two, an alarm is lost or written twice. With a transaction, the alarms and the offsets count together, or not at all. This is called *exactly once*.
#
# The producer of the service sends the offsets to the group's coordinator (`sendOffsetsToTransaction`). At the end, it asks the *transaction coordinator* for a commit or an abort. This coordinator writes a **marker** into each partition that the transaction has written to. A marker is a control record, which lesson 03 showed.

# %% [markdown]
# ## Four transactions in a real log
#
# This is the log of `fraud-check`, as a 4.3.1 broker wrote it. The first transaction was committed, the second aborted. During the third, somebody set `payments-0` back with a plain commit. The brokers died before the fourth had an end.

# %%
from kafkagroups import course

log = course.find_data("harbour/4.3.1/__consumer_offsets-9")
lines = [line for line in course.read_lines(log) if line.group == "fraud-check" or line.record_type in ("commit", "abort")]
print(*lines, sep="\n")

# %% [markdown]
# *Predict*: which offset of `payments-0` counts at the end of this log?

# %%
# prediction
payments_0 = ...

# %%
import kafkagroups as kg

group = kg.load(log)["fraud-check"]

course.reveal("payments_0", payments_0, group.offsets[kg.TopicPartition("payments", 0)].offset)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The third transaction was committed at 32, so its record 30 for `payments-1` counts. Its record 29 for `payments-0` counts, too, but the plain commit 31 is later in the log. The later record is newer. When the marker comes does not matter.
#
# </details>
#
# ## Record by record
#
# Go through the log with *next*. On the right is what a coordinator would know if the log ended there:

# %%
# figure
course.LoadStepper(log, "new", first_offset=23, last_offset=34, shown_offset=25)

# %% [markdown]
# ## Stable offsets
#
# A consumer of a transactional service asks for offsets with *requireStable*. While an offset is pending, the answer for this partition is `UNSTABLE_OFFSET_COMMIT`. The client waits and asks again.
#
# Why? Suppose that the answer were the old offset. Then the consumer would process records again whose transaction may be committed a moment later.
#
# These are the answers of the next 4.3.1 broker, after the crash:

# %%
answers = course.read_answers("harbour/4.3.1")
stable = answers["stable_every_live_partition_named"]["fraud-check"]
for partition, answer in sorted(stable.items()):
    print(f"{partition}: {answer if isinstance(answer, str) else answer['offset']}")

ours = course.fetch_offsets(kg.load(log), ["fraud-check"], require_stable=True)["fraud-check"]
course.compare_with_broker(ours, stable, "4.3.1")

# %% [markdown]
# The fourth transaction still waits. The transaction coordinator aborts it when its timeout is over (`transaction.timeout.ms`, 60 seconds by default), and writes the marker.
#
# ## Exercise: after two markers, on paper
#
# A log has these records of one group, all for `orders-0`:
#
# | offset in the log | record |
# |---|---|
# | 10 | plain commit of 5 |
# | 11 | producer 4 commits 9 in a transaction |
# | 12 | producer 8 commits 7 in a transaction |
# | 13 | plain commit of 6 |
# | 14 | marker: producer 8 commits |
# | 15 | marker: producer 4 aborts |
#
# Which offset does a fetch return now?

# %%
# exercise: after_two_markers
after_two_markers = ...

# %%
course.check("after_two_markers", after_two_markers)
# course.hint("after_two_markers")

# %% [markdown]
# ## The epoch of a producer
#
# A producer has an id and an *epoch*. If two processes have the same `transactional.id`, the newer one gets a higher epoch, and requests with the old epoch are refused. So a process that was believed dead cannot end a transaction of its successor.
#
# *Predict*: on a 4.3.1 broker, the records of the first transaction have epoch 0. Which epoch does its marker have?

# %%
# prediction
epoch_of_the_marker = ...

# %%
epochs = [(batch.producer_epoch, batch.is_control) for batch in kg.open_log(log) if batch.producer_id >= 0]
with course.fold("epoch_of_the_marker", epoch_of_the_marker):
    for epoch, is_marker in epochs:
        print("marker, epoch" if is_marker else "records, epoch", epoch)
    course.reveal("epoch_of_the_marker", epoch_of_the_marker, epochs[1][0])

# %% [markdown]
# <details><summary>Why?</summary>
#
# Since Kafka 4.0, every end of a transaction raises the producer's epoch. So a request that arrives after the end has an old epoch and is refused. Before 4.0, the epoch stayed the same. A late request could begin a new transaction, and no client would end it.
#
# A coordinator that **loads** a log does not compare epochs: a marker ends everything that is pending of its producer id.
#
# </details>
#
# ## A transaction that hangs
#
# A *hanging* transaction is open in the log, but the transaction coordinator does not know it. So its marker never comes. This is what it costs:
#
# - Clients that ask for stable offsets get `UNSTABLE_OFFSET_COMMIT`, again and again.
# - The log cleaner stops at its first record. The topic grows without limit.
# - Each failover takes longer.
#
# `kafka-transactions.sh find-hanging` and `kafkagroups stats` find such transactions. `kafka-transactions.sh abort` writes the missing marker.

# %% [markdown]
# ## Exercise: which one hangs?
#
# Three transactions have no marker yet at the end of a log, or had one just now. It is 10:05. Transactions have a timeout of 15 minutes.
#
# - **A**: producer 1 committed an offset at 10:00. `kafka-transactions.sh list` shows producer 1 as `Ongoing`.
# - **B**: the abort marker of producer 2 is from 09:58:00. A commit of producer 2, with the same epoch, is from 09:58:02. The list shows producer 2 as `CompleteAbort`.
# - **C**: producer 3 committed an offset at 10:03. Its abort marker is from 10:04.
#
# Which transaction hangs? Write the letter as a text.

# %%
# exercise: which_hangs
which_hangs = ...

# %%
course.check("which_hangs", which_hangs)
# course.hint("which_hangs")

# %% [markdown]
# ## What else a transaction can touch
#
# - **Tombstones.** If an offset is deleted while a newer one is pending, the new coordinator deletes both. With the classic coordinator, the pending one stays. A commit marker then brings the offset back.
# - **Group records.** They ignore transactions. A group record inside a transactional batch counts without a marker, also if the transaction is aborted later.
# - **The deletion of a group.** `DeleteGroups` succeeds although an offset is pending. The new coordinator forgets the pending offset.
#
# ## Exercise: replay with transactions
#
# `course.read_lines` returns one line for each record. A line has these fields:
#
# | field | content |
# |---|---|
# | `line.record_offset` | the place of the record in the log |
# | `line.record_type` | `"offset"`, `"group"`, `"commit"` or `"abort"`. The last two are markers |
# | `line.group`, `line.partition` | for example `"billing"` and `"orders-0"` |
# | `line.value` | the committed offset, or `None` for a tombstone |
# | `line.producer` | the producer's id, or `None` outside of transactions |

# %% [markdown]
# Write `replay_transactions(lines)`. It returns a dictionary with the keys `(group, partition)` and the offsets that count at the end. An offset with a producer waits for the marker of this producer. After a commit, it counts, unless a line with a larger `record_offset` already counts for this key. Tombstones are only outside of transactions here.

# %%
# exercise: replay_transactions
def replay_transactions(lines):
    ...

# %%
course.check("replay_transactions", replay_transactions)
# course.hint("replay_transactions")

# %% [markdown]
# A real conversation of clients with transactions, played again with our coordinator:

# %%
talk = course.read_exchanges("3.9.2-txn")
print(len(talk), "requests")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | epoch of the marker | one more than the epoch of the records | the same; one more only after a timeout or a new producer |
# | a tombstone for an offset that is also pending | deletes both | deletes only the committed one |
# | `DeleteGroups` while an offset is pending | forgets the pending offset | a commit marker brings the offset back |
# | topic id in transactional commits | since 4.4 | never |
#
# <details><summary>Other versions</summary>
#
# Transactions exist since 0.11. *requireStable* exists since 2.5. Before that, a consumer got the old offset while a transaction was open. `kafka-transactions.sh` exists since 3.0. Since 3.6, a coordinator first asks the transaction coordinator whether the transaction is open.
#
# </details>
#
# ## In five lines
#
# - Pending until the marker.
# - The marker decides whether, and the record decides what is newer.
# - `UNSTABLE_OFFSET_COMMIT` means: wait, a transaction is open.
# - A marker ends everything that is pending of its producer.
# - A transaction without an end stops the cleaner and every stable fetch.

# %% [markdown]
# ## For your consumer
#
# - Set `isolation.level=read_committed` to read the records of other transactional services.
# - Do not mix `commitSync` and `sendOffsetsToTransaction` in one group. The newer record wins, and this may be the plain one.
# - Keep `transaction.timeout.ms` short. It is the time for which your successor waits after your crash.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `UNSTABLE_OFFSET_COMMIT` for minutes | `kafkagroups stats PATH` | Its finding names the producer, the first offset and the groups of the open transaction | Wait for the transaction's timeout first |
# | It does not end | `kafka-transactions.sh --bootstrap-server localhost:9092 find-hanging --broker-id 1` | The transaction coordinator does not know the transaction | `kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic __consumer_offsets --partition 9 --start-offset 33`. The number is the first offset of the transaction |
# | Is this producer still alive? | `kafka-transactions.sh --bootstrap-server localhost:9092 describe-producers --topic __consumer_offsets --partition 9` | The time of its last record, and the start of its open transaction | Abort only what is not `Ongoing` in `kafka-transactions.sh list` |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | a transactional commit | `OffsetMetadataManager.commitTransactionalOffset` | `GroupMetadata.prepareTxnOffsetCommit`, `onTxnOffsetCommitAppend` |
# | the marker | `OffsetMetadataManager.replayEndTransactionMarker` | `GroupMetadata.completePendingTxnOffsetCommit` |
# | which one is newer | `OffsetAndMetadata.recordOffset` | `CommitRecordMetadataAndOffset.olderThan` |
# | epochs | `TransactionMetadata`, `prepareComplete` | the same |
#
# </details>
#
# ## What we left out, and why
#
# How a transaction coordinator keeps its own state, in the topic `__transaction_state`. It is built like a group coordinator, and deserves its own course.
#
# **Next:** [09 · Deleting](09_deleting.ipynb): how do you delete from a file that only grows?
