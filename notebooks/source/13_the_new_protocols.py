# %% [markdown]
# # 13 · The new protocols
#
# **What do consumer, share and streams groups record?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | follow a rebalance by its epochs; compute the state of a group; say which tombstones stop a load; repair the log | {{minutes}} | no |
#
# ![After a member joins, the group epoch changes, then the targets, then the assignment epoch, and last the current assignments of the members.](pictures/13.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The **coordinator** computes the assignment. Members only send heartbeats.
# 2. A group is **many small records**, each with its own key.
# 3. Every change gives the group a new **epoch**. The members follow, one after the other.
# 4. A tombstone in a wrong order can stop the load of the **whole partition**.
#
# These groups are new in Kafka 4.x. A group of lesson 06 is now called a [*classic group*](../docs/handbook/glossary.md#classic-group).

# %% [markdown]
# ## The first member: five records
#
# `loyalty` is a *consumer group*. In this lesson, this means that its members have `group.protocol=consumer`. The first member subscribed to `orders`, which has three partitions. It sent one *heartbeat*, and no JoinGroup. The broker wrote one batch, which the bracket shows. The next sections explain *epoch* and *state*:

# %%
import kafkagroups as kg
from kafkagroups import course

loyalty = course.find_data("harbour/4.3.1/__consumer_offsets-24")
course.print_protocol_lines(loyalty, "loyalty", last_offset=4)

# %% [markdown]
# - The [**target**](../docs/handbook/glossary.md#target) is what the coordinator wants the member to have.
# - The [**current assignment**](../docs/handbook/glossary.md#current-assignment) is what the member may read now.
#
# <details><summary>Why is the first group epoch 2?</summary>
#
# In Kafka 4.3, a new group begins in memory with epoch 1. No record contains this 1. The first member raises the epoch to 2.
#
# </details>

# %% [markdown]
# ## The record types
#
# Share and streams groups are explained below.
#
# | record | consumer | share | streams |
# |---|---|---|---|
# | member (its client and its topics) | 5 | 10 | 19 |
# | group epoch | 3 | 11 | 17 |
# | target of a member | 7 | 13 | 21 |
# | assignment epoch | 6 | 12 | 20 |
# | current assignment of a member | 8 | 14 | 22 |
#
# From here on, the number after a name is its record type: the member (5). A committed offset is still a record of type 1.
#
# <details><summary>Two rare types of consumer groups</summary>
#
# - Regular expression (16): the topics that match it.
# - Topics and partitions (4): brokers of 4.3 and 4.4 write only its tombstone, when a group is deleted.
#
# </details>

# %% [markdown]
# ## Three epochs
#
# An [*epoch*](../docs/handbook/glossary.md#epoch) is a number that only rises.
#
# | epoch | what it means |
# |---|---|
# | [group epoch](../docs/handbook/glossary.md#group-epoch) | It rises when a member joins or leaves, or when subscriptions or topics change. |
# | [assignment epoch](../docs/handbook/glossary.md#assignment-epoch) | It rises to the group epoch when the new targets are computed. |
# | [member epoch](../docs/handbook/glossary.md#member-epoch), one for each member | The last epoch that the member has entered. It may still wait for partitions. |

# %% [markdown]
# ## A second member joins
#
# When `loyalty-2` joined, the broker wrote one batch of six records. These are the first five:

# %%
course.print_protocol_lines(loyalty, "loyalty", first_offset=8, last_offset=12)

# %% [markdown]
# *Predict*: the sixth record is the current assignment of `loyalty-2`. How many partitions does it contain?

# %%
# prediction
partitions_of_loyalty_2 = ...

# %%
sixth = kg.decode(*course.read_record(loyalty, 13)).value
with course.fold("partitions_of_loyalty_2", partitions_of_loyalty_2, len(sixth.assigned_partitions)):
    course.print_protocol_lines(loyalty, "loyalty", first_offset=13, last_offset=13)

# %% [markdown]
# <details><summary>Why?</summary>
#
# The target of `loyalty-2` is `orders-2`. But `loyalty-1` still reads `orders-2`, so `loyalty-2` must wait.
#
# </details>
#
# ## Revoke first, then assign
#
# A partition of a consumer group has only one reader at a time. So `loyalty-1` must first give `orders-2` back. Later, three heartbeats caused these records:

# %%
course.print_protocol_lines(loyalty, "loyalty", first_offset=15, last_offset=17)

# %% [markdown]
# - Record 15: the answer to a heartbeat of `loyalty-1` lists only two partitions. So this member must give `orders-2` back. Until then, it stays in epoch 2.
# - Record 16: the next heartbeat of `loyalty-1` no longer lists `orders-2`. So this member enters epoch 3.
# - Record 17: `orders-2` is free. With its next heartbeat, `loyalty-2` receives it.
#
# The current assignment (8) also contains the *state* of the member:
#
# | state | name | meaning |
# |---|---|---|
# | 0 | Stable | The member has all partitions of the target of its epoch, and no others. |
# | 1 | UnrevokedPartitions | The member must give partitions back. |
# | 2 | UnreleasedPartitions | The member waits for partitions of other members. |
#
# A member that does not give its partitions back is removed after `max.poll.interval.ms`, 5 minutes by default.

# %% [markdown]
# ## The same log, record by record
#
# The figure also shows record 14. It repeats record 13: a heartbeat of a waiting member can write its record a second time.
#
# Watch which epoch rises first, and when `orders-2` gets a new owner:

# %%
# figure
course.Epochs(loyalty, "loyalty")

# %% [markdown]
# ## The bytes of a current assignment
#
# These are the bytes of record 13. The key begins with the record type, and the value begins with its version. The length of a list is stored plus one, so `01` is an empty list:

# %%
key, value = course.read_record(loyalty, 13)
fields = [
    ("version", 0, 2),
    ("member epoch", 2, 6),
    ("previous member epoch", 6, 10),
    ("state", 10, 11),
    ("list: partitions", 11, 12),
    ("list: must revoke", 12, 13),
    ("count: optional fields", 13, 14),
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
# No record contains the state of a consumer group. A coordinator computes it:
#
# - **Empty**: the group has no members.
# - **Assigning**: the group epoch has risen, and the targets for it are not computed yet.
# - **Reconciling**: the targets are computed, but at least one member has not reached its target.
# - **Stable**: every member has reached its target.
#
# A member has reached its target if its epoch is the assignment epoch and its state is 0.
#
# ## Exercise: the state of a group
#
# Write `group_state(group_epoch, assignment_epoch, members)`. `members` is a list of pairs: the epoch and the state of each member. Return the name of the group's state.


# %%
# exercise: group_state
def group_state(group_epoch, assignment_epoch, members): ...


# %%
course.check("group_state", group_state)
# course.hint("group_state")

# %% [markdown]
# ## Share groups
#
# The members of a [share group](../docs/handbook/glossary.md#share-group) work like people at one queue: each message goes to one of them. Several members can read the same partition.
#
# `tasters` is a share group with one member. It reads `stock`, which has one partition:

# %%
tasters = course.find_data("harbour/4.3.1/__consumer_offsets-26")
course.print_protocol_lines(tasters, "tasters")

# %% [markdown]
# - The first target (13) is empty. Another part of the broker, the *share coordinator*, must prepare `stock` first. The share partitions (15) show this.
# - Record 6: `stock` is ready. After the next heartbeat, the member received `stock-0`.
#
# The positions of a share group are in another topic, `__share_group_state`.
#
# ## Streams groups
#
# Kafka Streams is a Java library for programs that read topics and write their results to topics. The instances of a program are a [streams group](../docs/handbook/glossary.md#streams-group). `bar-stats` has one member:

# %%
bar_stats = course.find_data("harbour/4.3.1/__consumer_offsets-37")
course.print_protocol_lines(bar_stats, "bar-stats", first_offset=7, last_offset=9)
print("   …")
course.print_protocol_lines(bar_stats, "bar-stats", first_offset=15, last_offset=17)

# %% [markdown]
# - The [**topology**](../docs/handbook/glossary.md#topology) (23) lists the parts of the program, with their topics. Kafka calls a part a *subtopology*.
# - A member receives [**tasks**](../docs/handbook/glossary.md#task) instead of partitions. The task `1_0` is partition 0 of part 1.
# - In streams groups, the states have other numbers. Here, state 1 means Stable.
#
# ## What a load rebuilds
#
# The broker of lesson 11 loaded all three groups after the crash:

# %%
loaded = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")
answers = course.read_answers("harbour/4.3.1")["groups"]

for name in ["loyalty", "tasters", "bar-stats"]:
    course.compare_epochs_with_broker(name, loaded[name], answers[name], "4.3.1")

# %% [markdown]
# Everything is back, even a rebalance in progress: each of its steps is a record. Only timers are lost.
#
# ## The last member leaves
#
# The only member of `g1` left. Later, an administrator deleted the group. This caused two batches:

# %%
log = course.find_data("new_protocols/4.3.1-ghost/__consumer_offsets-2")
course.print_protocol_lines(log, "g1", first_offset=11)

# %% [markdown]
# - The **leave** deletes the current assignment (8), the target (7) and the member (5), in this order. The group epoch (3) rises. The offset stays.
# - The **deletion** first deletes the offset (1). Then it deletes the assignment epoch (6), the topics and partitions (4), and the group epoch (3).
#
# <details><summary>The same order in share and streams groups</summary>
#
# First the parts of the member are deleted, then the parts of the group.
#
# | | share | streams |
# |---|---|---|
# | The leave deletes | current assignment (14), target (13), member (10) | current assignment (22), target (21), member (19) |
# | The leave raises | group epoch (11) | group epoch (17) |
# | The deletion deletes | assignment epoch (12), share partitions (15), group epoch (11) | offsets (1), assignment epoch (20), group epoch (17), topology (23) |
#
# </details>

# %% [markdown]
# ## A tombstone that comes too early
#
# A cleaning removes older **values**. After it, the target of a member can come before the member. A load accepts this. But a **tombstone** must not come too early. A broker deletes the parts of a group before the group. In another order, the load stops.
#
# | the tombstone of | is refused if the group still has |
# |---|---|
# | a member (5) | the current assignment (8) or the target (7) of this member |
# | the assignment epoch (6) | a target (7) |
# | the group epoch (3) | a member (5), a target (7) or the assignment epoch (6) |
#
# If there is nothing to delete, the tombstone is not refused.
#
# The next log was made for a test. It has two groups, `g` and `h`. The tombstone of the group epoch (3) of `g` comes while `g` has a member:

# %%
test = "n-3t-members"
names = {"n-3t-members.g.jr": "g", "n-3t-members.h.w": "h"}
answer = course.read_answers("new_protocols")[test]["new"]

[failure] = kg.load(course.find_data(f"new_protocols/{test}"), coordinator="new").failed.values()
print(str(failure).replace("n-3t-members.g.jr", "g"))
for group, name in names.items():
    print(f"A client asks for the offsets of {name}. A 4.3.1 broker answers {answer['offsets'][group]['error']}.")

# %% [markdown]
# One early tombstone makes **both** groups unavailable.
#
# ## Exercise: which order loads?
#
# Three consumer groups, in three partitions, had one member each. These are their last tombstones:
#
# - **A**: current assignment (8), target (7), member (5), group epoch (3), assignment epoch (6).
# - **B**: member (5), current assignment (8), target (7), assignment epoch (6), group epoch (3).
# - **C**: assignment epoch (6), group epoch (3). The cleaner has removed all other records of the group.
#
# Which partition does a 4.3.1 broker load? Write the letter in quotes.

# %%
# exercise: correct_tombstones
correct_tombstones = ...

# %%
course.check("correct_tombstones", correct_tombstones)
# course.hint("correct_tombstones")

# %% [markdown]
# ## Missing tombstones
#
# Kafka 4.3.1 and 4.4.0 have a bug: tombstones can be [**missing**](../docs/handbook/glossary.md#missing-tombstone). `s2` was a streams group. Its last member had left, so it was Empty. If a consumer joins with the name of an Empty group of another type, the broker first deletes this group. One exception: if it is a share group, the broker refuses the consumer. Two requests came:
#
# 1. A classic consumer sent JoinGroup for `s2`, with an unknown member id. The broker refused it with `UNKNOWN_MEMBER_ID` and wrote nothing. But it had already changed its memory, as the box below shows.
# 2. A consumer with `group.protocol=consumer` joined `s2`. The broker wrote five records, 42 to 46:

# %%
log = course.find_data("new_protocols/4.3.1-ghost/__consumer_offsets-3")
course.print_protocol_lines(log, "s2", first_offset=37)

# %% [markdown]
# Before record 42, the tombstones of the streams group are missing.
#
# <details><summary>Why are they missing?</summary>
#
# - Request 1: the broker first removed the Empty group from its **memory**, and prepared the tombstones. Then it checked the member id, and refused the request. It did not write the tombstones, and did not put the group back into its memory.
# - Request 2: the memory no longer had `s2`. So the broker wrote no tombstones for the records in the log.
#
# </details>

# %% [markdown]
# The same partition stores `g6`, an Empty group with an offset. Its records are correct.
#
# *Predict*: the broker restarts, and a client asks for the offset of `g6`. What is the answer? Write `"the offset"`, `"an error"` or `"nothing committed"`.

# %%
# prediction
answer_for_g6 = ...

# %%
reloaded = kg.load(log, coordinator="new")
answered = course.read_recording("4.3.1-ghost").read_group_errors(85, 85)["g6"]
with course.fold("answer_for_g6", answer_for_g6, "the offset" if answered == "NONE" else "an error"):
    print(*reloaded.failed.values())
    print(f"A 4.3.1 broker answered {answered}.")

# %% [markdown]
# ## Repair a partition that does not load
#
# After every restart, the load fails again. The next cell shows the remedy of `kafkagroups check`, and cuts a copy before record 42:

# %%
course.print_first_remedy(log, kafka="4.3.1")

shorter = course.make_scratch_folder() / "__consumer_offsets-3"
kg.cut(log, shorter, 42)

groups = kg.load(shorter, coordinator="new")
print()
for name in ("s2", "g6"):
    print(f"after the repair, {name} is {groups[name].state.value}, with {len(groups[name].offsets)} offset")

# %% [markdown]
# Both groups load, with their offsets. No commit follows record 42, so only the new member of `s2` is lost. It joins again. Lesson 11 shows how to bring the copy back.
#
# To prevent this, delete an Empty group before another type uses its name.

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | What does it do with the records of types 3 to 23? | It builds groups from them. | It skips them as unknown types, since 3.4.1. |
# | What does it load of a consumer group? | Its members and offsets. | Its offsets, as a simple group. |
#
# <details><summary>Change a running service to the new protocol</summary>
#
# You can change the consumers of a classic group one after the other. When the first consumer with `group.protocol=consumer` joins, the broker writes one batch:
#
# - It deletes the classic group (2).
# - It describes the classic members as members of a consumer group. The generation becomes the group epoch.
# - It adds the new member.
#
# The classic members go on with JoinGroup and SyncGroup. You can also go back: when the last new member leaves, the group becomes a classic group again.
#
# </details>
#
# <details><summary>Requests with an epoch, and other versions</summary>
#
# - OffsetFetch can name a member and its epoch. An old epoch is refused with `STALE_MEMBER_EPOCH`.
# - Kafka 3.7 to 3.9 have the new coordinator as a preview. Their records have fewer fields, and they refuse more logs.
# - Kafka 4.0 wrote type 9 for share groups. Its types 11 and 15 have another form. No release writes type 18.
# - A broker skips a newer type that it does not know, with a warning: lesson 11. Before 3.4.1, the load fails. So do not go back to such a release.
# - In 4.4.0, the leave of the last member also raises the assignment epoch (6, 12, 20).
# - In 4.4, streams groups can have static members. If the members choose another assignor, the group epoch rises.
#
# </details>
#
# ## Check yourself
#
# <details><summary>Which tombstones does a broker write when the last member of a consumer group leaves?</summary>
#
# The tombstones of the current assignment (8), the target (7) and the member (5), in this order. The offsets and the group stay.
#
# </details>
#
# ## In five lines
#
# - The coordinator computes targets. The members follow them.
# - The group epoch rises first, then the assignment epoch, then the member epochs.
# - One member revokes a partition. Then another member receives it.
# - The state of a group is computed, not stored.
# - A tombstone that is missing or too early can stop the load.

# %% [markdown]
# ## For your consumer
#
# - `group.protocol=consumer` selects the new protocol. The default is `classic`.
# - Remove `session.timeout.ms`, `heartbeat.interval.ms` and `partition.assignment.strategy`, or the consumer does not start. The broker sets the times, and chooses the assignor.
# - `group.remote.assignor` is `uniform` or `range`. Use the same value in all members.
#
# ## At 3 am
#
# PATH is a copy of a partition's folder. Run `kafkagroups check` before every planned restart, too.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `Failed to load metadata … Replaying record … failed` | `kafkagroups check PATH --kafka 4.3.1` | It names the refused record, the lost groups, and a remedy | Make a shorter copy: see above, and lesson 11 |
# | A group is Reconciling for minutes | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group loyalty --members --verbose` | A member with CURRENT-EPOCH below TARGET-EPOCH has not revoked its partitions | Restart this member |
# | A group is Assigning for minutes | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group loyalty --state --verbose` | GROUP-EPOCH is above TARGET-ASSIGNMENT-EPOCH. No heartbeat has come since | Check that the members reach the coordinator |
# | A streams application waits | `kafka-streams-groups.sh --bootstrap-server localhost:9092 --describe --group bar-stats --state` | NotReady means that a topic is missing | Create the topic |
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
# | the bug with the missing tombstones | `GroupMetadataManager.classicGroupJoinToClassicGroup` |
# | classic and consumer members | `ConsumerGroup.fromClassicGroup` |
#
# </details>
#
# ## What we left out, and why
#
# How an assignor divides partitions does not change the form of the records.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [14 · Forensics](14_forensics.ipynb): ten incidents.
