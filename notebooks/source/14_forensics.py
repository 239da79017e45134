# %% [markdown]
# # 14 · Forensics
#
# **Something went wrong at night. What does the log say?**
#
# **Which Kafka:** 4.x, and 3.9 or 2.8 where an incident needs an older broker.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find the cause of an incident in the bytes of `__consumer_offsets`, say what to do, and prevent the next one | 10 to 60 for each incident | only the last incident, for a real broker |
#
# ![Four questions about a log: where, who, what does a broker answer, what changed.](pictures/14.svg)

# %% [markdown]
# ## At 3 am
#
# 1. If groups begin at wrong positions, first stop their consumers, before they commit.
# 2. Copy the partition's folder to a folder COPY ([how](../docs/operator.md#how-to-copy-a-partition), also without access to the broker's disk). Until then, restart no broker, because a start may cut the log.
# 3. Find your complaint in the table below. Run its command on COPY, with `--kafka VERSION`; it only reads.
# 4. Repair when you know the cause: first in a copy, then the broker. First let a command only print what it would do: `kafka-consumer-groups.sh` with `--dry-run`, and `kafkagroups rescue apply` (incident 10) without `--yes`.

# %% [markdown]
# ## How an incident works
#
# `course.open_incident(…)` writes a new log into a folder next to this notebook, and shows what people saw. You look for the cause with [commands](../docs/handbook/cheat-sheet.md), in a terminal in that folder or with `course.run_command(…)`. There are three hints for each question (`course.hint("NAME", 1)` to `3`: the first is about the whole incident) and a worked solution, in which `$BROKER` is a broker's address, for example `kafka-1:9092`.
#
# Many outputs end with *Missing in this folder*: that is normal, because an incident has a copy of only some partitions.
#
# | complaint | first command | lesson | possible on 4.x |
# |---|---|---|---|
# | 1 · A partition fills the disk | `stats` | [10](10_compaction.ipynb) | yes |
# | 2 · Some failovers are slow | `stats`, for each replica | [11](11_loading.ipynb) | yes |
# | 3 · A group begins again at the start | `timeline --group GROUP` | [09](09_deleting.ipynb) | yes |
# | 4 · A monitor shows wrong lags | `stats --by type` | [01](01_records.ipynb) | yes |
# | 5 · A program cannot read the files | `stats --by writer` | [03](03_the_log.ipynb) | yes |
# | 6 · A deleted group still appears | `load` | [09](09_deleting.ipynb) | no |
# | 7 · Offsets are gone after an upgrade | `stats --by type` | [09](09_deleting.ipynb) | no |
# | 8 · Offsets stay unstable | `stats` | [08](08_transactions.ipynb) | with some settings |
# | 9 · Offsets go back | `explain --group GROUP` | [08](08_transactions.ipynb) | one of two causes |
# | 10 · Partitions do not load | `check` | [11](11_loading.ipynb) | yes |
#
# In an incident of level 1, the first commands show the cause; in level 3, you need several outputs.

# %% [markdown]
# ## Four questions
#
# These lead from an alarm to its cause:
#
# | question | why you ask it | command |
# |---|---|---|
# | 1. **Where** is it? | Usually only one partition or one group is involved. | `stats`, `check` |
# | 2. **Who** wrote it, and when? | Most causes are something that a program or a person did. | `explain`, `timeline` |
# | 3. What does a **broker answer** from this log? | A client sees only this answer. | `load` |
# | 4. **What changed?** | Two moments, two replicas or two coordinators differ. | `diff` |
#
# We solve incident 1 together, then you get less help.

# %%
from kafkagroups import course

# %% [markdown]
# ## Incident 1: one partition fills the disk

# %%
folder = course.open_incident("growing_partition")

# %% [markdown]
# ### Which group fills the partition?
#
# Begin with *where*:

# %%
course.run_command("kafkagroups stats .", folder)

# %% [markdown]
# **How to read `stats`**: first come the *findings*, which say what looks wrong. Three tables follow:
#
# | table | a row is | read first |
# |---|---|---|
# | 1 | a partition | *segm.*, *records*, *newest time* |
# | 2 | a group | *bytes*, *dead* (records that were replaced or deleted), *live* (a broker answers from them, or their transaction is open) |
# | 3 | a partition, for the cleaner | *stops at* (where the next pass ends, and *because of* what), *frees bytes*, *cleaned* (the last pass; `-`: no pass has left a trace) |
#
# You can skip the lines under a table, which define its other columns.
#
# The group `price-ticker` has most of the bytes, and only 8 of its 24,000 records are live. A pass of the cleaner would free nearly all bytes, but none has left a trace, as finding 1 says.

# %%
# exercise: growing_group
growing_group = ...

# %%
course.check("growing_group", growing_group)
# course.hint("growing_group", 1)

# %% [markdown]
# ### Why 24,000 records?
#
# The next question is *who, and when*. Take one minute of `prices-2`:

# %%
course.run_command(
    "kafkagroups explain . --group price-ticker --topic prices --partition 2 --since-time 2026-03-02T19:59", folder
)

# %% [markdown]
# **How to read `explain`**: a row is a record. *record* is its place: `12:25973` is offset 25973 in partition 12. *committed* is the offset that it commits. *fate* says what became of it: a broker answers from the record that `wins`, and a `superseded` one was replaced by the later record in *by*.
#
# Each committed offset is one higher: the program commits after every record.
#
# <details><summary>Is that too often?</summary>
#
# Yes. A record of this group has 139 bytes (3,336,000 / 24,000). In production, the partition grows by 12 GB a day, and so many bytes are about **1,000 records a second**. With auto commit, the group would write at most 8 records in 5 seconds, one for each partition that it reads.
#
# </details>
#
# ### How much does a broker read for its answers?
#
# What does *a broker answer*? `load` replays the log as the next coordinator would, and prints what remains:

# %%
course.run_command("kafkagroups load .", folder)

# %% [markdown]
# **Look at the first line**: the next broker must read 25,976 records. How many are live? These groups never had members (*epoch* is 0), so they have no group record. Each live record is an offset: add up the column *offsets*.

# %%
# exercise: growing_live_records
growing_live_records = ...

# %%
course.check("growing_live_records", growing_live_records)
# course.hint("growing_live_records", 1)

# %% [markdown]
# ### Was the log ever cleaned?
#
# The last question is *what changed*. A removed record leaves a gap, because the others keep their offsets. **Look at the last row** of `load`: the newest record is 25975. How many of the 25,976 offsets from 0 on have no record?

# %%
# exercise: growing_removed_records
growing_removed_records = ...

# %%
course.check("growing_removed_records", growing_removed_records)
# course.hint("growing_removed_records", 1)

# %% [markdown]
# No record was ever removed, although a healthy cleaner waits only until half of the log is dirty (lesson 10). So finding 1 is right.
#
# Would a pass change an answer? `compact` makes a cleaned copy, and `diff` compares what brokers answer from the two logs. (A *fork* is where two logs begin to differ.)

# %%
course.run_command("kafkagroups compact __consumer_offsets-12 --out cleaned/__consumer_offsets-12", folder)
course.run_command("kafkagroups diff . cleaned", folder)

# %% [markdown]
# **Look at the row *removed***, and at the line `No group …`: a pass removes 25,099 records and changes no answer.
#
# <details><summary>Why do 877 records remain, if only 25 are live?</summary>
#
# 852 records are in the active segment, among them the 25 live ones. The other 25 (852 + 25 = 877) are dead. They are before the active segment, one for each of the 25 keys. A pass does not read the active segment, so it cannot know that they were replaced.
#
# </details>
#
# ### A dead thread, or an uncleanable partition?
#
# Either an error ended the cleaner's thread, or the thread met an error in one partition, and skips this partition since then (it is *uncleanable*). The records are the same in both cases, so this log does not tell. In both cases, a start of the broker lets it clean again, but repair the error first (`log-cleaner.log` names it).
#
# <details><summary>How to see the difference on a running broker</summary>
#
# | | the thread is dead | the partition is uncleanable |
# |---|---|---|
# | not cleaned | all partitions of the broker | this partition |
# | metric above 0 | `DeadThreadCount` | `uncleanable-partitions-count` |
# | `log-cleaner.log` | an error | an error, and the word `uncleanable` |
# | do first | repair the cause of the error, or it comes back | the same |
# | then | change `log.cleaner.threads`: new threads start, without a restart | let another broker lead the partition, then restart this broker |
#
# </details>
#
# <details><summary>Does a copy from a test cluster prove anything about production?</summary>
#
# The copy alone proves nothing about production. But the chart of the complaint shows that the partition of broker 2 grew by 12 GB on each of seven days, to 84 GB, so nothing was removed there, either. Brokers 1 and 3 received the same records, and their replicas are small, so the cleaners of these two brokers work.
#
# </details>
#
# Before you open the worked solution, decide what you do now, and what not.

# %%
# course.show_worked_solution("growing_partition")

# %% [markdown]
# ## Incident 2: some failovers are slow

# %%
folder = course.open_incident("slow_failover")

# %% [markdown]
# ### How much does each broker read?
#
# The folder has a replica of each broker, so ask *where*. (`--by partition` makes the second table short.)

# %%
course.run_command("kafkagroups stats broker-1 broker-2 --by partition", folder)

# %% [markdown]
# **Look at *records* in the first table of each broker**: a new leader reads all of them before it answers. Which broker is slow?

# %%
# exercise: slow_records
slow_records = ...

# %%
course.check("slow_records", slow_records)
# course.hint("slow_records", 1)

# %% [markdown]
# ### Since when?
#
# **Look at the third table of this broker.** As in incident 1, a pass would free nearly all bytes, but here an earlier one has left a trace. When?

# %%
# exercise: slow_last_cleaning
slow_last_cleaning = ...

# %%
course.check("slow_last_cleaning", slow_last_cleaning)
# course.hint("slow_last_cleaning", 1)

# %% [markdown]
# ### Do the two brokers answer the same?
#
# The last question is *what changed*:

# %%
course.run_command("kafkagroups diff broker-1 broker-2", folder)

# %% [markdown]
# One sentence of this output has the number that you need.

# %%
# exercise: slow_differences
slow_differences = ...

# %%
course.check("slow_differences", slow_differences)
# course.hint("slow_differences", 1)

# %% [markdown]
# So only the failovers to one broker are slow. Your own questions: does the day of its last pass fit the chart, and which broker should lead now?

# %%
# course.show_worked_solution("slow_failover")

# %% [markdown]
# ## Incident 3: on Monday all bread is printed again

# %%
folder = course.open_incident("empty_monday")

# %% [markdown]
# ### Who deleted the offsets, and when?
#
# The complaint names a group, so begin with *who*:

# %%
course.run_command("kafkagroups timeline . --group bread-print", folder)

# %% [markdown]
# **How to read `timeline`**: each entry is an event of the group, with its time and its place in the log. Three kinds matter now: *Generation* (who joined or left), *expired*, and *the first commit* (where the group begins). Commits that only move forward are left out. (*No record of 1 earlier generation* is normal where several members start together.)
#
# **Look at the entries of 6 and of 8 March.** A tombstone does not say why it was written, so compare its time with that of the event before it (lesson 09).

# %%
# exercise: monday_deleted_at, monday_hours
monday_deleted_at = ...
monday_hours = ...

# %%
course.check("monday_deleted_at", monday_deleted_at)
course.check("monday_hours", monday_hours)
# course.hint("monday_deleted_at", 1)

# %% [markdown]
# ### Which other groups lost offsets?
#
# Ask *what changed*: `diff` also compares two moments of one log. A row is an offset that differs, and `none` means no offset. An offset that is the same at both moments has no row; `kafkagroups load .` lists all offsets.

# %%
course.run_command("kafkagroups diff . --since-time 2026-03-06T18:00 --until-time 2026-03-09T06:59", folder)

# %%
# exercise: monday_partial, monday_kept
monday_partial = ...
monday_kept = ...

# %%
course.check("monday_partial", monday_partial)
course.check("monday_kept", monday_kept)
# course.hint("monday_partial", 1)

# %%
# course.show_worked_solution("empty_monday")

# %% [markdown]
# ## Incident 4: the monitor goes dark
#
# The log is right, but a program does not know one kind of its records. If the broker was not 4.3.1, add `--kafka VERSION`, because releases read a log differently. Begin with `stats --by type`: remove the `#`, and run the cell. Below it stand your questions, and where to look.

# %%
folder = course.open_incident("dark_monitor")

# %%
# course.run_command("kafkagroups stats . --kafka 4.1.0 --by type", folder)

# %% [markdown]
# - **Since when?** The column *first record* has the first record of each value version. In the last table, *from offset* says at which record a newer release began to write.
# - **Which group?** `dump PARTITION --since-time TIME` prints each record with its version, such as `v3`.

# %%
# exercise: dark_first_offset, dark_second_start, dark_readable_group, dark_length
dark_first_offset = ...
dark_second_start = ...
dark_readable_group = ...
dark_length = ...

# %%
course.check("dark_first_offset", dark_first_offset)
course.check("dark_second_start", dark_second_start)
course.check("dark_readable_group", dark_readable_group)
course.check("dark_length", dark_length)
# course.hint("dark_first_offset", 1)

# %%
# course.show_worked_solution("dark_monitor")

# %% [markdown]
# ## Incident 5: 20 GB of parse errors a night
#
# Lesson 03 shows why such a program fails. Begin with `stats --by writer`.

# %%
folder = course.open_incident("parse_errors")

# %%
# course.run_command("kafkagroups stats . --by writer", folder)

# %% [markdown]
# - **Which group, and since when?** In the second table, a row is a group and a kind of commit. `t` means *in transactions*, and the column *first* says since when.
# - **How many markers?** The line *Markers* counts them.
# - **Which marker?** `explain --group GROUP --since-time TIME` prints records of a group. For a record in a transaction, the column *by* names the marker.

# %%
# exercise: parse_first_offset, parse_group, parse_unreadable, parse_second_message
parse_first_offset = ...
parse_group = ...
parse_unreadable = ...
parse_second_message = ...

# %%
course.check("parse_first_offset", parse_first_offset)
course.check("parse_group", parse_group)
course.check("parse_unreadable", parse_unreadable)
course.check("parse_second_message", parse_second_message)
# course.hint("parse_first_offset", 1)

# %%
# course.show_worked_solution("parse_errors")

# %% [markdown]
# ## Incident 6: a lag alarm for a group that does not exist
#
# A broker and a monitor disagree about which groups exist. Begin with the answer of the broker, `load`.

# %%
folder = course.open_incident("lag_of_the_dead")

# %%
# course.run_command("kafkagroups load . --kafka 3.9.2", folder)

# %% [markdown]
# - **Which groups are gone?** The first table of `load` has the groups of the broker. Compare it with the second table of `stats`.
# - **How were they deleted?** `dump . --tombstones` prints the keys of the tombstones, and `timeline --group GROUP` the generations.

# %%
# exercise: dead_group, dead_group_tombstones, dead_generation
dead_group = ...
dead_group_tombstones = ...
dead_generation = ...

# %%
course.check("dead_group", dead_group)
course.check("dead_group_tombstones", dead_group_tombstones)
course.check("dead_generation", dead_generation)
# course.hint("dead_group", 1)

# %%
# course.show_worked_solution("lag_of_the_dead")

# %% [markdown]
# ## Incident 7: offsets are gone after the upgrade
#
# Here, offsets are gone before the retention was over. Begin with `stats --by type`.

# %%
folder = course.open_incident("after_the_upgrade")

# %%
# course.run_command("kafkagroups stats . --kafka 2.8.2 --by type", folder)

# %% [markdown]
# - **When?** The rows *tombstone* say when the deletions began.
# - **Which offsets?** `diff` between two moments shows them, as in incident 3.
# - **Why?** `load --until-time TIME` has a column *expire time*. `timeline --group GROUP --retention 7d` says which deletions were expiries.

# %%
# exercise: upgrade_lost_groups, upgrade_version, upgrade_expiry, upgrade_kept_group
upgrade_lost_groups = ...
upgrade_version = ...
upgrade_expiry = ...
upgrade_kept_group = ...

# %%
course.check("upgrade_lost_groups", upgrade_lost_groups)
course.check("upgrade_version", upgrade_version)
course.check("upgrade_expiry", upgrade_expiry)
course.check("upgrade_kept_group", upgrade_kept_group)
# course.hint("upgrade_lost_groups", 1)

# %%
# course.show_worked_solution("after_the_upgrade")

# %% [markdown]
# ## Reading transactions
#
# Incidents 8 and 9 are about commits in transactions. In `explain`, an `aborted` one never counts, and a `pending` one has no marker yet. `deleted` means that a tombstone followed, and `▼` that the offset went back. Here is `fraud-check` from lesson 08:

# %%
shop = course.find_data("harbour/4.3.1")
course.run_command("kafkagroups explain . --group fraud-check --topic payments --partition 0", shop)

# %% [markdown]
# Record 31 (25, no transaction) is later in the log than record 29 (30, in a transaction), so 25 wins.
#
# A commit in a transaction counts from its marker on, so its entry in `timeline` has the place and the time of the marker:

# %%
course.run_command("kafkagroups timeline . --group fraud-check", shop)

# %% [markdown]
# ## Incident 8: process B waits for stable offsets
#
# Which transactions are open, and who would end each of them? Begin with `stats`.

# %%
folder = course.open_incident("endless_unstable")

# %%
# course.run_command("kafkagroups stats . --kafka 3.9.2", folder)

# %% [markdown]
# - **Which transaction stops the cleaner?** In the third table, a row is an open transaction. In the last table, *because of* names the one that stops the cleaner.
# - **Which offsets wait?** Look for `pending` in `explain --group GROUP`.
# - **Who would end a transaction?** The complaint says so. To try an end, `edit --marker` writes it into a copy.

# %%
# exercise: unstable_producer, unstable_aborts, unstable_segments, unstable_offset_after
unstable_producer = ...
unstable_aborts = ...
unstable_segments = ...
unstable_offset_after = ...

# %%
course.check("unstable_producer", unstable_producer)
course.check("unstable_aborts", unstable_aborts)
course.check("unstable_segments", unstable_segments)
course.check("unstable_offset_after", unstable_offset_after)
# course.hint("unstable_producer", 1)

# %%
# course.show_worked_solution("endless_unstable")

# %% [markdown]
# ## Incident 9: two offsets go back after a failover
#
# A running broker and one that loads the same log may disagree. Begin with `explain`, for one of the two partitions at a time.

# %%
folder = course.open_incident("offset_goes_back")

# %%
# course.run_command("kafkagroups explain . --kafka 3.9.2 --group loyalty-ledger --topic receipts --partition 1", folder)

# %% [markdown]
# - **Who wrote an offset?** The column *producer* is empty for a commit outside of a transaction.
# - **Who answers what?** `diff . --coordinators` compares a load of both group coordinators. A broker that ran on has not loaded this log, and can have answered something else: compare with the complaint.
# - **What would a pass of the cleaner change?** You need one more command: the second hint of this question shows it.

# %%
# exercise: back_race, back_before, back_record, back_cleaned
back_race = ...
back_before = ...
back_record = ...
back_cleaned = ...

# %%
course.check("back_race", back_race)
course.check("back_before", back_before)
course.check("back_record", back_record)
course.check("back_cleaned", back_cleaned)
# course.hint("back_race", 1)

# %%
# course.show_worked_solution("offset_goes_back")

# %% [markdown]
# ## Incident 10: the cluster does not come up
#
# Plan an hour: four things are wrong. Begin with `check` and `stats`.

# %%
folder = course.open_incident("dead_cluster")

# %%
# course.run_command("kafkagroups check . --kafka 4.0.1", folder)
# course.run_command("kafkagroups stats . --kafka 4.0.1 --top 11", folder)

# %% [markdown]
# - **What does not load?** A finding of `check` names a partition, what is wrong there, and the groups.
# - **Which position is right?** The first table of `stats` has a row for each offset of a group that is in two partitions.
# - **What must not be rescued?** An offset whose transaction never ended: `explain` marks it as `pending`.
# - **What comes after a damage?** A broker cuts the log there; `load --past-damage` also reads what follows.

# %%
# exercise: cluster_second_record, cluster_right_offset, cluster_pending, cluster_cut_group
cluster_second_record = ...
cluster_right_offset = ...
cluster_pending = ...
cluster_cut_group = ...

# %%
course.check("cluster_second_record", cluster_second_record)
course.check("cluster_right_offset", cluster_right_offset)
course.check("cluster_pending", cluster_pending)
course.check("cluster_cut_group", cluster_cut_group)
# course.hint("cluster_second_record", 1)

# %%
# course.show_worked_solution("dead_cluster")

# %% [markdown]
# ### The rescue
#
# To bring the groups into the new cluster, make a plan:
#
# ```
# kafkagroups rescue plan . --out plan.json
# ```
#
# In each group, `offsets` has what `rescue apply` will set, and `left_out` the rest, with the reason (`why`).
#
# <details><summary>What a plan looks like, shortened</summary>
#
# Partition 24 was the group's old partition. Kafka 4.x reads only the new one, 49:
#
# ```
# "coupon-check": {
#   "offsets": {
#     "coupon-0": {"offset": 603, "partition": 49}
#   },
#   "left_out": {
#     "coupon-0": {"why": "other partition", "offset": 573, "partition": 24}
#   }
# }
# ```
#
# </details>
#
# Check two kinds of groups in the plan:
#
# - Groups of the partitions that `check` names: is each one in the plan, with its newest offsets? If not, delete `plan.json`, and make it again with `--kafka 3.9.2 --past-damage`. Release 3.9.2 does not know the types of the two bad records, so it skips them, and `--past-damage` reads what follows the damage.
# - Groups in two partitions: which position comes after the last record that the group has processed? A plan with `--kafka 3.9.2` has the position from the old partition. Where the new partition has the right one, write it into `offsets`, for example `{"offset": 603}`.

# %% [markdown]
# The next cell starts a new broker (Kafka 4.3.1), applies your plan, and asks for each offset. Without Java, it compares your plan with the recorded answers of a real broker.
#
# <details><summary>What the real broker needs</summary>
#
# It needs Java, the broker's jars, and the Python package kafka-python. In the project's folder, `make brokers KAFKA=4.3.1` fetches the jars (55 MB, with Maven), and `.venv/bin/python -m pip install -r locks/live.txt` installs the package.
#
# </details>

# %%
course.rescue_into_new_broker(folder / "plan.json")

# %%
# course.show_worked_rescue()

# %% [markdown]
# <details><summary>What the ten incidents were</summary>
#
# | incident | cause | measure |
# |---|---|---|
# | 1 | The cleaner did not clean one partition of one broker, and a group committed after every record | Repair the error that `log-cleaner.log` names, let this broker clean again, and commit every few seconds |
# | 2 | The cleaner of broker 2 stopped on 11 March, so this broker loads a long replica | Let broker 1 be the preferred leader, let broker 2 clean again, and wait until its replica is small |
# | 3 | The offsets expired after two days without members | Set the offsets again, and raise `offsets.retention.minutes` |
# | 4 | Brokers since 4.1 write value version 4, which an old program cannot read | Let the program ask the brokers (`Admin.listConsumerGroupOffsets`) |
# | 5 | Groups began to commit in transactions, and a program read the markers as commits | Skip control batches |
# | 6 | 3.9 writes no group tombstone for a simple group, and the monitor waited for one | Let the monitor remove a group that has no offset left |
# | 7 | Commits of version 1 have an expire timestamp, which passed while the brokers were off | Upgrade broker by broker, or first raise `offsets.retention.minutes` of the old brokers, and wait for a commit of every group |
# | 8 | Two requests with offsets came after the abort of their transactions. Each began a new transaction, which nobody ends | Abort the two hanging transactions, and keep `transaction.partition.verification.enable=true` |
# | 9 | `receipts-1`: a later commit outside of the transaction. `receipts-2`: a load brought back a deleted offset | Set 3,930 and 5,210, unless the processes have passed them already. Before you change offsets, stop the program, and wait until its transactions have ended |
# | 10 | More partitions for the topic, two records of a test program, an open transaction, and a damaged batch | Rescue the offsets into a new cluster |
#
# </details>

# %% [markdown]
# ## What we left out, and why
#
# Networks, disks and quotas cause more incidents, but leave no trace in this log. The [glossary](../docs/handbook/glossary.md) explains all terms.
