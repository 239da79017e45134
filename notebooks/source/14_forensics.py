# %% [markdown]
# # 14 · Forensics
#
# **Something went wrong at night. What does the log say?**
#
# **Which Kafka:** 4.x, and 3.9 or 2.8 where an incident needs an older broker.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find the cause of an incident in the bytes of `__consumer_offsets`, say what to do, and prevent the next one | 10 to 60 for each incident | only the last incident, if you want to see a real broker |
#
# ![Four questions about a log: where, who, what does a broker answer, what changed.](pictures/14.svg)

# %% [markdown]
# It is Sunday, 23:10, and an alarm rings: the disk of broker 2 is full. You could delete files, restart brokers or reset offsets, but each of these can destroy the evidence. It is safer to copy the folder of the partition to another machine, and to ask the copy.
#
# Four questions lead from an alarm to its cause. Each has a command:
#
# | question | why you ask it | command |
# |---|---|---|
# | 1. **Where** is it? | Of 50 partitions and a thousand groups, perhaps one is your case. | `stats`, `check` |
# | 2. **Who** wrote it, and when? | Most causes are what a program or a person did. | `explain`, `timeline` |
# | 3. What does a **broker answer** from this log? | A client sees only the broker's answer, which comes from a few live records. | `load` |
# | 4. **What changed?** | To find a cause, compare two moments, two replicas, or two coordinators. | `diff` |
#
# We solve incident 1 together. The others are yours. Often the complaint already answers a question; skip that one.

# %% [markdown]
# ## How an incident works
#
# `course.open_incident(…)` writes a log into a folder next to this notebook, each time anew, and shows what people saw. Look for the cause with commands, in a terminal or with `course.run_command(…)`, and write your answers into the exercise. `course.hint("NAME", 1)` to `3` help, and `course.show_worked_solution(…)` shows one way. The [cheat sheet](../docs/handbook/cheat-sheet.md) lists all commands.
#
# | incident | level | for | broker |
# |---|---|---|---|
# | 1 · One partition fills the disk | 1 | operators | 4.3.1 |
# | 2 · Some failovers take hours | 1 | operators | 4.3.1 |
# | 3 · Printed again on Monday | 1 | developers | 4.3.1 |
# | 4 · The monitor goes dark | 2 | both | 4.1.0 |
# | 5 · Parse errors | 2 | developers | 4.3.1 |
# | 6 · A lag alarm | 2 | developers | 3.9.2 |
# | 7 · After the upgrade | 2 | operators | 2.8.2 |
# | 8 · Unstable offsets | 3 | developers | 3.9.2 |
# | 9 · Offsets go back | 3 | developers | 3.9.2 |
# | 10 · The dead cluster | 3 | operators | 4.0.1 |
#
# In level 1, the first commands show the cause. In level 2, you compare two outputs. In level 3, there are several causes.

# %%
from kafkagroups import course

# %% [markdown]
# ## Incident 1: one partition fills the disk

# %%
folder = course.open_incident("growing_partition")

# %% [markdown]
# ### Where?
#
# You know the partition, so what is left of *where* is the group. `stats` counts the records of each group. In its second table, a record is **live** if a broker still answers from it. A **dead** one was replaced or deleted, and waits for the cleaner. The third table is about the cleaner: *cleaned to* says how far its last pass came.

# %%
course.run_command("kafkagroups stats .", folder)

# %% [markdown]
# One group has more bytes than all others together, and nearly all its records are dead:

# %%
# exercise: growing_group
growing_group = ...

# %%
course.check("growing_group", growing_group)
# course.hint("growing_group", 1)

# %% [markdown]
# ### Who wrote it, and when?
#
# One minute of one topic-partition shows how its 24,000 records came about. `explain` prints each record with its **fate**. A `superseded` record was replaced by a later one with the same key; the column *by* has the offset of that one. A broker answers from the record that `wins`.

# %%
course.run_command(
    "kafkagroups explain . --group price-ticker --topic prices --partition 2 --since-time 2026-03-02T19:59", folder
)

# %% [markdown]
# `12:25955` is offset 25955 in partition 12 of `__consumer_offsets`. Within a minute, the program commits this topic-partition five times, each time one record further. So it commits after every record.
#
# ### What does a broker answer?
#
# `load` does what the next coordinator would do: it replays the log, and prints what remains. (*memb.* counts members, and *pend.* pending offsets. These groups are Empty, because their programs use `assign` and never join.)

# %%
course.run_command("kafkagroups load .", folder)

# %% [markdown]
# To load this, a broker must read 25,976 records, as the first line says. The column *offsets* counts the live records of each group. Add them up:

# %%
# exercise: growing_live_records
growing_live_records = ...

# %%
course.check("growing_live_records", growing_live_records)
# course.hint("growing_live_records", 1)

# %% [markdown]
# ### What changed?
#
# The next pass of the cleaner removes replaced commits. Has there been one? In the output of `stats`, the last table has `-` under *cleaned to*, because no pass has left a trace. And in the output of `load`, the newest record, that of `promo-1`, has offset 25975. Offsets begin at 0. So how many of the 25,976 are missing?

# %%
# exercise: growing_removed_records
growing_removed_records = ...

# %%
course.check("growing_removed_records", growing_removed_records)
# course.hint("growing_removed_records", 1)

# %% [markdown]
# What *would* a pass change? `compact` makes a cleaned copy, and `diff` compares what brokers answer from the two logs:

# %%
course.run_command("kafkagroups compact __consumer_offsets-12 --out cleaned/__consumer_offsets-12", folder)
course.run_command("kafkagroups diff . cleaned", folder)

# %% [markdown]
# A pass removes 25,099 records, and no answer differs. It keeps the 25 live records and the active segment, however often the group commits. So the cause is the cleaner, which has not cleaned this partition. The group, which commits after every record, only decides where the log grows, and how fast.
#
# One question is left for the broker: is its cleaner thread dead, or can it not clean this partition? If it were dead, *all* partitions of the broker would grow (lesson 10). But 49 are small, so look for partition 12 in `log-cleaner.log`.
#
# Before you open a worked solution, ask yourself: *what do you do now, and what must you not do?* The solution ends with what we would do.

# %%
# course.show_worked_solution("growing_partition")

# %% [markdown]
# ## Incident 2: some failovers take hours
#
# Here you have two replicas of the same log, so you can begin with *what changed*. (A *fork* is a place from which they have different records.) `diff` tells whether the two brokers answer the same, and `stats` what each of them must read for that.

# %%
folder = course.open_incident("slow_failover")

# %%
course.run_command("kafkagroups diff broker-1 broker-2", folder)
course.run_command("kafkagroups stats broker-1 broker-2", folder)

# %%
# exercise: slow_records, slow_last_cleaning, slow_differences
slow_records = ...
slow_last_cleaning = ...
slow_differences = ...

# %%
course.check("slow_records", slow_records)
course.check("slow_last_cleaning", slow_last_cleaning)
course.check("slow_differences", slow_differences)
# course.hint("slow_records", 1)

# %%
# course.show_worked_solution("slow_failover")

# %% [markdown]
# ## Incident 3: on Monday all bread is printed again
#
# Now offsets are gone. The complaint names the group, so begin with *who*: `timeline` tells the life of a group, with its members, its first commits, and everything that set an offset back or deleted it.

# %%
folder = course.open_incident("empty_monday")

# %%
course.run_command("kafkagroups timeline . --group bread-print", folder)

# %% [markdown]
# A tombstone does not say why it was written, so compare its time with those of other events. *What changed* leads to the other groups: `diff` also compares two moments of one log. What is not in its table has not changed.

# %%
course.run_command("kafkagroups diff . --since-time 2026-03-06T18:00 --until-time 2026-03-09T06:59", folder)

# %%
# exercise: monday_deleted_at, monday_hours, monday_partial, monday_kept
monday_deleted_at = ...
monday_hours = ...
monday_partial = ...
monday_kept = ...

# %%
course.check("monday_deleted_at", monday_deleted_at)
course.check("monday_hours", monday_hours)
course.check("monday_partial", monday_partial)
course.check("monday_kept", monday_kept)
# course.hint("monday_deleted_at", 1)

# %%
# course.show_worked_solution("empty_monday")

# %% [markdown]
# ## Incident 4: the monitor goes dark
#
# This time, the log and the answers are right, and a program that reads the log is wrong. Such a program reads bytes. So ask which kind of record is new, and since when. `stats --by type` counts the records by type and value version, and `dump PARTITION` prints every record with its version, such as `v3`.
#
# If the broker was not a 4.3.1, name its release with `--kafka`, because its rules decide. Up to incident 7, the first command now waits in the cell: remove the `#`.

# %%
folder = course.open_incident("dark_monitor")

# %%
# course.run_command("kafkagroups stats . --kafka 4.1.0 --by type", folder)

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
# ## Reading transactions
#
# For commits in transactions, `explain` has more fates. Here is `fraud-check` from lesson 08:

# %%
shop = course.find_data("harbour/4.3.1")
course.run_command("kafkagroups explain . --group fraud-check --topic payments --partition 0", shop)

# %% [markdown]
# - An `aborted` commit never counts. A `pending` one has no marker yet, and may still count.
# - For an aborted commit, *by* is the marker that aborted it, and otherwise the record that was later in the log.
# - `▼` marks a lower offset than in the record before. The 25 of `9:31`, a commit outside of the transaction, is later in the log than the 30 of the transaction, so it wins, although the marker comes last.
# - `deleted` says that a tombstone of the offset followed, and `hidden` a tombstone of its group.
#
# `timeline` puts a commit in a transaction at its marker, because from there on it counts, or at its own record if it is still pending:

# %%
course.run_command("kafkagroups timeline . --group fraud-check", shop)

# %% [markdown]
# ## Incident 5: 20 GB of parse errors a night
#
# Again, a program that reads the files fails, but no version has changed. So ask who writes in a new way: `stats --by writer` has a line for each way in which a group commits; a `t` in it means *in transactions*.

# %%
folder = course.open_incident("parse_errors")

# %%
# course.run_command("kafkagroups stats . --by writer", folder)

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
# ## On 3.9 and older brokers
#
# Incidents 1 to 3 and 5 can happen on 3.9, too. Incidents 6 and 7 cannot happen on 4.x, so if your brokers run 4.x, you can go on with incident 8.

# %% [markdown]
# ## Incident 6: a lag alarm for a group that does not exist
#
# Two readers of one log, the broker and a monitor, disagree about which groups exist. `load` lists the groups that the broker has, and `stats` all groups in the log. Ask *who* about the groups that only `stats` has.

# %%
folder = course.open_incident("lag_of_the_dead")

# %%
# course.run_command("kafkagroups load . --kafka 3.9.2", folder)

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
# Offsets are gone as in incident 3, but before the retention time was over. Since the log has records of two releases, begin as in incident 4. Then `load --until-time TIME` shows what a broker answered at an earlier moment, and `timeline --retention 7d` tells which deletions were expiries.

# %%
folder = course.open_incident("after_the_upgrade")

# %%
# course.run_command("kafkagroups stats . --kafka 2.8.2 --by type", folder)

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
# ## Two hard ones
#
# Incidents 8 and 9 have more than one cause, and no command waits for you. Both are about offsets in transactions (lesson 08). Incident 8 can happen on 4.x with clients older than 4.0. Of the two causes of incident 9, one exists on 4.x.

# %% [markdown]
# ## Incident 8: process B waits for stable offsets
#
# The complaint says what the broker answers: the offset is *unstable*. So ask where transactions are open, and who would end each of them. `edit --marker` ends a transaction in a copy, so that you can try a remedy.

# %%
folder = course.open_incident("endless_unstable")

# %%
# course.run_command("kafkagroups …", folder)

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
# Here, a running broker and one that loads its log may disagree. Ask *who* about each of the two offsets: each has its own cause. `diff . --coordinators` compares what the classic and the new coordinator answer, and `edit --roll --clean TIME` runs a pass of the cleaner on a copy.

# %%
folder = course.open_incident("offset_goes_back")

# %%
# course.run_command("kafkagroups …", folder)

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
# Several things went wrong in one night, so plan an hour. `check` says which partitions the next broker does not load, and why. A broker cuts a log at a damaged batch; `load --past-damage` also reads what comes after it.

# %%
folder = course.open_incident("dead_cluster")

# %%
# course.run_command("kafkagroups …", folder)

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
# Now bring the groups into the new cluster. In the incident's folder, this command writes a plan:
#
# ```
# kafkagroups rescue plan . --out plan.json
# ```
#
# Does the plan contain everything? `kafkagroups rescue plan --help` lists the options. A plan never overwrites a file, so delete an old plan first. Correct the plan, a file in JSON. Each group in `groups` has `offsets`, which are applied, and `left_out`, which are not. To choose a left-out offset, write its number into `offsets`.

# %% [markdown]
# The next cell starts a new broker (Kafka 4.3.1), applies your plan, and asks the broker for each offset. Without Java, the cell compares your plan with the recorded answers of a real broker.
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
# <details><summary>All ten incidents, with their causes (open it at the end)</summary>
#
# | incident | cause | measure |
# |---|---|---|
# | 1 | The cleaner does not clean the partition. | Mend the error that `log-cleaner.log` names. |
# | 2 | Only one broker cleans its replica; the other one loads a long copy. | The same, before this broker leads. |
# | 3 | The new cluster keeps offsets for two days only. | Raise `offsets.retention.minutes`, then set the offsets. |
# | 4 | The monitor does not know value version 4. | Let it ask the brokers. |
# | 5 | The program reads markers as commits. | Skip control batches. |
# | 6 | 3.9 writes no tombstone of a group whose generation is 0. | The monitor must read the tombstones of offsets, too. |
# | 7 | Commits of old brokers have an expire timestamp, which had passed. | Set the offsets; export them before an upgrade. |
# | 8 | Two hanging transactions, one after the other. | Abort exactly these two. |
# | 9 | One process went back for a commit outside of its transaction, one for a pending offset that outlived its deletion (3.9). | Set both offsets. |
# | 10 | A widened topic, a faulty program, an open transaction and damage, in one night. | The rescue above. |
#
# </details>
#
# ## In five lines
#
# - Ask *where* first: `stats` and `check`.
# - Then ask *who* and *when*: `timeline` tells the story of a group, and `explain` the fate of each record.
# - `load` gives the answers of a broker that has loaded the log.
# - Two logs are better than one. `diff` compares replicas, moments and coordinators.
# - Work on a copy. `edit`, `compact` and `rescue plan` never change their input.

# %% [markdown]
# ## For your consumer
#
# - Log the group id, the generation and the offsets of each commit, to compare them with the broker's log.
# - Commit every few seconds and all partitions together, not after every record.
#
# ## At 3 am
#
# 1. Do the groups begin at wrong positions? Then stop their consumers first, before they commit. Otherwise leave them running. Restart nothing before you know the cause.
# 2. Copy the partition before anybody changes something ([how](../docs/operator.md#how-to-copy-a-partition), or with `kafkagroups pull`).
# 3. `kafkagroups check COPY`: does the next broker load it?
# 4. `kafkagroups report COPY --out report.html`: findings with remedies.
# 5. Only then repair, and first on the copy.
#
# | complaint | first command | what to do |
# |---|---|---|
# | a disk fills, or a failover is slow | `stats` | lessons 10 and 11 |
# | records are read again, or offsets are gone | `timeline --group` | lesson 09 |
# | a monitor or another reader fails | `stats --by type`, `--by writer` | lessons 01 and 03 |
# | `UNSTABLE_OFFSET_COMMIT` does not end | `stats` | lesson 08 |
# | answers differ after a failover | `diff` | lessons 08 and 11 |
# | a partition does not load | `check` | lesson 11 |

# %% [markdown]
# ## What we left out, and why
#
# Networks, disks and quotas cause more incidents than `__consumer_offsets`, but they leave no trace in this log.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
