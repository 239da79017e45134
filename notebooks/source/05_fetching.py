# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** 4.x. The tables show 4.3.1 beside 3.9.2. If a row has only one answer, both give it.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} | no |
#
# ![A consumer that starts sends FindCoordinator to any broker, OffsetFetch to broker 2, and OffsetForLeaderEpoch to the partition's leader, and then reads from offset 50.](pictures/05.svg)

# %% [markdown]
# A consumer that starts asks three questions: *Who coordinates my group? Where do I continue? Are the records before this place still those that I have read?* The picture shows who answers. Most of this lesson is about the second question, the *fetch* (OffsetFetch).
#
# Three things to hold on to:
#
# 1. A broker reads the log only to **load** it, when it becomes the partition's leader. A fetch reads only the memory that the load has filled.
# 2. "Nothing committed" is **not an error**, because every new group gets this answer.
# 3. A consumer can ask for [**stable** offsets](../docs/handbook/glossary.md#stable-offset) only, which no open transaction may still replace.

# %% [markdown]
# ## A fetch reads memory
#
# A log has no index by group, so each search for an offset would read the whole partition. Our model of 4.3.1 loads the shop's logs, and `ReadCountingLogs` counts the records:

# %%
import json
from pathlib import Path

from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

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
# ## Which broker answers
#
# Only the broker that leads the group's partition has the group in memory, and while it loads, this memory is incomplete. If it answered "nothing committed", the consumer would start in the wrong place, so it refuses to answer. (You can skip the script.)

# %%
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
# After `NOT_COORDINATOR`, the client asks the first question again, because another broker has the answer. After `COORDINATOR_LOAD_IN_PROGRESS`, it waits and asks the same broker again.
#
# <details><summary>Can two brokers answer for one group?</summary>
#
# Yes, for a moment. Until a former leader learns that it was replaced, it answers fetches from its memory, and its offsets may be old.
#
# </details>

# %% [markdown]
# ## A restart, second by second
#
# How long does a client see these errors? We restarted a real 4.3.1 broker, and sent it three requests again and again; ListGroups asks a broker for its groups. A line is printed whenever an answer changes:

# %%
steps = json.loads(Path(shop, "acts.json").read_text())
answers = next(step["answer"] for step in steps if "started again" in step["step"])
print(f"{'ms':>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
for answer in answers:
    first = answer.get("connection") or answer["FindCoordinator"]
    print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# - **FindCoordinator** answers `NONE` early, because it only looks up the partition's leader.
# - **OffsetFetch** answers once the group's own partition is loaded. This small topic took 72 ms; a large one takes minutes ([lesson 11](11_loading.ipynb)).
# - **ListGroups** answers `NONE` with 0 groups until the broker knows that it leads these partitions. So an empty list right after a start proves nothing.

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
# With −1, the consumer starts where `auto.offset.reset` says. So a group that has lost its offsets gets no error either.
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
# By name, every partition is in the answer, with an offset, −1 or an error. The answer to *all* has only partitions with a committed offset that the client may see, so a monitor with too few permissions shows too few offsets.

# %% [markdown]
# ## Why the answer can be −1
#
# A −1 has no reason with it. The log of the group's partition has one:
#
# | the reason | how to recognise it |
# |---|---|
# | The group is new, or a name is wrong. | The log has no commit of it. |
# | The offset has expired or was deleted (lesson 09). | The log has a tombstone for it. |
# | `__consumer_offsets` has more partitions than before (lesson 02). | The commit is in another partition. |
# | The load has failed, on a broker up to 3.9 (lesson 11). | The commit is in the log, and `server.log` has an error. |
# | A client, but not Java's, has committed −1. | The log has a commit with −1. |

# %% [markdown]
# ## Stable offsets
#
# The program `fraud-check` writes its results and its offsets in one *transaction*, so either all of them count or none (lesson 08). While the transaction is open, its offsets are **pending**.
#
# Suppose that a second process takes over now. If it starts at the last committed offset, and the transaction commits a moment later, the same records are processed **twice**. So it sets `requireStable` in its fetch. The coordinator then answers `UNSTABLE_OFFSET_COMMIT` for each partition with a pending offset, and the process asks again until the transaction ends.
#
# In the night of lesson 00, the only offset of `fraud-check` for `orders-0` was pending.
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
# All four ways to ask, on two brokers. Again, `orders-0` has only a pending offset:

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
# So a program that needs stable offsets must ask by name. Java's consumer does, and sets `requireStable`. The real broker of that night was asked in this way:

# %%
asked = course.read_answers("harbour/4.3.1")["stable_every_live_partition_named"]["fraud-check"]
named = [TopicPartition.parse(name) for name in asked]
ours = course.format_offsets(broker.offset_fetch("fraud-check", named, require_stable=True).value)
course.compare_with_broker(ours, asked, "4.3.1")

# %% [markdown]
# ## Why a stable fetch waits
#
# Lesson 04 showed that a coordinator answers from its snapshot, the state that the replicas have confirmed. A stable fetch is the exception. Suppose that 5 is committed, and the commit of 6 is in flight. No crash can lose 5, so a plain fetch returns it. But 5 is not the last word: a moment later, 6 replaces it.
#
# So for a stable fetch, the coordinator takes the **newest** state, with 6. A crash could still lose 6, so the answer waits for the replicas, like the answer to a commit:

# %%
def fetch_in_flight(broker):
    broker.offset_commit("billing", {ORDERS_0: OffsetCommit(5)})
    broker.manager.logs.release()
    yield "the commit of 6", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(6)})
    yield "a fetch", broker.offset_fetch("billing", [ORDERS_0])
    yield "a stable fetch", broker.offset_fetch("billing", [ORDERS_0], require_stable=True)
    broker.manager.logs.release()


course.compare_brokers(fetch_in_flight, holds_answers=True)[1:]

# %% [markdown]
# ## All answers, in a failover
#
# Step through a failover. Each time, the client asks, and the answer comes back:

# %%
# figure
course.Failover()

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
# The third question is for developers; others go on with "Questions about groups". Normally, only a replica in sync becomes the partition's leader, so no record is lost. If none is left, an administrator can let another replica lead, in an [*unclean* leader election](../docs/handbook/glossary.md#unclean-leader-election). Here, A leads `orders-0` up to offset 59, B has copied only up to 39, and A's disk fails:
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
# **An epoch ends at the first offset of the next higher epoch in the list**, even if it is not in the list itself: here, epoch 1 ends at 20. The highest epoch ends with the log.
#
# If an operator has set the offset, the commit has no leader epoch, and the consumer does not ask.
#
# <details><summary>Records that were already processed</summary>
#
# Kafka cannot undo the work on A's records 40 to 44. With `auto.offset.reset=none`, the consumer raises `LogTruncationException` and does not go back, so your application can decide.
#
# </details>

# %% [markdown]
# ## Exercise: three restarts, on paper
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
# ## Questions about groups: describe and list
#
# A monitor sends ListGroups to **every** broker, because each lists only its own groups, and DescribeGroups for a group's state and members. Here, a broker has loaded the partition of `shipping`, and still loads that of `billing`:

# %%
def ask_as_monitor(broker):
    for group in ["shipping", "billing"]:
        yield f"a commit of {group}", broker.offset_commit(group, {ORDERS_0: OffsetCommit(50)})
    partition = broker.manager.partition_for("billing")
    broker.resign(partition)
    broker.manager.loading.add(partition)
    error, groups = broker.list_groups()
    yield "ListGroups during the load", (error, *(group.group_id for group in groups))
    yield "DescribeGroups during the load", broker.describe_groups(["billing"])[0].error
    broker.elect(partition)
    yield "DescribeGroups of an unknown group", broker.describe_groups(["nobody"])


course.compare_brokers(ask_as_monitor, offsets_topic_num_partitions=2)

# %% [markdown]
# While one of its partitions loads, a broker of 4.x lists no groups at all.

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
# ## Where 3.9 differs
#
# Three answers above are marked "differs": while a commit is in flight, 3.9 answers a stable fetch with an error; during a load, it lists the groups that it has; and it has no error for an unknown group.
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
# - A plain fetch reads the confirmed state. A stable fetch reads the newest state, and waits for its confirmation.
# - While a transaction is open, a stable fetch by name gets an error.
# - The leader epoch shows a consumer that records before its offset were replaced.
#
# ## For your consumer
#
# - With `auto.offset.reset=none`, a lost offset is an error. Use it if skipping records is worse than stopping.
# - While the coordinator loads or an offset is unstable, `poll` returns no records, throws nothing, and asks again. The last row below tells this from an empty topic.

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or skips records. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | If CURRENT-OFFSET is `-`, the coordinator has no offset. | Stop the consumers before they commit again, find the cause (row 2), and set the old offsets ([lesson 09](09_deleting.ipynb)). |
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
