# %% [markdown]
# # 06 · The group's life
#
# **What does a rebalance do, and what does a death cost?**
#
# **Which Kafka:** classic groups, as the coordinator of 3.9 runs them. The coordinator of 4.x takes the same steps for them; the table near the end says where it differs, and lesson 13 is about its own protocol.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | describe the steps of a rebalance, and the group's state after each; say which part of it the log contains; say what a dead consumer and a dead coordinator cost | {{minutes}} | no |
#
# ![A group goes from Empty through PreparingRebalance and CompletingRebalance to Stable, back to PreparingRebalance when its members change, and from every state to Dead.](pictures/06.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The coordinator never calls a consumer. It only **answers** requests. It can delay the answers to JoinGroup and SyncGroup.
# 2. A rebalance has two phases. [**Join**](../docs/handbook/glossary.md#join-phase) finds the members. [**Sync**](../docs/handbook/glossary.md#sync-phase) gives them their partitions.
# 3. One member is the **leader of the group**. It computes the assignments.
# 4. The log has **one record for each finished rebalance**. It contains no state and no deadlines.
#
# This lesson is about the *classic protocol*. It is also the default of Java consumers in Kafka 4.x. Lesson 13 reads the new protocols.

# %% [markdown]
# ## The first member
#
# `course.GroupLife` sends requests to a coordinator with the rules of Kafka 3.9. Kafka 4.x gives almost the same answers: see the table at the end.
#
# Each line has the time, the client, the request and, after the arrow, the answer. Indented lines show what else happened.

# %%
from kafkagroups import course

life = course.GroupLife("billing")
life.join("billing-1")
life.join("billing-1")
life.wait(3)

# %% [markdown]
# The coordinator refuses the first JoinGroup. Its answer contains a [**member id**](../docs/handbook/glossary.md#member-id). Only a JoinGroup with this id makes the client a member.
#
# The second JoinGroup contains the *subscription*: the topics that the consumer wants to read. It **waits**. The coordinator gives the first members of an empty group 3 seconds to gather (`group.initial.rebalance.delay.ms`). So ten consumers that start together cause one rebalance.
#
# Then the join phase is over. The group has *generation* 1, and `billing-1` is its leader.
#
# <details><summary>Why two JoinGroups?</summary>
#
# A client can lose its connection and ask again. Then its first id is never used. An unused id is not a member, so the group has no dead member.
#
# </details>
#
# <details><summary>Which requests create a group?</summary>
#
# A JoinGroup without a member id creates the group in memory, if it does not exist. A *heartbeat*, the sign of life of a member (below), never creates a group. If the group is unknown, a heartbeat is answered `UNKNOWN_MEMBER_ID`.
#
# Two requests can try to create the same group at the same moment. The classic coordinator puts the new group into its map only if the map does not contain it yet (*put if absent*). So one group is kept, and both requests use it. The new coordinator handles the requests of a partition one after the other, so this cannot happen.
#
# </details>

# %% [markdown]
# *Predict*: how many members of this group does the log contain by now?

# %%
# prediction
members_in_the_log = ...

# %%
written = [life.read_record(line.record_offset).value for line in life.log_lines]

course.reveal("members_in_the_log", members_in_the_log, sum(len(value.members) for value in written))

# %% [markdown]
# The leader now computes the assignments from the subscriptions. It sends them with its SyncGroup:

# %%
life.sync("billing-1")
life.commit("billing-1", {"orders-0": 5, "orders-2": 7})

# %% [markdown]
# The order is as for a commit. First the coordinator appends a record with **all** assignments. When the replicas have the record, the group is `Stable`, and the coordinator answers the members that wait.
#
# <details><summary>What happens if the append fails?</summary>
#
# All members receive an error and join again. Kafka 4.x translates the error of the log as lesson 04 showed. The classic coordinator differs: a record that is too late gives `REBALANCE_IN_PROGRESS`.
#
# </details>
#
# <details><summary>What happens if a new member joins during the append?</summary>
#
# Its JoinGroup starts the next rebalance. So the members that wait for an assignment receive `REBALANCE_IN_PROGRESS`. When the append ends, the coordinator sees that the state or the generation has changed, and does nothing. The record of the old generation stays in the log.
#
# </details>

# %% [markdown]
# ## A second member: the rebalance
#
# `billing-2` joins, so all members must join again. But the coordinator cannot call `billing-1`. Until the join phase ends, the group has generation 1, and each partition has its old owner. Now `billing-1` sends a commit.
#
# *Predict* the answer to this commit: `"NONE"`, or the name of an error?

# %%
# prediction
commit_during_join = ...

# %%
with course.fold("commit_during_join", commit_during_join):
    life.join("billing-2")
    life.join("billing-2")
    life.commit("billing-1", {"orders-0": 8})
    course.reveal("commit_during_join", commit_during_join, life.events[-1].response)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The group is in PreparingRebalance. The old generation is still valid, and no partition has a new owner yet. So `billing-1` can commit how far it has read before it gives up partitions.
#
# </details>
#
# The answer to its next [**heartbeat**](../docs/handbook/glossary.md#heartbeat) tells `billing-1` that a rebalance is in progress. A consumer sends a heartbeat every 3 seconds (`heartbeat.interval.ms`). Then the rebalance runs to its end:

# %%
life.heartbeat("billing-1")
life.join("billing-1")
life.heartbeat("billing-1")
life.commit("billing-1", {"orders-0": 9})
life.sync("billing-2")
life.sync("billing-1")

# %% [markdown]
# In CompletingRebalance, the coordinator refuses the commit, because the new assignments do not exist yet. `billing-1` commits again when the group is Stable.
#
# ## Read, but not committed
#
# `orders-2` now belongs to `billing-2`. The new owner asks for the committed offset, which is 7, and starts there. If `billing-1` has read more records and has not committed them, `billing-2` reads them **again**. So a consumer should commit before it joins again.

# %% [markdown]
# ## Step by step
#
# A member must send a sign of life within its [*session timeout*](../docs/handbook/glossary.md#session-timeout) (`session.timeout.ms`, 45 seconds by default). A heartbeat is a sign of life. A commit that the coordinator accepts is one, too. At the end of the join phase, the session of each member starts again.
#
# The figure shows the same requests and what follows. A session lasts only **10 seconds** here:
#
# 1. Step through the events with *next*. A dashed bar is a session. Which events start it again?
# 2. Choose a death, for example *billing-1 dies at 10 s, after its OffsetCommit*. Which request was its last sign of life?
# 3. Look at the box at the bottom. When does a crash of the coordinator lose something?
#
# <span class="live-only">You can also type a death, for example `billing-1 at 9`.</span>

# %%
# figure
course.RebalanceLanes()

# %% [markdown]
# *Predict*: now a session has its default again, **45** seconds. Events 5 and 8 of the figure are commits of the leader `billing-1`, at 4 s and at 6 s. The coordinator accepts both. After event 8, `billing-1` dies. At which second does the coordinator remove it?

# %%
# prediction
leader_is_removed_at = ...

# %%
first_eight_events = course.TWO_CONSUMERS[:8]
what_happens = course.describe_consumer_crash(course.play_script(first_eight_events), "billing-1")
removed_at = float(what_happens[1].split()[0])
with course.fold("leader_is_removed_at", leader_is_removed_at, removed_at):
    print("\n".join(what_happens))

# %% [markdown]
# <details><summary>Why this second?</summary>
#
# The last sign of life of `billing-1` is its accepted commit at 6 seconds, and its session lasts 45 seconds. All other members had joined. So the join phase also ends at second 51, when `billing-1` is removed.
#
# </details>

# %% [markdown]
# ## Who chooses the assignor
#
# An *assignor* is the rule by which the leader computes assignments, for example `range`. In its JoinGroup, each member sends an ordered list of the assignors that it supports. Kafka's requests and records call an assignor a [*protocol*](../docs/handbook/glossary.md#protocol).
#
# A [**candidate**](../docs/handbook/glossary.md#candidate) is an assignor that all members support. Each member votes for the first candidate in its list. The candidate with the most votes wins. A JoinGroup that would leave no candidate is refused: `INCONSISTENT_GROUP_PROTOCOL`.
#
# <details><summary>How to change the assignor without a stop</summary>
#
# First let all members support both assignors. Then remove the old one.
#
# </details>

# %% [markdown]
# ## Exercise: the vote
#
# Write `select_protocol(members)`. `members` is a list with one ordered list of names for each member. Return the name that wins. At least one candidate exists, and no two candidates have the same number of votes.

# %%
# exercise: select_protocol
def select_protocol(members):
    ...

# %%
course.check("select_protocol", select_protocol)
# course.hint("select_protocol")

# %% [markdown]
# ## Three deadlines
#
# | deadline | how long it lasts | what happens at its end |
# |---|---|---|
# | the session of each member | its `session.timeout.ms`, from its last sign of life. While its JoinGroup or SyncGroup waits for an answer, no session runs | The member is removed. A rebalance begins. |
# | the join phase of the group | the **largest** rebalance timeout of all members | Members that have not joined are removed. The group continues. |
# | the sync phase of the group | the largest rebalance timeout, too | Members that have not sent a SyncGroup are removed. A rebalance begins. |
#
# A Java consumer sends `max.poll.interval.ms` (5 minutes) as its [rebalance timeout](../docs/handbook/glossary.md#rebalance-timeout). This is how long its code may work before it joins. The join phase ends when all members have joined, but at the latest after the **largest** rebalance timeout. So each member has at least its own timeout to join.
#
# A separate thread sends the heartbeats. So a consumer that hangs in its own code still sends heartbeats, but it does not join. If this takes longer than `max.poll.interval.ms`, Java's consumer sends a LeaveGroup itself. A client that never does this is removed at the end of the join phase.

# %% [markdown]
# ## A member leaves
#
# A consumer that closes sends **LeaveGroup**. The coordinator removes the member immediately.
#
# - In Stable and CompletingRebalance, a rebalance begins.
# - In PreparingRebalance, a rebalance is already running. If all other members have joined, the join phase ends. If no member is left, the group becomes Empty.
#
# A killed process sends no LeaveGroup. Its member stays until its session ends.
#
# A consumer with an *instance id* keeps its place during a restart: [lesson 07](07_who_may_commit.ipynb).

# %% [markdown]
# ## Exercise: the end of the join phase, on paper
#
# A group of three members has a rebalance:
#
# | member | rebalance timeout | sends its JoinGroup |
# |---|---|---|
# | a | 60 s | immediately |
# | b | 300 s | never, but it sends heartbeats |
# | c | 120 s | after 20 s |
#
# After how many seconds does the join phase end, and which member is removed? Write a pair, for example `(30, "a")`.

# %%
# exercise: end_of_join
end_of_join = ...

# %%
course.check("end_of_join", end_of_join)
# course.hint("end_of_join")

# %% [markdown]
# On a real 3.9.2 broker, a group had a member like b. The rebalance timeout of both members is 8 seconds. `member-a` sends heartbeats, but it does not join:

# %%
recorded = course.play_conversation("3.9.2-rebalance")
recorded.print_requests(43, 55)
course.compare_with_broker(recorded.our_responses, recorded.broker_responses, "3.9.2")

# %% [markdown]
# After 8 seconds, the coordinator removed `member-a` and answered request 44. The next heartbeat of `member-a` was answered UNKNOWN_MEMBER_ID. `written: 0/9` is the group record, at offset 9 of partition 0.
#
# ## What is in the log
#
# These are the [group records](../docs/handbook/glossary.md#group-record) of `billing` in the log of a 4.3.1 broker:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-9")):
    if line.record_type == "group" and line.group == "billing":
        value = course.read_group_value("harbour/4.3.1/__consumer_offsets-9", line.record_offset)
        names = ", ".join(member.client_id for member in value.members) or "no members"
        print(f"offset {line.record_offset:>2}   generation {value.generation}   {names}")

# %% [markdown]
# - **Offset 0**: the first JoinGroup. Kafka 4.x writes a record with generation 0 and no members, even if it answers MEMBER_ID_REQUIRED.
# - **Offset 22**: the last member left. The record has a new generation and no members. The group is Empty, and keeps its offsets.
# - **All others**: the end of a rebalance.
#
# Nothing else writes a group record here. So a rebalance in progress is not in the log.
#
# <details><summary>What writes no record?</summary>
#
# These requests write no record: a heartbeat, each JoinGroup after the first one of the group, and the LeaveGroup of a member while others stay.
#
# </details>

# %% [markdown]
# ## Memory and log
#
# If the coordinator crashes, the next coordinator loads the log. Each step of the table is an event of the figure, with the choice *no one dies*. Each `+` is a written record. `Dead` means that there is no such group:

# %%
course.print_crash_table()

# %% [markdown]
# Look at steps 10 to 13. In memory, the group has generation 2. The log has only generation 1. If the coordinator crashes here, both members receive an error from the next coordinator and join again. Generation 2 had no assignments yet. The assignments of generation 1 are in the log. So only time is lost.
#
# <details><summary>Which state can follow which?</summary>
#
# | state | the states directly before it | what leads to it |
# |---|---|---|
# | PreparingRebalance | Empty, CompletingRebalance, Stable | a member joins, leaves or is removed |
# | CompletingRebalance | PreparingRebalance | the join phase ends, with members |
# | Stable | CompletingRebalance | the record of the assignments is stored |
# | Empty | PreparingRebalance | the join phase ends, without members |
# | Dead | every state | the group is deleted, or another broker leads its partition |
#
# </details>
#
# <details><summary>In Kafka 4.x</summary>
#
# The table has the rules of 3.9. In Kafka 4.x, step 1 writes a record. So after the steps 1 to 3, the next coordinator loads `Empty 0`.
#
# </details>

# %% [markdown]
# ## Exercise: after the failover
#
# A group has two members and is Stable in generation 5. Both members run on one machine, and this machine is switched off without a warning. Their sessions last 45 seconds. Ten seconds later, the broker dies, too.
#
# What does the next coordinator have after its load?
#
# - **A**: two members. They stay for up to 45 more seconds.
# - **B**: two members. They stay for up to 35 more seconds.
# - **C**: no members. The group is Empty.
#
# Write the letter in quotes.

# %%
# exercise: after_the_failover
after_the_failover = ...

# %%
course.check("after_the_failover", after_the_failover)
# course.hint("after_the_failover")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | the first join of a group | writes a record without members | writes nothing before the first SyncGroup |
# | the replicas have the record of a rebalance too late | The members receive `COORDINATOR_NOT_AVAILABLE`. | The members receive `REBALANCE_IN_PROGRESS`. |
#
# <details><summary>Other versions</summary>
#
# Kafka 1.0.1 has no MEMBER_ID_REQUIRED, which came with 2.2. It calls CompletingRebalance *AwaitingSync*, and a heartbeat in this state is answered REBALANCE_IN_PROGRESS. The deadline of the sync phase exists since 2.8.1. In 2.6.1 to 2.8.0, a leader that sent heartbeats but no assignments could block its group forever.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>What happens between the leader's SyncGroup and the answers to the members?</summary>
#
# The coordinator appends a record with all assignments, and waits for the replicas. If the append fails, all members receive an error and join again.
#
# </details>
#
# <details><summary>One of three members leaves a Stable group. Does its LeaveGroup write a record?</summary>
#
# No. The coordinator removes the member immediately, and a rebalance begins. A record is written at the end of this rebalance.
#
# </details>
#
# <details><summary>What does Kafka 4.x write at the first JoinGroup of a group?</summary>
#
# A record with generation 0 and no members. The classic coordinator writes nothing before the first SyncGroup.
#
# </details>
#
# <details><summary>What does the coordinator write when the last member leaves?</summary>
#
# A record with a new generation and no members. The group is Empty, and keeps its offsets.
#
# </details>
#
# ## In five lines
#
# - The join phase finds the members. The sync phase gives them their assignments.
# - The leader of the group computes the assignments, and the coordinator stores them.
# - Each finished rebalance is one record with a new generation.
# - A rebalance in progress is not in the log.
# - After a failover, the group continues with its last stored generation.
#
# ## For your consumer
#
# - `session.timeout.ms` (45 s): how long a dead consumer keeps its partitions.
# - `max.poll.interval.ms` (5 min): how long your code may work between two calls of `poll`. After that, the consumer leaves the group. Its next `poll` joins again.
# - Commit in `onPartitionsRevoked` of your `ConsumerRebalanceListener`. The consumer calls it before it joins again.
# - After `CommitFailedException` or `RebalanceInProgressException`, do not repeat the commit. Call `poll`, which joins the group again.
#
# <details><summary>Cooperative assignors</summary>
#
# With a cooperative assignor, the requests are as in this lesson. But the consumer keeps reading the partitions that it does not give up.
#
# </details>

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group rebalances all the time. | `kafkagroups timeline PATH --group billing` | It shows the members of each generation. Find the one that comes and goes. `kafkagroups dump PATH --group billing --type 2` shows its host. | Look at its log (next line). |
# | Does my consumer call `poll` too rarely? | `grep "consumer poll timeout has expired"` in the log of your program | If there is a line, the consumer left for this reason. | Raise `max.poll.interval.ms`, or lower `max.poll.records`. |
# | Which member was removed, and why? | `grep "Preparing to rebalance group billing" server.log` | The line ends with the reason and the member id. | Find the cause in the log of this member. Then restart it. |
# | A group hangs in PreparingRebalance. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --members --verbose` | It lists the members. One does not join. | Close its process normally, so that it sends LeaveGroup. If you kill it, the group waits for its session timeout. |

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | the requests | `GroupMetadataManager.classicGroupJoin`, `classicGroupSync`, `classicGroupHeartbeat`, `classicGroupLeave` | `GroupCoordinator.handleJoinGroup`, `handleSyncGroup`, `handleHeartbeat`, `handleLeaveGroup` |
# | the end of the join phase | `completeClassicGroupJoin` | `onCompleteJoin`, `DelayedJoin` |
# | store, then answer | `classicGroupSyncToClassicGroup` | `doSyncGroup`, `GroupMetadataManager.storeGroup` |
# | states, vote, generation | `ClassicGroup` | `GroupMetadata` |
#
# </details>
#
# ## What we left out, and why
#
# How a leader computes assignments, and `group.max.size`, which limits the number of members.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [07 · Who may commit](07_who_may_commit.ipynb): which commits a coordinator refuses.
