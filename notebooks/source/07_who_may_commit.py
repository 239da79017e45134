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
# 1. A consumer that lost its partitions must not commit for them. The checks make sure of that.
# 2. The checks have a fixed **order**. The first one that fails gives the answer.
# 3. A group **without members** accepts commits without a generation. They are called *simple* commits.
# 4. A **static member** has a name. If a new process takes the name, the old process is *fenced*: all its requests are refused.
#
# ## Who is late?
#
# A consumer reads some records and then hangs, for example in a long garbage collection. It sends no heartbeats, and the coordinator removes it. Another member gets its partitions. Then the consumer wakes up and commits.

# %%
from kafkagroups import course

life = course.GroupLife("billing", verbose=False)
for name in ["billing-1", "billing-2"]:
    life.join(name)
    life.join(name)
    life.wait(3)
    life.join("billing-1")
    life.sync("billing-1")
    life.sync(name)

for _ in range(5):
    life.wait(10)
    life.heartbeat("billing-1")
print(life.read_state_name())

# %% [markdown]
# `billing-2` was silent for 50 seconds, and its session timeout is 45 seconds. The group prepares a rebalance.
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
# The coordinator does not know `billing-2` any more. If it accepted this commit, it could overwrite a newer offset of the member that reads `orders-2` now.
#
# </details>
#
# ## The checks, in order
#
# | check | if it fails, the answer is |
# |---|---|
# | may the client read the group? | `GROUP_AUTHORIZATION_FAILED` |
# | may the client read the topic? | `TOPIC_AUTHORIZATION_FAILED`, for its partitions only |
# | does the partition exist? | `UNKNOWN_TOPIC_OR_PARTITION`, for this partition only |
# | is the group's partition led and loaded by this broker? | `NOT_COORDINATOR`, `COORDINATOR_LOAD_IN_PROGRESS` |
# | unknown group: is the generation negative? Then a new group is made | `ILLEGAL_GENERATION` up to 3.9, `GROUP_ID_NOT_FOUND` since 4.0 |
# | Empty group: is the generation negative? | `UNKNOWN_MEMBER_ID` |
# | group with members: is this a member? | `UNKNOWN_MEMBER_ID` |
# | does its instance id belong to this member id? | `FENCED_INSTANCE_ID` |
# | is its generation the current one? | `ILLEGAL_GENERATION` |
# | has the leader sent the assignments? | `REBALANCE_IN_PROGRESS` |
# | is the metadata at most 4,096 long? | `OFFSET_METADATA_TOO_LARGE`, for this partition only |

# %% [markdown]
# A check about the group refuses the whole request. A check about a partition refuses only this partition, and the others are stored.
#
# A member that commits is alive: an accepted commit starts its session timeout again.
#
# ## Exercise: three refused commits, on paper
#
# The group `sub` is Stable. It has one member, `member-a`, in generation 1. The group `g5` is Empty. A broker of Kafka 3.9.2 got these three commits, and it refused all of them:
#
# 1. group `sub`, member `nobody`, generation 99
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
# Lesson 06 showed two commits during a rebalance. This is the whole rule for a group with members:
#
# | state | member, current generation | member, old generation | not a member |
# |---|---|---|---|
# | PreparingRebalance | **accepted** | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
# | CompletingRebalance | REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
# | Stable | **accepted** | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID |
#
# In PreparingRebalance, the members still own their partitions. They should commit before they join again.
#
# ## Simple commits
#
# A tool or a consumer with `assign` has no member id. It sends generation −1. Such a commit is accepted if the group is unknown or Empty. This is also how `kafka-consumer-groups.sh --reset-offsets` works. So a reset is refused as long as one member is there.

# %% [markdown]
# ## A static member
#
# A member with a `group.instance.id` is *static*. When its process stops, it does not leave the group. When the process starts again with the same instance id, it takes its old place, and there is no rebalance. These are two vans of Harbour Coffee:

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
# The generation stays 2. The coordinator writes the group record once more, because the member id of `van-1` is new. A 3.9.2 broker wrote the same records:

# %%
written = [line.value for line in vans.log_lines if line.record_type == "group"]
harbour = course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-8"))

course.compare_with_broker(written, [line.value for line in harbour if line.record_type == "group"], "3.9.2", verb="wrote")

# %% [markdown]
# *Predict*: the old process of `van-1` was not dead. It only had no network for a moment. Now it sends a heartbeat with its old member id. What is the answer?

# %%
# prediction
heard_by_the_old_process = ...

# %%
fenced = vans.coordinator.heartbeat("shipping", 2, old_process, group_instance_id="van-1").name

course.reveal("heard_by_the_old_process", heard_by_the_old_process, fenced)

# %% [markdown]
# <details><summary>Why not UNKNOWN_MEMBER_ID?</summary>
#
# The coordinator knows the instance id `van-1`, but it belongs to another member id now. FENCED_INSTANCE_ID tells the old process that it must stop. With UNKNOWN_MEMBER_ID, it would join again and fence the new process.
#
# </details>
#
# A static member that stays away is removed when its session timeout ends. So a static member needs a session timeout that is longer than a restart.
#
# ## Exercise: which name is used twice?
#
# *"`shipping` is Stable, with three members and always the same generation. But every few seconds, one of the three vans logs `FENCED_INSTANCE_ID`, stops and is started again. It began when we set up a spare machine from a copy."*
#
# These are the group records of `shipping`, with the instance id and the member id of each member:

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
# A client may store a text with each offset. The limit is `offset.metadata.max.bytes`, 4,096 by default. A 3.9.2 broker got texts of the letters `m`, `ü` and `𝄞`:

# %%
talk = course.read_exchanges("3.9.2-commits")
for commit in course.read_commits(talk):
    if len(commit.metadata) > 1000:
        size = f"{len(commit.metadata)} characters, {len(commit.metadata.encode())} bytes of UTF-8"
        print(f"{commit.metadata[0]}: {size:<40} {commit.broker_error.name}")

# %% [markdown]
# The setting says *bytes*, but the limit counts **UTF-16 units**, as lesson 02 did for group names.
#
# ## Exercise: does it fit?
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
# Our coordinator was asked all requests of this conversation, with every check of the table:

# %%
print(len(talk), "requests")
course.compare_with_broker([each.our_response for each in talk], [each.broker_response for each in talk], "3.9.2")

# %% [markdown]
# ## Members of the new protocol
#
# A member of a *consumer group* of Kafka 4.x has a **member epoch** instead of a generation. Each member has its own. Lesson 13 explains it. For commits, this is the rule:
#
# | the commit has | answer |
# |---|---|
# | the current epoch of the member | accepted |
# | an older epoch, and all its partitions are assigned to the member since then | accepted |
# | an older epoch otherwise, or a newer one | `STALE_MEMBER_EPOCH` |
# | an unknown member id | `UNKNOWN_MEMBER_ID` |
# | an old version of the request, which has no epoch | `UNSUPPORTED_VERSION` |

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | generation ≥ 0, unknown group | `GROUP_ID_NOT_FOUND` | `ILLEGAL_GENERATION` |
# | a refused commit to an unknown group | leaves an empty group in memory until the restart | leaves nothing |
# | a commit with an unknown topic id | `UNKNOWN_TOPIC_ID` | the request has no topic ids |
# | the order of the checks about members | the same | the same |
#
# <details><summary>Other versions</summary>
#
# Static members exist since 2.3. Before 2.4, REBALANCE_IN_PROGRESS came before the check of the member. Kafka 1.0.1 checks that the topic exists, but not the partition.
#
# </details>
#
# ## In five lines
#
# - First the rights, then the group, then the member, then the generation.
# - A member that was removed gets `UNKNOWN_MEMBER_ID`. Its commit cannot overwrite newer offsets.
# - Without members, a group accepts commits with generation −1.
# - A static member keeps its place during a restart.
# - Two processes with one instance id fence each other forever.

# %% [markdown]
# ## For your consumer
#
# - Set `group.instance.id` for consumers that restart often, and a `session.timeout.ms` longer than a restart. Give each process its own id.
# - `CommitFailedException` means that the member was removed. Its records were given to another member and will be processed twice. Make your processing idempotent.
# - `FencedInstanceIdException` is final. Stop the process, and look for its twin.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `CommitFailedException` | `kafkagroups timeline PATH --group billing` | The member was removed. The timeline shows the generation without it | Raise `max.poll.interval.ms`, or let `poll` return fewer records (`max.poll.records`) |
# | `FENCED_INSTANCE_ID` again and again | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group shipping --members --verbose` | The instance id and the host of each member. Two processes have one instance id | Stop one of the two processes |
# | `--reset-offsets` says that the group is not inactive | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group billing --state` | The group still has members | Stop all consumers of the group, and wait for one session timeout |
#
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
