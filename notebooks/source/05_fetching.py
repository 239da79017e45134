# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** the scripts run the classic coordinator of 3.9, and one section the log of 4.3.1. Both answer fetches from memory; the table near the end says where 4.x differs.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} | no |
#
# ![A consumer that starts sends FindCoordinator to any broker, OffsetFetch to broker 2, and OffsetForLeaderEpoch to the partition's leader, and then reads from offset 50.](pictures/05.svg)

# %% [markdown]
# Five things to hold on to:
#
# 1. A broker reads the log to **load** it: normally once, when it becomes the leader of the partition. A commit changes the log and the memory. A fetch reads only the memory.
# 2. **One broker** answers for a group: the leader of the group's partition, after it has loaded the partition.
# 3. "Nothing committed" is **not an error**.
# 4. An offset in an open transaction is *unstable*. A client that asks for [**stable** offsets](../docs/handbook/glossary.md#stable-offset) receives an error for it.
# 5. A committed offset has a **leader epoch**. With it, a consumer notices if records that it has read were lost and replaced by others.

# %% [markdown]
# ## A fetch reads memory
#
# The coordinator below loads the shop's log. `ReadCountingLogs` counts the records that are read from the log.

# %%
import json
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import TopicPartition

shop = course.find_data("harbour/3.9.2")
logs = course.ReadCountingLogs(shop)
broker = course.start_broker(logs)
read_by_loading = logs.records_read

print(read_by_loading, "records were read to load all 50 partitions")
print(len(course.read_lines(Path(shop, "__consumer_offsets-9"))), "of them are in partition 9")

# %% [markdown]
# *Predict*: the broker loses partition 9 to another broker, and becomes its leader again. Then it answers ten fetches of `billing`, which is in partition 9. How many more records does it read from the log?

# %%
# prediction
read_again = ...

# %%
broker.resign(9)
broker.elect(9)
for _ in range(10):
    billing = broker.offset_fetch("billing")

course.reveal("read_again", read_again, logs.records_read - read_by_loading)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The broker removed the groups of partition 9 from its memory when it lost the partition. So it had to load the partition again, once. The ten fetches read no record.
#
# </details>
#
# These are the offsets of `billing`. The real broker's answers for all groups were recorded, too:

# %%
said = json.loads(Path(shop, "answers.json").read_text())

for partition, committed in sorted(course.format_offsets(billing).items()):
    print(f"{partition:<12} offset {committed['offset']}, epoch {committed['leader_epoch']}, metadata {committed['metadata']!r}")

ours = {group: course.format_offsets(broker.offset_fetch(group)) for group in said["offsets"]}
course.compare_with_broker(ours, said["offsets"], "3.9.2")

# %% [markdown]
# The memory is a map from each partition to its newest offset. The log has no map, so a fetch would have to read the whole partition.

# %% [markdown]
# ## Which broker answers
#
# A broker coordinates a group if it leads the group's partition and has loaded it. While a broker loads the partition, its memory is incomplete. So it refuses to answer. Watch what happens when partition 9 moves to another broker and comes back:

# %%
def ask(when):
    answer = broker.offset_fetch("billing")
    print(f"{when:<24}{answer.error.name:<30}{len(answer.offsets)} offsets")


ask("loaded")
broker.resign(9)
ask("led by another broker")
broker.manager.loading.add(9)  # as if the load had begun
ask("loading")
broker.elect(9)
ask("loaded again")

# %% [markdown]
# - `NOT_COORDINATOR`: the client sends FindCoordinator again, to any broker.
# - `COORDINATOR_LOAD_IN_PROGRESS`: the client waits and asks the same broker again.
#
# So a broker that is loading never answers "nothing committed".
#
# <details><summary>Can two brokers answer for one group?</summary>
#
# Yes. A former leader does not notice immediately that it was replaced. Until then, it answers from its memory, and its offsets may be old.
#
# </details>

# %% [markdown]
# ## A restart, second by second
#
# After its start, the 4.3.1 broker was asked three questions many times. ListGroups asks a broker for all groups that it coordinates. Each line is a change of an answer. `ms` counts from the start:

# %%
steps = json.loads(Path(course.find_data("harbour/4.3.1"), "acts.json").read_text())
answers = next(step["answer"] for step in steps if "started again" in step["step"])

print(f"{'ms':>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
for answer in answers:
    first = answer.get("connection") or answer["FindCoordinator"]
    print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# - **FindCoordinator** answers `NONE` early, because it only looks up the partition's leader. It does not say whether the coordinator has loaded its partition.
# - **OffsetFetch** is answered as soon as the group's own partition is loaded.
# - **ListGroups** answered `NONE` with 0 groups before the load began. So an empty list without an error proves nothing.
# - **ListGroups** then returned an incomplete list, with `COORDINATOR_LOAD_IN_PROGRESS`. The missing groups were not loaded yet.

# %% [markdown]
# ## Nothing committed
#
# *Predict*: a client asks for `orders-0` of a group that never existed. Which offset and which error name does it receive? Write a pair, for example `(7, "REQUEST_TIMED_OUT")`.

# %%
# prediction
for_unknown_group = ...

# %%
orders_0 = TopicPartition("orders", 0)
found = broker.offset_fetch("nobody", [orders_0]).offsets[orders_0]
course.reveal("for_unknown_group", for_unknown_group, (found.offset, found.error.name))

# %% [markdown]
# <details><summary>Why no error?</summary>
#
# Every new group starts with this answer. The coordinator cannot see whether the group is new, or whether its offsets were deleted. The consumer then starts where `auto.offset.reset` says. So a group that loses its offsets gets no error.
#
# </details>
#
# A client can ask for **all** partitions or **by name**:
#
# - *All*: the answer contains only partitions with a committed offset.
# - *By name*: the answer contains each named partition, with −1 if nothing is committed.
#
# A test client with a group `f` asked a real broker in both ways. It had committed −1 for `pay-ments-2`, so this −1 is a committed offset. Below, *none* means an empty list of names. `(empty id)` is the group with an empty name.

# %%
talk = course.read_exchanges("3.9.2-fetch")
course.print_all_and_by_name(talk)
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

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
# So −1 does not prove that a group has lost offsets. The log shows the reason ("At 3 am").

# %% [markdown]
# ## Stable offsets
#
# `fraud-check` commits its offsets in transactions. When the broker died, one transaction was open. It contains an offset for `orders-0`. The group has never committed another offset for `orders-0`.
#
# A client that sets `requireStable` asks for stable offsets. Each partition **in the answer** that has an offset in an open transaction gets the error `UNSTABLE_OFFSET_COMMIT`.
#
# *Predict*: a client asks for **all** partitions of `fraud-check`, with `requireStable`. What does the answer say about `orders-0`? Write `"-1"`, `"UNSTABLE_OFFSET_COMMIT"` or `"not mentioned"`.

# %%
# prediction
about_orders_0 = ...

# %%
all_stable = course.format_offsets(broker.offset_fetch("fraud-check", require_stable=True))
with course.fold("about_orders_0", about_orders_0, all_stable.get("orders-0", "not mentioned")):
    course.print_fetches(broker, "fraud-check")

# %% [markdown]
# <details><summary>Why? And how to read the table</summary>
#
# The answer to *all* lists committed partitions only. The offset of `orders-0` is only in an open transaction, so the answer does not mention it. A program may think that there is no offset and no open transaction. A program that needs stable offsets must ask by name.
#
# The table shows the memory of the coordinator and its answers to four requests. Here, *pending* means "in an open transaction". It does not mean "not on the replicas yet", as in lesson 04.
#
# </details>

# %% [markdown]
# Why does `requireStable` exist? A program reads `payments`, and writes alarms and its offsets in one transaction. Before the transaction ends, a second program takes over. It starts at the last committed offset. If the transaction commits a moment later, the payments of this transaction are processed **twice**.
#
# With `requireStable`, the second program asks again until the transaction has ended. Since version 2.5, Java's consumer sets it, and asks by name.
#
# A real 4.3.1 broker was asked by name, too:

# %%
new_shop = course.find_data("harbour/4.3.1")
new_said = json.loads(Path(new_shop, "answers.json").read_text())
groups = kg.load(new_shop)
course.compare_with_broker(course.fetch_offsets(groups, new_said["offsets"]), new_said["offsets"], "4.3.1")
for partition, answer in new_said["stable_every_live_partition_named"]["fraud-check"].items():
    print(f"{partition:<12} {answer if isinstance(answer, str) else answer['offset']}")

# %% [markdown]
# ## All answers, in a failover
#
# Step through a failover, and ask each broker for an offset:

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
# A *leader epoch* counts the leaders of a partition. Each new leader has a higher epoch. Each record has the epoch in which it was written. A commit contains the epoch of the last record that was read.
#
# Leader A writes `orders-0` up to offset 59, in epoch 3. Its replicas have only the records up to 39. A's disk fails, and B becomes the leader in epoch 4, with a shorter log. This is an [*unclean* leader election](../docs/handbook/glossary.md#unclean-leader-election).
#
# ```
#  offset        20 … 39   40 … 44   45 … 59
#  A, epoch 3    ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   billing has read up to 44, and commits 45, epoch 3
#  B, epoch 4    ▓▓▓▓▓▓▓   ░░░░░░░   ░░░░░░░   from 40 on there are other records
# ```
#
# B's records 40 to 44 are other records. A consumer that starts at 45 would never read them.

# %% [markdown]
# ## Where an epoch ends
#
# Before it reads, the consumer asks B where epoch 3 ends. The request is `OffsetForLeaderEpoch`.
#
# B has a list of epochs, each with its first offset: `[(0, 0), (3, 20), (4, 40)]`. **An epoch ends at the first offset of the next higher epoch in the list.** So epoch 3 ends at 40. Because 40 is less than 45, the consumer continues at 40.
#
# <details><summary>Records that were already processed</summary>
#
# The consumer has processed A's records 40 to 44. Kafka cannot undo this work. If you set `auto.offset.reset=none`, the consumer raises `LogTruncationException` and does not go back. Then your application can decide.
#
# </details>
#
# A commit without an epoch has the epoch −1. Then the consumer cannot compare, and starts at the committed offset:

# %%
for group in ["billing", "dashboard"]:
    epochs = {committed.leader_epoch for committed in broker.offset_fetch(group).offsets.values()}
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
# To fetch, a client needs the permission DESCRIBE for the group and for each topic. This client may see only `orders`:

# %%
clerk = course.start_broker(shop, authorize=lambda operation, kind, name: kind != "TOPIC" or name == "orders")

print("all:    ", *sorted(str(partition) for partition in clerk.offset_fetch("billing").offsets))

by_name = course.format_offsets(clerk.offset_fetch("billing", [TopicPartition("payments", 0)]))
print("by name:", *(f"{partition}: {answer}" for partition, answer in by_name.items()))

# %% [markdown]
# - *All*: the answer leaves out the other topics, without an error. So a monitoring tool with too few permissions sees too few offsets.
# - *By name*: the client receives `TOPIC_AUTHORIZATION_FAILED`.

# %% [markdown]
# ## Questions about groups: describe and list
#
# Monitors also send DescribeGroups and ListGroups. DescribeGroups returns the state and the members of a group, with their assignments. ListGroups must be sent to **every** broker.
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
# | `requireStable`, with an offset in an open transaction | `UNSTABLE_OFFSET_COMMIT` | `UNSTABLE_OFFSET_COMMIT` |
# | DescribeGroups of an unknown group | *Dead* with `GROUP_ID_NOT_FOUND`. Up to version 5 of the request: *Dead* with `NONE` | *Dead* with `NONE` |
#
# The broker of this lesson follows the rules of 3.9.2.
#
# <details><summary>Other versions</summary>
#
# - 1.0.1 answers `NOT_COORDINATOR` to OffsetFetch while it loads, and it has no `requireStable`.
# - Up to 0.8.1, offsets were in ZooKeeper: one entry for each offset. ZooKeeper is slow for frequent small writes, so Kafka introduced the topic.
# - Version 0 of OffsetCommit and OffsetFetch used ZooKeeper up to 3.x. The two places are independent: a commit with version 0 is invisible to a fetch with version 1.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>How does DescribeGroups answer for a group that does not exist?</summary>
#
# With the state *Dead*. Kafka 4.x adds the error `GROUP_ID_NOT_FOUND`. Up to version 5 of the request, and in the classic coordinator, the error is `NONE`.
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
