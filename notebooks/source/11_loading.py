# %% [markdown]
# # 11 · Loading
#
# **A broker dies. How does the next one know everything?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | rebuild a coordinator's memory from a log with a loop of your own, say what no failover brings back, tell how two coordinators read one log, and what one broken record costs | 30 + 25 | no |
#
# ```
#  the log of partition 9                                     the next coordinator's memory
#
#    2: billing orders-0 = 5                      ──▶  set
#   10: billing orders-0 = 11                     ──▶  overwrite        billing      orders-0     50
#   23: fraud-check payments-0 = 10, producer 1   ──▶  let it wait                   orders-1     51 …
#   24: producer 1 commits                        ──▶  now it counts    fraud-check  payments-0   25 …
#    …  … deleted                                 ──▶  remove
#       once, from the first record to the last                         then, and only then, it answers
# ```
#
# Five things to hold on to:
#
# 1. Nobody hands anything over. The next coordinator reads the **whole** log of the partition, and nothing else.
# 2. The newest value of a key counts, a tombstone removes it. That is nearly all.
# 3. What was never written is **gone**: a rebalance that was under way, who was waiting, when a member was last heard of.
# 4. A transaction's offset waits for its marker. Where two offsets compete, the place of the **offset's** record decides, never the marker's.
# 5. One record that cannot be read costs the **whole partition**.

# %% [markdown]
# ## The night
#
# The shop's `billing` has two consumers. `billing-1` hangs: it reads nothing, but its heartbeats go on. A third one, `billing-3`, knocks. The
# broker begins a *rebalance*, a new sharing-out, and waits for `billing-1`. It waits in vain. In the middle of it `billing-1` commits once more, and the broker
# takes it. Then the lights go out: clients and broker are killed.
#
# Somebody had asked the broker just before (`before.json`), and asked the one that was started on its files (`answers.json`).

# %%
import json
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

shop = course.find_data("harbour/3.9.2")
before, after = (json.loads(Path(shop, name).read_text()) for name in ["before.json", "answers.json"])

billing = before["groups"]["billing"]
print("before the crash:", billing["state"], "with", [member["client_id"] for member in billing["members"]])

# %% [markdown]
# *Predict*: how many members has `billing` after the load?

# %%
# prediction
members_after = ...

# %%
loaded = kg.load(shop, coordinator="classic")
course.compare_with_prediction(members_after, len(loaded["billing"].members))
print("the state of billing:", loaded["billing"].state.value)

states = {group: loaded[group].state.value if group in loaded else "Dead" for group in after["groups"]}
print("\nthe state of every group, after the crash:")
course.compare_with_broker(states, {group: said["state"] for group, said in after["groups"].items()}, "3.9.2")
print("every offset, *before* the crash:")
course.compare_with_broker(course.fetch_offsets(loaded, before["offsets"]), before["offsets"], "3.9.2")

# %% [markdown]
# Every offset is back, also those that `billing-1` committed at the very end. The rebalance is not: a group's record is written **once** for each
# rebalance, when it is over and the new shares are known. It names the members and says nothing of a state; so after a load a group with members is *Stable*, and one
# without is *Empty*. A classic group has no third state after a load. Of `billing-3` nothing is left.
#
# Had the broker died a little earlier, when `billing-2` had joined (`JoinGroup`) and the shares were not yet known (`SyncGroup`), the record of generation 6, number 35, would
# not be there, and the next broker would know the *previous* generation:

# %%
nine = course.find_data("harbour/3.9.2/__consumer_offsets-9")
for until in [35, 36]:
    group = kg.load(nine, coordinator="classic", until=until)["billing"]
    print(f"after {until} records: generation {group.generation}, {[member.client_id for member in group.members.values()]}")

steps = {step["step"]: step for step in json.loads(Path(shop, "acts.json").read_text())}
print("\nheartbeats with the names of the dead, sent to the restarted broker:")
for who, answer in steps["ghosts knock"]["answer"].items():
    print(f"    {who:<45} {answer}")

# %% [markdown]
# The two dead members of generation 6 are welcome. Whatever was left of their time before the crash, each gets a full session from the load on, and
# when that runs out unheard, they are out too. So after a failover nothing happens to a group whose consumers are well: they go on where they were.
#
# ## Replay, by your own hand
#
# Here is partition 12, where `mailer` came, committed, left, and was deleted. `course.read_lines` gives a line for each record:

# %%
for line in course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-12")):
    print(line)

# %% [markdown]
# | of a `line` | what |
# |---|---|
# | `line.record_offset` | the record's own place in the log |
# | `line.record_type` | `"offset"`, `"group"`, `"commit"` or `"abort"`: the last two are markers |
# | `line.group`, `line.partition` | whose offset, as `"mailer"` and `"orders-0"` |
# | `line.value` | the committed offset (of a group the generation), `None`: a tombstone |
# | `line.producer` | the transaction's producer, `None` outside transactions |
#
# Write `replay(lines)`: a dictionary of `(group, partition)` and the offset that counts at the end. Only lines about an offset matter;
# forget transactions for now.

# %%
# exercise: replay
def replay(lines):
    ...

# %%
course.check("replay", replay)
# course.hint("replay")
replay = course.ensure_correct("replay", replay)

# %% [markdown]
# Now the whole shop, all its partitions. Two offsets come out wrong, both of one group. *Which group, and why?* Guess before you run it.

# %%
mine = replay(course.read_lines(shop))
theirs = {(group, name): there["offset"] for group, offsets in after["offsets"].items() for name, there in offsets.items()}

for key in sorted(mine.keys() | theirs.keys()):
    if mine.get(key) != theirs.get(key):
        print(*key, "is", mine.get(key), "by your loop, and the broker answered", theirs.get(key))

# %% [markdown]
# ## Transactions
#
# `fraud-check` commits in transactions: its offsets count only when a marker of the same producer says so (lesson 03). The loader lets them wait, by producer.
# The first transaction was committed, the second aborted. During the third, at 30, somebody set `payments-0` back by hand, with an ordinary commit. The fourth nobody ever ended:
#
# ```
# 22: fraud-check payments-1 = 11, producer 1         28: fraud-check payments-1 = 31, producer 1
# 23: fraud-check payments-0 = 10, producer 1         29: fraud-check payments-0 = 30, producer 1
# 24: producer 1 commits                              30: fraud-check payments-0 = 25
# 25: fraud-check payments-1 = 21, producer 1         31: producer 1 commits
# 26: fraud-check payments-0 = 20, producer 1         32: fraud-check payments-1 = 41, producer 1
# 27: producer 1 aborts                               33: fraud-check orders-0 = 40, producer 1
# ```
#
# *Predict*: what is the offset of `payments-0` now? Below you then step through the log with *previous* and *next*, or drag to a record; beside it stands
# what a coordinator would know if the log ended there.

# %%
# prediction
payments_0 = ...

# %%
course.compare_with_prediction(payments_0, loaded["fraud-check"].offsets[kg.TopicPartition("payments", 0)].offset)

course.LoadStepper(nine, "classic", first_offset=22, last_offset=33, shown_offset=31)

# %% [markdown]
# At 31 the transaction was committed, and all the same 29 did not count. An offset has its place from the moment it is written; the marker only says *whether* it
# counts, not *when*. 30 was written later than 29, so 30 is newer.
#
# Write `replay_transactions(lines)`, with the same result as before. An offset with a producer waits. A marker of that producer ends the wait for
# all of it: after an abort it is forgotten; after a commit each offset counts, unless a newer line (`line.record_offset`!) of its key is there already. (Tombstones come outside of transactions only.)

# %%
# exercise: replay_transactions
def replay_transactions(lines):
    ...

# %%
course.check("replay_transactions", replay_transactions)
# course.hint("replay_transactions")
replay_transactions = course.ensure_correct("replay_transactions", replay_transactions)

# %%
print("every offset of the shop, by that loop:")
course.compare_with_broker(replay_transactions(course.read_lines(shop)), theirs, "3.9.2")
print("and what waits, when a consumer asks for stable offsets only:")
waits = course.fetch_offsets(loaded, after["offsets"], require_stable=True)
course.compare_with_broker(waits, after["stable_every_live_partition_named"], "3.9.2")
print("fraud-check:", {name: said if isinstance(said, str) else said["offset"] for name, said in sorted(waits["fraud-check"].items())})

# %% [markdown]
# You have written the heart of a coordinator's loader. `UNSTABLE_OFFSET_COMMIT` means "ask again": 41 and 40 wait for a marker that nobody is going to write, until the transaction times out and is aborted.
#
# ## Groups that have no record
#
# `dashboard` has never joined anything: it chooses its partitions itself, and only commits. Which groups have a record of their own, and what does the load make of them?

# %%
lines = course.read_lines(shop)
for name in sorted(after["groups"]):
    own = [line.value for line in lines if line.record_type == "group" and line.group == name]
    print(f"{name:<12} generations {own!s:<24} → {states[name]}")

# %% [markdown]
# No record, and an offset: the coordinator makes an *Empty* group of it, generation 0 (a *simple* group). `None` is a group's tombstone: `mailer` and `promo` are not known
# any more, and that is what `Dead` means when a broker is asked. Their offsets had tombstones of their own, in the same batch.
#
# ## Two coordinators
#
# Up to 3.9 the coordinator was written in Scala: here *classic*. Kafka 4 has another, in Java: *new*. Both read the same bytes. About how many of the shop's groups
# do they disagree?

# %%

for version in ["1.0.1", "3.9.2", "4.3.1"]:
    classic, new = (kg.load(course.find_data(f"harbour/{version}"), coordinator) for coordinator in ["classic", "new"])
    differ = kg.diff(classic, new)
    print(f"on the log of {version}:", {what: sorted(groups) for what, groups in differ.items() if groups} or "no difference")

# %% [markdown]
# On the shop's logs they agree; the three on the 4.3.1 log are of the newer types, which the classic one skips. Here are four short logs that were made to tell them apart, and a real
# 3.9.2 and a real 4.3.1 broker loaded them. The second and third an ordinary broker may write any day. (The names are chosen for the partition they fall into.)

# %%
made = json.loads(Path(course.find_data("crafted/answers.json")).read_text())

cases = {
    "d-c-gt": "an offset, then the group's tombstone",
    "d-t-all": "every offset deleted",
    "b09": "only an aborted transaction",
    "t-idem": "a producer id, but no transaction",
}
for case, what in cases.items():
    print(f"\n{what}\n    {course.read_lines(course.find_data(f'crafted/{case}'))}")
    for coordinator, version in [("classic", "3.9.2"), ("new", "4.3.1")]:
        groups = kg.load(course.find_data(f"crafted/{case}"), coordinator)
        name, said = made[case]["groups"][0], made[case][coordinator]
        state = groups[name].state.value if name in groups else "Dead"
        offsets = course.fetch_offsets(groups, [name])[name]
        print(f"    {coordinator}: {state}, {({key: there['offset'] for key, there in offsets.items()}) or 'no offset'}", end="   ")
        course.compare_with_broker((state, offsets), (said["groups"][name]["state"], said["offsets"][name]), version)

# %% [markdown]
# Why? The classic loader collects: offsets in one map, groups in another; when the log is read, it makes groups of what is left. The new one *lives through* the log: it applies each record
# to groups that are there at that moment, with the code that a running coordinator uses.
#
# | log | classic | new |
# |---|---|---|
# | an offset, then the group's tombstone | takes the group away; the offset lies in the other map, and at the end it makes a simple group | the group is gone, and its offset with it: it is kept, but hidden until the group comes back |
# | every offset deleted | nothing is left, so no group | the first offset had made the group, and only a group's tombstone ends it |
# | only an aborted transaction | the same: nothing, so no group | the same: the group was made when the offset was read |
# | a producer id, but no transaction | a commit is transactional if its batch says so: this one counts | … if its batch has a producer id: this one waits for a marker, for ever |
#
# The last is what a program would make that copies the topic with an ordinary producer, which has an id by default since Kafka 3.0. `kafkagroups diff LOG --coordinators` compares both
# on a log of yours, and `kafkagroups explain LOG --group G` says of each record what became of it.
#
# ## A record that cannot be read
#
# In lesson 01 you saw what a reader says to a value of version 9. Here is a log with such a record, the last of five. `g`'s offset was committed long before it, and is well.
# *Predict*: a consumer of `g` asks the 3.9.2 broker for it. Does it get the offset, an error, or "nothing was ever committed"?

# %%
broken = course.find_data("crafted/f-txn-after")
print(*course.read_lines(broken), sep="\n")

for coordinator, version in [("classic", "3.9.2"), ("new", "4.3.1")]:
    groups = kg.load(broken, coordinator)
    said = made["f-txn-after"][coordinator]
    print(f"\n{coordinator}: the load fails at {groups.failed[379].partition('.log, ')[2]}")
    refused = {"error": "NOT_COORDINATOR"} if coordinator == "new" and groups.failed else None
    offsets = {name: refused or there for name, there in course.fetch_offsets(groups, said["offsets"]).items()}
    print("the offsets of g:", offsets["f-txn-after.g.eg"], end="   ")
    course.compare_with_broker(offsets, said["offsets"], version)

# %% [markdown]
# Every group of that partition is lost to both. But see how they say it:
#
# - **new**: `NOT_COORDINATOR`. Consumers ask who is, are sent back, and ask again. They stand still, everybody notices, nothing is lost.
# - **classic**: no error at all. "No offset was ever committed." The consumer then does what `auto.offset.reset` says: it reads everything again, or skips to the end. And the broker
#   takes new commits. The only trace is one line in its log, `Error loading offsets from __consumer_offsets-379`.
#
# ## Why all of it, and how long
#
# Nothing says where the newest value of a key stands; so everything is read, and until it has been, the answer is `COORDINATOR_LOAD_IN_PROGRESS`. What
# bounds that is the log cleaner of [lesson 10](10_compaction.ipynb): it drops what has been overwritten. Ten days of the dashboard, before and after one pass of a real 4.3.1 cleaner:

# %%

for moment in ["before-clean", "after-clean"]:
    path = course.find_data(f"harbour/cleaning/{moment}")
    count = kg.stats(path).partitions[38]
    print(f"{moment}: {count.records} records, {count.bytes} bytes; the offsets:", end=" ")
    said = json.loads(Path(course.find_data(f"harbour/cleaning/{moment}-answers.json")).read_text())["offsets"]
    course.compare_with_broker(course.fetch_offsets(kg.load(path, "new"), said), said, "4.3.1")

# %% [markdown]
# The same answers from 18 records as from 499. A broker loads about 0.4 million records a second (measured on two cores, 3.9.2 and 4.3.1 alike): a clean partition takes
# a moment. One whose cleaner died a year ago, with 500 million records, takes twenty minutes, in which no group of it can commit.
#
# **Unloading** is the easy half. A broker that is no longer the partition's leader drops its groups and what waits in them, and answers those that are still waiting with `NOT_COORDINATOR`.
# The 3.9.2 broker counted them on its way out: `Finished unloading __consumer_offsets-9 … Removed 7 cached offsets and 2 cached groups.`
#
# ## A small incident: the offset goes back
#
# In the shop's kitchen hangs a board. A program of the shop's own reads `__consumer_offsets` and shows how far each group is; for `payments-0` of `fraud-check` it showed 30. The
# cleaner passed. Then the board's computer died, another one started the same program, and it showed 25: five payments unread, says the alarm. The broker had said 25 all the time.
# The program's heart stands below, and nobody had changed it.
#
# **Which record did the cleaner take away, without which the board shows something else?** (Its place in partition 9. The lines stand above, under *Transactions*.)

# %%
def board(lines):
    offsets, waiting = {}, {}
    for line in lines:
        if line.record_type == "offset":
            into = offsets if line.producer is None else waiting.setdefault(line.producer, {})
            into[line.group, line.partition] = line.value
        elif line.record_type in ("commit", "abort"):
            ended = waiting.pop(line.producer, {})
            if line.record_type == "commit":
                offsets |= ended
    return offsets


print("the board, on the whole log:", board(course.read_lines(nine))["fraud-check", "payments-0"])

# %%
# exercise: taken_away
taken_away = ...

# %%
course.check("taken_away", taken_away)
# course.hint("taken_away")

# %%

clean = course.read_cleaned_lines(nine, active_offset=32)  # as if the newest segment had begun at 32
gone = [line for line in course.read_lines(nine) if line not in clean and line.group == "fraud-check"]
print("taken away:", *gone, sep="\n    ")
for name, loop in {"the board": board, "your loop": replay_transactions}.items():
    print(f"{name}: {loop(course.read_lines(nine))['fraud-check', 'payments-0']}, and cleaned: {loop(clean)['fraud-check', 'payments-0']}")

print("\nwhat `kafkagroups explain` says of payments-0:")
for record in kg.explain(nine, "fraud-check", "payments", 0, coordinator="classic").history:
    print(f"    {record.offset}: {record.fate.value}" + (f" by {record.by}" if record.by is not None and record.by != record.offset else ""))

# %% [markdown]
# The board let the marker decide. On a clean log the wrong rule gives the right answer, because its rival has gone: no test on one would have found it.
#
# ## In Kafka
#
# | what | 3.9.2 | 4.3.1 |
# |---|---|---|
# | reading, in portions of `offsets.load.buffer.size` (5 MB; more, if a batch is larger) | `GroupMetadataManager.doLoadGroupsAndOffsets` | `CoordinatorLoaderImpl` |
# | what waits, by producer | `pendingOffsets` there | `OffsetMetadataManager.replay`, `replayEndTransactionMarker` |
# | making groups; one that is in memory already stays | `loadGroup`, `addGroup` | `GroupCoordinatorShard.replay`, record by record |
# | a full session for each loaded member | `GroupCoordinator.onGroupLoaded` | `GroupMetadataManager.onLoaded` |
# | unloading | `removeGroupsForPartition`, `onGroupUnloaded` | `CoordinatorRuntime.scheduleUnloadOperation`, `onUnloaded` |
#
# The classic loader has one check more: a group with a tombstone that is in memory all the same stops it with `Unexpected unload of active group`. It comes last, so everything is served.
#
# ## What we left out, and why
#
# How leadership moves, and what a broker answers that loads while it loses the partition again: replication, another course. What tombstones *inside* a transaction do: no client can send
# them; `kafkagroups/groups/loading.py` knows.
#
# **Next:** [12 · Loading at scale](12_loading_at_scale.ipynb): can a load be split over many machines?
