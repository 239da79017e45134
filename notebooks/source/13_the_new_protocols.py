# %% [markdown]
# # 13 · The new protocols
#
# **What do consumer, share and streams groups record?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | follow a rebalance by its epochs; compute the state of a group; tell which tombstones stop a load | {{minutes}} | no |
#
# ```
#   a change               the coordinator           the members, step by step
#
#   a member joins    ──▶  group epoch 3
#                          targets              ──▶  loyalty-1 revokes orders-2
#                          assignment epoch 3        loyalty-1 enters epoch 3
#                                                    loyalty-2 receives orders-2
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. The **coordinator** computes the assignment. Members only send heartbeats.
# 2. A group is **many small records**, each with its own key.
# 3. Every change gives the group a new **epoch**. The members follow, one after the other.
# 4. A tombstone in a wrong order stops the load of the **whole partition**.
#
# Consumer groups, share groups and streams groups are new in Kafka 4.x. A group of lesson 06 is now called a *classic group*.

# %% [markdown]
# ## The first member: five records
#
# `loyalty` is a consumer group: its members have the setting `group.protocol=consumer`. The first member subscribes to `orders`, which has three partitions. It sends one request, a *heartbeat*, and no JoinGroup. A 4.3.1 broker wrote one batch, which the bracket shows:

# %%
import kafkagroups as kg
from kafkagroups import course

loyalty = course.find_data("harbour/4.3.1/__consumer_offsets-24")
course.print_protocol_lines(loyalty, "loyalty", last_offset=4)

# %% [markdown]
# The records contain ids. The tool prints names instead.
#
# - The **target** is the assignment that the coordinator has computed for a member.
# - The **current assignment** is what the member may read now.
#
# ## What each record type says
#
# | what it says | consumer | share | streams |
# |---|---|---|---|
# | a member: its client and its topics | 5 | 10 | 19 |
# | the group epoch | 3 | 11 | 17 |
# | the target of a member | 7 | 13 | 21 |
# | the assignment epoch | 6 | 12 | 20 |
# | the current assignment of a member | 8 | 14 | 22 |
# | only in this type of group | 4, 16 | 15 | 23 |
#
# Type 16 stores the topics that match a regular expression. Brokers of 4.3 and 4.4 write type 4 only as a tombstone. Committed offsets still have type 1.

# %% [markdown]
# ## Three epochs
#
# An *epoch* is a number that only rises.
#
# | epoch | when it rises |
# |---|---|
# | group epoch | a member joins or leaves, or subscriptions or topics change |
# | assignment epoch | new targets are computed. It becomes equal to the group epoch |
# | member epoch, one for each member | the member follows the newest targets |
#
# In 4.3, a new group starts in epoch 1. Its first member raises the epoch to 2.
#
# ## A second member joins
#
# When `loyalty-2` joined, the broker wrote one batch. Here it is, without the last record:

# %%
course.print_protocol_lines(loyalty, "loyalty", first_offset=8, last_offset=12)

# %% [markdown]
# *Predict*: the last record of the batch is the current assignment of `loyalty-2`. How many partitions does it contain?

# %%
# prediction
partitions_of_loyalty_2 = ...

# %%
with course.fold("partitions_of_loyalty_2", partitions_of_loyalty_2, 0):
    course.print_protocol_lines(loyalty, "loyalty", first_offset=13, last_offset=13)

# %% [markdown]
# ## Revoke first, then assign
#
# A partition of a consumer group has only one reader at a time. So `loyalty-1` must give `orders-2` back first. These are the next four records:

# %%
course.print_protocol_lines(loyalty, "loyalty", first_offset=14, last_offset=17)

# %% [markdown]
# - Record 15: `loyalty-1` must stop reading `orders-2`. It goes on reading the other two partitions, and stays in epoch 2.
# - Record 16: its next heartbeat listed only these two partitions. Now it is in epoch 3.
# - Record 17: `orders-2` is free, so `loyalty-2` receives it.
#
# Type 8 also contains the *state* of the member:
#
# | state | name | meaning |
# |---|---|---|
# | 0 | Stable | it has the partitions of its member epoch |
# | 1 | UnrevokedPartitions | it must give partitions back |
# | 2 | UnreleasedPartitions | it waits for partitions of other members |
#
# If a member gives nothing back, the coordinator removes it after its rebalance timeout. This is `max.poll.interval.ms`, 5 minutes by default.

# %% [markdown]
# ## The same log, record by record
#
# Watch which epoch rises first, and when `orders-2` gets a new owner:

# %%
# figure
course.Epochs(loyalty, "loyalty")

# %% [markdown]
# ## The bytes of a current assignment
#
# These are the bytes of record 13. The key begins with the record type, and the value begins with its version. At the end are two empty lists of partitions:

# %%
key, value = course.read_record(loyalty, 13)
fields = [
    ("version", 0, 2),
    ("member epoch", 2, 6),
    ("previous member epoch", 6, 10),
    ("state", 10, 11),
    ("lists", 11, 14),
]

print(f"{'record type':<22}", key[:2].hex(" "))
for name, start, end in fields:
    print(f"{name:<22}", value[start:end].hex(" "))

# %% [markdown]
# ## Exercise: a member in hex, on paper
#
# A 4.4.0 broker wrote this record for a member of the group `up`. Here are its first bytes, in groups of four:
#
# ```
# key    00080002 75700016 636f6e73 756d6572 2d632d30 …
# value  00000000 00040000 00040102 acd7b02b …
# ```
#
# Write the record type, the member epoch and the state as a tuple, for example `(5, 6, 0)`.

# %%
# exercise: member_in_hex
member_in_hex = ...

# %%
course.check("member_in_hex", member_in_hex)
# course.hint("member_in_hex")

# %% [markdown]
# ## The state of a group is computed
#
# No record contains the state of a consumer group. A coordinator computes the state:
#
# - **Empty**: the group has no members.
# - **Assigning**: the group has changed, and its targets are old.
# - **Reconciling**: the targets are new, and at least one member has not reached its target.
# - **Stable**: every member has reached its target.
#
# A member has reached its target if it is in the assignment epoch and its state is 0.
#
# ## Exercise: the state of a group
#
# Write `group_state(group_epoch, assignment_epoch, members)`. `members` is a list of pairs: the epoch and the state of each member. Return the group's state.


# %%
# exercise: group_state
def group_state(group_epoch, assignment_epoch, members): ...


# %%
course.check("group_state", group_state)
# course.hint("group_state")

# %% [markdown]
# ## Share groups
#
# `tasters` is a share group with one member. It reads `stock`, which has one partition:

# %%
tasters = course.find_data("harbour/4.3.1/__consumer_offsets-26")
course.print_protocol_lines(tasters, "tasters")

# %% [markdown]
# - The first target is empty. Record 5: another part of the broker, the *share coordinator*, must prepare `stock` first.
# - Record 6: `stock` is ready. After the next heartbeat, the member received `stock-0`.
# - Several members can have the same partition. So no member waits for another.
#
# A share group **commits no offsets** to `__consumer_offsets`. Its positions are in another topic, `__share_group_state`.
#
# ## Streams groups
#
# `bar-stats` is an application with Kafka Streams:

# %%
bar_stats = course.find_data("harbour/4.3.1/__consumer_offsets-37")
course.print_protocol_lines(bar_stats, "bar-stats")

# %% [markdown]
# - Record 8 is the **topology**: the parts of the application, with their topics. Kafka calls a part a *subtopology*.
# - A member receives **tasks**. The task `1_0` is partition 0 of part 1.
# - Part 1 reads an internal topic that did not exist yet. So the first target has no tasks.
# - In type 22, state 1 means Stable.
#
# ## What a load rebuilds
#
# The broker of lesson 11 loaded all three groups after the crash:

# %%
loaded = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")
answers = course.read_answers("harbour/4.3.1")

for name in ["loyalty", "tasters", "bar-stats"]:
    group, answer = loaded[name], answers["groups"][name]
    members = {member_id: member.member_epoch for member_id, member in group.members.items()}
    ours = group.state.value, group.group_epoch, group.assignment_epoch, members
    answered_members = {member["member_id"]: member["epoch"] for member in answer["members"]}
    answered = answer["state"], answer["group_epoch"], answer["assignment_epoch"], answered_members
    epochs = f"group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
    print(f"{name:<9} {group.state.value}, {epochs}, {len(group.offsets)} offsets", end="  ")
    course.compare_with_broker(ours, answered, "4.3.1")

test = "n-order-87653"
states = {name: group.state.value for name, group in kg.load(course.find_data(f"new_protocols/{test}"), "new").items()}
listed = course.read_answers("new_protocols")[test]["new"]["listed"]
print("a group whose records have the types 8, 7, 6, 5, 3:", end="  ")
course.compare_with_broker(states, {name: group["state"] for name, group in listed.items()}, "4.3.1")

# %% [markdown]
# Everything is back. A rebalance in progress comes back, too, because each of its steps is a record. Only timers are lost: each member gets a full session timeout.
#
# The last line is about a log that was made for a test. The values of a group may be in any order. Its **tombstones** may not.
#
# ## The last member leaves
#
# In a test, the only member of `g1` left. Then an administrator deleted the group:

# %%
for version in ["4.3.1", "4.4.0"]:
    answer = course.read_recording(f"{version}-ghost").find_response(44)
    epochs = {group["groupId"]: (group["groupEpoch"], group["assignmentEpoch"]) for group in answer["groups"]}
    print(f"{version}. Between leave and deletion, the epochs of g1 were {epochs['g1']}")
    log = course.find_data(f"new_protocols/{version}-ghost/__consumer_offsets-2")
    course.print_protocol_lines(log, "g1", first_offset=11)

# %% [markdown]
# - The **leave** is one batch. It deletes current assignment, target and member. The group epoch rises, and the offset stays.
# - 4.4.0 also raises the assignment epoch.
# - The **deletion** is another batch: offsets, assignment epoch, type 4, group epoch.
#
# <details><summary>Share and streams groups</summary>
#
# | | consumer | share | streams |
# |---|---|---|---|
# | tombstones when the last member leaves | 8, 7, 5 | 14, 13, 10 | 22, 21, 19 |
# | a new value | 3 | 11 | 17 |
# | a second new value, only in 4.4.0 | 6 | 12 | 20 |
# | tombstones of the deletion | 1, 6, 4, 3 | 12, 15, 11 | 1, 20, 17, 23 |
#
# </details>

# %% [markdown]
# ## A tombstone that comes too early
#
# A coordinator that loads a log refuses these tombstones:
#
# | tombstone of | is refused while there is still |
# |---|---|
# | a member (5, 10, 19) | its current assignment or its target |
# | the assignment epoch (6, 12, 20) | a target |
# | the group epoch (3, 11, 17) | a member, a target or the assignment epoch |
#
# If there is nothing to delete, a tombstone does nothing.
#
# The next log was made for a test. A consumer group is deleted while it has a member. The partition has another group, with an offset:

# %%
groups = kg.load(course.find_data("new_protocols/n-3t-members"), coordinator="new")
print(*groups.failed.values())

answer = course.read_answers("new_protocols")["n-3t-members"]["new"]
print("the broker's load:", answer["load"])
for name, offsets in answer["offsets"].items():
    print(f"    {name}: {offsets['error']}")

# %% [markdown]
# One tombstone came too early, and **both** groups are unavailable.
#
# ## Exercise: which order loads?
#
# Three consumer groups, in three partitions, had one member each. These are their last records. A number is the type of a tombstone:
#
# - **A**: 8, 7, 5, 3, 6
# - **B**: 5, 8, 7, 6, 3
# - **C**: 6, 3. The cleaner has removed all other records of the group.
#
# Which partition does a 4.3.1 broker load? Write the letter in quotes, for example `"X"`.

# %%
# exercise: correct_tombstones
correct_tombstones = ...

# %%
course.check("correct_tombstones", correct_tombstones)
# course.hint("correct_tombstones")

# %% [markdown]
# ## Missing tombstones: a log that never loads
#
# Brokers write tombstones in the right order. But 4.3.1 and 4.4.0 have a bug: tombstones can be **missing**. `g3` was an Empty consumer group. Then these requests came:

# %%
ghost = course.read_recording("4.3.1-ghost")
ghost.print_requests(47, 47)
ghost.print_requests(60, 60)

# %% [markdown]
# - Request 47: a classic consumer sent JoinGroup with an unknown member id. The broker refused it and wrote **nothing**. But in its memory, `g3` was now a classic group.
# - Request 60: a streams application joined `g3`. The broker wrote a streams group, without a tombstone for the consumer group.
#
# Now the log has two types of groups with one name:

# %%
log = course.find_data("new_protocols/4.3.1-ghost/__consumer_offsets-0")
course.print_protocol_lines(log, "g3", first_offset=14, last_offset=28)
print()
print(kg.load(log, coordinator="new").failed[0])

# %% [markdown]
# In partition 3, the same happened to `s2`. This partition also stores `g6`, an Empty group with a committed offset. Nothing was wrong with `g6`.
#
# *Predict*: the broker restarts, and a client asks for the offset of `g6`. What is the answer? Write `"the offset"`, `"an error"` or `"nothing committed"`.

# %%
# prediction
answer_for_g6 = ...

# %%
with course.fold("answer_for_g6", answer_for_g6, "an error"):
    failed = kg.load(course.find_data("new_protocols/4.3.1-ghost"), coordinator="new").failed
    print("partitions that do not load:", *failed)
    answers = ghost.read_group_errors(80, 88)
    ours = {name: "NOT_COORDINATOR" if kg.partition_for(name, partitions=4) in failed else "NONE" for name in answers}
    print(", ".join(f"{name}: {error}" for name, error in answers.items()))
    course.compare_with_broker(ours, answers, "4.3.1")

# %% [markdown]
# Every restart fails again, because the log stays the same. To prevent this, delete an Empty group before another type of group uses its name. The deletion writes all tombstones.
#
# ## Classic and consumer members in one group
#
# You can change a running service to the new protocol, one consumer after the other. `up` had two classic members. Then a consumer with `group.protocol=consumer` joined. A 4.4.0 broker wrote **one** batch, which begins like this:

# %%
log = course.find_data("new_protocols/4.4.0-migration/__consumer_offsets-3")
course.print_protocol_lines(log, "up", first_offset=5, last_offset=15)

# %% [markdown]
# - Record 5 deletes the classic group.
# - Records 6 to 13 describe its two members as a consumer group. The generation, 2, becomes the group epoch.
# - Record 14 is the new member.
#
# The classic members go on with JoinGroup and SyncGroup. When the last new member leaves, one batch turns the group into a classic group again.
#
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | records of types 3 to 23 | builds groups from them | skips them as unknown types |
# | a consumer group with offsets | members and offsets | a simple group with its offsets |
# | an early tombstone | the load fails | is skipped |
#
# A downgrade to 3.9 keeps the offsets and loses the members. Two brokers loaded a log with a consumer group:

# %%
path = course.find_data("new_protocols/n-c-full")
for coordinator, version in [("classic", "3.9.2"), ("new", "4.3.1")]:
    answer = course.read_answers("new_protocols")["n-c-full"][coordinator]
    for name, group in kg.load(path, coordinator=coordinator).items():
        print(f"{coordinator:<8} {group.state.value:<7} {len(group.offsets)} offset", end="  ")
        ours = {name: {"state": group.state.value, "offsets": len(group.offsets)}}
        offsets, listed = answer["offsets"], answer["listed"]
        answered = {name: {"state": listed[name]["state"], "offsets": len(offsets[name])} for name in listed}
        course.compare_with_broker(ours, answered, version)

# %% [markdown]
# <details><summary>Requests with an epoch, and other versions</summary>
#
# - OffsetFetch can name a member and its epoch. An old epoch is refused with `STALE_MEMBER_EPOCH`.
# - Kafka 3.7 to 3.9 have the new coordinator as a preview. Their records have fewer fields, and they refuse more logs.
# - Kafka 4.0 wrote type 9 for share groups. Its types 11 and 15 have another form. No release writes type 18.
# - A new type that a broker does not know is skipped with a warning: lesson 01.
# - In 4.4, streams groups can have static members. A new choice of the assignor raises the group epoch.
#
# </details>
#
# ## In five lines
#
# - The coordinator computes targets. The members follow them.
# - The group epoch rises first, then the assignment epoch, then the member epochs.
# - One member revokes a partition. Then another member receives it.
# - The state of a group is computed, not stored.
# - An early or missing tombstone can stop the load of a partition.

# %% [markdown]
# ## For your consumer
#
# - `group.protocol=consumer` selects the new protocol. The default is `classic`.
# - Remove `session.timeout.ms`, `heartbeat.interval.ms` and `partition.assignment.strategy`, or the consumer does not start. The broker sets these times: `group.consumer.session.timeout.ms`, `group.consumer.heartbeat.interval.ms`.
# - `group.remote.assignor` is `uniform` or `range`. Use the same value in all members.
#
# ## At 3 am
#
# PATH is a copy of a partition's folder. Run the last command before a restart, too.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group is Reconciling for minutes | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group loyalty --members --verbose` | A member with CURRENT-EPOCH below TARGET-EPOCH has not revoked its partitions | Restart this member |
# | A group does not become Stable | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group loyalty --state --verbose` | GROUP-EPOCH above TARGET-ASSIGNMENT-EPOCH: Assigning | Wait for a heartbeat |
# | A group is not listed | `kafka-groups.sh --bootstrap-server localhost:9092 --list` | The type of each group | Use the tool of this type |
# | A share consumer receives nothing | `kafka-share-groups.sh --bootstrap-server localhost:9092 --describe --group tasters --members` | The partitions of each member | Reading is safe |
# | A streams application waits | `kafka-streams-groups.sh --bootstrap-server localhost:9092 --describe --group bar-stats --state` | NotReady: a topic is missing | Create the topic |
# | `Failed to load metadata … Replaying record … failed` | `kafkagroups check PATH --kafka 4.3.1` | The refused record, the lost groups | Follow its remedy |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) |
# |---|---|
# | heartbeats | `GroupMetadataManager.consumerGroupHeartbeat`, `shareGroupHeartbeat`, `streamsGroupHeartbeat` |
# | one step of a member | `CurrentAssignmentBuilder` |
# | targets | `TargetAssignmentBuilder`, `UniformAssignor`, `RangeAssignor` |
# | building the records | `GroupCoordinatorRecordHelpers` |
# | applying a record in a load | `GroupCoordinatorShard.replay`, `GroupMetadataManager.replay` |
# | the state of a group | `ConsumerGroup.maybeUpdateGroupState` |
# | classic and consumer members | `ConsumerGroup.fromClassicGroup` |
#
# </details>
#
# ## What we left out, and why
#
# How an assignor divides partitions does not change the form of the records.
#
# This was the last lesson for now. You can read every record of `__consumer_offsets`. Try it on your own cluster.
