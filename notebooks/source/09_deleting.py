# %% [markdown]
# # 09 · Deleting
#
# **How do you delete from a file that only grows?**
#
# **Which Kafka:** the coordinator of 4.x and that of 3.9, side by side
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offsets are deleted on which day; read a deletion in the log; delete single offsets safely; explain offsets that are gone on Monday | {{minutes}} | no |
#
# ![The log has a group record, three offsets and another group record, and then one batch with a tombstone for each key.](pictures/09.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. To delete is to **append**: a record with the same key and no value, a *tombstone*.
# 2. Offsets are deleted for three reasons: an administrator asks for it, their topic is deleted, or they [**expire**](../docs/handbook/glossary.md#expire).
# 3. An offset does not expire while a **member** of its group reads the topic, because the member may need it.
# 4. A **classic** group without members keeps its offsets for the *retention*, seven days by default. In a consumer group of the new protocol, the retention counts from each commit, so a quiet topic can lose its offset soon after the group stops.

# %% [markdown]
# ## A group is deleted
#
# The group `mailer` of Harbour Coffee had three offsets. Its last member left. Then the administrator deleted the group, as this command does:
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --delete --group mailer
# ```
#
# The command sends the request `DeleteGroups`. These are the last records that the 4.3.1 broker wrote. The first is that of the last leave, and the others are the deletion:

# %%
from kafkagroups import course

for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))[5:]:
    print(line)

# %% [markdown]
# The broker wrote record 5 when the last member left: the group has no members and generation 2. The records 6 to 9 are the deletion: a tombstone for each offset, and one for the group.
#
# The coordinator answers `DeleteGroups` in one of three ways:
#
# | answer | when |
# |---|---|
# | `NON_EMPTY_GROUP` | the group has members, so nothing is deleted |
# | `NONE` | the group was deleted |
# | `GROUP_ID_NOT_FOUND` | the coordinator has no group with this name |

# %% [markdown]
# ## The order of tombstones
#
# Each offset needs a tombstone, because each has its own key. The tombstones of the offsets come first, in any order, and that of the group is last. All of them are in one batch, so after a crash the log contains all of them or none, and no offset is left without its group.

# %% [markdown]
# ## Groups without a group record
#
# A [*simple* group](../docs/handbook/glossary.md#simple-group) has offsets, but it never had members, so its generation is 0 and the log has no group record. When it is deleted, the classic coordinator writes a tombstone for the group only if the generation is above 0, because otherwise there is no record to delete. Kafka 4.x always writes it, which does no harm.

# %% [markdown]
# ## Exercise: count the tombstones, on paper
#
# In a test cluster, the simple group `dashboard` has two offsets. An administrator deletes it with `DeleteGroups`. How many records does a broker write, first of Kafka 3.9.2, then of 4.3.1? Write a pair, for example `(5, 6)`.

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
# You can delete offsets while the group runs, as long as none of its members reads the topic; otherwise, the answer is `GROUP_SUBSCRIBED_TO_TOPIC`. In a group of another type, for example of Kafka Connect, the coordinator cannot see what the members read, so it answers `NON_EMPTY_GROUP`.
#
# Here a member of `billing` reads `orders`, and an operator tries both requests, before and after the member leaves:

# %%
import kafkagroups as kg


def deletions(broker):
    billing = course.GroupLife("billing", broker=broker)
    billing.join("billing-1")
    billing.join("billing-1")
    billing.wait(3)
    billing.sync("billing-1")
    billing.commit("billing-1", {"orders-0": 5, "payments-0": 8})
    yield "billing-1 reads orders, and commits", billing.events[-1].response
    partitions = [kg.TopicPartition("orders", 0), kg.TopicPartition("payments", 0)]
    yield "OffsetDelete of orders-0 and payments-0", broker.offset_delete("billing", partitions)
    yield "DeleteGroups", broker.delete_groups(["billing"]).value["billing"]
    billing.leave("billing-1")
    yield "billing-1 leaves", billing.events[-1].response
    yield "DeleteGroups of the Empty group", broker.delete_groups(["billing"]).value["billing"]
    yield "DeleteGroups, once more", broker.delete_groups(["billing"]).value["billing"]


course.compare_brokers(deletions)

# %% [markdown]
# The answer to `OffsetDelete` has an error for each partition. The offset of `orders-0` stays, because `billing-1` reads `orders`, and that of `payments-0` is deleted. Both coordinators decide alike; only the record of the group's creation is new in 4.x (lesson 06).
#
# If a **topic** is deleted, all groups immediately lose their offsets of this topic, even groups that read the topic. In the shop, the last member of `promo` left, and then the topic `promo-spring` was deleted. The 4.3.1 broker wrote these records:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-37")):
    if line.group == "promo":
        print(line)

# %% [markdown]
# Record 5 deletes the offset. Later, a regular check found that `promo` was Empty and had no offset, so record 6 deletes the group. A deletion while a transaction is open is a case of its own, which [lesson 08](08_transactions.ipynb) shows.

# %% [markdown]
# ## Time: the retention of offsets
#
# Every ten minutes, a coordinator deletes expired offsets (`offsets.retention.check.interval.ms`). An offset expires at the end of its [*retention*](../docs/handbook/glossary.md#retention), 7 days by default (`offsets.retention.minutes`). The idea behind all rules: an offset stays while a member may need it.
#
# | the group | its offsets | why |
# |---|---|---|
# | Stable, a member reads the topic | do not expire | the member continues there |
# | Stable, no member reads the topic | the retention begins at the commit | no member needs them |
# | in a rebalance | do not expire | it is not known who will read what |
# | Empty, had members before | the retention begins when the group becomes Empty | the members may come back |
# | simple | the retention begins at the commit | only a commit shows that the group is in use |
# | of the new protocol (lesson 13) | the retention begins at the commit. Offsets of topics that a member reads do not expire | no record stores when it became Empty |

# %% [markdown]
# Three cases are special:
#
# - A commit into an **Empty** group does not start the retention again. If you set an offset when the group has been Empty for six days, it expires one day later.
# - While a group whose *protocol type* is not `consumer`, for example of Kafka Connect, has members, none of its offsets expire, because the coordinator cannot see what they read.
# - An old client can ask for its own expiry time (lesson 01). The offset then expires at this time, except where the table says *do not expire*.

# %% [markdown]
# *Predict*: the retention is 7 days. `mailer` commits on day 0. Its last member leaves on day 4. On which day is its offset deleted?

# %%
# prediction
mailer_is_deleted_on = ...

# %%
days = {
    kafka: course.find_deletion_day(kafka, commit_day=0, leaves_on=4, retention=7) for kafka in ("4.3.1", "3.9.2")
}

with course.fold("mailer_is_deleted_on", mailer_is_deleted_on, days["4.3.1"]):
    for kafka, day in days.items():
        print(f"Kafka {kafka}: day {day}")

# %% [markdown]
# ## Which clock counts
#
# The figure counts the retention of this offset twice: from its commit, and from the moment when the group became Empty. *Kafka 2.4+* follows the table above:
#
# Step through it with *next*, then let the member stay, or read only `payments`. What changes?

# %%
# figure
course.ExpiryChart()

# %% [markdown]
# Before Kafka 2.1, the retention always began at the commit. So a group with a quiet topic could lose its offset, although its members were running.

# %% [markdown]
# ## Exercise: what expires
#
# Write `expired(group, now, retention)`. All times are days. The function returns the list of the partitions whose offsets are deleted, in the order of `group.offsets`.
#
# | field | content |
# |---|---|
# | `group.state` | `"Empty"`, `"Stable"`, `"PreparingRebalance"`, … |
# | `group.type` | `"consumer"`, another type, or `""` for a simple group |
# | `group.read_topics` | the topics that its members read |
# | `group.state_start` | the day on which the group entered its state |
# | `group.offsets` | for example `{"orders-0": (committed, until)}`: the day of the commit, and the day that the client asked for, or `None` |
#
# An offset is deleted **on** the day on which its retention ends. If it begins on day 0 and lasts 7 days, this is day 7.

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
# A 3.9.2 broker ran with a retention of one minute and checked every two seconds. Here are three of nine groups. A line contains the seconds since the start, the group, and what the coordinator deleted:

# %%
recorded = course.play_conversation("3.9.2-expiry")
recorded.print_expired("alive", "late", "nocommit")
print("all groups: ", end="")
course.compare_with_broker(recorded.our_appends, recorded.broker_appends, "3.9.2", verb="deleted")

# %% [markdown]
# - `nocommit`: a member joined and left without a commit. The group was Empty and had no offset, so the next check deleted it.
# - `alive`: its member reads `orders`, and the group also committed an offset of `clicks`. No member reads `clicks`, so this offset expired one minute after its commit.
# - `late`: its member left after 26 seconds. Then the group was Empty, so its offset expired one minute later.

# %% [markdown]
# ## Exercise: gone on Monday
#
# A cluster of Kafka 3.9.2 has a retention of offsets of one day. The last orders came on Friday at 18:00, and all groups committed their offsets. On Monday at 8:00, all services are restarted:
#
# - `mailer` has members all the time, and they read `orders`. Its last commit was on Friday at 18:00.
# - `dashboard` uses `assign`, so it never joins its group. Its last commit was on Friday at 18:00.
# - `nightly` has one member. It joins every night at 2:00, commits, and leaves at 3:00.
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
# | the answer to `DeleteGroups` comes | after the replicas have the tombstones | immediately. After a crash, the group can be back, although the answer was `NONE` |
# | an offset expires while a commit is pending in a transaction | it stays until the transaction ends | it is deleted |
#
# <details><summary>Other versions</summary>
#
# `DeleteGroups` exists since 1.1, and `OffsetDelete` since 2.4. The default retention was one day before 2.0. Before 2.1, each offset had its own expiry time, in value version 1. This time still counts after an upgrade to 2.1. If it is over, the coordinator deletes the offset soon after the upgrade. `kafkagroups stats` shows whether such records exist.
#
# A group record of version 0 or 1 (up to 2.0) does not contain the time at which the group became Empty. After such a record is loaded, the retention begins at the commit.
# Kafka 2.1 to 2.3 keep all offsets while the group has members. Kafka 2.4 to 2.8.1, 3.0.0 and 3.1.0 can delete offsets during a rebalance.
#
# </details>
#
# ## In five lines
#
# - A tombstone is a record without a value. It deletes its key.
# - Offsets are deleted by a request, with their topic, or at the end of their retention.
# - While a member reads a topic, the group's offsets of this topic stay. In a classic group that had members, the retention begins when the group becomes Empty.
# - In a simple group, the retention of each offset begins at its commit.
# - All tombstones of a group are in one batch, and that of the group is last.

# %% [markdown]
# ## For your consumer
#
# - A consumer that uses `assign` is never a member. Its offsets expire if it commits nothing for 7 days. So commit regularly, even if the topic is quiet.
# - `auto.offset.reset=none` makes lost offsets visible. `latest` skips records silently.
# - Before a long stop of a service, stop its consumers, then save its offsets. With `--dry-run`, this command only prints them: `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --export --reset-offsets --to-current --all-topics --dry-run > billing.csv`.
#
# ## At 3 am
#
# PATH is a copy of the partition's folder.
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or the end | `kafkagroups timeline PATH --group billing` | It shows the deletion with its time and its cause | Stop the consumers. The next rows find the old offsets and set them |
# | When did offsets expire? | `grep -E "Removed .* expired offsets\|Generated .* tombstone records" server.log` | The first text is from a classic coordinator, the second one from Kafka 4.x | Reading is safe |
# | Which offsets did the group have? | `kafkagroups load PATH --group billing --until-time 2026-11-20T18:00` | It shows the group and its offsets at this time, if the log still has the records | Copy the folder before the cleaner (lesson 10) removes the records. Each broker cleans at its own time, so another replica may still have them |
# | Set them again | `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --reset-offsets --from-file billing.csv --execute` | The file has lines like `orders,0,5` | Stop all consumers of the group first |
# | The expiry must not happen again | `offsets.retention.minutes=20160` in `server.properties` of all brokers | 14 days instead of 7 | Restart the brokers one after the other |
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
# Only the log cleaner makes the file smaller (lesson 10). A broker that loses the leadership of a partition deletes nothing, because the next coordinator needs the records.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# **Next:** [10 · Compaction](10_compaction.ipynb): why the topic stays small, and when it does not.
