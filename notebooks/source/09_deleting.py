# %% [markdown]
# # 09 · Deleting
#
# **How do you delete from a file that only grows?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offsets are deleted on which day; read a deletion in the log; say what a deletion with an open transaction does; explain offsets that are gone on Monday | {{minutes}} | no |
#
# ```
#   the log of mailer's partition                                one batch
#  ┌───────┬──────────┬──────────┬──────────┬───────┬──────────────────────────────────────────┐
#  │ group │ orders-0 │ orders-1 │ orders-2 │ group │ orders-2   orders-0   orders-1   group   │
#  │ gen 1 │    7     │    7     │    7     │ gen 2 │ no value   no value   no value  no value │
#  └───────┴──────────┴──────────┴──────────┴───────┴──────────────────────────────────────────┘
#                                                     tombstones
# ```

# %% [markdown]
# Four things to hold on to:
#
# 1. To delete is to **append**: a record with the same key and no value, a *tombstone*.
# 2. Three things delete: a person, the end of a topic, and **time**.
# 3. Offsets of a group **with members** do not expire, as long as a member reads the topic.
# 4. An offset that is pending in a transaction needs care. Delete nothing while a transaction is open.
#
# ## A group is deleted
#
# The group `mailer` of Harbour Coffee had three offsets. Its last member left, and then the administrator deleted the group with `DeleteGroups`. This is what a 4.3.1 broker wrote at the end:

# %%
import kafkagroups as kg
from kafkagroups import course

for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))[5:]:
    print(line)

# %% [markdown]
# Record 5 is the group without members, in generation 2. The next four records are one batch: a tombstone for each offset, and one for the group.
#
# `DeleteGroups` has three answers:
#
# | answer | when |
# |---|---|
# | `NON_EMPTY_GROUP` | the group has members |
# | `NONE` | the group is deleted |
# | `GROUP_ID_NOT_FOUND` | the coordinator does not know the group |
#
# ## Groups without a group record
#
# A *simple* group has no members, only offsets. Its generation is 0, and the log has no record of the group itself.
#
# - Kafka 4.x writes a tombstone for the group in every case.
# - The classic coordinator writes it only if the generation is above 0.

# %% [markdown]
# ## Exercise: count the tombstones, on paper
#
# `dashboard` is a simple group with two offsets. An administrator deletes it with `DeleteGroups`. How many records does a broker write, first of Kafka 3.9.2, then of 4.3.1? Write a pair, for example `(5, 6)`.

# %%
# exercise: records_of_dashboard
records_of_dashboard = ...

# %%
course.check("records_of_dashboard", records_of_dashboard)
# course.hint("records_of_dashboard")

# %% [markdown]
# ## Single offsets, and the end of a topic
#
# `OffsetDelete` deletes single offsets. It works for a group with members, too, but not for topics that its members read:

# %%
billing = course.GroupLife("billing", verbose=False)
billing.join("billing-1")
billing.join("billing-1")
billing.wait(3)
billing.sync("billing-1")
billing.commit("billing-1", {"orders-0": 5, "payments-0": 8})

billing.verbose = True
billing.delete_offsets("orders-0", "payments-0")

# %% [markdown]
# `billing-1` reads `orders`, so this offset stays. It does not read `payments`.
#
# If a **topic** is deleted, all groups lose its offsets immediately. This includes groups that read it. The promotion of spring is over, and the topic `promo-spring` was deleted. This is what the 4.3.1 broker wrote for the group `promo`:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-37")):
    if line.group == "promo":
        print(line)

# %% [markdown]
# ## Time: the retention of offsets
#
# Every ten minutes, a coordinator looks for expired offsets and deletes them (`offsets.retention.check.interval.ms`). An offset expires after its *retention*, 7 days by default (`offsets.retention.minutes`). When does the retention begin?
#
# | the group | its offsets |
# |---|---|
# | Stable, type `consumer`, a member reads the topic | do not expire |
# | Stable, type `consumer`, no member reads the topic | retention from the commit |
# | Stable, another type, for example Kafka Connect | do not expire |
# | in a rebalance | do not expire |
# | Empty, had members | retention from the time at which the group became Empty |
# | simple | retention from the commit |
#
# If a client asked for its own expiry time, this time counts instead of the retention.

# %% [markdown]
# *Predict*: the retention is 7 days. `mailer` commits on day 0. Its last member leaves on day 4. On which day is its offset deleted?

# %%
# prediction
mailer_is_deleted_on = ...

# %%
days = course.find_deletion_days("3.9.2")

course.reveal("mailer_is_deleted_on", mailer_is_deleted_on, int(days["mailer", "orders-0"]))

# %% [markdown]
# ## Turn the clock
#
# Move the slider to see which offsets exist on which day. Each day was played on two coordinators. The rules above are those of 3.9.2; Kafka 1.0.1 had older ones.

# %%
# figure
course.ExpiryTimeline(6)

# %% [markdown]
# Before Kafka 2.1, each offset had its own expiry time, from its commit. So a group could lose its offset while it was working: if nothing was committed for a day, the offset was deleted. At the next restart, the group began somewhere else.
#
# ## Exercise: what expires
#
# Write `expired(group, now, retention)`. All times are days. It returns the list of the partitions whose offsets are deleted, in the order of `group.offsets`.
#
# | field | content |
# |---|---|
# | `group.state` | `"Empty"`, `"Stable"`, `"PreparingRebalance"`, … |
# | `group.type` | `"consumer"`, another type, or `""` for a simple group |
# | `group.read_topics` | the topics that its members read |
# | `group.state_start` | the day on which the group entered its state |
# | `group.offsets` | for example `{"orders-0": (committed, until)}`: the day of the commit, and the day that the client asked for, or `None` |
#
# An offset is deleted **on** the day on which its retention ends: from day 0 with a retention of 7, on day 7.

# %%
# exercise: expired
def expired(group, now, retention):
    ...

# %%
course.check("expired", expired)
# course.hint("expired")

# %% [markdown]
# ## What a real broker deleted
#
# A 3.9.2 broker had a retention of one minute. Its clients made groups of every kind. These are all tombstones that no request asked for:

# %%
recorded = course.play_conversation("3.9.2-expiry")
recorded.print_expired()
course.compare_with_broker(recorded.our_appends, recorded.broker_appends, "3.9.2", verb="deleted")

# %% [markdown]
# - `alive` has a member for 88 seconds. It loses one offset after a minute: no member reads this topic.
# - `late` committed once, and its member left at 26 seconds. Its offset is deleted at 86 seconds, a minute after the group became Empty.
# - `nocommit` joined and left, without a commit. An Empty group without offsets is deleted at the next look.
#
# ## A deletion and an open transaction
#
# `fraud-check` has committed 1. A commit of 41 is pending in an open transaction. Somebody deletes the offset with `OffsetDelete`. Then the transaction is committed. The log is now:

# %%
outcome = course.delete_while_pending("OffsetDelete")
print(*outcome.log, sep="\n")

# %% [markdown]
# *Predict*: the broker dies, and a classic coordinator loads this log. Which offset does it answer? `None` means that there is no offset.

# %%
# prediction
after_the_load = ...

# %%
course.reveal("after_the_load", after_the_load, outcome.loaded_offset)

# %% [markdown]
# <details><summary>Why, and what does Kafka 4.x do?</summary>
#
# The classic loader keeps pending offsets in another place. The tombstone does not reach them, so the marker makes 41 count. The coordinator that wrote this log answered that there is no offset. So the answer changes with the failover.
#
# The new coordinator lets the tombstone delete the pending offset, too. It answers that there is no offset.
#
# </details>
#
# ## Exercise: gone on Monday
#
# Kafka 3.9.2, and the retention of offsets is one day. The last orders came on Friday at 18:00, and everything was committed. On Monday at 8:00, all services are restarted:
#
# - `mailer` is a group with members, day and night. Its last commit was on Friday at 18:00.
# - `dashboard` uses `assign`, so it never joins its group. Its last commit was on Friday at 18:00.
# - `nightly` joins every night at 2:00, commits, and leaves at 3:00.
#
# Which group has lost its offsets? Write its name as a text.

# %%
# exercise: weekend
weekend = ...

# %%
course.check("weekend", weekend)
# course.hint("weekend")

# %% [markdown]
# ## Where the classic coordinator differs
#
# | | New coordinator (Kafka 4.x) | Classic coordinator (up to 3.9) |
# |---|---|---|
# | tombstone of a group | always | only if its generation is above 0 |
# | the answer to `DeleteGroups` | after the replicas have the tombstones | immediately; the tombstones can be lost in a crash |
# | expired offsets of several groups | one batch for the partition | one batch for each group |
# | an expired offset with a pending commit | stays until the transaction ends | is deleted |
# | the last offset of an Empty group is deleted with `OffsetDelete` | the group stays, Empty | the group is deleted, too |
# | members of the new protocol | retention always from the commit | – |
#
# <details><summary>Other versions</summary>
#
# `DeleteGroups` exists since 1.1, and `OffsetDelete` since 2.4. The default retention was one day before 2.0. Before 2.1, each offset had its own expiry time. After an upgrade to 2.1, old records without a useful expiry time can be deleted immediately: `kafkagroups stats` shows the versions of all records first.
#
# </details>
#
# ## In five lines
#
# - A tombstone is a record without a value.
# - A person, the end of a topic, or time deletes.
# - With members, offsets stay. Without members, the retention runs.
# - Simple groups: the retention runs from each commit.
# - A deletion during an open transaction can come back.

# %% [markdown]
# ## For your consumer
#
# - A consumer that uses `assign` is never a member. Its offsets expire if it commits nothing for 7 days. Commit regularly, also if nothing has changed.
# - `auto.offset.reset=none` makes lost offsets visible. `latest` skips records silently.
# - Before a long stop of a service, save its offsets: `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --export --reset-offsets --to-current --all-topics --dry-run > billing.csv`.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or the end | `kafkagroups timeline PATH --group billing` | It shows the deletion, with its time and cause: expired, deleted, or never there | Set the offsets that `kafkagroups explain` shows before the tombstone |
# | Which offsets did it have? | `kafkagroups load PATH --group billing --until-time 2026-11-20T18:00` | The state of the group before the deletion, if the records are still there | Copy the folder before the cleaner removes them |
# | Set them again | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --reset-offsets --from-file billing.csv --execute` | The file has lines like `orders,0,5` | Stop all consumers of the group first |
# | It must not happen again | `offsets.retention.minutes=20160` in `server.properties` of all brokers | 14 days instead of 7 | Restart the brokers one after the other |
#
# <details><summary>In Kafka</summary>
#
# | what | where (4.x) | where (3.9) |
# |---|---|---|
# | DeleteGroups | `GroupMetadataManager.createGroupTombstoneRecords`, `OffsetMetadataManager.deleteAllOffsets` | `GroupCoordinator.handleDeleteGroups` |
# | OffsetDelete | `OffsetMetadataManager.deleteOffsets` | `GroupCoordinator.handleDeleteOffsets` |
# | expiry | `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl` | `GroupMetadataManager.cleanupGroupMetadata`, `GroupMetadata.removeExpiredOffsets` |
#
# </details>
#
# ## What we left out, and why
#
# A tombstone does not make the file smaller. The log cleaner does, later: lesson 10. Unloading a partition deletes nothing: the next coordinator needs its records.
#
# **Next:** [10 · Compaction](10_compaction.ipynb): why the topic stays small, and when it does not.
