# %% [markdown]
# # 09 · Deleting
#
# **How do you delete from a file that only grows?**
#
# **Which Kafka:** every 4.x, with the new *group coordinator*. **Which groups:** *classic groups* (`group.protocol=classic`, the default); one section is about the new protocol.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | say which offsets are deleted on which day; read a deletion in the log; delete single offsets safely; explain offsets that are gone on Monday | {{minutes}} + 10 for later | no |
#
# ![The log has a group record, three offsets and another group record, and then one batch with a tombstone for each key.](pictures/09.svg)

# %% [markdown]
# Four things to hold on to:
#
# 1. To delete something, a broker **appends** a record with the same key and no value, a *tombstone*.
# 2. Offsets are deleted for three reasons: an administrator asks for it, their topic is deleted, or they [**expire**](../docs/handbook/glossary.md#expire). An Empty group without offsets is deleted, too.
# 3. An offset does not expire while a **member** of its group reads the topic.
# 4. After its last member has left, a classic group keeps its offsets for the *retention*, seven days.

# %% [markdown]
# ## A group is deleted
#
# The group `mailer` of Harbour Coffee had three offsets. After its last member had left, the administrator deleted the group, as this command does:
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --delete --group mailer
# ```
#
# The command sends `DeleteGroups`. The 4.3.1 broker then wrote the group's last records:

# %%
from kafkagroups import course

for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))[5:]:
    print(line)

# %% [markdown]
# Record 5 is from the time when the last member left, and the records 6 to 9 are the deletion. Each offset needs a tombstone of its own, because it has its own key, and the tombstone of the group comes last. All four are in one batch, so after a crash the log has all of them or none.
#
# The coordinator answers `DeleteGroups` in one of three ways:
#
# | answer | when |
# |---|---|
# | `NON_EMPTY_GROUP` | the group has members, so nothing is deleted |
# | `NONE` | the group was deleted |
# | `GROUP_ID_NOT_FOUND` | the coordinator has no group with this name |

# %% [markdown]
# ## Single offsets
#
# This command sends `OffsetDelete`:
#
# ```
# kafka-consumer-groups.sh --bootstrap-server localhost:9092 --delete-offsets --group billing --topic payments:0
# ```
#
# You can delete offsets while the group runs, as long as none of its members reads the topic (otherwise the answer is `GROUP_SUBSCRIBED_TO_TOPIC`). Here, `billing` has committed offsets of two topics, and its member reads only `orders`. An operator tries both requests, before and after the member leaves (`log ←` is a record that the broker wrote):

# %%
# script
import kafkagroups as kg
from kafkagroups.coordinator import OffsetCommit


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


course.compare_brokers(deletions, ("4.3.1", "3.9.2"))[1:]

# %% [markdown]
# `OffsetDelete` answers for each partition separately. The offset of `orders-0` stays, because `billing-1` reads `orders`.
#
# ## The end of a topic
#
# If a **topic** is deleted, all groups immediately lose their offsets of this topic, also groups with members that read it. In the shop, the last member of `promo` left, and then the topic `promo-spring` was deleted. The 4.3.1 broker wrote these records:

# %%
for line in course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-37")):
    if line.group == "promo":
        print(line)

# %% [markdown]
# Record 5 deletes the offset. Every ten minutes (`offsets.retention.check.interval.ms`), a coordinator checks what is no longer needed. This *regular check* found that `promo` was Empty and had no offset, so record 6 deletes the group.

# %% [markdown]
# ## Time: the retention of offsets
#
# The regular check also deletes offsets that have expired. An offset expires at the end of its [*retention*](../docs/handbook/glossary.md#retention), which lasts 7 days by default (`offsets.retention.minutes`). The retention begins when nobody needs the offset any more: in most classic groups when the last member leaves, so that the members have time to come back.
#
# *Predict*: the retention is 7 days. `mailer` commits on day 0. Its member reads the topic, and leaves on day 4. On which day is the offset deleted?

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
# An offset of a classic group has two clocks: one since its commit, and one since the group became Empty. Kafka 1.0.1 had only the first. Step through the figure: which clock decides today (*Kafka 2.4+*)? Then let the member stay, or read only `payments`. What changes?

# %%
# figure
course.ExpiryChart()

# %% [markdown]
# Under the old rule, a running group could lose the offset of a quiet topic. Today, the clock since Empty decides.
#
# ## When the retention begins
#
# How does a broker know that nobody needs an offset? Take two groups whose programs were stopped on day 4:
#
# - `mailer` uses `subscribe`, so it had a member. A record says that this member left on day 4, so the retention begins then.
# - `audit` uses `assign`, so it never had a member (a [*simple group*](../docs/handbook/glossary.md#simple-group)), and no record says when it stopped. So the retention of each offset begins at its commit.
#
# So find your program first, and then its row:
#
# | your program | row | the group | the retention begins |
# |---|---|---|---|
# | uses `subscribe`, and runs | **reads** | A member reads (subscribes to) the topic. | not at all: the offset stays |
# | | **rebalance** | A classic group is in a rebalance, so it is not yet known who will read what. | not at all: the offset stays |
# | | **unread** | The group is Stable, and its consumers do not read the topic any more. | at the commit: an offset older than 7 days goes at the next regular check |
# | uses `subscribe`, and has stopped | **Empty** | The last member of a classic group has left. | when the group becomes Empty |
# | uses `assign` | **simple** | The group never had a member. | at the commit |
# | is no consumer, for example Kafka Connect | **other type** | Another kind of program, such as Kafka Connect (*protocol type* `connect`), does not tell the broker what its members read. | not at all: the offset stays |
# | uses `group.protocol=consumer` | **new protocol** | With the new protocol, no record says when the last member left, so only the time of the commit is known. | at the commit |
#
# A commit of value version 1 (lesson 01) has an *expire timestamp* of its own. If the third column of the table names a beginning, the offset expires at its own timestamp instead. If it says *not at all*, the offset stays.

# %% [markdown]
# ## Exercise: what expires
#
# Write `expired(group, now, retention)` for all rows except *new protocol*. All times are days. The function returns the list of the partitions whose offsets are deleted, in the order of `group.offsets`.
#
# | field | content |
# |---|---|
# | `group.state` | `"Empty"`, `"Stable"`, `"PreparingRebalance"`, … |
# | `group.type` | the protocol type: `"consumer"`, another one, or `""` for a simple group |
# | `group.read_topics` | the topics that its members read |
# | `group.state_start` | the day on which the group entered its state |
# | `group.offsets` | for example `{"orders-0": (committed, expire_day)}`: the day of the commit, and the day of its expire timestamp, or `None` |
#
# An offset is deleted **on** the day on which its retention ends: a retention of 7 days from day 0 ends on day 7.

# %%
# exercise: expired
def expired(group, now, retention):
    ...

# %%
course.check("expired", expired)
# course.hint("expired")

# %% [markdown]
# ## Offsets that you set again
#
# A group became Empty on day 0. If an operator sets an offset on day 6, does it get a new week?

# %%
# script
DAY_MS = 24 * 60 * 60 * 1000


def set_on_day_6(broker):
    broker.start_expiration()
    billing = course.GroupLife("billing", broker=broker)
    billing.join("billing-1")
    billing.join("billing-1")
    billing.wait(3)
    billing.sync("billing-1")
    billing.commit("billing-1", {"orders-0": 5})
    billing.leave("billing-1")
    yield "day 0: the last member leaves", billing.events[-1].response
    broker.clock.advance(6 * DAY_MS)
    yield "day 6: an operator sets 3", broker.offset_commit("billing", {kg.TopicPartition("orders", 0): OffsetCommit(3)})
    broker.clock.advance(DAY_MS + 10 * 60 * 1000)
    yield "day 7, after a check: a fetch", broker.offset_fetch("billing")


course.compare_brokers(set_on_day_6, ("4.3.1", "3.9.2"))[1:]

# %% [markdown]
# The group is in the row *Empty*, so only the day on which its last member left counts. **Setting an offset does not start the retention again.** Start the consumers in time, because a member that reads the topic protects the offset. (If the group is already deleted, setting an offset creates a new, *simple* group, so the week of this offset begins when you set it.)
#
# ## A quiet topic, with the new protocol
#
# With the new protocol (lesson 13), the 7 days begin at the commit, so they can be over before the last member leaves. For example, the last order is committed on day 1, and the last member leaves on day 9. (Auto commit is safe, because it commits all positions every 5 seconds.)
#
# | row | the offset expires |
# |---|---|
# | *Empty* (a classic group) | on day 16, a week after the last member left |
# | *new protocol* | on day 9: the week ended on day 8, and after that only the member protected the offset |
#
# Before you stop a program with the new protocol, let it call `commitSync()` without arguments, which also commits quiet partitions.

# %% [markdown]
# ## What a real broker deleted
#
# A broker of 3.9.2, which has the same rules as 4.x, ran with a retention of one minute and checked every two seconds. Three of its nine groups, with the seconds since the start:

# %%
recorded = course.play_conversation("3.9.2-expiry")
recorded.print_expired("alive", "late", "nocommit")
print("all groups: ", end="")
course.compare_with_broker(recorded.our_appends, recorded.broker_appends, "3.9.2", verb="deleted")

# %% [markdown]
# - `nocommit`: a member joined and left without a commit, so the group was Empty without an offset.
# - `alive` (row *unread*): the member reads only `orders`, so the offset of `clicks` expired one minute after the commit.
# - `late` (row *Empty*): the offset expired one minute after the member left.

# %% [markdown]
# ## Exercise: gone on Monday
#
# A cluster of Kafka 4.3.1 has a retention of offsets of one day, and all its groups are classic groups. On Monday at 8:00, all services are restarted:
#
# - `mailer` has members all the time, which read `orders`. Its last commit was on Friday at 18:00.
# - `dashboard` uses `assign`, so it never joins its group. Its last commit was on Friday at 18:00.
# - `nightly` has one member. Every night, also on Saturday, Sunday and Monday, this member joins at 2:00, commits, and leaves at 3:00.
#
# Which group has lost its offsets? Write its name as a text.

# %%
# exercise: weekend
weekend = ...

# %%
course.check("weekend", weekend)
# course.hint("weekend")

# %% [markdown]
# ## Where 3.9 differs
#
# | | 4.x | 3.9 |
# |---|---|---|
# | tombstone of a group | always | only if the group's generation is above 0 |
# | the answer to `DeleteGroups` comes | after the replicas have the tombstones | at once, so after a crash, the group can be back |
#
# Simple groups have generation 0, because they never had members.

# %% [markdown]
# ## Exercise for later: count the tombstones, on paper
#
# The simple group `dashboard` has two offsets. An administrator deletes the group with `DeleteGroups`. How many records does a broker write, first of Kafka 4.3.1, then of 3.9.2? Write a pair, for example `(6, 5)`.

# %%
# exercise: records_of_dashboard
records_of_dashboard = ...

# %%
course.check("records_of_dashboard", records_of_dashboard)
# course.hint("records_of_dashboard")

# %% [markdown]
# <details><summary>Other versions</summary>
#
# If a newer offset of the same partition is pending (lesson 08), 3.9 deletes an expired offset. In 4.x, the offset stays until the transaction ends.
#
# `DeleteGroups` exists since 1.1, and `OffsetDelete` since 2.4. The default retention was one day before 2.0. Before 2.1, each offset had its own expire timestamp, in value version 1. After an upgrade from a release before 2.1, the brokers soon delete each offset whose expire timestamp has passed. `kafkagroups stats` shows whether such records exist.
#
# A group record of version 0 or 1 (up to 2.0) does not contain the time at which the group became Empty. After such a record is loaded, the retention begins at the commit.
#
# Kafka 2.1 to 2.3 keep all offsets while the group has members. Kafka 2.4 to 2.8.1, 3.0.0 and 3.1.0 can delete offsets during a rebalance.
#
# </details>
#
# ## Check yourself
#
# <details><summary>A group with three offsets is deleted. Why does the broker append four records, and why in one batch?</summary>
#
# A tombstone deletes only what its own key names, so each offset needs one, and the group as well. In one batch, a crash keeps all four or none.
#
# </details>
#
# <details><summary>A classic group and a group with the new protocol committed for the last time eight days ago. Now the last member of each one leaves. Which offsets are deleted at the next regular check?</summary>
#
# Those of the group with the new protocol, because its retention began at the commit. The classic group keeps its offsets for seven more days.
#
# </details>
#
# ## In five lines
#
# - A tombstone is a record without a value, and deletes what its key names.
# - Offsets are deleted by a request, with their topic, or at the end of their retention.
# - While a member reads a topic, the group's offsets of this topic stay. In a classic group, the retention begins when the last member leaves.
# - In a simple group or with the new protocol, the retention begins at the commit.
# - All tombstones of a deletion are in one batch, the tombstone of the group last.

# %% [markdown]
# ## For your consumer
#
# - A consumer that uses `assign` is never a member, so its offsets expire 7 days after their commit. Without auto commit, call `commitSync()` regularly, even if the topic is quiet.
# - `auto.offset.reset=none` makes lost offsets visible, whereas `latest` skips records silently.
# - Before a long stop of a service, stop its consumers and save the group's offsets. Because of `--dry-run`, this command only prints them: `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --export --reset-offsets --to-current --all-topics --dry-run > billing.csv`.
#
# ## At 3 am
#
# `server.log` is the log of the group's coordinator, which `--describe --state` prints. PATH is a copy of the partition's folder ([how to copy it](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk).
#
# | symptom | command | what it means | what is safe to do |
# |---|---|---|---|
# | A group starts from the beginning or the end | `kafkagroups timeline PATH --group billing` | When the offset was deleted, and possible causes | First stop the consumers. Then set the old offsets again, as below |
# | When did offsets expire? | `grep -e "tombstone records while cleaning" -e "expired offsets in" server.log` | 4.x writes the first text, and names the partition; 3.9 writes the second. Neither names the group | Ask for a group with the command above |
# | Which groups will lose offsets next? | `kafkagroups stats PATH` | The finding `expiry_in_use` names them | Let the program use `subscribe`, or commit all its partitions regularly |
#
# Set the old offsets while the consumers are stopped:
#
# 1. Copy the folder before the cleaner (lesson 10) removes the old records. `kafkagroups load PATH --group billing --until-time 2026-11-20T18:00` prints the offsets at this time (UTC).
# 2. Write a file `billing.csv` with a line `orders,0,5` for each offset.
# 3. `kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group billing --reset-offsets --from-file billing.csv --execute` sets them. If the old records are gone, set the offsets by time: instead of `--from-file …`, write `--topic orders --to-datetime 2026-11-20T18:00:00.000`.
# 4. Start the consumers soon, because the group may have been Empty for days.
#
# To keep offsets for 14 days, set `offsets.retention.minutes=20160` on all brokers, and restart them one after the other. This also helps groups that are already Empty.
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
# How the cleaner makes the file shorter again (lesson 10). All terms are in the [glossary](../docs/handbook/glossary.md).
#
# **Next:** [10 · Compaction](10_compaction.ipynb): why the topic stays small, and when it does not.
