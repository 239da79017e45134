# %% [markdown]
# # 07 · Who may commit
#
# **Which checks does a coordinator make before it stores a commit?**
#
# **Which Kafka:** 4.x, with *classic groups*, whose clients use the classic protocol, the default also on 4.x. The tables show 4.3.1 beside 3.9.2. If a row has only one answer, both give it.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which error a refused commit gets; explain why a late consumer cannot overwrite newer offsets; use static members; find two processes with one instance id | {{minutes}} | no |
#
# ![A commit passes four checks before the log: the client, the group, the member and the generation, each with its own error.](pictures/07.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. A consumer that has lost its partitions must not commit for them, because it could overwrite newer offsets.
# 2. The checks have a fixed **order**, and the first one that fails decides the error.
# 3. A group **without members** accepts commits without a generation, which are called *simple* commits.
# 4. A [**static member**](../docs/handbook/glossary.md#static-member) has a name, its *instance id*, and a new process with this name takes the place of the old one.

# %% [markdown]
# ## A commit that is too late
#
# `billing-1` and `billing-2` share the partitions of `orders`. Then `billing-2` hangs, for example in a long pause of its Java process. For 50 seconds it sends nothing, which is longer than its session timeout of 45 seconds, so the coordinator removes it and begins a rebalance. `billing-1` takes over `orders-2`, and commits what it has read.
#
# This script plays the story on two brokers. You need not read it; its rows follow below.

# %%
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
# The late commit is refused with `UNKNOWN_MEMBER_ID`, because `billing-2` is not a member any more. If the coordinator had stored it, the group's offset would have gone back from 31 to 20, and the next consumer would process eleven records a second time.
#
# Why does the coordinator not simply refuse an offset that is smaller than the stored one? Because going back is sometimes what an operator wants. The coordinator can only check who sends the commit, and whether the sender knows the current generation.

# %% [markdown]
# ## The checks, in order
#
# A member sends its member id and its generation, which is 0 or more. Any other client sends no member id and the generation −1.
#
# The first five checks do not look at the group:
#
# | | this is wrong | the error |
# |---|---|---|
# | 1 | The client does not have the permission READ for the group. | `GROUP_AUTHORIZATION_FAILED` |
# | 2 | The client does not have the permission READ for the topic. | `TOPIC_AUTHORIZATION_FAILED` |
# | 3 | The partition does not exist. | `UNKNOWN_TOPIC_OR_PARTITION` |
# | 4 | This broker does not lead the group's partition. | `NOT_COORDINATOR` |
# | 5 | This broker has not yet loaded the group's partition. | `COORDINATOR_LOAD_IN_PROGRESS` |
#
# Then the coordinator compares the sender with the group. It checks the member id before the generation, because a generation means something only if the member is known:
#
# | | this is wrong | the error | why |
# |---|---|---|---|
# | 6 | The group does not exist, and the generation is 0 or more. | `GROUP_ID_NOT_FOUND` | nobody can be a member of it |
# | 7 | The group is Empty, and the generation is 0 or more. | `UNKNOWN_MEMBER_ID` | it has no members |
# | 8 | The commit has an instance id, and this id belongs to another member id. | `FENCED_INSTANCE_ID` | the sender is *fenced*, shut out: another process has its place |
# | 9 | The group has members, and the member id is not one of them. | `UNKNOWN_MEMBER_ID` | the sender was removed, or never was a member |
# | 10 | The group has members, and the generation is not the current one. | `ILLEGAL_GENERATION` | the member missed a rebalance |
# | 11 | The group has members, and they do not have their new assignments yet (CompletingRebalance). | `REBALANCE_IN_PROGRESS` | nobody knows who owns the partition |
#
# A commit that passes them all is stored, and if its group does not exist, the coordinator creates the group.
#
# Most errors refuse the whole request. The checks 2 and 3, and a check of the metadata's length (below), refuse one partition, and the other partitions of the request are stored. Every other check refuses the whole request.
#
# The next script makes such commits; you can skip it. Each row of its table begins with the check that refuses the commit, or with "accepted". `shipping` has two members, in generation 2:

# %%
ORDERS_0 = kg.TopicPartition("orders", 0)


def refused_commits(broker):
    def commit(group, generation=-1, member_id="", partition=ORDERS_0, **more):
        commits = {partition: OffsetCommit(5)}
        return broker.offset_commit(group, commits, generation=generation, member_id=member_id, **more)

    vans = course.start_two_vans(broker)
    van_1 = vans.consumers["van-1"].member_id
    yield "two members joined", vans.read_state_name()
    yield "3: the topic does not exist", commit("backup", partition=kg.TopicPartition("missing", 0))
    yield "6: the group does not exist, generation 0", commit("backup", 0, "member-a")
    yield "accepted: the group does not exist, generation −1", commit("backup")
    yield "7: the group is Empty, generation 0", commit("backup", 0, "member-a")
    yield "8: the instance id van-1, another member id", commit("shipping", 2, "stranger", group_instance_id="van-1")
    yield "9: a stranger, generation 99", commit("shipping", 99, "stranger")
    yield "9: no member id, generation −1", commit("shipping")
    yield "10: van-1, generation 1", commit("shipping", 1, van_1)
    yield "accepted: van-1, generation 2", commit("shipping", 2, van_1)
    vans.join("van-3", instance="van-3")
    yield "a third member joins", vans.read_state_name()
    yield "accepted: van-1, generation 2, once more", commit("shipping", 2, van_1)
    vans.join("van-1")
    vans.join("van-2")
    vans.wait(3)
    yield "all three have joined", vans.read_state_name()
    yield "11: van-1, generation 3", commit("shipping", 3, van_1)


course.compare_brokers(refused_commits, ("4.3.1", "3.9.2"))[1:]

# %% [markdown]
# A commit that is accepted is also a sign of life: the session timeout of the member starts again.

# %% [markdown]
# ## Exercise: three refused commits, on paper
#
# The group `sub` is Stable and has one member, `member-a`, in generation 1. The group `g5` is Empty. A broker of Kafka 3.9.2 refused these three commits, which had no instance id (4.x gives the same answers):
#
# 1. group `sub`, member `stranger`, generation 99
# 2. group `sub`, member `member-a`, generation 0
# 3. group `g5`, member `m-1`, generation 0
#
# Which errors did it answer? Write the three names in order: `("…", "…", "…")`.

# %%
# exercise: three_refusals
three_refusals = ...

# %%
course.check("three_refusals", three_refusals)
# course.hint("three_refusals")

# %% [markdown]
# ## The state of the group decides, too
#
# Check 11 is about the two phases of a rebalance (lesson 06). In PreparingRebalance, the members still own their partitions, and should commit before they join again, so the commit is accepted. In CompletingRebalance, the new owners are not known yet, so it is refused.
#
# ## Simple commits
#
# Some clients commit and are not members: a tool that sets an offset, as in lesson 02, or a consumer that chooses its partitions itself, with `assign` instead of `subscribe`. They send the generation −1. The coordinator accepts such a simple commit only if the group does not exist or is Empty, because otherwise a member may be committing the same partition.
#
# So you cannot set an offset while the group has a member, not even the offset of one partition.

# %% [markdown]
# ## A static member
#
# A member with a `group.instance.id` is *static*. When its process stops, it does not leave the group, so its partitions keep their owner, although nobody reads them meanwhile. When a new process starts with this [instance id](../docs/handbook/glossary.md#instance-id), it takes the place of the old one, and there is no rebalance. A static member that stays away longer than its session timeout is removed like any other.
#
# Harbour Coffee has two vans, and their consumers are static members of `shipping`. Then `van-1` is started again:

# %%
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
# The new process gets a new member id, so the coordinator writes the group record again. Without this record, the coordinator after a failover would load the old member id and refuse the new process. The generation stays 2, because no member gets other partitions.

# %% [markdown]
# *Predict*: the old process of `van-1` was not dead. It only had no network for a moment. Now it sends a heartbeat with its old member id and its instance id, which the coordinator checks in the same order as for a commit. What is the answer? Write the name of an error.

# %%
# prediction
heard_by_the_old_process = ...

# %%
with course.fold("heard_by_the_old_process", heard_by_the_old_process, restart.steps[2].answers[0]):
    display(restart)

# %% [markdown]
# `van-1` has its old partitions again, and `skip_assignment` tells the leader that it need not compute assignments.
#
# The old process gets `FENCED_INSTANCE_ID`, because the instance id is checked before the member id, and `van-1` now belongs to another member id. This error tells the old process to stop. With `UNKNOWN_MEMBER_ID`, it would join again and push out the new process, and so on.
#
# But if something such as Kubernetes restarts each process that stops, the two push each other out for ever.
#
# A real 3.9.2 broker wrote records with the same generations in the log of the shop:

# %%
classic_vans = course.start_two_vans()
classic_vans.join("van-1", instance="van-1", new_process=True)
written = [line.value for line in classic_vans.log_lines if line.record_type == "group"]
harbour = course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-8"))

course.compare_with_broker(written, [line.value for line in harbour if line.record_type == "group"], "3.9.2", verb="wrote")

# %% [markdown]
# ## Exercise: which name is used twice?
#
# Some months later, the shop has three vans. Their operator reports: *"`shipping` is Stable, always in the same generation. But every few seconds, a process logs `FENCED_INSTANCE_ID`, stops, and is started again. It began when we set up a spare machine from a copy."*
#
# These are the group records of `shipping`, with the instance id and the member id of each member. (The offsets 4, 6 and 8 are commits.)

# %%
shipping = course.run_duplicate_static_member()
for line in shipping.log_lines:
    if line.record_type == "group":
        members = shipping.read_record(line.record_offset).value.members
        names = sorted(f"{member.group_instance_id} as {member.member_id}" for member in members)
        print(f"offset {line.record_offset}: generation {line.value}", *names, sep="   ")

# %% [markdown]
# Which instance id do two processes have? Write it as a text, for example `"van-1"`.

# %%
# exercise: copied
copied = ...

# %%
course.check("copied", copied)
# course.hint("copied")

# %% [markdown]
# ## The length of the metadata
#
# The last check is not about the sender, and operators can skip it. A client may store a text with each offset, the [*metadata*](../docs/handbook/glossary.md#metadata). Its limit is `offset.metadata.max.bytes`, 4,096 by default. Despite this name, the broker does not count bytes:

# %%
def long_metadata(broker):
    for text in ("m" * 4096, "m" * 4097, "ü" * 4096, "𝄞" * 2048, "𝄞" * 2049):
        label = f"{text[0]}: {len(text)} characters, {len(text.encode())} bytes of UTF-8"
        yield label, broker.offset_commit("backup", {ORDERS_0: OffsetCommit(5, text)})


course.compare_brokers(long_metadata, ("4.3.1", "3.9.2"))

# %% [markdown]
# ## Exercise: does it fit?
#
# What does the broker count? Lesson 02 showed how Java counts. Write `fits(metadata, limit)`, which returns whether a broker accepts this text.

# %%
# exercise: fits
def fits(metadata, limit):
    ...

# %%
course.check("fits", fits)
# course.hint("fits")

# %% [markdown]
# A real 3.9.2 broker got many right and wrong commits, and our model of 3.9.2 got the same:

# %%
recorded = course.play_conversation("3.9.2-commits")
print(recorded)
course.compare_with_broker(recorded.our_responses, recorded.broker_responses, "3.9.2")

# %% [markdown]
# <details><summary>Members of the new protocol</summary>
#
# A consumer with `group.protocol=consumer` uses the protocol of [lesson 13](13_the_new_protocols.ipynb). Its members have no common generation, because each has a **member epoch** of its own. A commit with the member's current epoch is accepted; with another one the answer is `STALE_MEMBER_EPOCH`. Since 4.3, an older epoch is accepted too, if the member has owned the partition without interruption since that epoch.
#
# </details>

# %% [markdown]
# ## Where 3.9 differs
#
# A client can see one difference: in 3.9, a member's commit to a group that does not exist gets `ILLEGAL_GENERATION`, which sounds as if only the generation were old.
#
# <details><summary>Other versions</summary>
#
# Static members exist since 2.3. `GROUP_ID_NOT_FOUND` needs version 9 of the request OffsetCommit; to older clients, Kafka 4.x also answers `ILLEGAL_GENERATION`. Before 2.4, REBALANCE_IN_PROGRESS came before the check of the member. Kafka 1.0.1 checks that the topic exists, but not the partition. The handbook lists [the errors of each request](../docs/handbook/errors.md).
#
# </details>

# %% [markdown]
# ## From the error to your code
#
# | error | `commitSync` of Java throws | what happened | what your code should do |
# |---|---|---|---|
# | `UNKNOWN_MEMBER_ID`, `ILLEGAL_GENERATION` | `CommitFailedException` | The group went on without this member. | Do not commit again. Call `poll`, which calls `onPartitionsLost` and joins again. Other members read the records again, so processing must tolerate that. |
# | `REBALANCE_IN_PROGRESS` | `RebalanceInProgressException` | The partitions are being divided. | Call `poll`, which finishes the rebalance. Then commit what you still own. |
# | `FENCED_INSTANCE_ID` | `FencedInstanceIdException` | Another process has this instance id. | Stop, and look for the other process. |
# | checks 1 and 2 | `GroupAuthorizationException`, `TopicAuthorizationException` | A permission is missing. | Stop, and ask for READ. |
# | checks 3 to 5 | `TimeoutException`, after 60 seconds of retries | The commit is perhaps possible later. | Go on; the next commit makes up for it (lesson 04). |
#
# ## In five lines
#
# - The order of the checks: permissions, topics, right broker, group, member, generation, state.
# - A member that was removed gets `UNKNOWN_MEMBER_ID`, so its commit cannot overwrite newer offsets.
# - Without members, a group accepts commits with generation −1.
# - A static member keeps its place during a restart.
# - If two processes have the same instance id, the newer one pushes out the older one.
#
# ## For your consumer
#
# - Set `group.instance.id` for consumers that restart often, and a `session.timeout.ms` longer than a restart. Give each process its own id.

# %% [markdown]
# ## At 3 am
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A consumer throws `CommitFailedException`. Why was it removed? | `grep "poll timeout has expired" consumer.log` (its own log) | A hit: its loop did not `poll` for `max.poll.interval.ms`. No hit: usually its process was silent for `session.timeout.ms`, and the coordinator's `server.log` has `has failed, removing it`. | A slow loop: lower `max.poll.records`, or raise `max.poll.interval.ms`. A silent process: find the pause (Java's garbage collector, the network), or raise `session.timeout.ms`. |
# | `FENCED_INSTANCE_ID` appears again and again. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group shipping --members --verbose` | It prints the instance id, the consumer id (the member id) and the host of each member. If the consumer id of an instance id changes each time, two processes have it. | Find the second process: a copied configuration, or an old machine. Stop it. |
# | `--reset-offsets` says that the group is not inactive. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The group still has members. | Stop all consumers of the group, and wait for one session timeout. |

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
# Commits in a transaction have their own rules: lesson 08. We left out how a cluster decides about permissions.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [08 · Transactions](08_transactions.ipynb): when an offset in a transaction counts.
