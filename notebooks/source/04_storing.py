# %% [markdown]
# # 04 · Storing
#
# **What happens between `commitSync()` and the answer?**
#
# **Which Kafka:** the coordinators of 4.x and 3.9, side by side.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say where a commit is at each moment, which error a client receives, and what a crash leaves | {{minutes}} | no |
#
# ![For a commitSync, the coordinator checks the commit, appends a record, waits for the replicas, shows the new offset, and then answers NONE.](pictures/04.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The order: **append** the record to the log, **wait** for the replicas, **show** the offset to fetches, **answer** the client `NONE` (no error).
# 2. All accepted offsets of one request are in **one batch**, so they are stored together or not at all.
# 3. Of two commits for one partition, the one **later in the log** is newer.
# 4. After an error, a commit **may still be stored**.
#
# A [*replica*](../docs/handbook/glossary.md#replica) is a copy of a partition on another broker. If it keeps up with the leader, it is [*in sync*](../docs/handbook/glossary.md#in-sync) and can become the next leader.

# %% [markdown]
# ## A commit without an answer
#
# A broker answers a commit in milliseconds, too fast to watch. So our log, `HeldLogs`, appends each batch as usual, but the replicas confirm it only when we call `release()`. We send the same commit to two running coordinators, 4.3.1 and 3.9.2, and look at them while it is in flight:

# %%
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

orders_0 = TopicPartition("orders", 0)
broker = course.start_broker(kafka="4.3.1", holds_answers=True)
classic_broker = course.start_broker(kafka="3.9.2", holds_answers=True)

for name, each in [("4.3.1", broker), ("3.9.2", classic_broker)]:
    answer = each.offset_commit("dashboard", {orders_0: OffsetCommit(5)})
    partition = each.manager.partition_for("dashboard")
    appended = sum(batch.count for batch in each.manager.logs.read(partition))
    print(f"{name}: records in the log: {appended}; the client's answer: {answer}")

# %% [markdown]
# Both coordinators have appended the record, and neither has answered, because a crash of this one broker could still lose it. They differ in what their memory holds meanwhile:
#
# - That of 4.x has applied the record already. It also keeps a *snapshot*, the state before the record.
# - That of 3.9 leaves its [**cache**](../docs/handbook/glossary.md#cache) of offsets as it was, and notes in [**pending**](../docs/handbook/glossary.md#pending) that a commit of 5 is in flight.
#
# *Predict*: another client fetches the offset of `orders-0` now. Which offset does it receive? −1 means that nothing is committed.

# %%
# prediction
while_in_flight = ...

# %%
fetched = broker.offset_fetch("dashboard").value.offsets.get(orders_0, -1)
classic_fetched = classic_broker.offset_fetch("dashboard").value.offsets.get(orders_0, -1)
with course.fold("while_in_flight", while_in_flight, fetched):
    print(f"4.3.1 returns {fetched}, 3.9.2 returns {classic_fetched}")

# %% [markdown]
# <details><summary>Why?</summary>
#
# A fetch returns an offset only when the replicas have its record, because until then a crash could lose the record, and a client that had received this offset would continue at a place that no broker remembers. So 4.x answers from its snapshot until the replicas confirm, and 3.9 always answers from its cache.
#
# </details>
#
# Now the replicas confirm the record:

# %%
for name, each in [("4.3.1", broker), ("3.9.2", classic_broker)]:
    each.manager.logs.release()
    print(f"{name}: a fetch returns {each.offset_fetch('dashboard').value.offsets[orders_0].offset}")

# %% [markdown]
# ## Step by step, with a power cut
#
# 5 is committed, and the figure shows the commit of 6. Cut the power at each step: the broker is gone, with its memory. A replica becomes the next leader and loads its copy of the log, which has every confirmed record and perhaps newer ones.

# %%
# figure
course.CommitAndPowerCut()

# %% [markdown]
# <details><summary>What a power cut at each step leaves</summary>
#
# - **After “6 checked”**: 6 is only in memory, so the crash loses it, and the next broker answers 5.
# - **After “6 appended”**: the record is on one disk, and perhaps on the next leader's. The answer is 6 or 5.
# - **After “6 confirmed”**: the replicas have the record. It is safe, although the client has no answer yet.
# - **After “6 answered”**: the client knows it, too.
#
# </details>
#
# Both coordinators end alike, because a crash leaves only the log. A commit that was answered `NONE` is safe as long as one replica in sync survives. One **without** an answer may be stored, too.

# %% [markdown]
# ## The append fails
#
# The log may **refuse** the batch, for example because too few replicas are in sync, and then writes nothing. Or the batch is **too late**: it is written, but not confirmed within 5 seconds (`offsets.commit.timeout.ms`).
#
# *Predict*: 5 is committed, and the commit of 6 is too late. Which offset does a fetch from this broker return, and which one from the next broker, which has the whole log? Write a pair, for example `(1, 2)`.

# %%
# prediction
this_and_next = ...

# %%
from IPython.display import display

from kafkagroups.coordinator import Errors

both = ("4.3.1", "3.9.2")


def commit_too_late(broker):
    log = broker.manager.logs
    yield "commit 5", broker.offset_commit("dashboard", {orders_0: OffsetCommit(5)})
    log.release()
    yield "commit 6, which is too late", broker.offset_commit("dashboard", {orders_0: OffsetCommit(6)})
    log.release(error=Errors.REQUEST_TIMED_OUT)
    yield "a fetch from this broker", broker.offset_fetch("dashboard")
    yield "a fetch from the next broker", course.start_follower(broker, "dashboard").offset_fetch("dashboard")
    orders_1 = TopicPartition("orders", 1)
    yield "commit 3 for orders-1", broker.offset_commit("dashboard", {orders_1: OffsetCommit(3)})
    log.release()
    yield "a fetch from this broker", broker.offset_fetch("dashboard", [orders_0])


late = course.compare_brokers(commit_too_late, both, holds_answers=True)
this_broker, next_broker = [int(step.answers[0].removeprefix("orders-0: ")) for step in late.steps[2:4]]
with course.fold("this_and_next", this_and_next, (this_broker, next_broker)):
    display(late)

# %% [markdown]
# <details><summary>Why two different offsets, and why does the last row differ?</summary>
#
# The error does not take the record out of the log. This broker must not show 6, because the replicas may still lose it, but a next broker that has the record loads it.
#
# A replica copies the log in order, so when it confirms the later record of `orders-1`, it has 6 as well. The new coordinator therefore shows 6 from then on. The classic one gave 6 up when it sent the error, and answers 5 until the next commit of `orders-0` or the next load.
#
# </details>
#
# So a commit that ended with an error may still count later. `commitSync` therefore commits again, and then all brokers agree.

# %% [markdown]
# ## What the client is told
#
# The log's error is about a partition of `__consumer_offsets`, but the client would relate it to `orders-0`. So the coordinator translates it into advice:
#
# | 4.x answers | the advice |
# |---|---|
# | `COORDINATOR_NOT_AVAILABLE` | Wait, and commit again. |
# | `NOT_COORDINATOR` | Find the new coordinator, and commit again. |
# | `UNKNOWN_SERVER_ERROR` | Repeating does not help: the consumer throws an exception. |

# %% [markdown]
# ## Exercise: translate an error
#
# Write `commit_error(append_error)`: it takes the log's error and returns the answer of **4.x**. Other errors stay unchanged.
#
# | error of the log | what happened |
# |---|---|
# | `UNKNOWN_TOPIC_OR_PARTITION` | The offsets topic does not exist yet. |
# | `NOT_ENOUGH_REPLICAS` | Too few replicas in sync. |
# | `REQUEST_TIMED_OUT` | The batch is too late. |
# | `NOT_LEADER_OR_FOLLOWER` | Another broker leads the partition now. |
# | `KAFKA_STORAGE_ERROR` | The disk failed, so the broker gives up the partition. |
# | `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE`, `INVALID_FETCH_SIZE` | The batch is too large for the log. |

# %%
# exercise: commit_error
def commit_error(append_error):
    ...

# %%
course.check("commit_error", commit_error)
# course.hint("commit_error")

# %% [markdown]
# ## Exercise: what is left after a crash
#
# 5 is committed, a client commits 6, and the broker dies. Which offset does the next one return if
#
# 1. the client has `NONE`?
# 2. the record is confirmed, but not answered?
# 3. the record is appended, but not confirmed?
# 4. the log has refused the batch?
# 5. the batch was too late, and the client has an error?
#
# Write five values in parentheses: 5, 6, or `None` if its copy decides.

# %%
# exercise: after_the_crash
after_the_crash = ...

# %%
course.check("after_the_crash", after_the_crash)
# course.hint("after_the_crash")

# %% [markdown]
# ## Two commits on their way
#
# `commitAsync` does not wait, so two commits of one partition can be on their way. The log has them in the order of the requests, because a coordinator handles a group's requests one after the other: 4.x has a queue for each partition, 3.9 a lock for each group. The confirmations can arrive in another order.
#
# *Predict*: 6 is appended, then 7. First 7 is confirmed, then 6. Which offset does a fetch return at the end?

# %%
# prediction
in_the_end = ...

# %%
def confirm_7_before_6(broker):
    log = broker.manager.logs
    yield "commit 6", broker.offset_commit("dashboard", {orders_0: OffsetCommit(6)})
    yield "commit 7", broker.offset_commit("dashboard", {orders_0: OffsetCommit(7)})
    log.release(1)
    yield "7 is confirmed: a fetch", broker.offset_fetch("dashboard")
    log.release(0)
    yield "6 is confirmed: a fetch", broker.offset_fetch("dashboard")


crossed = course.compare_brokers(confirm_7_before_6, both, holds_answers=True)
with course.fold("in_the_end", in_the_end, int(crossed.steps[-1].answers[0].removeprefix("orders-0: "))):
    display(crossed)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The position in the log decides. The new coordinator remembers only up to which position its log is confirmed, and 7 includes 6. The classic one takes each confirmation by itself, but compares positions: the record of 6 is earlier than that of the cached 7, so the cache stays. A broker that loads this log finds 7 at its end, too.
#
# </details>
#
# So a late 6 never replaces a newer commit.

# %% [markdown]
# ## The rules of `pending`
#
# Only 3.9 needs these rules, because 4.x has its snapshot.
#
# <details><summary>The rules of 3.9, and a commit that is answered NONE but not shown</summary>
#
# `pending` has room for one offset of each partition:
#
# - **A commit arrives.** Its offset replaces an older one in `pending`.
# - **Its append fails.** If `pending` still has this commit, it becomes empty.
# - **The replicas confirm its record.** The offset moves into the cache, unless the cache has an offset of a later record, or `pending` is empty. If `pending` has this commit, it becomes empty.
#
# The last condition protects deletions: when a topic is deleted, its offsets leave the cache and `pending`, and a late confirmation must not bring them back. It asks only whether *anything* is in `pending`, which has a side effect. If 6 and 7 are in flight and 7 is too late, `pending` is empty. When 6 is confirmed, its client receives `NONE`, but fetches return the older offset until the next commit or load. The same happens if the group is deleted while its commit is in flight.
#
# </details>

# %% [markdown]
# ## What is written
#
# A real 4.3.1 broker wrote a batch for each of four requests. Do our coordinators write the same?

# %%
import kafkagroups as kg

for batch in kg.open_log(course.find_data("harbour/4.3.1/__consumer_offsets-38")):
    commits = [kg.decode(record.key, record.value) for record in batch.records]
    offsets = ", ".join(f"{commit.key.topic}-{commit.key.partition} = {commit.value.offset}" for commit in commits)
    print(f"batch at offset {batch.base_offset}, {batch.size} bytes, value version {commits[0].value_version}: {offsets}")

for kafka in both:
    real = list(kg.open_log(course.find_data(f"harbour/{kafka}/__consumer_offsets-38")))
    again = course.start_broker(kafka=kafka, now_ms=0)
    for batch in real:
        course.commit_again(again, batch)
    ours = [(batch.base_offset, batch.size) for batch in again.manager.logs.read(38)]
    course.compare_with_broker(ours, [(batch.base_offset, batch.size) for batch in real], kafka, verb="wrote")

# %% [markdown]
# These commits are [*simple*](../docs/handbook/glossary.md#simple-commit): their client is not a member of the group.

# %% [markdown]
# ## Read, but not committed
#
# A consumer's [*position*](../docs/handbook/glossary.md#position-of-a-consumer), the next record that it will read, is only in its memory. If 6 is committed and it crashes after it has read the records 6 to 9, its successor reads them **again**.
#
# - If you process first and commit **afterwards**, each record is processed [*at least once*](../docs/handbook/glossary.md#at-least-once).
# - If you commit **before**, each is processed [*at most once*](../docs/handbook/glossary.md#at-most-once), and a crash skips some.

# %% [markdown]
# ## Exercise: commit again?
#
# A consumer calls `commitAsync(6)`, then `commitAsync(7)`. 7 is answered `NONE`, but 6 with an error, so the application commits 6 again and gets `NONE`. Which offset does the group have?
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
# | | Kafka 4.x | up to 3.9 |
# |---|---|---|
# | too late | `COORDINATOR_NOT_AVAILABLE`; shown when confirmed | `REQUEST_TIMED_OUT`; shown after the next load |
# | too large | `UNKNOWN_SERVER_ERROR` | `INVALID_COMMIT_OFFSET_SIZE` |
# | one batch | one or more requests | one request |
#
# <details><summary>Other versions</summary>
#
# - Kafka 1.0.1 gives every commit an expire timestamp: the time of the commit plus `offsets.retention.minutes`, one day by default. A commit request of version 0 goes to ZooKeeper.
# - Up to 3.7, a commit that is refused because its metadata is too long stays in `pending`. Until the next commit or load, fetches of stable offsets (lesson 05) receive an error for this partition, and its offset does not expire.
# - A broker up to 3.9 warns `Mixing both types of offset commits` if a group commits in transactions and outside of them (lesson 08).
#
# [All errors of an append](../docs/handbook/errors.md#errors-of-an-append) are in the handbook.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - Append, wait for the replicas, show the offset, answer.
# - `NONE` means that all replicas in sync have the commit.
# - Without `NONE`, the commit may be stored or not.
# - The later record in the log is the newer commit.
# - Records that were read but not committed are read again.
#
# ## For your consumer
#
# - `commitSync` retries for up to 60 seconds (`default.api.timeout.ms`). Use it before you close a consumer. After a `TimeoutException`, ask `consumer.committed(…)`.
# - `commitAsync` does not retry, because the older offset could overwrite a newer commit. Log its errors; the next successful commit makes up for them.
# - With `enable.auto.commit=true`, `poll` commits every 5 seconds (`auto.commit.interval.ms`), so a crash repeats about five seconds of records.

# %% [markdown]
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | Commits fail with `COORDINATOR_NOT_AVAILABLE`. | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-min-isr-partitions` | A listed partition has too few replicas in sync. | Bring the missing brokers back. Consumers repeat their commits. |
# | This command lists nothing, but commits still fail. | the same with `--under-replicated-partitions` | A listed partition has a replica that is 30 seconds late (`replica.lag.time.max.ms`). | Look at its disk and network. |

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
# How replicas copy records, and which commits are allowed (lesson 07). All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [05 · Fetching](05_fetching.ipynb): a consumer asks for its offset, and nobody reads the topic.
