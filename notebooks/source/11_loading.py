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
# 2. The newest value of a key counts. A tombstone removes it.
# 3. What was never written is **gone**: a rebalance in progress, waiting requests, the times of the last heartbeats.
# 4. One record that cannot be read costs the **whole partition**.
#
# ## The night
#
# The brokers of Harbour Coffee were killed in the middle of a rebalance of `billing`. Clients had asked the 4.3.1 broker just before, and they asked the next broker on the same files:

# %%
import kafkagroups as kg
from kafkagroups import course

before = course.read_answers("harbour/4.3.1", "before.json")["groups"]["billing"]
print("before the crash:", before["state"], "with", *sorted(member["client_id"] for member in before["members"]))

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
# The group record of the last **finished** rebalance has two members. The third one had joined, but the rebalance had no end, so no record names it.
#
# </details>
#
# All offsets are back. The real broker answered the same:

# %%
answers = course.read_answers("harbour/4.3.1")
states = {group: loaded[group].state.value for group in loaded if loaded[group].type == "classic"}
answered = {group: answers["groups"][group]["state"] for group in states}

for group, state in sorted(states.items()):
    print(f"{group:<12} {state}")
course.compare_with_broker(states, answered, "4.3.1")
course.compare_with_broker(course.fetch_offsets(loaded, answers["offsets"]), answers["offsets"], "4.3.1")

# %% [markdown]
# After a load, each member gets a full session timeout. A member that lives sends its next heartbeat in time and goes on reading. So a failover costs a healthy group nothing but a short wait.
#
# ## Replay a log by hand
#
# This is the partition of `mailer`. The group came, committed, left and was deleted. `course.read_lines` returns one line for each record:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12")):
    print(line)

# %% [markdown]
# ## Exercise: replay
#
# Write `replay(lines)`. It returns a dictionary with the keys `(group, partition)` and the offsets that count at the end. Only lines with `line.record_type == "offset"` matter. `line.value` is the committed offset, or `None` for a tombstone. Leave transactions out. Lesson 08 had them.

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
# Which groups have a group record, and what does the load make of them?

# %%
lines = course.read_lines(shop)
for name in ["billing", "dashboard", "fraud-check", "mailer"]:
    own = [line.value for line in lines if line.record_type == "group" and line.group == name]
    generations = ", ".join("deleted" if value is None else str(value) for value in own) or "none"
    print(f"{name:<12} generations: {generations:<28} after the load: {loaded[name].state.value if name in loaded else 'unknown'}")

# %% [markdown]
# - `billing` has a record with members. It is `Stable`.
# - `dashboard` and `fraud-check` have only offsets. They become `Empty` groups: simple groups.
# - `mailer` ends with a tombstone. The coordinator does not know it.
#
# The other groups of this log belong to the new protocols. Lesson 13 loads them.

# %% [markdown]
# ## A record that cannot be read
#
# This log was made for a test. Its last record has value version 9, which no release knows. The offset of the group `g` was committed long before it:

# %%
broken = course.find_data("crafted/f-txn-after")
print(*course.read_lines(broken), sep="\n")

# %% [markdown]
# A consumer of `g` asks for its offset. With the **new** coordinator, the load has failed, and the answer is the error `NOT_COORDINATOR`.
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
# It gets −1 without an error. So it believes that it is new, and starts where `auto.offset.reset` says. It reads everything again, or skips to the end. And the broker accepts new commits.
#
# The only sign is one line in the broker's log: `Error loading offsets from __consumer_offsets-379`. With the new coordinator, the consumers stop and repeat their requests. Everybody notices, and nothing is lost.
#
# </details>
#
# What fails a load, and what does not:
#
# | in the log | the load |
# |---|---|
# | a value of an unknown version, a value of zero bytes, a key that is cut off | fails |
# | an unknown record type | goes on; the record is skipped |
# | a torn batch at the end | goes on; the broker's recovery removed it before |
# | records of the new protocols in a wrong order | can fail: lesson 13 |

# %% [markdown]
# ## Exercise: which log loads?
#
# A broker of Kafka 4.3.1 starts after a power failure. It must load one of these logs. Each one has thousands of good records, and one that is not:
#
# - **A**: the last batch is only half written.
# - **B**: in the middle, a commit has a value of zero bytes.
# - **C**: in the middle, a group record has value version 7.
#
# Which log does it load? Write the letter as a text.

# %%
# exercise: which_log_loads
which_log_loads = ...

# %%
course.check("which_log_loads", which_log_loads)
# course.hint("which_log_loads")

# %% [markdown]
# ## How long a load takes
#
# During a load, all requests for groups of the partition get `COORDINATOR_LOAD_IN_PROGRESS`. A real broker loads about **0.4 million records per second**. So the time depends on the number of records, and the cleaner decides about that:

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
# The cleaner of a broker has been dead for months. A partition has 12 million records in 900 MB. After a cleaning, 40,000 records would remain. The broker dies **now**. For how many seconds are the groups of this partition unavailable? Write a whole number.

# %%
# exercise: seconds_to_load
seconds_to_load = ...

# %%
course.check("seconds_to_load", seconds_to_load)
# course.hint("seconds_to_load")

# %% [markdown]
# ## Record by record
#
# Go through the log of partition 9. On the right is what the coordinator knows after each record:

# %%
# figure
course.LoadStepper(course.find_data("harbour/4.3.1/__consumer_offsets-9"), "new", shown_offset=1)

# %% [markdown]
# ## Where the classic coordinator differs
#
# The classic loader **collects**: offsets in one map, groups in another. At the end, it makes groups of them. The new one **lives through** the log: it applies each record to the groups that exist at this moment.
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | an offset, then the tombstone of its group | the group and its offset are gone | the offset comes back as a simple group |
# | all offsets deleted | the group stays, Empty | no group |
# | only an aborted transaction | an Empty group | no group |
# | a producer id, but no transaction | waits for a marker | counts |
# | a record that cannot be read | `NOT_COORDINATOR` | no offsets, no error |
#
# The first four lines were made as logs, and real brokers loaded them. `Dead` is their word for a group that they do not know:

# %%
cases = {
    "d-c-gt": "an offset, then the tombstone of its group",
    "d-t-all": "all offsets deleted",
    "b09": "only an aborted transaction",
    "t-idem": "a producer id, but no transaction",
}
for case, what in cases.items():
    print(what)
    for coordinator, version in [("classic", "3.9.2"), ("new", "4.3.1")]:
        groups = kg.load(course.find_data(f"crafted/{case}"), coordinator)
        said = course.read_answers("crafted")[case]
        name = said["groups"][0]
        state = groups[name].state.value if name in groups else "Dead"
        print(f"    {coordinator:<8} {state:<6}", end=" ")
        course.compare_with_broker(state, said[coordinator]["groups"][name]["state"], version)

# %% [markdown]
# <details><summary>Other versions</summary>
#
# In Kafka 2.8 and older, an unknown record type also fails the load. The classic loader has one more check. If the last record of a group is a tombstone and a pending commit keeps the group in memory, it fails with `Unexpected unload of active group`. This comes last, so all groups are served.
#
# </details>
#
# ## In five lines
#
# - The whole log of the partition, from the first record to the last.
# - The newest value of each key counts.
# - A rebalance in progress is lost, and nothing else.
# - One unreadable record stops the load of its partition.
# - Records, divided by 0.4 million, are the seconds of a failover.

# %% [markdown]
# ## For your consumer
#
# - `COORDINATOR_LOAD_IN_PROGRESS` and `NOT_COORDINATOR` are no reason to stop. The client repeats its requests.
# - `auto.offset.reset=none` protects against the silent answer of a classic coordinator. The consumer stops with an error instead of skipping records.
# - `default.api.timeout.ms` (60 s) is how long a commit is repeated. A load can take longer.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `Error loading offsets`, `Failed to load metadata` | `kafkagroups check PATH --kafka 4.3.1` | It names the record that stops the load, and the groups that are lost | Stop the consumers of these groups. Follow the remedy that it prints |
# | Groups are unavailable for minutes after a restart | `kafkagroups stats PATH` | The number of records, and why they were not cleaned | Wait. Then repair the cleaner: lesson 10 |
# | Will the next failover work? | `kafkagroups check FOLDER --kafka 4.3.1`. FOLDER has all partitions | It judges each partition, also as the cleaner could leave it | Reading is safe |
# | All brokers are lost | `kafkagroups rescue plan FOLDER --out plan.json` | It reads all groups and offsets from the files | `kafkagroups rescue apply plan.json --bootstrap localhost:9092` shows what it would set in a new cluster |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.3.1) | where (3.9.2) |
# |---|---|---|
# | reading | `CoordinatorLoaderImpl` | `GroupMetadataManager.doLoadGroupsAndOffsets` |
# | applying a record | `GroupCoordinatorShard.replay` | `loadGroup` |
# | session timeouts after the load | `GroupMetadataManager.onLoaded` | `GroupCoordinator.onGroupLoaded` |
# | unloading | `CoordinatorRuntime.scheduleUnloadOperation` | `removeGroupsForPartition` |
#
# </details>
#
# ## What we left out, and why
#
# How a partition gets a new leader is replication, and another course. Unloading is simple: a broker that loses the leadership forgets the groups and answers waiting requests with `NOT_COORDINATOR`. It writes nothing.
#
# **Next:** [12 · Loading at scale](12_loading_at_scale.ipynb): when a load can be divided, and when it is worth it.
