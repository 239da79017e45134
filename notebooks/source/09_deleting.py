# %% [markdown]
# # 09 · Deleting
#
# **How do you delete from a file you can only append to?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | say which offsets of which group go on which day, under old brokers and new ones, read a deletion in the log, and tell when something deleted comes back | 30 + 25 | no |
#
# ```
#   the log of partition 12                                                  one batch
#   ┌───────┬──────────┬──────────┬──────────┬───────┬─────────────────────────────────────────────────┐
#   │ group │ orders-0 │ orders-1 │ orders-2 │ group │ orders-0   orders-1   orders-2   group           │
#   │ gen 1 │    7     │    7     │    7     │ gen 2 │ no value   no value   no value   no value        │
#   └───────┴──────────┴──────────┴──────────┴───────┴─────────────────────────────────────────────────┘
#                                                      tombstones: the offsets', and then the group's
# ```
#
# Six things to hold on to:
#
# 1. To delete is to **append**: a record with the same key and no value, a **tombstone**.
# 2. Memory first: the coordinator forgets, **then** appends the tombstones, and **waits for no answer**.
# 3. One batch for each group: the tombstones of its offsets, then the group's, **only if its generation is above 0**. A simple group has no record that one could delete.
# 4. Three delete: a person (DeleteGroups, OffsetDelete), the end of a topic, and **time**: a sweep every ten minutes.
# 5. Before 2.1 each offset has its own time. Since then (KIP-211) it is the **group** that must have been idle.
# 6. What waits in a transaction gets no tombstone. So it can come back.

# %% [markdown]
# ## A group is deleted
#
# The shop's `mailer` joins, commits, leaves; then somebody deletes the group. `course.GroupLife` (lesson 06) does it with this package's coordinator; a real 3.9.2 broker had it done to it by real clients. *Predict*: how many records does
# the deletion write? (`mailer` has three offsets.)

# %%
# prediction
records_of_the_deletion = ...

# %%
import kafkagroups as kg
from kafkagroups import course

mailer = course.GroupLife("mailer")
mailer.join("mailer")
mailer.join("mailer")
mailer.wait(3)
mailer.sync("mailer")
mailer.commit("mailer", {"orders-0": 7, "orders-1": 7, "orders-2": 7})
mailer.delete()
mailer.leave("mailer")
mailer.delete()
mailer.delete()

print()
course.compare_with_prediction(records_of_the_deletion, len(mailer.events[-2].written_lines))
course.compare_with_broker(mailer.log_lines, course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-12")), "3.9.2", verb="wrote")

# %% [markdown]
# Three answers: **NON_EMPTY_GROUP** while somebody is in it; NONE; **GROUP_ID_NOT_FOUND** for a group that is not known (any more). 1.0.1 has no such request: there a group ends by time alone.
#
# And a *simple* group, that never had members? *Predict* how many records the deletion of `dashboard` with two offsets writes:

# %%
# prediction
records_of_a_simple_group = ...

# %%
dashboard = course.GroupLife("dashboard")
dashboard.commit("nobody", {"orders-0": 5, "orders-1": 6})
dashboard.delete()
course.compare_with_prediction(records_of_a_simple_group, len(dashboard.events[-1].written_lines))

# %% [markdown]
# Its offsets were all there was in the log; its generation is 0.
#
# ## Single offsets, and a topic's end
#
# **OffsetDelete** (2.4, KIP-496) takes single offsets away, also of a group that lives: but not those of topics that its members read. When the last offset of an *Empty* group goes, the group goes with it, in the same batch. (In 4.x it stays, Empty.) A group that nobody knows: `GROUP_ID_NOT_FOUND`, as for DeleteGroups.

# %%
billing = course.GroupLife("billing")
billing.join("billing-1")
billing.join("billing-1")
billing.wait(3)
billing.sync("billing-1")
billing.commit("billing-1", {"orders-0": 5, "payments-0": 8})
billing.delete_offsets("orders-0", "payments-0")
billing.leave("billing-1")
billing.delete_offsets("orders-0")

# %% [markdown]
# A living group of another type (Kafka Connect's) says NON_EMPTY_GROUP: nobody but its members knows what it reads.
#
# And when a **topic** is deleted, all groups lose its offsets at once, those that read it too. Spring is over at the shop, and the topic `promo-spring` goes:

# %%
promo = course.GroupLife("promo", verbose=False)
promo.join("promo", topics=["promo-spring"])
promo.join("promo")
promo.wait(3)
promo.sync("promo")
for offset in [12, 48]:
    promo.commit("promo", {"promo-spring-0": offset})
promo.leave("promo")
promo.coordinator.partitions_deleted([kg.TopicPartition("promo-spring", 0)])

print(promo.log_lines)
course.compare_with_broker(promo.log_lines, course.read_lines(course.find_data("harbour/3.9.2/__consumer_offsets-37")), "3.9.2", verb="wrote")

# %% [markdown]
# ## Exercise: the batch
#
# Write `tombstones(state, generation, offsets, to_delete)`: the batch for one group, as a list of partitions and at its end perhaps `"group"`. `offsets` are the partitions with a committed offset, `to_delete` those that are to go (perhaps also some that
# nobody committed). The tombstones stand in the order of `to_delete`. The group goes if it is `"Empty"` and no offset is left.

# %%
# exercise: tombstones
def tombstones(state, generation, offsets, to_delete):
    ...

# %%
course.check("tombstones", tombstones)
# course.hint("tombstones")

# %% [markdown]
# ## Time: the expiry clock
#
# Offsets that nobody uses would stay for ever. So a broker looks through all its groups every ten minutes (`offsets.retention.check.interval.ms`) and deletes what has **expired**. By which rule, that changed:
#
# | | before 2.1 (1.0.1) | since 2.1 (KIP-211) |
# |---|---|---|
# | written at the commit | when it expires: commit + retention | only when it was committed |
# | a Stable group of consumers, a topic that a member reads | each offset by its own time | stays |
# | … a topic that no member reads | the same | each offset, retention after its commit |
# | a Stable group of another type (Kafka Connect's) | the same | all stays: nobody knows what it reads |
# | a group that rebalances | the same | all stays |
# | an Empty group that had members | the same | all offsets, retention after the group became Empty |
# | a simple group | the same | each offset, retention after its commit |
# | a client asks for a retention of its own (OffsetCommit v2–v4) | that counts | that counts; it is then written, as before |
# | default retention | 1 day (7 since 2.0) | 7 days |
#
# Why? `billing` reads `orders` day and night, but over a quiet week nothing is to be committed. By the old rule its offset went while it was at work, and at the next restart it began anew, somewhere.
#
# Turn the clock: what is there on which day, with a retention of 7 days on both? Each day was played on both coordinators, with all their sweeps. *Before you turn it*: the offset of `mailer` is committed on day 0, and its last member leaves on day 4. On which day does it go, by each of the rules?

# %%
# prediction
mailer_goes_on_the_days = ...  # (by 1.0.1, by 3.9.2)

# %%
course.ExpiryTimeline(14)

# %%
course.compare_with_prediction(mailer_goes_on_the_days, (7, 11))

# %% [markdown]
# ## Exercise: what expires
#
# Write `expired(group, now, retention)` by the rule since 2.1; all times in days. It gives the list of partitions whose offsets go, in the order of `group.offsets`.
#
# | of a `group` | what |
# |---|---|
# | `group.state` | `"Empty"`, `"Stable"`, `"PreparingRebalance"`, … |
# | `group.type` | `"consumer"`, another one, or `""`: a simple group |
# | `group.read_topics` | the topics that its members read |
# | `group.state_start` | the day on which it entered its state |
# | `group.offsets` | `{"orders-0": (committed, until)}`: the day of the commit, and the day until which the client asked to keep it (`None`: it did not ask) |
#
# Ask two things of each offset, in this order:
#
# 1. **May it go at all?** While the group rebalances: no. Stable and `"consumer"`: only if its topic is not in `group.read_topics`. Stable of another type: no. Empty, or simple (type `""`): yes.
# 2. **When?** If it has an `until`: on that day. Else, Empty with a type: `group.state_start` + retention. Else: `committed` + retention.
#
# A day counts in full: with a retention of 7, what began on day 0 goes on day 7.

# %%
# exercise: expired
def expired(group, now, retention):
    ...

# %%
course.check("expired", expired)
# course.hint("expired")

# %% [markdown]
# ## What real brokers did
#
# A real 3.9.2 and a real 1.0.1 broker, a retention of one minute, a sweep every two seconds, the same clients. Each line below is a batch of tombstones that no request asked for. *Look for `alive` and `late`.*
#
# | group | at the beginning | later |
# |---|---|---|
# | `alive` | reads `orders`, commits for `orders` and `clicks`, lives on | leaves at 88 s |
# | `late` | one commit, lives on | leaves at 26 s |
# | `left` | two offsets, leaves at once | |
# | `nocommit` | joins, leaves at once, never commits | |
# | `simple` | two offsets, no members | one of them anew at 26 s: so it goes twice |
# | `explicit` | simple; three offsets: to be kept for 5 s, for 10 min, and as usual | two go, each at its time; the third is still there at the end |
# | `old-ts` | simple; request v1, with a commit time 55 s ago | |
# | `pend` | simple; a plain commit, and another partition in a transaction | the transaction is committed at 62 s, with the time of its commit: the next sweep takes that offset too |
# | `pend-alone` | simple; only a commit in the same transaction | the same |

# %%
for name in ["1.0.1-expiry", "3.9.2-expiry"]:
    recorded = course.play_conversation(name)
    print(f"\n{name}: {len(recorded.our_responses)} requests")
    recorded.print_expired()
    course.compare_with_broker(recorded.our_responses, recorded.broker_responses, recorded.broker_version)
    course.compare_with_broker(recorded.our_appends, recorded.broker_appends, recorded.broker_version, verb="deleted")

# %% [markdown]
# `alive` loses both offsets on 1.0.1 and one on 3.9.2, that of `clicks`, which it does not read. On 1.0.1 it appears again when its member has left: Empty without an offset, the group goes. `late` goes after 60 s on 1.0.1, and on 3.9.2 after 86:
# a minute after it became Empty. (Simple groups have no tombstone of their own.)
#
# In the server's log a sweep that deleted something says so. The number counts **offsets**: the group's tombstone is not among them.

# %%
day = 24 * 3600 * 1000
broker = course.start_broker()
sleeper = course.GroupLife("mailer", verbose=False, broker=broker)
sleeper.join("mailer")
sleeper.join("mailer")
sleeper.wait(3)
sleeper.sync("mailer")
sleeper.commit("mailer", {"orders-0": 7, "orders-1": 7})
sleeper.leave("mailer")

with course.print_server_log():
    broker.clock.advance(7 * day)
    print("removed:", broker.manager.delete_expired())
print(*sleeper.log_lines[-3:], sep="\n")

# %% [markdown]
# ## What a crash leaves
#
# A commit is answered when all replicas in step have its record. A deletion is answered **at once**: memory has forgotten, and the coordinator waits for no replica (`acks=0`). So the broker may die before another one has the tombstones; or the append fails,
# because it has just lost the leadership. In the next cell the log takes nothing. DeleteGroups is answered NONE, and then the broker dies. *Predict*: what does the next one say of the offset, 5 or nothing (`None`)?

# %%
# prediction
after_the_crash = ...

# %%
from kafkagroups.coordinator import DiskLogs, Errors, HeldLogs, OffsetCommit

orders = kg.TopicPartition("orders", 0)
logs = HeldLogs(DiskLogs(course.make_scratch_folder()), holds_answers=False)
broker = course.start_broker(logs)
broker.offset_commit("dashboard", {orders: OffsetCommit(5)})

logs.append_error = Errors.NOT_LEADER_OR_FOLLOWER
print("DeleteGroups:", broker.delete_groups(["dashboard"])["dashboard"].name)
print("the living coordinator:", dict(broker.offset_fetch("dashboard").offsets))

heir = course.restart_after_crash(broker)
course.compare_with_prediction(after_the_crash, heir.offset_fetch("dashboard").offsets[orders].offset)

# %% [markdown]
# It is back. For a **sweep** that does no harm: the next coordinator's sweep finds it expired once more. A person who has deleted a group should look again after a failover.
#
# ## The surprise: what comes back although it was written
#
# `fraud-check` commits 1, and 41 in a transaction that is still open. Somebody deletes the offset; then the transaction is committed. The tombstone stands in the log. What is the offset of `orders-0` now? And after a load?
#
# The last two rows are without a transaction: 41 is a plain commit in flight while its offset is deleted (lesson 04), and the replicas have it a moment later. Once 1 was committed before, once nothing was.

# %%
rows = {
    "OffsetDelete": course.delete_while_pending("OffsetDelete"),
    "DeleteGroups": course.delete_while_pending("DeleteGroups"),
    "topic": course.delete_while_pending("topic"),
    "OffsetDelete, 41 plain and in flight": course.delete_while_pending("OffsetDelete", transactional=False),
    "the same, nothing committed before": course.delete_while_pending("OffsetDelete", transactional=False, commits_first=False),
}
for what, outcome in rows.items():
    print(f"{what}\n    {outcome.log}")
    print(f"    the client of 41 receives {outcome.commit_error}; live: {outcome.live_offset}, ", end="")
    print(f"after a load: {outcome.loaded_offset}, this log loaded by 4.x: {outcome.new_coordinator_offset}")

# %%
recorded = course.play_conversation("3.9.2-deletes")
print("a real 3.9.2 broker, requests 66 to 73 and 94; a restart lies between the last two (3/7: record 7 of partition 3):")
recorded.print_requests(66, 73)
for n in [73, 94]:
    print(f"OffsetFetch {n}: {recorded.read_offsets(n)}")
course.compare_with_broker(recorded.our_responses, recorded.broker_responses, "3.9.2")

# %% [markdown]
# **Live ≠ load(log).** In memory, the deletion removes all three: what is committed, what is on its way, what waits in the transaction. A tombstone is written only for what was *committed*. The marker finds nothing any more: `None`. But the classic loader keeps what waits apart;
# the tombstone does not reach it, and the marker makes it count: 41, of an offset, a group, a topic that should be gone. (Lesson 10 meets the same log as `XTM`; its cleaner makes the answer change once more.) 4.x lets the tombstone take the waiting one too.
#
# In the recorded conversation DeleteGroups (71) is answered `NONE`, though OffsetDelete (69) had taken the last offset. That is the group's own answer: the group was still there. The coordinator keeps an entry for a producer with an open transaction, also when nothing is
# left in it, and a group with such an entry does not end with its last offset. There was nothing to write: no offset, and generation 0.
#
# A **plain** commit in flight loses its pending entry. So it is not cached when the replicas have it, and its client hears `NONE` all the same. If 1 was committed before, the tombstone stands behind 41, and live and load agree. If nothing was committed, there is no tombstone: a load
# finds 41. DeleteGroups does the same to it.
#
# It is Kafka's own fault, and this package has it too: what a broker answers is right here, also when it is odd. So delete no group with an open transaction: `kg.load` shows what is `pending`.
#
# ## Unloading deletes nothing
#
# A broker that gives a partition away forgets its groups as well. But it writes no tombstone, for the next coordinator is to have them. Who waits for an answer hears NOT_COORDINATOR:

# %%
moving = course.GroupLife("billing", verbose=False)
moving.commit("nobody", {"orders-0": 5})
moving.join("billing-1")
moving.join("billing-1")
before = len(moving.log_lines)
with course.print_server_log():
    moving.coordinator.resign(moving.coordinator.manager.partition_for("billing"))
print("records written:", len(moving.log_lines) - before, "· billing-1's JoinGroup hears", moving.last_responses["billing-1"])
print("a commit now:", moving.coordinator.offset_commit("billing", {orders: OffsetCommit(6)}).value[orders].name)

# %% [markdown]
# ## A small incident: Friday's offsets are gone on Monday
#
# Once more the shop's mail. On Friday at 18 the last letters went, and everything was committed; nobody orders on a weekend. On Monday at 8 the machines are restarted, and everybody gets all the letters of the year. The broker is a 1.0.1, its retention a day. "So we upgrade,"
# says the shop, "since 2.1 a group that lives loses nothing," and leaves the retention at one day. Three groups:
#
# - `mailer` runs day and night, joined as a group, and committed last on Friday at 18;
# - `dashboard` runs day and night, chooses its partitions itself (`assign`), and committed last on Friday at 18;
# - `nightly` joins every night at 2, commits, and leaves at 3.
#
# **Which of them loses its offsets by Monday at 8 even on 3.9.2?** (A text.)

# %%
# exercise: weekend
weekend = ...

# %%
course.check("weekend", weekend)

# %%
for kafka in ["1.0.1", "3.9.2"]:
    print(kafka, "on Monday at 8:", course.run_weekend_expiry(kafka))

# %% [markdown]
# Who assigns its partitions itself has no members in the broker's eyes; for such a group it is still the commit that counts. It should commit now and then even when nothing is new, or the retention be longer than the longest silence.
#
# ## In Kafka
#
# | what | where (3.9) |
# |---|---|
# | the sweep and the batch | `GroupMetadataManager.cleanupGroupMetadata` |
# | what expires | `GroupMetadata.removeExpiredOffsets`; 4.x: `OffsetExpirationConditionImpl` |
# | DeleteGroups, OffsetDelete | `GroupCoordinator.handleDeleteGroups`, `handleDeleteOffsets` |
# | a topic's end | `handleDeletedPartitions` → `cleanupGroupMetadata` |
# | unloading | `GroupMetadataManager.removeGroupsForPartition` |
#
# ## What we left out, and why
#
# When the tombstones themselves go: that is the cleaner's, [lesson 10](10_compaction.ipynb). How 4.x deletes: a batch for a partition with all its groups, a tombstone for simple groups too, and an offset with a waiting commit is spared; `kafkagroups diff` shows what that means for a log.
# Here too an offset is spared whose next plain commit is on its way: lesson 04 knows that moment.
#
# **Next:** [10 · Compaction](10_compaction.ipynb): now the log only grows. Why does it stay small?
