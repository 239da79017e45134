# %% [markdown]
# # 04 · Storing
#
# **What happens between `commitSync()` and the answer?**
#
# **Which Kafka:** 4.x, with the new *group coordinator*, and groups of all types. "Where 3.9 differs" is about the classic one.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say where a commit is at each moment, which error a client receives, and what a crash leaves | {{minutes}} + 10 for later | no |
#
# ![For a commitSync, the coordinator checks the commit, appends a record, waits for the replicas, shows the new offset, and then answers NONE.](pictures/04.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The order: the coordinator **appends** a record to the log, **waits** for the replicas, **shows** the new offset to clients that fetch it, and **answers** `NONE` (no error).
# 2. The offsets of one request are in **one batch**, so they are stored together or not at all.
# 3. Of two commits of `orders-0`, the one whose record is **later in the log** wins.
# 4. After an error, a commit **may still be stored**.
#
# A [*replica*](../docs/handbook/glossary.md#replica) is a copy of a partition on another broker. If it keeps up with the leader, it is [*in sync*](../docs/handbook/glossary.md#in-sync) and may become the next leader. A *fetch* in this course is the fetch of an offset, never of records.

# %% [markdown]
# ## A commit without an answer
#
# A real broker answers too fast to watch. In our model, the log appends a batch at once, but the replicas confirm it only when we call `release()`. We commit offset 5:

# %%
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

orders_0 = TopicPartition("orders", 0)
broker = course.start_broker(kafka="4.3.1", holds_answers=True)
log = broker.manager.logs

answer = broker.offset_commit("dashboard", {orders_0: OffsetCommit(5)})
appended = sum(batch.count for batch in log.read(broker.manager.partition_for("dashboard")))
print(f"records in the log: {appended}; the client's answer: {answer}")

# %% [markdown]
# The record is in the log, but the client has no answer, because a crash could still lose it. From its append until the replicas have confirmed it, a commit is [*in flight*](../docs/handbook/glossary.md#in-flight).
#
# The coordinator now has two states in memory:
#
# - The **newest state** already has the offset 5. Requests that change the group work on this state: if a client deletes the group at this moment, the 5 is deleted with it, although it is not confirmed.
# - The [**snapshot**](../docs/handbook/glossary.md#snapshot) is the last state that the replicas have confirmed.
#
# *Predict*: a monitoring tool fetches the offset of `orders-0` now. Which offset does it receive, or −1 for *nothing committed*? (A consumer that starts would wait: lesson 05.)

# %%
# prediction
while_in_flight = ...

# %%
fetched = broker.offset_fetch("dashboard", [orders_0]).value.offsets[orders_0].offset
course.reveal("while_in_flight", while_in_flight, fetched)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The coordinator answers fetches from the snapshot. Until the replicas have the record, a crash could lose it, and a client that had received 5 would then continue at a place that no broker remembers.
#
# </details>
#
# Now the replicas confirm the record:

# %%
log.release()
fetched = broker.offset_fetch("dashboard", [orders_0]).value.offsets[orders_0].offset
print(f"a fetch returns {fetched}; the client's answer: {answer.value[orders_0].name}")

# %% [markdown]
# ## Step by step, with a power cut
#
# In the figure, 5 is committed, and a client commits 6. Watch only the upper half, 4.x. Cut the power at each step: the broker is gone, with its memory. A replica becomes the next leader and loads its copy of the log, which has every confirmed record and perhaps newer ones. Which offset does it answer?

# %%
# figure
course.CommitAndPowerCut()

# %% [markdown]
# <details><summary>What a power cut at each step leaves</summary>
#
# - **After “6 checked”**: 6 is only in memory, so the crash loses it, and the next broker answers 5.
# - **After “6 appended”**: the record is in one broker's log, and perhaps in the next leader's. The next broker answers 6 or 5.
# - **After “6 confirmed”**: the replicas have the record, so 6 is safe, although the client has no answer yet.
# - **After “6 answered”**: the client knows that 6 is stored.
#
# </details>
#
# So a commit that was answered `NONE` is safe as long as one replica in sync survives. A commit **without** an answer may be stored or not.

# %% [markdown]
# ## A commit times out
#
# If the replicas have not confirmed a batch after 5 seconds (`offsets.commit.timeout.ms`), the commit **times out**: the client gets an error, although the record is in the log.
#
# *Predict*: 5 is committed, and the commit of 6 times out. Which offset does this broker return? The next broker has a copy of the log, and this copy contains the record of 6. Which offset does the next broker return? Write a pair, for example `(1, 2)`.
#
# In the output, `log ← …` is a record that the broker wrote. *waits, then X* means that the client waited, and later received the answer X.

# %%
# prediction
this_and_next = ...

# %%
# script
from IPython.display import display

from kafkagroups.coordinator import Errors


def commit_times_out(broker):
    log = broker.manager.logs
    yield "commit 5", broker.offset_commit("dashboard", {orders_0: OffsetCommit(5)})
    log.release()
    yield "commit 6, which times out", broker.offset_commit("dashboard", {orders_0: OffsetCommit(6)})
    log.release(error=Errors.REQUEST_TIMED_OUT)
    yield "a fetch from this broker", broker.offset_fetch("dashboard")
    yield "a fetch from the next broker", course.start_follower(broker, "dashboard").offset_fetch("dashboard")


late = course.compare_brokers(commit_times_out, ("4.3.1",), holds_answers=True)
this_broker, next_broker = [int(step.answers[0].removeprefix("orders-0: ")) for step in late.steps[2:]]
with course.fold("this_and_next", this_and_next, (this_broker, next_broker)):
    display(late)

# %% [markdown]
# <details><summary>Why are there two different offsets?</summary>
#
# The error does not take the record out of the log. This broker must not show 6, because the replicas have not confirmed the record. In our example, the next broker happens to have the record, and a broker shows all that it has loaded from its log.
#
# </details>
#
# ## The log refuses a commit
#
# The log can also **refuse** a batch, for example because this broker does not lead the partition any more. Then the coordinator undoes the change in its newest state:
#
# | | 6 times out | the log refuses 6 |
# |---|---|---|
# | the log has | 5, 6 | 5 |
# | the newest state | stays at 6 | goes back to 5 |
# | a fetch returns | 5, and 6 as soon as the replicas confirm it | 5 |
#
# After a time-out, the client gets `COORDINATOR_NOT_AVAILABLE`, so it does not know whether the commit is stored. It can find out in two ways:
#
# - **Commit again**, as `commitSync` does. When this commit gets `NONE`, all replicas in sync have its record, and it is later in the log than the first one.
# - **Fetch the offset** with `consumer.committed(partitions)`. Unlike the fetch of a tool, this one waits until the replicas have confirmed the log (4.x, lesson 05), so 6 means that the commit is stored, and 5 that it is not. If the fetch times out, too, you still do not know.

# %% [markdown]
# ## How many copies a NONE means
#
# "In the log" does not mean "on the disk": the operating system writes the file a little later. What protects a commit are its copies: by default three, one on the leader and two on other brokers (`offsets.topic.replication.factor=3`). A replica that has fallen behind is not in sync, and nobody waits for it. If too few are in sync, the setting `min.insync.replicas` decides:
#
# | in sync, with the leader | `min.insync.replicas=1` (the default) | `min.insync.replicas=2` |
# |---|---|---|
# | 2 or 3 brokers | `NONE`: two or three copies | the same |
# | only the leader | `NONE`: one copy, which is lost with this broker | no `NONE`: the leader appends the record, but the commit times out. It is confirmed when a second broker is in sync |
#
# Which value is right depends on the number of replicas (`ReplicationFactor` in `kafka-topics.sh --describe`):
#
# - **Three replicas**: set 2. Then each `NONE` survives the loss of one broker, and groups can commit while one is down.
# - **Two replicas**: keep 1, because with 2, no commit of a partition gets `NONE` while one of its brokers is down. Better add a third one (`kafka-reassign-partitions.sh`).
# - **One replica**: Kafka uses 1, whatever you set. Add replicas first.
#
# To set it, without a restart:
#
# ```
# kafka-configs.sh --bootstrap-server localhost:9092 --alter --topic __consumer_offsets --add-config min.insync.replicas=2
# ```

# %% [markdown]
# ## What the client is told
#
# If the log refuses a batch with `NOT_LEADER_OR_FOLLOWER`, this error is about `__consumer_offsets`. But a client would think of `orders-0`, the partition in its commit. So the coordinator translates the errors of the log into three errors, each of which is advice. (`commitAsync` gives its result to your *callback*, a function.)
#
# | the answer | the advice | `commitSync` | the callback gets |
# |---|---|---|---|
# | `COORDINATOR_NOT_AVAILABLE` | You cannot know whether the commit is stored: wait, and commit again. | repeats for 60 seconds (`default.api.timeout.ms`), then throws `TimeoutException` | `RetriableCommitFailedException` |
# | `NOT_COORDINATOR` | Another broker can store the commit: ask which one coordinates the group now, and commit again. | the same | the same |
# | `UNKNOWN_SERVER_ERROR` | No broker will store the commit: repeating does not help. | throws `KafkaException` at once | `KafkaException` |
#
# After the first two answers, your program may go on, because its next commit replaces the failed one. Until the next commit succeeds, a crash or a rebalance can repeat records. After a `KafkaException`, first find the cause: the next commit can fail, too.

# %% [markdown]
# ## Exercise: what is left after a crash
#
# 5 is committed, a client commits 6, and the broker dies. Which offset does the next broker return if, before the crash,
#
# 1. the client had the answer `NONE`?
# 2. the replicas had confirmed the record, but the client had no answer?
# 3. the record was appended, but not confirmed?
# 4. the log had refused the batch?
# 5. the commit had timed out, and the client had an error?
#
# Write five values in parentheses: 5, 6, or `"?"` if the answer depends on whether the next leader's copy of the log has the record.

# %%
# exercise: after_the_crash
after_the_crash = ...

# %%
course.check("after_the_crash", after_the_crash)
# course.hint("after_the_crash")

# %% [markdown]
# ## Two commits on their way
#
# `commitAsync` does not wait, so two commits of one partition can be in flight together. Which one counts? The coordinator handles the requests of a group one after the other, so the records are in the log, and on every replica, in the order of the requests. But several threads deliver the confirmations, so the coordinator may hear about the second commit first.
#
# *Predict*: 6 is appended, then 7. The confirmation of 7 arrives first, then that of 6. Which offset does a fetch return at the end?

# %%
# prediction
in_the_end = ...

# %%
# script
def confirm_7_before_6(broker):
    log = broker.manager.logs
    yield "commit 6", broker.offset_commit("dashboard", {orders_0: OffsetCommit(6)})
    yield "commit 7", broker.offset_commit("dashboard", {orders_0: OffsetCommit(7)})
    log.release(1)
    yield "7 is confirmed: a fetch", broker.offset_fetch("dashboard")
    log.release(0)
    yield "6 is confirmed: a fetch", broker.offset_fetch("dashboard")


crossed = course.compare_brokers(confirm_7_before_6, holds_answers=True)
with course.fold("in_the_end", in_the_end, int(crossed.steps[-1].answers[0].removeprefix("orders-0: "))):
    display(crossed)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The place in the log decides. The coordinator remembers how far its log is confirmed, and the record of 6 stands before the record of 7. So when the record of 7 is confirmed, the record of 6 is confirmed, too, and the later confirmation of 6 changes nothing. A broker that loads this log also finds 7 last.
#
# </details>
#
# So a late confirmation never replaces a newer commit.

# %% [markdown]
# ## Exercise: commit again?
#
# A consumer calls `commitAsync(6)`, then `commitAsync(7)`. The commit of 7 is answered `NONE`, but the commit of 6 gets an error. So the application commits 6 again, and gets `NONE`. Which offset does the group have?
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
# ## Exercise for later: translate an error
#
# Write `commit_error(append_error)`. The argument is a string, the name of the log's error. Return the name of the error that the client gets. For each error in this table, choose one of the three answers above: can this broker store the commit later, or only another broker, or no broker? Other errors stay unchanged.
#
# | error of the log | what happened |
# |---|---|
# | `UNKNOWN_TOPIC_OR_PARTITION` | `__consumer_offsets` does not exist yet. |
# | `NOT_ENOUGH_REPLICAS` | Fewer replicas are in sync than `min.insync.replicas` (3.9). |
# | `REQUEST_TIMED_OUT` | The replicas have not confirmed the batch in time. |
# | `NOT_LEADER_OR_FOLLOWER` | Another broker leads the partition now. |
# | `KAFKA_STORAGE_ERROR` | The disk failed, so another broker must lead the partition. |
# | `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE`, `INVALID_FETCH_SIZE` | The batch is too large for the log. |

# %%
# exercise: commit_error
def commit_error(append_error):
    ...

# %%
course.check("commit_error", commit_error)
# course.hint("commit_error")

# %% [markdown]
# ## What is written
#
# Can a crash lose a part of a request? A real 4.3.1 broker received four commits of `dashboard`, and wrote one batch for each. So a crash can lose a request, but never a part of it. Below the batches of this broker, a ✓ means that our model of a version wrote batches with the same offsets and sizes as a real broker of this version:

# %%
# script
import kafkagroups as kg

for batch in kg.open_log(course.find_data("harbour/4.3.1/__consumer_offsets-38")):
    commits = [kg.decode(record.key, record.value) for record in batch.records]
    offsets = ", ".join(f"{commit.key.topic}-{commit.key.partition} = {commit.value.offset}" for commit in commits)
    print(f"batch at offset {batch.base_offset}, {batch.size} bytes, value version {commits[0].value_version}: {offsets}")

for kafka in ("4.3.1", "3.9.2"):
    real = list(kg.open_log(course.find_data(f"harbour/{kafka}/__consumer_offsets-38")))
    again = course.start_broker(kafka=kafka, now_ms=0)
    for batch in real:
        course.commit_again(again, batch)
    ours = [(batch.base_offset, batch.size) for batch in again.manager.logs.read(38)]
    course.compare_with_broker(ours, [(batch.base_offset, batch.size) for batch in real], kafka, verb="wrote")

# %% [markdown]
# ## Where 3.9 differs
#
# Instead of a snapshot, the classic group coordinator of 3.9 has two maps: the [*cache*](../docs/handbook/glossary.md#cache), from which it answers fetches, and a map of the commits in flight. When the replicas confirm an offset, 3.9 puts it into the cache. But an offset that the cache already has from a later record stays. If a commit is refused or times out, 3.9 forgets the offset of this commit.
#
# Here, 6 times out. Then the replicas confirm a commit for another partition. (A row with one answer holds for both versions.)

# %%
# script
def commit_after_a_timeout(broker):
    yield from commit_times_out(broker)
    yield "commit 3 for orders-1", broker.offset_commit("dashboard", {TopicPartition("orders", 1): OffsetCommit(3)})
    broker.manager.logs.release()
    yield "a fetch of orders-0", broker.offset_fetch("dashboard", [orders_0])


course.compare_brokers(commit_after_a_timeout, holds_answers=True)

# %% [markdown]
# Replicas copy the log in order. When they have the record of `orders-1`, they also have the earlier record of 6, so 4.x shows 6. 3.9 has forgotten 6, so fetches return 5 until the next commit or load. Three more differences:
#
# | | 4.x | 3.9 |
# |---|---|---|
# | the client of a commit that times out gets | `COORDINATOR_NOT_AVAILABLE` | `REQUEST_TIMED_OUT` |
# | the client of a batch that is too large gets | `UNKNOWN_SERVER_ERROR` | `INVALID_COMMIT_OFFSET_SIZE` |
# | fewer replicas are in sync than `min.insync.replicas`: the log | takes the batch, and the commit times out | refuses the batch with `NOT_ENOUGH_REPLICAS` |
#
# <details><summary>The map of commits in flight, and a commit that is answered NONE but not shown</summary>
#
# In the source of 3.9, the map of commits in flight is called `pendingOffsetCommits`. The map has only one offset for each partition, the newest. With two commits in flight, this goes wrong:
#
# | step | map | cache |
# |---|---|---|
# | 5 is committed | – | 5 |
# | 6 is appended | 6 | 5 |
# | 7 is appended, and replaces 6 in the map | 7 | 5 |
# | 7 times out, and leaves the map | – | 5 |
# | 6 is confirmed, and its client gets `NONE` | – | 5 |
#
# When 6 is confirmed, 3.9 looks into the map. The map is empty, so 3.9 believes that somebody deleted the offset in the meantime, and does not move 6 into the cache. Fetches return 5 until the next commit or load. And if a group is deleted while its commit is in flight, the client also gets `NONE`, and fetches do not show the offset.
#
# </details>
#
# <details><summary>Other versions</summary>
#
# - Kafka 1.0.1 gives every commit an expire timestamp: the time of the commit plus `offsets.retention.minutes`, one day by default. If its client uses version 0 of OffsetCommit, the offset is stored in ZooKeeper, not in the topic.
# - Up to 3.7, a commit that is refused because its metadata is too long stays in the map of commits in flight. Until the next commit or load, a consumer's fetches (lesson 05) receive an error for this partition, and its offset does not expire.
# - A broker up to 3.9 warns `Mixing both types of offset commits` if a group commits in transactions and outside of them (lesson 08).
#
# [All errors of an append](../docs/handbook/errors.md#errors-of-an-append) are in the handbook.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>A commit got an error. Why may the next broker still return its offset?</summary>
#
# The record can be in the log: an error does not remove it, and the next broker loads all records of its copy.
#
# </details>
#
# <details><summary>Why does a fetch not return an offset whose record is already in the log?</summary>
#
# Until the replicas have the record, a crash can lose it, and then the offset would go back.
#
# </details>
#
# ## In five lines
#
# - The coordinator appends, waits for the replicas, shows the offset, and answers.
# - `NONE` means that every replica in sync has the commit. There are at least `min.insync.replicas` such replicas.
# - Without `NONE`, the commit may be stored or not.
# - The later record in the log is the newer commit.
# - The next broker has every confirmed commit, and perhaps unconfirmed ones.
#
# ## For your consumer
#
# - A consumer's [*position*](../docs/handbook/glossary.md#position-of-a-consumer) is only in its memory. If 6 is committed and the consumer dies after reading the records 6 to 9, its successor reads these records again ([*at least once*](../docs/handbook/glossary.md#at-least-once)).
# - Use `commitSync` before you close a consumer. After a `TimeoutException`, commit again, or ask with `committed`. A restart of the consumer does no harm, but can repeat records.
# - `commitAsync` does not retry: a repeated old commit could land after a newer one in the log, and win. Log its errors.
# - With auto commit, `poll` commits. If your loop needs two minutes for the records of one `poll`, a crash repeats two minutes.

# %% [markdown]
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | Commits fail with `COORDINATOR_NOT_AVAILABLE`. (The metric `UnderMinIsrPartitionCount` of a broker is above 0.) | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-min-isr-partitions` | A listed partition has fewer replicas in sync than `min.insync.replicas`, so its commits time out (3.9 refuses them). | Bring the missing brokers back. Consumers repeat their commits. Do not lower `min.insync.replicas` meanwhile: one broker could then have the only copy. |
# | Commits fail now and then, although this command lists nothing. | run several times: `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets --under-replicated-partitions` | If a partition is listed in some of the runs, one of its replicas (not in `Isr`) is slow. While it is less than 30 seconds behind (`replica.lag.time.max.ms`), it counts as in sync, and commits wait for it. | Look at the disk and the network of its broker. |

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
# How replicas copy records. All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [05 · Fetching](05_fetching.ipynb): a consumer asks for its offset, and nobody reads the topic.
