# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** every 4.x, which always has the new *group coordinator*. The tables show 4.3.1 beside 3.9.2 with the classic coordinator; a row with one answer is true for both. **Which groups:** those of both protocols.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} + 10 for later | no |
#
# ![A consumer that starts sends FindCoordinator to any broker, OffsetFetch to broker 2, and OffsetForLeaderEpoch to the partition's leader, and then reads from offset 50.](pictures/05.svg)

# %% [markdown]
# A consumer that starts asks three questions, and this lesson follows them: *Who coordinates my group? Where do I continue? Has the partition lost records that I have already read?*
#
# Three things to hold on to:
#
# 1. Only **one broker** can answer the second question, the *fetch* (OffsetFetch): the leader of the group's partition. It answers from **memory**, which it has filled by loading the log.
# 2. "Nothing committed" is **not an error**, because every new group gets this answer.
# 3. An offset has a **leader epoch**, by which a consumer notices that the records before it were replaced.

# %% [markdown]
# ## Which broker answers
#
# Only the broker that leads the group's partition has the group in memory, and while it loads the partition, this memory is incomplete. If it answered "nothing committed" during the load, the consumer would start in the wrong place. So a broker that is not the leader, or that still loads, refuses to answer. Here, a broker loses its only partition and gets it back:

# %%
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


def move_away_and_back(broker):
    yield "a commit of 50", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(50)})
    broker.resign(0)
    yield "a fetch, after another broker took over", broker.offset_fetch("billing")
    broker.manager.loading.add(0)  # as if the load had begun
    yield "a fetch during the load", broker.offset_fetch("billing")
    broker.elect(0)
    yield "a fetch after the load", broker.offset_fetch("billing")


course.compare_brokers(move_away_and_back)

# %% [markdown]
# After `NOT_COORDINATOR`, the client asks again who the coordinator is, because normally another broker has the answer. (After a failed load, none has it: lesson 11.) After `COORDINATOR_LOAD_IN_PROGRESS`, it waits and asks the same broker again. Meanwhile, `poll` of a Java consumer returns no records and throws nothing.
#
# <details><summary>Can two brokers answer for one group?</summary>
#
# Yes, for a moment. Until a former leader learns that it was replaced, it answers fetches from its memory, and its offsets may be old.
#
# </details>

# %% [markdown]
# ## A fetch reads memory
#
# The log has no index by group, so a search for one offset would read the whole partition. This is why the leader reads the log only once, when it loads. Our model of 4.3.1 loads the shop's logs, and `ReadCountingLogs` counts the records:

# %%
from pathlib import Path

shop = course.find_data("harbour/4.3.1")
logs = course.ReadCountingLogs(shop)
broker = course.start_broker(logs, kafka="4.3.1")
loaded = logs.records_read

in_partition_9 = len(course.read_lines(Path(shop, "__consumer_offsets-9")))
print(f"{loaded} records were read to load all 50 partitions, {in_partition_9} of them in partition 9")

# %% [markdown]
# *Predict*: the broker loses partition 9, and then becomes its leader again. After that, it answers ten fetches of `billing`, which is in partition 9. How many more records does it read from the log?

# %%
# prediction
read_again = ...

# %%
broker.resign(9)  # another broker leads partition 9 now
broker.elect(9)  # this broker leads it again
for _ in range(10):
    broker.offset_fetch("billing")

course.reveal("read_again", read_again, logs.records_read - loaded)

# %% [markdown]
# <details><summary>Why?</summary>
#
# When a broker loses a partition, it drops the groups of this partition, because the next leader may change them. So it had to load partition 9 again, once. The ten fetches read no record.
#
# </details>
#
# Does the model answer as the real broker did?

# %%
said = course.read_answers("harbour/4.3.1")["offsets"]
ours = {group: course.format_offsets(broker.offset_fetch(group).value) for group in said}
course.compare_with_broker(ours, said, "4.3.1")

for partition, committed in sorted(ours["billing"].items()):
    print(f"{partition:<12} offset {committed['offset']}, leader epoch {committed['leader_epoch']}")

# %% [markdown]
# ## A restart, second by second
#
# How long does a client see these refusals? We restarted a real 4.3.1 broker, and sent it three requests again and again; ListGroups asks a broker for its groups. A line is printed whenever an answer changes:

# %%
import json

steps = json.loads(Path(shop, "acts.json").read_text())
answers = next(step["answer"] for step in steps if "started again" in step["step"])
print(f"{'ms':>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
for answer in answers:
    first = answer.get("connection") or answer["FindCoordinator"]
    print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# - **FindCoordinator** answers `NONE` early, because it only looks up the partition's leader.
# - **OffsetFetch** answers once the group's own partition is loaded. Here that took less than 26 ms, so no fetch came during the load, and we never saw `COORDINATOR_LOAD_IN_PROGRESS`. All partitions took 72 ms; a large topic takes minutes ([lesson 11](11_loading.ipynb)).
# - **ListGroups** answers `NONE` with 0 groups until the broker knows that it leads these partitions, and then an error without groups until it has loaded *all* of them. So an empty list right after a start proves nothing.
#
# <details><summary>What a monitor asks: ListGroups and DescribeGroups</summary>
#
# A monitor sends ListGroups to **every** broker, because each lists only its own groups, and then DescribeGroups for the state and the members of a group.
#
# | | 4.x | 3.9 |
# |---|---|---|
# | ListGroups, while one partition loads | `COORDINATOR_LOAD_IN_PROGRESS`, without groups | the same error, with the groups that are loaded |
# | DescribeGroups, while the group's partition loads | `COORDINATOR_LOAD_IN_PROGRESS` | the same |
# | DescribeGroups of an unknown group | the state *Dead*, and `GROUP_ID_NOT_FOUND` (requests up to version 5: without an error) | *Dead*, without an error |
#
# </details>

# %% [markdown]
# ## All answers, in a failover
#
# Step through a failover:

# %%
# figure
course.Failover()

# %% [markdown]
# ## Nothing committed
#
# *Predict*: a client asks for `orders-0` of a group that never existed. Which offset and which error name does it receive? Write a pair, for example `(7, "REQUEST_TIMED_OUT")`.

# %%
# prediction
for_unknown_group = ...

# %%
found = broker.offset_fetch("nobody", [ORDERS_0]).value.offsets[ORDERS_0]
course.reveal("for_unknown_group", for_unknown_group, (found.offset, found.error.name))

# %% [markdown]
# <details><summary>Why no error?</summary>
#
# The coordinator cannot see whether the group is new or its offsets were deleted.
#
# </details>
#
# With −1, the consumer starts where `auto.offset.reset` says. A group that has lost its offsets gets the same answer, so nobody notices the loss.
#
# A client can ask for partitions **by name**, as a consumer does, or for **all**, as a monitor does. Here, `billing` has committed offsets of `orders-0` and `payments-1`, and the client has no permission (DESCRIBE) to see `payments`:

# %%
PAYMENTS_1 = TopicPartition("payments", 1)


def ask_all_and_by_name(broker):
    yield "two commits", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(50), PAYMENTS_1: OffsetCommit(41)})
    yield "all partitions", broker.offset_fetch("billing")
    yield "by name", broker.offset_fetch("billing", [ORDERS_0, TopicPartition("orders", 1), PAYMENTS_1])


def may_see(operation, kind, name):
    return (operation, name) != ("DESCRIBE", "payments")


course.compare_brokers(ask_all_and_by_name, authorize=may_see)

# %% [markdown]
# By name, every partition is in the answer, with an offset, −1 or an error. The answer to *all* leaves out partitions without an offset, and those that the client may not see. So a monitor with too few permissions shows too few offsets, and no error.

# %% [markdown]
# ## Why the answer can be −1
#
# The answer −1 does not say why. The log of the group's partition does:
#
# | the reason | how to recognise it |
# |---|---|
# | The group is new, or a name is wrong. | The log has no commit of it. |
# | The offset has expired or was deleted (lesson 09). | The log has a tombstone for it. |
# | `__consumer_offsets` has more partitions than before (lesson 02). | The commit is in another partition. |
# | The load has failed, on a broker up to 3.9 (lesson 11). | The commit is in the log, and `server.log` has an error. |
# | A client has committed −1, which Java's client refuses to do. | The log has a commit with −1. |

# %% [markdown]
# ## Exercise: a decision
#
# A monitor reports that `billing` has lost its offset for `orders-0`. Which answer shows that a consumer of `billing` would now begin where `auto.offset.reset` says?
#
# - **A**: One second after the broker's start, ListGroups returned `NONE` and a list without `billing`.
# - **B**: OffsetFetch for all partitions returned an empty list and `NONE`, to a user with permissions for groups only.
# - **C**: OffsetFetch for `orders-0` by name returned −1 and `NONE`.
# - **D**: OffsetFetch returned `NOT_COORDINATOR`.
#
# Write the letter in quotes.

# %%
# exercise: proof_of_loss
proof_of_loss = ...

# %%
course.check("proof_of_loss", proof_of_loss)
# course.hint("proof_of_loss")

# %% [markdown]
# ## Stable offsets
#
# A program can commit its offsets in a *transaction* ([lesson 08](08_transactions.ipynb)). Until the marker of the transaction is in the log, they are **pending**. Suppose that process A has processed records, has called `commitTransaction`, and dies before the marker is written. Process B takes over, and begins at the last committed offset. Then the transaction coordinator writes the marker, A's work counts, and B has processed the same records **again**. So a consumer asks for [*stable* offsets](../docs/handbook/glossary.md#stable-offset), with `requireStable` in its fetch; Java's consumer always does. For each partition with a pending offset, the coordinator then answers `UNSTABLE_OFFSET_COMMIT`, and the consumer asks again until the transaction ends.
#
# When the shop's brokers were killed (lesson 00), `fraud-check` had only one offset for `orders-0`, and it was pending.
#
# *Predict*: a client asks for **all** partitions of `fraud-check`, with `requireStable`. What does the answer say about `orders-0`? Write `"-1"`, `"UNSTABLE_OFFSET_COMMIT"` or `"not mentioned"`.

# %%
# prediction
about_orders_0 = ...

# %%
all_stable = course.format_offsets(broker.offset_fetch("fraud-check", require_stable=True).value)
course.reveal("about_orders_0", about_orders_0, all_stable.get("orders-0", "not mentioned"))

# %% [markdown]
# <details><summary>Why?</summary>
#
# If you ask for *all*, the answer has only partitions with a committed offset. `orders-0` has only a pending one, so it is missing.
#
# </details>
#
# A client can ask in four ways. Again, `orders-0` has only a pending offset:

# %%
def open_transaction(broker):
    group = "fraud-check"
    offsets = {ORDERS_0: OffsetCommit(9), PAYMENTS_1: OffsetCommit(40)}
    yield "a commit of payments-1 = 31", broker.offset_commit(group, {PAYMENTS_1: OffsetCommit(31)})
    yield "two offsets in a transaction", broker.txn_offset_commit(
        group, offsets, transactional_id=group, producer_id=1, producer_epoch=0
    )
    for stable in [False, True]:
        name = ", stable" if stable else ""
        yield f"all{name}", broker.offset_fetch(group, require_stable=stable)
        yield f"by name{name}", broker.offset_fetch(group, list(offsets), require_stable=stable)


course.compare_brokers(open_transaction)

# %% [markdown]
# So a program that needs stable offsets must ask by name.
#
# <details><summary>A stable fetch while a commit is in flight</summary>
#
# In lesson 04, a coordinator of 4.x answers from the state that the replicas have confirmed. A stable fetch is the exception: if 5 is committed and 6 is in flight, it takes the newest state, with 6, and its answer waits until the replicas have 6, because a crash could still lose it. 3.9 answers `UNSTABLE_OFFSET_COMMIT`.
#
# </details>

# %% [markdown]
# ## Exercise: the answer to a fetch
#
# Write `get_offsets(committed, pending, asked, stable)`, which returns a dictionary from partition to answer.
#
# - `committed`: a dictionary from partition to offset.
# - `pending`: the set of partitions with a pending offset.
# - `asked`: a list of partitions, or `"all"`.
# - `stable`: whether the client set `requireStable`.
#
# An answer is an offset, −1, or `"UNSTABLE_OFFSET_COMMIT"`.

# %%
# exercise: get_offsets
def get_offsets(committed, pending, asked, stable):
    ...

# %%
course.check("get_offsets", get_offsets)
# course.hint("get_offsets")

# %% [markdown]
# ## The leader epoch of an offset
#
# The third question: has the partition lost records that I have already read? Normally, only a replica in sync becomes the partition's leader, so no record is lost. If no replica in sync is left, an administrator can let another replica lead, in an [*unclean* leader election](../docs/handbook/glossary.md#unclean-leader-election). Here, A leads `orders-0` up to offset 59, B has copied only up to 39, and A's disk fails:
#
# ```
#  offset        20 … 39   40 … 44   45 … 59
#  A, epoch 3    ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   billing has read up to 44, and commits 45, epoch 3
#  B, epoch 4    ▓▓▓▓▓▓▓   ░░░░░░░   ░░░░░░░   from 40 on there are other records
# ```
#
# If `billing` starts at 45, it misses B's records 40 to 44. It can notice this by the *leader epoch*, a number that rises with each new leader. A commit also contains the leader epoch of the last record that the consumer has read: here 3.

# %% [markdown]
# ## Where an epoch ends
#
# So the consumer asks B, with `OffsetForLeaderEpoch`, where epoch 3 ends. B has a list of epochs, each with its first offset: `[(0, 0), (3, 20), (4, 40)]`. Epoch 3 ends where epoch 4 begins, at 40. The offset 45 is beyond this end, so the consumer continues at 40. If the end were 45 or later, it would continue at 45.
#
# **An epoch ends at the first offset of the next higher epoch in the list.** The epoch itself need not be in the list, for example if its leader wrote nothing: here, epoch 1 ends at 20, where epoch 3 begins. The highest epoch ends at the end of the log.
#
# If an operator has set the offset, the commit has no leader epoch, and the consumer does not ask.
#
# <details><summary>Records that were already processed</summary>
#
# Kafka cannot undo the work on A's records 40 to 44. With `auto.offset.reset=none`, the consumer raises `LogTruncationException` and does not go back, so your application can decide.
#
# </details>

# %% [markdown]
# ## Exercise for later: three restarts, on paper
#
# The leader of a partition has this list of epochs with their first offsets: `[(0, 0), (2, 70), (5, 90)]`. Its log ends at 120. Three consumers start with these committed offsets:
#
# 1. offset 85, epoch 2
# 2. offset 95, epoch 2
# 3. offset 75, epoch 1
#
# At which offset does each consumer continue? Write three numbers, for example `(1, 2, 3)`.

# %%
# exercise: three_restarts
three_restarts = ...

# %%
course.check("three_restarts", three_restarts)
# course.hint("three_restarts")

# %% [markdown]
# ## Where 3.9 differs
#
# Three answers of 3.9 differ:
#
# - To a stable fetch while a commit is in flight, it answers with an error.
# - To ListGroups during a load, it answers with the groups that it already has.
# - To DescribeGroups of an unknown group, it answers without an error.
#
# <details><summary>Other versions</summary>
#
# The handbook has both coordinators, [event by event](../docs/handbook/events.md).
#
# - 1.0.1 answers `NOT_COORDINATOR` to OffsetFetch while it loads, and it has no `requireStable`.
# - Up to 3.x, version 0 of OffsetCommit and OffsetFetch used ZooKeeper, so a commit with version 0 is invisible to a fetch with version 1.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>A fetch by name returns −1 and NONE. What do you know, and what do you not know?</summary>
#
# A 4.x coordinator has loaded the partition and has no offset. (In 3.9, the load can also have failed.) You do not know why: the group can be new, or its offset was deleted.
#
# </details>
#
# <details><summary>How does DescribeGroups answer for a group that does not exist?</summary>
#
# With the state *Dead* and the error `GROUP_ID_NOT_FOUND`. In 3.9, and for requests up to version 5, there is no error.
#
# </details>
#
# ## In five lines
#
# - Only the leader of the group's partition answers, from memory, after its load.
# - "Nothing committed" is −1 with `NONE`, and `auto.offset.reset` decides.
# - By name, a fetch answers for every partition; *all* leaves out what has no offset or may not be seen.
# - While a transaction is open, a stable fetch by name gets `UNSTABLE_OFFSET_COMMIT`, and asks again.
# - The leader epoch shows a consumer that records before its offset were replaced.
#
# ## For your consumer
#
# - With `auto.offset.reset=none`, a lost offset is an error. Use it if skipping records is worse than stopping.
# - While the coordinator loads or an offset is unstable, `poll` returns no records, throws nothing, and asks again. The last row of the next table shows how to distinguish this from an empty topic.

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or skips records. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | If CURRENT-OFFSET is `-`, the coordinator has no offset. A number can be a new commit after the loss. | Stop the consumers before they commit again, find the cause (row 2), and set the old offsets ([lesson 09](09_deleting.ipynb)). |
# | Why is there no offset? | `kafkagroups explain PATH --group billing` | See "Why the answer can be −1". | Reading is safe. |
# | A monitor misses the group. | the command of row 1 | If it shows the group, the monitor asked during a load or lacks permissions. | Give it DESCRIBE on the group and its topics. |
# | A consumer reads nothing. | the command of row 1 | If LAG is 0, there is nothing to read. If not, and the consumer's log repeats `unstable offsets`, a transaction is open. | [Lesson 08](08_transactions.ipynb), "At 3 am". |

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | 4.x | 3.9 |
# |---|---|---|
# | offsets in memory | `OffsetMetadataManager.offsets` | `GroupMetadataManager.groupMetadataCache`, `GroupMetadata.offsets` |
# | may this broker answer? | `CoordinatorRuntime` (state of the partition) | `GroupCoordinator.validateGroupStatus`, `ownedPartitions`, `loadingPartitions` |
# | the fetch | `GroupCoordinatorService.fetchOffsets`, `OffsetMetadataManager.fetchOffsets` | `GroupCoordinator.handleFetchOffsets`, `GroupMetadataManager.getOffsets` |
# | groups | `GroupMetadataManager.describeGroups`, `listGroups` | `getGroup`, `getOrMaybeCreateGroup`, `addGroup`, `handleDescribeGroup`, `handleListGroups` |
# | epochs | `LeaderEpochFileCache.endOffsetFor`; consumer: `OffsetsForLeaderEpochClient` | the same |
#
# </details>
#
# ## What we left out, and why
#
# How a partition gets a new leader, and the member epoch in newer fetch requests (lesson 13). The [glossary](../docs/handbook/glossary.md) has all terms.
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): how members join, stay and leave, and what a rebalance does.
