# %% [markdown]
# # 14 · Forensics
#
# **Something went wrong at night. What does the log say?**
#
# **Which Kafka:** each incident names the release of its broker, because the rules of that release decide (`--kafka`). Six of the ten also fit brokers of 4.x.
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find the cause of an incident in the bytes of `__consumer_offsets`, say what to do, and prevent the next one | 10 to 30 for each incident | only the last incident, if you want to see a real broker |
#
# ![Four questions about a log: where, who, what does a broker answer, what changed.](pictures/14.svg)

# %% [markdown]
# Four questions find most causes. Ask them in this order, about a copy of a broker's folder. (Without access to the disks, `kafkagroups pull --bootstrap BROKER --out pulled` makes the copy.)
#
# | question | command |
# |---|---|
# | 1. **Where** is it? Which partition, which group? | `kafkagroups stats .` and `kafkagroups check .` |
# | 2. **Who** wrote it, and when? | `kafkagroups timeline . --group GROUP` and `kafkagroups explain . --group GROUP` |
# | 3. What does a **broker answer** from this log? | `kafkagroups load . --group GROUP` |
# | 4. **What changed**? Compare two moments, two replicas or two coordinators. | `kafkagroups diff A B` |
#
# `kafkagroups dump PARTITION` prints every record, if nothing else helps.

# %% [markdown]
# ## How an incident works
#
# 1. `course.open_incident(…)` writes a log into a new folder next to this notebook, and shows what people saw.
# 2. Find the cause with commands: in a terminal in the incident's folder, or with `course.run_command(…)` in a cell.
# 3. Write your answers into the cells, and run the check. There are three hints: `course.hint("NAME", 1)` to `course.hint("NAME", 3)`.
# 4. `course.show_worked_solution(…)` shows one way to the cause.
#
# You can stop after each incident. The first three begin with a command, for 4 to 7 the command waits in the cell, and in 8 to 10 you choose. In level 3, there is more than one cause.
#
# | incident | level | for | log of | if your brokers run 4.x |
# |---|---|---|---|---|
# | 1 · One partition fills the disk | 1 | operators | 3.9.2 | same answers |
# | 2 · Some failovers take hours | 1 | operators | 3.9.2 | same answers |
# | 3 · Printed again on Monday | 1 | developers | 3.9.2 | same answers |
# | 4 · A lag alarm | 2 | developers | 3.9.2 | cannot happen |
# | 5 · After the upgrade | 2 | operators | 2.8.2 | cannot happen |
# | 6 · The monitor goes dark | 2 | both | 4.1.0 | take it |
# | 7 · Parse errors | 2 | developers | 3.9.2 | same answers |
# | 8 · Unstable offsets | 3 | developers | 3.9.2 | refused by 4.x with clients of 4.x |
# | 9 · Offsets go back | 3 | developers | 3.9.2 | one of two causes cannot happen |
# | 10 · The dead cluster | 3 | operators | 4.0.1 | take it |
#
# Before you open a worked solution, ask yourself: *what do you do now, and what must you not do?* It ends with the measures that we would take.

# %%
from kafkagroups import course

# %% [markdown]
# ## Incident 1: one partition fills the disk

# %%
folder = course.open_incident("growing_partition")

# %% [markdown]
# The command prints a finding and three tables:
#
# 1. one line for each partition,
# 2. one line for each group: a **live** record still counts, and a **dead** one has been replaced or deleted,
# 3. the cleaner: where the next pass stops and why, how many bytes it could free, and up to which offset and when the partition was cleaned. `-` means that the log shows no trace of a pass.
#
# Read only what a question needs.

# %%
course.run_command("kafkagroups stats . --kafka 3.9.2", folder)

# %%
# exercise: growing_group, growing_live_records, growing_removed_records
growing_group = ...
growing_live_records = ...
growing_removed_records = ...

# %%
course.check("growing_group", growing_group)
course.check("growing_live_records", growing_live_records)
course.check("growing_removed_records", growing_removed_records)
# course.hint("growing_group", 1)

# %%
# course.show_worked_solution("growing_partition")

# %% [markdown]
# ## Reading `timeline` and `explain`
#
# The next incidents need two more commands. `timeline` prints the events of a group, here of `fraud-check` from lesson 08. `9:25` is offset 25 in partition 9 of `__consumer_offsets`:

# %%
shop = course.find_data("harbour/4.3.1")
course.run_command("kafkagroups timeline . --group fraud-check", shop)

# %% [markdown]
# Line `9:32`: the transaction of producer 1 wanted 30, but the plain commit of 25 is later in the log, so 25 stays.
#
# `explain` prints each record, and what became of it (its *fate*):
#
# - **wins**: a broker answers from this record.
# - **superseded**: a later record of the same key counts.
# - **aborted**, **pending**: the transaction was aborted, or has no marker yet.
# - **deleted**, **hidden**: a tombstone of this offset, or of its group, followed.
#
# The column *by* names the record that decided: `31` is `9:31`. `▼` means that the offset went back. For a transaction, `timeline` shows where the marker is, because the offset counts from there on, and `explain` shows where the record is.

# %%
course.run_command("kafkagroups explain . --group fraud-check --topic payments --partition 0", shop)

# %% [markdown]
# ## Options that decide
#
# | option | what it is for |
# |---|---|
# | `--kafka 3.9.2` | The rules of the broker that had the log. Without it, the rules are those of 4.3.1. |
# | `timeline --retention 7d` | With it, `timeline` shows whether an offset expired or was deleted by a request. |
# | `stats --by type`, `stats --by writer` | Counts value versions, or who commits: members, clients without a member, transactions (`t`). |
# | `load --until-time TIME` | What a broker answered at an earlier time. |
# | `diff . --coordinators` | Compares the answers of the newest 4.x and of 3.9. |
# | `load --past-damage` | Also reads what is behind a damaged batch. |
#
# `--help` has examples.

# %% [markdown]
# ## Incident 2: some failovers take hours

# %%
folder = course.open_incident("slow_failover")

# %%
course.run_command("kafkagroups stats broker-1 broker-2 --kafka 3.9.2", folder)

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

# %%
folder = course.open_incident("empty_monday")

# %%
course.run_command("kafkagroups timeline . --group bread-print --kafka 3.9.2", folder)

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
# ## Incident 4: a lag alarm for a group that does not exist

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
# ## Incident 5: offsets are gone after the upgrade

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
# ## Incident 6: the monitor goes dark

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
# ## Incident 7: 20 GB of parse errors a night

# %%
folder = course.open_incident("parse_errors")

# %%
# course.run_command("kafkagroups stats . --kafka 3.9.2 --by writer", folder)

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
# ## Incident 8: process B waits for stable offsets

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
# This is the hardest incident: several causes came together. Plan an hour for it.

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
# The four numbers are the diagnosis. Now bring the groups into the new cluster. Run this command in the incident's folder. It writes a plan:
#
# ```
# kafkagroups rescue plan . --out plan.json
# ```
#
# Does the plan contain everything? `kafkagroups rescue plan --help` lists the options. A plan never overwrites a file, so delete an old plan first. The plan is a text file in JSON: correct it with an editor or with Python. Each group in `groups` has `offsets`, which are applied, and `left_out`, which are not. To choose a left-out offset, write its number into `offsets`.

# %% [markdown]
# The next cell starts a new broker (Kafka 4.3.1), applies your plan, and asks the broker for each offset. That takes about 20 seconds. Without Java, the cell compares your plan with the recorded answers of a real broker.
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
# ## In five lines
#
# - Ask *where* first: `stats` and `check`.
# - Then ask *who* and *when*: `timeline` tells the story of a group, and `explain` the fate of each record.
# - A broker answers what its log says. `load` gives the same answer without a broker.
# - Two logs are better than one. `diff` compares replicas, moments and coordinators.
# - Work on a copy. `edit`, `compact` and `rescue plan` never change their input.

# %% [markdown]
# ## For your consumer
#
# - Log the group id, the generation and the offsets of each commit, to compare them with the broker's log.
# - Commit every few seconds and all partitions together, not after every record.
# - Decide what happens without a committed offset (`auto.offset.reset`).
#
# ## At 3 am
#
# 1. Do the groups begin at wrong positions? Then stop their consumers first, before they commit. Otherwise leave them running, and restart nothing.
# 2. Copy the partition before anybody changes something ([how](../docs/operator.md#how-to-copy-a-partition)).
# 3. `kafkagroups check COPY`: does the next broker load it?
# 4. `kafkagroups report COPY --out report.html`: findings with remedies, to send to a colleague.
# 5. Only then repair, and first on the copy.
#
# <details><summary>In Kafka</summary>
#
# | you need | Kafka's own tool |
# |---|---|
# | every record of a segment | `kafka-dump-log.sh --offsets-decoder` |
# | commits while they are written | `kafka-console-consumer.sh` with the `OffsetsMessageFormatter` |
# | groups, members and lag | `kafka-consumer-groups.sh --describe` |
# | open transactions, and how to end them | `kafka-transactions.sh` |
#
# </details>

# %% [markdown]
# ## What we left out, and why
#
# Networks, disks and quotas cause more incidents than `__consumer_offsets`, but they leave no trace in this log.
#
# The [glossary](../docs/handbook/glossary.md) explains all terms.
#
# This was the last lesson.
