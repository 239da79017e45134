# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} | no |
#
# ```
#  a consumer of billing starts
#    │
#    │  FindCoordinator     ─▶  any broker:    hash("billing") % 50 = 9,
#    │                                         and broker 2 leads partition 9
#    │  OffsetFetch         ─▶  broker 2:      allowed? mine? loaded?
#    │                                         its memory: orders-0 = 50, epoch 0
#    │                                         (the log is not read)
#    │  OffsetForLeaderEpoch ─▶ the leader     epoch 0 ends at 60
#    │                          of orders-0:
#    ▼
#  the consumer reads from offset 50
# ```

# %% [markdown]
# Five things to hold on to:
#
# 1. A broker reads the log **once**, when it becomes the leader of the partition. After that, each commit changes the log and the memory. A fetch reads the memory.
# 2. Exactly **one broker** answers for a group: the leader of the group's partition, after it has loaded the partition.
# 3. "Nothing committed" is **not an error**. The answer is offset −1 with the error code `NONE`.
# 4. An offset in an open transaction is *unstable*. Only a client that asks for **stable** offsets receives an error for it.
# 5. A committed offset has a **leader epoch**. The epoch shows whether the records before the offset were truncated.

# %% [markdown]
# ## A fetch reads memory
#
# The coordinator below loads the shop's log, like the 3.9.2 broker that was started after the crash. `ReadCountingLogs` counts the records that are read from the log.
#
# *Predict*: the coordinator has loaded everything. How many records does it read from the log for one fetch?

# %%
# prediction
read_for_a_fetch = ...

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

billing = broker.offset_fetch("billing")
course.reveal("read_for_a_fetch", read_for_a_fetch, logs.records_read - read_by_loading)

# %% [markdown]
# These are the offsets of `billing`. The real broker's answers for all groups were recorded, so you can compare:

# %%
said = json.loads(Path(shop, "answers.json").read_text())

for partition, committed in sorted(course.format_offsets(billing).items()):
    print(f"{partition:<12} offset {committed['offset']}, epoch {committed['leader_epoch']}, metadata {committed['metadata']!r}")

ours = {group: course.format_offsets(broker.offset_fetch(group)) for group in said["offsets"]}
course.compare_with_broker(ours, said["offsets"], "3.9.2")

# %% [markdown]
# The memory is a map from each partition to its newest offset. The log has no such map, so a fetch from the log would read the whole partition. The log is for the **next** coordinator.

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
broker.manager.loading.add(9)
ask("loading")
broker.elect(9)
ask("loaded again")

# %% [markdown]
# - `NOT_COORDINATOR`: the client sends FindCoordinator again, to any broker.
# - `COORDINATOR_LOAD_IN_PROGRESS`: the client waits and asks the same broker again.
#
# A broker never answers "nothing committed" for a partition that it has not loaded.
#
# There is one exception. A former leader may not know yet that it was replaced. Until then, it answers from its memory, and its offsets may be old.

# %% [markdown]
# ## A restart, second by second
#
# A client asked the 4.3.1 broker the same questions again and again after its start. `ms` counts from the start. Each line is a change of an answer:

# %%
steps = json.loads(Path(course.find_data("harbour/4.3.1"), "acts.json").read_text())
answers = next(step["answer"] for step in steps if "started again" in step["step"])

print(f"{'ms':>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
for answer in answers:
    first = answer.get("connection") or answer["FindCoordinator"]
    print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# - **FindCoordinator** answers `NONE` early, because it reads only the cluster's metadata. It does not say whether the coordinator has loaded its partition.
# - **OffsetFetch** is answered as soon as the group's own partition is loaded. Other partitions still load.
# - **ListGroups** answered `NONE` with 0 groups before the load began. An empty list without an error proves nothing.
# - **ListGroups** then returned an incomplete list, with `COORDINATOR_LOAD_IN_PROGRESS`. If you treat this list as complete, you report groups as lost that are only not loaded yet.

# %% [markdown]
# ## Nothing committed
#
# *Predict*: a client asks for `orders-0` of a group that never existed. Which offset and which error does it receive? Write a pair, for example `(7, "REQUEST_TIMED_OUT")`.

# %%
# prediction
for_unknown_group = ...

# %%
orders_0 = TopicPartition("orders", 0)
found = broker.offset_fetch("nobody", [orders_0]).offsets[orders_0]
course.reveal("for_unknown_group", for_unknown_group, (found.offset, found.error.name))

# %% [markdown]
# Every new group starts with this answer, so it cannot be an error. The coordinator cannot see whether the group is new or whether its offsets were deleted. The consumer then does what `auto.offset.reset` says. So a group that loses its offsets gets no error.
#
# A client can ask **by name** or for **all** partitions. The answer contains a partition without an offset only if the client asked for it by name. A client asked a real broker in both ways:

# %%
talk = course.read_exchanges("3.9.2-fetch")
print(f"{'group':<10} {'asked for':<18}   answer")
for fetch in course.read_fetches(talk):
    if fetch.version == 9 and fetch.number < 20 and fetch.number not in (6, 9) and fetch.group != "live":
        offsets = ", ".join(f"{name}: {offset}" for name, offset in fetch.broker_offsets.items()) or "(empty)"
        print(f"{fetch.group or '(empty id)':<10} {fetch.requested_partitions:<18} → {offsets}")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# A topic that does not exist also has the offset −1. The offset −1 of `pay-ments-2` was committed by a client, so a fetch cannot distinguish it from "nothing committed". The empty text is a valid group id, and its partition is 0.

# %% [markdown]
# ## Stable offsets
#
# `fraud-check` commits its offsets in transactions. When the broker died, one transaction was open. It contains an offset for `orders-0`, which has no other offset.
#
# A client that sets `requireStable` asks for stable offsets. For an offset in an open transaction, it receives `UNSTABLE_OFFSET_COMMIT`.
#
# *Predict*: a client asks for **all** partitions of `fraud-check`, with `requireStable`. What does the answer say about `orders-0`? Write `"-1"`, `"UNSTABLE_OFFSET_COMMIT"` or `"not mentioned"`.

# %%
# prediction
about_orders_0 = ...

# %%
all_stable = course.format_offsets(broker.offset_fetch("fraud-check", require_stable=True))
course.reveal("about_orders_0", about_orders_0, all_stable.get("orders-0", "not mentioned"))

# %% [markdown]
# The table shows the memory of the coordinator and its answers to four questions about `fraud-check`:

# %%
course.print_fetches(broker, "fraud-check")

# %% [markdown]
# Step through a failover, and ask each broker for an offset:

# %%
# figure
course.Failover()

# %% [markdown]
# Why does this matter? A program reads `payments`, writes alarms, and commits both in one transaction. Before the transaction ends, a second program takes over. It starts at the last committed offset. If the transaction commits a moment later, these payments are processed **twice**.
#
# With `requireStable`, the second program receives `UNSTABLE_OFFSET_COMMIT` and asks again until the transaction has ended. Since version 2.5, Java's consumer always asks by name and sets `requireStable`.
#
# The 4.3.1 broker gave these answers about its own files. `kg.load` and `course.fetch_offsets` compute ours:

# %%
new_shop = course.find_data("harbour/4.3.1")
new_said = json.loads(Path(new_shop, "answers.json").read_text())
groups = kg.load(new_shop)
course.compare_with_broker(course.fetch_offsets(groups, new_said["offsets"]), new_said["offsets"], "4.3.1")
for partition, answer in new_said["stable_every_live_partition_named"]["fraud-check"].items():
    print(f"{partition:<12} {answer if isinstance(answer, str) else answer['offset']}")

# %% [markdown]
# ## Exercise: the answer to a fetch
#
# Write `get_offsets(committed, pending, asked, stable)`. It returns a dictionary from partition to answer.
#
# - `committed`: a dictionary from partition to offset.
# - `pending`: the set of partitions in open transactions.
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
# A *leader epoch* counts the leaders of a partition. Each new leader has a higher epoch. Each record has the epoch in which it was written, and a commit contains the epoch of the last record that was read.
#
# Leader A writes `orders-0` up to offset 59, in epoch 3. Its followers have only the records up to 39. A's disk fails, and B becomes the leader in epoch 4, although its log is shorter. This is an *unclean* leader election.
#
# ```
#  offset        20 … 39   40 … 44   45 … 59
#  A, epoch 3    ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   billing has read up to 44, and commits 45, epoch 3
#  B, epoch 4    ▓▓▓▓▓▓▓   ░░░░░░░   ░░░░░░░   from 40 on there are other records
# ```

# %% [markdown]
# The committed offset 45 is still a valid number, but B's records 40 to 44 are new. A consumer that starts at 45 would never read them.
#
# So the consumer asks B where epoch 3 ends. The request is `OffsetForLeaderEpoch`. B keeps a list of epochs with their first offsets: `[(0, 0), (3, 20), (4, 40)]`. An epoch ends where the next epoch in the list begins. So epoch 3 ends at 40. Because 40 is less than 45, the consumer goes back to 40. With `auto.offset.reset=none` it raises `LogTruncationException`.
#
# The epoch of a commit can be −1, which means unknown. Then the consumer has nothing to compare, and it uses the offset. The coordinator stores the epoch and never checks it.

# %%
for group in ["billing", "dashboard"]:
    epochs = {committed.leader_epoch for committed in broker.offset_fetch(group).offsets.values()}
    print(f"leader epochs in the commits of {group}: {sorted(epochs)}")

# %% [markdown]
# ## Exercise: three restarts, on paper
#
# The leader of a partition has this list of epochs with their first offsets: `[(0, 0), (2, 70), (5, 90)]`. Its log ends at 120. Three consumers start with these committed offsets:
#
# 1. offset 85, epoch 2
# 2. offset 95, epoch 2
# 3. offset 75, epoch 1
#
# The list has no epoch 1, because no record was written in it. At which offset does each one continue? Write three numbers, for example `(1, 2, 3)`.

# %%
# exercise: three_restarts
three_restarts = ...

# %%
course.check("three_restarts", three_restarts)
# course.hint("three_restarts")

# %% [markdown]
# ## Who may see which offsets
#
# To fetch, a client needs the right DESCRIBE for the group and for each topic. This client may see only `orders`:

# %%
clerk = course.start_broker(shop, authorize=lambda operation, kind, name: kind != "TOPIC" or name == "orders")

print("all:    ", sorted(str(partition) for partition in clerk.offset_fetch("billing").offsets))
print("by name:", course.format_offsets(clerk.offset_fetch("billing", [TopicPartition("payments", 0)])))

# %% [markdown]
# If the client asks for all partitions, the answer leaves out the others without an error. So a monitoring tool with too few rights sees too few offsets. If the client asks by name, it receives `TOPIC_AUTHORIZATION_FAILED`.

# %% [markdown]
# ## Groups without offsets: describe and list
#
# `kafka-consumer-groups.sh` and lag monitors also send DescribeGroups and ListGroups. Both read the same memory. DescribeGroups returns the state and the members of a group, with their assignments.
#
# | the situation | OffsetFetch and DescribeGroups | ListGroups |
# |---|---|---|
# | no right for the group | `GROUP_AUTHORIZATION_FAILED` | leaves the group out |
# | coordinator not started | `COORDINATOR_NOT_AVAILABLE` | the same |
# | another broker's group | `NOT_COORDINATOR` | leaves the group out |
# | its partition is loading | `COORDINATOR_LOAD_IN_PROGRESS` | the same, with an incomplete list |
# | unknown group | OffsetFetch: −1, or an empty answer. DescribeGroups: `GROUP_ID_NOT_FOUND` | leaves the group out |

# %% [markdown]
# ## Exercise: a decision
#
# A monitor reports that `billing` has lost its offsets. Which of these answers proves it?
#
# - **A**: ListGroups to the coordinator returned `NONE` and a list without `billing`, one second after the broker was started.
# - **B**: OffsetFetch for all partitions returned an empty list and `NONE`. The monitor's user has rights for groups only.
# - **C**: OffsetFetch for `orders-0` by name returned −1 and `NONE`.
# - **D**: OffsetFetch returned `NOT_COORDINATOR`.

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
# | where the groups are | one map per partition (`GroupMetadataManager`, `OffsetMetadataManager` of a shard) | one map per broker (`groupMetadataCache`), for all partitions |
# | a fetch while a plain commit waits for its replicas | the previous offset | the same |
# | this fetch with `requireStable` | waits for the replicas, then the new offset | `UNSTABLE_OFFSET_COMMIT` |
# | an offset in an open transaction, with `requireStable` | `UNSTABLE_OFFSET_COMMIT` | the same |
# | DescribeGroups of an unknown group, for older clients | state *Dead*, `NONE` | the same |
#
# The broker that you started in this lesson follows the rules of 3.9.2.
#
# <details><summary>Other versions</summary>
#
# - The classic coordinator also asks the log of the partition for its message format (`getMagic`). If this broker has no such log, it answers `NOT_COORDINATOR`. Transactions need format 2.
# - 1.0.1 answers `NOT_COORDINATOR` to OffsetFetch while it loads, and it has no `requireStable`.
# - Up to 0.8.1 offsets were in ZooKeeper, one node per offset. ZooKeeper is slow for frequent small writes, so Kafka introduced the topic.
# - Version 0 of OffsetCommit and OffsetFetch used ZooKeeper up to 3.x. The two places are independent: a commit with version 0 is invisible to a fetch with version 1.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - The coordinator answers fetches from memory. The log is for the next coordinator.
# - Only the leader of the group's partition answers, and only after it has loaded the partition.
# - "Nothing committed" is −1 with `NONE`, and the consumer starts where `auto.offset.reset` says.
# - `requireStable` makes a consumer wait for open transactions.
# - The leader epoch lets a consumer detect that records before its offset were truncated.
#
# ## For your consumer
#
# - Set `auto.offset.reset=none` if skipping records is worse than stopping. Then a lost offset is an error in your application.
# - After a broker restart, expect `NOT_COORDINATOR` and `COORDINATOR_LOAD_IN_PROGRESS` for a while. Java's consumer retries both until `default.api.timeout.ms` (60 seconds by default).
# - If you read a topic that is written in transactions, set `isolation.level=read_committed`.

# %% [markdown]
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or skips records | (1) | If the column CURRENT-OFFSET is `-`, nothing is committed | Stop the consumers before they commit again. Look in the log with (2) |
# | The group has disappeared from a monitor | (1) | If this command shows the group, the monitor lacks rights or asked during a load | Give the monitor's user DESCRIBE on the group and its topics |
# | `UNSTABLE_OFFSET_COMMIT` does not end | (3) | A transaction is open and was never ended | See lesson 08 |
#
# ```
# (1) kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing
# (2) kafkagroups explain PATH --group billing
# (3) kafkagroups stats PATH
# ```
#
# `PATH` is a copy of the folder `__consumer_offsets-9`.

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
# How a partition gets a new leader is replication. Newer fetch requests can contain a member epoch, which lesson 13 explains.
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): how members join, stay and leave, and what a rebalance does.
