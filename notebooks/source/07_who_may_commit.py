# %% [markdown]
# # 07 · Who may commit
#
# **Which checks stand before a commit, and in which order?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which error a refused commit gets; explain why a late consumer cannot overwrite newer offsets; use static members; find two processes with one instance id | {{minutes}} | no |
#
# ```
#  OffsetCommit  group, member, generation, {orders-0: 8}
#      │
#      ▼
#  may this client?  ─▶  is the group here?  ─▶  is it a member?  ─▶  of this generation?  ─▶  log
#      │                      │                      │                      │
#      no                     no                     no                     no
#      ▼                      ▼                      ▼                      ▼
#  …AUTHORIZATION_FAILED  NOT_COORDINATOR      UNKNOWN_MEMBER_ID     ILLEGAL_GENERATION
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. A consumer that has lost its partitions must not commit for them. Otherwise it could overwrite newer offsets.
# 2. The checks have a fixed **order**. The first check that fails decides the error.
# 3. A group **without members** accepts commits without a generation. They are called *simple* commits.
# 4. A **static member** has a name. If a new process takes the name, the old process is *fenced*: all its requests are refused.
#
# The coordinator of this lesson follows the rules of Kafka 3.9. The table at the end shows what differs in Kafka 4.x.

# %% [markdown]
# ## A commit that is too late
#
# `billing-1` and `billing-2` divide the partitions of `orders`. Then `billing-2` hangs, for example in a long garbage collection, and sends no heartbeats. `billing-1` is healthy and sends some. The code brings the group into this situation and prints the group's state:

# %%
from kafkagroups import course

life = course.GroupLife("billing", verbose=False)
for name in ["billing-1", "billing-2"]:    # each joins, and then both are in the group
    life.join(name)
    life.join(name)
    life.wait(3)
    life.join("billing-1")
    life.sync("billing-1")
    life.sync(name)

for _ in range(5):    # 50 seconds without billing-2
    life.wait(10)
    life.heartbeat("billing-1")
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
# | what must be true | the error if it is not |
# |---|---|
# | the client has the right READ for the group | `GROUP_AUTHORIZATION_FAILED` |
# | the client has the right READ for the topic | `TOPIC_AUTHORIZATION_FAILED` |
# | the partition exists | `UNKNOWN_TOPIC_OR_PARTITION` |
# | this broker leads the group's partition | `NOT_COORDINATOR` |
# | this broker has loaded the group's partition | `COORDINATOR_LOAD_IN_PROGRESS` |
# | the group exists, or the generation is negative | `GROUP_ID_NOT_FOUND`; up to 3.9 `ILLEGAL_GENERATION` |
# | an Empty group: the generation is negative | `UNKNOWN_MEMBER_ID` |
# | an instance id: it belongs to this member id | `FENCED_INSTANCE_ID` |
# | the member id is in the group | `UNKNOWN_MEMBER_ID` |
# | the generation is the current one | `ILLEGAL_GENERATION` |
# | the leader has sent the assignments | `REBALANCE_IN_PROGRESS` |
# | the metadata is not too long | `OFFSET_METADATA_TOO_LARGE` |
#
# If a commit without a member passes all checks and its group does not exist, the coordinator creates the group.

# %% [markdown]
# A check of the group refuses the whole request. A check of a topic, a partition or the metadata refuses only these partitions, and the others are stored.
#
# An accepted commit is also a sign of life: it starts the member's session timeout again.
#
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
# A group can also be Dead for a moment, when it is deleted or moves to another broker. Then the answer is `COORDINATOR_NOT_AVAILABLE`.

# %% [markdown]
# ## Simple commits
#
# A tool has no member id, and neither has a consumer that calls `assign` instead of `subscribe`. They send generation −1. The coordinator accepts this commit if the group does not exist or is Empty.
#
# `kafka-consumer-groups.sh --reset-offsets` sends a simple commit, too. So a reset is refused while the group has a member.

# %% [markdown]
# ## A static member
#
# A member with a `group.instance.id` is *static*. When its process stops, it does not leave the group. When a process starts again with the same instance id, it takes the old place, and there is no rebalance.
#
# Harbour Coffee has two vans. Their consumers are static members of `shipping`. The code starts both, and then starts `van-1` again. Only the restart is printed:

# %%
vans = course.GroupLife("shipping", verbose=False)
for names in [["van-1"], ["van-2", "van-1"]]:
    for name in names:
        vans.join(name, instance=name)
    vans.wait(3)
    for name in sorted(names):
        vans.sync(name)
old_process = vans.consumers["van-1"].member_id

vans.verbose = True
vans.join("van-1", instance="van-1", new_process=True)
vans.sync("van-1")

# %% [markdown]
# The generation stays 2, and `van-1` has its old partitions. `skip_assignment` tells the leader that it need not compute assignments.
#
# The new process has a new member id. So the coordinator writes the group record again, with the same generation. Only if the assignors of the new process change the vote, a rebalance begins.
#
# A 3.9.2 broker wrote records with the same generations:

# %%
written = [line.value for line in vans.log_lines if line.record_type == "group"]
harbour = course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-8"))

course.compare_with_broker(written, [line.value for line in harbour if line.record_type == "group"], "3.9.2", verb="wrote")

# %% [markdown]
# *Predict*: the old process of `van-1` was not dead. It only had no network for a moment. Now it sends a heartbeat with its old member id and its instance id. What is the answer? Write the name of an error.

# %%
# prediction
heard_by_the_old_process = ...

# %%
fenced = vans.coordinator.heartbeat("shipping", 2, old_process, group_instance_id="van-1").name

course.reveal("heard_by_the_old_process", heard_by_the_old_process, fenced)

# %% [markdown]
# <details><summary>Why not UNKNOWN_MEMBER_ID?</summary>
#
# The instance id is checked before the member id, and `van-1` belongs to another member id now. FENCED_INSTANCE_ID tells the old process that it must stop. With UNKNOWN_MEMBER_ID, it would join again and fence the new process.
#
# </details>
#
# A static member that stays away is removed when its session timeout ends. So a static member needs a session timeout that is longer than a restart.

# %% [markdown]
# ## Exercise: which name is used twice?
#
# The operator of the vans reports: *"`shipping` is Stable, with three members and always the same generation. But every few seconds, one of the processes logs `FENCED_INSTANCE_ID`, stops, and is started again. It began when we set up a spare machine from a copy."*
#
# These are the group records of `shipping`, with the instance id and the member id of each member. The offsets between them are commits:

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
# A client may store a text with each offset. The limit is `offset.metadata.max.bytes`, 4,096 by default. A 3.9.2 broker received texts of one repeated character, `m`, `ü` or `𝄞`:

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
# ## Members of the new protocol
#
# A consumer of Kafka 4.x can use a new protocol, with `group.protocol=consumer`. Its members have no common generation. Each member has its own number, the **member epoch**. It rises when the assignment of the member changes. Lesson 13 explains it. For commits, these are the rules:
#
# | the commit contains | the answer |
# |---|---|
# | an unknown member id | `UNKNOWN_MEMBER_ID` |
# | the current epoch of the member | accepted |
# | an older epoch, but the member has had all partitions of the commit since that epoch | accepted (4.3) |
# | any other epoch | `STALE_MEMBER_EPOCH` |
# | no epoch, because the version of the request is too old (up to 8) | `UNSUPPORTED_VERSION` |

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | generation ≥ 0, unknown group | `GROUP_ID_NOT_FOUND` | `ILLEGAL_GENERATION` |
# | a simple commit to an unknown group, refused because of its metadata | leaves an empty group in memory until the restart | leaves nothing |
# | a commit with an unknown topic id | `UNKNOWN_TOPIC_ID` | the request has no topic ids |
# | the order of the checks about members | the same | the same |
#
# <details><summary>Other versions</summary>
#
# Static members exist since 2.3. Before 2.4, REBALANCE_IN_PROGRESS came before the check of the member. Up to 2.2, the answer for a Dead group was UNKNOWN_MEMBER_ID. Kafka 1.0.1 checks that the topic exists, but not the partition.
#
# `GROUP_ID_NOT_FOUND` needs version 9 of the request. For older versions, Kafka 4.x also answers `ILLEGAL_GENERATION`.
#
# </details>

# %% [markdown]
# ## In five lines
#
# - First the rights, then the group, then the member, then the generation.
# - A member that was removed gets `UNKNOWN_MEMBER_ID`. Its commit cannot overwrite newer offsets.
# - Without members, a group accepts commits with generation −1.
# - A static member keeps its place during a restart.
# - Two processes with one instance id fence each other again and again.
#
# ## For your consumer
#
# - Set `group.instance.id` for consumers that restart often, and a `session.timeout.ms` longer than a restart. Give each process its own id.
# - `CommitFailedException` means that the member was removed. Another member reads its records again. Your processing must tolerate records that come twice.
# - After a `FencedInstanceIdException`, do not retry. Stop the process, and look for the other process with the same instance id.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `CommitFailedException` | `kafkagroups timeline PATH --group billing` | The member was removed. The command shows the generation without it | Raise `max.poll.interval.ms`, or let `poll` return fewer records (`max.poll.records`) |
# | `FENCED_INSTANCE_ID` again and again | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group shipping --members --verbose` | It shows the instance id and the host of each member. If a host changes again and again, two processes have this instance id | Stop one of the two processes |
# | `--reset-offsets` says that the group is not inactive | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The group still has members | Stop all consumers of the group, and wait for one session timeout |

# %% [markdown]
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | rights, topics | `KafkaApis.handleOffsetCommitRequest` | the same |
# | group and member | `OffsetMetadataManager.validateOffsetCommit`, `ClassicGroup.validateOffsetCommit`, `ConsumerGroup.validateOffsetCommit` | `GroupCoordinator.doCommitOffsets`, `validateOffsetCommit` |
# | static members | `ClassicGroup.replaceStaticMember` | `GroupCoordinator.updateStaticMemberThenRebalanceOrCompleteJoin` |
#
# </details>
#
# ## What we left out, and why
#
# Commits in a transaction have their own rules: lesson 08. Authentication and access control lists belong to Kafka as a whole, not to groups.
#
# **Next:** [08 · Transactions](08_transactions.ipynb): when an offset in a transaction counts.
