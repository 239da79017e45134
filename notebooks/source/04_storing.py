# %% [markdown]
# # 04 · Storing
#
# **What happens between `commitSync()` and the answer?**
#
# **Which Kafka:** the coordinator of 4.x and that of 3.9. The section about `pending` is about 3.9 alone.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say where a commit is at each moment, which error a client receives, and what is left after a crash; say what happens to records that were read but not committed | {{minutes}} | no |
#
# ![For a commitSync, the coordinator checks the commit, appends a record, waits for the replicas, shows the new offset, and then answers NONE.](pictures/04.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The order is: **append** the record to the log, **wait** for the replicas, **show** the offset to fetches, and only then **answer** the client `NONE` (no error).
# 2. All accepted offsets of one request are in **one batch**. They are stored together, or not at all.
# 3. If two commits are for one partition, the commit **later in the log** is newer.
# 4. After an error, the commit **may still be stored**.
#
# A [*replica*](../docs/handbook/glossary.md#replica) is a copy of a partition on another broker. It is [*in sync*](../docs/handbook/glossary.md#in-sync) if it keeps up with the leader. One of these replicas becomes the next leader.

# %% [markdown]
# ## A commit without an answer
#
# A broker answers a commit in a few milliseconds, which is too fast to watch. So our log, `HeldLogs`, appends each batch to the disk as usual, but the replicas confirm it only when we call `release()`. We send the same commit to two running coordinators, that of Kafka 4.3.1 and that of 3.9.2, and stop both while the commit is in flight:

# %%
from kafkagroups import course
from kafkagroups.coordinator import DiskLogs, HeldLogs, OffsetCommit, TopicPartition

orders_0 = TopicPartition("orders", 0)


def start_held_broker(kafka):
    log = HeldLogs(DiskLogs(course.make_scratch_folder()))
    return log, course.start_broker(log, kafka=kafka)


log, broker = start_held_broker("4.3.1")
classic_log, classic_broker = start_held_broker("3.9.2")

for name, each in [("4.3.1", broker), ("3.9.2", classic_broker)]:
    answer = each.offset_commit("dashboard", {orders_0: OffsetCommit(5)})
    partition = each.manager.partition_for("dashboard")
    appended = sum(batch.count for batch in each.manager.logs.read(partition))
    print(f"{name}: records in the log: {appended}; the client's answer: {answer}")

# %% [markdown]
# Both coordinators have appended the record, and neither has answered, because a crash of this one broker could still lose it. They differ in what their memory holds meanwhile:
#
# - That of 4.x has applied the record already. It also keeps a *snapshot*, the state before the record, and fetches read this snapshot until the replicas confirm.
# - That of 3.9 leaves its [**cache**](../docs/handbook/glossary.md#cache), the map that answers fetches, as it was, and notes in [**pending**](../docs/handbook/glossary.md#pending) that a commit of 5 is in flight.
#
# *Predict*: another client fetches the offset of `orders-0` now. Which offset does it receive? −1 means that nothing is committed.

# %%
# prediction
while_in_flight = ...

# %%
fetched = broker.offset_fetch("dashboard").offsets.get(orders_0, -1)
classic_fetched = classic_broker.offset_fetch("dashboard").offsets.get(orders_0, -1)
with course.fold("while_in_flight", while_in_flight, fetched):
    print(f"4.3.1 returns {fetched}, 3.9.2 returns {classic_fetched}")

# %% [markdown]
# <details><summary>Why?</summary>
#
# A fetch returns an offset only when the replicas have its record, because until then a crash could lose the record. A client that had already received this offset would then continue at a place that no broker remembers.
#
# </details>
#
# Now the replicas confirm the record, and both coordinators show its offset:

# %%
for name, each_log, each in [("4.3.1", log, broker), ("3.9.2", classic_log, classic_broker)]:
    each_log.release()
    print(f"{name}: a fetch returns {each.offset_fetch('dashboard').offsets[orders_0].offset}")

# %% [markdown]
# ## Step by step, with a power cut
#
# The figure commits offset 5, then offset 6, with the coordinator of 3.9. The commit of 6 ends in two steps: first the cache, then the answer.
#
# At each step, cut the power: this broker is gone, with its memory. A replica becomes the next leader, and loads its copy of the log. The copy has every confirmed record. It may also have records that were not confirmed yet.

# %%
# figure
course.CommitAndPowerCut("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6")

# %% [markdown]
# <details><summary>What a power cut at each step leaves</summary>
#
# Steps 1 to 3 are the commit of 5. If you cut the power during the commit of 6:
#
# - **After step 4**: 6 is only in memory. The crash loses it.
# - **After step 5**: the record is on one disk. The next leader may have it or not.
# - **After step 6**: the replicas have the record, so it is safe. The client has no answer yet.
# - **After step 7**: the client has the answer.
#
# </details>
#
# This is the promise: a commit that was answered `NONE` is not lost, as long as one replica in sync survives. A commit **without** an answer may be stored, too.

# %% [markdown]
# ## The append fails
#
# An append can fail in two ways:
#
# - The log **refuses** the batch, for example if too few replicas are in sync. Nothing is written.
# - The batch is **too late**. The log writes it, but the replicas do not have it within 5 seconds (`offsets.commit.timeout.ms`).
#
# In both cases, the coordinator removes its note in `pending`, and the client receives an error.
#
# *Predict*: 5 is committed. Then the commit of 6 is too late. In the output, *in flight* means: not confirmed by the replicas.
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
# <details><summary>Why two different offsets?</summary>
#
# This broker answered `REQUEST_TIMED_OUT`, so it does not put 6 into its cache. But the record of 6 is in the log, and the next broker loads the whole log. The table at the end shows what Kafka 4.x does.
#
# Usually, the difference is no problem. `commitSync` sends the commit again. Then this broker and the next one have the same offset. A client that gives up may later receive 6, although it believed that 6 was lost. Kafka never invents an offset: each offset that a fetch returns was sent by some client in a commit.
#
# </details>

# %% [markdown]
# ## What the client is told
#
# If an append fails, the log's error is about a partition of `__consumer_offsets`. If the coordinator passed this error on, the client would believe that `orders-0` has the problem. For example, after `NOT_LEADER_OR_FOLLOWER` it would look for a new leader of `orders-0`. So the coordinator translates the error into advice:
#
# | a broker of Kafka 4.x answers | the advice |
# |---|---|
# | `COORDINATOR_NOT_AVAILABLE` | The coordinator cannot store the commit now. Wait, and commit again. |
# | `NOT_COORDINATOR` | This broker is no longer the coordinator. Find the new one, and commit again. |
# | `UNKNOWN_SERVER_ERROR` | The same request will fail again. Do not repeat it. |

# %% [markdown]
# ## Exercise: translate an error
#
# | error of the log | what happened |
# |---|---|
# | `UNKNOWN_TOPIC_OR_PARTITION` | The partition of `__consumer_offsets` does not exist yet. |
# | `NOT_ENOUGH_REPLICAS` | Too few replicas are in sync. |
# | `REQUEST_TIMED_OUT` | The replicas do not have the record in time. |
# | `NOT_LEADER_OR_FOLLOWER` | Another broker leads the partition now. |
# | `KAFKA_STORAGE_ERROR` | The disk has failed, so this broker gives up the partition. |
# | `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE`, `INVALID_FETCH_SIZE` | The batch is larger than the log allows. |
#
# Write `commit_error(append_error)`. It takes the name of the log's error, and returns the name that the client receives. If the table does not contain a name, return this name unchanged. This exercise wants the answers of Kafka **4.x**. (Above, the 3.9 coordinator answered `REQUEST_TIMED_OUT`.)

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
# `commitAsync` sends a commit and does not wait for the answer. So a consumer can have two commits of one partition on their way.
#
# The coordinator handles the requests of a group one after the other. The classic coordinator has a lock for each group. The new one has a queue for each partition. So the log has the order of the requests. But the replicas' confirmations can arrive in another order.
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
# <details><summary>Why?</summary>
#
# The position in the log decides, not the order of the confirmations. A broker that loads this log finds 7 at its end, too. So the cache and the log agree.
#
# </details>

# %% [markdown]
# ## The rules of `pending`
#
# The coordinator of 4.x needs no such note, because it has its snapshot. That of 3.9 has room for one offset in `pending` for each partition, and follows these rules:
#
# - **A commit arrives.** Its offset is now in `pending`. An older offset there is replaced.
# - **The append of a commit fails.** If this commit is in `pending`, `pending` becomes empty.
# - **The replicas have the record of a commit.** Two steps follow:
#     1. The offset is cached if two things are true: `pending` is not empty, and the cache has no offset from a later record.
#     2. If this commit is in `pending`, `pending` becomes empty.
#
# Why must `pending` not be empty? When a topic is deleted, the coordinator removes its offsets from the cache and from `pending`. A late confirmation must not bring them back.
#
# <details><summary>A commit that is answered NONE, but that a fetch does not return</summary>
#
# The classic coordinator has two exceptions to the order *fetches, answer*. In both, the record is in the log. Kafka 4.x does not have these cases.
#
# - 5 is cached, and the commits of 6 and 7 are on their way. Then 7 is too late, so `pending` is empty. After that, the replicas confirm 6. Its client receives `NONE`, but the cache stays at 5 until the next commit or load.
# - A commit is on its way, and its topic or its group is deleted. Then the replicas confirm the commit. Its client receives `NONE`, but nothing is cached. The next load finds the commit, unless a tombstone for it follows in the log.
#
# If the partition moves to another broker instead, a commit on its way is answered `NOT_COORDINATOR`. Its record may be in the log.
#
# </details>

# %% [markdown]
# ## Exercise: three commits, on paper
#
# At the start, 5 is cached and nothing is pending. Then this happens:
#
# 1. A commit of 6 arrives.
# 2. A commit of 7 arrives.
# 3. The append of 7 fails.
# 4. A commit of 8 arrives.
# 5. The replicas have the record of 6.
#
# Which offset is cached now, and which is pending? Write a pair `(cached, pending)`, with `None` for nothing.

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
# - Each of the four requests is one batch here.
# - `dashboard` has no members, so the log has no group record. A commit of a client that is not a member is called [*simple*](../docs/handbook/glossary.md#simple-commit).
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
# In each line, 5 is committed, a client commits 6, and the broker dies. `6 or 5` means that the answer depends on the next broker's copy of the log:

# %%
course.print_crash_outcomes()

# %% [markdown]
# A crash loses the coordinator's memory, and perhaps unconfirmed records. The next broker rebuilds the cache from its log, but not `pending`.

# %% [markdown]
# ## Read, but not committed
#
# A consumer also has a [*position*](../docs/handbook/glossary.md#position-of-a-consumer): the next record that it will read. The position is only in the consumer's memory.
#
# Say 6 is committed. A consumer has read the records 6 to 9, and crashes. Its successor starts at 6 and reads 6 to 9 **again**.
#
# - If you commit **after** the processing, each record is processed [*at least once*](../docs/handbook/glossary.md#at-least-once).
# - If you commit **before** the processing, each record is processed [*at most once*](../docs/handbook/glossary.md#at-most-once): after a crash, some are never processed.

# %% [markdown]
# ## Exercise: commit again?
#
# A commit stores a position, so it does no harm to send the same position twice. But in this case, another commit is in between:
#
# A consumer calls `commitAsync(6)` and then `commitAsync(7)`. 7 is answered `NONE`. 6 is answered with an error. The application sends 6 again, and this time the answer is `NONE`. Which offset does the group have?
#
# - **A**: 7, because 7 is the larger offset.
# - **B**: 6, because its record is later in the log.
# - **C**: 7, because the coordinator refuses an offset that goes back.
#
# Write the letter in quotes.

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
# | until the replicas have the record | The memory has the new offset. It also has a *snapshot*, a copy of the state before, and fetches read this snapshot. | The memory has the old offset and a note in `pending`. |
# | if the log refuses the batch | The coordinator returns to the snapshot. | The coordinator removes the note. |
# | if the replicas are too late | The client receives `COORDINATOR_NOT_AVAILABLE`. When the replicas have the record, fetches return the new offset. | The client receives `REQUEST_TIMED_OUT`. Fetches return the old offset until the next commit or load. |
# | if the batch is too large | The client receives `UNKNOWN_SERVER_ERROR`. | The client receives `INVALID_COMMIT_OFFSET_SIZE`. |
# | one batch contains | the records of one or more whole requests | the records of one request |
#
# <details><summary>Other versions</summary>
#
# - Kafka 1.0.1 gives every commit an expire timestamp: the time of the commit plus `offsets.retention.minutes`. In 1.0.1, this is one day by default. If the commit request has version 0, 1.0.1 stores it in ZooKeeper.
# - Up to 3.7, if the metadata of a commit is too long, the coordinator refuses the commit, but leaves its note in `pending`. Until the next commit or load, fetches of stable offsets (lesson 05) receive an error for this partition. Its offset does not expire.
# - In the classic coordinator, `INVALID_COMMIT_OFFSET_SIZE` is an answer to commits only. If a *group record* is too large, SyncGroup is answered `UNKNOWN_SERVER_ERROR`, as in Kafka 4.x.
# - In the classic coordinator, the log's error `NOT_ENOUGH_REPLICAS_AFTER_APPEND` becomes `COORDINATOR_NOT_AVAILABLE`. It means that the record is written, but too few replicas have it.
# - Since 3.6, the classic coordinator answers `COORDINATOR_LOAD_IN_PROGRESS` if a commit in a transaction fails with `NETWORK_EXCEPTION`.
#
# A broker up to 3.9 warns `Mixing both types of offset commits` if a group commits in transactions and outside of them. Lesson 08 shows why you should use only one of the two.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - Append, wait for the replicas, show the offset, answer.
# - `NONE` means that all replicas in sync have the commit.
# - After an error or without an answer, the commit may be stored or not.
# - The later record in the log is the newer commit.
# - Records that were read but not committed are read again.
#
# ## For your consumer
#
# - `commitSync` waits and retries, for up to 60 seconds (`default.api.timeout.ms`). Use it before you close a consumer. If it throws a `TimeoutException`, `consumer.committed(…)` tells you which offset is committed.
# - `commitAsync` does not retry, because by then a newer commit may be stored, which the older offset would overwrite. It is enough to log its errors, since the next successful commit makes up for them.
# - With `enable.auto.commit=true`, `poll` commits every 5 seconds (`auto.commit.interval.ms`). After a crash, the records of about five seconds come twice.

# %% [markdown]
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | Commits fail with `COORDINATOR_NOT_AVAILABLE`. | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-min-isr-partitions` | A listed partition refuses batches, because too few replicas are in sync. | Bring the missing brokers back. Consumers repeat their commits. |
# | This command lists nothing, but commits still fail. | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-replicated-partitions` | A listed partition has a slow replica. It is listed after 30 seconds (`replica.lag.time.max.ms`). | Look at the disk and network of that broker. |
# | Commits fail with `INVALID_COMMIT_OFFSET_SIZE`, or since 4.0 with `UNKNOWN_SERVER_ERROR`. | `kafka-configs.sh --bootstrap-server localhost:9092 --describe --all --entity-type topics --entity-name __consumer_offsets` | A request is larger than `max.message.bytes`. | Commit fewer partitions in one request. |
# | Is my commit stored? | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | CURRENT-OFFSET is the committed offset. | Reading is safe. |

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
# How replicas copy records. In this lesson, they confirm when you call `release()`. Lesson 07 shows which commits are allowed.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [05 · Fetching](05_fetching.ipynb): why the topic is never read when a consumer asks for its offset.
