# %% [markdown]
# # 04 · Storing
#
# **What happens between `commitSync()` and the answer?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say where a commit is at each moment; say which error a client receives; say what is left after a crash; say what happens to records that were read and not committed | {{minutes}} | no |
#
# ```
#  a consumer                         the coordinator
#    │
#    │  commitSync({orders-0: 6})
#    ├─────────────────────────────▶  1  check     is this commit allowed?
#    │                                2  append    a record to __consumer_offsets, on its disk
#    │                                3  wait      until the replicas have the record
#    │                                4  update    its memory: orders-0 = 6
#    ◀─────────────────────────────   5  answer    NONE
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. The order is: **log, replicas, memory, answer**. A commit that was answered `NONE` is in the log.
# 2. One request is **one batch**. It is stored as a whole, or not at all.
# 3. If two commits are for one partition, the one **later in the log** is newer.
# 4. An error does not prove that nothing was stored.
#
# A *replica* is a copy of a partition on another broker. It is *in sync* if it keeps up with the leader. The coordinator waits for these replicas, because one of them becomes the next leader.

# %% [markdown]
# ## A commit without an answer
#
# A broker answers a commit in a few milliseconds. We want to stop in between. So we start a coordinator with a special log, `HeldLogs`. It appends each batch to the disk, but the replicas confirm the batch only when we call `release()`.
#
# This coordinator follows the rules of Kafka 3.9. They make each step visible. A coordinator of Kafka 4.x gives the same answers, except for some cases in the table at the end.

# %%
from kafkagroups import course
from kafkagroups.coordinator import DiskLogs, HeldLogs, OffsetCommit, TopicPartition

log = HeldLogs(DiskLogs(course.make_scratch_folder()))
broker = course.start_broker(log)
orders_0 = TopicPartition("orders", 0)

answer = broker.offset_commit("dashboard", {orders_0: OffsetCommit(5)})
course.print_offset_places(broker, "dashboard", orders_0)

# %% [markdown]
# The line shows three places:
#
# - **pending**: a note in memory. It says that a commit of 5 is on its way.
# - **log**: the records on the disk of this broker.
# - **cache**: the map in memory. The coordinator answers fetches from it.
#
# So the record is in the log, the cache is empty, and the client has no answer yet.
#
# *Predict*: another client fetches the offset of `orders-0` now. Which offset does it receive? −1 means that nothing is committed.

# %%
# prediction
while_in_flight = ...

# %%
fetched = broker.offset_fetch("dashboard").offsets.get(orders_0, -1)

course.reveal("while_in_flight", while_in_flight, fetched)

# %% [markdown]
# <details><summary>Why?</summary>
#
# A fetch reads the cache. An offset is cached only when the replicas have its record. Until then, a crash could lose the record. If a client had already received this offset, it would skip records.
#
# </details>
#
# Now the replicas have the record:

# %%
log.release()
course.print_offset_places(broker, "dashboard", orders_0)

# %% [markdown]
# ## Step by step, with a power cut
#
# The figure commits 5, then 6. It shows the second commit in smaller steps: first the cache, then the answer.
#
# Go through the steps. At each step, cut the power: this broker is gone, with its memory. Another broker loads its copy of the log and answers a fetch. It may have the whole log, or only the records that the replicas have confirmed.

# %%
# figure
course.CommitAndPowerCut("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6")

# %% [markdown]
# If you cut the power after these steps:
#
# - **Step 4**: 6 is only in memory. A crash loses it.
# - **Step 5**: the record is on one disk. The next broker may have it or not.
# - **Step 6**: the replicas have the record, so it is safe. The client has no answer yet.
# - **Step 7**: the client has the answer.
#
# This is the promise: a commit that was answered `NONE` is not lost, as long as one replica in sync survives. But a commit **without** an answer may be stored, too.

# %% [markdown]
# ## The append fails
#
# There are two cases:
#
# - The log **refuses** the batch, for example if too few replicas are in sync. Nothing is written.
# - The batch is **too late**. The log writes it, but the replicas do not have it within 5 seconds (`offsets.commit.timeout.ms`).
#
# In both cases, the coordinator removes its note in `pending`, and the client receives an error.
#
# *Predict*: 5 is committed. Then the commit of 6 is too late.
#
# 1. A client fetches the offset from this broker.
# 2. This broker dies, and a client fetches the offset from the next one, which has the whole log.
#
# Which two offsets do they receive? Write a pair, for example `(1, 2)`.

# %%
# prediction
this_and_next = ...

# %%
late = course.CommitScript("commit 5", "confirm 5", "commit 6", "late 6")
with course.fold("this_and_next", this_and_next, late.read_last_offsets()):
    late.print_steps()

# %% [markdown]
# <details><summary>Is that a problem?</summary>
#
# The client received `REQUEST_TIMED_OUT`, as in Kafka 3.9. The table at the end shows what Kafka 4.x does.
#
# Usually, the difference is no problem. `commitSync` sends the commit again, and the new record is valid everywhere. A client that gives up may later receive 6, although it believed that 6 was lost. But it never receives an offset that no client has committed.
#
# </details>
#
# ## What the client is told
#
# The error of the log is about a partition of `__consumer_offsets`. A client does not know this partition. If it received `NOT_LEADER_OR_FOLLOWER`, it would look for a new leader of `orders-0`. So the coordinator translates the error into advice:
#
# | a client of Kafka 4.x receives | the advice |
# |---|---|
# | `COORDINATOR_NOT_AVAILABLE` | the coordinator cannot store the commit now: wait, and commit again |
# | `NOT_COORDINATOR` | this broker is no longer the coordinator: find the new one, and commit again |
# | `UNKNOWN_SERVER_ERROR` | the same request will fail again: do not repeat it |

# %% [markdown]
# ## Exercise: translate an error
#
# | error of the log | what happened |
# |---|---|
# | `UNKNOWN_TOPIC_OR_PARTITION` | the partition of `__consumer_offsets` does not exist yet |
# | `NOT_ENOUGH_REPLICAS` | too few replicas are in sync |
# | `REQUEST_TIMED_OUT` | the replicas do not have the record in time |
# | `NOT_LEADER_OR_FOLLOWER` | another broker leads the partition now |
# | `KAFKA_STORAGE_ERROR` | the disk has failed, so this broker gives up the partition |
# | `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE`, `INVALID_FETCH_SIZE` | the batch is larger than a batch may be |
#
# Write `commit_error(append_error)`. It takes the name of the log's error, and returns the name that the client receives. Other names stay the same.

# %%
# exercise: commit_error
def commit_error(append_error):
    ...

# %%
course.check("commit_error", commit_error)
# course.hint("commit_error")

# %% [markdown]
# ## Two commits on their way
#
# A consumer that calls `commitAsync` twice can have two commits of one partition on their way.
#
# The coordinator handles the requests of a group one after the other. The classic coordinator has a lock for each group, and the new one has a queue for each partition. So the log has the order of the requests. But the confirmations of the replicas can arrive in another order.
#
# *Predict*: 6 is appended, then 7. First 7 is confirmed, then 6. Which offset is in the cache at the end?

# %%
# prediction
in_the_end = ...

# %%
crossed = course.CommitScript("commit 5", "confirm 5", "commit 6", "commit 7", "confirm 7", "confirm 6")
with course.fold("in_the_end", in_the_end, crossed.read_last_offsets()[0]):
    crossed.print_steps()

# %% [markdown]
# The position in the log decides, and not the order of the confirmations. A broker that loads this log finds 7 at its end, too. So the cache and the log agree.

# %% [markdown]
# ## Exercise: three commits, on paper
#
# `pending` has room for one offset of each partition. These are the rules of the classic coordinator:
#
# - *commit*: the offset becomes the pending one. It replaces an earlier pending one.
# - *stored*: the replicas have the record. The offset is cached if something is pending and the cached record is not later in the log. After that, if this offset is the pending one, `pending` becomes empty.
# - *failed*: if this offset is the pending one, `pending` becomes empty.
#
# At the start, 5 is cached and nothing is pending. Then this happens: commit 6, commit 7, failed 7, commit 8, stored 6. Which offset is cached now, and which is pending? Write a pair, with `None` for nothing.

# %%
# exercise: cached_and_pending
cached_and_pending = ...

# %%
course.check("cached_and_pending", cached_and_pending)
# course.hint("cached_and_pending")

# %% [markdown]
# <details><summary>Why must something be pending?</summary>
#
# If a topic is deleted, the coordinator removes the offsets of the topic, also from `pending`. A confirmation that arrives later must not bring such an offset back.
#
# </details>
#
# ## What is written
#
# The group `dashboard` of Harbour Coffee committed four times. These are the batches in the log of a 4.3.1 broker:

# %%
import kafkagroups as kg

for batch in kg.open_log(course.find_data("harbour/4.3.1/__consumer_offsets-38")):
    commits = [kg.decode(record.key, record.value) for record in batch.records]
    offsets = ", ".join(f"{commit.key.topic}-{commit.key.partition} = {commit.value.offset}" for commit in commits)
    print(f"batch at offset {batch.base_offset}, {batch.size} bytes, value version {commits[0].value_version}: {offsets}")

# %% [markdown]
# - Each request is one batch.
# - `dashboard` has no members, so the log has no group record. Commits without a member are called *simple*.
# - The version of the request does not matter. There is one exception: a commit with a retention time is stored in version 1.
#
# A 3.9.2 broker received the same commits. Our coordinator repeats them, and must write batches of the same size:

# %%
real = kg.open_log(course.find_data("harbour/3.9.2/__consumer_offsets-38"))
again = course.start_broker(now_ms=0)
for batch in real:
    course.commit_again(again, batch)

ours = [(batch.base_offset, batch.size) for batch in again.manager.logs.read(38)]
for offset, size in ours:
    print(f"batch at offset {offset}, {size} bytes")
course.compare_with_broker(ours, [(batch.base_offset, batch.size) for batch in real], "3.9.2", verb="wrote")

# %% [markdown]
# ## What is left after a crash
#
# Each line is a run. 5 is committed, a client commits 6, and the broker dies at the given moment:

# %%
course.print_crash_outcomes()

# %% [markdown]
# A crash loses only the coordinator's memory. The next broker rebuilds the cache from its log. It cannot rebuild `pending`.
#
# ## Read, but not committed
#
# A consumer also has a *position*: the next record that it will read. The position is only in the consumer's memory.
#
# Say 6 is committed, and a consumer has read the records 6 to 9. Then it crashes. Its successor starts at 6 and reads 6 to 9 **again**, because they are still in `orders-0`.
#
# - If you commit **after** the processing, each record is processed *at least once*.
# - If you commit **before** the processing, each record is processed *at most once*: after a crash, some are never processed.

# %% [markdown]
# ## Exercise: commit again?
#
# A commit says "I am at 6", and not "one more". So a client may repeat a commit. But look at this case:
#
# A consumer calls `commitAsync(6)` and then `commitAsync(7)`. 7 is answered `NONE`. 6 is answered with an error. The application now sends 6 again, and it is answered `NONE`. Which offset does the group have?
#
# - **A**: 7, because 7 is the larger offset.
# - **B**: 6, because its record is later in the log.
# - **C**: 7, because the coordinator refuses an offset that goes back.
#
# Write the letter as a text.

# %%
# exercise: commit_again
commit_again = ...

# %%
course.check("commit_again", commit_again)
# course.hint("commit_again")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | until the replicas have the record | the memory has the new offset and a *snapshot* of the old one; fetches read the snapshot | the memory has the old offset and a note in `pending` |
# | a fetch with *requireStable* meanwhile | waits for the replicas, and gets the new offset | gets `UNSTABLE_OFFSET_COMMIT` |
# | the log refuses the batch | returns to the snapshot | removes the note |
# | the replicas are too late | client: `COORDINATOR_NOT_AVAILABLE`; fetches get the offset when the replicas have it | client: `REQUEST_TIMED_OUT`; fetches get the old offset until the next commit or load |
# | the batch is too large | client: `UNKNOWN_SERVER_ERROR` | client: `INVALID_COMMIT_OFFSET_SIZE` |
# | one batch contains | the records of one or more requests | the records of one request |
#
# <details><summary>Other versions</summary>
#
# Kafka 1.0.1 gives every commit an expire timestamp: the time of the commit plus `offsets.retention.minutes`, a day there. Up to 3.7, metadata that is too long leaves a note in `pending` behind. In 1.0.1, a commit with the oldest version of the request goes to ZooKeeper. The classic coordinator also translates `NOT_ENOUGH_REPLICAS_AFTER_APPEND`, to `COORDINATOR_NOT_AVAILABLE`. Since 3.6, `NETWORK_EXCEPTION` becomes `COORDINATOR_LOAD_IN_PROGRESS`. It only occurs in transactions.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - Append, wait for the replicas, update the memory, answer.
# - `NONE` means that all replicas in sync have the commit.
# - An error or no answer means that the commit may be stored or not.
# - The later record in the log is the newer commit.
# - Records that were read and not committed are read again.
#
# ## For your consumer
#
# - `commitSync` waits and retries. Use it before you close a consumer.
# - `commitAsync` does not retry, because an older offset could overwrite a newer one. Log its errors, and let the next commit repair them.
# - With `enable.auto.commit=true`, `poll` commits every 5 seconds (`auto.commit.interval.ms`). After a crash, about five seconds of work are repeated. Your code must tolerate a record that comes twice.

# %% [markdown]
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | Commits fail with `COORDINATOR_NOT_AVAILABLE` | (1) | If it lists partitions, the log refuses batches: too few replicas are in sync | Bring the missing brokers back. Consumers repeat their commits |
# | The same, or `REQUEST_TIMED_OUT`, but (1) lists nothing | (2) | A listed partition has a slow replica | Look at the disk and the network of that broker |
# | `INVALID_COMMIT_OFFSET_SIZE`, or `UNKNOWN_SERVER_ERROR` since 4.0 | (3) | One request has more bytes than `max.message.bytes` allows | Commit fewer partitions in one request |
# | Is this commit stored? | (4) | It lists all commits and the one that counts | Reading is safe |
# | A broker up to 3.9 warns: `Mixing both types of offset commits` | (4) | The group commits in transactions and outside of them | Use one of both. Lesson 08 shows why |
#
# ```
# (1) kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-min-isr-partitions
# (2) kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-replicated-partitions
# (3) kafka-configs.sh --bootstrap-server localhost:9092 --describe --all --entity-type topics --entity-name __consumer_offsets
# (4) kafkagroups explain PATH --group billing --topic orders --partition 0
# ```
#
# `PATH` is a copy of the partition's folder.

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | the request | `GroupCoordinatorService.commitOffsets`, `OffsetMetadataManager.commitOffset` | `GroupCoordinator.doCommitOffsets` |
# | append and wait | `CoordinatorRuntime.scheduleWriteOperation` | `GroupMetadataManager.storeOffsets`, `ReplicaManager.appendRecords` |
# | confirmed | `SnapshottableCoordinator.updateLastCommittedOffset` | `createPutCacheCallback`, `GroupMetadata.onOffsetCommitAppend` |
# | translated errors | `CoordinatorOperationExceptionHelper.handleOperationException` | `maybeConvertOffsetCommitError` |
# | one request after the other | `MultiThreadedEventProcessor` | `GroupMetadata.inLock` |
#
# </details>
#
# ## What we left out, and why
#
# How replicas copy records: here, they confirm when you say so. Lesson 07 shows which commits are allowed.
#
# **Next:** [05 · Fetching](05_fetching.ipynb): why the topic is never read when a consumer asks for its offset.
