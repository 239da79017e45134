# %% [markdown]
# # 06 · The group's life
#
# **What does a rebalance do, and what does a death cost?**
#
# **Which Kafka:** every 4.x, with the new *group coordinator*. **Which groups:** *classic groups*, whose consumers keep the default `group.protocol=classic`.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | describe a rebalance step by step; say what the log contains of it, and what a dead consumer and a dead coordinator cost | {{minutes}} + 10 for later | no |
#
# ![A group goes from Empty through PreparingRebalance and CompletingRebalance to Stable, and back when its members change.](pictures/06.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The coordinator never calls a consumer. It only **answers** requests, and lets some of them wait.
# 2. A rebalance has two phases: [**join**](../docs/handbook/glossary.md#join-phase) finds the members, and [**sync**](../docs/handbook/glossary.md#sync-phase) gives them their partitions.
# 3. One member, the **leader of the group**, computes the assignments.
# 4. At the end of each rebalance, the coordinator writes **one record** with the members.

# %% [markdown]
# ## A rebalance in one drawing
#
# A consumer sends **JoinGroup** to become a member, and **SyncGroup** to get its partitions. Here, `billing-1` is a member, and `billing-2` is new. A [**heartbeat**](../docs/handbook/glossary.md#heartbeat) is a member's regular sign of life.
#
# ```
#  billing-1             coordinator      billing-2
#      │                      │ ◀─ JoinGroup ──│ waits
#      │────── Heartbeat ───▶ │                │
#      │ REBALANCE_IN_PROGRESS│                │
#      │ ◀─────────────────── │                │
#      │────── JoinGroup ───▶ │                │
#      │ ◀──── you lead ───── │ ─ you do not ▶ │
# ─ the join phase ends: all members are known ─ ─ ─
#      │                      │ ◀─ SyncGroup ──│ waits
#      │── SyncGroup with all │                │
#      │   assignments ─────▶ │                │
#      │                      ■ appends one record
#      │ ◀─── orders 0 1 ──── │ ── orders 2 ─▶ │
# ─ the sync phase ends: each has its partitions ─ ─
# ```
#
# The *state* of the group says which phase it is in:
#
# | state | what happens |
# |---|---|
# | Empty | The group has no members. |
# | PreparingRebalance | The join phase: the coordinator waits for a JoinGroup of each member. |
# | CompletingRebalance | The sync phase: the members wait for the assignments. |
# | Stable | Each member has its partitions. |
# | Dead | This broker has no such group. |
#
# ## The first member
#
# Two consumers join `billing`, and later leave. Each of the 20 rows is a request (or a pause) and its answer. Read a row like this: first comes the answer. *Now* introduces the new state of the group, and `log ←` a record that the coordinator wrote. *Waits* means that the answer comes in a later row, after `→`. The first three rows:

# %%
# script
import kafkagroups as kg
from kafkagroups import course


def two_consumers(broker):
    billing = course.GroupLife("billing", broker=broker)
    for number, request in enumerate(course.TWO_CONSUMERS[:20], start=1):
        broker.clock.advance(request.delay_s * 1000)
        label, answer = getattr(billing, request.method)(*request.arguments)
        yield f"{number}. {label}", answer


story = course.compare_brokers(two_consumers)
story[:3]

# %% [markdown]
# - **Row 1**: the coordinator refuses the first JoinGroup, and returns a [**member id**](../docs/handbook/glossary.md#member-id). 4.3.1 also writes that the group exists, with generation 0 and no members.
# - **Row 2**: the JoinGroup with this id makes `billing-1` a member. It contains the *subscription*, the topics that the consumer wants to read. The coordinator lets the request **wait**.
# - **Row 3**: an Empty group waits 3 seconds for more members (`group.initial.rebalance.delay.ms`), so that ten consumers that start together cause one rebalance. Then the rebalance gets its number, *generation* 1, and `billing-1` leads the group.
#
# <details><summary>Why two JoinGroups?</summary>
#
# Suppose that the answer to a JoinGroup gets lost, and the client joins again. Without the id, the coordinator would count two members, although only one process runs.
#
# </details>
#
# <details><summary>Which requests create a group?</summary>
#
# A JoinGroup without a member id creates the group if it does not exist. A heartbeat never does: it is answered `UNKNOWN_MEMBER_ID`. If two clients send the first JoinGroup at the same time, the group is created only once, because the coordinator handles the requests of a partition one after the other.
#
# </details>

# %% [markdown]
# *Predict*: how many members of this group does the log contain by now?

# %%
# prediction
members_in_the_log = ...

# %%
joined = course.play_script(course.TWO_CONSUMERS[:3], "4.3.1")
written = [joined.read_record(line.record_offset).value for line in joined.log_lines]

course.reveal("members_in_the_log", members_in_the_log, sum(len(value.members) for value in written))

# %% [markdown]
# The log gets members only together with their assignments, which the leader sends with its SyncGroup:

# %%
story[3:5]

# %% [markdown]
# The coordinator appends a record with **all** assignments. It waits until the replicas have this record, because no member may work with an assignment that a crash could lose. Then the group becomes Stable, and the members get their answers.

# %% [markdown]
# ## A second member: the rebalance
#
# `billing-2` joins, so all members must join again and divide the partitions anew. But the coordinator cannot call `billing-1`, which goes on reading, and now sends a commit with generation 1. This is still the current generation, which rises only at the end of the join phase.
#
# *Predict* the answer to this commit, row 8: `"NONE"`, or the name of an error?

# %%
# prediction
commit_during_join = ...

# %%
from IPython.display import display

with course.fold("commit_during_join", commit_during_join, story.steps[7].answers[0]):
    display(story[5:8])

# %% [markdown]
# In PreparingRebalance, the commit is accepted, because the members still own their partitions, and can save how far they have read. `billing-1` learns of the rebalance from the answer to its next heartbeat (one every 3 seconds, `heartbeat.interval.ms`), and then joins:

# %%
story[8:12]

# %% [markdown]
# In row 10, the last missing JoinGroup ends the join phase, so both members get their answers. A heartbeat with the new generation is now accepted (row 11). But the commit in row 12 is refused, because no member owns `orders-0` until the sync phase has ended:

# %%
story[12:14]

# %% [markdown]
# ## A member leaves
#
# A consumer that closes sends **LeaveGroup**. The coordinator removes this member immediately, and a rebalance begins:

# %%
story[14:20]

# %% [markdown]
# Row 16 writes no record, because the end of the rebalance writes one (row 19).

# %% [markdown]
# ## What is in the log
#
# These [group records](../docs/handbook/glossary.md#group-record) of `billing` are from two real brokers. These consumers left in the other order, `billing-2` first, and both came back later:

# %%
# script
for kafka in ("4.3.1", "3.9.2"):
    partition = course.find_data(f"harbour/{kafka}/__consumer_offsets-9")
    groups = [line for line in course.read_lines(partition) if (line.group, line.record_type) == ("billing", "group")]
    print(f"Kafka {kafka}")
    for line in groups:
        value = kg.decode(*course.read_record(partition, line.record_offset)).value
        names = sorted(member.client_id for member in value.members)
        print(f"  offset {line.record_offset:>2}   generation {value.generation}   {', '.join(names) or 'no members'}")

# %% [markdown]
# A group record is written at the end of each rebalance. Three other events write one, too: the first JoinGroup (generation 0, only in 4.x), the leave of the last member (generation 4), and the replacement of a static member (lesson 07).

# %% [markdown]
# ## Memory and log
#
# If the coordinator crashes, the next one has only the log. Here it crashes after some of the 20 rows:

# %%
# script
def crashes(broker):
    for event in (1, 4, 7, 10, 14, 16, 20):
        billing = course.play_script(course.TWO_CONSUMERS[:event], broker.settings.kafka)
        next_broker = course.start_follower(billing.coordinator, "billing")
        loaded = course.GroupLife("billing", broker=next_broker)
        yield f"after row {event}, in memory: {billing.describe()}", f"loaded: {loaded.describe()}"


course.compare_brokers(crashes)

# %% [markdown]
# **After row 10**, when both members have joined, generation 2 is only in memory. The next coordinator knows generation 1, so it refuses both SyncGroups. The consumers join again, and your code sees no exception.
#
# **After row 16**, the LeaveGroup, the log does not show that `billing-1` has left. The next coordinator still takes it for a member, and for 45 seconds nobody reads its partitions.

# %% [markdown]
# ## Why the whole group stands still
#
# With `range`, the default rule of the leader, a consumer stops reading before it joins, and continues after its SyncGroup. So in a group of ten, nine members stand still until the slowest one has processed the records of its last `poll`.
#
# ## Read, but not committed
#
# Row 14 gives `orders-2` to `billing-2`, which starts at the committed offset, 7 (row 5). Records that `billing-1` has read since, but not committed, are read **again**. A consumer should therefore commit before it joins.

# %% [markdown]
# ## How long a dead member keeps its partitions
#
# A member must send a sign of life within its [*session timeout*](../docs/handbook/glossary.md#session-timeout) (`session.timeout.ms`, 45 seconds by default). After each of these events, the 45 seconds begin again:
#
# - its heartbeat, also one that is answered `REBALANCE_IN_PROGRESS`
# - its commit, if the answer is `NONE`
# - the end of the join phase, and of the sync phase
# - a failover, because heartbeats are not in the log
#
# While its JoinGroup or SyncGroup waits, a member's session does not end.
#
# *Predict*: at second 6, `billing-1` sends a commit, which is accepted (row 8), and then dies. At which second does the coordinator remove `billing-1`?

# %%
# prediction
leader_is_removed_at = ...

# %%
billing = course.play_script(course.TWO_CONSUMERS[:8], "4.3.1")
while len(billing.group.members) == 2:
    _, change = billing.wait(1)

with course.fold("leader_is_removed_at", leader_is_removed_at, billing.now_s):
    print(f"second {billing.now_s:g}: {change}")

# %% [markdown]
# The commit was the last sign of life of `billing-1`, so its session ended 45 seconds later. `billing-2` had already joined, so nobody else was missing, and the join phase ended at the same moment.

# %% [markdown]
# ## Three deadlines
#
# A Java consumer sends heartbeats from a separate thread, even if the loop hangs. So the consumer also watches its loop, and leaves the group if the loop does not call `poll` within `max.poll.interval.ms` (5 minutes).
#
# A member joins a rebalance only in `poll`, which can be 5 minutes away. So each JoinGroup contains `max.poll.interval.ms`, which the coordinator calls the member's [rebalance timeout](../docs/handbook/glossary.md#rebalance-timeout). The coordinator takes the largest rebalance timeout of all members. For example, with 300 seconds, it waits up to 300 seconds for the JoinGroups, and then again up to 300 seconds for the SyncGroups.
#
# With the session timeout, a member has three deadlines:
#
# | what must come | before this deadline | or else |
# |---|---|---|
# | a sign of life | `session.timeout.ms` | The member is removed, and a rebalance begins. |
# | a JoinGroup, in the join phase | the **largest** rebalance timeout | The member is removed, and the rebalance goes on without it. |
# | a SyncGroup, in the sync phase | the largest rebalance timeout | The member is removed, and a new rebalance begins. |

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
# When does the join phase end, and who is removed? Write a pair, for example `(30, "a")`.

# %%
# exercise: end_of_join
end_of_join = ...

# %%
course.check("end_of_join", end_of_join)
# course.hint("end_of_join")

# %% [markdown]
# ## What a death costs
#
# | what happens | which partitions nobody reads | which records are read again |
# |---|---|---|
# | A consumer closes. | all, during the rebalance | none, if the consumer commits before |
# | A consumer is killed. | its partitions, for up to 45 seconds; then all, during the rebalance | those after its last commit |
# | The coordinator dies while the group is Stable. | none; only commits wait | none |
# | The coordinator dies during a rebalance. | all, until the next coordinator has loaded and all members have joined again | what a member had read, but not committed, when it joined |

# %% [markdown]
# ## All rows in one figure
#
# The figure plays all 20 rows, with sessions of **10 seconds** instead of 45. A member's lane shows the partitions that it reads (the digits), or the step in which it waits: *id*, *join*, *joined* or *sync*. A dot is a sign of life. Step through the events:
#
# 1. When does nobody read a partition?
# 2. After which events does a crash of the coordinator lose nothing?
#
# <span class="live-only">You can also type a death, for example `billing-2 at 12`: for how long does nobody read `orders-2`?</span>

# %%
# figure
course.RebalanceLanes()

# %% [markdown]
# <details><summary>The answers</summary>
#
# 1. From second 0 to 3 and from second 7 to 11, until the SyncGroups are answered. From second 13 to 14, nobody reads the partitions of `billing-1`, which has left. If `billing-2` dies at second 12, its session ends at second 22. The rebalance takes 4 more seconds, so nobody reads `orders-2` for 14 seconds.
# 2. After the events 4, 5, 14 and 15, and from 19 on. Then the group is Stable or Empty, and the log has its generation and its members. After event 1 or 6, a crash loses a member id that the coordinator has just given, so this consumer has to ask for another one.
#
# </details>
#
# ## Exercise: after the failover
#
# A Stable group has two members, with sessions of 45 seconds, on one machine. The machine loses its power, and ten seconds later the broker dies, too. What does the next coordinator load? Write the letter in quotes.
#
# - **A**: two members, for up to 45 more seconds
# - **B**: two members, for up to 35 more seconds
# - **C**: no members

# %%
# exercise: after_the_failover
after_the_failover = ...

# %%
course.check("after_the_failover", after_the_failover)
# course.hint("after_the_failover")

# %% [markdown]
# ## Who chooses the assignor
#
# A rule such as `range` is an *assignor*. All members must use the same one, so each JoinGroup lists the assignors that the member supports. A [**candidate**](../docs/handbook/glossary.md#candidate) is an assignor that all members support. Each member votes for the first candidate in its list, and the candidate with the most votes wins.
#
# <details><summary>How to change the assignor without a stop</summary>
#
# First let all members support both assignors, and then remove the old one. A new client that supports no candidate gets `INCONSISTENT_GROUP_PROTOCOL`.
#
# </details>

# %% [markdown]
# ## Exercise for later: the vote
#
# Write `select_protocol(members)`, which returns the name of the assignor that wins. `members` has one ordered list of names for each member. At least one candidate exists, and no two candidates have the same number of votes.

# %%
# exercise: select_protocol
def select_protocol(members):
    ...

# %%
course.check("select_protocol", select_protocol)
# course.hint("select_protocol")

# %% [markdown]
# ## Where 3.9 differs
#
# In 3.9, DescribeGroups returns assignments only while the group is Stable:

# %%
# script
def ask_after_row_8(broker):
    course.play_script(course.TWO_CONSUMERS[:8], broker=broker)
    [described] = broker.describe_groups(["billing"])
    owners = [member.client_id for member in described.members if member.assignment]
    yield "rows 1 to 8", ""
    yield "who owns partitions after row 8?", owners or "nobody"


course.compare_brokers(ask_after_row_8)[1:]

# %% [markdown]
# <details><summary>If the replicas confirm the assignments too late</summary>
#
# The members get the error `COORDINATOR_NOT_AVAILABLE`, in 3.9 `REBALANCE_IN_PROGRESS`. In both versions, the members join again.
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>What happens between the leader's SyncGroup and the answers to the members?</summary>
#
# The coordinator appends a record with all assignments and waits for the replicas. If this fails, all members get an error and join again.
#
# </details>
#
# <details><summary>One of three members leaves a Stable group. Does its LeaveGroup write a record?</summary>
#
# No, but the end of the rebalance does.
#
# </details>
#
# <details><summary>What does Kafka 4.x write at the first JoinGroup of a group?</summary>
#
# A record with generation 0 and no members. In 3.9, nothing is written before the first SyncGroup.
#
# </details>
#
# <details><summary>What does the coordinator write when the last member leaves?</summary>
#
# A record with a new generation and no members. The group keeps its offsets.
#
# </details>
#
# ## In five lines
#
# - The join phase finds the members, and the sync phase gives them their assignments.
# - The leader of the group computes the assignments, and the coordinator stores them.
# - Each finished rebalance is one record. A rebalance in progress is not in the log.
# - In PreparingRebalance a commit is accepted, in CompletingRebalance it is not.
# - After a failover, the group continues with its last stored generation and new session timeouts.
#
# ## For your consumer
#
# - Commit in `onPartitionsRevoked`, which runs before the consumer joins again. Auto commit does this, and also in `close()`.
# - If the coordinator has removed a consumer, the next `poll` calls `onPartitionsLost`. Write this callback, too, without a commit. Without it, Kafka calls your `onPartitionsRevoked` instead, whose commit fails, because the consumer is not a member any more.
# - With `CooperativeStickyAssignor`, a consumer goes on reading the partitions that it keeps, and a second rebalance moves the others.

# %% [markdown]
# ## At 3 am
#
# `server.log` is the log of the group's coordinator, which `--describe --state` prints. PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group rebalances all the time. | `grep "Preparing to rebalance group billing" server.log` | The line ends with the reason: `on heartbeat expiration` (a session ended), `LeaveGroup` (next row), or `Adding new member` (a process starts). | Read the log of the member that the line names. Without `server.log`: `kafkagroups timeline PATH --group billing`. |
# | Why does a member leave? | `grep "has left group" server.log` | `the consumer is being closed`, or `consumer poll timeout has expired`: the consumer's loop is too slow. | For a slow loop, lower `max.poll.records` or raise `max.poll.interval.ms`. |
# | A group stays in PreparingRebalance. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --members --verbose` | It lists the members and their hosts. If the log of a member lacks the line `(Re-)joining group`, this member has not joined. | Wait: after at most 5 minutes (the default), the join phase ends, and the coordinator removes this member. Or close its process normally. |

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | requests | `GroupMetadataManager.classicGroupJoin`, … | `GroupCoordinator.handleJoinGroup`, … |
# | end of the join phase | `completeClassicGroupJoin` | `onCompleteJoin`, `DelayedJoin` |
# | store, then answer | `classicGroupSyncToClassicGroup` | `doSyncGroup`, `GroupMetadataManager.storeGroup` |
#
# </details>
#
# ## What we left out, and why
#
# How a leader computes assignments. All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [07 · Who may commit](07_who_may_commit.ipynb): which commits a coordinator refuses.
