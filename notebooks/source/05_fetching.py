# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** every 4.x, with the new *group coordinator*. **Which groups:** all, with the classic and the new protocol.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain why a consumer sometimes waits for its offset, or goes back | {{minutes}} + 10 for later | no |
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
# | 4. Does the partition still have the records that I have read? | OffsetForLeaderEpoch, to the leader of `orders-0` | Normally yes. |

# %% [markdown]
# ## Question 1: who coordinates my group?
#
# Only the broker that leads the group's partition has the group in memory, and its memory is incomplete while it loads the partition. If it answered "nothing committed" during the load, the consumer would start in the wrong place. So a leader that is still loading answers `COORDINATOR_LOAD_IN_PROGRESS`, and a broker that is not the leader answers `NOT_COORDINATOR`.
#
# Here, a broker loses the leadership of the group's partition and gets it back. Beside each step stands its answer, and `log ←` is a record that the broker wrote:

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
# After `NOT_COORDINATOR`, the client asks again who the coordinator is. After `COORDINATOR_LOAD_IN_PROGRESS`, the client waits and asks the same broker again.

# %% [markdown]
# ## A restart, second by second
#
# We restarted a real 4.3.1 broker, and sent it three requests again and again. Each line shows a new answer:

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
# After 12 seconds, the broker is up:
#
# - **FindCoordinator** only looks up who leads the partition of `billing`, so it names this broker before any load.
# - **OffsetFetch** gets `NOT_COORDINATOR` until the broker has learned that it leads partition 9, where `billing` is. (The load of partition 9 was so short that none of our requests met it.)
# - **ListGroups**, the list of a broker's groups, needs *all* partitions. Its first answer was empty, because the broker did not know yet which partitions it leads. **An empty list right after a start proves nothing.**

# %% [markdown]
# ## Question 2: where do I continue?
#
# The log has no index by group, so a search for one offset would read the whole partition. The coordinator therefore reads the log only once, when it loads, and then answers from memory. Our model of 4.3.1 loads the shop's logs, and counts the records that it reads:

# %%
from pathlib import Path

logs = course.ReadCountingLogs(shop)
broker = course.start_broker(logs, kafka="4.3.1")
loaded = logs.records_read

in_partition_9 = len(course.read_lines(Path(shop, "__consumer_offsets-9")))
print(f"{loaded} records were read to load all 50 partitions, {in_partition_9} of them in partition 9")

# %% [markdown]
# *Predict*: the broker loses partition 9, and then leads it again. After that, it answers ten fetches of `billing`. How many more records does it read from the log?

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
# A broker that loses a partition drops the partition's groups, because the next leader may change them. So our broker had to load the 45 records of partition 9 again, once. The ten fetches read no record.
#
# </details>
#
# The real broker answered the same:

# %%
said = course.read_answers("harbour/4.3.1")["offsets"]
ours = {group: course.format_offsets(broker.offset_fetch(group).value) for group in said}
course.compare_with_broker(ours, said, "4.3.1")

for partition, committed in sorted(ours["billing"].items()):
    print(f"{partition:<12} offset {committed['offset']}, leader epoch {committed['leader_epoch']}")

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
# There is no error, because every new group gets this answer. The consumer starts where `auto.offset.reset` says. A group that has lost its offsets gets the same answer, so nobody notices.

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

# %% [markdown]
# ## Question 3: can this offset still change?
#
# A consumer starts to read at its offset, so the offset must not change a moment later. Java's consumer therefore sets `requireStable` in its fetch, which makes it a *stable fetch*. Kafka's tools do not set it, because they only show offsets.
#
# The first case is a commit **in flight**, which the replicas have not confirmed yet (lesson 04). The confirmed offset is 5, and consumer X, which has processed record 5, has a commit of 6 in flight. Now consumer Y takes over, and neither number is a good answer:
#
# | the answer | what could happen next |
# |---|---|
# | 5, the confirmed offset | Y processes record 5 again, although a moment later 6 is confirmed. |
# | 6, the offset in flight | A crash loses the commit of 6. The next fetch returns 5: the offset has gone back. |
#
# So a coordinator of 4.x lets a stable fetch **wait** until the replicas have confirmed 6. (*Waits, then* means that the answer came later.)

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
# The second case is an offset that was committed in a *transaction* ([lesson 08](08_transactions.ipynb)). Until the transaction ends, nobody knows whether it will count: the offset is **pending**. A transaction can stay open for minutes, which is too long for a request to wait. So for a pending offset, the coordinator does not wait: it answers a stable fetch with `UNSTABLE_OFFSET_COMMIT` at once, and the consumer asks again until the transaction ends.

# %% [markdown]
# ## By name, or all
#
# A client can ask for partitions **by name**, as a consumer does, or for **all**, as a monitor does. Here, the client lacks the permission DESCRIBE for the topic `payments`:

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
# For a fetch **by name**, each partition of the client's list has an offset, −1 or an error in the answer. A fetch of **all** returns only the committed offsets of the group. A partition without one is missing in the answer, and so is a partition that the client may not see. So a monitor with too few permissions shows too few offsets, and no error.
#
# When the shop's brokers were killed (lesson 00), `fraud-check` had a pending offset of `orders-0`, and no committed one. *Predict*: a client asks for **all** partitions of `fraud-check`, with `requireStable`. What does the answer say about `orders-0`? Write `"-1"`, `"UNSTABLE_OFFSET_COMMIT"` or `"not mentioned"`.

# %%
# prediction
about_orders_0 = ...

# %%
all_stable = course.format_offsets(broker.offset_fetch("fraud-check", require_stable=True).value)
course.reveal("about_orders_0", about_orders_0, all_stable.get("orders-0", "not mentioned"))

# %% [markdown]
# <details><summary>Why?</summary>
#
# The group has no committed offset of `orders-0`.
#
# </details>
#
# Each way of asking can be stable or not. `payments-1` has a committed and a pending offset, whereas `orders-0` has only a pending one:

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
# The answer to *all, stable* hides the pending offset of `orders-0`. So if you need stable offsets, ask by name.

# %% [markdown]
# ## Exercise: a decision
#
# A monitor reports that `billing` has lost its offset for `orders-0`. Which answer proves that the coordinator has no offset for this partition?
#
# - **A**: One second after the broker's start, ListGroups returned `NONE` and no `billing`.
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
# ## Exercise: the answer to a fetch
#
# Write `get_offsets(committed, pending, asked, stable)`, which returns a dictionary from partition to answer.
#
# - `committed`: a dictionary from partition to offset
# - `pending`: the set of partitions with a pending offset
# - `asked`: a list of partitions, or `"all"`
# - `stable`: whether the client set `requireStable`
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
# ## Question 4: does the partition still have the records that I have read?
#
# Normally yes. But if they are lost, other records may now have their offsets, so the consumer must go back. The *leader epoch* shows this, a number that rises with each new leader of a partition:
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
# `billing` has not read B's records 40 to 44, and a start at 45 would skip them. The leader epoch prevents this, because a commit contains the leader epoch of the last record that the consumer has read: here 3, because `billing` has read record 44 of A.
#
# ## Where an epoch ends
#
# The consumer asks B, with `OffsetForLeaderEpoch`, where epoch 3 ends. B has a list of epochs, each with its first offset: `[(0, 0), (3, 20), (4, 40)]`. Epoch 3 ends where epoch 4 begins, at 40. The committed offset is 45, so the consumer continues at the smaller number, 40.
#
# **An epoch ends where the next higher epoch of the list begins.** So epoch 0 ends at 20, where epoch 3 begins. A consumer can also ask for epoch 2, which is not in the list: the next higher epoch is 3, so the answer is 20, too. The highest epoch of the list ends at the end of the log.
#
# An offset that `kafka-consumer-groups.sh` has set contains no leader epoch, so question 4 is not asked.

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
# ## All answers, in a failover
#
# The questions 1 to 3 again: broker 1 leads partition 9, and dies. Step through the phases: in which of them does a client get no offset of `billing`, and what does it do next?

# %%
# figure
course.Failover()

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
# - Java's client refuses to commit −1. If another client does, a fetch returns −1, and the log has a commit with −1.
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
# <details><summary>A monitor does not show `billing`. How can this be, although nothing is lost?</summary>
#
# The monitor sent ListGroups during a load or right after a start, or not to every broker, or it may not see the group. Ask for the group by name: if the coordinator answers DescribeGroups with *Dead*, it has no such group.
#
# </details>
#
# ## In five lines
#
# - Only the leader of the group's partition answers, from memory, after its load.
# - "Nothing committed" is −1 with `NONE`, and `auto.offset.reset` decides.
# - A fetch by name answers for every partition in its list. A fetch of all leaves out partitions without an offset or permission.
# - A consumer waits for a commit in flight. While a transaction is open, the consumer gets `UNSTABLE_OFFSET_COMMIT`, and asks again.
# - The leader epoch of a commit shows whether the partition has lost records that the consumer had read.
#
# ## For your consumer
#
# With `auto.offset.reset=none`, a lost offset is an error. Use it if skipping records is worse than stopping. After an unclean election that lost records, such a consumer stops with `LogTruncationException`. Any other consumer goes back, and its log says `Truncation detected`.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or skips records. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | If CURRENT-OFFSET is `-`, there is no offset. If it is a number, the group may have committed again after the loss; `kafkagroups timeline PATH --group billing` shows when. (`--all-groups` shows all groups.) | Stop the consumers before they commit again. Find the cause with the next row, and set the old offsets ([lesson 09](09_deleting.ipynb)). |
# | Why is there no offset? | `kafkagroups explain PATH --group billing` | See "Why the answer can be −1". | Reading is safe. |
# | A monitor does not show the group. | the `--describe` command above | If it shows the group, the monitor asked during a load or lacks permissions. | Give the monitor DESCRIBE on the group and its topics. |
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
# How a partition gets a new leader. All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): how members join, stay and leave, and what a rebalance does.
