# %% [markdown]
# # 06 · The group's life
#
# **What does a rebalance do, and what does a death cost?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | tell a rebalance in order; name the state of a group at each request; say which of it is in the log; say what a dead consumer and a dead coordinator cost | {{minutes}} | no |
#
# ```
#                  ┌───────┐
#                  │ Empty │
#                  └───────┘
#  a member joins   │    ▲   the last member leaves
#                   ▼    │
#            ┌────────────────────┐
#            │ PreparingRebalance │ ◀───────────────┐
#            └────────────────────┘                 │  a member joins,
#  all have joined, │    ▲   a member joins,        │  leaves or fails
#  or time is over  ▼    │   leaves or fails        │
#            ┌─────────────────────┐                │
#            │ CompletingRebalance │                │
#            └─────────────────────┘                │
#  the assignments  │                               │
#  are stored       ▼                               │
#                 ┌────────┐                        │
#                 │ Stable │ ───────────────────────┘
#                 └────────┘
#  every state → Dead: the group is deleted, or another broker becomes its coordinator
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. The coordinator never calls a consumer. It only **answers** requests. It can delay the answers to JoinGroup and SyncGroup.
# 2. A rebalance has two phases. **Join** finds the members. **Sync** gives them their partitions.
# 3. One member is the **leader**. It computes the assignments. The coordinator only stores them.
# 4. The log has **one record for each finished rebalance**. It contains no state and no deadlines.
#
# This lesson is about the *classic protocol*. Java consumers still use it by default in Kafka 4.x. Lesson 13 reads the new protocols.

# %% [markdown]
# ## The first member
#
# `course.GroupLife` sends requests to a coordinator of this package, with the rules of Kafka 3.9. A coordinator of Kafka 4.x gives the same answers. It writes one more record, which you will see below.
#
# Each line has the time, the client, the request and, after the arrow, the answer. The lines below it show what else happened.

# %%
from kafkagroups import course

life = course.GroupLife("billing")
life.join("billing-1")
life.join("billing-1")
life.wait(3)

# %% [markdown]
# The first JoinGroup is refused. Its answer contains a **member id**. Only a JoinGroup with this id makes the client a member. The reason is a client that loses its connection and starts again from the beginning. It leaves an unused id behind, but no second member.
#
# The second JoinGroup **waits**. The coordinator gives the first members of an empty group 3 seconds to gather (`group.initial.rebalance.delay.ms`). So ten consumers that start together cause one rebalance.
#
# After 3 seconds, the join phase is over. The group has *generation* 1, and `billing-1` is the leader.

# %% [markdown]
# *Predict*: how many members of this group does the log contain by now?

# %%
# prediction
members_in_the_log = ...

# %%
written = [life.read_record(line.record_offset).value for line in life.log_lines]

course.reveal("members_in_the_log", members_in_the_log, sum(len(value.members) for value in written))

# %% [markdown]
# The leader now computes the assignments. It sends them with its SyncGroup:

# %%
life.sync("billing-1")
life.commit("billing-1", {"orders-0": 5, "orders-2": 7})

# %% [markdown]
# The order is the same as for a commit. First the coordinator appends a record with **all** assignments. When the replicas have the record, the group is `Stable`, and the coordinator answers the members that wait.
#
# If the append fails, all members receive an error and join again. The coordinator translates the error of the log as lesson 04 showed.

# %% [markdown]
# ## A second member: the rebalance
#
# `billing-2` joins. All members must now join again, but the coordinator cannot call `billing-1`. So `billing-1` has no information about the rebalance yet. It sends a commit.
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
# The answer to the next **heartbeat** tells `billing-1` that a rebalance is in progress. A consumer sends a heartbeat every 3 seconds (`heartbeat.interval.ms`). Then the rebalance runs to its end:

# %%
life.heartbeat("billing-1")
life.join("billing-1")
life.heartbeat("billing-1")
life.commit("billing-1", {"orders-0": 9})
life.sync("billing-2")
life.sync("billing-1")

# %% [markdown]
# In CompletingRebalance, the commit is refused, because the new assignments do not exist yet. `billing-1` keeps its position in memory, and commits again when the group is Stable.
#
# ## Read, but not committed
#
# `orders-2` now belongs to `billing-2`. The new owner asks for the committed offset, which is 7, and starts there. If `billing-1` has read more records of `orders-2` and has not committed them, `billing-2` reads them **again**. So a consumer should commit before it joins again.

# %% [markdown]
# ## Step by step
#
# The widget shows the same story, and how it continues. Use *previous* and *next*. The list **what if** lets a consumer or the coordinator crash after a step.

# %%
# figure
course.GroupLifeStepper(shown_step=12)

# %% [markdown]
# A member must send a sign of life within its *session timeout* (`session.timeout.ms`, 45 seconds by default). A heartbeat is one. So is a commit that the coordinator accepts. A new deadline also starts at the end of the join phase.
#
# *Predict*: the leader `billing-1` crashes after step 12. At which second does the coordinator remove it from the group?

# %%
# prediction
leader_is_removed_at = ...

# %%
with course.fold("leader_is_removed_at", leader_is_removed_at):
    print("\n".join(course.GroupLifeStepper().describe_crash(11, "billing-1")))

# %% [markdown]
# <details><summary>Why this second?</summary>
#
# The last sign of life of `billing-1` is its heartbeat at 10 seconds, and its session lasts 45 seconds. The commit of step 12 was refused, so it does not count.
#
# The rebalance then begins again. Generation 2 never had assignments, but its number is used. So the next generation is 3.
#
# </details>

# %% [markdown]
# ## Who chooses the assignor
#
# An *assignor* is the rule by which the leader computes assignments, for example `range`. Each member sends an ordered list of the assignors that it supports. Kafka's name for this is *protocol*.
#
# A **candidate** is an assignor that all members support. Each member votes for the first candidate in its list. The candidate with the most votes wins. So you can change the assignor without a stop: first let all members support both, then remove the old one.

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
# | deadline | how long | what happens at its end |
# |---|---|---|
# | session, for each member | its `session.timeout.ms`, from its last sign of life | the member is removed, and a rebalance begins |
# | join phase, for the group | the **largest** rebalance timeout of all members. A Java consumer sends `max.poll.interval.ms`, 5 minutes | members that have not joined are removed, and the group continues |
# | sync phase, for the group | the same length, from the end of the join phase | members that have not synced are removed, and a rebalance begins |
#
# Heartbeats come from a separate thread of the consumer. So a consumer that hangs in its own code still sends heartbeats, but it does not join.
#
# A member can also **leave**, with LeaveGroup. It is removed immediately, and a rebalance begins. If a rebalance is already waiting only for this member, the join phase ends.

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
# A real 3.9.2 broker had such a member. `member-a` and `member-b` have a rebalance timeout of 8 seconds. The coordinator answers the heartbeats of `member-a` with REBALANCE_IN_PROGRESS, but `member-a` does not join. `written: 0/9` means that the broker wrote a record at offset 9 of partition 0:

# %%
recorded = course.play_conversation("3.9.2-rebalance")
recorded.print_requests(43, 55)
course.compare_with_broker(recorded.our_responses, recorded.broker_responses, "3.9.2")

# %% [markdown]
# Request 44 was answered after 8 seconds. Then the coordinator removed `member-a`, and its next heartbeat was answered UNKNOWN_MEMBER_ID. The last line says that our coordinator gave the same answers to all 95 requests of this conversation.
#
# ## What is in the log
#
# These are the group records of `billing` in the log of a 4.3.1 broker. Commits are left out:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-9")):
    if line.record_type == "group" and line.group == "billing":
        value = course.read_group_value("harbour/4.3.1/__consumer_offsets-9", line.record_offset)
        names = ", ".join(member.client_id for member in value.members) or "no members"
        print(f"offset {line.record_offset:>2}   generation {value.generation}   {names}")

# %% [markdown]
# - **Offset 0**: the first JoinGroup of a new group. A broker of Kafka 4.x writes a record with generation 0 and no members, even if it answers MEMBER_ID_REQUIRED.
# - **Offset 22**: the last member left. The record has a new generation and no members. So the group is Empty, and it keeps its offsets.
# - **All others**: the end of a rebalance.
#
# No other join has a record. A heartbeat has none, and neither has a member that leaves while others stay. So a rebalance in progress is not in the log.

# %% [markdown]
# ## Memory and log
#
# The next table follows the steps of the widget. If the coordinator crashes after a step, its memory is lost, and the next coordinator loads the log. `+` is a written record. `Dead` means that the group does not exist. In Kafka 4.x, the first step writes a record, so the next coordinator loads `Empty 0` at the steps 1 to 3:

# %%
course.print_crash_table()

# %% [markdown]
# Look at steps 10 to 13. The group has reached generation 2, but the log contains only generation 1. If the coordinator dies here, both members receive an error from the next coordinator and join again. They lose some time, but no assignment: generation 2 had none yet.

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
# Write the letter as a text.

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
# | the replicas have the record of a rebalance too late | the members receive `COORDINATOR_NOT_AVAILABLE` | the members receive `REBALANCE_IN_PROGRESS` |
# | the last member leaves | writes a record with a new generation and no members | the same |
# | states, deadlines and votes of this lesson | the same | the same |
# | after a failover | a group is Empty or Stable | the same |
#
# <details><summary>Other versions</summary>
#
# Kafka 1.0.1 has no MEMBER_ID_REQUIRED, which came with 2.2. It calls CompletingRebalance *AwaitingSync*, and a heartbeat in this state is answered REBALANCE_IN_PROGRESS. The deadline of the sync phase exists since 2.8.1. In 2.6.1 to 2.8.0, a leader that sent heartbeats but no assignments could block its group forever.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - The join phase finds the members. The sync phase gives them their assignments.
# - The leader computes the assignments, and the coordinator stores them.
# - Each finished rebalance is one record with a new generation.
# - A rebalance in progress is not in the log.
# - After a failover, the group continues with its last stored generation.
#
# ## For your consumer
#
# - `session.timeout.ms` (45 s): how long a dead consumer keeps its partitions.
# - `max.poll.interval.ms` (5 min): how long your code may work between two calls of `poll`. After that, the consumer leaves the group.
# - Commit in `onPartitionsRevoked`. There, a commit is still accepted.
# - If a commit fails with `CommitFailedException` or `RebalanceInProgressException`, do not repeat it. Call `poll`, which joins the group again.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group rebalances all the time | `kafkagroups timeline PATH --group billing` | It shows each generation and its members. A member that comes and goes is the cause | Look at the log of this member. Often `poll` is called too rarely |
# | Which member was removed, and why? | `grep "Preparing to rebalance group billing" server.log` on the coordinator | The line ends with the reason and the member id | Restart this member, or raise its `max.poll.interval.ms` |
# | A group hangs in PreparingRebalance | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --members --verbose` | Members that do not join block the group until the rebalance timeout | Stop the process that does not call `poll` |

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
# How a leader computes assignments is a matter of the clients (`ConsumerPartitionAssignor`). `group.max.size` limits the number of members; the package implements it.
#
# **Next:** [07 · Who may commit](07_who_may_commit.ipynb): which commits a coordinator refuses.
