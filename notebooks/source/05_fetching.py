# %% [markdown]
# # 05 · Fetching
#
# **Why does a broker never read the topic when a consumer asks for its offset?**
#
# **Which Kafka:** the coordinator of 4.x and that of 3.9, side by side
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which broker answers an offset fetch and from where; distinguish "nothing committed" from an error; explain what `requireStable` and leader epochs protect you from | {{minutes}} | no |
#
# ![A consumer that starts sends FindCoordinator to any broker, OffsetFetch to broker 2, and OffsetForLeaderEpoch to the partition's leader, and then reads from offset 50.](pictures/05.svg)

# %% [markdown]
# Three things to hold on to:
#
# 1. A broker reads the log to **load** it, when it becomes the leader of the partition. Fetches read only the memory that the load has filled.
# 2. "Nothing committed" is **not an error**, because every new group gets this answer.
# 3. A client that asks only for [**stable** offsets](../docs/handbook/glossary.md#stable-offset) gets an error instead of an offset that an open transaction may replace.

# %% [markdown]
# ## A fetch reads memory
#
# A log has no index by group, so a search would read the whole partition for each fetch. Does a broker do this? We start a coordinator of 4.3.1 and one of 3.9.2 on the shop's logs, which real brokers of these versions wrote. `ReadCountingLogs` counts each record that is read:

# %%
import json
from pathlib import Path

from IPython.display import display

from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

shops = {kafka: course.find_data(f"harbour/{kafka}") for kafka in ["4.3.1", "3.9.2"]}
logs = {kafka: course.ReadCountingLogs(shop) for kafka, shop in shops.items()}
brokers = {kafka: course.start_broker(logs[kafka], kafka=kafka) for kafka in shops}
loaded = {kafka: logs[kafka].records_read for kafka in shops}

for kafka, shop in shops.items():
    in_partition_9 = len(course.read_lines(Path(shop, "__consumer_offsets-9")))
    print(f"{kafka}: {loaded[kafka]} records were read to load all 50 partitions, {in_partition_9} of them in partition 9")

# %% [markdown]
# *Predict*: each broker loses partition 9 to another broker, and becomes its leader again. Then it answers ten fetches of `billing`, which is in partition 9. How many more records does the 4.3.1 broker read from the log?

# %%
# prediction
read_again = ...

# %%
for broker in brokers.values():
    broker.resign(9)
    broker.elect(9)
    for _ in range(10):
        broker.offset_fetch("billing")

again = {kafka: logs[kafka].records_read - loaded[kafka] for kafka in shops}
with course.fold("read_again", read_again, again["4.3.1"]):
    print(f"4.3.1 read {again['4.3.1']} records again, 3.9.2 read {again['3.9.2']}")

# %% [markdown]
# <details><summary>Why?</summary>
#
# A broker that loses a partition drops its groups, because the next leader can now change them. So it had to load partition 9 again, once. The fetches read no record.
#
# </details>
#
# Both coordinators answer from a map in memory. That of 4.x has one map for each partition of `__consumer_offsets`, that of 3.9 one for the whole broker. The real brokers answered the same:

# %%
for kafka, broker in brokers.items():
    said = course.read_answers(f"harbour/{kafka}")["offsets"]
    ours = {group: course.format_offsets(broker.offset_fetch(group).value) for group in said}
    course.compare_with_broker(ours, said, kafka)

for partition, committed in sorted(ours["billing"].items()):
    print(f"{partition:<12} offset {committed['offset']}, leader epoch {committed['leader_epoch']}")

# %% [markdown]
# ## Which broker answers
#
# A broker that does not lead the group's partition has no memory of the group, and while it loads the partition, the memory is incomplete. If it answered "nothing committed" then, the consumer would start in the wrong place, so it refuses:

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
# How long does a client see these errors? Two real brokers were asked three questions again and again after their start; ListGroups asks a broker for the groups that it coordinates. Each line is a change of an answer, `ms` after the start:

# %%
for kafka, shop in shops.items():
    steps = json.loads(Path(shop, "acts.json").read_text())
    answers = next(step["answer"] for step in steps if "started again" in step["step"])
    print(f"{kafka:>6}  {'FindCoordinator':<24}{'OffsetFetch billing':<22}ListGroups")
    for answer in answers:
        first = answer.get("connection") or answer["FindCoordinator"]
        print(f"{answer['ms']:>6}  {first:<24}{answer.get('OffsetFetch billing', ''):<22}{answer.get('ListGroups', '')}")

# %% [markdown]
# The 3.9.2 broker had already loaded when it first answered, but the 4.3.1 broker was seen loading:
#
# - **FindCoordinator** answers `NONE` early, because it only looks up the partition's leader.
# - **OffsetFetch** is answered once the group's own partition is loaded, although others still load.
# - **ListGroups** answered `NONE` with 0 groups before the load began, so an empty list proves nothing.

# %% [markdown]
# ## Nothing committed
#
# *Predict*: a client asks for `orders-0` of a group that never existed. Which offset and which error name does it receive? Write a pair, for example `(7, "REQUEST_TIMED_OUT")`.

# %%
# prediction
for_unknown_group = ...

# %%
found = brokers["4.3.1"].offset_fetch("nobody", [ORDERS_0]).value.offsets[ORDERS_0]
course.reveal("for_unknown_group", for_unknown_group, (found.offset, found.error.name))

# %% [markdown]
# <details><summary>Why no error?</summary>
#
# The coordinator cannot see whether the group is new or its offsets were deleted. The consumer starts where `auto.offset.reset` says, so a group that loses its offsets gets no error.
#
# </details>
#
# A client can also ask for **all** partitions. This answer has only partitions with a committed offset, because the coordinator cannot know which others you mean. Asked **by name**, each partition is in the answer, with −1 if nothing is committed:

# %%
def ask_all_and_by_name(broker):
    yield "a commit of orders-0", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(50)})
    both = [ORDERS_0, TopicPartition("orders", 1)]
    for group in ["billing", "nobody"]:
        yield f"{group}, all partitions", broker.offset_fetch(group)
        yield f"{group}, by name", broker.offset_fetch(group, both)


course.compare_brokers(ask_all_and_by_name)

# %% [markdown]
# ## Why the answer can be −1
#
# A −1 says what the consumer will do, but not why. The log has the reason:
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
# `fraud-check` reads `payments`, and writes alarms and its offsets in one transaction. Suppose a second program takes over before the transaction ends. If it starts at the last committed offset, and the transaction commits a moment later, these payments are processed **twice**. So it has to wait for the end of the transaction. It sets `requireStable`, and each partition **in the answer** that has a *pending* offset, one in an open transaction, gets the error `UNSTABLE_OFFSET_COMMIT` until then.
#
# When the broker died, a transaction of `fraud-check` with an offset for `orders-0` was open. The group had never committed another offset for `orders-0`.
#
# *Predict*: a client asks for **all** partitions of `fraud-check`, with `requireStable`. What does the answer say about `orders-0`? Write `"-1"`, `"UNSTABLE_OFFSET_COMMIT"` or `"not mentioned"`.

# %%
# prediction
about_orders_0 = ...

# %%
PAYMENTS_1 = TopicPartition("payments", 1)


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


all_stable = course.format_offsets(brokers["4.3.1"].offset_fetch("fraud-check", require_stable=True).value)
with course.fold("about_orders_0", about_orders_0, all_stable.get("orders-0", "not mentioned")):
    display(course.compare_brokers(open_transaction))

# %% [markdown]
# <details><summary>Why?</summary>
#
# The answer to *all* lists committed partitions only, and that of `orders-0` is only pending. So a program that needs stable offsets must ask by name. Java's consumer does, and it sets `requireStable` since version 2.5.
#
# </details>
#
# The real 4.3.1 broker was asked by name, too:

# %%
asked = course.read_answers("harbour/4.3.1")["stable_every_live_partition_named"]["fraud-check"]
named = [TopicPartition.parse(name) for name in asked]
ours = course.format_offsets(brokers["4.3.1"].offset_fetch("fraud-check", named, require_stable=True).value)
for partition, answer in ours.items():
    print(f"{partition:<12} {answer if isinstance(answer, str) else answer['offset']}")
course.compare_with_broker(ours, asked, "4.3.1")

# %% [markdown]
# ## A stable fetch between append and confirmation
#
# A commit outside of transactions is unsettled for a moment, too, while its record is appended but not confirmed by the replicas (lesson 04). We hold both brokers in this moment: 5 is committed, and 6 is in flight.

# %%
def fetch_in_flight(broker):
    broker.offset_commit("billing", {ORDERS_0: OffsetCommit(5)})
    broker.manager.logs.release()
    yield "6 is appended", broker.offset_commit("billing", {ORDERS_0: OffsetCommit(6)})
    yield "a fetch", broker.offset_fetch("billing", [ORDERS_0])
    yield "a stable fetch", broker.offset_fetch("billing", [ORDERS_0], require_stable=True)
    broker.manager.logs.release()
    yield "6 is confirmed: a fetch", broker.offset_fetch("billing", [ORDERS_0])


course.compare_brokers(fetch_in_flight, kafka=list(shops), holds_answers=True)

# %% [markdown]
# Without `requireStable`, both return 5: the new coordinator reads the confirmed state, and the classic one its cache, into which 6 has not moved yet. With it, they differ. The classic coordinator treats an offset in flight like one in a transaction, so the client gets the error and must ask again. The new coordinator has already applied 6 to its memory. It answers from this newest state, but sends the answer only when the replicas have confirmed 6. Without transactions, `requireStable` costs a short wait or a second request.

# %% [markdown]
# ## All answers, in a failover
#
# Step through a failover of 4.3.1 brokers:

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
# Are the records before the committed offset still those that the consumer read? A *leader epoch* counts the leaders of a partition. Each record has the leader epoch in which it was written, and a commit contains that of the last record that was read.
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
# So the consumer first asks B where leader epoch 3 ends, with the request `OffsetForLeaderEpoch`. B has a list of epochs, each with its first offset: `[(0, 0), (3, 20), (4, 40)]`. **An epoch ends at the first offset of the next higher epoch in the list**, and the last one at the end of the log.
#
# So epoch 3 ends at 40. Because 40 is less than 45, the consumer continues at 40. If the end were 45 or more, its records would still be there, and it would continue at 45.
#
# <details><summary>Records that were already processed</summary>
#
# Kafka cannot undo the work on A's records 40 to 44. With `auto.offset.reset=none`, the consumer raises `LogTruncationException` and does not go back, so your application can decide.
#
# </details>
#
# A commit without a leader epoch has −1, and the consumer starts at its offset without asking:

# %%
for group in ["billing", "dashboard"]:
    epochs = {committed.leader_epoch for committed in brokers["4.3.1"].offset_fetch(group).value.offsets.values()}
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
# At which offset does each consumer continue? Write three numbers, for example `(1, 2, 3)`. This leader has no record of epoch 1, so the list does not contain it.

# %%
# exercise: three_restarts
three_restarts = ...

# %%
course.check("three_restarts", three_restarts)
# course.hint("three_restarts")

# %% [markdown]
# ## Who may see which offsets
#
# A fetch needs the permission DESCRIBE for the group and for each topic. This client may not see `payments`:

# %%
def ask_as_clerk(broker):
    committed = {ORDERS_0: OffsetCommit(50), PAYMENTS_1: OffsetCommit(41)}
    yield "two commits", broker.offset_commit("billing", committed)
    yield "all", broker.offset_fetch("billing")
    yield "by name", broker.offset_fetch("billing", list(committed))


course.compare_brokers(
    ask_as_clerk, authorize=lambda operation, kind, name: (operation, name) != ("DESCRIBE", "payments")
)

# %% [markdown]
# The answer to *all* leaves the topic out without an error, so a monitor with too few permissions shows too few offsets.

# %% [markdown]
# ## Questions about groups: describe and list
#
# Monitors also send DescribeGroups, for the state and members of a group, and ListGroups, which must go to **every** broker, because each lists only its own groups. Here a broker loads the partition of `billing`, and has loaded that of `shipping`:

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
# The new coordinator merges the answers of its partitions, so one that is loading makes the whole answer an error. The classic one adds to the error what its one map has so far.

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
# ## Where the classic coordinator differs
#
# They differ in a stable fetch while a commit is in flight, in ListGroups during a load, and in DescribeGroups of an unknown group. The handbook has both, [event by event](../docs/handbook/events.md).
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
# With the state *Dead*. Kafka 4.x adds the error `GROUP_ID_NOT_FOUND`; the classic coordinator, and requests up to version 5, have `NONE`.
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
# How a partition gets a new leader, and the member epoch in newer fetch requests (lesson 13).
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): how members join, stay and leave, and what a rebalance does.
