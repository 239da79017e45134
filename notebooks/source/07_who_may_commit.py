# %% [markdown]
# # 07 · Who may commit
#
# **Which checks does a coordinator make before it stores a commit?**
#
# **Which Kafka:** every 4.x, with the new *group coordinator*. **Which groups:** *classic groups*, whose consumers keep the default `group.protocol=classic`.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | explain why a late consumer cannot overwrite newer offsets; say which error a refused commit gets, and what your code should do; find two processes with one instance id | {{minutes}} + 10 for later | no |
#
# ![A commit passes four checks before the log: the group, the member, the generation and the assignments, each with its own error.](pictures/07.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. A consumer that has lost its partitions must not commit for them, because such a commit could overwrite newer offsets.
# 2. The coordinator cannot recognise such a commit by its offset. So it checks the **sender**, in four checks. The first one that fails decides the error.
# 3. A client that is not a member, for example a tool, sends the generation −1. If the group has **no members**, the coordinator stores such a *simple* commit. If the group has members, the coordinator refuses it.
# 4. A [**static member**](../docs/handbook/glossary.md#static-member) has a name, and a new process with this name takes the place of the old one.

# %% [markdown]
# ## A commit that is too late
#
# `billing-1` and `billing-2` share the partitions of `orders`. Then `billing-2` hangs, for example in a long pause of its Java process. For 50 seconds it sends nothing, which is longer than its session timeout of 45 seconds, so the coordinator removes it. `billing-1` takes over `orders-2`, and commits what it has read.
#
# How does it end?

# %%
# script
from IPython.display import display

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit


def silent_member(broker):
    billing = course.run_silent_member(broker)
    yield "billing-2 was silent for 50 s", billing.read_state_name()
    billing.join("billing-1")
    billing.sync("billing-1")
    billing.commit("billing-1", {"orders-2": 31})
    yield "billing-1 takes over and commits orders-2 = 31", billing.events[-1].response
    billing.commit("billing-2", {"orders-2": 20})
    yield "billing-2 wakes up and commits orders-2 = 20", billing.events[-1].response
    yield "a fetch of the group's offsets", broker.offset_fetch("billing")

# %% [markdown]
# *Predict*: `billing-2` wakes up and commits `orders-2`. What is the answer of Kafka 4.3.1? Write the name of an error, or `"NONE"`.

# %%
# prediction
late_commit = ...

# %%
silent = course.compare_brokers(silent_member, ("4.3.1", "3.9.2"))[1:]

with course.fold("late_commit", late_commit, silent.steps[1].answers[0]):
    display(silent)

# %% [markdown]
# The late commit is refused with `UNKNOWN_MEMBER_ID`, because `billing-2` is not a member any more. Otherwise the group's offset would have gone back from 31 to 20, and the next consumer would process eleven records a second time.
#
# Why does the coordinator not simply refuse an offset that is smaller than the stored one? Because an operator sometimes wants to go back. So the coordinator can only check who sends the commit, and whether the sender knows the current generation.

# %% [markdown]
# ## Simple commits
#
# Not every sender is a member. A tool that sets an offset (lesson 02) commits, too, and so does a consumer that chooses its partitions itself, with `assign` instead of `subscribe`. Such a client sends no member id and the generation −1.
#
# If the group has no members, such a commit is *simple*: the coordinator stores it without a check of the sender, because there is no member whose offset it could overwrite. If the group does not exist, the coordinator creates it.
#
# As long as the group has members, the coordinator refuses a commit with the generation −1, because it could overwrite a member's commit. So you cannot set an offset while the group has a member.

# %% [markdown]
# ## The checks, in order
#
# There are two kinds of refusal. The first is about **one offset**: if the partition does not exist, or the client may not read its topic, the broker refuses the offset of this partition and stores the others.
#
# The second is about the **whole commit**. A simple commit is stored without a question. For every other commit, the coordinator asks four questions about the sender, and if one answer is no, it stores nothing of the request. (A member sends its member id and its generation, which is 0 or more.)
#
# | check | question | the error, if not | why |
# |---|---|---|---|
# | 1 | Does the group exist? | `GROUP_ID_NOT_FOUND` | A group that does not exist has no members. |
# | 2 | Is the sender a member? | `UNKNOWN_MEMBER_ID` | The sender was removed, or never was a member (an Empty group has none). |
# | 3 | Does the commit have the current generation? | `ILLEGAL_GENERATION` | The sender has missed a rebalance. |
# | 4 | Is it clear who owns the partitions? | `REBALANCE_IN_PROGRESS` | In CompletingRebalance, the leader of the group has not sent the assignments yet. |
#
# **Each question makes sense only after the one before it**: a member exists only in a group, and a generation means something only for a member. So the late commit of `billing-2` fails check 2. Its generation is old, too, but the coordinator does not get to check 3.

# %% [markdown]
# Check 4 is about the two phases of a rebalance (lesson 06). In PreparingRebalance, a commit passes it, because the members still own their partitions, and should commit before they join again.
#
# Here are commits for each check. `billing` is the group of lesson 06, Stable in generation 2. `backup` does not exist at first; a simple commit creates it. Each row begins with the check that refuses the commit, or with *stored*:

# %%
# script
ORDERS_0 = kg.TopicPartition("orders", 0)


def refused_commits(broker):
    def commit(group, member_id="", generation=-1):
        return broker.offset_commit(group, {ORDERS_0: OffsetCommit(5)}, generation=generation, member_id=member_id)

    billing = course.play_script(course.TWO_CONSUMERS[:14], broker=broker)
    member_id = billing.consumers["billing-1"].member_id
    yield "two members, in generation 2", billing.read_state_name()
    yield "check 1 refuses: backup does not exist, generation 0", commit("backup", "member-a", 0)
    yield "stored: backup does not exist, generation −1", commit("backup")
    yield "check 2 refuses: backup is Empty, generation 0", commit("backup", "member-a", 0)
    yield "check 2 refuses: billing, a stranger, generation 99", commit("billing", "stranger", 99)
    yield "check 2 refuses: billing, no member id, generation −1", commit("billing")
    yield "check 3 refuses: billing-1, generation 1", commit("billing", member_id, 1)
    yield "stored: billing-1, generation 2", commit("billing", member_id, 2)
    billing.join("billing-3")
    billing.join("billing-3")
    yield "a third consumer joins", billing.read_state_name()
    yield "stored: billing-1, generation 2, once more", commit("billing", member_id, 2)
    billing.join("billing-1")
    billing.join("billing-2")
    yield "all three have joined", billing.read_state_name()
    yield "check 4 refuses: billing-1, generation 3", commit("billing", member_id, 3)


course.compare_brokers(refused_commits, ("4.3.1", "3.9.2"))[1:]

# %% [markdown]
# <details><summary>The length of the metadata</summary>
#
# A client may store a text with each offset, the [*metadata*](../docs/handbook/glossary.md#metadata). Its limit is `offset.metadata.max.bytes`, 4,096 by default. Despite this name, the broker counts Java's UTF-16 units (lesson 02): 4,096 times `ü` is accepted, although it has 8,192 bytes, but `𝄞` counts as two. If the text is longer, the broker refuses this partition with `OFFSET_METADATA_TOO_LARGE`.
#
# </details>
#
# <details><summary>Members of the new protocol</summary>
#
# A consumer with `group.protocol=consumer` uses the protocol of [lesson 13](13_the_new_protocols.ipynb). Its members have no common generation, because each member has a **member epoch** of its own. A commit with the member's current epoch is accepted; with another one the answer is `STALE_MEMBER_EPOCH`.
#
# </details>

# %% [markdown]
# ## Exercise: three refused commits, on paper
#
# The group `sub` is Stable and has one member, `member-a`, in generation 1. The group `g5` is Empty. A broker of Kafka 3.9.2 refused these three commits (4.x gives the same answers):
#
# 1. group `sub`, member `stranger`, generation 99
# 2. group `sub`, member `member-a`, generation 0
# 3. group `g5`, member `m-1`, generation 0
#
# Which errors did this broker answer? Write the three names in order: `("…", "…", "…")`.

# %%
# exercise: three_refusals
three_refusals = ...

# %%
course.check("three_refusals", three_refusals)
# course.hint("three_refusals")

# %% [markdown]
# ## From the error to your code
#
# | error | `commitSync` of Java throws | what happened | what your code should do |
# |---|---|---|---|
# | `UNKNOWN_MEMBER_ID`, `ILLEGAL_GENERATION` | `CommitFailedException` | The group went on without this member. | Do not commit again. Call `poll`, which calls `onPartitionsLost` and joins again. Other members process these records again, so processing twice must do no harm. |
# | `GROUP_ID_NOT_FOUND` | `KafkaException` | This member was removed, and then the group was deleted. | Call `poll`, which joins again. The group's offsets are gone, so the consumer starts where `auto.offset.reset` says. |
# | `REBALANCE_IN_PROGRESS` | `RebalanceInProgressException` | The partitions are being divided. | Call `poll`, which finishes the rebalance. Then commit what you still own. |
# | `FENCED_INSTANCE_ID`, to a static member | `FencedInstanceIdException` | Another process has this instance id. | Stop, and look for the other process. |
# | `GROUP_AUTHORIZATION_FAILED`, `TOPIC_AUTHORIZATION_FAILED` | `GroupAuthorizationException`, `TopicAuthorizationException` | A permission is missing. | Stop, and ask for READ. |
# | `NOT_COORDINATOR`, `COORDINATOR_LOAD_IN_PROGRESS` | `TimeoutException`, after 60 seconds of retries | The broker could not store the commit during this time. | Go on: the next commit stores a newer offset (lesson 04). |
# | `UNKNOWN_TOPIC_OR_PARTITION` | `TimeoutException`, after 60 seconds | The broker does not know this topic or partition; perhaps the topic was deleted. It stored the other offsets of the commit. | Check whether the topic still exists. If not, no later commit can store the offset: leave this partition out. |

# %% [markdown]
# ## Exercise: answer a commit
#
# Write `answer_commit(group, member_id, generation)`, which stores simple commits, makes the four checks for the others, and returns the name of the error, or `"NONE"`. `group` is None if the group does not exist, and otherwise the group's state, its generation and the list of its member ids, for example `("Stable", 2, ["m-1", "m-2"])`.

# %%
# exercise: answer_commit
def answer_commit(group, member_id, generation):
    ...

# %%
course.check("answer_commit", answer_commit)
# course.hint("answer_commit")

# %% [markdown]
# ## A static member
#
# After a restart, a new process has no member id, so it joins as a new member. A restart costs two rebalances: one when the old process leaves, and one when the new one joins.
#
# A *static* member avoids both rebalances, because it has a name: its `group.instance.id`. When its process stops, it does not leave the group, so the member keeps its partitions. If a new process with this [instance id](../docs/handbook/glossary.md#instance-id) starts before the session timeout ends, it takes the place of the old one.
#
# For each instance id, the coordinator remembers the member id of the newest process. So for a static member, the coordinator makes one more check, between check 1 and check 2: is this member id the newest one of the instance id? If not, the error is `FENCED_INSTANCE_ID`. The sender is *fenced*, shut out, because another process has its place.
#
# Harbour Coffee has two vans, whose consumers are static members of `shipping`. Then `van-1` is started again:

# %%
# script
def restart_of_van_1(broker):
    vans = course.start_two_vans(broker)
    old_process = vans.consumers["van-1"].member_id
    yield "two vans", f"{vans.read_state_name()}, generation {vans.group.generation}"
    vans.join("van-1", instance="van-1", new_process=True)
    yield "a new process joins as van-1", vans.events[-1].response
    vans.sync("van-1")
    yield "it asks for its partitions", vans.events[-1].response
    yield "the old process sends a heartbeat", broker.heartbeat("shipping", 2, old_process, group_instance_id="van-1")
    identity = {"generation": 2, "member_id": old_process, "group_instance_id": "van-1"}
    yield "the old process commits", broker.offset_commit("shipping", {ORDERS_0: OffsetCommit(3)}, **identity)


restart = course.compare_brokers(restart_of_van_1, ("4.3.1", "3.9.2"))[1:]

# %% [markdown]
# *Predict*: the old process of `van-1` was not dead; it only had no network. Now it sends a heartbeat with its old member id and its instance id. The coordinator checks a heartbeat in the same order as a commit. What is the answer? Write the name of an error.

# %%
# prediction
heard_by_the_old_process = ...

# %%
with course.fold("heard_by_the_old_process", heard_by_the_old_process, restart.steps[2].answers[0]):
    display(restart)

# %% [markdown]
# - **The new process** has the old partitions again, and the generation stays 2, because no partition changes its owner. The old process led the group, so the new process leads the group, too. The answer to its JoinGroup says `skip_assignment`: it leads, but it computes nothing.
# - **The group record** is written again, because the member id is new. Without this record, the next coordinator would load the old member id after a failover, and refuse the new process.
# - **The old process** gets `FENCED_INSTANCE_ID`, which tells it to stop. If the answer were `UNKNOWN_MEMBER_ID`, the old process would join again and push out the new one.
#
# **A fenced process must stay stopped.** If a tool such as Kubernetes restarts the fenced process, this process joins as the newer one, and pushes out the other. If both are restarted automatically, they push each other out for ever.

# %% [markdown]
# ## Exercise for later: which name is used twice?
#
# Some months later, the shop has three vans. Their operator reports: *"`shipping` is Stable, always in the same generation. But every few seconds, a process logs `FENCED_INSTANCE_ID`, stops, and is started again. It began when we set up a spare machine from a copy."* These are the group records of `shipping`:

# %%
shipping = course.run_duplicate_static_member()
for line in shipping.log_lines:
    if line.record_type == "group":
        members = shipping.read_record(line.record_offset).value.members
        names = sorted(f"{member.group_instance_id} as {member.member_id}" for member in members)
        print(f"offset {line.record_offset}: generation {line.value}", *names, sep="   ")

# %% [markdown]
# Each line has the instance id and member id of each member. Which instance id do two processes have? Write it as a text, for example `"van-1"`.

# %%
# exercise: copied
copied = ...

# %%
course.check("copied", copied)
# course.hint("copied")

# %% [markdown]
# ## Where 3.9 differs
#
# A client can see one difference, in check 1. If a commit has a generation of 0 or more, and its group does not exist, 3.9 answers `ILLEGAL_GENERATION`.
#
# <details><summary>Other versions</summary>
#
# Static members exist since 2.3. `GROUP_ID_NOT_FOUND` needs version 9 of the request OffsetCommit; to older clients, Kafka 4.x also answers `ILLEGAL_GENERATION`. Before 2.4, REBALANCE_IN_PROGRESS came before the check of the member. Kafka 1.0.1 checks that the topic exists, but not the partition. The handbook lists [the errors of each request](../docs/handbook/errors.md).
#
# </details>

# %% [markdown]
# ## Check yourself
#
# <details><summary>A commit gets ILLEGAL_GENERATION from a 4.x broker. What do you know about its sender?</summary>
#
# The commit passed the checks 1 and 2, so the group exists and the sender is a member. But the sender has missed a rebalance, so its partitions may belong to other members.
#
# </details>
#
# <details><summary>A commit has offsets of ten partitions. When does the broker refuse one of them, and when all ten?</summary>
#
# One: if its partition does not exist, the client may not read its topic, or its metadata is too long. All: if one of the four checks fails.
#
# </details>
#
# ## In five lines
#
# - Four checks, in this order: group, member, generation, assignments. The first check that fails decides the error.
# - A member that was removed gets `UNKNOWN_MEMBER_ID`, so a late commit cannot overwrite newer offsets.
# - Without members, a group accepts commits with generation −1.
# - A static member keeps its place during a restart.
# - If two processes have the same instance id, the newer one pushes out the older one.
#
# ## For your consumer
#
# Set `group.instance.id` for consumers that restart often, and a `session.timeout.ms` longer than a restart, for example 120000 (2 minutes) if a new pod needs 90 seconds. Give each process its own id. The price: if such a process dies for good, nobody reads its partitions until this timeout has passed.

# %% [markdown]
# ## At 3 am
#
# `server.log` is the log of the group's coordinator, which `--describe --state` prints.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A consumer throws `CommitFailedException`. Why was it removed? | `grep "poll timeout has expired" consumer.log` (its own log) | If `grep` finds the text, the consumer's loop was too slow. If not, the process was probably silent. Then `server.log` has the text `has failed, removing it`. | For a slow loop, lower `max.poll.records` or raise `max.poll.interval.ms`. For a silent process, raise `session.timeout.ms`. |
# | `FENCED_INSTANCE_ID` comes again and again. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group shipping --members --verbose` | CONSUMER-ID is the member id. If the member id changes each time for the same instance id, two processes have this instance id. HOST shows where they run. | Find the second process, for example one with a copied configuration or on an old machine, and stop it. If Kubernetes runs it, lower the number of its pods, because a pod that is only deleted starts again. |
# | `--reset-offsets` fails, because the group must be inactive. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The group still has members. | Stop all consumers of the group, and wait for one session timeout. If a member does not stop, a Java program can remove it (`Admin.removeMembersFromConsumerGroup`). |

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | permissions, topics | `KafkaApis.handleOffsetCommitRequest` | the same |
# | group and member | `OffsetMetadataManager.validateOffsetCommit`, `ClassicGroup.validateOffsetCommit`, `ConsumerGroup.validateOffsetCommit` | `GroupCoordinator.doCommitOffsets`, `validateOffsetCommit` |
# | static members | `ClassicGroup.replaceStaticMember` | `GroupCoordinator.updateStaticMemberThenRebalanceOrCompleteJoin` |
#
# </details>
#
# ## What we left out, and why
#
# Commits in a transaction (lesson 08), and how a cluster gives permissions. All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [08 · Transactions](08_transactions.ipynb): when an offset in a transaction counts.
