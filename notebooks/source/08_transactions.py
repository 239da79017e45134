# %% [markdown]
# # 08 · Transactions
#
# **When does an offset in a transaction count?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offset counts after commits, aborts and plain commits; explain UNSTABLE_OFFSET_COMMIT; say why a producer's epoch rises; find a hanging transaction and end it safely | {{minutes}} | no |
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
# 2. The marker decides **whether** a pending offset counts. If several offsets of one partition count, the one that is later in the log wins.
# 3. While an offset is pending, a client that asks for stable offsets gets `UNSTABLE_OFFSET_COMMIT`.
# 4. Without a marker, the offset stays pending forever. The *log cleaner*, which removes old records, does not go beyond it.

# %% [markdown]
# ## Why offsets are in transactions
#
# `fraud-check` reads payments and writes alarms to another topic. It can crash after it has written an alarm and before it has committed its offset. Then the next consumer reads the payment again and writes a second alarm. In the other order, an alarm can be lost.
#
# A transaction avoids both: the alarms and the offsets count together, or not at all. This is called *exactly once*.

# %% [markdown]
# Two coordinators take part in a transaction:
#
# - The producer of `fraud-check` sends its offsets to the **group coordinator**, with `sendOffsetsToTransaction`. The group coordinator appends them to `__consumer_offsets`.
# - At the end, the producer asks the **transaction coordinator** for a commit or an abort. The transaction coordinator writes a **marker** into each partition with records of this transaction. A marker is a control record, which lesson 03 showed.

# %% [markdown]
# ## Four transactions in a real log
#
# This is the log of `fraud-check`, as a 4.3.1 broker wrote it. It contains four transactions of producer 1:
#
# - The first one was committed, and the second one was aborted.
# - During the third one, somebody set `payments-0` back with a *plain* commit. A plain commit is outside of transactions, so it counts without a marker.
# - The fourth one has no marker, because the brokers were killed before it ended.

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
# The third transaction was committed at 32, so its records 29 and 30 count. Record 30 is the newest one of `payments-1`. But record 29 of `payments-0` is older than the plain commit at 31. So the plain commit wins, although the marker came after it. The position of a marker does not matter.
#
# </details>
#
# ## Record by record
#
# The figure has a shorter log, with two producers. Load it record by record. Then let the transactions end in another way, and watch which offset counts:

# %%
# figure
course.TwoMaps()

# %% [markdown]
# ## Stable offsets
#
# Lesson 05 introduced *requireStable*: a client asks for stable offsets only. While an offset is pending, the answer for its partition is `UNSTABLE_OFFSET_COMMIT`. The client waits and asks again.
#
# Why is the answer not the old offset? The consumer would start there and process some records a second time. A moment later, the open transaction may be committed, and these records count twice.
#
# The next 4.3.1 broker loaded this log after the crash. A client asked it for stable offsets:

# %%
answers = course.read_answers("harbour/4.3.1")
stable = answers["stable_every_live_partition_named"]["fraud-check"]
for partition, answer in sorted(stable.items()):
    print(f"{partition}: {answer if isinstance(answer, str) else answer['offset']}")

ours = course.fetch_offsets(kg.load(log), ["fraud-check"], require_stable=True)["fraud-check"]
course.compare_with_broker(ours, stable, "4.3.1")

# %% [markdown]
# The fourth transaction is still open. After its timeout, the transaction coordinator aborts it and writes the marker (`transaction.timeout.ms`, 60 seconds by default).

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
# A producer has an id and an *epoch*. The header of each batch in a transaction contains both.
#
# If a process starts with the same `transactional.id`, it gets the same producer id and a higher epoch. From then on, brokers refuse requests with the old epoch. The old process is *fenced*. So a process that only hung cannot end a transaction of its successor.

# %% [markdown]
# ## Why the epoch rises at the end of a transaction
#
# A request can be late. Suppose that a request with offsets is delayed in the network, and that its transaction ends before the request arrives. The process is the same, so id and epoch are still right. Up to Kafka 3.9, the broker could accept this request. It then began a transaction that no client knew, and no client ended it.
#
# Since Kafka 4.0, each end of a transaction raises the producer's epoch by one. The marker already has the new epoch. A late request has the old epoch, so it is refused. This needs a client of version 4.0 or newer, too.

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
# A coordinator that **loads** a log does not compare epochs. A marker ends everything that is pending of its producer id. It must be so, because the epoch of the marker differs from the epoch of the records.

# %% [markdown]
# ## A transaction that hangs
#
# A *hanging* transaction is open in the log of a partition, but the transaction coordinator has no such transaction. So its marker never comes. A late request is one cause. A hanging transaction has three effects:
#
# - Clients that ask for stable offsets get `UNSTABLE_OFFSET_COMMIT`, again and again.
# - The log cleaner does not go beyond the first record of the transaction. So the partition grows without limit.
# - Each failover takes longer, because the next broker reads the whole log.
#
# `kafka-transactions.sh list` prints the state of each producer. `Ongoing` means that a transaction is open. `CompleteCommit` and `CompleteAbort` mean that the last one has ended. `kafka-transactions.sh abort` writes a missing marker.

# %% [markdown]
# ## Exercise: which one hangs?
#
# The brokers have version 3.9, and it is 10:05. Transactions have a timeout of 15 minutes. The end of a log has records of three producers:
#
# - **A**: producer 1 committed an offset at 10:00. There is no marker after it. `kafka-transactions.sh list` shows producer 1 as `Ongoing`.
# - **B**: producer 2 has an abort marker from 09:58:00. A commit of an offset follows at 09:58:02, in a transactional batch of producer 2. The list shows producer 2 as `CompleteAbort`.
# - **C**: producer 3 committed an offset at 10:03. Its abort marker is from 10:04. The list shows producer 3 as `CompleteAbort`.
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
# A broker writes only commits of offsets into transactional batches. But a program that copies the topic can also put other records there. Then these rules hold:
#
# | in a transactional batch | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | an offset | pending until the marker | the same |
# | a tombstone of an offset | deletes the offset immediately, and everything that is pending for it | deletes only what the same producer has pending, and never the committed offset |
# | a group record or its tombstone | counts immediately, even if the transaction is aborted | the same |
#
# Two logs were made for a test, and real brokers loaded them. `g` stands for the group. In both logs, record 1 is in a transactional batch:

# %%
for case in ["t-txn-tomb-committed", "t-gt-in-txn-abort"]:
    path = course.find_data(f"crafted/{case}")
    recorded = course.read_answers("crafted")[case]
    name = recorded["groups"][0]
    print(*[str(line).replace(name, "g") for line in course.read_lines(path)], sep="\n")
    for coordinator, version in [("new", "4.3.1"), ("classic", "3.9.2")]:
        groups = kg.load(path, coordinator)
        state = groups[name].state.value if name in groups else "unknown"
        offsets = course.fetch_offsets(groups, [name])[name]
        print(f"    {coordinator:<8} group {state}, offsets: {len(offsets)}", end="   ")
        course.compare_with_broker(offsets, recorded[coordinator]["offsets"][name], version)
    print()

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
# Write `replay_transactions(lines)`. It returns a dictionary with the keys `(group, partition)` and the offsets that count at the end. Follow the rules of this lesson. In the logs of this exercise, no tombstone is in a transaction.

# %%
# exercise: replay_transactions
def replay_transactions(lines):
    ...

# %%
course.check("replay_transactions", replay_transactions)
# course.hint("replay_transactions")

# %% [markdown]
# Clients with transactions sent 114 requests to a 3.9.2 broker. Our coordinator gets the same requests:

# %%
talk = course.read_exchanges("3.9.2-txn")
print(len(talk), "requests")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | epoch of the marker | one more than the epoch of the records | the same as that of the records, except after a timeout or if a new process takes over |
# | a tombstone in a transactional batch | deletes the offset immediately | never deletes a committed offset |
# | a group record in a transactional batch | counts immediately | the same |
# | topic id in transactional commits | since 4.4 | never |
#
# <details><summary>Other versions</summary>
#
# Transactions exist since 0.11. If the topic still has an older message format, a broker refuses transactional commits with `UNSUPPORTED_FOR_MESSAGE_FORMAT`. *requireStable* exists since 2.5. Before that, a consumer got the old offset while a transaction was open. `kafka-transactions.sh` exists since 3.0. Since 3.6, a group coordinator first asks the transaction coordinator whether the transaction is open.
#
# </details>
#
# ## In five lines
#
# - An offset in a transaction is pending until a marker of its producer.
# - A commit marker lets it count, and an abort marker drops it.
# - Of all offsets that count, the one that is later in the log wins.
# - `UNSTABLE_OFFSET_COMMIT` means that a transaction is open. The client asks again.
# - A transaction without a marker stops the cleaner and every stable fetch.

# %% [markdown]
# ## For your consumer
#
# - If your application reads topics of a transactional service, set `isolation.level=read_committed`. Otherwise it also reads records of aborted transactions.
# - Do not mix `commitSync` and `sendOffsetsToTransaction` in one group. The commit that is later in the log wins, and this may be the plain one.
# - Restart a crashed service with the same `transactional.id`: the new process first aborts the open transaction. Without it, other consumers wait until `transaction.timeout.ms` is over. So keep this timeout short.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `UNSTABLE_OFFSET_COMMIT` for minutes | `kafkagroups stats PATH` | It names the producer of the open transaction, its first offset and its groups | Wait for the transaction's timeout first |
# | It does not end | `kafka-transactions.sh --bootstrap-server localhost:9092 find-hanging --broker-id 1` | A printed transaction hangs: no transaction coordinator has it | `kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic __consumer_offsets --partition 9 --start-offset 33`. The number is the first offset of the transaction |
# | Is this producer still alive? | `kafka-transactions.sh --bootstrap-server localhost:9092 describe-producers --topic __consumer_offsets --partition 9` | It prints the time of the producer's last record and the start of its open transaction | Abort only if `kafka-transactions.sh --bootstrap-server localhost:9092 list` does not show the producer as `Ongoing` |
#
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
#
# ## What we left out, and why
#
# The transaction coordinator keeps its own state in the topic `__transaction_state`. It is built like a group coordinator, and it deserves its own course.
#
# **Next:** [09 · Deleting](09_deleting.ipynb): how do you delete from a file that only grows?
