# %% [markdown]
# # 11 · Loading
#
# **A broker dies. How does the next one rebuild everything?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | rebuild the offsets of a group from a log; say what no failover brings back; say what one unreadable record costs; say how long a load takes | {{minutes}} | no |
#
# ```
#  the log of partition 9                                memory of the next coordinator
#
#    3: billing orders-0 = 5                      ──▶  set
#   11: billing orders-0 = 11                     ──▶  replace        billing      orders-0   50
#   23: fraud-check payments-0 = 10, producer 1   ──▶  wait                        orders-1   51
#   25: producer 1 commits                        ──▶  now it counts  fraud-check  payments-0 25
#    …  deleted                                   ──▶  remove
#       from the first record to the last                 only then, it answers
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. The next coordinator reads the **whole** log of the partition, and nothing else.
# 2. The newest value of a key counts. A tombstone removes its key.
# 3. What was never written is **lost**: a rebalance in progress, requests without an answer, and the times of the last heartbeats.
# 4. One record that cannot be read stops the load of the **whole partition**.

# %% [markdown]
# ## The night
#
# The brokers of Harbour Coffee were killed in the middle of a rebalance of `billing`. Clients had asked the 4.3.1 broker about its groups shortly before that. Then a new broker was started with the same files. The clients asked it again. This was the answer about `billing` before the crash:

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
# The group record of the last **finished** rebalance has two members. `billing-3` had joined, but the rebalance was not finished. So no record names it.
#
# </details>
#
# All offsets are back, too. The first line below compares the states of all groups with the answers of the real broker. The second line compares all offsets:

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
# 4. At the end, each member gets a full session timeout. From now on, the broker answers requests for these groups.
#
# A member that is still running sends its next heartbeat in time, and it continues to read. So a failover costs a healthy group only a short wait.

# %% [markdown]
# ## Record by record
#
# Go through the log of partition 9 with *next*. Next to the log, you see what the coordinator has in memory after each record:

# %%
# figure
course.LoadStepper(course.find_data("harbour/4.3.1/__consumer_offsets-9"), "new", shown_offset=1)

# %% [markdown]
# ## Replay a log by hand
#
# This is the log of `mailer`. The group joined, committed, left, and was deleted. `course.read_lines` returns one line for each record, as in lesson 08:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12")):
    print(line)

# %% [markdown]
# ## Exercise: replay
#
# Write `replay(lines)`. It returns a dictionary with the keys `(group, partition)` and the offsets that count at the end. Only lines with `line.record_type == "offset"` matter. `line.value` is the committed offset, or `None` for a tombstone. The logs of this exercise have no transactions.

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
# Some groups have group records, and others have only offsets. Here are four groups, with the generations in their group records and with their state after the load:

# %%
lines = course.read_lines(shop)
for name in ["billing", "dashboard", "fraud-check", "mailer"]:
    own = [line.value for line in lines if line.record_type == "group" and line.group == name]
    generations = ", ".join("deleted" if value is None else str(value) for value in own) or "none"
    print(f"{name:<12} generations: {generations:<28} after the load: {loaded[name].state.value if name in loaded else 'unknown'}")

# %% [markdown]
# - `billing`: its last group record has members, so the group is `Stable`.
# - `dashboard` and `fraud-check`: they have offsets and no group record, so each is a simple group, and `Empty`.
# - `mailer`: its last group record is a tombstone, so the group does not exist.
#
# `loyalty` and `tasters` are groups of the new protocols. Lesson 13 loads them.

# %% [markdown]
# ## A record of an unknown type
#
# A newer release can have record types that an older release does not have. After a downgrade, such records are still in the log. The next log was made for a test. It has two types that no release has, and real brokers loaded it. `g` stands for the group:

# %%
path = course.find_data("crafted/b24")
recorded = course.read_answers("crafted")["b24"]
name = recorded["groups"][0]
print(*[str(line).replace(name, "g") for line in course.read_lines(path)], sep="\n")
for coordinator, version in [("new", "4.3.1"), ("classic", "3.9.2")]:
    offsets = course.fetch_offsets(kg.load(path, coordinator), [name])
    print(f"    {coordinator:<8} offsets: {len(offsets[name])}", end="   ")
    course.compare_with_broker(offsets, recorded[coordinator]["offsets"], version)

# %% [markdown]
# Both brokers skip such records, with a warning in their log, for example `Unknown record type 24 … Ignoring it`. The load goes on, and the offsets of `g` are there.

# %% [markdown]
# ## A record that cannot be read
#
# An unknown **version** of a known type is different. The broker knows that the record belongs to an offset or to a group. But it cannot read the record, so it cannot know what is true.
#
# In the next log, the last record has value version 9, which no release has. `g` and `h` are two groups:

# %%
broken = course.find_data("crafted/f-txn-after")
names = {"f-txn-after.g.eg": "g", "f-txn-after.h.8k": "h"}
for line in course.read_lines(broken):
    print(line if line.group is None else str(line).replace(line.group, names[line.group]))

# %% [markdown]
# The records before it are good, and the offset 1 of `g` was committed by the marker. Still, the load fails. A consumer of `g` asks for its offset. The **new** coordinator answers with the error `NOT_COORDINATOR`.
#
# *Predict*: what does a **classic** coordinator answer? Write `"the offset"`, `"an error"` or `"nothing committed"`.

# %%
# prediction
classic_answer = ...

# %%
recorded = course.read_answers("crafted")["f-txn-after"]["classic"]["offsets"]["f-txn-after.g.eg"]

course.reveal("classic_answer", classic_answer, "the offset" if recorded else "nothing committed")

# %% [markdown]
# <details><summary>What does a consumer do then?</summary>
#
# It gets −1 without an error. That is the answer for a new group, so it starts where `auto.offset.reset` says. It reads everything again, or skips records. The broker also accepts its new commits, so the old positions are soon overwritten.
#
# The only sign is one line in the broker's log: `Error loading offsets from __consumer_offsets-379`. With the new coordinator, the consumers repeat their requests and read nothing. You notice it, and no position is lost.
#
# </details>

# %% [markdown]
# ## What stops a load
#
# A load reads every record, even if a newer record of the same key follows. The table shows what it does with unusual records:
#
# | in the log | the load |
# |---|---|
# | an unknown record type | skips the record |
# | a value of an unknown version | fails |
# | a value of zero bytes | fails |
# | a key that is cut off | fails |
# | records of the new protocols in a wrong order | can fail, as lesson 13 shows |

# %% [markdown]
# ## Exercise: which log loads?
#
# A broker of Kafka 4.3.1 starts after a power failure. There are three logs with thousands of good records. Each log has one problem:
#
# - **A**: the last batch is only half written.
# - **B**: a commit has a value of zero bytes. A later commit of the same key is good.
# - **C**: a group record has value version 7. It is in a transactional batch, and the transaction was aborted.
#
# Which log does the broker load? Lessons 03 and 08 help, too. Write the letter as a text.

# %%
# exercise: which_log_loads
which_log_loads = ...

# %%
course.check("which_log_loads", which_log_loads)
# course.hint("which_log_loads")

# %% [markdown]
# ## How long a load takes
#
# During a load, all requests for groups of this partition get `COORDINATOR_LOAD_IN_PROGRESS`. A real broker loads about **0.4 million records per second**. So the time depends on the number of records, and the cleaner keeps this number small. Here is the partition of lesson 10 before and after a pass. Both logs give the same answers:

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
# The cleaner threads of all brokers have been dead for months. A partition has 12 million records in 900 MB. A pass of the cleaner would leave 40,000 of them. The leader dies **now**, before any cleaning. For how many seconds does the next broker load this partition? Write a whole number.

# %%
# exercise: seconds_to_load
seconds_to_load = ...

# %%
course.check("seconds_to_load", seconds_to_load)
# course.hint("seconds_to_load")

# %% [markdown]
# ## The broker that loses a partition
#
# Sometimes the old leader is alive, and the leadership only moves. Then the old leader **unloads** the partition. It removes the groups and offsets from its memory. Requests that still wait, for example a JoinGroup, are answered with `NOT_COORDINATOR`. It writes nothing into the log.
#
# The clients then send FindCoordinator again and find the next broker. The log of the old broker has the line `Finished unloading metadata for __consumer_offsets-9`. The log of the next one has `Finished loading of metadata from __consumer_offsets-9`, with the number of records and the time.

# %% [markdown]
# ## Where the classic coordinator differs
#
# The new loader applies each record **immediately** to the groups in memory. The classic loader first collects offsets in one map and group records in another one. Only **at the end** does it build the groups. So some logs give different answers:
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | an offset, then the tombstone of its group | the group and its offset are gone | the offset comes back as a simple group |
# | offsets without a group record, and all of them were deleted | the group stays, Empty | there is no group |
# | only offsets of an aborted transaction | an Empty group | there is no group |
# | an offset in a batch with a producer id, but not in a transaction | pending until a marker | counts immediately |
# | a record that cannot be read | `NOT_COORDINATOR` | −1 without an error |
# | unloading | `NOT_COORDINATOR` for waiting requests | the same |
#
# Real brokers loaded logs for the first four rows. `Dead` is their answer for a group that does not exist:

# %%
cases = {
    "d-c-gt": "an offset, then the tombstone of its group",
    "d-t-all": "all offsets were deleted",
    "b09": "only offsets of an aborted transaction",
    "t-idem": "a producer id, but no transaction",
}
for case, what in cases.items():
    print(what)
    for coordinator, version in [("new", "4.3.1"), ("classic", "3.9.2")]:
        groups = kg.load(course.find_data(f"crafted/{case}"), coordinator)
        recorded = course.read_answers("crafted")[case]
        name = recorded["groups"][0]
        state = groups[name].state.value if name in groups else "Dead"
        offsets = course.fetch_offsets(groups, [name])[name]
        ours = state, offsets
        brokers = recorded[coordinator]["groups"][name]["state"], recorded[coordinator]["offsets"][name]
        print(f"    {coordinator:<8} {state:<6} offsets: {len(offsets)}", end="   ")
        course.compare_with_broker(ours, brokers, version)

# %% [markdown]
# <details><summary>Other versions</summary>
#
# Before Kafka 3.4.1, an unknown record type also stops the load.
#
# The classic loader has one more check at its end. Suppose that the last group record of a group is a tombstone, and that the group still has a pending commit. Then the load fails with `Unexpected unload of active group`. At this time, all groups are already in memory, so the broker answers for all of them.
#
# If a group is already in memory, for example from another partition, the classic loader keeps that group.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - The next broker reads the whole log of the partition, from the first record to the last one.
# - The newest value of each key counts. Every commit that was answered with `NONE` is in the log.
# - A rebalance in progress is lost. The members join again.
# - Unknown record types are skipped. A record that cannot be read stops the load of its partition.
# - A load takes about one second for 0.4 million records.

# %% [markdown]
# ## For your consumer
#
# - `COORDINATOR_LOAD_IN_PROGRESS` and `NOT_COORDINATOR` are no reason to stop. The client repeats its requests.
# - Set `auto.offset.reset=none` if a broker with a classic coordinator serves your group. If a load fails there, the consumer stops with an error instead of skipping records.
# - A client repeats a commit for `default.api.timeout.ms` (60 seconds). If a load takes longer, `commitSync` throws a `TimeoutException`. Commit again later.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `Error loading offsets`, `Failed to load metadata` | `kafkagroups check PATH --kafka 4.3.1` | It names the record that stops the load, and the groups that are lost | Stop the consumers of these groups. Follow the remedy that it prints. Another broker has the same record, so it does not help to move the leadership |
# | Which broker loads partition 9? | `kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic __consumer_offsets` | It prints the leader of each partition | Search the log of this broker for `Finished loading` |
# | Groups are unavailable for minutes after a restart | `kafkagroups stats PATH` | The number of records, and why they were not cleaned | Wait. Then repair the cleaner: lesson 10 |
# | Will the next failover work? | `kafkagroups check FOLDER --kafka 4.3.1`. FOLDER has all partitions | It says for each partition whether it loads, before and after a cleaning | Reading is safe |
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
# How a partition gets a new leader is replication, which is another course. A broker can also lose the partition again while it still loads it. Then it stops the load.
#
# **Next:** [12 · Loading at scale](12_loading_at_scale.ipynb): when a load can be divided, and when it is worth it.
