# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** every 4.x, with the new *group coordinator*. **Which groups:** all, with the classic and the new protocol.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} + 10 for later | no |
#
# ![A consumer that starts sends FindCoordinator to any broker, OffsetFetch to broker 2, and OffsetForLeaderEpoch to the partition's leader, and then reads from offset 50.](pictures/05.svg)

# %% [markdown]
# A consumer that starts needs four answers:
#
# | the question | the request | the answer, in short |
# |---|---|---|
# | 1. Who coordinates my group? | FindCoordinator, to any broker | The leader of the group's partition. |
# | 2. Where do I continue? | OffsetFetch (the *fetch*), to the coordinator | An offset from **memory**, or −1 without an error. |
# | 3. Can this offset still change? | the same OffsetFetch | Normally not. If a newer commit is unfinished, the consumer waits for a [**stable offset**](../docs/handbook/glossary.md#stable-offset). |
# | 4. Does the partition still have the records that I have read? | OffsetForLeaderEpoch, to the leader of `orders-0` | Normally yes. If they are lost, the consumer goes back. |

# %% [markdown]
# ## Question 1: who coordinates my group?
#
# Only the broker that leads the group's partition has the group in memory, and while the broker loads the partition, this memory is incomplete. If the broker answered "nothing committed" during the load, the consumer would start in the wrong place. So a leader that is still loading answers `COORDINATOR_LOAD_IN_PROGRESS`, and a broker that is not the leader answers `NOT_COORDINATOR`. Here, a broker loses the leadership of the group's partition and gets it back:

# %%
# script
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


def move_away_and_back(broker):
    yield "a commit of 50", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(50)})
    broker.resign(0)  # another broker leads partition 0, the only one of this model
    yield "a fetch, after another broker took over", broker.offset_fetch("billing")
    broker.manager.loading.add(0)  # as if the load had begun
    yield "a fetch during the load", broker.offset_fetch("billing")
    broker.elect(0)  # this broker leads partition 0 again, and loads it
    yield "a fetch after the load", broker.offset_fetch("billing")


course.compare_brokers(move_away_and_back)

# %% [markdown]
# After `NOT_COORDINATOR`, the client asks again who the coordinator is. After `COORDINATOR_LOAD_IN_PROGRESS`, the client waits and asks the same broker again. Meanwhile, Java's `poll` returns no records.

# %% [markdown]
# ## A restart, second by second
#
# We restarted a real 4.3.1 broker, and kept sending three requests. Each line shows a change of an answer:

# %%
# script
import json

shop = course.find_data("harbour/4.3.1")
with open(f"{shop}/acts.json") as file:
    steps = json.load(file)

answers = next(step["answer"] for step in steps if "started again" in step["step"])
print(f"{'ms':>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
for answer in answers:
    first = answer.get("connection") or answer["FindCoordinator"]
    print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# For 12 seconds, the broker is not up. Then:
#
# - **FindCoordinator** only looks up the partition's leader, so it needs no load.
# - **OffsetFetch** needs only the partition of `billing`. The load of this partition was over before our next request, so this column never shows `COORDINATOR_LOAD_IN_PROGRESS`.
# - **ListGroups**, the list of a broker's groups, needs *all* partitions. Its first answer, `NONE, 0 groups`, looks like an empty cluster, but the broker did not know yet which partitions it leads. **An empty list right after a start proves nothing.**

# %% [markdown]
# ## Question 2: where do I continue?
#
# The log has no index by group, so a search for one offset would read the whole partition. So the coordinator reads the log once, when it loads, and then answers from memory. Our model of 4.3.1 loads the shop's logs, and `ReadCountingLogs` counts the records:

# %%
from pathlib import Path

logs = course.ReadCountingLogs(shop)
broker = course.start_broker(logs, kafka="4.3.1")
loaded = logs.records_read

in_partition_9 = len(course.read_lines(Path(shop, "__consumer_offsets-9")))
print(f"{loaded} records were read to load all 50 partitions, {in_partition_9} of them in partition 9")

# %% [markdown]
# *Predict*: the broker loses partition 9, and then leads this partition again. After that, the broker answers ten fetches of `billing`, which is in partition 9. How many more records does the broker read from the log?

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
# A broker that loses a partition drops the groups of this partition, because the next leader may change them. So our broker had to load the 45 records of partition 9 again, once. The ten fetches read no record.
#
# </details>
#
# The real broker gave the same answers:

# %%
said = course.read_answers("harbour/4.3.1")["offsets"]
ours = {group: course.format_offsets(broker.offset_fetch(group).value) for group in said}
course.compare_with_broker(ours, said, "4.3.1")

for partition, committed in sorted(ours["billing"].items()):
    print(f"{partition:<12} offset {committed['offset']}, leader epoch {committed['leader_epoch']}")

# %% [markdown]
# ## Nothing committed
#
# *Predict*: a client asks for `orders-0` of a group that never existed. Which offset and which error name does the client receive? Write a pair, for example `(7, "REQUEST_TIMED_OUT")`.

# %%
# prediction
for_unknown_group = ...

# %%
found = broker.offset_fetch("nobody", [ORDERS_0]).value.offsets[ORDERS_0]
course.reveal("for_unknown_group", for_unknown_group, (found.offset, found.error.name))

# %% [markdown]
# There is no error, because every new group gets this answer. The consumer then starts where `auto.offset.reset` says. A group that has lost its offsets gets the same answer, so nobody notices the loss.
#
# ## By name, or all
#
# A client can ask for partitions **by name**, as a consumer does, or for **all**, as a monitor does. Here, `billing` has two committed offsets, and the client has no permission (DESCRIBE) to see `payments`:

# %%
# script
PAYMENTS_1 = TopicPartition("payments", 1)


def ask_all_and_by_name(broker):
    yield "two commits", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(50), PAYMENTS_1: OffsetCommit(41)})
    yield "all partitions", broker.offset_fetch("billing")
    yield "by name", broker.offset_fetch("billing", [ORDERS_0, TopicPartition("orders", 1), PAYMENTS_1])


def may_see(operation, kind, name):
    return (operation, name) != ("DESCRIBE", "payments")


course.compare_brokers(ask_all_and_by_name, authorize=may_see)

# %% [markdown]
# For a fetch **by name**, the coordinator goes through the client's list of partitions, so each partition of the list has an offset, −1 or an error in the answer. For a fetch of **all**, the coordinator goes through the group's committed offsets, and leaves out those that the client may not see. So a monitor with too few permissions shows too few offsets, and no error.

# %% [markdown]
# ## Why the answer can be −1
#
# The log of the group's partition shows why there is no offset:
#
# | the reason | how to recognise it |
# |---|---|
# | The group is new, or a name is wrong. | The log has no commit of this group and partition. |
# | The offset has expired or was deleted (lesson 09). | The log has a tombstone for the offset. |
# | `__consumer_offsets` has more partitions than before (lesson 02). | The commit is in another partition. |
# | A client has committed −1, which Java's client refuses to do. | The log has a commit with −1. |

# %% [markdown]
# ## Exercise: a decision
#
# A monitor reports that `billing` has lost its offset for `orders-0`. Which answer proves that the coordinator has no offset for this partition?
#
# - **A**: One second after the broker's start, ListGroups returned `NONE` and a list without `billing`.
# - **B**: OffsetFetch for all partitions returned an empty list and `NONE`. The client that asked has permissions for groups, but not for topics.
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
# ## Question 3: can this offset still change?
#
# A consumer starts to process records at its offset, so the offset must not change a moment later. Java's consumer therefore sets `requireStable` in its fetch, which makes it a *stable fetch*. Kafka's tools do not set it, because they only show offsets.
#
# The first case is a commit **in flight**, which the replicas have not confirmed yet (lesson 04). The confirmed offset is 5. Consumer X has processed record 5, and its commit of 6 is in flight. Now consumer Y takes over, and neither number would be a good answer for Y:
#
# | if the coordinator answered | this could happen next |
# |---|---|
# | 5, the confirmed offset | Y processes record 5 again, although 6 is confirmed a moment later. |
# | 6, the offset in flight | The broker crashes, and the commit of 6 is lost. The next fetch returns 5, so the offset has gone back. |
#
# So a coordinator of 4.x lets a stable fetch **wait** until the replicas have confirmed 6. After that, a crash cannot lose the commit of 6:

# %%
# script
def commit_in_flight(broker):
    log = broker.manager.logs
    yield "a commit of 5", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(5)})
    log.release()  # the replicas confirm 5
    yield "a commit of 6, in flight", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(6)})
    yield "a fetch", broker.offset_fetch("billing", [ORDERS_0])
    yield "a stable fetch", broker.offset_fetch("billing", [ORDERS_0], require_stable=True)
    log.release()  # the replicas confirm 6


course.compare_brokers(commit_in_flight, ("4.3.1",), holds_answers=True)[2:]

# %% [markdown]
# ## While a transaction is open
#
# The second case is an offset that was committed in a *transaction* ([lesson 08](08_transactions.ipynb)). Until the transaction ends, nobody knows whether this offset will count: it is **pending**. A transaction can stay open for minutes, too long for a request to wait. So for a partition with a pending offset, a stable fetch is answered at once, with `UNSTABLE_OFFSET_COMMIT`, and the consumer asks again until the transaction ends.
#
# When the shop's brokers were killed (lesson 00), `fraud-check` had no committed offset of `orders-0`, only a pending one.
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
# For *all*, the coordinator goes through the committed offsets of the group, and `orders-0` has none.
#
# </details>
#
# Here are all four ways to ask. `payments-1` has a committed and a pending offset, `orders-0` only a pending one:

# %%
# script
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
# The answer to *all, stable* does not mention `orders-0`. So if you need stable offsets, list the partitions in the request.

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
# An answer is an offset, −1, or `"UNSTABLE_OFFSET_COMMIT"`. No commit is in flight.

# %%
# exercise: get_offsets
def get_offsets(committed, pending, asked, stable):
    ...

# %%
course.check("get_offsets", get_offsets)
# course.hint("get_offsets")

# %% [markdown]
# ## All answers, in a failover
#
# Questions 1 to 3 together: broker 1 leads partition 9, and dies. Step through the phases: in which of them does a client that asks for `billing` get no offset, and what does the client do next? Then ask for the other groups.

# %%
# figure
course.Failover()

# %% [markdown]
# ## Question 4: does the partition still have the records that I have read?
#
# Each new leader of a partition gets a higher number, the *leader epoch*.
#
# 1. Broker A leads `orders-0` in leader epoch 3, and has records up to 59. Broker B has copied the records up to 39.
# 2. `billing` has read A's records up to 44, and commits 45.
# 3. A's disk fails. B is not in sync, but an administrator lets B lead, in leader epoch 4 (an [*unclean* leader election](../docs/handbook/glossary.md#unclean-leader-election)).
# 4. B receives **new** records, from 40 on:
#
# ```
#  offset            0 … 19    20 … 39   40 … 44   45 … 59
#  A: leader epoch      0         3         3         3
#  B: leader epoch      0         3         4         4
# ```
#
# `billing` has not read B's records 40 to 44, so a start at 45 would skip them.
#
# The leader epoch prevents this, because a commit contains the leader epoch of the last record that the consumer has read. `billing` has read record 44 of A, so its commit contains 3.
#
# ## Where an epoch ends
#
# The consumer asks B, with `OffsetForLeaderEpoch`, where epoch 3 ends. B has a list of epochs, each with its first offset: `[(0, 0), (3, 20), (4, 40)]`. Epoch 3 ends where epoch 4 begins, at 40. The consumer's offset is 45, so the consumer continues at the smaller number, 40.
#
# **An epoch ends at the first offset of the next higher epoch in the list.** The highest epoch ends at the end of the log.
#
# The list of B has no epoch 1, because B has no record of this epoch. If a consumer asks for the end of epoch 1, B answers 20: there begins epoch 3, the next higher one in its list.
#
# An offset that an operator has set with `kafka-consumer-groups.sh` has no leader epoch, so the consumer does not ask question 4.

# %% [markdown]
# ## Exercise for later: three restarts, on paper
#
# The leader of a partition has this list of epochs with their first offsets: `[(0, 0), (2, 70), (5, 90)]`. The leader's log ends at 120. Three consumers start with these committed offsets:
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
# A 3.9 coordinator does not let a stable fetch wait. It treats a commit in flight like a pending offset:

# %%
course.compare_brokers(commit_in_flight, holds_answers=True)[2:]

# %% [markdown]
# <details><summary>What a monitor asks: ListGroups and DescribeGroups</summary>
#
# A monitor sends ListGroups to **every** broker, because each lists only its own groups, and then DescribeGroups for the state and the members of a group.
#
# | | 4.x | 3.9 |
# |---|---|---|
# | ListGroups, while one partition loads | `COORDINATOR_LOAD_IN_PROGRESS`, without groups | the same error, with the groups that are loaded |
# | DescribeGroups of an unknown group | the state *Dead*, and `GROUP_ID_NOT_FOUND` (requests up to version 5: without an error) | *Dead*, without an error |
#
# </details>
#
# <details><summary>Other versions</summary>
#
# The handbook has both coordinators, [event by event](../docs/handbook/events.md).
#
# - 1.0.1 answers `NOT_COORDINATOR` to OffsetFetch while it loads, and it has no `requireStable`.
# - A very old client sends version 0 of the request OffsetCommit. A broker of up to 3.x stores this offset in ZooKeeper, so a fetch finds it only with version 0 of OffsetFetch.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>A fetch by name returns −1 and NONE. What do you know, and what do you not know?</summary>
#
# The coordinator has loaded the partition and has no offset. You do not know why: the group can be new, or its offset was deleted.
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
# - A fetch by name answers for every partition in its list. A fetch of all partitions leaves out those without an offset or permission.
# - A consumer waits for a commit in flight. While a transaction is open, the consumer gets `UNSTABLE_OFFSET_COMMIT`, and asks again.
# - The leader epoch of a commit shows whether the partition has lost records that the consumer had read.
#
# ## For your consumer
#
# With `auto.offset.reset=none`, a lost offset is an error. Use it if skipping records is worse than stopping. If an unclean election has lost records, such a consumer stops, too, with `LogTruncationException`.

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or skips records. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | If CURRENT-OFFSET is `-`, there is no offset. If CURRENT-OFFSET is a number, the group may have committed again after the loss. | Stop the consumers before they commit again. Find the cause with the next command, and set the old offsets ([lesson 09](09_deleting.ipynb)). |
# | Why is there no offset? | `kafkagroups explain PATH --group billing` | See "Why the answer can be −1". | Reading is safe. |
# | A monitor does not show the group. | the `--describe` command above | If the command shows the group, the monitor asked during a load or lacks permissions. | Give the monitor DESCRIBE on the group and its topics. |
# | A consumer reads nothing. | the `--describe` command above | If LAG is not 0, and the consumer's log repeats `unstable offsets`, a transaction is open. | [Lesson 08](08_transactions.ipynb), "At 3 am". |

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
# How a partition gets a new leader. The [glossary](../docs/handbook/glossary.md) has all terms.
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): how members join, stay and leave, and what a rebalance does.
