# %% [markdown]
# # 11 · Loading
#
# **A broker dies. How does the next one rebuild everything?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | rebuild the offsets of a group from a log; say what no failover brings back; say how long a load takes; repair a partition that does not load | {{minutes}} | no |
#
# ![From the first record of partition 9 to the last, each record sets, replaces or removes an offset in the next coordinator's memory, or waits.](pictures/11.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The next coordinator reads the **whole** log of the partition, and nothing else.
# 2. The newest value of a key counts. A tombstone removes its key.
# 3. After a failover, everything that is not in the log is **lost**: a rebalance in progress, requests without a record, and the times of the last heartbeats.
# 4. One record that cannot be read stops the load of the **whole partition**.

# %% [markdown]
# ## The night
#
# The brokers of Harbour Coffee were killed in the middle of a rebalance of `billing`. Then a 4.3.1 broker was started with the same files. This was the answer about `billing` before the crash:

# %%
import kafkagroups as kg
from kafkagroups import course

before = course.read_answers("harbour/4.3.1", "before.json")["groups"]["billing"]
print(f"{before['state']}, with", *sorted(member["client_id"] for member in before["members"]))

# %% [markdown]
# *Predict*: how many members does `billing` have after the load?

# %%
# prediction
members_after = ...

# %%
shop = course.find_data("harbour/4.3.1")
loaded = kg.load(shop, coordinator="new")

course.reveal("members_after", members_after, len(loaded["billing"].members))

# %% [markdown]
# <details><summary>Why?</summary>
#
# The group record of the last **finished** rebalance has two members. `billing-3` had joined, but the rebalance was not finished. So no record contains `billing-3`.
#
# </details>
#
# All offsets are back:

# %%
answers = course.read_answers("harbour/4.3.1")
states = {group: loaded[group].state.value for group in loaded if loaded[group].type == "classic"}
answered = {group: answers["groups"][group]["state"] for group in states}

for group, state in sorted(states.items()):
    print(f"{group:<12} {state}")
print("states: ", end="")
course.compare_with_broker(states, answered, "4.3.1")
print("offsets: ", end="")
course.compare_with_broker(course.fetch_offsets(loaded, answers["offsets"]), answers["offsets"], "4.3.1")

# %% [markdown]
# ## What a load does
#
# 1. A broker becomes the leader of a partition of `__consumer_offsets`.
# 2. It reads the log, batch by batch, from the first record to the last one.
# 3. It applies each record to its memory: a value replaces the old value of its key, and a tombstone removes the key. An offset in a transaction waits for its marker.
# 4. At the end, the session timeout of each member begins again. From then on, the broker answers requests for these groups.
#
# For a healthy group, a failover is only a short wait: its members send their next heartbeats in time.

# %% [markdown]
# ## Record by record
#
# Each line is a record. After the arrow is its effect. Go through the log of partition 9 with *next*: below the lines is the coordinator's memory after this record. In a line, `23 and 24` are the records at the offsets 23 and 24:

# %%
# figure
course.LoadTape()

# %% [markdown]
# ## Exercise: replay
#
# Write `replay(lines)` for the new coordinator. It returns a dictionary. Each key is a pair `(group, partition)`. Its value is the offset that counts at the end. `course.read_lines` makes the lines, as in lesson 08. The logs of this exercise have no transactions, but they have group records:
#
# | `line.record_type` | `line.value` | effect |
# |---|---|---|
# | `"offset"` | a number | sets the offset |
# | `"offset"` | `None` | deletes the offset |
# | `"group"` | the generation | changes no offset |
# | `"group"` | `None` | deletes **all offsets** of the group, in these logs |
#
# <details><summary>Why only in these logs?</summary>
#
# In the new coordinator, the tombstone of a group removes only the group. Its offsets are **hidden**. A later commit of any partition, or a later group record, shows them again. Brokers write the tombstones of the offsets, too. So this happens only in logs of other programs.
#
# </details>

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
# Some groups have only offsets. Here are four groups with the generations in their group records, and their state after the load:

# %%
lines = course.read_lines(shop)
for name in ["billing", "dashboard", "fraud-check", "mailer"]:
    own = [line.value for line in lines if line.record_type == "group" and line.group == name]
    generations = ", ".join("deleted" if value is None else str(value) for value in own) or "no record"
    state = loaded[name].state.value if name in loaded else "unknown"
    print(f"{name:<12} {generations:<28} after the load: {state}")

# %% [markdown]
# - The last group record of `billing` has members, so the group is `Stable`.
# - `dashboard` and `fraud-check` have offsets and no group record. So they are simple groups, and `Empty`.
# - The last group record of `mailer` is a tombstone, so the group does not exist.

# %% [markdown]
# ## A record of an unknown type
#
# A newer release can have record types that an older release does not have. After a downgrade, these records are still in the log. A broker skips them, with a warning in its log: `Unknown record type 24 … Ignoring it`.
#
# This test log has two types that no release has. Real brokers loaded it:

# %%
course.print_crafted_log("b24")

# %% [markdown]
# ## A record that cannot be read
#
# An unknown **version** of a known type is different. The broker can read the key, but not the value. If it skipped the record, its answers about this offset or group could be wrong.
#
# In this log, the last record has value version 9, which no release has. `g` and `h` are two groups:

# %%
print(*course.read_crafted_lines("f-txn-after"), sep="\n")

# %% [markdown]
# The records 0 to 3 are good, and the marker has committed offset 1 of `g`. Still, [the load fails](../docs/handbook/glossary.md#failed-load). A consumer of `g` asks for its offset. The **new** coordinator has no groups of this partition. So it answers `NOT_COORDINATOR`, although it is the leader.
#
# *Predict*: what does a **classic** coordinator answer? Write `"the offset"`, `"an error"` or `"nothing committed"`.

# %%
# prediction
classic_answer = ...

# %%
recorded = course.read_answers("crafted")["f-txn-after"]["classic"]["offsets"]["f-txn-after.g.eg"]

course.reveal("classic_answer", classic_answer, "the offset" if recorded else "nothing committed")

# %% [markdown]
# <details><summary>Why, and what does a consumer do then?</summary>
#
# The classic coordinator fills its cache only at the end of a load. This load stopped before its end. So the cache is empty. But the coordinator treats the partition as loaded, and answers from the empty cache: −1 without an error.
#
# A new group gets the same answer. So the consumer starts where `auto.offset.reset` says. It reads everything again, or skips records. The broker accepts its new commits, so the old positions are soon overwritten. The only sign is one line in the broker's log, `Error loading offsets from __consumer_offsets-9`.
#
# With the new coordinator, consumers repeat their requests and read nothing. You notice this, and no position is lost.
#
# </details>

# %% [markdown]
# ## What stops a load
#
# A load reads every record, even if a newer record of the same key follows:
#
# | in the log | the load |
# |---|---|
# | an unknown record type | skips the record, since 3.4.1 |
# | a value of an unknown version | fails |
# | a value of zero bytes | fails |
# | a key or a value that is cut off, or no key | fails |
# | a null where a text must be, for example null metadata | fails |
# | key type 0 with value version 1 to 4 | fails since 4.1 |
# | records of the new protocols in a wrong order | can fail (lesson 13) |
#
# `kafkagroups check` finds rarer cases, too.

# %% [markdown]
# ## Exercise: which log loads?
#
# A broker of Kafka 4.3.1 starts after a power failure. Each of three logs has one problem:
#
# - **A**: the last batch is only half written.
# - **B**: a commit has a value of zero bytes. A later commit of the same key is good.
# - **C**: a group record has value version 7. The record is in a transactional batch, and the transaction was aborted.
#
# Which log does the broker load? Lessons 03 and 08 help. Write the letter as a text.

# %%
# exercise: which_log_loads
which_log_loads = ...

# %%
course.check("which_log_loads", which_log_loads)
# course.hint("which_log_loads")

# %% [markdown]
# ## How long a load takes
#
# During a load, all requests for groups of this partition get `COORDINATOR_LOAD_IN_PROGRESS`. A broker loads about **0.4 million records per second**. So the time depends on the number of records, and the cleaner keeps this number small. Here is the partition of lesson 10 before and after a pass:

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
# If only the leadership moves, the old leader [**unloads**](../docs/handbook/glossary.md#unload) the partition: it removes the groups and offsets from its memory. It answers waiting requests with `NOT_COORDINATOR`, and it writes nothing into the log. The clients find the next coordinator with FindCoordinator.

# %% [markdown]
# ## Where the classic coordinator differs
#
# The new coordinator applies each record **immediately** to the groups in memory. The classic coordinator collects offsets and group records in two maps, and builds the groups **at the end**. So some logs give different answers:
#
# | in the log | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | an offset, then the tombstone of its group | no group, and the offset is hidden | a simple group, because this tombstone removes no offset |
# | all offsets of a simple group were deleted | the group is Empty | no group |
# | only offsets of an aborted transaction | the group is Empty | no group |
# | a record that cannot be read | `NOT_COORDINATOR` | −1 without an error |
#
# <details><summary>What a tombstone deletes</summary>
#
# | the tombstone | in a load of the new coordinator | in a load of the classic coordinator |
# |---|---|---|
# | of an offset, outside of transactions | the committed offset and all pending offsets | only the committed offset |
# | of an offset, in a transactional batch | the same | only the pending offset of the same producer |
# | of a group | the group. Its offsets are hidden until a later record of the group | the group. Its offsets stay, as a simple group |
#
# A running classic coordinator deletes the pending offsets, too. So its answer can change with the next load (lesson 09).
#
# </details>
#
# <details><summary>Rare cases and other versions</summary>
#
# A producer can have a producer id without transactions, to send each batch only once. Coordinators never write such batches, but a program can. The new coordinator treats an offset in this batch as pending, and no marker ever ends this. In the classic coordinator, the offset counts immediately.
#
# A classic load ends with one more check. If a deleted group still has a pending commit, the broker writes the error `Unexpected unload of active group`. This error has no effect: the broker answers for all groups of the partition.
#
# After a change of the number of partitions (lesson 02), two partitions can have records of one group. The classic coordinator keeps the group that it loaded first.
#
# Before Kafka 3.4.1, an unknown record type also stops the load.
#
# </details>

# %% [markdown]
# ## An incident: partition 9 does not load
#
# At 3 am, the consumers of `billing` and `fraud-check` repeat their requests and read nothing. The log of their broker (4.3.1) has this line:
#
# ```
# ERROR … Failed to load metadata from __consumer_offsets-9 … due to Deserializing record DefaultRecord(offset=45, …, value=0 bytes) …
# ```
#
# A faulty program had written record 45 with a value of zero bytes. The coordinator noticed this at its own next write: it expected offset 45, but its record got offset 46. So its memory and the log differed, and it loaded the partition again. Only the new coordinator does this. This load fails, and every later one.

# %% [markdown]
# **Step 1: copy the folder.** Copy all `.log` files in the order of their names, so that the active segment comes last. List the files before and after: if a closed segment has changed, copy again.
#
# <details><summary>The commands</summary>
#
# ```
# mkdir -p copy/__consumer_offsets-9
# ls -l __consumer_offsets-9/*.log > before.txt
# cp -p __consumer_offsets-9/*.log copy/__consumer_offsets-9/
# ls -l __consumer_offsets-9/*.log > after.txt
# ```
#
# </details>
#
# These are the last three records of our copy:

# %%
folder = course.copy_failing_partition()

for line in course.read_lines(folder / "copy/__consumer_offsets-9")[-3:]:
    print(line)

# %% [markdown]
# **Step 2: ask for the remedy.** `kafkagroups check` loads the copy as a broker does:

# %%
course.run_command("kafkagroups check copy/__consumer_offsets-9 --kafka 4.3.1", folder)

# %% [markdown]
# **Step 3: carry out the remedy.** `kafkagroups edit` writes a shorter copy, which ends before record 45. You lose all later records, too. Here this is only record 46, a commit of `billing`:

# %%
course.run_command("kafkagroups edit copy/__consumer_offsets-9 --out shorter/__consumer_offsets-9 --cut 45", folder)
course.run_command("kafkagroups check shorter/__consumer_offsets-9 --kafka 4.3.1", folder)

# %% [markdown]
# **Step 4: prove it.** The shorter copy is the log of the night, so we know the answers of a real broker:

# %%
groups = kg.load(folder / "shorter/__consumer_offsets-9")
names = ["billing", "fraud-check"]

for name in names:
    print(name, *[f"{partition} = {commit.offset}" for partition, commit in sorted(groups[name].offsets.items())], sep="   ")
course.compare_with_broker(course.fetch_offsets(groups, names), {name: answers["offsets"][name] for name in names}, "4.3.1")

# %% [markdown]
# **Step 5: bring the partition back.** Only one offset is old: `orders-0` of `billing` is 50 instead of 60.
#
# 1. Stop the faulty program, the consumers of both groups, and **all** brokers with a replica of partition 9. Every replica has record 45. Meanwhile, everything on these brokers is unavailable: with three brokers, the whole cluster.
# 2. On each of these brokers, **move** the partition's folder out of the log directory, and keep it. Make a new folder with the same name and owner. Put `partition.metadata` and the `.log` files of the shorter copy there. Start the brokers.
# 3. When the group `billing` is Empty, set the lost offset: `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --topic orders:0 --reset-offsets --to-offset 60 --execute`. Otherwise `billing` reads ten records again.
# 4. Start the consumers.
#
# <details><summary>Checks, the way back, and one bad replica</summary>
#
# - A cut removes the later records of **all** groups of the partition. In a busy partition, these can be hours of commits. Before you cut, print them: `kafkagroups dump copy/__consumer_offsets-9 --from 46`. Set them again as in point 3.
# - If some brokers still have Kafka 3.9, do not move the partition to them. Their load also fails, and then they answer −1 without an error.
# - The broker builds the missing files of the folder again. Do not edit the checkpoint files of the log directory.
# - Before you start the consumers, search the leader's log for `Finished loading of metadata from __consumer_offsets-9`.
# - To go back, stop the same brokers, and put the old folders back.
# - If only one replica has the record, stop only its broker. Another replica becomes the leader and loads. Move the folder away and start the broker: it copies the partition from the leader.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>When does each coordinator build the groups of a partition in a load?</summary>
#
# The new coordinator applies each record immediately to the groups in memory. The classic coordinator collects offsets and group records in two maps. It builds the groups at the end.
#
# </details>
#
# <details><summary>What does a broker do when only the leadership of a partition moves away?</summary>
#
# It removes the groups and offsets from its memory. It answers waiting requests with `NOT_COORDINATOR`. It writes nothing into the log. A commit that waits in this moment may still count: if its record stays in the log, the next coordinator loads it.
#
# </details>
#
# ## In five lines
#
# - The next broker reads the whole log of the partition, from the first record to the last one.
# - The newest value of each key counts. Every commit that was answered with `NONE` is in the log.
# - A rebalance in progress is lost. The members join again.
# - A load skips unknown record types. A record that cannot be read stops the load of its partition.
# - A load takes about one second for 0.4 million records.

# %% [markdown]
# ## For your consumer
#
# - After `COORDINATOR_LOAD_IN_PROGRESS` and `NOT_COORDINATOR`, the client repeats its requests. Do not stop it, unless the load has failed (below).
# - With a classic coordinator, set `auto.offset.reset=none`. If a load fails, the consumer then stops with an error instead of skipping records.
# - If a load takes longer than `default.api.timeout.ms` (60 seconds), `commitSync` throws a `TimeoutException`. Commit again later.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `Error loading offsets`, `Failed to load metadata` | `kafkagroups check PATH --kafka 4.3.1` | It names the record that stops the load, the groups that are lost, and the remedy | Stop the consumers of these groups. Then follow the steps of the incident. Do not move the leadership: normally, each replica has this record |
# | Which broker loads partition 9? | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | It prints the leader of each partition | Search the log of this broker for `Finished loading of metadata from __consumer_offsets-9` |
# | Groups are unavailable for minutes after a restart | `kafkagroups stats PATH` | The number of records, and why they were not cleaned | Wait. Then repair the cleaner: lesson 10 |
# | Will the next failover work? | `kafkagroups check FOLDER --kafka 4.3.1`. FOLDER has all partitions | It says which partitions load, before and after cleaning | Reading is safe |
# | All brokers are lost | `kafkagroups rescue plan FOLDER --out plan.json` | It reads all groups and offsets from the files | `kafkagroups rescue apply plan.json --bootstrap localhost:9092` shows what it would set in a new cluster |
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
# How a partition gets another leader belongs to replication.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [12 · Loading at scale](12_loading_at_scale.ipynb): how long a failover takes, and how it can be faster.
