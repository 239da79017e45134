# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** 4.x. Where 3.9 differs, a table has a second cell, and a sentence begins with "In 3.9".
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} | no |
#
# ![A consumer that starts sends FindCoordinator to any broker, OffsetFetch to broker 2, and OffsetForLeaderEpoch to the partition's leader, and then reads from offset 50.](pictures/05.svg)

# %% [markdown]
# Three things to hold on to:
#
# 1. A broker reads the log only to **load** it, when it becomes the leader of the partition. A *fetch* (OffsetFetch, which asks for offsets, not for records) reads only the memory that the load has filled.
# 2. "Nothing committed" is **not an error**, because every new group gets this answer.
# 3. A client can ask for [**stable** offsets](../docs/handbook/glossary.md#stable-offset) only. If an open transaction may still replace an offset, it gets an error instead of the offset.
#
# | part | begins with | who needs it |
# |---|---|---|
# | 1 | "A fetch reads memory" | everybody; operators need parts 1 and 4 |
# | 2 | "Stable offsets" | those who use transactions |
# | 3 | "The leader epoch of an offset" | developers |
# | 4 | "Questions about groups" | operators |

# %% [markdown]
# ## A fetch reads memory
#
# **Part 1.** A log has no index by group, so each search for an offset would read the whole partition. Does a broker do this? Our model of 4.3.1 loads the shop's logs, which a real broker wrote, and `ReadCountingLogs` counts the records:

# %%
import json
from pathlib import Path

from IPython.display import display

from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

shop = course.find_data("harbour/4.3.1")
logs = course.ReadCountingLogs(shop)
broker = course.start_broker(logs, kafka="4.3.1")
loaded = logs.records_read

in_partition_9 = len(course.read_lines(Path(shop, "__consumer_offsets-9")))
print(f"{loaded} records were read to load all 50 partitions, {in_partition_9} of them in partition 9")

# %% [markdown]
# *Predict*: the broker loses partition 9 to another broker, and then becomes its leader again. After that, it answers ten fetches of `billing`, which is in partition 9. How many more records does it read from the log?

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
# A broker that loses a partition drops its groups, because the next leader can change them. So it had to load partition 9 again, once. The ten fetches read no record.
#
# </details>
#
# The coordinator answers from maps in memory, one for each partition of `__consumer_offsets`. Does the model answer as the real broker did?

# %%
said = course.read_answers("harbour/4.3.1")["offsets"]
ours = {group: course.format_offsets(broker.offset_fetch(group).value) for group in said}
course.compare_with_broker(ours, said, "4.3.1")

for partition, committed in sorted(ours["billing"].items()):
    print(f"{partition:<12} offset {committed['offset']}, leader epoch {committed['leader_epoch']}")

# %% [markdown]
# ## Which broker answers
#
# Only the broker that leads the group's partition has the group in memory, and while this broker loads, its memory is incomplete. If it answered "nothing committed", the consumer would start in the wrong place. So it refuses to answer:

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
# After `NOT_COORDINATOR`, the client sends FindCoordinator again, because another broker has the answer. After `COORDINATOR_LOAD_IN_PROGRESS`, it waits and asks the same broker again.
#
# <details><summary>Can two brokers answer for one group?</summary>
#
# Yes. Until a former leader notices that it was replaced, it answers from its memory, and its offsets may be old.
#
# </details>

# %% [markdown]
# ## A restart, second by second
#
# How long does a client see these errors? A real 4.3.1 broker was restarted, and asked three questions again and again: FindCoordinator, OffsetFetch, and ListGroups, which asks a broker for the groups that it coordinates. Each line is a change of an answer, `ms` after the start:

# %%
steps = json.loads(Path(shop, "acts.json").read_text())
answers = next(step["answer"] for step in steps if "started again" in step["step"])
print(f"{'ms':>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
for answer in answers:
    first = answer.get("connection") or answer["FindCoordinator"]
    print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# - **FindCoordinator** answers `NONE` early, because it only looks up the partition's leader.
# - **OffsetFetch** answers once the group's own partition is loaded, although others are still loading. The load of this small topic took 72 ms. A large one takes minutes ([lesson 11](11_loading.ipynb)).
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
# The coordinator cannot see whether the group is new or its offsets were deleted. The consumer starts where `auto.offset.reset` says, so a group that loses its offsets gets no error.
#
# </details>
#
# A client can ask for partitions **by name**, as a consumer does, or for **all** partitions, as a monitor does. Here, `billing` has committed offsets of `orders-0` and `payments-1`. The client has no permission (DESCRIBE) to see `payments`:

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
# Asked by name, every partition is in the answer, with an offset, −1 or an error. The answer to *all* has only partitions with a committed offset, because the coordinator cannot know which others you mean. It also leaves out, without an error, what the client may not see, so a monitor with too few permissions shows too few offsets.

# %% [markdown]
# ## Why the answer can be −1
#
# A −1 does not say why. The log of the group's partition has the reason:
#
# | the reason | how to recognise it |
# |---|---|
# | The group is new, or a name is wrong. | The log has no commit of it. |
# | The offset has expired or was deleted (lesson 09). | The log has a tombstone for it. |
# | The number of partitions of `__consumer_offsets` was changed (lesson 02). | The commit is in another partition of the topic. |
# | The load has failed, on a broker up to 3.9 (lesson 11). | The commit is in the log, and `server.log` has an error. |
# | A client, not in Java, has committed −1. | The log has a commit with −1. |

# %% [markdown]
# ## Stable offsets
#
# **Part 2.** The program `fraud-check` reads `payments`, and writes its alarms and its offsets in one *transaction*, so either all of them count or none (lesson 08). While the transaction is open, its offsets are **pending**.
#
# Suppose that a second program takes over now. If it starts at the last committed offset, and the transaction commits a moment later, these payments are processed **twice**. So it must wait, and sets `requireStable` in its fetch. The coordinator then answers `UNSTABLE_OFFSET_COMMIT` for each partition with a pending offset, and the program asks again until the transaction ends.
#
# In the night of lesson 00, `fraud-check` had an open transaction with an offset for `orders-0`, and had never committed another one.
#
# *Predict*: a client asks for **all** partitions of `fraud-check`, with `requireStable`. What does the answer say about `orders-0`? Write `"-1"`, `"UNSTABLE_OFFSET_COMMIT"` or `"not mentioned"`.

# %%
# prediction
about_orders_0 = ...

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


all_stable = course.format_offsets(broker.offset_fetch("fraud-check", require_stable=True).value)
with course.fold("about_orders_0", about_orders_0, all_stable.get("orders-0", "not mentioned")):
    display(course.compare_brokers(open_transaction))

# %% [markdown]
# <details><summary>Why?</summary>
#
# If you ask for *all*, the answer has only partitions with a committed offset. `orders-0` has only a pending one, so it is missing.
#
# </details>
#
# So a program that needs stable offsets must ask by name. Java's consumer does, and it sets `requireStable` since version 2.5. The real broker was asked by name, too:

# %%
asked = course.read_answers("harbour/4.3.1")["stable_every_live_partition_named"]["fraud-check"]
named = [TopicPartition.parse(name) for name in asked]
ours = course.format_offsets(broker.offset_fetch("fraud-check", named, require_stable=True).value)
course.compare_with_broker(ours, asked, "4.3.1")

# %% [markdown]
# ## All answers, in a failover
#
# Step through a failover, and look at the answers of both brokers:

# %%
# figure
course.Failover()

# %% [markdown]
# ## Exercise: the answer to a fetch
#
# Write `get_offsets(committed, pending, asked, stable)`. It returns a dictionary from partition to answer.
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
# **Part 3.** Are the records before the committed offset still those that the consumer has read? Not always, because a new leader of the partition can lack the last records of the old leader. Consumers notice this by the *leader epoch*, a number that rises with each new leader. Each record stores the leader epoch in which it was written. A commit stores the leader epoch of the last record that the consumer has read.
#
# Suppose leader A writes `orders-0` up to offset 59 in leader epoch 3, but its replicas end at 39. A's disk fails, and B becomes the leader in epoch 4, with a shorter log, in an [*unclean* leader election](../docs/handbook/glossary.md#unclean-leader-election).
#
# ```
#  offset        20 … 39   40 … 44   45 … 59
#  A, epoch 3    ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   billing has read up to 44, and commits 45, epoch 3
#  B, epoch 4    ▓▓▓▓▓▓▓   ░░░░░░░   ░░░░░░░   from 40 on there are other records
# ```
#
# A consumer that starts at 45 would miss B's records 40 to 44.

# %% [markdown]
# ## Where an epoch ends
#
# So the consumer first asks B, with the request `OffsetForLeaderEpoch`, where leader epoch 3 ends. B has a list of epochs, each with its first offset: `[(0, 0), (3, 20), (4, 40)]`. **An epoch ends at the first offset of the next higher epoch in the list**, and the last one at the end of the log.
#
# So epoch 3 ends at 40. The committed offset, 45, is beyond this end, so the consumer continues at 40. If epoch 3 ended at 45 or later, the records before 45 would still be there, and the consumer would continue at 45. It does not ask if the commit has no leader epoch, as after a reset by an operator.
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
# At which offset does each consumer continue? Write three numbers, for example `(1, 2, 3)`. This leader has no record of epoch 1, so the list does not contain it.

# %%
# exercise: three_restarts
three_restarts = ...

# %%
course.check("three_restarts", three_restarts)
# course.hint("three_restarts")

# %% [markdown]
# ## Questions about groups: describe and list
#
# **Part 4.** A monitor also sends ListGroups, to **every** broker, because each lists only the groups that it coordinates. Then it sends DescribeGroups, for the state and the members of a group. Here, a broker has loaded the partition of `shipping`, and still loads the partition of `billing`:

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
# ListGroups asks each partition of the broker. If one of them still loads, the whole answer is an error without groups. In 3.9, the error comes with the groups that are loaded so far.

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
# A stable fetch differs, too, while a commit outside of transactions is in flight (lesson 04). Here 5 is committed, and 6 is not confirmed yet:

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
# <details><summary>Why?</summary>
#
# In 4.x, the answer comes from the newest memory, which already has 6, but it is sent only when the replicas have confirmed 6. So the client waits a moment. In 3.9, an offset in flight counts as pending, so the client gets the error and asks again.
#
# </details>
#
# The handbook has both coordinators, [event by event](../docs/handbook/events.md).
#
# <details><summary>Other versions</summary>
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
# - The coordinator answers fetches from memory. The log is for the next coordinator.
# - Only the leader of the group's partition answers, after its load.
# - "Nothing committed" is −1 with `NONE`, and `auto.offset.reset` decides.
# - `requireStable`, in a fetch by name, makes a consumer wait for open transactions.
# - The leader epoch shows a consumer that records before its offset were replaced.
#
# ## For your consumer
#
# - Set `auto.offset.reset=none` if skipping records is worse than stopping. Then a lost offset is an error.
# - After a broker restart, Java's consumer retries `NOT_COORDINATOR` and `COORDINATOR_LOAD_IN_PROGRESS` until `default.api.timeout.ms` (60 seconds).
# - As long as an offset is unstable, `poll` returns no records, throws nothing, and asks again.

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or skips records. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | If CURRENT-OFFSET is `-`, the coordinator has no offset. | Stop the consumers before they commit again. |
# | Why is there no offset? | `kafkagroups explain PATH --group billing` | Compare it with "Why the answer can be −1". | Reading is safe. |
# | A monitor misses the group. | the command of row 1 | If it shows the group, the monitor lacks permissions or asked during a load. | Give its user DESCRIBE on the group and its topics. |
# | A consumer reads nothing, and its log repeats `unstable offsets`. | `kafkagroups stats PATH` | A transaction was never ended. | See lesson 08. |

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
# How a partition gets a new leader, and the member epoch in newer fetch requests (lesson 13). All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): how members join, stay and leave, and what a rebalance does.
