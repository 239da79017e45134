# %% [markdown]
# # 06 · The group's life
#
# **Join, sync, heartbeat, leave: five states and every legal move.**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | tell a rebalance in order, say what each request is answered in each state, which of it is in the log, and what a dead consumer or a dead coordinator costs | 35 + 25 | no |
#
# ```
#                   ┌───────┐
#                   │ Empty │
#                   └───────┘
#   a member joins   │    ▲   nobody is left
#                    ▼    │
#             ┌────────────────────┐
#             │ PreparingRebalance │ ◀──────────────────────┐
#             └────────────────────┘                        │
#   all joined, or   │    ▲   a member joins,               │
#   the time is over ▼    │   leaves, fails                 │
#             ┌─────────────────────┐                       │  a member joins,
#             │ CompletingRebalance │                       │  leaves, fails
#             └─────────────────────┘                       │
#   the leader's     │                                      │
#   shares stored    ▼                                      │
#                  ┌────────┐                               │
#                  │ Stable │ ──────────────────────────────┘
#                  └────────┘
#   from each of them to Dead: the group is removed, or moves to another broker
# ```
#
# Six things to hold on to:
#
# 1. The coordinator never calls a consumer. It only **answers**. Some answers it holds back: a JoinGroup or SyncGroup may *wait*.
# 2. A rebalance is two rounds. **Join**: who is here? At its end the generation is one higher. **Sync**: the leader brings the shares, and everybody gets its own.
# 3. One consumer, the **leader**, shares out. The broker chooses the leader and the protocol; it does not read the shares.
# 4. A **heartbeat** tells the broker that a member lives, and tells the member that it must join again.
# 5. The group's record is written **once for a rebalance, at its end**, and when a static member comes back. No state is in it, nobody who waits, no clock.
# 6. So a coordinator that dies in the middle leaves the **previous generation**.

# %% [markdown]
# ## The first consumer
#
# `course.start_broker()` is this package's coordinator with Kafka 3.9's rules, on an empty log and a clock that stands. `billing-1`, a consumer of Harbour Coffee, asks to join a group that nobody has heard of:

# %%
import json
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

broker = course.start_broker()
broker.join_group("billing", client_id="billing-1", protocols=[("range", b"what it wants to read")]).value

# %% [markdown]
# Refused! It gets a **member id**, and is to ask again with it. Why twice? A client that loses the connection before it hears the answer would ask again as somebody new, and the first one would stay
# as a ghost member until its session ends. A ghost of a mere id costs less (KIP-394, since 2.2).
#
# From here on `course.GroupLife` sends such requests and prints a line for each: the seconds, who, what, and after the arrow the answer. Below it stand answers that others were waiting for, what was
# written to the log, and the group's state if it changed.

# %%
life = course.GroupLife("billing")
life.join("billing-1")
life.join("billing-1")
life.wait(3)

# %% [markdown]
# The second JoinGroup **waits**. An Empty group lets its first members gather for 3 seconds (`group.initial.rebalance.delay.ms`), so that ten consumers that start together make one rebalance, not ten. (If somebody
# new comes meanwhile, 3 more, up to the rebalance time-out.) Then the first round is over: generation 1, protocol `range`, `billing-1` leads.
# (Who leads? The first that joined. When the leader goes, any other member does: the first that the broker's map gives.)
#
# *Predict*: how many records has the coordinator written by now?
#
# After that the leader shares the partitions out, brings the result with its SyncGroup, and commits. At the end you see what is in the group's record. *Look for the state, and for the time until which `billing-1` must be heard of.*

# %%
# prediction
records_so_far = ...

# %%
course.compare_with_prediction(records_so_far, len(life.log_lines))
print()

life.sync("billing-1")
life.commit("billing-1", {"orders-0": 5, "orders-2": 7})

print("\nrecord 0:")
value = life.read_record(0).value
print("  group ", {name: getattr(value, name) for name in ["protocol_type", "generation", "protocol", "leader", "current_state_timestamp"]})
for member in value.members:
    print("  member", {name: getattr(member, name) for name in ["member_id", "client_id", "client_host", "session_timeout", "rebalance_timeout"]})

# %% [markdown]
# None so far; the SyncGroup wrote the first. The order is: the record with **everybody's** shares is appended; when the append has come back, the shares go to the members that wait, and the
# group is Stable. If the append fails, all of them hear an error and begin anew.
#
# Neither state nor clock is in the record: of the state only since when the group is in it, of the session only its length. (A member also has its subscription and its share, as bytes.) So whoever loads the record chooses the state:
# *Stable* if it has members, *Empty* if it has none.
#
# ## A second consumer: the rebalance
#
# `billing-2` asks to join. The coordinator now wants **all** members to join again, and it cannot call them. `billing-1` knows nothing yet, and commits. *Predict* the answer: `"NONE"`, or the name of an error?

# %%
# prediction
commit_while_they_join = ...

# %%
life.join("billing-2")
life.join("billing-2")
life.commit("billing-1", {"orders-0": 8})

print()
course.compare_with_prediction(commit_while_they_join, life.events[-1].response)
steps = {step["step"]: step for step in json.loads(Path(course.find_data("harbour/3.9.2/acts.json")).read_text())}
course.compare_with_broker(life.events[-1].response, steps["billing-1 commits in the middle of it"]["answer"]["error"], "3.9.2")

# %% [markdown]
# It is taken: in *PreparingRebalance* the old generation is still valid, and whoever is about to give up its partitions should say how far it came. `billing-1` learns of the
# rebalance from its next heartbeat:

# %%
life.heartbeat("billing-1")
life.join("billing-1")
life.heartbeat("billing-1")
life.commit("billing-1", {"orders-0": 9})
life.sync("billing-2")
life.sync("billing-1")

# %% [markdown]
# In *CompletingRebalance* a commit is refused, with REBALANCE_IN_PROGRESS: nobody knows yet whose partition `orders-0` will be. What a commit is answered, in short:
#
# | state | the member, its generation | an older generation | generation −1, no member |
# |---|---|---|---|
# | Empty, or unknown group | – | UNKNOWN_MEMBER_ID; unknown group: ILLEGAL_GENERATION | **taken** (lesson 04) |
# | PreparingRebalance | **taken** | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
# | CompletingRebalance | REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
# | Stable | **taken** | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
#
# A heartbeat is a sign of life, and so is a commit that is taken. A member whose JoinGroup or SyncGroup waits needs none. (Only a new member waits five minutes at most: then it is out, and its JoinGroup is answered UNKNOWN_MEMBER_ID.)
#
# Kafka 1.0.1, which most articles read, went the same way. It called CompletingRebalance *AwaitingSync*. The next section has a script of 21 steps. These of them 1.0.1 answers differently:

# %%
course.compare_kafka_versions("1.0.1", "3.9.2")

# %% [markdown]
# ## Step by step
#
# The whole script: *previous*, *next*, or drag. Under the event stand the state in brackets, its legal moves, and the members. **What if** lets one of them die after that step: from there on it says nothing, and the others
# do what real consumers do. Or the coordinator dies, and you see what the next one reads.
#
# *Predict*: after step 12 the leader dies, and never brings the shares. At which second is it out? (Sessions last 45 s.)

# %%
# prediction
leader_is_out_at = ...

# %%
course.compare_with_prediction(leader_is_out_at, 55)
course.GroupLifeStepper(shown_step=12)

# %% [markdown]
# At 55 s: 45 seconds after the **last sign of life**, the heartbeat of step 11. The commit of step 12 was refused, so it is none. (The end of the first round counts as one, for all members; `billing-2` has not been heard of since, and so it has until 52 s.)
# `billing-2`'s SyncGroup waits so long, is answered REBALANCE_IN_PROGRESS, and `billing-2` begins again: with generation **3**, though 2 was never finished. Now try *the coordinator dies here* at the same step, and then at step 14.
#
# And step 20? The last member leaves, and Stable becomes Empty, a move that the picture does not have. Within that one request the group goes through *PreparingRebalance*: a rebalance that has nobody to wait for is over at once.
#
# ## The vote
#
# Each member comes with a list of the ways to share out that it knows, the most wanted first. A **candidate** is what all members know. Each member votes for the first candidate of its list, and the name with the most votes wins. So a fleet can change
# from `range` to another one without a stop: first all know both, then all prefer the new one.
#
# Write `select_protocol(members)`: a list of such lists. There is a candidate (nobody may join without), and no tie.

# %%
# exercise: select_protocol
def select_protocol(members):
    ...

# %%
course.check("select_protocol", select_protocol)
# course.hint("select_protocol")

# %% [markdown]
# ## Time-outs
#
# | clock | how long | what then |
# |---|---|---|
# | session, one for each member | its own `session.timeout.ms`, from the last sign of life | the member is out; a rebalance |
# | rebalance, one for the group | the **largest** of its members' rebalance time-outs (a Java client sends `max.poll.interval.ms`, 5 minutes) | who has not joined is out, the rest goes on |
# | sync, one for the group (since 2.8.1) | the same length, from the end of the first round | who has not synced is out; a rebalance |
#
# Now a real conversation: two clients that spoke with a real 3.9.2 broker, sessions of 4 s, rebalance time-out of 8 s. `member-a` is in the group, `member-b` joins. `member-a` sends heartbeats, hears that it must join
# again, and does not. (A consumer that hangs in its own code looks like that: heartbeats come from another thread.) *Predict*: after how many seconds does `member-b` get its answer?
#
# `course.play_conversation` has also put every request of that conversation to **our** coordinator: are its answers the same, and did it write the same? (`written: 0/9` is record 9 of partition 0.)

# %%
# prediction
seconds_waited = ...

# %%
recorded = course.play_conversation("3.9.2-rebalance")
recorded.print_requests(43, 59)
request = next(line for line in recorded.lines if line.get("n") == 44)
course.compare_with_prediction(seconds_waited, round((request["response_ms"] - request["ms"]) / 1000))

print("\n" + str(recorded))
course.compare_with_broker(recorded.our_responses, recorded.broker_responses, "3.9.2")
print(len(recorded.broker_appends), "records of it were written without a request, at the end of a session (not in this part):")
course.compare_with_broker(recorded.our_appends, recorded.broker_appends, "3.9.2", verb="wrote")

# %% [markdown]
# Heartbeats are no help: who does not join in time is out, and `member-b` leads.
#
# Write `join_over(members)`: when is the first round over, and who is out? A member is `(name, timeout, joined, instance)`: its rebalance time-out and when it joined, both in seconds
# since the round began (`None`: it never did), and its instance id or `None`. It is over when all have joined, at the latest after the largest time-out. Out is who has not joined by then, but for those with an instance
# id: a *static* member stays (more of it below). Give back `(seconds, [names])`.

# %%
# exercise: join_over
def join_over(members):
    ...

# %%
course.check("join_over", join_over)
# course.hint("join_over")

# %% [markdown]
# And when the leader sends heartbeats but no shares? Three Kafkas; step 13 of the script, then nothing but the leader's heartbeats, for half an hour at most:

# %%
for kafka in ["1.0.1", "2.8.2", "3.9.2"]:
    hanging = course.play_script(course.TWO_CONSUMERS[:13], kafka)
    while hanging.consumers["billing-2"].waiting_for and hanging.now_s < 1800:
        hanging.wait(3)
        heard = hanging.events[-1].late_responses
        hanging.heartbeat("billing-1")
    print(f"{kafka}: at {hanging.now_s:.0f} s", *heard or ["billing-2 still waits for its share"])

# %% [markdown]
# In 1.0.1 a heartbeat in AwaitingSync is no sign of life: the leader's session ends, 45 s after the first round. In 2.6.1 to 2.8.0 it is one, and the group could wait for ever. So there is a sync time-out since 2.8.1.
#
# ## Static members
#
# A member with a `group.instance.id` does not leave when it stops (KIP-345, since 2.3). It comes back under the same name, without a member id, and gets a **new member id and its old place**. The shop's two vans, as in the shop's own log:

# %%
vans = course.GroupLife("shipping")
for names in [["van-1"], ["van-2", "van-1"]]:
    for name in names:
        vans.join(name, instance=name)
    vans.wait(3)
    for name in sorted(names):
        vans.sync(name)
print("\n... and van-1 stops and starts again:\n")
old = vans.consumers["van-1"]
vans.join("van-1", instance="van-1", new_process=True)
vans.sync("van-1")

generations = [line.value for line in vans.log_lines if line.record_type == "group"]
harbour = course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-8"))
course.compare_with_broker(generations, [line.value for line in harbour if line.record_type == "group"], "3.9.2", verb="wrote")

print("\nthe old process, if it should still live, hears:", vans.coordinator.heartbeat("shipping", 2, old.member_id, group_instance_id="van-1").name)

# %% [markdown]
# No rebalance: the same generation, and one record that tells the new member id, so that a next coordinator knows it. `van-1` still leads, and `skip_assignment` tells it to share nothing out: its SyncGroup brings
# nothing, is answered at once with the old share, and writes nothing. Whoever comes with the old id is **fenced**. (If the group would choose another protocol with the new list, it does rebalance.)
# Until the session of a static member ends, its partitions wait for it; then it is removed like any other, with a rebalance, and comes back as a new one. If it comes back while the group rebalances, it takes its old place in that round, and no record is needed. If the append of
# its record fails, the old id is in its place again, and its JoinGroup is answered with the error.
#
# ## What is in the log, and what a crash leaves
#
# Three things write a group's record, and nothing else:
#
# 1. the leader's SyncGroup: members and their shares;
# 2. the end of a rebalance in which nobody is left: generation + 1, no members;
# 3. a static member that comes back.
#
# So nothing is written when a member is thrown out or leaves, unless it was the last; the round that follows writes. Not written either: who was handed an id, who waits, a generation whose shares are not known, the last heartbeat, the state. Here is the script once more: records written (`+`), how the group stands, and how a next coordinator
# would find it. A group's record has two lines: appended to this broker's log, so that the next one may have it or not; and confirmed by the replicas.

# %%
course.print_crash_table()

# %% [markdown]
# Between Join (10) and Sync (14) the group had reached generation 2, and the next coordinator knows 1. It takes `billing-1` for a member of generation 1 and answers its heartbeats of generation 2 with ILLEGAL_GENERATION, and those of `billing-2` with UNKNOWN_MEMBER_ID: both
# join again. Nothing is lost but time, **for nobody had been given a share of generation 2 yet**. That is why the record comes first and the answers second. At 16 a member that has left is back, until its session ends unheard.
#
# What if the append of row 14 fails? The shares are forgotten, all members are to join again, and each SyncGroup that waits is answered with an error, as lesson 04 translates it but for two: too few replicas `COORDINATOR_NOT_AVAILABLE`, leadership
# lost `NOT_COORDINATOR`; a time-out `REBALANCE_IN_PROGRESS`, too large `UNKNOWN_SERVER_ERROR`. In row 20 nobody waits for the record: the group is Empty before it is confirmed, and a failure is only a warning in the server's log.
# A next coordinator then finds generation 3 and its member, waits for a session, and writes generation 4 itself, later: and since offsets of an Empty group expire by that record's time (lesson 09), they live a little longer.
#
# And commits? Each one that was answered NONE is in the log (lesson 04). Here is a trial of all that, without a script. `kafkagroups.simulation` has consumers that do by themselves what a client does: join, sync,
# read, commit. Three of them take 200 steps a round, chosen by a seed: one reads on, one commits, another crashes, leaves or comes back. After each round the coordinator is asked, and `kg.load` reads the log that it wrote:

# %%
from kafkagroups.coordinator import DiskLogs
from kafkagroups.simulation import Consumer, poll_regularly, run_random_actions

logs = DiskLogs(course.make_scratch_folder())
broker = course.start_broker(logs)
topics = {"orders": 3, "payments": 2}
fleet = [Consumer(broker, "packing", f"packing-{n}", list(topics), topics, session_timeout_ms=10_000, rebalance_timeout_ms=20_000) for n in [1, 2, 3]]


def compare(when):
    asked = broker.manager.get_group("packing")
    # who reads on begins where the last one committed, so the largest is the newest
    confirmed = {partition: max(each.committed.get(partition, 0) for each in fleet) for each in fleet for partition in each.committed}
    stored = {partition: its.offset for partition, its in broker.offset_fetch("packing").offsets.items()}
    logs.close()  # all that was written is on the disk
    loaded = kg.load(logs.folder, coordinator="classic")["packing"]
    print(when)
    for who, group in {"asked": asked, "loaded": loaded}.items():
        print(f"   {who:<7} {group.state.value} {group.generation}, members {sorted(each.client_id for each in group.members.values())}")
    in_log = {partition: its.offset for partition, its in loaded.offsets.items()}
    print("   offsets", "confirmed, stored and loaded are the same" if confirmed == stored == in_log else "differ", f"({len(confirmed)} partitions)")


for seed in [34, 35]:
    acts = [line.split()[2] for line in run_random_actions(fleet, broker.clock, seed, steps=200)]
    compare(f"seed {seed}: " + ", ".join(f"{act} {acts.count(act)}" for act in ["commit", "crash", "leave", "start"]))

for each in fleet:
    each.start()
poll_regularly(fleet, broker.clock, 60_000)
for each in fleet:
    each.commit()
compare("all started again, and a minute of quiet")

# %% [markdown]
# After the first round the group was at rest, and the log says the same. After the second it was in the middle of a rebalance, and the log knows the generation before, as in the table above. The offsets agree each time. A minute without
# accidents, and all three are members again. (Other seeds, other accidents: try some.)
#
# ## A small incident: everything Stable, nothing moves
#
# *"`shipping` is Stable, three members, always the same generation; no rebalance for days. But every few seconds one of the three vans logs `FENCED_INSTANCE_ID`, dies and is started again, and orders are delivered twice. It began when somebody set up a spare machine from a copy."*
# Each van has an instance id; a spare one should have had its own. The group's records, each with its place in the log (commits stand in between). **Which instance id do two processes share?** Write it down below, as a text: `"van-1"`.

# %%
shipping = course.run_duplicate_static_member()
for line in shipping.log_lines:
    if line.record_type == "group":
        members = shipping.read_record(line.record_offset).value.members
        print(f"{line.record_offset:>2}: generation {line.value}", *sorted(f"{member.group_instance_id} as {member.member_id}" for member in members), sep="   ")

# %%
# exercise: copied
copied = ...

# %%
course.check("copied", copied)

# %% [markdown]
# Each of the two takes the other's place, the other is fenced, dies, is restarted and takes it back. No number that people watch moves. The log shows it: records of one generation, one after the other.
#
# ## In Kafka
#
# | what | where (3.9, `kafka.coordinator.group`) |
# |---|---|
# | the requests | `GroupCoordinator.handleJoinGroup`, `handleSyncGroup`, `handleHeartbeat`, `handleLeaveGroup` |
# | the end of the first round; who is out | `onCompleteJoin`; waiting: `DelayedJoin`, `InitialDelayedJoin`, `DelayedSync`, `DelayedHeartbeat` |
# | the shares: store, then hand out | `doSyncGroup` → `GroupMetadataManager.storeGroup` → `setAndPropagateAssignment` |
# | a static member comes back | `updateStaticMemberThenRebalanceOrCompleteJoin` |
# | states, vote, generation | `GroupMetadata.validPreviousStates`, `selectProtocol`, `initNextGeneration` |
# | leaving, failing | `removeMemberAndUpdateGroup`, `onExpireHeartbeat` |
#
# ## What we left out, and why
#
# How the leader computes shares: a client's business (`ConsumerPartitionAssignor`). `group.max.size`, which turns a JoinGroup away. A rebalance in which only static members are late: it waits once more. The new
# consumer protocol (KIP-848), where the broker shares out, without rounds. All but the last the package has.
#
# **Next:** [09 · Deleting](09_deleting.ipynb): how do you delete from a file you can only append to?
