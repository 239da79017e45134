"""The tour of `make demo`: a record of a real broker, a shop's groups on three brokers, a million records on Spark.

python tools/demo.py [RECORDS]      ends by itself after half a minute; without Java, it says so and leaves out Spark
"""

import json
import os
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

import kafkagroups as kg
from kafkagroups import spark as kgs, synth
from kafkagroups.cli import main as kafkagroups
from kafkagroups.cli.output import print_table, progress_bar
from kafkagroups.groups.group import Group
from kafkagroups.spark.session import NoJava, find_java

HARBOUR = Path("data/harbour")
BROKERS = {"1.0.1": "classic", "3.9.2": "classic", "4.3.1": "new"}
PARTITIONS = 50
TASKS = 25


def print_title(text: str) -> None:
    Console().print(f"\n[bold]{text}[/bold]\n", soft_wrap=True)


def show_record() -> None:
    print_title(
        "1. A record, as a broker of Kafka 1.0.1 wrote it: the offset of the group billing in a partition of orders"
    )
    log = kg.open_log(HARBOUR / "1.0.1" / "__consumer_offsets-9")
    record = next(record for batch in log for record in batch.records if record.value and record.key[:2] == b"\0\1")
    print(f"key    {record.key.hex()}\nvalue  {record.value.hex()}\n")
    kafkagroups(["decode", record.key.hex(), record.value.hex()])
    print("\nand as Kafka's own tools print it:\n")
    print(json.dumps(kg.to_json(kg.decode(record.key, record.value))))


def show_three_brokers() -> None:
    print_title("2. A small shop's consumer groups, as the coordinators of three brokers load them from their logs")
    loaded = {version: kg.load(HARBOUR / version, coordinator, version) for version, coordinator in BROKERS.items()}
    names = sorted({name for groups in loaded.values() for name in groups})
    rows = [(name, *(describe(groups.get(name)) for groups in loaded.values())) for name in names]
    print_table(("group", *(f"Kafka {version}, {coordinator}" for version, coordinator in BROKERS.items())), rows)


def describe(group: Group | None) -> str:
    if group is None:
        return "-"
    pending = f", open transactions {len(group.pending)}" if group.pending else ""
    return f"{group.state.value}, members {len(group.members)}, offsets {len(group.offsets)}{pending}"


def load_on_spark(records: int) -> None:
    print_title(f"3. {records:,} synthetic records in {PARTITIONS} partitions, loaded on Spark")
    try:
        find_java()
    except NoJava as error:
        print(f"This part is left out. {error}")
        return
    with tempfile.TemporaryDirectory(prefix="kafkagroups-demo-") as folder:
        begin = time.perf_counter()
        written = synth.write(Path(folder, "log"), records, partitions=PARTITIONS, groups=1000)
        size = sum(partition["bytes"] for partition in written["partitions"].values())
        print(f"written: {size / 1e6:.0f} MB in {time.perf_counter() - begin:.1f} s")

        begin = time.perf_counter()
        session = kgs.session(memory="1g")
        kgs.register(session)
        print(f"Spark {session.version} started in {time.perf_counter() - begin:.1f} s")
        offsets = (
            session.read.format("consumer_offsets")
            .options(table="offsets", coordinator="new", partitions=PARTITIONS, tasks=TASKS)
            .load(str(Path(folder, "log")))
        )
        offsets.createOrReplaceTempView("offsets")
        begin = time.perf_counter()
        with ThreadPoolExecutor() as pool:
            job = pool.submit(session.sql(QUERY).collect)
            show_tasks(session.sparkContext.statusTracker(), job)
        seconds = time.perf_counter() - begin
        session.stop()
    print("\nThe groups that committed last:\n")
    print_table(("group", "partition", "topic-partitions", "largest offset", "last commit"), map(tuple, job.result()))
    print(
        f"\n{records:,} records in {seconds:.1f} s: {records / seconds:,.0f} per second on {os.cpu_count()} cores,"
        "\nin the first job of a session."
    )


QUERY = """
    SELECT group, partition, count(*), max(committed_offset), date_format(max(commit_timestamp), 'yyyy-MM-dd HH:mm:ss')
    FROM offsets GROUP BY group, partition ORDER BY max(committed_offset) DESC LIMIT 8"""


def show_tasks(tracker, job: Future) -> None:
    """Show how many of Spark's tasks are done, until the job ends."""
    with progress_bar("tasks", min_total=0) as report:
        while report and not job.done():
            for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
                if stage and stage.numTasks == TASKS:
                    report("loading", stage.numCompletedTasks, TASKS)
            time.sleep(0.1)


def main() -> None:
    begin = time.perf_counter()
    os.chdir(Path(__file__).parents[1])
    show_record()
    show_three_brokers()
    load_on_spark(int(sys.argv[1]) if sys.argv[1:] else 1_000_000)
    print(f"\nThat was the demo, in {time.perf_counter() - begin:.0f} s. `make lab` opens the course.")


if __name__ == "__main__":
    main()
