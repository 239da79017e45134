# %% [markdown]
# # 05 · Fetching
#
# **Why is the topic never read when a consumer asks for its offset?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | say who answers a consumer that asks where it was, from what, and when not at all; tell "nothing committed" from an error; explain what `requireStable` and a leader epoch protect from | 30 + 25 | no |
#
# ```
#  a consumer of billing starts
#    │
#    │  who coordinates billing?   ─▶  any broker: hash("billing") % 50 = 9;
#    │                                 broker 2 leads partition 9
#    │  where was I?               ─▶  broker 2: allowed? is 9 mine? is it loaded?
#    │    (OffsetFetch)                the cache ─▶ orders-0 = 50, epoch 0, …
#    │                                 the log is not touched
#    │  is my place still there?   ─▶  the leader of orders-0: epoch 0 ends at 60
#    ▼
#  poll from 50
# ```
#
# Five things to hold on to:
#
# 1. The log was read **once**, when the broker took the partition over. Since then each commit has changed log **and** cache (lesson 04). So a fetch reads memory.
# 2. Exactly **one broker** may answer for a group: the leader of its partition, when it has loaded it. All others say that they are not it (but for a former leader that has not heard the news yet).
# 3. "Nothing committed" is **no error**: −1. An unknown group is no error either.
# 4. A commit on its way is seen for certain only by a client that asks for **stable** offsets, and **by name**. It is told to ask again.
# 5. An offset is a place in one history of a partition. The **leader epoch** beside it says which history.

# %% [markdown]
# ## From memory
#
# The coordinator below opens the shop's log, as the 3.9.2 broker did in the morning after the night it died. These logs count the records that are read from them. *Predict*: how many
# are read for one fetch, once all is loaded?

# %%
# prediction
read_for_a_fetch = ...

# %%
from kafkagroups import course
from kafkagroups.coordinator import Errors, TopicPartition

shop = course.find_data("harbour/3.9.2")
logs = course.ReadCountingLogs(shop)
broker = course.start_broker(logs)
read_by_loading = logs.records_read

billing = broker.offset_fetch("billing")
print(read_by_loading, "records were read to load all 50 partitions")
course.compare_with_prediction(read_for_a_fetch, logs.records_read - read_by_loading)

# %%
import json
from pathlib import Path

said = json.loads(Path(shop, "answers.json").read_text())

for partition, there in course.format_offsets(billing).items():
    print(partition, there)
course.compare_with_broker({group: course.format_offsets(broker.offset_fetch(group)) for group in said["offsets"]}, said["offsets"], "3.9.2")

# %% [markdown]
# What would it cost without the cache? Here is a topic of 50,000 commits in one partition. To find one offset in the log, all of it has to be read: nothing says where the newest record of
# a key stands.

# %%
import time

import kafkagroups as kg
from kafkagroups import synth

busy = course.make_scratch_folder()
synth.write(busy, records=50_000, partitions=1, groups=100, seed=5)
began = time.perf_counter()
groups = kg.load(busy)
reading = time.perf_counter() - began

cached = course.start_broker(busy, offsets_topic_num_partitions=1, topics=None)
name, partition = next((name, next(iter(group.offsets))) for name, group in groups.items() if group.offsets)
began = time.perf_counter()
for _ in range(1000):
    cached.offset_fetch(name, [partition])
fetching = (time.perf_counter() - began) / 1000

print(f"reading the log for one offset: {reading:.2f} s")
print("more than 100 fetches from the cache in the same time:", reading / fetching > 100)

# %% [markdown]
# (Thousands, mostly.) And a real partition may have 50 million records, and a broker a hundred thousand consumers that start at once after a failover. So the topic is for the **next** coordinator.
# The present one has its map.
#
# The price is memory: every offset of every group that lives on the broker, in one map by group. In Kafka it is called `groupMetadataCache`; beside it stand `ownedPartitions` and `loadingPartitions`,
# the subject of the next section, and `openGroupsForProducer`, which tells a marker whose offsets it decides.
# (How many partitions the topic has, and its compression, are read once: they must not change.)
#
# ## Who answers
#
# A broker answers for a group if the group's partition is *owned*: led by this broker, and loaded. While it is *loading*, the broker knows only a part, and a part is worse than nothing. Watch
# partition 9 go away and come back:

# %%
def ask(when):
    answer = broker.offset_fetch("billing")
    print(f"{when:<22}{answer.error.name:<30}{len(answer.offsets)} offsets")


ask("owned")
broker.resign(9)
ask("led by another broker")
broker.manager.loading.add(9)  # for once it takes a while
ask("loading")
broker.elect(9)
ask("loaded")

# %% [markdown]
# On `NOT_COORDINATOR` a client asks any broker again *who coordinates billing?* (FindCoordinator: the hash of lesson 02, and the leader of that partition). On `COORDINATOR_LOAD_IN_PROGRESS` it waits
# and asks the same broker. It is never told "nothing committed" by a broker that does not know.
#
# (A former leader that has not yet heard of the new one still answers from its cache, and that may be behind. A commit it cannot get confirmed any more: the replicas follow the new leader.)
#
# Write `who_answers(group, owned, loading)`: the name of the error, `"NONE"` if the broker may answer. `owned` and `loading` are sets of the 50 partitions; `kg.partition_for(group, 50)` is lesson
# 02. A partition that is loaded once more may stand in both: then it is loading.

# %%
# exercise: who_answers
def who_answers(group, owned, loading):
    ...

# %%
course.check("who_answers", who_answers)
# course.hint("who_answers")

# %% [markdown]
# This is what a client heard that asked the 1.0.1 broker about `billing` all the time, from the first millisecond after it was started again. The columns: FindCoordinator, OffsetFetch, ListGroups.

# %%
steps = json.loads(Path(course.find_data("harbour/1.0.1/acts.json")).read_text())

for answer in next(step["answer"] for step in steps if step["step"] == "the broker is started again"):
    told = [answer.get(question, "") for question in ("connection", "FindCoordinator", "OffsetFetch billing", "ListGroups")]
    print(f"{answer['ms']:>5} ms  {told[0]}{told[1]:<27}{told[2]:<16}  {told[3]}")

# %% [markdown]
# Four things to see:
#
# - **FindCoordinator** is answered from the cluster's metadata. At 2389 ms the broker has just started, and its metadata do not name a leader of partition 9 yet: `COORDINATOR_NOT_AVAILABLE`. Then they do, long before the coordinator has loaded anything:
#   so `NONE` there and `NOT_COORDINATOR` here are no contradiction.
# - **OffsetFetch**: 1.0.1 looks at `owned` first, and what is loading is not owned. So it says `NOT_COORDINATOR` where later brokers say `COORDINATOR_LOAD_IN_PROGRESS`.
# - **ListGroups** says `NONE` with 0 groups as long as loading has *not begun*: no partition is loading, and no group is there. So an empty list without an error proves nothing.
# - Partitions come one by one: `billing` is answered while others still load.
#
# ## Nothing there
#
# *Predict*: a client asks for `orders-0` of a group that has never existed. What offset is it told, and which error? (A pair, as `(7, "REQUEST_TIMED_OUT")`.)

# %%
# prediction
nobody_there = ...

# %%
found = broker.offset_fetch("nobody", [TopicPartition("orders", 0)]).offsets[TopicPartition("orders", 0)]
course.compare_with_prediction(nobody_there, (found.offset, found.error.name))

# %% [markdown]
# −1, metadata "", `NONE`. A new group must start somewhere, and it is new only once: the coordinator cannot know whether it should have been there. The consumer then does what its
# `auto.offset.reset` says. That is why a group that was lost is so quiet about it: nobody gets an error (lesson 11 has such a night).
#
# A real broker was asked for all kinds of nothing; ours answers beside it:

# %%
talk = course.read_exchanges("3.9.2-fetch")

for fetch in course.read_fetches(talk):
    if fetch.version == 9 and fetch.number < 20 and fetch.number not in (6, 9):  # two long ones
        told = ", ".join(f"{name}: {offset}" for name, offset in fetch.broker_offsets.items()) or "–"
        print(f"{fetch.number:>2}  {fetch.group or '(no name)':<9}  {fetch.requested_partitions:<18} → {told}")
print(len(talk), "requests, all answers:")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# - Asked for **all** (since version 2 of the request), what has no offset is not mentioned; asked **by name**, it is −1. A topic that does not exist, or partition 99, is −1 as well: the cache holds what was
#   committed, and the rest is none of its business.
# - 2: `pay-ments-2` *has* an offset, and it is −1: a client committed that. From "nothing" it cannot be told.
# - A Dead group, one that is just being removed, is answered like an unknown one.
#
# ## Stable offsets
#
# `fraud-check` was in the middle of a transaction when the broker died: 41 and 40 wait for a marker. The table shows what its coordinator knows, and its answers to four questions: all or by
# name, without and with `requireStable` (KIP-447). *previous* and *next* go to other groups. *Predict* before you look: asked for all, stable, what is said of `orders-0`, which is
# only on its way? (`"-1"`, `"UNSTABLE"`, or `"not mentioned"`.)

# %%
# prediction
orders_0 = ...

# %%
course.compare_with_prediction(orders_0, "not mentioned")
course.FetchTable(broker, list(said["offsets"]), shown_group="fraud-check")

# %%
for question, stable, named in [("stable", True, False), ("stable_every_live_partition_named", True, True)]:
    mine = {}
    for group, offsets in said[question].items():
        names = [name.rpartition("-") for name in offsets]
        partitions = [TopicPartition(topic, int(number)) for topic, _, number in names] if named else None
        mine[group] = course.format_offsets(broker.offset_fetch(group, partitions, require_stable=stable))
    print(question, end=": ")
    course.compare_with_broker(mine, said[question], "3.9.2")

# %% [markdown]
# Why bother? A program reads `payments`, writes alarms, and commits both in one transaction. It dies before the marker is written, and another one starts at the committed offset: 31. If the marker comes a moment
# later, 31 to 40 are processed **twice**. With `requireStable` the new one is told "ask again", until the transaction is committed or aborted. The same holds for a plain commit that waits for its replicas. Java's consumer has always
# asked so since 2.5, naming its partitions.
#
# Without `requireStable` the answer is the last offset that counts, at once; 1.0.1 knows no other way. And with or without it: asked for *all*, a partition that has nothing but a commit on its way is not mentioned. A tool that lists everything does not see it.
#
# Write `get_offsets(committed, pending, asked, stable)`. `committed` maps partitions to offsets, `pending` is the set of those on their way, `asked` is a list of partitions or `"all"`. Return a dictionary: to
# the offset, to −1, or to `"UNSTABLE_OFFSET_COMMIT"`.

# %%
# exercise: get_offsets
def get_offsets(committed, pending, asked, stable):
    ...

# %%
course.check("get_offsets", get_offsets)
# course.hint("get_offsets")

# %% [markdown]
# ## Other questions, the same memory
#
# DescribeGroups and ListGroups are what `kafka-consumer-groups.sh` and lag monitors ask. They read the same cache, and go through the same door.

# %%
for group in broker.describe_groups(["billing", "dashboard", "mailer"]):
    members = [member.client_id for member in group.members]
    print(f"{group.error.name}  {group.group_id:<10} {group.state:<7} {group.protocol_type or '–':<9} {members}")

mine, theirs = {}, {}
for each in broker.describe_groups(said["groups"]):
    mine[each.group_id] = each.error.name, each.state, each.protocol_type, {member.member_id for member in each.members}
for name, each in said["groups"].items():
    theirs[name] = each["error"], each["state"], each["protocol_type"], {member["member_id"] for member in each["members"]}
course.compare_with_broker(mine, theirs, "3.9.2")

broker.manager.loading.add(38)
error, listed = broker.list_groups()
print("while 38 is loading: ", broker.describe_groups(["dashboard"])[0].error.name)
print("and the list of groups:", error.name, "with", len(listed), "groups")
broker.manager.loading.discard(38)

# %% [markdown]
# | the question | not allowed | coordinator not running | not mine | loading | unknown group |
# |---|---|---|---|---|---|
# | OffsetFetch | `GROUP_AUTHORIZATION_FAILED` | `COORDINATOR_NOT_AVAILABLE` | `NOT_COORDINATOR` | `COORDINATOR_LOAD_IN_PROGRESS` | −1, or nothing |
# | DescribeGroups | the same | the same | the same | the same | state *Dead*, `NONE` (Kafka 4: `GROUP_ID_NOT_FOUND` to newer clients) |
# | ListGroups | only what the client may see | the same | – | the same, **with what is there** | not in the list |
#
# *Not running*: the broker answers already or still, but it has not yet started its coordinator, or is shutting it down.
#
# `mailer` was deleted: *Dead* is the word for "I do not know it". And ListGroups is asked of every broker, each tells its own groups: who takes a list with `COORDINATOR_LOAD_IN_PROGRESS` for the whole truth raises an alarm about
# groups that are merely not loaded yet.
#
# ## Who may see what
#
# To fetch, a client needs DESCRIBE on the group, and on each topic. Here is a client that may see `orders` only:

# %%
clerk = course.start_broker(shop, authorize=lambda operation, kind, name: kind != "TOPIC" or name == "orders")

print("all:    ", {str(each): there.offset for each, there in clerk.offset_fetch("billing").offsets.items()})
print("by name:", course.format_offsets(clerk.offset_fetch("billing", [TopicPartition("payments", 0)])))

# %% [markdown]
# What it may not see is left out of *all*, and refused by name: or else the list of a group's topics would tell what the client must not know. A tool with too few rights thus sees groups with too few offsets, and no error.
#
# ## An epoch beside the offset
#
# A fetch answers one number more, the **leader epoch**: a number that grows with each new leader of the partition that was read; the record that was read last has it. Why? Leader A of `orders-0` writes in epoch 3, up to 59. Its followers have fallen
# behind, to 39, when A's disk dies, and B takes over in epoch 4:
#
# ```
#  offset        20 … 39   40 … 44   45 … 59
#  A, epoch 3    ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓   billing read 44, commits 45, epoch 3
#  B, epoch 4    ▓▓▓▓▓▓▓   ░░░░░░░░░░░░░░░░░   40 … are other records now
# ```
#
# (It takes an *unclean* election: normally consumers see only what all replicas in sync have.) The committed 45 is still a valid number, and points into another history: 40 to 44 of the new one would never be read.
# So a consumer that starts asks B: *where does epoch 3 end?* (OffsetForLeaderEpoch). B says 40. 40 < 45: the log was cut, and the consumer goes back to 40, or, with `auto.offset.reset=none`, reports it (`LogTruncationException`).
#
# B keeps a list of epochs and where each begins. Write `end_of_epoch(epochs, log_end, epoch)`: `epochs` are pairs (epoch, first offset), ascending. Give back a number, the offset. Two examples:
#
# - `end_of_epoch([(0, 0), (3, 20), (4, 40)], 60, 3)` is 40: there epoch 4 begins.
# - `end_of_epoch([(0, 0), (3, 20), (4, 40)], 60, 1)` is 20: an epoch in which nothing was written is missing in the list, and ends where the next one begins.
#
# The same holds for an epoch below all in the list. The newest one ends at `log_end`. For an epoch above all it knows B answers −1. (Kafka's answer is a pair: the largest epoch in the list up to the one asked for, and the end. The cell after the
# exercise prints both.)

# %%
# exercise: end_of_epoch
def end_of_epoch(epochs, log_end, epoch):
    ...

# %%
course.check("end_of_epoch", end_of_epoch)
# course.hint("end_of_epoch")

# %%
from kafkagroups.coordinator import offset_for_leader_epoch

largest, end = offset_for_leader_epoch([(0, 0), (3, 20), (4, 40)], log_end=60, epoch=3)
print("committed 45 of epoch 3; epoch", largest, "ends at", end, "→", "cut" if end < 45 else "all there")
for group in ["billing", "dashboard"]:
    offsets = broker.offset_fetch(group).offsets
    print(f"epochs in the commits of {group}:", {there.leader_epoch for there in offsets.values()})

# %% [markdown]
# −1 means that nobody knows: a commit by hand, an older client, a record of a version below 3 (lesson 01). Then there is nothing to compare, and the consumer believes the number. The coordinator itself
# never looks at the epoch. It keeps what it is given.
#
# ## Before there was a topic
#
# Up to 0.8.1 offsets lived in ZooKeeper: one node for each offset, one small write to disk for each commit, agreed on by most of ZooKeeper's servers. That does not suit something that every consumer writes every few
# seconds. Version 0 of OffsetCommit and OffsetFetch still went there, in 3.x too, where there was a ZooKeeper. *Predict*: a client commits 77 with version 0. What does version 1 of OffsetFetch answer?

# %%
# prediction
version_1 = ...

# %%
talk = course.read_exchanges("1.0.1-versions")
last = [each for each in talk if each.request.get("groupId") == "zk"]

course.compare_with_prediction(version_1, last[-1].broker_response["topics"][0]["partitions"][0]["committedOffset"])
for each in last:
    print(f"{each.api} v{each.version}: {each.broker_response['topics'][0]['partitions'][0]}")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "1.0.1")

# %% [markdown]
# Two memories that know nothing of each other. And one more difference: version 0 has no group that anybody could describe, delete or expire.
#
# ## In Kafka
#
# | what | 3.9 |
# |---|---|
# | the cache | `GroupMetadataManager.groupMetadataCache`, `ownedPartitions`, `loadingPartitions`, `openGroupsForProducer` |
# | may this broker answer? | `GroupCoordinator.validateGroupStatus`; `isGroupLocal`, `isGroupLoading` (1.0.1: `isCoordinatorForGroup`, `isCoordinatorLoadInProgress`) |
# | the offsets | `GroupCoordinator.handleFetchOffsets`, `GroupMetadataManager.getOffsets`; `GroupMetadata.hasPendingOffsetCommitsForTopicPartition` |
# | looking groups up | `getGroup`; `getOrMaybeCreateGroup`; `addGroup` puts only what is not there |
# | describe and list | `handleDescribeGroup`, `handleListGroups`; `GroupMetadataManager.currentGroups` |
# | rights | `KafkaApis.handleOffsetFetchRequest`, `fetchAllOffsetsForGroup` |
# | epochs | `LeaderEpochFileCache.endOffsetFor`; the consumer: `OffsetsForLeaderEpochClient`, `SubscriptionState.maybeCompleteValidation` |
# | version 0 | `KafkaApis.handleOffsetCommitRequest`, `handleOffsetFetchRequest` with `zkSupport` |
#
# ## What we left out, and why
#
# The member id and epoch that newer requests may carry: they are for groups of Kafka 4's own protocol. The consumer's side of a reset. How leadership is decided: another course. The new coordinator fetches from memory too, but from the state
# *as it was confirmed by the replicas* (lesson 04), so a plain commit on its way is not unstable there: it is simply not there yet.
#
# **Next:** [06 · The group's life](06_the_groups_life.ipynb): who may commit at all: joining, syncing, heartbeats, and the five states.
