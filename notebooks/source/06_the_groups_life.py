# %% [markdown]
# # 06 · The group's life
#
# **What does a rebalance do, and what does a death cost?**
#
# **Which Kafka:** the coordinator of 4.x and that of 3.9, side by side, with classic groups, which Java consumers form by default in both
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | describe a rebalance step by step; say what the log contains of it, and what a dead consumer and a dead coordinator cost | {{minutes}} | no |
#
# ![A group goes from Empty through PreparingRebalance and CompletingRebalance to Stable, and back when its members change.](pictures/06.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The coordinator never calls a consumer. It only **answers** requests, and lets some of them wait.
# 2. A rebalance has two phases: [**join**](../docs/handbook/glossary.md#join-phase) finds the members, and [**sync**](../docs/handbook/glossary.md#sync-phase) gives them their partitions.
# 3. One member, the **leader of the group**, computes the assignments.
# 4. The log has **one record for each finished rebalance**. It contains no state and no deadlines.

# %% [markdown]
# ## The first member
#
# Two consumers of Harbour Coffee join the group `billing`. The script sends the same requests to two brokers, and each `yield` is a row of a table: the answer, the new state after *now*, and the appended records.

# %%
import kafkagroups as kg
from kafkagroups import course


def two_consumers(broker):
    billing = course.GroupLife("billing", broker=broker)
    yield billing.join("billing-1")
    yield billing.join("billing-1")
    yield billing.wait(3)
    yield billing.sync("billing-1")
    yield billing.commit("billing-1", {"orders-0": 5, "orders-2": 7})

    yield billing.join("billing-2")
    yield billing.join("billing-2")
    yield billing.commit("billing-1", {"orders-0": 8})
    [described] = broker.describe_groups(["billing"])
    owners = [member.client_id for member in described.members if member.assignment]
    yield "operator: who owns partitions?", owners or "nobody"

    yield billing.heartbeat("billing-1")
    yield billing.join("billing-1")
    yield billing.heartbeat("billing-1")
    yield billing.commit("billing-1", {"orders-0": 9})
    yield billing.sync("billing-2")
    yield billing.sync("billing-1")


story = course.compare_brokers(two_consumers)
story[:3]

# %% [markdown]
# Both coordinators refuse the first JoinGroup and return a [**member id**](../docs/handbook/glossary.md#member-id). Only a JoinGroup with this id makes a member, because otherwise a client whose answer got lost would join twice and leave a dead member behind.
#
# The second JoinGroup contains the *subscription*, the topics that the consumer wants to read, and it **waits**: an empty group gives its first members 3 seconds to gather (`group.initial.rebalance.delay.ms`), so that ten consumers that start together cause one rebalance. Then the group has *generation* 1, and `billing-1` leads it.
#
# In the first row, the coordinators differ. That of 4.x writes that the group exists, with generation 0 and no members, so the next coordinator will know it. That of 3.9 writes nothing.
#
# <details><summary>Which requests create a group?</summary>
#
# A JoinGroup without a member id creates the group if it does not exist. A *heartbeat*, the sign of life of a member (below), never does: it is answered `UNKNOWN_MEMBER_ID`. If two requests create a group at the same moment, the classic coordinator keeps one of the two (*put if absent*), and the new one handles the requests of a partition one after the other.
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
# Members come into the log with their assignments, which the leader computes from the subscriptions and sends with its SyncGroup:

# %%
story[3:5]

# %% [markdown]
# As for a commit, the coordinator first appends a record with **all** assignments. Only when the replicas have it, the group becomes `Stable` and the waiting members get their answers, so no member works with an assignment that a crash could lose.

# %% [markdown]
# ## A second member: the rebalance
#
# `billing-2` joins, so all members must join again and divide the partitions anew. But the coordinator cannot call `billing-1`, which goes on reading, and now sends a commit. Until the join phase ends, the group has generation 1.
#
# *Predict* the answer to this commit: `"NONE"`, or the name of an error?

# %%
# prediction
commit_during_join = ...

# %%
from IPython.display import display

with course.fold("commit_during_join", commit_during_join, story.steps[7].answers[1]):
    display(story[5:9])

# %% [markdown]
# In PreparingRebalance, the commit is accepted: no partition has a new owner yet, so `billing-1` can save how far it has read before it gives up partitions. An operator who looks now sees the old assignments in 4.x, and none in 3.9, which shows them only while the group is Stable.
#
# `billing-1` learns of the rebalance from the answer to its next [**heartbeat**](../docs/handbook/glossary.md#heartbeat), which a consumer sends every 3 seconds (`heartbeat.interval.ms`). Then it joins:

# %%
story[9:]

# %% [markdown]
# In CompletingRebalance, the coordinator refuses the commit, because nobody knows yet who will own `orders-0`.
#
# By default, a consumer stops reading before it joins and continues after its SyncGroup. So the pause lasts until the slowest member has heard of the rebalance and finished the records of its last `poll`.
#
# ## Read, but not committed
#
# `orders-2` now belongs to `billing-2`, which starts at the committed offset, 7. What `billing-1` has read after it and not committed, `billing-2` reads **again**. So a consumer should commit before it joins.

# %% [markdown]
# ## Step by step
#
# A member must send a sign of life within its [*session timeout*](../docs/handbook/glossary.md#session-timeout) (`session.timeout.ms`, 45 seconds by default): a heartbeat, or a commit that the coordinator accepts. At the end of the join phase, all sessions start again.
#
# The figure plays the story in 4.x, and what follows, with sessions of **10 seconds**:
#
# 1. A dashed bar is a session. Which events start it again?
# 2. Choose the death *billing-1 dies at 10 s, after its OffsetCommit*. Which request was its last sign of life?
# 3. The box at the bottom says what a crash of the coordinator loses. When is it nothing?
#
# <span class="live-only">You can also type a death, for example `billing-1 at 9`.</span>

# %%
# figure
course.RebalanceLanes()

# %% [markdown]
# *Predict*: sessions last **45** seconds again, and `billing-1` dies after event 8, its accepted commit at 6 s. At which second is it removed?

# %%
# prediction
leader_is_removed_at = ...

# %%
removals = []
for kafka in ("3.9.2", "4.3.1"):
    billing = course.play_script(course.TWO_CONSUMERS[:8], kafka)
    while len(billing.group.members) == 2:
        _, change = billing.wait(1)
    removals.append((kafka, billing.now_s, change))

with course.fold("leader_is_removed_at", leader_is_removed_at, removals[1][1]):
    print("the last sign of life: the commit at second 6")
    for kafka, second, change in removals:
        print(f"Kafka {kafka}, second {second:g}: {change}")

# %% [markdown]
# ## Who chooses the assignor
#
# An *assignor* is the rule by which the leader computes assignments, for example `range`; requests and records call it a [*protocol*](../docs/handbook/glossary.md#protocol). All members must understand the same one, so each JoinGroup has an ordered list of those that the member supports.
#
# A [**candidate**](../docs/handbook/glossary.md#candidate) is an assignor that all members support. Each member votes for the first candidate in its list, and the one with the most votes wins. A client that would leave no candidate gets `INCONSISTENT_GROUP_PROTOCOL`. So to change the assignor without a stop, first let all members support both, and then remove the old one.

# %% [markdown]
# ## Exercise: the vote
#
# Write `select_protocol(members)`, which returns the name that wins. `members` has one ordered list of names for each member. At least one candidate exists, and no two candidates have the same number of votes.

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
# Because a Java consumer sends heartbeats from a thread of their own, they prove only that the process lives. Two more deadlines find members that live and take no part in a rebalance:
#
# | deadline | how long it lasts | at its end |
# |---|---|---|
# | the session of a member | its `session.timeout.ms`, from its last sign of life | The member is removed, and a rebalance begins. |
# | the join phase | the **largest** rebalance timeout of all members | Members that have not joined are removed. The group continues. |
# | the sync phase | the same | Members without a SyncGroup are removed, and a rebalance begins. |
#
# The [rebalance timeout](../docs/handbook/glossary.md#rebalance-timeout) of a Java consumer is `max.poll.interval.ms` (5 minutes), because its code may work that long before it calls `poll` and joins. After that it leaves by itself. The largest one counts, so that each member has at least its own time.

# %% [markdown]
# ## A member leaves
#
# A consumer that closes sends **LeaveGroup**. The coordinator removes it immediately, and a rebalance begins, or the join phase ends if only this member was missing. Without members, the group becomes Empty. A killed process sends nothing, so its partitions wait until its session ends. A consumer with an *instance id* keeps its place during a restart ([lesson 07](07_who_may_commit.ipynb)).

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
# When does the join phase end, and which member is removed? Write a pair, for example `(30, "a")`.

# %%
# exercise: end_of_join
end_of_join = ...

# %%
course.check("end_of_join", end_of_join)
# course.hint("end_of_join")

# %% [markdown]
# A real 3.9.2 broker had a group like this one, and our classic coordinator got its requests:

# %%
recorded = course.play_conversation("3.9.2-rebalance")
print(recorded)
course.compare_with_broker(recorded.our_responses, recorded.broker_responses, "3.9.2")

# %% [markdown]
# ## What is in the log
#
# These are the [group records](../docs/handbook/glossary.md#group-record) of `billing` that two real brokers wrote:

# %%
for kafka in ("4.3.1", "3.9.2"):
    partition = course.find_data(f"harbour/{kafka}/__consumer_offsets-9")
    groups = [line for line in course.read_lines(partition) if (line.group, line.record_type) == ("billing", "group")]
    print(f"Kafka {kafka}")
    for line in groups:
        value = kg.decode(*course.read_record(partition, line.record_offset)).value
        names = sorted(member.client_id for member in value.members)
        print(f"  offset {line.record_offset:>2}   generation {value.generation}   {', '.join(names) or 'no members'}")

# %% [markdown]
# Generation 0 is the first JoinGroup, which only 4.x records, and generation 4 the last leave: the group is Empty and keeps its offsets. Every other record is the end of a rebalance. Nothing else writes one, not even a LeaveGroup while others stay, so a rebalance in progress is not in the log.

# %% [markdown]
# ## Memory and log
#
# If the coordinator crashes, the next one has only the log. Here it loads the log after some events of the figure:

# %%
def crashes(broker):
    for event in (1, 4, 7, 10, 14, 16, 20):
        billing = course.play_script(course.TWO_CONSUMERS[:event], broker.settings.kafka)
        next_broker = course.start_follower(billing.coordinator, "billing")
        loaded = course.GroupLife("billing", broker=next_broker)
        yield f"event {event}, in memory: {billing.describe()}", f"loaded: {loaded.describe()}"


course.compare_brokers(crashes)

# %% [markdown]
# After event 10, generation 2 is only in memory, without assignments. Both members get an error from the next coordinator and join again, so a crash during a rebalance costs time and nothing else.
#
# Event 16 is the leave of `billing-1`, which wrote no record, so the next coordinator believes that it is still there. The log has no deadlines either, so a load gives every member a full session, and `billing-1` is removed at its end. The handbook says [which state can follow which](../docs/handbook/groups.md#classic-groups), in older releases too.

# %% [markdown]
# ## Exercise: after the failover
#
# A Stable group has two members, with sessions of 45 seconds, on one machine. The machine is switched off without a warning, and ten seconds later the broker dies, too. What does the next coordinator have after its load? Write the letter in quotes.
#
# - **A**: two members, for up to 45 more seconds
# - **B**: two members, for up to 35 more seconds
# - **C**: no members: the group is Empty

# %%
# exercise: after_the_failover
after_the_failover = ...

# %%
course.check("after_the_failover", after_the_failover)
# course.hint("after_the_failover")

# %% [markdown]
# ## Where the classic coordinator differs
#
# Besides the first JoinGroup and the assignments that 4.x shows during a rebalance, a third difference appears when the replicas are late. `HeldLogs` lets them confirm only on command, so the record of generation 2 waits:

# %%
from kafkagroups.coordinator import Errors, HeldLogs


def late_record(broker):
    log = HeldLogs(broker.manager.logs, holds_answers=False)
    broker = course.start_broker(log, kafka=broker.settings.kafka, offsets_topic_num_partitions=1)
    billing = course.play_script(course.TWO_CONSUMERS[:13], broker=broker)
    yield "billing-2 waits for its assignment", billing.describe()
    log.holds_answers = True
    yield billing.sync("billing-1")
    broker.clock.after(5_000, lambda: log.release(error=Errors.REQUEST_TIMED_OUT))  # offsets.commit.timeout.ms
    yield billing.wait(5)
    loaded = course.GroupLife("billing", broker=course.start_follower(broker, "billing"))
    yield "after a crash, the next broker has", loaded.describe()


course.compare_brokers(late_record)[1:]

# %% [markdown]
# Both coordinators give up after 5 seconds and begin another rebalance, although the next coordinator would find the record, as the last row shows. But 3.9 tells the members to join again, and 4.x translates the log's error as for a commit (lesson 04), into the advice to look for the coordinator first. Java consumers do either by themselves.

# %% [markdown]
# ## Check yourself
#
# <details><summary>What happens between the leader's SyncGroup and the answers to the members?</summary>
#
# The coordinator appends a record with all assignments and waits for the replicas. If this fails, all get an error and join again.
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
# A record with generation 0 and no members. Kafka 3.9 writes nothing before the first SyncGroup.
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
# - After a failover, the group continues with its last stored generation and full sessions.
#
# ## For your consumer
#
# - A dead consumer keeps its partitions for `session.timeout.ms` (45 s).
# - After `max.poll.interval.ms` (5 min) without a `poll`, the consumer leaves. Its next `poll` joins again.
# - Commit in `onPartitionsRevoked` of your `ConsumerRebalanceListener`, which runs before the consumer joins again.
# - After `CommitFailedException` or `RebalanceInProgressException`, do not repeat the commit, but call `poll`, which joins again.
# - With a cooperative assignor, the consumer goes on reading the partitions that it keeps.

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group rebalances all the time. | `kafkagroups timeline PATH --group billing` | A member comes and goes. | `kafkagroups dump PATH --group billing --type 2` shows its host. If its log has `consumer poll timeout has expired`, raise `max.poll.interval.ms`, or lower `max.poll.records`. |
# | Which member was removed, and why? | `grep "Preparing to rebalance group billing" server.log` | The line ends with the reason and the member id. | Read the log of this member. |
# | A group hangs in PreparingRebalance. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --members --verbose` | One of the members does not join. | Close its process normally, so that it sends LeaveGroup. |

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
# How a leader computes assignments, because the coordinator never reads them.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [07 · Who may commit](07_who_may_commit.ipynb): which commits a coordinator refuses.
