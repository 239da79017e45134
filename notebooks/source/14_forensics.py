# %% [markdown]
# # 14 · Forensics
#
# **Something went wrong at night. What does the log say?**
#
# | after this lesson you can | estimated minutes | needs Java |
# |---|---|---|
# | find the cause of an incident in the bytes of `__consumer_offsets`, say what to do, and prevent the next one | 10 to 30 for each incident | only the last incident, if you want to see a real broker |
#
# ![Four questions about a log: where, who, what does a broker answer, what changed.](pictures/14.svg)

# %% [markdown]
# Four questions find most causes. Ask them in this order:
#
# | question | command |
# |---|---|
# | 1. **Where** is it? Which partition, which group? | `kafkagroups stats .` and `kafkagroups check .` |
# | 2. **Who** wrote it, and when? | `kafkagroups timeline . GROUP` and `kafkagroups explain . GROUP` |
# | 3. What does a **broker answer** from this log? | `kafkagroups load . --group GROUP` |
# | 4. **What changed**? Compare two moments, two replicas or two coordinators. | `kafkagroups diff A B` |
#
# `kafkagroups dump PARTITION` prints every record, if nothing else helps.

# %% [markdown]
# ## How an incident works
#
# 1. `course.open_incident(…)` writes a log into a folder next to this notebook, and shows what people saw.
# 2. Find the cause with commands: in a terminal in this folder, or with `course.run_command(…)` in a cell.
# 3. Write your answers into the cells, and run the check.
# 4. Each incident has three hints: `course.hint("NAME", 1)` to `course.hint("NAME", 3)`.
# 5. `course.show_worked_solution(…)` shows one way to the cause, and what prevents the next incident.
#
# The incidents have three levels. You can stop after each incident.

# %%
from kafkagroups import course

# %% [markdown]
# ## Incident 1: one partition fills the disk

# %%
folder = course.open_incident("growing_partition")

# %% [markdown]
# The first command is given. Add yours.

# %%
course.run_command("kafkagroups stats .", folder)

# %%
# exercise: growing_group
growing_group = ...

# %%
# exercise: growing_live_records
growing_live_records = ...

# %%
# exercise: growing_was_cleaned
growing_was_cleaned = ...

# %%
course.check("growing_group", growing_group)
course.check("growing_live_records", growing_live_records)
course.check("growing_was_cleaned", growing_was_cleaned)
# course.hint("growing_group", 1)

# %%
# course.show_worked_solution("growing_partition")
