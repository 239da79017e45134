# %% [markdown]
# # 04 · Storing
#
# **What happens between `commitSync()` and the answer?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say where a commit is at each moment; say what the client is told if something fails; say what is left after a crash at each step; say why an old commit must not be sent again | {{minutes}} | no |
#
# ```
#  commitSync({orders-0: 6})       the coordinator
#    │
#    ├─▶ 1  check       is this commit allowed?           no ─▶ an error
#    │   2  append      a record to __consumer_offsets,   on its own disk
#    │   3  wait        until the replicas have it
#    ◀── 4  answer      NONE
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. The order is: **log, replicas, answer**. A commit that was answered `NONE` is in the log.
# 2. One request is **one batch**. It is stored as a whole, or not at all.
# 3. If two commits are for one partition, the one **later in the log** is newer.
# 4. An error does not prove that nothing was stored.
#
# ## Look at a commit in the middle
#
# A broker answers a commit in a few milliseconds. To look at it in the middle, we use a coordinator of this package with a log that waits. `HeldLogs` appends each batch, and tells the coordinator only when we call `release()`.

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
# - **pending**: a note in memory. This commit is on its way.
# - **log**: the records on the disk of this broker.
# - **cache**: the map in memory that answers fetches.
#
# The record is in the log, and the client has no answer yet.
#
# *Predict*: another client fetches the offset of `orders-0` now. Which offset does it get? −1 means that nothing is committed.

# %%
# prediction
while_in_flight = ...

# %%
fetched = broker.offset_fetch("dashboard").offsets.get(orders_0, -1)

course.reveal("while_in_flight", while_in_flight, fetched)

# %% [markdown]
# <details><summary>Why?</summary>
#
# A fetch reads the cache. The offset comes into the cache when the replicas have the record. Until then, a crash could lose it, so nobody should see it.
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
# The widget commits 5, then 6. In the last column, this broker loses its power at this step, and another broker loads the log. `6 or 5` means: 6 if the new leader has the newest record, and 5 if the record had not reached it.

# %%
# figure
course.PendingCommitStepper("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6")

# %% [markdown]
# Read the last column from top to bottom:
#
# - **Step 4**: 6 is only in memory. A crash loses it. The client has no answer.
# - **Step 5**: the record is on one disk. It is open what the next broker has.
# - **Step 6**: the replicas have the record. It is safe, but the client does not know it yet.
# - **Step 7**: the client has the answer.
#
# This is the promise: a commit that was answered `NONE` is not lost, as long as one replica in sync lives. It has another side. A commit without an answer may be stored or not.

# %% [markdown]
# ## The append fails
#
# The log can **refuse** a batch, for example if too few replicas are in sync. Then nothing is written. The note in `pending` is removed, and the client gets an error.
#
# The other case is worse. The record is written, but the replicas do not have it in time (`offsets.commit.timeout.ms`, 5 seconds). The client gets `REQUEST_TIMED_OUT`.
#
# *Predict*: 5 was committed before. The commit of 6 was too late. Then a client fetches from this broker. After that, the broker dies, and a client fetches from the next broker, which has the whole log. Which two offsets do they get? Write a pair, for example `(1, 2)`.

# %%
# prediction
this_and_next = ...

# %%
late = course.PendingCommitStepper("commit 5", "confirm 5", "commit 6", "late 6")
with course.fold("this_and_next", this_and_next):
    course.reveal("this_and_next", this_and_next, late.read_last_offsets())
    display(late)

# %% [markdown]
# <details><summary>Is that a problem?</summary>
#
# Usually not. `commitSync` sends the commit again, and its newer record makes everything right. A client that does not send it again may later find an offset that it believed to be lost. It only finds offsets that a client committed.
#
# </details>
#
# ## What the client is told
#
# The error of the log is about a partition of `__consumer_offsets`. The client does not know this partition. If it got `NOT_LEADER_OR_FOLLOWER`, it would think of `orders-0`. So the coordinator translates the error into what the client should do:
#
# | the client should | so it gets | if the log says |
# |---|---|---|
# | wait and try again | `COORDINATOR_NOT_AVAILABLE` | `UNKNOWN_TOPIC_OR_PARTITION`, `NOT_ENOUGH_REPLICAS`, `NOT_ENOUGH_REPLICAS_AFTER_APPEND` |
# | find the new coordinator | `NOT_COORDINATOR` | `NOT_LEADER_OR_FOLLOWER`, `KAFKA_STORAGE_ERROR` |
# | commit less in one request | `INVALID_COMMIT_OFFSET_SIZE` | `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE`, `INVALID_FETCH_SIZE` |
# | wait until the load has ended | `COORDINATOR_LOAD_IN_PROGRESS` | `NETWORK_EXCEPTION` |
# | see the error | the same error | all others, for example `REQUEST_TIMED_OUT` |

# %% [markdown]
# ## Exercise: translate an error
#
# Write `commit_error(append_error)`. It takes the name of the log's error, and returns the name that the client gets.

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
# A consumer that calls `commitAsync` twice can have two commits of one partition on their way. The coordinator handles the requests of a group one after the other. So the order of the records is the order of the requests. The confirmations can come in another order.
#
# *Predict*: 6 is appended, then 7. The confirmation of 7 comes first, then the one of 6. Which offset is in the cache at the end?

# %%
# prediction
in_the_end = ...

# %%
crossed = course.PendingCommitStepper("commit 5", "confirm 5", "commit 6", "commit 7", "confirm 7", "confirm 6")
with course.fold("in_the_end", in_the_end):
    course.reveal("in_the_end", in_the_end, crossed.read_last_offsets()[0])
    display(crossed)

# %% [markdown]
# The place in the log decides, not the confirmation. Every loader decides in the same way.
#
# ## Exercise: three commits, on paper
#
# `pending` has room for one offset of each partition: the latest. These are the rules of the classic coordinator for one partition:
#
# - *commit*: the offset becomes the pending one.
# - *stored*: the log has it. It is cached, if something is pending and nothing later in the log is cached. If it is the pending one, `pending` becomes empty.
# - *failed*: if it is the pending one, `pending` becomes empty.
#
# At the start, 5 is cached and nothing is pending. Then this happens: commit 6, commit 7, failed 7, commit 8, stored 6. Which offset is cached now, and which is pending? Write a pair; `None` means none.

# %%
# exercise: cached_and_pending
cached_and_pending = ...

# %%
course.check("cached_and_pending", cached_and_pending)
# course.hint("cached_and_pending")

# %% [markdown]
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
# - One request is one batch.
# - `dashboard` has no members, and its commits are called *simple*. So there is no group record.
# - The version of the value does not depend on the version of the request, with one exception: a request with a retention time is stored in version 1.
#
# Our coordinator can repeat these commits at the same milliseconds. It writes what a real broker writes. For the log of the 3.9.2 broker:

# %%
real = kg.open_log(course.find_data("harbour/3.9.2/__consumer_offsets-38"))
again = course.start_broker(now_ms=0)
for batch in real:
    course.commit_again(again, batch)

ours = [(batch.base_offset, batch.size) for batch in again.manager.logs.read(38)]
print("offset and size of our batches:", *ours)
course.compare_with_broker(ours, [(batch.base_offset, batch.size) for batch in real], "3.9.2", verb="wrote")

# %% [markdown]
# ## What is left after a crash
#
# Each line is a run. 5 is cached, a commit of 6 is sent, and the broker dies at the given moment:

# %%
course.print_crash_outcomes()

# %% [markdown]
# A coordinator that dies loses only what is in its memory. For commits, this is the note in `pending`.
#
# The client can always send a commit again: a commit says "I am at 6", not "one more". This is safe only **if nothing newer was committed in between**.
#
# ## Exercise: commit again?
#
# A consumer calls `commitAsync(6)` and then `commitAsync(7)`. 7 is answered `NONE`. 6 is answered `REQUEST_TIMED_OUT`. The application now sends 6 again, and it is answered `NONE`. Which offset does the group have?
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
# | before the replicas have the record | changes its memory at once, keeps the earlier state as a snapshot, and answers fetches from this snapshot | keeps the commit in `pending` |
# | a fetch with *requireStable* during a plain commit | gets the last confirmed offset | gets `UNSTABLE_OFFSET_COMMIT` |
# | the append is refused | goes back to the snapshot | removes the note in `pending` |
# | several requests | can write the records of several requests in one batch | writes one batch for each request |
# | 7 fails, then 6 is confirmed | the cache has 6 | the cache keeps 5, and the log has 6, until the next commit or load |
#
# <details><summary>Other versions</summary>
#
# Kafka 1.0.1 gives every commit an expire timestamp: the time of the commit plus `offsets.retention.minutes`, a day there. Up to 3.7, metadata that is too long leaves a note in `pending` behind. In 1.0.1, a commit with the oldest version of the request goes to ZooKeeper.
#
# </details>
#
# ## In five lines
#
# - Append, wait for the replicas, then answer.
# - `NONE` means: the commit is in the log of all replicas in sync.
# - No answer, or a time-out, means: the commit may be stored or not.
# - The later record in the log is the newer commit.
# - A commit can be repeated only if no newer commit was sent in between.

# %% [markdown]
# ## For your consumer
#
# - `commitSync` waits and repeats. Use it before you close a consumer.
# - `commitAsync` does not repeat, because an older offset could win. Log its errors, and let the next commit repair them.
# - Before the next `poll`, records that you have read and not committed are your own risk: after a crash, they are read again.
# - `enable.auto.commit=true` with `auto.commit.interval.ms` (5 s) commits in `poll`. Up to five seconds of work are repeated after a crash.
#
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | Commits fail with `COORDINATOR_NOT_AVAILABLE` | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-min-isr-partitions` | Too few replicas are in sync, so the log refuses batches | Bring the missing brokers back. Consumers repeat their commits |
# | Commits fail with `REQUEST_TIMED_OUT` | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-replicated-partitions` | A replica is slow | Look at the disk and the network of that broker |
# | `INVALID_COMMIT_OFFSET_SIZE` | `kafka-configs.sh --bootstrap-server localhost:9092 --describe --entity-type topics --entity-name __consumer_offsets` | One request has more records than `max.message.bytes` allows | Commit fewer partitions in one request |
# | Is this commit stored? | `kafkagroups explain PATH --group billing --topic orders --partition 0`. PATH is a copy of the folder | It lists all commits and the one that counts | Reading is safe |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | the request | `GroupCoordinatorService.commitOffsets`, `OffsetMetadataManager.commitOffset` | `GroupCoordinator.doCommitOffsets` |
# | append and wait | `CoordinatorRuntime.scheduleWriteOperation` | `GroupMetadataManager.storeOffsets`, `ReplicaManager.appendRecords` |
# | confirmed | `SnapshottableCoordinator.updateLastCommittedOffset` | `createPutCacheCallback`, `GroupMetadata.onOffsetCommitAppend` |
# | translated errors | `CommitPartitionValidator`, `handleOperationException` | `maybeConvertOffsetCommitError` |
#
# </details>
#
# ## What we left out, and why
#
# Replication: here, the replicas confirm when you say so. Locks and threads: a broker handles the commits of a group one after the other, and so do we.
#
# **Next:** [05 · Fetching](05_fetching.ipynb): why the topic is never read when a consumer asks for its offset.
