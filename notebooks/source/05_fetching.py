# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** the coordinators of 4.x and 3.9, side by side.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} | no |
#
# ![A consumer that starts sends FindCoordinator to any broker, OffsetFetch to broker 2, and OffsetForLeaderEpoch to the partition's leader, and then reads from offset 50.](pictures/05.svg)

# %% [markdown]
# Five things to hold on to:
#
# 1. A broker reads the log to **load** it, normally once, when it becomes the leader of the partition. After that, a commit changes the log and the memory, and a fetch reads only the memory.
# 2. **One broker** answers for a group: the leader of the group's partition, after it has loaded the partition.
# 3. "Nothing committed" is **not an error**.
# 4. An offset in an open transaction is *unstable*. A client that asks only for [**stable** offsets](../docs/handbook/glossary.md#stable-offset) gets an error instead of it.
# 5. A committed offset has a **leader epoch**, by which a consumer notices that records which it has read were lost and replaced by others.

# %% [markdown]
# ## A fetch reads memory
#
# Two real brokers, of 4.3.1 and 3.9.2, wrote logs for the shop. Our coordinators load these logs, and `ReadCountingLogs` counts the records that they read:

# %%
import json
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

both = ("4.3.1", "3.9.2")
logs, brokers = {}, {}
for kafka in both:
    shop = course.find_data(f"harbour/{kafka}")
    logs[kafka] = course.ReadCountingLogs(shop)
    brokers[kafka] = course.start_broker(logs[kafka], kafka=kafka)
    in_partition_9 = len(course.read_lines(Path(shop, "__consumer_offsets-9")))
    print(f"{kafka}: {logs[kafka].records_read} records to load 50 partitions, {in_partition_9} of them in partition 9")

# %% [markdown]
# *Predict*: each broker loses partition 9 to another broker, becomes its leader again, and answers ten fetches of `billing`, whose offsets are in partition 9. How many more records does the broker of 4.3.1 read?

# %%
# prediction
read_again = ...

# %%
read = {}
for kafka, broker in brokers.items():
    before = logs[kafka].records_read
    broker.resign(9)
    broker.elect(9)
    for _ in range(10):
        broker.offset_fetch("billing")
    read[kafka] = logs[kafka].records_read - before

with course.fold("read_again", read_again, read["4.3.1"]):
    print(read)

# %% [markdown]
# <details><summary>Why?</summary>
#
# A broker that loses a partition removes its groups from memory, because from then on another broker changes them. So it had to load the partition again, once. The ten fetches read no record.
#
# </details>
#
# The memory is a map from each partition to its newest offset, while the log has no map, so a fetch from the log would have to read the whole partition. Do both coordinators answer what the real brokers answered for all groups of the shop?

# %%
for kafka, broker in brokers.items():
    said = json.loads(Path(course.find_data(f"harbour/{kafka}"), "answers.json").read_text())["offsets"]
    ours = {group: course.format_offsets(broker.offset_fetch(group)) for group in said}
    course.compare_with_broker(ours, said, kafka)

for partition, committed in sorted(course.format_offsets(brokers["4.3.1"].offset_fetch("billing")).items()):
    print(f"{partition:<12} offset {committed['offset']}, epoch {committed['leader_epoch']}, metadata {committed['metadata']!r}")

# %% [markdown]
# ## Which broker answers
#
# A broker coordinates a group if it leads the group's partition and has loaded it. In between, its memory is incomplete, so it refuses to answer. This script takes the group's partition away from a broker, and gives it back:

# %%
orders_0, orders_1, payments_0 = [TopicPartition(*place) for place in (("orders", 0), ("orders", 1), ("payments", 0))]


def failover(broker):
    partition = broker.manager.partition_for("billing")
    broker.offset_commit("billing", {orders_0: OffsetCommit(50)})
    yield "it leads, and has loaded", broker.offset_fetch("billing")
    broker.resign(partition)
    yield "another broker leads", broker.offset_fetch("billing")
    broker.manager.loading.add(partition)  # as if the load had begun
    yield "it leads again, and is loading", broker.offset_fetch("billing")
    broker.elect(partition)
    yield "it has loaded", broker.offset_fetch("billing")


course.compare_brokers(failover, both)

# %% [markdown]
# - `NOT_COORDINATOR`: the client sends FindCoordinator again, to any broker.
# - `COORDINATOR_LOAD_IN_PROGRESS`: the client waits, and asks the same broker again.
#
# Because of the second error, a broker that is loading never answers "nothing committed", which would send consumers back to the start.
#
# <details><summary>Can two brokers answer for one group?</summary>
#
# Yes. A former leader does not notice immediately that it was replaced. Until then, it answers from its memory, and its offsets may be old.
#
# </details>

# %% [markdown]
# ## A restart, second by second
#
# A real 4.3.1 broker was killed and started again, and a client asked it three questions all the time. ListGroups asks a broker for all groups that it coordinates. Each line is a change of an answer, and `ms` counts from the start:

# %%
steps = json.loads(Path(course.find_data("harbour/4.3.1"), "acts.json").read_text())
answers = next(step["answer"] for step in steps if "started again" in step["step"])

print(f"{'ms':>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
for answer in answers:
    first = answer.get("connection") or answer["FindCoordinator"]
    print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# - **FindCoordinator** answers `NONE` early, because it only looks up the partition's leader. It does not say whether this leader has loaded the partition.
# - **OffsetFetch** is answered as soon as the group's own partition is loaded.
# - **ListGroups** answered `NONE` with 0 groups before the load began, so an empty list without an error proves nothing. Later, `COORDINATOR_LOAD_IN_PROGRESS` said that the list was incomplete.

# %% [markdown]
# ## Nothing committed
#
# *Predict*: a client asks for `orders-0` of a group that never existed. Which offset and which error name does it receive? Write a pair, for example `(7, "REQUEST_TIMED_OUT")`.

# %%
# prediction
for_unknown_group = ...

# %%
found = brokers["4.3.1"].offset_fetch("nobody", [orders_0]).offsets[orders_0]
course.reveal("for_unknown_group", for_unknown_group, (found.offset, found.error.name))

# %% [markdown]
# <details><summary>Why no error?</summary>
#
# Every new group starts with this answer, and the coordinator cannot see whether the group is new or whether its offsets were deleted. The consumer then starts where `auto.offset.reset` says, so a group that loses its offsets gets no error.
#
# </details>
#
# A client can ask for **all** partitions or **by name**, and the difference is what the answer leaves out:

# %%
def all_and_by_name(broker):
    broker.offset_commit("billing", {orders_0: OffsetCommit(50)})
    yield "billing: all", broker.offset_fetch("billing")
    yield "billing: orders-0 and orders-1, by name", broker.offset_fetch("billing", [orders_0, orders_1])
    yield "a group that never existed: all", broker.offset_fetch("nobody")
    yield "the group with an empty name: orders-0, by name", broker.offset_fetch("", [orders_0])


course.compare_brokers(all_and_by_name, both)

# %% [markdown]
# - *All*: only partitions with a committed offset are in the answer.
# - *By name*: each named partition is, with −1 if nothing is committed.
#
# A long conversation with a real 3.9.2 broker has all kinds of such requests, and our classic coordinator got the same ones:

# %%
recorded = course.play_conversation("3.9.2-fetch")
print(recorded)
course.compare_with_broker(recorded.our_responses, recorded.broker_responses, "3.9.2")

# %% [markdown]
# ## Why the answer can be −1
#
# | the reason | how to recognise it |
# |---|---|
# | The group is new, or a name is wrong. | The log has no commit of this group and partition. |
# | The offset has expired or was deleted (lesson 09). | The log has a tombstone for it. |
# | The number of partitions of `__consumer_offsets` was changed (lesson 02). | The commit is in another partition of the topic. |
# | The load has failed, on a broker up to 3.9 (lesson 11). | The commit is in the log, and `server.log` has an error. |
# | A client has committed −1. Java's clients cannot do this. | The log has a commit with −1. |
#
# The answer −1 is certain about what the consumer does next. Whether an offset was lost, only the log tells ("At 3 am").

# %% [markdown]
# ## Stable offsets
#
# `fraud-check` reads `payments`, and writes alarms and its offsets in one transaction (lesson 03). If a second instance took over before this transaction ends, it would start at the last committed offset, and process the payments of the transaction **twice** when it commits a moment later. With `requireStable`, a client asks only for stable offsets: a partition **in the answer** that has an offset in an open transaction gets the error `UNSTABLE_OFFSET_COMMIT`, and the second instance asks again until the transaction has ended.
#
# In the next script, `fraud-check` has committed 25 for `payments-0`. An open transaction contains 30 for `payments-0`, and 7 for `orders-0`, the first offset of this partition.
#
# *Predict*: a client asks for **all** partitions, with `requireStable`. What does the answer say about `orders-0`? Write `"-1"`, `"UNSTABLE_OFFSET_COMMIT"` or `"not mentioned"`.

# %%
# prediction
about_orders_0 = ...

# %%
from IPython.display import display

transaction = {"transactional_id": "fraud-check", "producer_id": 1, "producer_epoch": 0}


def open_transaction(broker):
    yield "commit 25", broker.offset_commit("fraud-check", {payments_0: OffsetCommit(25)})
    offsets = {payments_0: OffsetCommit(30), orders_0: OffsetCommit(7)}
    yield "two offsets in a transaction", broker.txn_offset_commit("fraud-check", offsets, **transaction)
    for words, names in (("all", None), ("by name", [orders_0, payments_0])):
        yield words, broker.offset_fetch("fraud-check", names)
        yield f"{words}, stable", broker.offset_fetch("fraud-check", names, require_stable=True)


unstable = course.compare_brokers(open_transaction, both)
all_stable = unstable.steps[3].answers[0]
about = "UNSTABLE_OFFSET_COMMIT" if "orders-0: U" in all_stable else "-1" if "orders-0" in all_stable else "not mentioned"
with course.fold("about_orders_0", about_orders_0, about):
    display(unstable)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The answer to *all* lists committed partitions only, and the only offset of `orders-0` is in an open transaction, so the answer does not mention it. A program may think that there is no offset and no open transaction. That is why a program that needs stable offsets must ask by name, as Java's consumer has done since 2.5.
#
# </details>
#
# A real 4.3.1 broker was asked by name, too, while the transaction of `fraud-check` was open:

# %%
said = json.loads(Path(course.find_data("harbour/4.3.1"), "answers.json").read_text())
for partition, answer in said["stable_every_live_partition_named"]["fraud-check"].items():
    print(f"{partition:<12} {answer if isinstance(answer, str) else answer['offset']}")

# %% [markdown]
# ## All answers, in a failover
#
# Step through a failover, and ask each broker for an offset. Which answers send the client to another broker, and which let it wait?

# %%
# figure
course.Failover()

# %% [markdown]
# ## Exercise: the answer to a fetch
#
# Write `get_offsets(committed, pending, asked, stable)`. It returns a dictionary from partition to answer.
#
# - `committed`: a dictionary from partition to offset.
# - `pending`: the set of partitions with an offset in an open transaction.
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
# A *leader epoch* counts the leaders of a partition: each new leader has a higher one. Each record has the leader epoch in which it was written, and a commit contains that of the last record that was read.
#
# Leader A writes `orders-0` up to offset 59, in epoch 3. Its replicas have only the records up to 39 when A's disk fails, and B becomes the leader in epoch 4, with a shorter log. This is an [*unclean* leader election](../docs/handbook/glossary.md#unclean-leader-election).
#
# ```
#  offset        20 … 39   40 … 44   45 … 59
#  A, epoch 3    ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   billing has read up to 44, and commits 45, epoch 3
#  B, epoch 4    ▓▓▓▓▓▓▓   ░░░░░░░   ░░░░░░░   from 40 on there are other records
# ```
#
# B's records 40 to 44 are other records, so a consumer that starts at 45 would never read them.

# %% [markdown]
# ## Where an epoch ends
#
# Before it reads, the consumer therefore asks B where epoch 3 ends (OffsetForLeaderEpoch).
#
# B has a list of epochs, each with its first offset: `[(0, 0), (3, 20), (4, 40)]`. **An epoch ends at the first offset of the next higher epoch in the list**, and the last one at the end of the log. So epoch 3 ends at 40, which is less than 45, and the consumer continues at 40. If the end were 45 or more, it would continue at 45.
#
# <details><summary>Records that were already processed</summary>
#
# The consumer has processed A's records 40 to 44, and Kafka cannot undo this work. If you set `auto.offset.reset=none`, the consumer raises `LogTruncationException` and does not go back, so that your application can decide.
#
# </details>
#
# A commit without an epoch has the epoch −1. Then the consumer cannot compare, and starts at the committed offset. Both kinds are in the shop's log:

# %%
for group in ["billing", "dashboard"]:
    epochs = {committed.leader_epoch for committed in brokers["4.3.1"].offset_fetch(group).offsets.values()}
    print(f"leader epochs in the commits of {group}: {', '.join(map(str, sorted(epochs)))}")

# %% [markdown]
# ## Exercise: three restarts, on paper
#
# The leader of a partition has this list of epochs with their first offsets: `[(0, 0), (2, 70), (5, 90)]`. Its log ends at 120. Three consumers start with these committed offsets:
#
# 1. offset 85, epoch 2
# 2. offset 95, epoch 2
# 3. offset 75, epoch 1
#
# At which offset does each consumer continue? Write three numbers, for example `(1, 2, 3)`. The list has no epoch 1, because this leader has no record of that epoch.

# %%
# exercise: three_restarts
three_restarts = ...

# %%
course.check("three_restarts", three_restarts)
# course.hint("three_restarts")

# %% [markdown]
# ## Who may see which offsets
#
# To fetch, a client needs the permission DESCRIBE for the group and for each topic. This client may write both topics, and see only `orders`:

# %%
def commit_and_fetch(broker):
    yield "commit", broker.offset_commit("billing", {orders_0: OffsetCommit(50), payments_0: OffsetCommit(40)})
    yield "all", broker.offset_fetch("billing")
    yield "by name", broker.offset_fetch("billing", [orders_0, payments_0])


def may(operation, kind, name):
    return (operation, kind, name) != ("DESCRIBE", "TOPIC", "payments")


course.compare_brokers(commit_and_fetch, both, authorize=may)

# %% [markdown]
# *All* leaves out the other topics without an error, so a monitoring tool with too few permissions sees too few offsets and does not know it. *By name*, the client receives `TOPIC_AUTHORIZATION_FAILED`.

# %% [markdown]
# ## Questions about groups: describe and list
#
# Monitors also send DescribeGroups, which returns the state and the members of a group with their assignments, and ListGroups, which must be sent to **every** broker.
#
# | the situation | OffsetFetch and DescribeGroups | ListGroups |
# |---|---|---|
# | The client has no permission for the group. | `GROUP_AUTHORIZATION_FAILED` | leaves the group out |
# | The coordinator has not started. | `COORDINATOR_NOT_AVAILABLE` | `COORDINATOR_NOT_AVAILABLE` |
# | Another broker coordinates the group. | `NOT_COORDINATOR` | leaves the group out |
# | The group's partition is loading. | `COORDINATOR_LOAD_IN_PROGRESS` | this error, with an incomplete list |
# | The group does not exist. | OffsetFetch: −1, or an empty answer. DescribeGroups: state *Dead* | leaves the group out |

# %% [markdown]
# ## Exercise: a decision
#
# A monitor reports that `billing` has lost its offset for `orders-0`. Which answer shows that a consumer of `billing` would now begin where `auto.offset.reset` says?
#
# - **A**: One second after the broker's start, ListGroups returned `NONE` and a list without `billing`.
# - **B**: OffsetFetch for all partitions returned an empty list and `NONE`. The monitor's user has permissions for groups only.
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
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | where the groups are | one map for each partition | one map for the whole broker |
# | `requireStable`, while a commit outside of transactions waits for its replicas | The fetch waits, too, and returns the new offset. | The answer is `UNSTABLE_OFFSET_COMMIT`. |
# | DescribeGroups of an unknown group | *Dead* with `GROUP_ID_NOT_FOUND` | *Dead* with `NONE` |
#
# The second row follows from lesson 04: the new coordinator has already applied the commit, and can answer as soon as the log confirms it, which is a matter of milliseconds. So a group without transactions hardly notices `requireStable`.
#
# <details><summary>Other versions</summary>
#
# - 1.0.1 answers `NOT_COORDINATOR` to OffsetFetch while it loads, and it has no `requireStable`.
# - Up to 0.8.1, offsets were in ZooKeeper, one entry for each. ZooKeeper is slow for frequent small writes, so Kafka introduced the topic. Version 0 of OffsetCommit and OffsetFetch used ZooKeeper up to 3.x, and the two places are independent.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>How does DescribeGroups answer for a group that does not exist?</summary>
#
# With the state *Dead*. Kafka 4.x adds the error `GROUP_ID_NOT_FOUND`, which the classic coordinator does not know.
#
# </details>
#
# ## In five lines
#
# - The coordinator answers fetches from memory. The log is for the next coordinator.
# - Only the leader of the group's partition answers, and only after its load.
# - "Nothing committed" is −1 with `NONE`. The consumer then starts where `auto.offset.reset` says.
# - `requireStable`, in a fetch by name, makes a consumer wait for open transactions.
# - With the leader epoch, a consumer notices that records before its offset were replaced.
#
# ## For your consumer
#
# - Set `auto.offset.reset=none` if skipping records is worse than stopping. Then a lost offset is an error in your application.
# - After a broker restart, expect `NOT_COORDINATOR` and `COORDINATOR_LOAD_IN_PROGRESS`. Java's consumer retries both until `default.api.timeout.ms` (60 seconds).

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of the folder `__consumer_offsets-9`.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or skips records. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing` | If CURRENT-OFFSET is `-`, the coordinator has no offset. | Stop the consumers before they commit again. |
# | Why is there no offset? | `kafkagroups explain PATH --group billing` | Compare it with "Why the answer can be −1". | Reading is safe. |
# | The group is missing in a monitor. | the command of row 1 | If it shows the group, the monitor lacks permissions or asked during a load. | Give the monitor's user DESCRIBE on the group and its topics. |
# | A consumer reads nothing, and its log repeats `unstable offsets`. | `kafkagroups stats PATH` | A transaction was never ended. | See lesson 08. |

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | 4.x | 3.9, classic |
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
# How a partition gets a new leader. Newer fetch requests can contain a member epoch: lesson 13.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): how members join, stay and leave, and what a rebalance does.
