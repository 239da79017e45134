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
# 2. Offsets are deleted for three reasons: an administrator asks for it, their topic is deleted, or they **expire**.
# 3. An offset does not expire while a **member** of its group reads the topic.
# 4. Delete nothing while a transaction of the group is open. Otherwise the offset can come back.

# %% [markdown]
# ## A group is deleted
#
# The group `mailer` of Harbour Coffee had three offsets. Its last member left. Then the administrator deleted the group, as this command does:
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --delete --group mailer
# ```
#
# The command sends the request `DeleteGroups`. These are the last records that the 4.3.1 broker wrote:

# %%
import kafkagroups as kg
from kafkagroups import course

for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))[5:]:
    print(line)

# %% [markdown]
# Record 5 was written when the last member left: the group has no members and generation 2. The next four records are the deletion: a tombstone for each offset, and one for the group.
#
# The coordinator answers `DeleteGroups` in one of three ways:
#
# | answer | when |
# |---|---|
# | `NON_EMPTY_GROUP` | the group has members, so nothing is deleted |
# | `NONE` | the group was deleted |
# | `GROUP_ID_NOT_FOUND` | the coordinator has no such group |

# %% [markdown]
# ## The order of tombstones
#
# - All tombstones of a deletion are in one batch. So a crash leaves all of them, or none.
# - The tombstones of the offsets come first, in any order. The tombstone of the group is the last one.
# - The tombstone of the group does not replace the others, because each offset has its own key.
# - If a commit comes after a tombstone, the offset exists again. The later record wins, as always.
#
# In the new protocols, a group has many records. Their tombstones have a fixed order, and a wrong order can stop a load. Lesson 13 shows it.

# %% [markdown]
# ## Groups without a group record
#
# A *simple* group has no members, only offsets. Its generation is 0, and the log has no group record of it. Does a deletion write a tombstone for the group?
#
# - Kafka 4.x always writes it.
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
# The request `OffsetDelete` deletes single offsets. This command sends it:
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --delete-offsets --group billing --topic payments:0
# ```
#
# The group may have members, but they must not read the topic. Here, an operator asks for both topics of `billing`:

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
# The answer has one error code for each partition. The offset of `orders-0` stays, because `billing-1` reads `orders`. The offset of `payments-0` is deleted.
#
# If a **topic** is deleted, all groups lose its offsets immediately. This includes groups that read the topic. Here, the topic `promo-spring` was deleted after the last member of `promo` had left. These are the records of the 4.3.1 broker about `promo`:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-37")):
    if line.group == "promo":
        print(line)

# %% [markdown]
# Record 5 deletes the offset. Record 6 came later, with the regular check that the next section describes. The check found that `promo` was Empty and had no offset. So the coordinator deleted the group, too.

# %% [markdown]
# ## Time: the retention of offsets
#
# Every ten minutes, a coordinator looks for expired offsets and deletes them (`offsets.retention.check.interval.ms`). An offset expires at the end of its *retention*, which is 7 days by default (`offsets.retention.minutes`). The group decides when the retention begins. Its *protocol type* matters, too: it is `consumer` for consumers, and another text for Kafka Connect.
#
# | the group | its offsets |
# |---|---|
# | Stable, type `consumer`, a member reads the topic | do not expire |
# | Stable, type `consumer`, no member reads the topic | the retention begins at the commit |
# | Stable, another type | do not expire |
# | in a rebalance | do not expire |
# | Empty, had members before | the retention begins when the group becomes Empty |
# | simple | the retention begins at the commit |
#
# An old client can ask for its own expiry time, as lesson 01 showed. Then this time counts instead of the retention.

# %% [markdown]
# *Predict*: the retention is 7 days. `mailer` commits on day 0. Its last member leaves on day 4. On which day is its offset deleted?

# %%
# prediction
mailer_is_deleted_on = ...

# %%
days = course.find_deletion_days("3.9.2")

course.reveal("mailer_is_deleted_on", mailer_is_deleted_on, int(days["mailer", "orders-0"]))

# %% [markdown]
# ## Which offset exists on which day
#
# Move the slider to choose a day. The figure shows which offsets exist on this day, with a coordinator of 1.0.1 and with one of 3.9.2. The coordinator of 3.9.2 follows the table above, as Kafka 4.x does. Version 1.0.1 had older rules:

# %%
# figure
course.ExpiryTimeline(6)

# %% [markdown]
# Before Kafka 2.1, the retention always began at the commit. So a group could lose an offset while it had members. If no new record came and the group committed nothing, the offset expired. After the next restart, the group started at the beginning or at the end of the partition.

# %% [markdown]
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
# A 3.9.2 broker ran with a retention of one minute. Clients created groups of each kind. Each line shows when something expired, and what the coordinator deleted:

# %%
recorded = course.play_conversation("3.9.2-expiry")
recorded.print_expired()
course.compare_with_broker(recorded.our_appends, recorded.broker_appends, "3.9.2", verb="deleted")

# %% [markdown]
# - `alive` always has a member. It loses one offset after a minute, because no member reads this topic.
# - `late` committed once, and its member left after 26 seconds. Its offset expires at 86 seconds, one minute after the group became Empty.
# - `nocommit` joined and left without a commit. It is Empty and has no offsets, so the next check deletes the group.
# - `explicit` asked for its own expiry time: 5 seconds for one offset.
# - `old-ts` sent an old timestamp with its commit.
# - `pend` and `pend-alone` have commits in transactions.

# %% [markdown]
# ## A deletion and an open transaction
#
# `fraud-check` has committed offset 1. A commit of 41 is pending in an open transaction. Now an administrator deletes the offset, and then the transaction is committed. The log looks the same for `OffsetDelete`, for `DeleteGroups`, and for a deleted topic:

# %%
outcome = course.delete_while_pending("OffsetDelete")
print(*outcome.log, sep="\n")

# %% [markdown]
# The coordinator that wrote this log answers that there is no offset. Then its broker dies.
#
# *Predict*: another **classic** coordinator loads this log. Which offset does it answer? `None` means that there is no offset.

# %%
# prediction
after_the_load = ...

# %%
course.reveal("after_the_load", after_the_load, outcome.loaded_offset)

# %% [markdown]
# <details><summary>Why, and what does Kafka 4.x do?</summary>
#
# The classic loader has two maps: committed offsets and pending offsets. A tombstone removes an offset only from the map of committed offsets. So 41 is still pending, and the marker commits it. The answer changes with the failover.
#
# In the new coordinator, a tombstone deletes the pending offset, too. So the marker has no effect, and there is no offset, before and after a failover.
#
# </details>

# %% [markdown]
# ## Exercise: gone on Monday
#
# A cluster of Kafka 3.9.2 has a retention of offsets of one day. The last orders came on Friday at 18:00, and all groups committed their offsets. On Monday at 8:00, all services are restarted:
#
# - `mailer` has members all the time, and they read `orders`. Its last commit was on Friday at 18:00.
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
# | an offset is deleted while a commit is pending in a transaction | the pending commit is deleted, too | after a failover, a commit marker brings the offset back |
# | an offset expires while a commit is pending in a transaction | it stays until the transaction ends | it is deleted |
# | the last offset of an Empty group is deleted with `OffsetDelete` | the group stays, Empty | the group is deleted, too |
# | groups of the new protocol (lesson 13) | the retention always begins at the commit. Topics that members read do not expire | – |
#
# <details><summary>Other versions</summary>
#
# `DeleteGroups` exists since 1.1, and `OffsetDelete` since 2.4. The default retention was one day before 2.0. Before 2.1, each offset had its own expiry time. After an upgrade to 2.1, old records without a useful expiry time can be deleted immediately. Before the upgrade, `kafkagroups stats` shows the versions of all records.
#
# </details>
#
# ## In five lines
#
# - A tombstone is a record without a value. It deletes its key.
# - Offsets are deleted by a request, with their topic, or at the end of their retention.
# - While members read a topic, its offsets stay. The retention begins when the group becomes Empty.
# - In a simple group, the retention of each offset begins at its commit.
# - An offset that is deleted during an open transaction can come back.

# %% [markdown]
# ## For your consumer
#
# - A consumer that uses `assign` is never a member. Its offsets expire if it commits nothing for 7 days. So commit regularly, even if no new record came.
# - `auto.offset.reset=none` makes lost offsets visible. `latest` skips records silently.
# - Before a long stop of a service, save its offsets: `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --export --reset-offsets --to-current --all-topics --dry-run > billing.csv`.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or the end | `kafkagroups timeline PATH --group billing` | It shows the deletion with its time and its cause | Stop the consumers. The next rows find the old offsets and set them |
# | When did offsets expire? | `grep -E "Removed .* expired offsets\|Generated .* tombstone records" server.log` | The first text is from a classic coordinator, the second one from Kafka 4.x | Reading is safe |
# | Which offsets did the group have? | `kafkagroups load PATH --group billing --until-time 2026-11-20T18:00` | It shows the group and its offsets at this time, if the log still has the records | Copy the folder before the cleaner removes the records |
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
# A tombstone does not make the file smaller. The log cleaner does this later, as lesson 10 shows. A broker that loses the leadership of a partition deletes nothing, because the next coordinator needs the records.
#
# **Next:** [10 · Compaction](10_compaction.ipynb): why the topic stays small, and when it does not.
