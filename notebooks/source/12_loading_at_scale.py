# %% [markdown]
# # 12 · Loading at scale
#
# **Replay is a fold. When may it be split, and does it pay?**
#
# | after this lesson you can | minutes (reading + doing) | needs Java |
# |---|---|---|
# | say which fold may be cut into parts and joined again and which may not, show it with four records, choose between a loop, a compiled loader and Spark by measuring, go on from a snapshot | 30 + 25 | two cells |
#
# ```
#  one reader                     many readers, any fold              many readers, only a mergeable fold
#
#  │0 1 2 3 4 5 6 7│ ──▶ answer    partition 0 ──▶ its answer ─┐       │0 1│ ──▶ part ─┐
#                                  partition 1 ──▶ its answer ─┼▶ all  │2 3│ ──▶ part ─┼─▶ merge ──▶ answer
#                                  partition 2 ──▶ its answer ─┘       │4 5│ ──▶ part ─┘
# ```
#
# Five things to hold on to:
#
# 1. Loading is a **fold**: a state, a record, the next state; from the first record to the last.
# 2. A fold may be split where its parts can be **merged**, in any grouping and any order. A maximum can. "What is there now?" can't.
# 3. The new coordinator's offsets are a maximum, once it is known which transactions were committed. The classic one's are not.
# 4. A group lives in **one** partition. So whoever reads a whole partition needs nobody else, whatever the rule: no merge at all.
# 5. Measure first. For one topic, read once, one process beats a cluster nearly always.
#
# (At its first run on a machine the lesson compiles, for up to half a minute.)

# %% [markdown]
# ## A fold
#
# In lesson 11 you wrote a loop over lines. Taken apart, it is a function of two arguments, and Python's `reduce` does the walking. Here is what became of `mailer`
# on the 4.3.1 broker: partition 12, from its first commit to its deletion.

# %%
import json
import random
from functools import partial, reduce
from math import ceil
from pathlib import Path
from struct import unpack_from

import kafkagroups as kg
from kafkagroups import course, synth
from kafkagroups.api import loaded_columns
from kafkagroups.loading import snapshots


def step(offsets, line):
    key = line.group, line.partition
    if line.record_type == "offset" and line.value is None:
        offsets.pop(key, None)
    elif line.record_type == "offset":
        offsets[key] = line.value
    return offsets


mailer = course.read_lines(course.find_data("harbour/4.3.1/__consumer_offsets-12"))
print(*mailer, sep="\n")
print("\nwhat counts at the end:", reduce(step, mailer, {}))

# %% [markdown]
# Now two machines are to share the work. One folds the first five lines, the other the last five, and the second dictionary is laid over the first.
# *Predict*: how many offsets does `mailer` have then?

# %%
# prediction
offsets_of_mailer = ...

# %%
first, second = reduce(step, mailer[:5], {}), reduce(step, mailer[5:], {})
course.compare_with_prediction(offsets_of_mailer, len(first | second))

# %% [markdown]
# The dead came back. The second machine met three tombstones, had nothing to remove, and forgot them. A **part** of a log has to know more than an answer
# does: that something was removed, and where each thing stood, in case the parts arrive in another order.
#
# Write `merge(left, right)`. Both are dictionaries: a key, and a pair of the line's place and its value, `(at, value)`; a value of `None` is a tombstone. Return what both say together.
# Which of the two is the earlier part, nobody tells you.

# %%
# exercise: merge
def merge(left, right):
    ...

# %%
course.check("merge", merge)
# course.hint("merge")
merge = course.ensure_correct("merge", merge)

# %% [markdown]
# It is a maximum, by `at`. `merge(a, b)` is `merge(b, a)`, and whether you merge *a* with *b* first or *b* with *c* is all one: in the words of algebra it is
# **commutative** and **associative**. Nothing more is needed to spread a fold over any number of machines.
#
# ## Transactions first
#
# One thing is missing. An offset with a producer counts only if that producer's next marker commits, and the marker may lie in another machine's part. But
# markers are few. So they are collected first and told to everybody; then each line knows by itself whether it counts:

# %%
def changes(lines):
    """What counts, commits and tombstones, each as a part of its own: {key: (at, value)}."""
    markers = [line for line in lines if line.record_type in ("commit", "abort")]
    for line in lines:
        if line.record_type == "offset":
            fate = "commit"
            if line.producer is not None and line.value is not None:
                fate = next((end.record_type for end in markers if end.producer == line.producer and end.record_offset > line.record_offset), None)
            if fate == "commit":
                yield {(line.group, line.partition): (line.record_offset, line.value)}


def in_any_order(parts, seed):
    """Merges any two, until one is left."""
    dice, parts = random.Random(seed), list(parts)
    while len(parts) > 1:
        dice.shuffle(parts)
        parts.append(merge(parts.pop(), parts.pop()))
    return {key: value for key, (at, value) in parts[0].items() if value is not None}


logs = sorted(Path(course.find_data("harbour/4.3.1")).glob("__consumer_offsets-*"))
parts = [part for log in logs for part in changes(course.read_lines(log))]
print(len(parts), "parts, merged in 20 orders:", len({str(sorted(in_any_order(parts, seed).items())) for seed in range(20)}), "answer")

said = json.loads(Path(course.find_data("harbour/4.3.1/answers.json")).read_text())["offsets"]
theirs = {(group, name): there["offset"] for group, offsets in said.items() for name, there in offsets.items()}
course.compare_with_broker(in_any_order(parts, 0), theirs, "4.3.1")

# %% [markdown]
# However they are shuffled: the answer of the broker, who read them in order. Kafka's **new** coordinator may be split like that. (Of groups
# the newest record counts, which is a maximum too. A group's tombstone hides its offsets until a newer record of it: two maxima, compared.)
#
# ## The classic one needs the order
#
# The classic coordinator of 3.9 and before nearly does the same. Nearly: find the log where it does not. As in lesson 10, a letter is a batch about one offset of one group:
#
# | letter | what |
# |---|---|
# | `C` | a plain commit |
# | `X` | a commit in a transaction |
# | `M`, `A` | that transaction's marker: it commits, it aborts |
# | `T` | the offset's tombstone |
#
# The number that is committed is 100 plus the letter's place: in `CXT` the 101 stands in a transaction that nobody has ended.

# %%
def maximum(letters):
    """What the fold of the parts says of that one offset."""
    log = course.write_small_log(course.make_scratch_folder(), letters)
    return in_any_order(changes(course.read_lines(log)), seed=0).get(("g", "t-0"))


for letters in ["CX", "CXM", "XCM", "CXA", "CT"]:
    [classic], [new] = (course.load_small_log(letters, coordinator, passes=0) for coordinator in ["classic", "new"])
    print(f"{letters:<5} the maximum: {maximum(letters)!s:<5} new: {new!s:<5} classic: {classic}")

# %% [markdown]
# All agree; also on `XCM`, which broke the kitchen's board in lesson 11. Now you: **a log of at most four letters on which the classic coordinator answers something else.** By hand, with a
# pencil: when does it look at an `X`, and what does it compare it with *then*? (Give it in quotes, like `"CXA"`.)

# %%
# exercise: counterexample
counterexample = ...

# %%
course.check("counterexample", counterexample)
# course.hint("counterexample")

# %% [markdown]
# Three letters are enough, `XTM`. Four make a story that a broker really writes: an offset was committed, a transaction offers a newer one, somebody deletes the offset, and then the
# transaction commits.

# %%
for letters in ["CXTM", "CXMT"]:
    [classic], [new] = (course.load_small_log(letters, coordinator, passes=0) for coordinator in ["classic", "new"])
    print(f"{letters}  the maximum: {maximum(letters)!s:<5} new: {new!s:<5} classic: {classic}")

course.LoadStepper(str(course.write_small_log(course.make_scratch_folder(), "CXTM")), "classic")

# %% [markdown]
# The same records, and only the marker has moved. For a maximum that is nothing: the tombstone stands behind both commits, and is the newest. The classic coordinator decides about the `X`
# **when the marker comes**, and compares it with what is there at that moment: *is it older?* (`olderThan`, by the base offsets of the two batches). In `CXTM` nothing is there any more.
# Its answer hangs on where the marker stands among the others; so no part of the log can be folded without the part before it.
#
# It is not the transactions that forbid the splitting, nor the tombstones. It is a rule that asks for the **state** and not for the records. (One more such: a tombstone inside a transaction removes
# at once under the new coordinator; under the classic one it takes only what the same transaction has pending. No client can write one.)
#
# ## Nobody has to merge
#
# All this for one partition. But the topic has fifty, and lesson 02 said: a group lives in one of them, by the hash of its name. So give each task **whole partitions**,
# and let it read them from begin to end, in order:
#
# - any fold will do, the classic one as well;
# - its answer is final: nothing is sent from task to task (no *shuffle*), nothing is merged;
# - and no task ever waits for another.
#
# The price: a partition is never split. Here is a topic of a million records, of a thousand groups of which, as in life, few are busy and most are not.

# %%
topic = course.make_scratch_folder() / "topic"
written = synth.write(topic, 1_000_000, groups=1000, keys=100, width=None, generations=0.01, segment_bytes=200_000, seed=10)

records = {int(number): partition["records"] for number, partition in written["partitions"].items()}
largest, middle = max(records, key=records.get), sorted(records, key=records.get)[25]
print(f"{sum(records.values()):,} records in {len(records)} partitions, {written['live_offsets']:,} offsets are alive")
print(f"the largest partition, {largest}: {records[largest]:,} records; one in the middle, {middle}: {records[middle]:,}")

# %% [markdown]
# *Predict*: a task takes whole partitions. How many cores can help at most, before all wait for the one with the largest?

# %%
# prediction
cores_that_help = ...

# %%
course.compare_with_prediction(cores_that_help, ceil(sum(records.values()) / records[largest]))

# %% [markdown]
# More cores, or more machines, would stand about. (A broker does not even have several: one thread loads its partitions, one after the other.)
# Could one not split a partition at least for the new coordinator? It was tried, on Spark and ten million records, and was nearly five times *slower*: of what a part held two thirds were still alive at
# its end, so two thirds of the log went through the merge. Mergeable means that one may. It does not mean that it pays.
#
# ## The race
#
# First a loop as one writes it in an afternoon, from what you know of lessons 01 and 03. No checksums, no transactions, no groups, no compression:

# %%
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def text(data, at):
    (size,) = unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size


def by_hand(partition):
    offsets = {}
    for segment in kg.open_log(partition).segments:
        data, at = Path(segment).read_bytes(), 0
        while at < len(data):
            end = at + 12 + unpack_from(">i", data, at + 8)[0]
            at += 61  # the batch's header
            while at < end:
                size, at = varint(data, at)
                behind = at + size
                _, at = varint(data, at + 1)  # attributes, time
                _, at = varint(data, at)  # offset
                size, at = varint(data, at)
                key, at = data[at : at + size], at + size
                size, at = varint(data, at)
                if key[1] <= 1:  # types 0 and 1: an offset
                    group, there = text(key, 2)
                    name, there = text(key, there)
                    key = group, name, unpack_from(">i", key, there)[0]
                    if size < 0:
                        offsets.pop(key, None)
                    else:
                        offsets[key] = unpack_from(">q", data, at + 2)[0]
                at = behind
    return offsets

# %% [markdown]
# The bars tell what a **million** records take. The two slow ones run over a part and are scaled; that flatters them a little, for a small dictionary is quick. *least of three* is fair:
# it is what the machine can do when nobody disturbs it. Each has to find as many offsets as the others, or its bar is worth nothing.
#
# Kafka's own dump tool, the thing one has at hand at night, is not run here: it needs Kafka's jars. Its bar is *quoted* from the benchmark (`docs/performance.md`), which ran it on another machine and
# one partition.

# %%
race = course.LoadTimes()

mine = race.measure("your loop, in Python", lambda: by_hand(topic / f"__consumer_offsets-{largest}"), records[largest])
read = race.measure("kg.load, the loader to read", lambda: kg.load(topic / f"__consumer_offsets-{middle}", engine="python"), records[middle])

whole = partial(kg.load, topic, engine="compiled")
once = course.measure_seconds(whole, rounds=1)
one = race.measure("kg.load, compiled, 1 thread", lambda: whole(threads=1), rounds=3)
two = race.measure("kg.load, compiled, 2 threads", lambda: whole(threads=2), rounds=3)
table = race.measure("1 thread, and Arrow columns of all", lambda: loaded_columns(whole(threads=1), "offsets").read_all(), rounds=3)


def count(groups):
    return sum(len(group.offsets) for group in groups.values())


print("offsets of the largest partition:", len(mine), "by your loop,", count(kg.load(topic / f"__consumer_offsets-{largest}")), "by the package")
print("offsets of all:", count(one), count(two), table.num_rows, "and as the generator knows:", written["live_offsets"])
print(f"the very first compiled load, with the compiler or its cache: {once:.2f} s")
race.add_benchmark("kafka-dump-log 4.3.1", "dump-log")
race

# %% [markdown]
# The compiled loader does everything that your loop leaves out: checksums, transactions, groups, the odd layouts of old versions. It is the readable one's twin, and tests hold the two equal. What it does
# not do is make an object for each record only to throw it away; and where it must wait for memory, it asks for the next keys meanwhile. (Objects for what is left it makes when somebody looks. The bar with *Arrow columns*
# has them all made: that is what Spark is going to do, too.)
#
# The **first** load is another matter: numba compiles, once on each machine, for some seconds up to half a minute, and every new process takes a while to fetch the machine code. So `engine="auto"`
# leaves logs below 16 MB to the readable loader. And a second thread gains little at a million: what Python does for each partition and group, one thread at a time, takes as long as the fold.
#
# ## On Spark
#
# The same task, whole partitions, on Spark's workers; here two on your own machine. `spark.read` only *plans*; the work is done when somebody wants rows. The sink `noop` takes them and does nothing.

# %% tags=["java"]
from kafkagroups import spark as kgs

try:
    spark = kgs.session("local[2]")
    kgs.register(spark)
    table = spark.read.format("consumer_offsets").option("table", "offsets").load(str(topic))
    race.measure("Spark local[2], its first job", lambda: table.write.format("noop").mode("overwrite").save())
    race.measure("Spark local[2], warm", lambda: table.write.format("noop").mode("overwrite").save(), rounds=2)
    print("offsets of all, by Spark:", table.count())
except kg.UsageError as error:
    print(f"No Spark here: {error}")

race

# %% [markdown]
# Warm, the same compiled code runs in its workers, and most of what you see is the job itself: some tenths of a second before anything is read. The longer the log, the less that matters. The first job
# pays more: Python workers, their imports, the machine code in each. And the session alone took longer to start than the whole load takes without it.
#
# Spark can do the *mergeable* fold too, in its own words and without a line of our loader. `kafkagroups/spark/steps.py` is that, to be read: commits, markers, tombstones, the join of the first two, and the
# maximum `max_by(…, record_offset)`. Spark itself splits that into partial maxima and a merge. It knows the new coordinator's rule only; you know why. Here are the steps on partition 9 of the shop:

# %% tags=["java"]
from kafkagroups.spark import steps

try:
    nine = course.find_data("harbour/4.3.1/__consumer_offsets-9")
    spark = kgs.session("local[2]")
    kgs.register(spark)
    table = spark.read.format("consumer_offsets").option("table", "records").load(nine).persist()
    commits, markers, tombstones = steps.select_commits(table), steps.select_markers(table), steps.select_tombstones(table)

    decided = steps.add_fate(commits, markers)
    for row in decided.where("group = 'fraud-check'").orderBy("record_offset").collect():
        print(f"{row.record_offset}: {row.topic}-{row.topic_partition} = {row.committed_offset}, fate: {row.fate}")

    rows = steps.find_newest_commits(decided, tombstones).collect()
    found = {(row.group, f"{row.topic}-{row.topic_partition}"): row.committed_offset for row in rows}
    course.compare_with_broker(found, {key: offset for key, offset in theirs.items() if key[0] in ("billing", "fraud-check")}, "4.3.1")
    spark.stop()
except kg.UsageError as error:
    print(f"No Spark here: {error}")

# %% [markdown]
# ## When one process is enough
#
# Nearly always.
#
# | you want | take | why |
# |---|---|---|
# | one answer from a topic of some gigabytes, now | `kafkagroups load` | it is done before Spark's Java has started |
# | the same every minute | a snapshot, below | only what is new is read |
# | a topic that one disk or one evening does not hold, or that lies in an object store | Spark | many machines read at once; each a whole partition |
# | the offsets *joined* with something, in tables that live in Spark | Spark | they are there already, and stay |
# | one enormous partition | one process | nobody can help it |
#
# How does cost grow? Here is what the benchmark measured on one machine (`make bench` does it on yours). Both axes are logarithmic: a straight line that climbs one square a square is *twice as much, twice as long*.

# %%
course.BenchmarkCurves()

# %% [markdown]
# ## How long would a hundred million take?
#
# Every way pays a **start** once, and then for **each record**. Two measurements tell both. Write `milliseconds(small, large, records)`: `small` and `large` are
# pairs of records and milliseconds; what do so many `records` take? Return a whole number, by `round`.

# %%
# exercise: milliseconds
def milliseconds(small, large, records):
    ...

# %%
course.check("milliseconds", milliseconds)
# course.hint("milliseconds")
milliseconds = course.ensure_correct("milliseconds", milliseconds)

# %%
times = [batch.max_timestamp for batch in kg.open_log(topic / f"__consumer_offsets-{largest}")]
tenth = partial(whole, threads=1, until_time=times[len(times) // 10])

small = sum(partition.records for partition in tenth().partitions.values()), 1000 * course.measure_seconds(tenth, rounds=9)
large = sum(records.values()), 1000 * course.measure_seconds(partial(whole, threads=1), rounds=9)
print(f"the first {small[0]:,} records in {small[1] / 1000:.3f} s, all {large[0]:,} in {large[1] / 1000:.3f} s")
print(f"so 100 million in {milliseconds(small, large, 100_000_000) / 1000:.1f} s, says the line")

# %% [markdown]
# Compare with the curves, and mind what a straight line does not know. More **live keys** make a record dearer, for its key has to be found among more, in memory that no cache holds; the same keys
# written more often do not. On a busy machine two short measurements say little of a long one. And from a disk, not from memory, every fast way is as fast as the disk.
#
# ## Going on instead of reading again
#
# A fold has a state. So it can stop, be put away, and go on: that needs no merge, only the order, and works for both coordinators. A **snapshot** is the state of each partition
# and its next offset. Below, *yesterday* is the topic without the newest segment of each partition:

# %%
yesterday, state = course.link_older_segments(topic), course.make_scratch_folder() / "state"

before = snapshots.take_snapshot(yesterday)
before.save(state)
print(f"saved: {len(list(state.iterdir()))} files, {sum(file.stat().st_size for file in state.iterdir()) // 1_000_000} MB")


def go_on():
    return snapshots.Snapshot.read(state).advance(topic)


after = go_on()
read_before, read_after = (sum(each.next_offsets.values()) for each in [before, after])
print(f"yesterday {read_before:,} records were read, today {read_after - read_before:,} more")

differ = kg.diff(after.groups(), kg.load(topic))
print("and what a load of everything says:", {what: len(groups) for what, groups in differ.items() if groups} or "no difference")

print(f"\nread the snapshot and go on: {course.measure_seconds(go_on):.2f} s")
print(f"load everything: {course.measure_seconds(whole):.2f} s")

# %% [markdown]
# Hardly a gain here, if any! A snapshot costs by what is **alive**, a load by what was **written**. In this topic a key was written eleven times; read a snapshot of that, and
# you have read a good part of the log. Where a cleaner is late and each key was written a thousand times, or where the log lies behind a network, it is the other way round. Measure first.
#
# ## In Kafka
#
# | what | where |
# |---|---|
# | one thread loads all partitions, one after the other | `new KafkaScheduler(1)` in `GroupMetadataManager` and, for the new coordinator, in `CoordinatorLoaderImpl` (both 3.9) |
# | is it older? by the batches' base offsets | `CommitRecordMetadataAndOffset.olderThan` (3.9.2) |
# | is it older? by the record's own offset | `OffsetMetadataManager.replayEndTransactionMarker` (4.3.1) |
# | a tombstone takes what is pending too | `OffsetMetadataManager.replay` (4.3.1) |
# | snapshots | none: a coordinator starts at the log's beginning; the cleaner keeps that short. (The controller's log, KRaft, has them.) |
#
# ## What we left out, and why
#
# Spark on several machines: the same code, and the tests kill an executor on the way; a laptop can't show it. A stream that keeps the answer current: a snapshot that advances whenever
# a segment grows. How the compiled loader works inside: `kafkagroups/kernels/` begins with its table and says why it waits for memory as little as it does.
#
# **Next:** lesson 14, *forensics*, is to come: eight nights, each a folder of segments and a complaint. You have all the tools.
