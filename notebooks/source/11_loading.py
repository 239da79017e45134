# %% [markdown]
# # 11 · Loading
#
# **A broker dies. How does the next one rebuild everything?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | rebuild the offsets of a group from a log; say what no failover brings back; say how long a load takes; repair a partition that does not load | {{minutes}} | no |
#
# **Which Kafka:** 4.x. The cells also show 3.9, and "Where 3.9 differs" explains what is not the same.
#
# ![From the first record of partition 9 to the last, each record sets, replaces or removes an offset in the next coordinator's memory, or waits.](pictures/11.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The next coordinator reads the **whole** log of the partition.
# 2. The newest value of a key counts, and a tombstone removes its key.
# 3. What no record contains is **lost**: an unfinished rebalance, waiting requests, and the times of heartbeats.
# 4. One record that cannot be read stops the load of the **whole partition**.
#
# The groups here are **classic groups**, the default of the clients. Groups with `group.protocol=consumer` do not lose their rebalance (lesson 13).

# %% [markdown]
# ## The night
#
# While the consumers of `billing` were rebalancing, all brokers of Harbour Coffee were killed, and a broker of the same version started with the same files: once with Kafka 4.3.1 and once with 3.9.2. Just before, the answer about `billing` was:

# %%
import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

for version in ("4.3.1", "3.9.2"):
    before = course.read_answers(f"harbour/{version}", "before.json")["groups"]["billing"]
    print(f"{version}: {before['state']}, with", *sorted(member["client_id"] for member in before["members"]))

# %% [markdown]
# *Predict*: how many members does `billing` have after the load?

# %%
# prediction
members_after = ...

# %%
shop = course.find_data("harbour/4.3.1")
loaded = {
    "4.3.1": kg.load(shop, "new"),
    "3.9.2": kg.load(course.find_data("harbour/3.9.2"), "classic"),
}
course.reveal("members_after", members_after, len(loaded["4.3.1"]["billing"].members))

# %% [markdown]
# <details><summary>Why?</summary>
#
# A coordinator writes the record of a group when a rebalance **ends** (lesson 06). The rebalance that `billing-3` joined never ended, so no record names `billing-3`, which has to join again.
#
# </details>
#
# Only the rebalance is gone. After our loads, the states and offsets are those that the real brokers answered:

# %%
for version, groups in loaded.items():
    answers = course.read_answers(f"harbour/{version}")
    states = {group: groups[group].state.value for group in groups if groups[group].type == "classic"}
    answered = {group: answers["groups"][group]["state"] for group in states}
    print("states: ", end="")
    course.compare_with_broker(states, answered, version)
    print("offsets: ", end="")
    course.compare_with_broker(course.fetch_offsets(groups, answers["offsets"]), answers["offsets"], version)

# %% [markdown]
# ## What a load does
#
# A coordinator answers from memory (lesson 05), so a new leader of a partition of `__consumer_offsets` must fill its memory first. The load has four steps:
#
# 1. Until the end, it answers every request for these groups with `COORDINATOR_LOAD_IN_PROGRESS`, because half a memory would give wrong answers.
# 2. It reads the log in batches, from the first record to the last, because nothing says which records are still needed.
# 3. It applies each record: a value replaces the older value of its key, a tombstone removes the key, and an offset in a transaction is pending until its marker.
# 4. At the end, the session timeout of each member begins again, because no record contains the time of a heartbeat.
#
# A healthy group notices little: its consumers go on reading, and repeat their commits and heartbeats.

# %% [markdown]
# ## Record by record
#
# While it runs, a coordinator of 4.x writes a record and applies it to its memory. A load applies each record of the log in the same way, so a group exists as soon as one record names it.
#
# In the figure, each record drops into the memories of both releases. `≠` marks what only one of them has: 3.9 keeps the *group record* (`gen 1`) as it is, and makes its groups only at the end. Step through it. Then give record 8 a value of zero bytes, and compare the answers.

# %%
# figure
course.LoadTape()

# %% [markdown]
# ## Exercise: replay
#
# Write `replay(lines)`. It returns a dictionary: the keys are pairs `(group, partition)`, and the values are the offsets that count at the end. The lines are like those of lesson 08, without transactions:
#
# | `line.record_type` | `line.value` | effect |
# |---|---|---|
# | `"offset"` | a number | sets the offset |
# | `"offset"` | `None` | deletes the offset |
# | `"group"` | the generation, or `None` | your function skips it |
#
# Why may it skip the tombstone of a group? A broker that deletes a group also writes a tombstone for each of its offsets (lesson 09).

# %%
# exercise: replay
def replay(lines):
    ...

# %%
course.check("replay", replay)
# course.hint("replay")

# %% [markdown]
# ## Groups without a record
#
# A group that assigns its partitions by hand never rebalances, so it has offsets but no record. Here are the generations in the records of four groups, and their state after the load:

# %%
for version, groups in loaded.items():
    lines = course.read_lines(course.find_data(f"harbour/{version}"))
    print(version)
    for name in ["billing", "dashboard", "fraud-check", "mailer"]:
        own = [line.value for line in lines if line.record_type == "group" and line.group == name]
        generations = ", ".join("deleted" if value is None else str(value) for value in own) or "no record"
        print(f"  {name:<12} {generations:<24} {groups[name].state.value if name in groups else 'no such group'}")

# %% [markdown]
# The last record of `billing` has members, so the group is `Stable`, although it was rebalancing when the broker died. `dashboard` and `fraud-check` are simple groups, which exist because of their offsets alone. The tombstones have removed everything of `mailer`. (4.x writes generation 0 at the first JoinGroup.)

# %% [markdown]
# ## A record of an unknown type
#
# If you go back to an older release, the log can have record types that it does not know. They belong to features that it lacks, so a load skips them with a warning. Here are two types that no release knows:

# %%
course.print_crafted_log("b24")

# %% [markdown]
# ## A record that cannot be read
#
# An unknown **version** of a known type is more dangerous: if the broker skipped such a record, it might answer with an old offset. So the load stops. (The version 4 of 4.1 and later is no problem: every release since 3.4.1 reads it.) In this log, made for a test, the last record has value version 9, which no release has:

# %%
print(*course.read_crafted_lines("f-txn-after"), sep="\n")

# %% [markdown]
# The marker has committed offset 1 of `g`. Still, [the load fails](../docs/handbook/glossary.md#failed-load). The coordinator of **4.x** then has no groups of this partition, and answers `NOT_COORDINATOR` although it is the leader.
#
# In 3.9, the load fails at the same record. *Predict*: what does the coordinator of 3.9 answer about `g`? Write `"the offset"`, `"an error"` or `"nothing committed"`.

# %%
# prediction
classic_answer = ...

# %%
with course.fold("classic_answer", classic_answer):
    recorded = course.read_answers("crafted")["f-txn-after"]
    for coordinator, version in [("new", "4.3.1"), ("classic", "3.9.2")]:
        groups = kg.load(course.find_data("crafted/f-txn-after"), coordinator)
        print(f"{version}: the load failed: {bool(groups.failed)}, groups in memory: {len(groups)}")
        print("  recorded:", recorded[coordinator]["stable"]["f-txn-after.g.eg"].get("error", "−1, without an error"))
    offsets = recorded["classic"]["offsets"]["f-txn-after.g.eg"]
    course.reveal("classic_answer", classic_answer, "the offset" if offsets else "nothing committed")

# %% [markdown]
# In 3.9, the cache is empty after the failed load, yet the partition counts as loaded. So `g` seems never to have committed: its consumers start where `auto.offset.reset` says, and their next commit overwrites the old position. The only sign is a line in the broker's log, `Error loading offsets from …`.
#
# In 4.x, no position is lost, but the consumers stand still. `poll` of a new one returns nothing, without an exception. Only `commitSync` fails, with a `TimeoutException` after 60 seconds.

# %% [markdown]
# ## What stops a load
#
# A bad record stops a load even if a later record has the same key:
#
# | in the log | the load |
# |---|---|
# | an unknown record type | skips the record (since 3.4.1) |
# | a value of an unknown version | fails |
# | a value of zero bytes | fails |
# | a key or a value that is cut off | fails |
# | a tombstone of the new protocols that comes too early | fails in 4.x (lesson 13) |

# %% [markdown]
# ## Exercise: which log loads?
#
# A broker of Kafka 4.3.1 starts after a power failure. Each of three logs has one problem:
#
# - **A**: the last batch is only half written.
# - **B**: a commit has a value of zero bytes. A later commit of the same key is good.
# - **C**: a group record has value version 7. The record is in a transactional batch, and the transaction was aborted.
#
# Which log does the broker load? Write the letter as a text.

# %%
# exercise: which_log_loads
which_log_loads = ...

# %%
course.check("which_log_loads", which_log_loads)
# course.hint("which_log_loads")

# %% [markdown]
# ## How long a load takes
#
# A broker loads about **0.4 million records per second**, in one thread for all partitions that it takes over. So the cleaner decides. Here is the partition of lesson 10 before and after a pass:

# %%
for moment in ["before-clean", "after-clean"]:
    path = course.find_data(f"harbour/cleaning/{moment}")
    count = kg.stats(path).partitions[38]
    said = course.read_answers("harbour/cleaning", f"{moment}-answers.json")["offsets"]
    print(f"{moment}: {count.records} records, {count.bytes:,} bytes")
    course.compare_with_broker(course.fetch_offsets(kg.load(path, "new"), said), said, "4.3.1")

# %% [markdown]
# ## Exercise: seconds, on paper
#
# The cleaner threads of all brokers have been dead for months. A partition has 12 million records in 900 MB. A pass would leave 40,000 of these records. The leader dies **now**, and no pass runs before the load. How many seconds does the load take? Write a whole number.

# %%
# exercise: seconds_to_load
seconds_to_load = ...

# %%
course.check("seconds_to_load", seconds_to_load)
# course.hint("seconds_to_load")

# %% [markdown]
# ## The broker that loses a partition
#
# A leader that is replaced while it is alive [**unloads**](../docs/handbook/glossary.md#unload) the partition: it forgets the groups, answers waiting requests with `NOT_COORDINATOR`, and writes nothing, because the log belongs to the next leader. Elected again, it loads again:

# %%
ORDERS = TopicPartition("orders", 0)


def change_leader(broker):
    yield "commit 60", broker.offset_commit("billing", {ORDERS: OffsetCommit(60)})
    broker.resign(0)
    yield "fetch, after another broker became the leader", broker.offset_fetch("billing", [ORDERS])
    broker.elect(0)
    yield "fetch, after this broker is elected again", broker.offset_fetch("billing", [ORDERS])


course.compare_brokers(change_leader, ("4.3.1", "3.9.2"))

# %% [markdown]
# ## Where 3.9 differs
#
# In 3.9, a load only collects offsets and group records, and builds the groups **at the end** from what is left. That explains two results:
#
# | in the log | 4.x | 3.9 |
# |---|---|---|
# | all offsets of a simple group were deleted | the group is Empty | no group, because nothing is left |
# | only offsets of an aborted transaction | the group is Empty | no group, because nothing is left |
#
# <details><summary>Rare cases and other versions</summary>
#
# In 3.9, if a deleted group still has a pending commit, the load ends with the error `Unexpected unload of active group`, which has no effect.
#
# After a change of the number of partitions (lesson 02), two of them can have records of one group. In 3.9, there is one cache for all partitions, which keeps the group that was loaded first.
#
# The [handbook](../docs/handbook/tombstones.md) has one more difference, in logs that no broker writes.
#
# </details>

# %% [markdown]
# ## An incident: partition 9 does not load
#
# At 3 am, the consumers of `billing` and `fraud-check` repeat their requests and read nothing. The log of their broker (4.3.1) has the line `Failed to load metadata from __consumer_offsets-9 … DefaultRecord(offset=45, …, value=0 bytes)`.
#
# A faulty program had written record 45. The coordinator believed that 45 was the next free offset, but its own next record got 46. So it knew that another program had written to its log, and loaded the partition again. This load failed at record 45, and so does each later one. Waiting does not help. The cleaner would remove record 45 only after a newer record of its key, which the coordinator cannot write, because it does not load.

# %% [markdown]
# **Step 1: copy the folder**, as the [runbook](../docs/operator.md) shows. These are the last three records of our copy:

# %%
folder = course.copy_failing_partition()

for line in course.read_lines(folder / "copy/__consumer_offsets-9")[-3:]:
    print(line)

# %% [markdown]
# **Step 2: ask for the remedy.** `check` loads the copy as a broker does:

# %%
course.run_command("kafkagroups check copy/__consumer_offsets-9 --kafka 4.3.1", folder)

# %% [markdown]
# **Step 3: carry out the remedy.** `kafkagroups edit` writes a copy that ends before record 45. It loses the later records of **all** groups, here only record 46. (`kafkagroups dump copy/__consumer_offsets-9 --from 45` lists them.)

# %%
course.run_command("kafkagroups edit copy/__consumer_offsets-9 --out shorter/__consumer_offsets-9 --cut 45", folder)
course.run_command("kafkagroups check shorter/__consumer_offsets-9 --kafka 4.3.1", folder)

# %% [markdown]
# **Step 4: prove it.** The shorter copy is the log of the night, whose answers we know:

# %%
groups = kg.load(folder / "shorter/__consumer_offsets-9")
answers = course.read_answers("harbour/4.3.1")
names = ["billing", "fraud-check"]

for name in names:
    print(name, *[f"{partition} = {commit.offset}" for partition, commit in sorted(groups[name].offsets.items())], sep="   ")
course.compare_with_broker(course.fetch_offsets(groups, names), {name: answers["offsets"][name] for name in names}, "4.3.1")

# %% [markdown]
# **Step 5: let the groups work again.** The quick way stops no broker: both groups go on under new names whose partition is healthy. `kafkagroups partition billing-2` says that `billing-2` belongs into partition 46. Set the offsets of step 4 for this name (for `orders-0` the 60 of record 46, which is newer), and start the consumers with it (the [runbook](../docs/operator.md#1-a-partition-does-not-load) has the commands).
#
# To keep the old names, the record must go. Every replica has it, and a running broker would copy it back, so all brokers with a replica must stop **at the same time**. With three brokers and three replicas, that is the whole cluster:
#
# 1. Stop the faulty program, the consumers, and all brokers with a replica of partition 9.
# 2. In its folder on each of them, delete all files except `partition.metadata`, and then copy the `.log` files of the shorter copy there (a broker makes the index files anew).
# 3. Start the brokers.
# 4. `orders-0` of `billing` is now 50. Before the consumers start, set it to the 60 of record 46:
#
# `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --topic orders:0 --reset-offsets --to-offset 60 --execute`

# %% [markdown]
# ## Check yourself
#
# <details><summary>When does each coordinator build the groups of a partition in a load?</summary>
#
# In 4.x, at each record. In 3.9, at the end of the load.
#
# </details>
#
# <details><summary>What does a broker do when only the leadership of a partition moves away?</summary>
#
# It removes the groups from its memory, answers waiting requests with `NOT_COORDINATOR`, and writes nothing. A commit in flight still counts if its record stays in the log.
#
# </details>
#
# ## In five lines
#
# - The next broker reads the whole log of the partition.
# - The newest value of each key counts.
# - The unfinished rebalance of a classic group is lost, and its members join again.
# - A load skips unknown record types, but stops at a record that cannot be read.
# - It takes about one second for 0.4 million records.

# %% [markdown]
# ## For your consumer
#
# - With brokers up to 3.9, set `auto.offset.reset=none`. After a failed load, the consumer then stops and skips nothing.
# - If a load takes longer than `default.api.timeout.ms` (60 seconds), `commitSync` throws a `TimeoutException`. Commit again later.
#
# ## At 3 am
#
# **Do not move the leadership:** each replica has this record, so the next leader fails, too. PATH is a copy of the partition's folder, and N is the offset in the broker's message.
#
# | symptom | first | command | what is safe to do |
# |---|---|---|---|
# | `Failed to load metadata` (4.x) | No position is lost | `kafkagroups check PATH --kafka 4.3.1` names the record, the groups, and the remedy | The incident's steps |
# | `Error loading offsets` (3.9) | **Stop the consumers** of this partition's groups at once: they begin at a wrong position, and commit it | `kafkagroups check PATH --kafka 3.9.2`; then `kafkagroups load PATH --kafka 3.9.2 --until N` prints the positions before the record | The incident's steps. Then set the positions that the consumers have overwritten |
# | Groups are unavailable after a restart | Is it loading, or has it failed? A client logs `coordinator is loading` or `not the correct coordinator`; a 4.x broker has the metric `num-partitions` of `group-coordinator-metrics` (`state=loading`, `state=failed`) | `kafkagroups stats PATH`: how many records? | Wait while it loads; a restart begins again. Then lesson 12 |
# | Will the next failover work? | Copy all partitions into FOLDER | `kafkagroups check FOLDER --kafka 4.3.1` | Reading is safe |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.3.1) | where (3.9.2) |
# |---|---|---|
# | reading, in pieces of `offsets.load.buffer.size` | `CoordinatorLoaderImpl` | `GroupMetadataManager.doLoadGroupsAndOffsets` |
# | applying a record | `GroupCoordinatorShard.replay` | `GroupMetadataManager.loadGroup`, `GroupMetadata.initializeOffsets`, `addGroup` |
# | session timeouts after the load | `GroupMetadataManager.onLoaded` | `GroupCoordinator.onGroupLoaded` |
# | unloading | `CoordinatorRuntime.scheduleUnloadOperation` | `removeGroupsForPartition` |
#
# </details>
#
# ## What we left out, and why
#
# How a partition gets another leader. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [12 · Loading at scale](12_loading_at_scale.ipynb): how long a failover takes, and how it can be faster.
