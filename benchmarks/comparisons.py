"""What is compared: each comparison has a topic and its ways, which are compared with the first one.

All topics are uncompressed logs of magic 2. Those of the other loaders have no transactions: on other logs, only the
package and the brokers would be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from benchmarks.measure import Way
from benchmarks.topics import MANY_GROUPS, Spec
from benchmarks.ways import by_hand, kafka, package, spark

BASE = "package-1"
MILLION = 1_000_000
SMALL_LOAD = "load data/harbour/3.9.2 --coordinator classic"


def run_python(title: str, *words: str) -> Way:
    return Way(title, "", partial(package.run_python, words=words))


WAYS = {
    BASE: Way(
        "kafkagroups, 1 thread",
        "the native engine; a group's offsets become Python objects when you use them",
        package.load,
        True,
    ),
    "package-2": Way("kafkagroups, 2 threads", "", partial(package.load, threads=2), True),
    "package-arrow": Way(
        "kafkagroups, 1 thread, to Arrow", "all columns of all live offsets", package.load_to_arrow, True
    ),
    "package-spark": Way(
        "kafkagroups, Spark local[2]",
        "a warm session; all columns of all live offsets, into Spark's noop sink",
        spark.load,
    ),
    "spread": Way("the same groups in 50 partitions", "", package.load_spread, True),
    "package-python": Way(
        "kafkagroups, readable engine",
        "",
        partial(package.load, engine="python"),
        True,
    ),
    "naive": Way(
        "Python, struct and dict",
        "a loop as a user would write it; ignores transactions",
        by_hand.load,
        True,
    ),
    "kafka-classes": Way(
        "Kafka 3.9.2's classes, Java 17",
        "a warm JVM, one thread; the classic loader's loop; checks no checksum, as a broker's load",
        kafka.load_with_classes,
    ),
    "broker-3.9.2": Way(
        "broker 3.9.2, classic coordinator",
        "the time in “Finished loading” of its own log, with a cold JVM; 4.3.1 too",
        partial(kafka.load_with_broker, version="3.9.2"),
    ),
    "broker-4.3.1": Way("broker 4.3.1, new coordinator", "", partial(kafka.load_with_broker, version="4.3.1")),
    "stats": Way("kafkagroups stats", "", package.ask_stats, True),
    "check": Way("kafkagroups check", "", package.ask_check, True),
    "explain": Way("kafkagroups explain", "", package.ask_explain, True),
    "fates": Way("the table fates, to Arrow", "", package.list_fates, True),
    "dump-script": Way(
        "kafka-dump-log 4.3.1, piped into a script",
        "a new process, and a script that counts the records of all groups",
        kafka.count_groups_in_dump,
    ),
    "compact": Way("kafkagroups compact", "", package.compact, True),
    "kafka-cleaner": Way(
        "Kafka 4.3.1's Cleaner", "a warm JVM, without the time in which Kafka opens the log", kafka.compact
    ),
    "dump": Way("kafkagroups dump --format dump-log", "", package.dump),
    "dump-log": Way("kafka-dump-log 4.3.1", "with --offsets-decoder --print-data-log", kafka.dump),
    "nothing": run_python("python -c pass", "-c", "pass"),
    "import": run_python("python -c 'import kafkagroups'", "-c", "import kafkagroups"),
    "small": run_python("kafkagroups load, a small shop's log", "-m", "kafkagroups", *SMALL_LOAD.split()),
    "process": run_python(
        "python -c 'import kafkagroups; kafkagroups.load(…)'",
        "-c",
        "import kafkagroups, sys; kafkagroups.load(sys.argv[1])",
        "LOG",
    ),
    "process-json": run_python("kafkagroups load --json", "-m", "kafkagroups", "load", "--json", "LOG"),
}


@dataclass(frozen=True)
class Comparison:
    name: str
    topic: Spec
    ways: tuple[str, ...]


MAIN = "50 partitions"
LARGER = "50 partitions, for Spark"
ONE = "1 partition"
ON_SPARK_FROM = 3 * MILLION
"""A Spark job needs 0.2 s before it reads anything. With a smaller log, one would measure little else."""


def plan(records: int) -> list[Comparison]:
    """Return the comparisons of a run with topics of so many records. Slow ways and questions need no large one."""
    ways: tuple[str, ...] = (BASE, "package-2")
    if records >= ON_SPARK_FROM:
        ways += ("package-spark",)
    if records <= 10 * MILLION:
        ways += ("package-arrow", "naive", "kafka-classes")
    if records < ON_SPARK_FROM:
        ways += ("package-python",)
    found = [Comparison(MAIN, Spec(records, 50), ways)]
    if records < ON_SPARK_FROM:
        found.append(Comparison(LARGER, Spec(ON_SPARK_FROM, 50), (BASE, "package-2", "package-spark")))
    if records <= 10 * MILLION:
        ways = (BASE, "package-arrow", "kafka-classes", "broker-3.9.2", "broker-4.3.1")
        found.append(Comparison(ONE, Spec(records, 1), ways))
    if records < ON_SPARK_FROM:
        # About ten segments, because the cleaner does not clean the last one.
        segmented = Spec(records, 1, segment_bytes=13 * records)
        transactional = Spec(records, 1, transactional=0.3)
        found += [
            Comparison("hot", Spec(records, 1, MANY_GROUPS), (BASE, "spread")),
            Comparison("questions", segmented, (BASE, "stats", "check", "explain", "fates", "dump-script")),
            Comparison("questions, transactions", transactional, (BASE, "stats", "check", "explain", "fates")),
            Comparison("dump", segmented, ("dump", "dump-log")),
            Comparison("compact", segmented, ("compact", "kafka-cleaner")),
            Comparison("processes", Spec(records, 50), ("nothing", "import", "small", "process", "process-json")),
        ]
    return found
