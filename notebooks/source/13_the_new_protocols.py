# %% [markdown]
# # 13 · The new protocols
#
# **What does the new protocol change for a service, and what does the log record of it?**
#
# **Which Kafka:** 4.x, which has three new types of groups: consumer groups, share groups (whose members work like people at one queue) and streams groups (the instances of a Kafka Streams program).
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
# 3. Every change raises the **group epoch**, and each member follows at its own pace.
# 4. A tombstone that comes too early stops the load of the **whole partition**.
#
# In this lesson, a *consumer group* is only a group whose members set `group.protocol=consumer`. The groups of lesson 06 are [*classic groups*](../docs/handbook/glossary.md#classic-group), still the default of the clients.
#
# You can stop after each of four parts. **A** is for services. **B** shows a change record by record. **C** builds on B, and is for operators. **D** is about share and streams groups.

# %% [markdown]
# ## What you gain: one slow member delays only itself
#
# *Part A.* When a member joins a classic group with the default assignors, all members stop, join again, and wait for the slowest one, because a member joins only when it calls `poll`. We run three consumers with both protocols. `loyalty-2` calls `poll` only every 30 seconds, and `loyalty-3` starts in second 40, which causes the rebalance.
#
# You can skip the code. It prints how many of six partitions each member reads, second by second; a dot means none:

# %%
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
# `loyalty-1` reads nothing from second 42 to second 61, because the group waits until `loyalty-2` calls `poll` in second 60. *Predict*: for how many seconds does `loyalty-1` read nothing with the new protocol?

# %%
# prediction
idle_seconds = ...

# %%
with course.fold("idle_seconds", idle_seconds, 0):
    rebalance(ConsumerProtocolConsumer)

# %% [markdown]
# <details><summary>Why?</summary>
#
# `loyalty-1` gives one partition to the new member, and keeps the other two all the time. `loyalty-3` receives this partition after seven seconds, because each member sends a heartbeat only every 5 seconds: the answer to one heartbeat tells `loyalty-1` to give the partition back, and the answer to a later one gives the partition to `loyalty-3`. The second partition of `loyalty-3` comes from the slow member, which gives it back at its next `poll`.
#
# With `CooperativeStickyAssignor`, the members of a classic group go on reading too, but the rebalance still waits for the slowest one.
#
# </details>

# %% [markdown]
# ## What changes in your program
#
# Both protocols store offsets as in lesson 01, so a service keeps its positions. These things change:
#
# | | classic group | `group.protocol=consumer` |
# |---|---|---|
# | `onPartitionsRevoked` gets | all partitions (default assignors) | only what this member must give back; a commit in it still counts |
# | a commit during a change | can fail with `REBALANCE_IN_PROGRESS` | succeeds, as long as the member has not given the partition back |
# | times | `session.timeout.ms`, `heartbeat.interval.ms` of the client | `group.consumer.session.timeout.ms`, `group.consumer.heartbeat.interval.ms` of the broker (45 and 5 seconds) |
# | assignor | `partition.assignment.strategy` | `group.remote.assignor`: `uniform` or `range`, the same in all members |
# | retention counts | from the moment when the group became Empty | from each commit (lesson 09) |
#
# **The trap is the retention.** When you stop the service, the coordinator deletes within ten minutes each offset whose last commit is more than 7 days old. So call `commitSync()` without arguments before you close a consumer: it commits the positions of all its partitions, also of the quiet ones.
#
# You can change the consumers of a running service one after the other, because a group may have members of both protocols (`group.consumer.migration.policy=bidirectional`, the default). Remove `session.timeout.ms`, `heartbeat.interval.ms` and `partition.assignment.strategy` from their settings first, or the consumer does not start.
#
# <details><summary>What the coordinator writes then</summary>
#
# The other values of the policy are `upgrade` (only to the new protocol), `downgrade` (only back) and `disabled`.
#
# When the first consumer with `group.protocol=consumer` joins, the broker writes one batch: it deletes the classic group, and writes the classic members and the new one as members of a consumer group. The generation becomes the group epoch. The classic members go on with JoinGroup and SyncGroup. When the last new member leaves, the group becomes a classic group again.
#
# </details>

# %% [markdown]
# ## The first member: five records
#
# *Part B.* Each member goes at its own pace, so the coordinator writes each step of each member into the log. When the first member of `loyalty` subscribed to `orders`, the broker wrote one batch. (In 4.3, a new group has epoch 1, and its first member raises it to 2.)

# %%
import kafkagroups as kg
from kafkagroups import course

loyalty = course.find_data("harbour/4.3.1/__consumer_offsets-24")
course.print_protocol_lines(loyalty, "loyalty", last_offset=4)

# %% [markdown]
# - The [**target**](../docs/handbook/glossary.md#target) is what the coordinator wants the member to have.
# - The [**current assignment**](../docs/handbook/glossary.md#current-assignment) is what the member may read now.

# %% [markdown]
# ## Three epochs
#
# An [*epoch*](../docs/handbook/glossary.md#epoch) is a number that only rises. Three of them tell how far a change has come:
#
# | epoch | when it rises |
# |---|---|
# | [group epoch](../docs/handbook/glossary.md#group-epoch) | A member, a subscription or a topic has changed. |
# | [assignment epoch](../docs/handbook/glossary.md#assignment-epoch) | The targets for this change are computed. It then equals the group epoch. |
# | [member epoch](../docs/handbook/glossary.md#member-epoch), one for each member | This member has given back all that is not in its target. Its epoch then equals the assignment epoch. |

# %% [markdown]
# ## A second member joins
#
# After three commits, `loyalty-2` joined, and the broker wrote one batch of six records. The first five plan the change:

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
# So `loyalty-1` must give `orders-2` back first. (Record 14 repeats record 13, because `loyalty-2` still waits.) Three heartbeats wrote these records:

# %%
course.print_protocol_lines(loyalty, "loyalty", first_offset=15, last_offset=17)

# %% [markdown]
# - Record 15: the answer to a heartbeat tells `loyalty-1` to revoke `orders-2`. It stays in member epoch 2.
# - Record 16: its next heartbeat no longer lists `orders-2`, so it enters member epoch 3.
# - Record 17: `orders-2` is free, and `loyalty-2` receives it with its next heartbeat.
#
# The current assignment also contains the *state* of the member.
#
# | state | name | meaning |
# |---|---|---|
# | 0 | Stable | It has all partitions of its epoch, and nothing to give back. It may not know of a newer change yet. |
# | 1 | UnrevokedPartitions | It must give partitions back before it enters the next epoch. |
# | 2 | UnreleasedPartitions | It has entered the epoch, and waits for partitions that others still read. |
#
# A member that gives nothing back within `max.poll.interval.ms`, 5 minutes by default, is removed.

# %% [markdown]
# ## The same log, record by record
#
# Watch which epoch rises first, and when `orders-2` gets its new owner.

# %%
# figure
course.Epochs(loyalty, "loyalty")

# %% [markdown]
# ## The bytes of a current assignment
#
# Member epochs and states are numbers at fixed places of the value, so you can read them in a dump without a tool. The key begins with the record type, and the value with its version. This is record 13 of `loyalty`, where `01` is an empty list:

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
# A 4.4.0 broker wrote this record for a member of the group `up`. Its first bytes, in groups of four:
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
# No record contains the state of a consumer group. The coordinator computes it from the epochs:
#
# - **Empty**: the group has no members.
# - **Assigning**: the group epoch is above the assignment epoch, so the targets are not computed yet.
# - **Reconciling**: the targets are computed, but at least one member has not reached its target.
# - **Stable**: every member has reached its target: its epoch is the assignment epoch, and its state is 0.
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
# ## What a load rebuilds
#
# *Part C.* The shop's broker crashed, and the next leader loaded `loyalty`. Each step is a record, so even a half-done change goes on. Only the timers start again.

# %%
loaded = kg.load(course.find_data("harbour/4.3.1"), coordinator="new")
answers = course.read_answers("harbour/4.3.1")["groups"]

course.compare_epochs_with_broker("loyalty", loaded["loyalty"], answers["loyalty"], "4.3.1")

# %% [markdown]
# ## The last member leaves
#
# The only member of `g1` left. Later, an administrator deleted the group:

# %%
log = course.find_data("new_protocols/4.3.1-ghost/__consumer_offsets-2")
course.print_protocol_lines(log, "g1", first_offset=11)

# %% [markdown]
# - The **leave** deletes the current assignment, the target and the member, in this order, and raises the group epoch.
# - The **deletion** deletes the offset first, and the group epoch last.

# %% [markdown]
# ## A tombstone that comes too early
#
# A load accepts *values* in any order, because a cleaner that removes old records can leave a target before its member. For *tombstones*, the order counts. A broker deletes the parts of a group first and the group last, so if the tombstone of a group comes while a part is still there, something is missing, and the load stops:
#
# | the tombstone of | is refused if the group still has |
# |---|---|
# | a member | the current assignment or the target of this member |
# | the assignment epoch | a target |
# | the group epoch | a member, a target or the assignment epoch |
#
# A tombstone that finds nothing to delete is accepted.
#
# In this test log, the tombstone of the group `g` comes while `g` has a member. `h` is another group:

# %%
test = "n-3t-members"
names = {"n-3t-members.g.jr": "g", "n-3t-members.h.w": "h"}
answer = course.read_answers("new_protocols")[test]["new"]

[failure] = kg.load(course.find_data(f"new_protocols/{test}"), coordinator="new").failed.values()
print(str(failure).replace("n-3t-members.g.jr", "g"))
for group, name in names.items():
    print(f"A client asks for the offsets of {name}. A 4.3.1 broker answers {answer['offsets'][group]['error']}.")

# %% [markdown]
# Nothing is wrong with `h`, but a partition loads as a whole.
#
# ## Exercise: which order loads?
#
# Three consumer groups, in three partitions, had one member each. These are their last tombstones:
#
# - **A**: current assignment, target, member, group epoch, assignment epoch.
# - **B**: member, current assignment, target, assignment epoch, group epoch.
# - **C**: assignment epoch, group epoch. The cleaner has removed all other records of the group.
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
# When a member joins under the name of an Empty group of another type, the broker deletes the old group first. In one rare case, 4.3.1 and 4.4.0 do not write these tombstones: they are [**missing**](../docs/handbook/glossary.md#missing-tombstone). The running broker shows no sign of it; the next load stops. This happened to `s2`:

# %%
log = course.find_data("new_protocols/4.3.1-ghost/__consumer_offsets-3")
course.print_protocol_lines(log, "s2", first_offset=37)

# %% [markdown]
# At record 40, `s2` is an Empty **streams** group, and from record 42 on a **consumer** group. The tombstones of the streams group should stand between.
#
# <details><summary>Why are they missing?</summary>
#
# A classic consumer sent JoinGroup with an unknown member id. The broker removed the Empty `s2` from its **memory** and prepared the tombstones, but then refused the request, and wrote nothing. The next member, with `group.protocol=consumer`, found no older `s2`, so again no tombstones were written.
#
# </details>
#
# The same partition stores `g6`, whose records are correct. *Predict*: the broker restarts, and a client asks for the offset of `g6`. What is the answer? Write `"the offset"`, `"an error"` or `"nothing committed"`.

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
# `kafkagroups check` names the releases that load it, and a copy that loads:

# %%
course.print_first_remedy(log, kafka="4.3.1")

shorter = course.make_scratch_folder() / "__consumer_offsets-3"
kg.cut(log, shorter, 42)

groups = kg.load(shorter, coordinator="new")
print()
for name in ("s2", "g6"):
    print(f"after the repair, {name} is {groups[name].state.value}, with {len(groups[name].offsets)} offset")

# %% [markdown]
# The releases up to 4.0.2 load the log because they skip the records of streams groups. In the shorter copy, only the new member of `s2` is lost, and it joins again; lesson 11 brings the copy back. No release that we know repairs the bug, so delete an Empty group before clients of another type use its name (`kafka-groups.sh --bootstrap-server localhost:9092 --list` prints the types).

# %% [markdown]
# ## Share groups
#
# *Part D.* The two other types record the same steps, and only what a member receives is different. In a [share group](../docs/handbook/glossary.md#share-group), several members can read one partition, and each message goes to one of them. `tasters` has one member, which reads `stock-0`:

# %%
tasters = course.find_data("harbour/4.3.1/__consumer_offsets-26")
course.print_protocol_lines(tasters, "tasters")
course.compare_epochs_with_broker("tasters", loaded["tasters"], answers["tasters"], "4.3.1")

# %% [markdown]
# It has 0 offsets, because another topic, `__share_group_state`, stores which messages are done (*acknowledged*).
#
# <details><summary>Why is the first target empty?</summary>
#
# The broker must first prepare a place for the acknowledgements of `stock` in the other topic. The two records *share partitions* show the beginning and the end of this preparation.
#
# </details>
#
# ## Streams groups
#
# A member of a [streams group](../docs/handbook/glossary.md#streams-group) receives [**tasks**](../docs/handbook/glossary.md#task): `1_0` is partition 0 of part 1 of its program, whose parts are the [**topology**](../docs/handbook/glossary.md#topology). The states have other numbers here: 1 is Stable.

# %%
bar_stats = course.find_data("harbour/4.3.1/__consumer_offsets-37")
course.print_protocol_lines(bar_stats, "bar-stats", first_offset=15, last_offset=17)
course.compare_epochs_with_broker("bar-stats", loaded["bar-stats"], answers["bar-stats"], "4.3.1")

# %% [markdown]
# ## Where 3.9 differs
#
# A load of 3.9 skips the records of the new types. It reads the commits, because all releases since 3.4.1 know value version 4. So after a downgrade, a consumer group has offsets but no members, and each offset expires 7 days after its commit.
#
# ## Check yourself
#
# <details><summary>Which tombstones does a broker write when the last member of a consumer group leaves?</summary>
#
# The tombstones of the current assignment, the target and the member, in this order. The offsets and the group stay.
#
# </details>
#
# ## In five lines
#
# - The coordinator computes the targets, and each member reaches its own, so a slow member delays only its partitions.
# - First the group epoch rises, then the assignment epoch, then the member epochs, one by one.
# - A partition is revoked by its old reader before the new one receives it.
# - The state of a group is computed and never stored.
# - A missing or early tombstone stops the load of the whole partition.

# %% [markdown]
# ## For your consumer
#
# Before you stop a service with `group.protocol=consumer`, call `commitSync()` without arguments (part A).
#
# ## At 3 am
#
# PATH is a copy of a partition's folder, FOLDER has all of them. You can copy them while the broker runs ([runbook](../docs/operator.md#how-to-copy-a-partition)).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | `Failed to load metadata … Replaying record … failed` | `kafkagroups check PATH --kafka 4.3.1` | It names the refused record, the lost groups, and a remedy | Lesson 11, with a shorter copy |
# | Before every planned restart | `kafkagroups check FOLDER --kafka 4.3.1` | A missing tombstone stops the next load | Do not restart before you have planned the repair |
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
# How an assignor divides partitions, and the other record types ([handbook](../docs/handbook/records.md)). The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [14 · Forensics](14_forensics.ipynb): ten incidents.
