# %% [markdown]
# # 13 · The new protocols
#
# **How does a group divide its partitions again while its members go on reading, and which records does the coordinator write?**
#
# **Which Kafka:** every 4.x, with its new *group coordinator*. **Which groups:** those whose members set `group.protocol=consumer`. In this lesson, only such a group is a *consumer group*. Without the setting, it is a [*classic group*](../docs/handbook/glossary.md#classic-group) (lesson 06).
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | decide what the new protocol would change for your service; follow a rebalance by its epochs; say what survives a crash in the middle | {{minutes}} + 10 for later | no |
#
# ![After a member joins, the group epoch changes, then the targets, then the assignment epoch, and last the current assignments of the members.](pictures/13.svg)

# %% [markdown]
# ## One slow member
#
# When a member joins a classic group with the default assignor, all members stop, join again, and wait for the slowest member, because a member joins only in `poll`. We run three consumers with each protocol: `loyalty-2` calls `poll` only every 30 seconds, and `loyalty-3` starts in second 40. How many of six partitions does each member read in each second? A dot means none:

# %%
# script
from kafkagroups import course
from kafkagroups.coordinator import Consumer, ConsumerProtocolConsumer


def rebalance(consumer_type):
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
    print("second   ", *(f"{second}  " for second in range(35, 75, 5)))
    for name in names:
        print(name, seconds[name][35:])


rebalance(Consumer)

# %% [markdown]
# `loyalty-1` reads nothing from second 42 to 61, because the group waits for `loyalty-2`, which polls in second 60. *Predict*: for how many seconds does `loyalty-1` read nothing with the new protocol?

# %%
# prediction
idle_seconds = ...

# %%
with course.fold("idle_seconds", idle_seconds, 0):
    rebalance(ConsumerProtocolConsumer)

# %% [markdown]
# <details><summary>Why?</summary>
#
# `loyalty-1` keeps two of its three partitions all the time. Each member sends a heartbeat every 5 seconds:
#
# 1. In second 43, the answer to a heartbeat tells `loyalty-1` to give one partition back.
# 2. In second 47, `loyalty-3` receives this partition with its own heartbeat.
# 3. At its next `poll`, the slow `loyalty-2` gives back a second partition for `loyalty-3`.
#
# With `CooperativeStickyAssignor`, the members of a classic group go on reading, too. But `loyalty-3` would get its partitions only when the whole rebalance ends, in second 60.
#
# </details>

# %% [markdown]
# ## What changes in your program
#
# A service that changes the protocol keeps its offsets. Three things are different:
#
# | | classic group | `group.protocol=consumer` |
# |---|---|---|
# | `onPartitionsRevoked` gets | all partitions (default assignor) | only what this member must give back; a commit inside the call is still accepted |
# | a commit during a change | can fail with `REBALANCE_IN_PROGRESS` | succeeds, because there is no phase in which nobody knows the owners |
# | the retention of 7 days begins (lesson 09) | when the group becomes Empty | at the commit (but the offset stays while a member reads the topic) |
#
# **The trap is the retention.** A program without auto commit commits only after it has read records. If nothing was written to a partition for 8 days, its last commit is 8 days old, and its offset is deleted soon after the service stops. So before you close the consumer, call `commitSync()`: without arguments, it commits the positions of all partitions.
#
# Before the change, remove `session.timeout.ms`, `heartbeat.interval.ms` and `partition.assignment.strategy`, or the consumer does not start. What replaces them, and how to change [a running service](../docs/handbook/protocols.md#how-to-change-a-running-service), is in the handbook.

# %% [markdown]
# ## The first member: five records
#
# A classic rebalance ends for all members in one moment, so one record at its end is enough. In a consumer group, each member changes at its own time, so there is **no record of a rebalance**: the coordinator writes each step when it happens. When the first member of `loyalty` subscribed to `orders`, a 4.3.1 broker wrote one batch:

# %%
import kafkagroups as kg

loyalty = course.find_data("harbour/4.3.1/__consumer_offsets-24")
course.print_protocol_lines(loyalty, "loyalty", last_offset=4)

# %% [markdown]
# | record | step | type | what the record says |
# |---|---|---|---|
# | 0 | A member joins. | 5 | the member, with its subscription |
# | 1 | The group has changed. | 3 | an epoch of the group |
# | 2 | The coordinator computes a plan. | 7, for each member | the [**target**](../docs/handbook/glossary.md#target): the partitions that the member should have |
# | 3 | The plan is complete. | 6 | an epoch of the plan |
# | 4 | The member receives partitions. | 8, for each member | the [**current assignment**](../docs/handbook/glossary.md#current-assignment): the partitions that the member may read now (here all of its target), an epoch of the member, and its *state* (0: it waits for nothing) |
#
# ## Three epochs
#
# Three of these records have a number that only rises, an [*epoch*](../docs/handbook/glossary.md#epoch). All three are 2: Kafka 4.3 creates a group with epoch 1, and its first member raised it to 2.
#
# | epoch | here in | what it is | when it rises |
# |---|---|---|---|
# | [**group epoch**](../docs/handbook/glossary.md#group-epoch) | record 1 | the number of the group's newest change | when a member joins or leaves, or when a subscription or a topic's number of partitions changes |
# | [**assignment epoch**](../docs/handbook/glossary.md#assignment-epoch) | record 3 | the newest change for which the coordinator has planned who reads what | when the plan is complete |
# | [**member epoch**](../docs/handbook/glossary.md#member-epoch), one for each member | record 4 | up to which change this member is **done**: it has given back all that it had to | when the member has given back what it must, or at once if there is nothing |
#
# At the next change, first the group epoch becomes 3, then the assignment epoch, and then the member epochs. So always: **group epoch ≥ assignment epoch ≥ every member epoch**. A member epoch can be below the assignment epoch for two reasons: the member still has to give partitions back, or its next heartbeat has not come yet.

# %% [markdown]
# ## A second member joins
#
# Then `loyalty-2` joined, and the broker wrote one batch of six records. First, the plan:

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
# The target of `loyalty-2` is `orders-2`, but `loyalty-1` still reads this partition. Two readers at once would process the same records twice, so `loyalty-2` has to wait (state 2).
#
# </details>
#
# ## Revoke first, then assign
#
# So `loyalty-1` must give `orders-2` back. Three heartbeats caused these records (record 14 has the same content as 13):

# %%
course.print_protocol_lines(loyalty, "loyalty", first_offset=15, last_offset=17)

# %% [markdown]
# During the whole change, group epoch and assignment epoch are 3. A member epoch rises when the member has given back what it must; new partitions may come later:
#
# | record | what happens | `loyalty-1` | `loyalty-2` |
# |---|---|---|---|
# | 13 | `loyalty-2` has nothing to give back, so its member epoch is 3 at once. | epoch 2: 0, 1, 2 | epoch 3: none |
# | 15 | The answer to a heartbeat tells `loyalty-1` to revoke `orders-2`. | epoch 2: 0, 1, must revoke 2 | epoch 3: none |
# | 16 | The next heartbeat of `loyalty-1` no longer lists `orders-2`, so its member epoch rises. | epoch 3: 0, 1 | epoch 3: none |
# | 17 | `orders-2` is free, and `loyalty-2` receives it with its next heartbeat. | epoch 3: 0, 1 | epoch 3: 2 |
#
# A member that does not give its partitions back within `max.poll.interval.ms` (5 minutes) is removed.

# %% [markdown]
# ## The state of a member
#
# After record 13, `loyalty-2` has member epoch 3 and still waits for `orders-2`. The state in its current assignment says so:
#
# | state | name | the member |
# |---|---|---|
# | 0 | Stable | at its last heartbeat, it had all partitions of its target, and no other |
# | 1 | UnrevokedPartitions | must give partitions back before its member epoch rises |
# | 2 | UnreleasedPartitions | has given everything back, and waits for partitions that other members still have |
#
# <details><summary>The bytes of a current assignment</summary>
#
# The key begins with the record type. In the value, the member epochs and the state are at fixed places. This is record 13, where `01` is an empty list:
#
# ```
# record type             00 08
# version                 00 00
# member epoch            00 00 00 03
# previous member epoch   00 00 00 00
# state                   02
# list: partitions        01
# list: must revoke       01
# count: optional fields  00
# ```
#
# </details>

# %% [markdown]
# ## The same log, record by record
#
# Which epoch rises first? When does `orders-2` have no owner? A dashed partition waits for its next owner.

# %%
# figure
course.Epochs(loyalty, "loyalty")

# %% [markdown]
# ## The state of a group is computed
#
# No record contains the state of the **group**. The coordinator computes it:
#
# - **Empty**: the group has no members.
# - **Assigning**: the group epoch is above the assignment epoch, so the plan is not complete yet.
# - **Reconciling**: the plan is complete, but the group is not yet Stable.
# - **Stable**: every member has exactly the partitions of its target. Its member epoch is the assignment epoch, and its state is 0.
#
# ## Exercise: the state of a group
#
# Write `group_state(group_epoch, assignment_epoch, members)`, which returns the name of the group's state. `members` is a list of pairs: the member epoch and the state of each member.


# %%
# exercise: group_state
def group_state(group_epoch, assignment_epoch, members): ...


# %%
course.check("group_state", group_state)
# course.hint("group_state")

# %% [markdown]
# ## The coordinator crashes in the middle
#
# The brokers crash right after record 15: `loyalty-1` has not given `orders-2` back yet. The next coordinator loads the records 0 to 15.
#
# In lesson 06, such a crash lost the rebalance: the next coordinator found the group Stable. *Predict*: in which state is `loyalty` after this load?

# %%
# prediction
loaded_state = ...

# %%
half_done = kg.load(loyalty, coordinator="new", until=16)["loyalty"]

with course.fold("loaded_state", loaded_state, half_done.state.value):
    billing = course.play_script(course.TWO_CONSUMERS[:10], "4.3.1")
    next_broker = course.start_follower(billing.coordinator, "billing")
    print("classic group, lesson 06, row 10")
    print("  before the crash:", billing.describe())
    print("  loaded:          ", course.GroupLife("billing", broker=next_broker).describe())
    print("consumer group, record 15")
    epochs = f"group epoch {half_done.group_epoch}, assignment epoch {half_done.assignment_epoch}"
    print(f"  loaded:           {half_done.state.value}, {epochs}")
    for member in half_done.members.values():
        print(f"    {member.metadata.client_id}: epoch {member.member_epoch}, state {member.state}")

# %% [markdown]
# The next coordinator knows that `loyalty-1` must still revoke and that `loyalty-2` waits, so the change goes on where it stopped. Our model loads the 16 records, receives the next heartbeat of both members, and writes two records:

# %%
continued = course.continue_consumer_group(loyalty, "loyalty", end_offset=16)
course.print_protocol_lines(continued, "loyalty", first_offset=16)

ours, real = ([course.read_record(str(log), offset) for offset in (16, 17)] for log in (continued, loyalty))
course.compare_with_broker(ours, real, "4.3.1", verb="wrote")

# %% [markdown]
# The real broker, which did not crash there, wrote the same two records, so the members notice nothing. Only timers are lost, because no record has them: each member gets a full session, and `loyalty-1` five more minutes to give the partition back.

# %% [markdown]
# ## Exercise: whom does the group wait for?
#
# The group `pos` has been Reconciling for three minutes. `kafka-consumer-groups.sh --describe --group pos --members --verbose` prints:
#
# | CONSUMER-ID | CURRENT-EPOCH | CURRENT-ASSIGNMENT | TARGET-EPOCH | TARGET-ASSIGNMENT |
# |---|---|---|---|---|
# | a | 7 | orders-0 | 7 | orders-0 |
# | b | 6 | orders-1 | 7 | orders-1 |
# | c | 7 | | 7 | orders-2 |
#
# CURRENT-ASSIGNMENT leaves out what a member must still give back. Which process do you restart? Write its letter in quotes.

# %%
# exercise: waits_for
waits_for = ...

# %%
course.check("waits_for", waits_for)
# course.hint("waits_for")

# %% [markdown]
# ## Exercise for later: after record 29, on paper
#
# While a service changes to the new protocol, one consumer group has members of both protocols. In the group `up` (on 4.4.0), `classic-a` had the three partitions of `orders`, and `classic-b` those of `clicks`. Then `consumer-c` joined with the new protocol.
#
# A classic member needs two JoinGroups to give a partition back: the answer to the first says what to revoke, and the second says that it is done. Each JoinGroup wrote a pair of records, such as 24 and 25. (The records 21 to 23 change no assignment.)

# %%
up = course.find_data("new_protocols/4.4.0-migration/__consumer_offsets-3")
course.print_protocol_lines(up, "up", first_offset=14, last_offset=20)
course.print_protocol_lines(up, "up", first_offset=24, last_offset=29)

# %% [markdown]
# The brokers crash right after record 29. Write what the next coordinator finds: the state of the group, the member whose member epoch is not 3 yet, and the partition that nobody has: `("…", "…", "…")`.

# %%
# exercise: after_record_29
after_record_29 = ...

# %%
course.check("after_record_29", after_record_29)
# course.hint("after_record_29")

# %% [markdown]
# ## Share groups and streams groups
#
# Two more kinds of groups record the same steps, in [record types](../docs/handbook/records.md) of their own:
#
# - In a [share group](../docs/handbook/glossary.md#share-group), several members read one partition, and each message goes to one of them.
# - In a [streams group](../docs/handbook/glossary.md#streams-group), the members run a Kafka Streams program, whose parts are its [**topology**](../docs/handbook/glossary.md#topology). A member receives [**tasks**](../docs/handbook/glossary.md#task): one part of the program, for one partition.

# %% [markdown]
# ## How a group ends
#
# A broker deletes the parts of a group by tombstones. When a member leaves, the broker writes three tombstones, in this order: of the member's current assignment, of its target, and of the member itself. When an administrator deletes the group, the assignment epoch goes before the group epoch.
#
# <details><summary>Why the order matters</summary>
#
# A load relies on it. If, for example, a member's tombstone comes while its target is still there, the load stops, and then **no group of the partition** is loaded ([the rules](../docs/handbook/protocols.md#the-order-of-tombstones)).
#
# </details>
#
# ## A bug of 4.3.1 and 4.4.0
#
# If programs of two types use one group name, these releases can write a log that [lacks tombstones](../docs/handbook/protocols.md#a-bug-of-431-and-440-missing-tombstones), and the next load of the partition stops. So delete an Empty group before programs of another type use its name, and run `kafkagroups check` on a copy before you restart such a broker. No release that we know repairs the bug.
#
# <details><summary>How it happens</summary>
#
# 1. For the Empty consumer group `loyalty`, a **classic** consumer sends a JoinGroup with an unknown member id.
# 2. The broker removes the group from its memory, but then refuses the request, and writes no tombstones.
# 3. A share consumer joins `loyalty`. The records of the share group now follow those of the old group, which no tombstone has ended.
# 4. The next load of the partition stops with `Failed to load metadata`.
#
# A group that changes from the classic to the new protocol does not have this bug.
#
# </details>

# %% [markdown]
# ## Where 3.9 differs
#
# A load of 3.9 skips the records of the new types, and reads the commits. So after a downgrade, a consumer group has offsets but no members, and each offset expires 7 days after its commit.
#
# ## Check yourself
#
# <details><summary>The assignment epoch of a group is 7, and a member has member epoch 6. What does this mean?</summary>
#
# The plan for change 7 is complete. This member must still give partitions back, or has not sent its next heartbeat. Only members that need its partitions wait for it.
#
# </details>
#
# <details><summary>Why does a consumer group go on with a change after a crash, although a classic group begins its rebalance again?</summary>
#
# Each step of the change is a record, so a load finds it half done. A classic group is written only at the end of a rebalance.
#
# </details>
#
# <details><summary>The last member of a consumer group leaves. Which tombstones does the broker write, and what would another order cost?</summary>
#
# Those of the current assignment, the target and the member, in this order. If, for example, the member went before its target, the next load would stop. Then clients of all groups of the partition get `NOT_COORDINATOR`, because a partition loads as a whole or not at all.
#
# </details>
#
# ## In five lines
#
# - A slow member delays only the partitions that it must give back.
# - First the group epoch rises, then the assignment epoch, and then the epoch of each member that has nothing left to give back.
# - The old reader of a partition revokes it before the new one receives it.
# - The state of a group is computed and never stored.
# - Each step is a record, so the next coordinator continues a half-done change.
#
# ## For your consumer
#
# Without auto commit, call `commitSync()` before you close the consumer.

# %% [markdown]
# ## At 3 am
#
# PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk). Before a restart, copy all partitions of the broker.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group stays Reconciling | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group loyalty --members --verbose` | A member with CURRENT-EPOCH below TARGET-EPOCH has not given its partitions back | Restart this member: HOST and CLIENT-ID say which process it is. If it is soon behind again: [runbook](../docs/operator.md#11-one-partition-stands-still-or-a-group-does-not-come-to-rest) |
# | `Failed to load metadata … Replaying record … failed` | `kafkagroups check PATH --kafka 4.3.1` | `check` names the record, the groups and the remedy | The [runbook](../docs/operator.md#1-a-partition-does-not-load) |
# | You plan a restart | `kafkagroups check PATH --kafka 4.3.1` | `FAILS`: the next load of a partition stops | Do not restart the broker yet. First follow the [runbook](../docs/operator.md#1-a-partition-does-not-load) from its step 2 |
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
# How an assignor divides partitions. The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [14 · Forensics](14_forensics.ipynb): ten incidents.
