# %% [markdown]
# # 04 · Storing
#
# **What happens between `commitSync()` and the answer?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | say what a commit changes, where, and in which order; what its client hears when something fails; what is left if the broker dies at any point | 30 + 25 | no |
#
# ```
#  commitSync({orders-0: 6})        the coordinator
#    │
#    ├─▶ 1  checked    allowed? my group? of this generation?   no ─▶ an error
#    │   2  prepared   6 ─▶ pending     memory: "it is on its way"
#    │   3  appended   6 ─▶ the log     one batch, in this broker's file
#    │   4  confirmed                   the replicas have it; now its place is known
#    │   5  cached     6 ─▶ the cache   memory; out of pending. Fetches look here
#    ◀── 6  answered   NONE
# ```
#
# Five things to hold on to:
#
# 1. **First the log, then the cache, then the answer.** What was answered `NONE` is in the log.
# 2. A request is **one batch**: all that is stored of it is there, or nothing.
# 3. Of two commits that one is newer whose record stands **later in the log**, whoever was answered first.
# 4. An error is no proof that nothing was stored. A **time-out** leaves a record in the log that the cache does not know.
# 5. An offset in a **transaction** goes as far as step 4, and waits there for a marker.

# %% [markdown]
# ## A commit, held
#
# The shop's `dashboard` has never joined anything: it only commits. `course.start_broker` is a coordinator like the one inside a 3.9.2 broker, over a log
# on your disk. A `HeldLogs` writes what it is told to, and then keeps the answer back until we release it. So we can look around in the middle of a commit.

# %%
from kafkagroups import course
from kafkagroups.coordinator import DiskLogs, Errors, HeldLogs, OffsetCommit, TopicPartition

log = HeldLogs(DiskLogs(course.make_scratch_folder()))
broker = course.start_broker(log)
orders_0 = TopicPartition("orders", 0)

answer = broker.offset_commit("dashboard", {orders_0: OffsetCommit(5)})
print(answer)
course.print_offset_places(broker, "dashboard", orders_0)

# %% [markdown]
# The record is in the log, and nobody has been answered. *Predict*: another client asks for the offset of `orders-0` now. What is it told? (−1 says that
# nothing is committed.)

# %%
# prediction
while_in_flight = ...

# %%
course.compare_with_prediction(while_in_flight, broker.offset_fetch("dashboard").offsets.get(orders_0, -1))

log.release()
print(answer)
course.print_offset_places(broker, "dashboard", orders_0)

# %% [markdown]
# `pending` is the coordinator's note to itself. A fetch looks at the cache; one with *requireStable* looks at `pending` too, and says `UNSTABLE_OFFSET_COMMIT`, "ask
# again", while something is on its way (lesson 05).
#
# ## Step by step
#
# `course.PendingCommitStepper` plays a script, and shows every step: *previous*, *next*, or drag. For its last column somebody pulls the plug at that very moment, and
# another broker loads the log. "6 or 5" says: 6 if it has the newest record, 5 if it is a replica that the record had not reached. `"cache 6"` and `"answer 6"` are
# `"confirm 6"` in two steps: the answer needs its time to the client.

# %%
course.PendingCommitStepper("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6")

# %% [markdown]
# Read the column *next broker* from top to bottom. In row 4 a crash loses 6: it is in memory only, and its client was told nothing. In row 5 nobody can know.
# From row 6 on 6 is safe, and only in row 7 the client hears so: if the broker dies in between, 6 is stored and its client does not know it. That is the whole promise: **a
# commit answered `NONE` is not lost** (as long as one replica in sync lives). And its other half: a commit that was not answered may or may not be there.
#
# ## The log says no
#
# Appending can fail in two ways. The log may **refuse**, and nothing is written: too few replicas are there, say.

# %%
course.PendingCommitStepper("commit 5", "confirm 5", "refuse 6")

# %% [markdown]
# What was prepared is taken back, and all is as before. The other way is worse: the record is written, and the replicas do not have it **in time** (`offsets.commit.timeout.ms`,
# 5 seconds). *Predict*: after that time-out, what does this broker answer to a fetch, and what the next one, if it has the whole log?

# %%
# prediction
this_broker, next_broker = ..., ...

# %%
late = course.PendingCommitStepper("commit 5", "confirm 5", "commit 6", "late 6")
print("this broker:", end=" ")
course.compare_with_prediction(this_broker, int(late.steps[-1].places.cache))
print("the next one:", end=" ")
course.compare_with_prediction(next_broker, int(late.steps[-1].answer_from_whole_log))
late

# %% [markdown]
# The client was told `REQUEST_TIMED_OUT`, the broker goes on answering 5, and yet 6 stands in the log. After a failover it comes to light. Is that bad? `commitSync` commits
# again, and a later record puts all right. A client that does not ask again may find an offset that it thought had failed. It will never find one that nobody committed.
#
# `NOT_ENOUGH_REPLICAS_AFTER_APPEND` is of the same kind: the record is in the log, and by then too few replicas are in sync. But its client hears what it would hear after a refusal, `COORDINATOR_NOT_AVAILABLE`:
# from the error alone it cannot tell whether the record is there.
#
# ## What the client is told
#
# The log speaks of partition 38 of `__consumer_offsets`. The client knows nothing of that partition. If it were told `NOT_LEADER_OR_FOLLOWER`, it would think of `orders-0`. So
# the coordinator translates what the log says, into what the client should do:
#
# | the client should | so it is told | when the log says |
# |---|---|---|
# | wait, and ask again | `COORDINATOR_NOT_AVAILABLE` | `UNKNOWN_TOPIC_OR_PARTITION`, `NOT_ENOUGH_REPLICAS`, `NOT_ENOUGH_REPLICAS_AFTER_APPEND` |
# | look for another coordinator | `NOT_COORDINATOR` | `NOT_LEADER_OR_FOLLOWER`, `KAFKA_STORAGE_ERROR` (a disk died) |
# | commit less at once | `INVALID_COMMIT_OFFSET_SIZE` | `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE`, `INVALID_FETCH_SIZE` |
# | wait: it is being loaded | `COORDINATOR_LOAD_IN_PROGRESS` | `NETWORK_EXCEPTION` (since 3.6; the transaction could not be verified) |
# | | the same | anything else, `REQUEST_TIMED_OUT` among it |
#
# Before the append a partition may have been refused already, for its metadata: it keeps that error, the others get this one. A batch that is too large is not written.
#
# (Java's consumer makes less of it: after the first two, and after a time-out, it looks for the coordinator again, and `commitSync` commits again.)
#
# Write `commit_error(append_error)`, from name to name.

# %%
# exercise: commit_error
def commit_error(append_error):
    ...

# %%
course.check("commit_error", commit_error)
# course.hint("commit_error")

# %% [markdown]
# ## Two commits in flight
#
# A consumer that calls `commitAsync` twice has two commits of one partition on their way. A broker handles them under the **group's lock**, one behind the other:
# so the order of the records is the order in which they came. The answers of the log may come in any order. *Predict*: 6 and 7 are in flight, 7 is confirmed first, then 6.
# What is cached in the end?

# %%
# prediction
in_the_end = ...

# %%
crossed = course.PendingCommitStepper("commit 5", "confirm 5", "commit 6", "commit 7", "confirm 7", "confirm 6")
course.compare_with_prediction(in_the_end, int(crossed.steps[-1].places.cache))
crossed

# %%
# once more; now 8 is on its way when 6 comes back
course.PendingCommitStepper("commit 6", "commit 7", "confirm 7", "commit 8", "confirm 6")

# %% [markdown]
# 7 in both runs. In the first one 6 is kept out for another reason, too: when it comes back, nothing is pending, and a confirmed commit is cached only **if something is pending** for its partition.
# (For when a topic is deleted, its offsets leave the cache, and what is pending for them goes as well. A commit that comes back from the log after that must not bring an offset back.) In the second run 8 is pending, so that
# does not matter, and still 7 stays. The **record** decides: that of 7 stands behind that of 6, whoever comes back first. Any loader would decide alike.
#
# And look at `pending`: it has room for one offset a partition, the **latest**. In a script of your own, fail what you like: `"refuse 6"`, `"late 6"`.
#
# Write `in_flight(events)` for one partition: what is cached, and what is pending in the end, `None` for nothing. The events are
#
# - `("commit", 6)`: it is prepared and takes the place of what was pending;
# - `("stored", 6, 1)`: the log has it, at place 1. It is cached **if something is pending** and nothing of a later place is cached;
# - `("failed", 6)`: the log has failed.
#
# The last two clear `pending`, but only if 6 is what is pending.

# %%
# exercise: in_flight
def in_flight(events):
    ...

# %%
course.check("in_flight", in_flight)
# course.hint("in_flight")

# %% [markdown]
# The rule "if something is pending" has a price, and a classic coordinator pays it. 7 fails, then 6 is confirmed:

# %%
course.PendingCommitStepper("commit 5", "confirm 5", "commit 6", "commit 7", "late 7", "confirm 6")

# %% [markdown]
# 6 was answered `NONE`, and the cache still says 5, until the next commit or the next load. Of point 1 the second half holds: what was answered `NONE` is in the log,
# and nothing is lost. The first half does not: 6 was answered and never cached. So log and cache may differ, and then the log is right. (Had the log *refused* 7 while 6 was on its way, all that would be the same, but for a log of 5 6, and a load that says 6.)
#
# ## Before anything is stored
#
# Step 1 in Kafka's order. A check about the request answers all its partitions, one about a partition that one alone.
#
# | what is looked at | else the answer |
# |---|---|
# | may the client read the group, and each topic? | `GROUP_AUTHORIZATION_FAILED`; `TOPIC_AUTHORIZATION_FAILED` for that partition |
# | does the partition exist? | `UNKNOWN_TOPIC_OR_PARTITION`, for that one (1.0.1 looked for the topic only) |
# | is the group mine, and loaded? | `NOT_COORDINATOR`, `COORDINATOR_LOAD_IN_PROGRESS` (lesson 05) |
# | no such group: is the generation negative? Then a new, Empty one is made | `ILLEGAL_GENERATION` |
# | is the group not Dead (just being removed)? | `COORDINATOR_NOT_AVAILABLE` (before 2.3 `UNKNOWN_MEMBER_ID`) |
# | an Empty group: is the generation negative? Then it is a *simple* commit, as `dashboard`'s | `UNKNOWN_MEMBER_ID` |
# | a living group: is it a member (and its instance id its own)? | `UNKNOWN_MEMBER_ID` (`FENCED_INSTANCE_ID`) |
# | … of this generation? | `ILLEGAL_GENERATION` |
# | … and does the group not wait for its leader's assignment? | `REBALANCE_IN_PROGRESS` (before 2.4 this came before the member was looked at) |
# | is the metadata at most 4096 long? | `OFFSET_METADATA_TOO_LARGE`, for that one; the others are stored, if there are any |
#
# While members are asked to join again, the old generation may still commit: so `billing-1` could, in the middle of the last rebalance (lesson 11). And a member that commits is alive:
# its session begins anew.
#
# A real 3.9.2 broker was asked all that. `data` has the conversation; here are the commits that it refused, and whether ours answers alike. The last number before the error is the length of
# the metadata; after the error stands what was taken of the same request, if there was more in it. 27 is not shown, for it was taken: generation −1 made the group `g5`. So 28 finds an Empty group where 25 and 26 found none. `sub`
# has one member, `member-a`, in generation 1; 52 comes after it has left.

# %%
talk = course.read_exchanges("3.9.2-commits")
taken = {commit.number: f"; {commit.partition} taken" for commit in course.read_commits(talk) if not commit.broker_error}

for commit in course.read_commits(talk):
    if commit.broker_error and commit.number > 10:
        who = f"{commit.group}, generation {commit.generation}, {commit.member[:8] or 'no member'}"
        print(f"{commit.number:>3}  {who:<33} {commit.partition:<15} {len(commit.metadata):>5}   {commit.broker_error.name}{taken.get(commit.number, '')}")

print(len(talk), "requests, all answers:")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# Request 15 is refused with 2049 characters, and request 10, not shown, was taken with 4096. The limit is `offset.metadata.max.bytes`, and yet it counts no bytes: it counts as Java
# counts a text. `𝄞` is one character, and two of Java's units. Write `fits(metadata, limit)`.

# %%
# exercise: fits
def fits(metadata, limit):
    ...

# %%
course.check("fits", fits)
# course.hint("fits")
fits = course.ensure_correct("fits", fits)

mine = [fits(commit.metadata, 4096) for commit in course.read_commits(talk)]
theirs = [commit.broker_error is not Errors.OFFSET_METADATA_TOO_LARGE for commit in course.read_commits(talk)]
course.compare_with_broker(mine, theirs, "3.9.2")

# %% [markdown]
# ## What is written
#
# The shop's dashboard committed four times, and a real broker wrote four batches. Our coordinator is now asked the same, at the same milliseconds. Are its batches the
# same, byte for byte?

# %%
import kafkagroups as kg

real = kg.open_log(course.find_data("harbour/3.9.2/__consumer_offsets-38"))
again = course.start_broker(now_ms=0)
for batch in real:
    course.commit_again(again, batch)

for theirs, ours in zip(real, again.manager.logs.read(38), strict=True):
    a, b = ([(record.key, record.value) for record in each.records] for each in (theirs, ours))
    same = [mine == brokers for mine, brokers in zip(a, b, strict=True)]
    sizes = f"{theirs.size} and {ours.size} bytes"
    print(f"batch at {theirs.base_offset}: {sizes}, records equal: {same}, checksums: {theirs.crc == ours.crc}")

for whose, batches in {"theirs": real, "ours": again.manager.logs.read(38)}.items():
    first = next(iter(batches)).records[0]
    commit = kg.decode(first.key, first.value).value
    print(f"{whose:<6} first commit's time {commit.commit_timestamp}, its batch's {first.timestamp}")

# %% [markdown]
# A commit gets its time when the request is handled, the batch when it is made; at the first commit a millisecond passed in between on that broker: one byte of each record differs, and
# so the checksum. All else is the same, byte for byte:
#
# - one batch a request, sequence number 0, no producer id. (The order of its records means nothing.)
# - **no record of a group**: `dashboard` has no members, and nothing else would be in it;
# - the **value's** version is not the **request's**. It follows the broker and what the client asks for (lesson 01):
#
# | the request OffsetCommit | can say | 3.9 writes a value of | 1.0.1 writes a value of |
# |---|---|---|---|
# | v1 | a commit time | version 3, with that commit time | version 1, expire time = that commit time + `offsets.retention.minutes` |
# | v2 to v4 | a retention | version 1, with an expire time; version 3 if it does not say | version 1, expire time = now + that retention (else `offsets.retention.minutes`, a day) |
# | v5 and later | neither | version 3 | (1.0.1 knows requests up to v3) |
#
# When *is* a group's record written? When a rebalance is over, with the assignments that its leader sent; when the last member has gone, without members; and when a static member comes
# back under a new id. Lesson 06 tells it. It goes the same way: append first, then the state changes (only a group that has lost its last member is Empty at once). Errors are told in another way there: a time-out becomes `REBALANCE_IN_PROGRESS`
# (join again!), too large becomes `UNKNOWN_SERVER_ERROR`.
#
# ## In a transaction
#
# `fraud-check` reads `payments` and writes alarms; offsets and alarms shall count together or not at all. Its offsets go through the same steps: but they are pending **by producer**, and step
# 5 is a marker's business. `6?` in the log is such an offset. (Of step 1 two things are different: it need not name a member, and since 3.6 the transaction must be open.) Another client commits in between, without a transaction. *Predict*: what is cached at the end?

# %%
# prediction
after_the_marker = ...

# %%
mixed = course.PendingCommitStepper("commit 5", "confirm 5", "txn 6", "confirm 6", "commit 4", "confirm 4", "marker")
course.compare_with_prediction(after_the_marker, int(mixed.steps[-1].places.cache))
mixed

# %% [markdown]
# 4: its record stands later than that of 6. The marker says *that* 6 counts, not *when*. Who writes it? The producer's EndTxn goes to another part of Kafka, the transaction coordinator. It notes the decision and answers, and only then writes a
# marker into each partition with records of the transaction, this one too. Until the marker is confirmed 6 stays pending, so for a moment after EndTxn an ordinary fetch still says the old offset. (A transactional append that fails takes only its own entries out of `pending`; errors as above.)
#
# A broker that sees both kinds of commits in one generation of a group warns; below is what the
# shop's own said in its log. And after that a real conversation of clients with transactions, played again.

# %%
import textwrap
from pathlib import Path

server_lines = Path(course.find_data("harbour/3.9.2"), "server-lines.txt").read_text().splitlines()
warning = next(line for line in server_lines if "Mixing" in line)
print(textwrap.fill(warning.partition("] ")[2], 90), "\n")

talk = course.read_exchanges("3.9.2-txn")
print(len(talk), "requests, all answers:")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# `NONE` to a transactional commit promises less: "it is in the log". Whether it counts, the transaction's end decides. If the broker dies before, the next one finds the
# offset and no marker, and goes on waiting for it. (Markers need batches: a log in a message format before 0.11 answers `UNSUPPORTED_FOR_MESSAGE_FORMAT`.)
#
# ## What is lost when
#
# All that you have seen, in one table. Each row is run: a broker with 5 in its cache, a commit of 6, and the plug. What had its client heard by then?

# %%
start = ["commit 5", "confirm 5"]
runs = {
    "checked and prepared": (course.PendingCommitStepper(*start, "commit 6"), -2),
    "appended": (course.PendingCommitStepper(*start, "commit 6"), -1),
    "refused": (course.PendingCommitStepper(*start, "refuse 6"), -1),
    "appended, but too late": (course.PendingCommitStepper(*start, "commit 6", "late 6"), -1),
    "confirmed and cached": (course.PendingCommitStepper(*start, "commit 6", "cache 6"), -1),
    "answered": (course.PendingCommitStepper(*start, "commit 6", "confirm 6"), -1),
    "in a transaction, answered": (course.PendingCommitStepper(*start, "txn 6", "confirm 6"), -1),
    "… and the marker is there": (course.PendingCommitStepper(*start, "txn 6", "confirm 6", "marker"), -1),
    "… and it was an abort": (course.PendingCommitStepper(*start, "txn 6", "confirm 6", "abort"), -1),
}
print(f"{'the broker dies when 6 is':<29}{'this broker said':<19}{'the client has heard':<28}the next one says")
for when, (flight, step) in runs.items():
    moment = flight.steps[step]
    heard = moment.places.responses.rpartition("6: ")[2].replace("waits", "nothing")
    print(f"{when:<29}{moment.places.cache:<19}{heard:<28}{moment.next_answers}")

# %% [markdown]
# What is *always* lost: what is pending of **plain** commits, who waits for an answer, a rebalance that is under way, and when a member was last heard of. None of it is in the log. (What is pending in a **transaction** is
# in the log once it is appended; the next broker has it waiting again.) The client's side, as Java's `commitSync` does it:
#
# | it has heard | so it |
# |---|---|
# | `NONE` | does nothing more |
# | nothing, and the connection breaks | looks for the coordinator (FindCoordinator), waits while that one is loading (`COORDINATOR_LOAD_IN_PROGRESS`), and commits again |
# | an error that may pass, as a time-out | the same; any other error goes to its caller |
#
# A commit says "I am at 6" and not "one more". So it does no harm to say it twice, **if nothing newer was committed in between**: 6 goes out, 7 is committed, 6 goes out again, and 6 wins, for it stands later. That is why
# `commitSync` may repeat, whose caller waits and commits nothing else meanwhile, and why `commitAsync` does not: it tells its callback that it failed.
#
# ## In Kafka
#
# | what | 3.9 |
# |---|---|
# | checks of client and topics, timestamps | `KafkaApis.handleOffsetCommitRequest`, `GroupCoordinatorAdapter.commitOffsets` |
# | checks of group and member | `GroupCoordinator.doCommitOffsets`, `validateOffsetCommit`; 1.0.1: `handleCommitOffsets` |
# | prepare, append, callback | `GroupMetadataManager.storeOffsets`, `createPutCacheCallback` (1.0.1: inside `storeOffsets`) |
# | errors translated | `maybeConvertOffsetCommitError`; of a group's record: `storeGroup` |
# | pending and cached | `GroupMetadata.prepareOffsetCommit`, `onOffsetCommitAppend`, `failPendingOffsetWrite` |
# | in a transaction | `prepareTxnOffsetCommit`, `onTxnOffsetCommitAppend`, `completePendingTxnOffsetCommit`; `CommitRecordMetadataAndOffset.olderThan` |
# | waiting for replicas | `ReplicaManager.appendRecords` with acks −1, `DelayedProduce` |
#
# ## What we left out, and why
#
# Replication itself: here the replicas' answer comes when you say so. Locks and threads: ours has one thread, so that the order of events is the one you read. An old fault: up to 3.7 metadata that was too
# long was prepared too, and never taken back; in a transaction such an entry made the marker fail (`kafkagroups/coordinator/manager.py` does it as well, if you ask for 2.8). The coordinator of Kafka 4 changes its
# cache *before* the append is confirmed, keeps the state before it in a snapshot, and goes back to it when the append fails. There is no `pending` for plain commits: a fetch reads the state as the
# replicas have confirmed it, and the answer to a commit waits just the same.
#
# **Next:** [05 · Fetching](05_fetching.ipynb): why the topic is never read when a consumer asks for its offset.
