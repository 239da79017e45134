# %% [markdown]
# # 11 · Loading
#
# **A broker dies. How does the next one rebuild everything?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | rebuild the offsets of a group from a log; say what no failover brings back, how long it takes, and what clients get meanwhile or after a failed load | {{minutes}} + 10 for later | no |
#
# **Which Kafka:** every 4.x, with the new *group coordinator*. The cells also show 3.9, with the classic one. **Which groups:** offsets of all groups, and the members of *classic groups* (`group.protocol=classic`, the default).
#
# ![From the first record of partition 9 to the last, each record sets, replaces or removes an offset in the next coordinator's memory, or waits.](pictures/11.svg)

# %% [markdown]
# When a broker dies, other brokers become the leaders of its partitions of `__consumer_offsets`. A new leader has never spoken to the groups. From its copy of the log, it must rebuild what the old leader had in memory. What does it get back, how long does that take, and what do clients get meanwhile?

# %% [markdown]
# ## The night
#
# One night, all brokers of Harbour Coffee were killed while the consumers of `billing` were rebalancing. Then a broker started with the same files (4.3.1, and in a second run 3.9.2). Just before, the brokers answered about `billing`:

# %%
import kafkagroups as kg
from kafkagroups import course

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
# A coordinator writes the record of a group when a rebalance **ends** (lesson 06). The rebalance that `billing-3` joined never ended, so no record names `billing-3`, and it has to join again. The last record has the two other members, which is why the group is `Stable` after the load.
#
# </details>
#
# So only the rebalance is gone. All offsets and all other groups are back, and our loads agree with what the real brokers answered afterwards:

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
# A coordinator answers from memory (lesson 05), so the new leader must fill its memory before it can answer. It does this in four steps:
#
# 1. Until the end of the load, it answers every request for these groups with `COORDINATOR_LOAD_IN_PROGRESS`, because half a memory would give wrong answers.
# 2. It reads the **whole** log, because nothing says which records are still needed.
# 3. It applies each record: a value replaces the older value of its key, a tombstone removes the key, and an offset in a transaction is pending until its marker.
# 4. At the end, it gives each member a new session timeout, because no record says when the last heartbeat came.
#
# During the load, the consumers go on reading, and repeat their commits and heartbeats until the new leader answers.
#
# Sometimes the old leader is still alive, because only the leadership was moved. Then it [**unloads**](../docs/handbook/glossary.md#unload) the partition: it forgets the groups, and answers waiting requests with `NOT_COORDINATOR`. It writes nothing, because the log now belongs to the new leader.

# %% [markdown]
# ## Record by record
#
# How does a load know which groups exist? A group with members has a group record (lesson 06). But a *simple group*, whose consumers choose their partitions themselves, has only offsets. In 4.x, the group's first offset is enough: a load creates the group at this record, as a running coordinator does at the first commit. The group is `Empty`.
#
# The figure loads a log of nine records. Go back to its first step, and follow only the memory of 4.3.1. Which record creates each group? What is left of `promo` after record 8, the tombstone of its only offset?

# %%
# figure
course.LoadTape()

# %% [markdown]
# ## Exercise: replay
#
# Write `replay(lines)`. It returns a dictionary: the keys are pairs `(group, partition)`, and the values are the offsets that count at the end. There are no transactions:
#
# | `line.record_type` | `line.value` | effect |
# |---|---|---|
# | `"offset"` | a number | sets the offset |
# | `"offset"` | `None` | deletes the offset |
# | `"group"` | the generation, or `None` | no effect on offsets: a broker that deletes a group also writes a tombstone for each of its offsets (lesson 09) |

# %%
# exercise: replay
def replay(lines):
    ...

# %%
course.check("replay", replay)
# course.hint("replay")

# %% [markdown]
# ## How long a load takes
#
# A broker loads about **0.4 million records per second** (4.3.1, measured; yours may differ). One thread loads all partitions that the broker takes over, one after the other, and no setting adds a second thread. But several brokers load at the same time. So a failover is short if the cleaner works and the groups commit rarely, or if many brokers share the partitions.
#
# ## Which replica does the next broker load?
#
# Each partition has a list of replicas (`kafka-topics.sh --describe` prints it). If the leader stops, the first broker of this list that is running and in sync takes over. The very first one is the *preferred leader*: when it returns after a restart, Kafka makes it the leader again within five minutes (`auto.leader.rebalance.enable`).
#
# A new leader loads **its own replica** of the log, and each broker has its own cleaner. So the replicas of one partition can differ much in size. Suppose that broker 1 leads partition 9, whose groups commit ten times per second. Broker 2 is next in the list, but its cleaner thread died 100 days ago:

# %%
replicas = {1: 50_000, 2: 86_400_000, 3: 50_000}
for broker, count in replicas.items():
    print(f"broker {broker}: {count:>10,} records, {count / 400_000:5.1f} s to load")

# %% [markdown]
# Tonight, you must restart broker 1, but its groups should hardly wait. *Predict*: what do you do first? Write the letter in quotes.
#
# - **A**: Restart broker 1 now, because its replica is small.
# - **B**: Restart broker 2, which starts a new cleaner thread there, and then restart broker 1.
# - **C**: Restart nothing yet. Start a new cleaner thread on broker 2, and wait until its replica is small.

# %%
# prediction
first_step = ...

# %%
course.reveal("first_step", first_step, "C")

# %% [markdown]
# <details><summary>Why?</summary>
#
# After A, broker 2 takes over partition 9, and the groups of this partition wait for 216 seconds.
#
# After B, broker 2 has a new cleaner thread, but its replica of partition 9 is still large when broker 1 stops, so the groups wait as after A. The restart of broker 2 does harm, too: broker 2 is the preferred leader of other partitions. Within five minutes, broker 2 leads these partitions again, and has to load its large replicas.
#
# C needs no restart, so no leader changes while broker 2 cleans.
#
# </details>
#
# So before you restart a broker, look for large replicas on the **other** brokers (`kafka-log-dirs.sh`, lesson 10), because they take over.

# %% [markdown]
# ## Exercise: seconds, on paper
#
# Broker 1 stops. These are the partitions that it leads:
#
# | partition | records on broker 1 | records on the next leader | next leader |
# |---|---|---|---|
# | 4 | 60,000 | 8 million | broker 2 |
# | 9 | 24 million | 4 million | broker 2 |
# | 21 | 60,000 | 6 million | broker 3 |
#
# After how many seconds are all three loaded? Write a whole number.

# %%
# exercise: seconds_to_load
seconds_to_load = ...

# %%
course.check("seconds_to_load", seconds_to_load)
# course.hint("seconds_to_load")

# %% [markdown]
# ## A record that cannot be read
#
# A load can also fail. A broker skips a record of an unknown *type*, which belongs to a feature that this broker does not have. But if it skipped a record of a known type, it could answer with an outdated position. So a record of a known type that the broker cannot read stops the load, even if a later record has the same key (lesson 01). In this test log, record 4 has value version 9, which no release has:

# %%
print(*course.read_crafted_lines("f-txn-after"), sep="\n")

# %% [markdown]
# So [the load fails](../docs/handbook/glossary.md#failed-load) at record 4. A coordinator of **4.x** then answers `NOT_COORDINATOR`, although its broker is the leader. The clients look for another coordinator, but FindCoordinator names the same broker again. The clients keep asking, and read nothing new, but no position is lost.
#
# The failure is quiet in your program. `poll` raises no exception: a new consumer only receives no records. `commitSync` fails with a `TimeoutException` after 60 seconds.

# %% [markdown]
# ## Exercise for later: which log loads?
#
# A broker of Kafka 4.3.1 starts after a power failure. Each of three logs has one problem:
#
# - **A**: the last batch is only half written.
# - **B**: a commit has a value of zero bytes. A later commit of the same key is good.
# - **C**: a group record has value version 7. A later tombstone deletes this group.
#
# Which log does the broker load? Write the letter as a text.

# %%
# exercise: which_log_loads
which_log_loads = ...

# %%
course.check("which_log_loads", which_log_loads)
# course.hint("which_log_loads")

# %% [markdown]
# ## An incident: partition 9 does not load
#
# The consumers of `billing` and `fraud-check` read nothing. The `server.log` of their broker (4.3.1) has the line `Failed to load metadata from __consumer_offsets-9 … DefaultRecord(offset=45, …, value=0 bytes)`.
#
# A faulty program had written record 45. The running coordinator did not notice, because it does not read its log, and it wrote record 46. But since the next restart, each load fails at record 45. Waiting does not help. The cleaner does not help either: it removes record 45 only after a newer record with the same key. Only the coordinator may write such a record, and it writes nothing before it has loaded.
#
# **Step 1: copy the folder**, so that nothing that you try can do harm. Our copy ends with these records:

# %%
folder = course.copy_failing_partition()

for line in course.read_lines(folder / "copy/__consumer_offsets-9")[-3:]:
    print(line)

# %% [markdown]
# **Step 2: ask for the remedy.** `check` loads the copy as a broker does:

# %%
course.run_command("kafkagroups check copy/__consumer_offsets-9 --kafka 4.3.1", folder)

# %% [markdown]
# **Step 3: carry out the remedy.** No release loads the log, so `kafkagroups edit` writes a shorter copy that ends before record 45. It loses record 45 and all later records of **all** groups, here only record 46:

# %%
course.run_command("kafkagroups edit copy/__consumer_offsets-9 --out shorter/__consumer_offsets-9 --cut 45", folder)
course.run_command("kafkagroups check shorter/__consumer_offsets-9 --kafka 4.3.1", folder)

# %% [markdown]
# **Step 4: prove it.** The shorter copy loads, but are its answers right? Without the records 45 and 46, it is the log of lesson 00, and we know how a broker answered from that log:

# %%
groups = kg.load(folder / "shorter/__consumer_offsets-9")
answers = course.read_answers("harbour/4.3.1")
names = ["billing", "fraud-check"]

for name in names:
    print(name, *[f"{partition} = {commit.offset}" for partition, commit in sorted(groups[name].offsets.items())], sep="   ")
course.compare_with_broker(course.fetch_offsets(groups, names), {name: answers["offsets"][name] for name in names}, "4.3.1")

# %% [markdown]
# The rest is in the [runbook](../docs/operator.md#1-a-partition-does-not-load):
#
# - Stop the brokers of **all** replicas, because a running one would bring record 45 back. In a cluster of three brokers, these are all brokers, so nothing works meanwhile. Replace their files by those of the shorter copy, and start the brokers.
# - Set the lost offset of record 46 again.
# - If the cluster cannot stop, or the groups cannot wait: start the groups under new names, whose partitions load. First set the offsets of the new groups, because they begin without any.

# %% [markdown]
# ## Where 3.9 differs
#
# A load of 3.9 first reads all records, and builds the groups only **at its end**, from the group records and offsets that no tombstone has deleted. In the figure, nothing is left of two simple groups: the offset of `promo` was deleted, and that of `audit` belonged to an aborted transaction. So 3.9 does not have these groups. But 4.x created them at their first records, and keeps them, Empty.
#
# After a failed load, a coordinator of 3.9 has no groups in memory either, but it treats the partition as loaded. Take the test log from above again, whose record 4 stops the load. Record 0 is a commit of the group `g` for `t-0`, and record 1 its marker, so this commit counts. *Predict*: what does 3.9 answer if a client of `g` asks for the offset of `t-0`? Write `"the offset"`, `"an error"` or `"nothing committed"`.

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
# | after the failed load | 4.x | 3.9 |
# |---|---|---|
# | A fetch gets | `NOT_COORDINATOR` | −1 without an error: nothing committed |
# | The consumers | repeat their requests, and read nothing new | start where `auto.offset.reset` says, and commit |
# | Is a position lost? | no | yes, the new commits overwrite it |
# | The broker's log has | `Failed to load metadata from …` | `Error loading offsets from …`, the only sign |
#
# Go back to the figure, and choose *a value of zero bytes* for record 8: no load can read it, and you see both answers.
#
# <details><summary>Rare cases and other versions</summary>
#
# If a deleted group still has a pending commit, a load of 3.9 ends with the error `Unexpected unload of active group`. The error does no harm, because the groups are already in memory.
#
# After a change of the number of partitions (lesson 02), two partitions can have records of one group. A broker of 3.9 has one cache for all partitions, and keeps the group that it loaded first.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>Which part of a group does a failover lose, and why?</summary>
#
# A rebalance that has not ended, because a coordinator writes the record of a classic group only at its end. The members join again. The offsets and the members of the last finished rebalance are in the log.
#
# </details>
#
# <details><summary>A log has one commit of a group, and no record of the group itself. Does a load build the group?</summary>
#
# Yes, because one record of an offset is enough. 4.x creates the group at this record. 3.9 creates it at the end of the load, if the offset is still there.
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
# - The next broker reads the whole log of the partition, and the newest value of each key counts.
# - The unfinished rebalance of a classic group is lost, and its members join again.
# - A broker loads about 0.4 million records per second, one partition after the other.
# - The next broker loads its own replica, so restart no other broker while one broker has large replicas.
# - A load skips unknown record types, but stops at a record that cannot be read.

# %% [markdown]
# ## For your consumer
#
# - With brokers up to 3.9, set `auto.offset.reset=none`. After a failed load, the consumer then stops.
# - If a load takes longer than `default.api.timeout.ms` (60 seconds), `commitSync` fails. Commit again later.
#
# ## At 3 am
#
# After a failed load, do not move the leadership, because each replica has the bad record. PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `Failed to load metadata` (4.x) | `kafkagroups check PATH --kafka 4.3.1` | `check` names the record, the groups and the remedy. No position is lost | The [runbook](../docs/operator.md#1-a-partition-does-not-load) |
# | `Error loading offsets` (3.9) | `kafkagroups check PATH --kafka 3.9.2` | The consumers of this partition's groups commit wrong positions | **Stop these consumers** at once. Then follow the [runbook](../docs/operator.md#1-a-partition-does-not-load) |
# | Clients log `coordinator is loading` | `grep "Finished loading" server.log` on the new leaders (`kafka-topics.sh --describe`) | The lines name the loaded partitions. The others are still loading | Wait: a restart would begin the load again. If the load lasts for minutes, and another replica is short, let that one lead ([runbook](../docs/operator.md#a-cleaner-has-stopped)) |
# | Clients log `not the correct coordinator` for minutes | Metric `num-partitions` of `group-coordinator-metrics`, `state=failed` (4.x) | A metric above 0: a load has failed | The first row |
# | A broker must be restarted | `kafka-log-dirs.sh` (lesson 10) | If **another** broker has large replicas, groups would wait for its load | First the [runbook](../docs/operator.md#a-cleaner-has-stopped), then the restart |
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
# How Kafka elects a leader. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [12 · Loading at scale](12_loading_at_scale.ipynb): when one process is enough to load the topic, and what Spark adds.
