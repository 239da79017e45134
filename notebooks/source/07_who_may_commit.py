# %% [markdown]
# # 07 · Who may commit
#
# **Which checks does a coordinator make before it stores a commit?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which error a refused commit gets; explain why a late consumer cannot overwrite newer offsets; use static members; find two processes with one instance id | {{minutes}} | no |
#
# ![A commit passes four checks before the log: the client, the group, the member and the generation, each with its own error.](pictures/07.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. A consumer that has lost its partitions must not commit for them. Otherwise it could overwrite newer offsets.
# 2. The checks have a fixed **order**. The first check that fails decides the error.
# 3. A group **without members** accepts commits without a generation. They are called *simple* commits.
# 4. A [**static member**](../docs/handbook/glossary.md#static-member) has a name. A new process with this name takes the place of the old process.
#
# The coordinator of this lesson follows the rules of Kafka 3.9. The table at the end shows what differs in Kafka 4.x.

# %% [markdown]
# ## A commit that is too late
#
# `billing-1` and `billing-2` divide the partitions of `orders`. Then `billing-2` hangs, for example in a long pause of Java (a garbage collection). It sends nothing for 50 seconds. `billing-1` is healthy and sends heartbeats. `course.run_silent_member` brings the group into this situation:

# %%
from kafkagroups import course

life = course.run_silent_member()
print(life.read_state_name())

# %% [markdown]
# `billing-2` sent nothing for 50 seconds, and its session timeout is 45 seconds. So the coordinator has removed it, and the group prepares a rebalance.
#
# *Predict*: `billing-2` wakes up and commits `orders-2`. What is the answer? Write the name of an error, or `"NONE"`.

# %%
# prediction
late_commit = ...

# %%
life.commit("billing-2", {"orders-2": 20})

course.reveal("late_commit", late_commit, life.events[-1].response)

# %% [markdown]
# <details><summary>Why?</summary>
#
# `billing-2` is not a member any more. After the rebalance, another member reads `orders-2` and commits newer offsets. The late commit of `billing-2` would overwrite them.
#
# </details>

# %% [markdown]
# ## The checks, in order
#
# A member sends its member id and its generation, which is 0 or more. Any other client sends no member id and the generation −1.
#
# | this is wrong | the error |
# |---|---|
# | The client does not have the permission READ for the group. | `GROUP_AUTHORIZATION_FAILED` |
# | The client does not have the permission READ for the topic. | `TOPIC_AUTHORIZATION_FAILED` |
# | The partition does not exist. | `UNKNOWN_TOPIC_OR_PARTITION` |
# | This broker does not lead the group's partition. | `NOT_COORDINATOR` |
# | This broker has not yet loaded the group's partition. | `COORDINATOR_LOAD_IN_PROGRESS` |
# | The group does not exist, and the generation is 0 or more. | `GROUP_ID_NOT_FOUND` (up to 3.9: `ILLEGAL_GENERATION`) |
# | The group is Empty, and the generation is 0 or more. | `UNKNOWN_MEMBER_ID` |
# | The commit has an instance id, and this id belongs to another member id. | `FENCED_INSTANCE_ID` |
# | The group has members, and the member id is not one of them. | `UNKNOWN_MEMBER_ID` |
# | The group has members, and the generation is not the current one. | `ILLEGAL_GENERATION` |
# | The group has members, and they do not have their new assignments yet (CompletingRebalance). | `REBALANCE_IN_PROGRESS` |
# | The metadata is too long. | `OFFSET_METADATA_TOO_LARGE` |
#
# If the group does not exist and the commit passes all checks, the coordinator creates the group. (Kafka 4.x creates it before the last check: see *Other versions*.)

# %% [markdown]
# If the topic, the partition or the metadata is wrong, the coordinator refuses only the commit of this partition. It stores the others. In all other rows of the table, it refuses the whole request.
#
# A commit that is accepted is also a sign of life: the session timeout of the member starts again.

# %% [markdown]
# ## Exercise: three refused commits, on paper
#
# The group `sub` is Stable. It has one member, `member-a`, in generation 1. The group `g5` is Empty. A broker of Kafka 3.9.2 received these three commits without an instance id, and it refused all of them:
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
# Lesson 06 showed two commits during a rebalance: the first was accepted, the second was refused. This is the whole rule for a group with members:
#
# | state | member, current generation | member, old generation | not a member |
# |---|---|---|---|
# | PreparingRebalance | **accepted** | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
# | CompletingRebalance | REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
# | Stable | **accepted** | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
#
# In PreparingRebalance, the members still own their partitions. They should commit before they join again. In CompletingRebalance, the new assignments do not exist yet, so the coordinator accepts no commit.
#
# <details><summary>A group that is Dead</summary>
#
# A group is Dead for a moment when it is deleted, or when it moves to another broker. A commit that arrives in this moment is answered `COORDINATOR_NOT_AVAILABLE`.
#
# A commit can also wait for the replicas in this moment. If the group moves, this commit gets `NOT_COORDINATOR` (lesson 11). If the group is deleted, it gets `NONE`, but its offset is not cached. In both cases, the record can be in the log.
#
# </details>

# %% [markdown]
# ## Simple commits
#
# Some clients commit and are not members of the group:
#
# - a tool, for example the command of lesson 02 that sets an offset.
# - a consumer that chooses its partitions itself. It calls `assign`. A consumer that lets the group divide the partitions calls `subscribe`.
#
# They send the generation −1. The coordinator accepts such a simple commit only if the group does not exist or is Empty. If the group has members, it answers `UNKNOWN_MEMBER_ID`. So you cannot reset an offset, not even of one partition, while the group has a member.

# %% [markdown]
# ## A static member
#
# A member with a `group.instance.id` is *static*. When its process stops, it does not leave the group. When a process starts again with this [instance id](../docs/handbook/glossary.md#instance-id), it takes the old place, and there is no rebalance.
#
# Harbour Coffee has two vans. Their consumers are static members of `shipping`. `course.start_two_vans` starts both. Then `van-1` is started again:

# %%
vans = course.start_two_vans()
old_process = vans.consumers["van-1"].member_id

vans.verbose = True
vans.join("van-1", instance="van-1", new_process=True)
vans.sync("van-1")

# %% [markdown]
# The generation stays 2, and `van-1` has its old partitions. `skip_assignment` tells the leader that it need not compute assignments. The new process has a new member id. So the coordinator writes the group record again, with the same generation. Without this record, the next coordinator would load the old member id, and refuse the new process.
#
# <details><summary>When does a restart cause a rebalance?</summary>
#
# The new process may support other assignors. If another assignor now wins the vote (lesson 06), a rebalance begins. Otherwise, there is no rebalance.
#
# </details>
#
# A 3.9.2 broker wrote records with the same generations:

# %%
written = [line.value for line in vans.log_lines if line.record_type == "group"]
harbour = course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-8"))

course.compare_with_broker(written, [line.value for line in harbour if line.record_type == "group"], "3.9.2", verb="wrote")

# %% [markdown]
# *Predict*: the old process of `van-1` was not dead. It only had no network for a moment. Now it sends a heartbeat with its old member id and its instance id. The coordinator checks both ids in the same order as for a commit. What is the answer? Write the name of an error.

# %%
# prediction
heard_by_the_old_process = ...

# %%
fenced = vans.coordinator.heartbeat("shipping", 2, old_process, group_instance_id="van-1").name

course.reveal("heard_by_the_old_process", heard_by_the_old_process, fenced)

# %% [markdown]
# <details><summary>Why not UNKNOWN_MEMBER_ID?</summary>
#
# The instance id is checked before the member id, and `van-1` belongs to another member id now. FENCED_INSTANCE_ID tells the old process that it must stop. With UNKNOWN_MEMBER_ID, it would join again and take the place of the new process.
#
# </details>
#
# Commits of the old process are refused in this way, too. So only the new process can change the offsets.
#
# A static member that stays away is removed when its session timeout ends. So its session timeout must be longer than a restart.

# %% [markdown]
# ## Exercise: which name is used twice?
#
# Some months later, the shop has three vans. Their operator reports: *"`shipping` is Stable, with three members and always the same generation. But every few seconds, one of the processes logs `FENCED_INSTANCE_ID`, stops, and is started again. It began when we set up a spare machine from a copy."*
#
# These are the group records of `shipping`, with the instance id and the member id of each member. The log also has commits at other offsets. They are left out:

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
# A client may store a text with each offset, the [*metadata*](../docs/handbook/glossary.md#metadata). The limit is `offset.metadata.max.bytes`, 4,096 by default. A 3.9.2 broker received texts of one repeated character, `m`, `ü` or `𝄞`:

# %%
talk = course.read_exchanges("3.9.2-commits")
answers = {}
for commit in course.read_commits(talk):
    if len(commit.metadata) > 1000:
        answers[commit.metadata] = commit.broker_error.name

for text, answer in answers.items():
    print(f"{text[0]}: {len(text)} characters, {len(text.encode())} bytes of UTF-8     {answer}")

# %% [markdown]
# ## Exercise: does it fit?
#
# What does the broker count? It does not count characters, and it does not count bytes of UTF-8. Lesson 02 showed how Java counts.
#
# Write `fits(metadata, limit)`. It returns whether a broker accepts this text.

# %%
# exercise: fits
def fits(metadata, limit):
    ...

# %%
course.check("fits", fits)
# course.hint("fits")

# %% [markdown]
# These texts are part of a longer conversation with the 3.9.2 broker. It has commits with right and wrong members, generations and partitions. Our coordinator received the same requests:

# %%
print(len(talk), "requests")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# <details><summary>Members of the new protocol</summary>
#
# A consumer with `group.protocol=consumer` uses a new protocol, which [lesson 13](13_the_new_protocols.ipynb) explains. Its members have no common generation. Each member has its own number, the **member epoch**. For commits, these are the rules:
#
# - If the member id is unknown, the answer is `UNKNOWN_MEMBER_ID`.
# - If the commit has the current epoch of the member, it is accepted.
# - If the commit has another epoch, the answer is `STALE_MEMBER_EPOCH`.
# - Since 4.3, a commit with an older epoch is also accepted, if the member did not lose these partitions. It must have owned them in that epoch, and ever since.
# - A member that commits with version 8 or older of the request OffsetCommit gets `UNSUPPORTED_VERSION`. These versions have no epoch.
#
# </details>

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | The group does not exist, and the generation is 0 or more. | `GROUP_ID_NOT_FOUND` | `ILLEGAL_GENERATION` |
# | The commit has an unknown topic id. | `UNKNOWN_TOPIC_ID` | The request has no topic ids. |
#
# The checks of the member have the same order in both.
#
# <details><summary>Other versions</summary>
#
# Static members exist since 2.3. If `inter.broker.protocol.version` is below 2.3, a broker refuses them with `UNSUPPORTED_VERSION`. An older broker would lose the instance id in its load. Before 2.4, REBALANCE_IN_PROGRESS came before the check of the member. Up to 2.2, the answer for a Dead group was UNKNOWN_MEMBER_ID. Kafka 1.0.1 checks that the topic exists, but not the partition.
#
# `GROUP_ID_NOT_FOUND` needs version 9 of the request OffsetCommit. For older versions, Kafka 4.x also answers `ILLEGAL_GENERATION`.
#
# In Kafka 4.x, a simple commit to an unknown group first creates this group in memory. Then the coordinator checks the metadata. If the metadata is too long, the commit is refused. But the group, without offsets, stays in memory until the broker restarts.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - The order of the checks: permissions, topics, right broker, group, member, generation, state.
# - A member that was removed gets `UNKNOWN_MEMBER_ID`. Its commit cannot overwrite newer offsets.
# - Without members, a group accepts commits with generation −1.
# - A static member keeps its place during a restart.
# - If two processes have one instance id, each takes the place of the other, again and again.
#
# ## For your consumer
#
# - Set `group.instance.id` for consumers that restart often, and a `session.timeout.ms` longer than a restart. Give each process its own id.
# - A consumer throws `CommitFailedException` after `UNKNOWN_MEMBER_ID` or `ILLEGAL_GENERATION`: the group continued without this member. Another member reads this member's records again. Your processing must tolerate records that come twice.
# - After a `FencedInstanceIdException`, do not retry. Stop the process, and look for the other one.

# %% [markdown]
# ## At 3 am
#
# `PATH` is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A consumer throws `CommitFailedException`. | `kafkagroups timeline PATH --group billing` | The member was removed. The command shows the generation without it. | Raise `max.poll.interval.ms`, or let `poll` return fewer records (`max.poll.records`). |
# | `FENCED_INSTANCE_ID` appears again and again. | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group shipping --members --verbose` | It shows the instance id, the consumer id (the member id) and the host of each member. Repeat it. If the consumer id of an instance id changes again and again, two processes have this id. The host may stay the same. | Find the second process: a copied configuration, or an old machine. Stop it. |
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
