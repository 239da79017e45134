# %% [markdown]
# # 13 · The new protocols
#
# **What does the new protocol change for a service, and what does the log record of it?**
#
# **Which Kafka:** the new group coordinator of 4.x, and its new protocols: `group.protocol=consumer`, share groups and streams groups.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | decide what the new protocol would change for your service; follow a rebalance by its epochs; say which tombstones stop a load, and repair the log | {{minutes}} | no |
#
# ![After a member joins, the group epoch changes, then the targets, then the assignment epoch, and last the current assignments of the members.](pictures/13.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. The **coordinator** computes the assignment; a member sends heartbeats and does what their answers say.
# 2. A group is **many small records**, so a change writes only what has changed.
# 3. Every change raises the **group epoch**, and the members reach it one by one: nobody waits for everybody.
# 4. A tombstone that comes too early stops the load of the **whole partition**.
#
# With Kafka 4, *consumer group* became the name of a type: a group whose members set `group.protocol=consumer`. The groups of lesson 06 are called [*classic groups*](../docs/handbook/glossary.md#classic-group).

# %% [markdown]
# ## What you gain: one slow member delays only itself
#
# In a classic rebalance with the default assignors, all members stop and join again, and the slowest one decides how long that takes, because a member joins only when it calls `poll`. We run three consumers with both protocols on a coordinator of 4.3.1. `loyalty-2` is slow and calls `poll` every 30 seconds; `loyalty-3` starts in second 40 and causes the rebalance.

# %%
from kafkagroups import course
from kafkagroups.coordinator import Consumer, ConsumerProtocolConsumer


def rebalance(consumer_type):
    """Print how many of six partitions each member reads, from second 35 to 75. A dot: it reads none."""
    broker = course.start_broker(kafka="4.3.1", topics={"orders": 6})
    names = ["loyalty-1", "loyalty-2", "loyalty-3"]
    members = {name: consumer_type(broker, "loyalty", name, ["orders"], {"orders": 6}) for name in names}
    seconds = {name: "" for name in names}
    for second in range(75):
        for name, member in members.items():
            is_started = name != "loyalty-3" or second >= 40
            is_slow = name == "loyalty-2" and second >= 20
            if is_started and (not is_slow or second % 30 < 3):  # a `poll` takes a few requests
                member.poll()
            reads = len(member.positions) if member.state.value not in ("joining", "syncing") else 0
            seconds[name] += str(reads or ".") if is_started else " "
        broker.clock.advance(1000)
    for name in names:
        print(name, seconds[name][35:])


rebalance(Consumer)

# %% [markdown]
# With the classic protocol, `loyalty-1` stops soon after `loyalty-3` has come, and reads nothing for 20 seconds, because the group waits until `loyalty-2` calls `poll`, in second 60. *Predict*: for how many seconds does `loyalty-1` read nothing with the new protocol?

# %%
# prediction
idle_seconds = ...

# %%
with course.fold("idle_seconds", idle_seconds, 0):
    rebalance(ConsumerProtocolConsumer)

# %% [markdown]
# <details><summary>Why?</summary>
#
# `loyalty-1` must give one partition to the new member, and keeps the other two all the time. Only the partition that the slow member must give back arrives late: until its next `poll`, `loyalty-3` reads one partition in place of two.
#
# With `CooperativeStickyAssignor`, the members of a classic group go on reading too, but the rebalance still waits for the slowest one.
#
# </details>
#
# A member may also commit during such a change, because it stays in its old member epoch until it has given its partitions back. In a classic group, the same commit can fail with `REBALANCE_IN_PROGRESS` (lesson 07). The offsets themselves are the records of lesson 01, so a service keeps its positions when it changes the protocol.

# %% [markdown]
# ## The first member: five records
#
# To let each member go at its own pace, and to survive a crash in between, the coordinator writes down each step. In the shop, the first member of `loyalty` subscribed to the three partitions of `orders` with one heartbeat, and the broker wrote one batch:

# %%
import kafkagroups as kg
from kafkagroups import course

loyalty = course.find_data("harbour/4.3.1/__consumer_offsets-24")
course.print_protocol_lines(loyalty, "loyalty", last_offset=4)

# %% [markdown]
# - The [**target**](../docs/handbook/glossary.md#target) is what the coordinator wants the member to have.
# - The [**current assignment**](../docs/handbook/glossary.md#current-assignment) is what the member may read now. Here it equals the target, because nobody had to give anything back.
#
# From here on, the record type stands in brackets: member (5), group epoch (3), target (7), assignment epoch (6), current assignment (8). Share and streams groups have types of their own for the same roles, which the [handbook](../docs/handbook/records.md) lists. Committed offsets still have type 1.

# %% [markdown]
# ## Three epochs
#
# An [*epoch*](../docs/handbook/glossary.md#epoch) is a number that only rises. Three of them tell how far a change has come:
#
# | epoch | what it means |
# |---|---|
# | [group epoch](../docs/handbook/glossary.md#group-epoch) | It rises when something has changed: a member joined or left, a subscription or a topic is different. |
# | [assignment epoch](../docs/handbook/glossary.md#assignment-epoch) | It rises to the group epoch when the targets for this change are computed. |
# | [member epoch](../docs/handbook/glossary.md#member-epoch), one for each member | It rises to the assignment epoch when the member has given back what it lost. |

# %% [markdown]
# ## A second member joins
#
# When `loyalty-2` joined, the broker wrote one batch of six records. The first five notice the change and plan it:

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
# The target of `loyalty-2` is `orders-2`, but `loyalty-1` still reads this partition. Two readers at once would process the same records twice, so `loyalty-2` has to wait.
#
# </details>
#
# ## Revoke first, then assign
#
# A partition of a consumer group has one reader at a time, so `loyalty-1` must give `orders-2` back before `loyalty-2` receives it. Three heartbeats later, the log has these records:

# %%
course.print_protocol_lines(loyalty, "loyalty", first_offset=15, last_offset=17)

# %% [markdown]
# - Record 15: the answer to a heartbeat tells `loyalty-1` to revoke `orders-2`. Until then, it stays in member epoch 2.
# - Record 16: its next heartbeat no longer lists `orders-2`, so it enters member epoch 3.
# - Record 17: `orders-2` is free, and `loyalty-2` receives it with its next heartbeat.
#
# The current assignment (8) also contains the *state* of the member:
#
# | state | name | meaning |
# |---|---|---|
# | 0 | Stable | The member has finished with its own member epoch, which may not be the newest one. |
# | 1 | UnrevokedPartitions | The member must give partitions back before it enters the next epoch. |
# | 2 | UnreleasedPartitions | The member has entered the epoch, and waits for partitions that others still read. |
#
# A member that does not give its partitions back within `max.poll.interval.ms`, 5 minutes by default, is removed.

# %% [markdown]
# ## The same log, record by record
#
# Watch which epoch rises first, and when `orders-2` gets its new owner. (Record 14 repeats record 13: a heartbeat of a waiting member can do so.)

# %%
# figure
course.Epochs(loyalty, "loyalty")

# %% [markdown]
# ## The bytes of a current assignment
#
# The key begins with the record type, the value with its version. Before a list stands its length plus one, so `01` is an empty list. This is record 13:

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
# No record contains the state of a consumer group. The coordinator computes it from the epochs, so it cannot contradict them:
#
# - **Empty**: the group has no members.
# - **Assigning**: the group epoch has risen above the assignment epoch, so the targets are not computed yet.
# - **Reconciling**: the targets are computed, but at least one member has not reached its target.
# - **Stable**: every member has reached its target, which means that its epoch is the assignment epoch and its state is 0.
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
# The members of a [share group](../docs/handbook/glossary.md#share-group) work like people at one queue: each message goes to one of them, and several members can read the same partition, so nothing has to be revoked. `tasters` is a share group with one member, which reads the only partition of `stock`:

# %%
tasters = course.find_data("harbour/4.3.1/__consumer_offsets-26")
course.print_protocol_lines(tasters, "tasters")

# %% [markdown]
# The first target (13) is empty until another part of the broker has prepared `stock`, which the share partitions (15) record. Share groups commit no offsets here: which messages were acknowledged is in another topic, `__share_group_state`.
#
# ## Streams groups
#
# The instances of a Kafka Streams program are a [streams group](../docs/handbook/glossary.md#streams-group). `bar-stats` has one member:

# %%
bar_stats = course.find_data("harbour/4.3.1/__consumer_offsets-37")
course.print_protocol_lines(bar_stats, "bar-stats", first_offset=15, last_offset=17)

# %% [markdown]
# Its members receive [**tasks**](../docs/handbook/glossary.md#task) instead of partitions: `1_0` is partition 0 of the second part of the program, as its [**topology**](../docs/handbook/glossary.md#topology) (23) numbers them. The states have other numbers, and here 1 means Stable.
#
# ## What a load rebuilds
#
# The shop's broker crashed, and the next leader loaded all three groups. Each step of a rebalance is a record, so even one in progress goes on after a crash. Only the timers start again.

# %%
loaded = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")
answers = course.read_answers("harbour/4.3.1")["groups"]

for name in ["loyalty", "tasters", "bar-stats"]:
    course.compare_epochs_with_broker(name, loaded[name], answers[name], "4.3.1")

# %% [markdown]
# ## The last member leaves
#
# A group of many records needs many tombstones. The only member of `g1` left, and later an administrator deleted the group:

# %%
log = course.find_data("new_protocols/4.3.1-ghost/__consumer_offsets-2")
course.print_protocol_lines(log, "g1", first_offset=11)

# %% [markdown]
# - The **leave** deletes the current assignment (8), the target (7) and the member (5), in this order, and raises the group epoch (3). The offset stays.
# - The **deletion** deletes first the offset (1), and then the assignment epoch (6), the topics and partitions (4), and the group epoch (3).

# %% [markdown]
# ## A tombstone that comes too early
#
# Cleaning removes replaced values, so a load must accept a target that comes before the record of its member. With tombstones it is strict: a broker deletes the parts of a group before the group, so a tombstone that arrives while a part is still there means a broken log, and the load stops.
#
# | the tombstone of | is refused if the group still has |
# |---|---|
# | a member (5) | the current assignment (8) or the target (7) of this member |
# | the assignment epoch (6) | a target (7) |
# | the group epoch (3) | a member (5), a target (7) or the assignment epoch (6) |
#
# A tombstone that finds nothing to delete is accepted.
#
# The next log was made for a test, and a real broker loaded it. It has two groups, `g` and `h`, and the tombstone of the group epoch (3) of `g` comes while `g` has a member:

# %%
test = "n-3t-members"
names = {"n-3t-members.g.jr": "g", "n-3t-members.h.w": "h"}
answer = course.read_answers("new_protocols")[test]["new"]

[failure] = kg.load(course.find_data(f"new_protocols/{test}"), coordinator="new").failed.values()
print(str(failure).replace("n-3t-members.g.jr", "g"))
for group, name in names.items():
    print(f"A client asks for the offsets of {name}. A 4.3.1 broker answers {answer['offsets'][group]['error']}.")

# %% [markdown]
# Nothing is wrong with `h`, but a partition loads as a whole or not at all.
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
# Kafka 4.3.1 and 4.4.0 have a bug after which tombstones are [**missing**](../docs/handbook/glossary.md#missing-tombstone). If a member joins under the name of an Empty group of another type, the broker deletes that group first. `s2` was an Empty streams group when a consumer joined under its name, and yet the new records, 42 to 46, follow no tombstones:

# %%
log = course.find_data("new_protocols/4.3.1-ghost/__consumer_offsets-3")
course.print_protocol_lines(log, "s2", first_offset=37)

# %% [markdown]
# <details><summary>Why are they missing?</summary>
#
# 1. A classic consumer sent JoinGroup with an unknown member id. The broker removed `s2` from its **memory**, prepared the tombstones, and only then refused the request, so it never wrote them.
# 2. A consumer with `group.protocol=consumer` joined. The broker no longer knew of an older `s2`, so it wrote no tombstones before its five records.
#
# </details>
#
# The same partition stores `g6`, a group whose records are correct.
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
# Each restart fails again. `kafkagroups check` names the releases that load the log, and a copy that loads:

# %%
course.print_first_remedy(log, kafka="4.3.1")

shorter = course.make_scratch_folder() / "__consumer_offsets-3"
kg.cut(log, shorter, 42)

groups = kg.load(shorter, coordinator="new")
print()
for name in ("s2", "g6"):
    print(f"after the repair, {name} is {groups[name].state.value}, with {len(groups[name].offsets)} offset")

# %% [markdown]
# Both groups load with their offsets. Only the new member of `s2` is lost, and it joins again. Lesson 11 shows how to bring the copy back. To prevent the problem, delete an Empty group before another type uses its name.

# %% [markdown]
# ## Where the classic coordinator differs
#
# The classic coordinator, up to 3.9, skips the records of types 3 to 23 as unknown (since 3.4.1; before, its load fails). Of a consumer group it loads the offsets only.
#
# ## Change a running service to the new protocol
#
# You can change the consumers one after the other, and back, if the broker's `group.consumer.migration.policy` allows it. The offsets stay, but from then on the retention counts from each commit (lesson 09).
#
# <details><summary>What the coordinator writes</summary>
#
# When the first consumer with `group.protocol=consumer` joins, the broker writes one batch: it deletes the classic group (2), and writes the classic members and the new one as members of a consumer group. The generation becomes the group epoch. The classic members go on with JoinGroup and SyncGroup. When the last new member leaves, the group becomes a classic group again.
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
# - The coordinator computes the targets, and each member reaches its own, so one slow member delays only its partitions.
# - The group epoch rises first, then the assignment epoch, and then the member epochs, one by one.
# - A partition is revoked by its old reader before the new one receives it.
# - The state of a group is computed from the epochs and never stored.
# - A tombstone that is missing or too early stops the load of the whole partition.

# %% [markdown]
# ## For your consumer
#
# - `group.protocol=consumer` selects the new protocol. The default is `classic`.
# - Remove `session.timeout.ms`, `heartbeat.interval.ms` and `partition.assignment.strategy`, or the consumer does not start: the broker now sets the times and chooses the assignor.
# - `group.remote.assignor` is `uniform` or `range`. Use the same value in all members, because the group has one assignor.
#
# ## At 3 am
#
# PATH is a copy of a partition's folder. Run `kafkagroups check` before every planned restart.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `Failed to load metadata … Replaying record … failed` | `kafkagroups check PATH --kafka 4.3.1` | It names the refused record, the lost groups, and a remedy | Make a shorter copy: see above, and lesson 11 |
# | A group is Reconciling for minutes | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group loyalty --members --verbose` | A member with CURRENT-EPOCH below TARGET-EPOCH has not revoked its partitions | Restart this member |
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
# How an assignor divides partitions, and rare record types, which the [handbook](../docs/handbook/records-consumer.md) has.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [14 · Forensics](14_forensics.ipynb): ten incidents.
