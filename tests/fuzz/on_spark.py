"""The logs of many cases as one topic on Spark: it gives the rows and answers of the readable engine."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

from kafkagroups import dialect, explain, load, spark as kgs, stats
from kafkagroups.history.stats import ROW_KINDS
from kafkagroups.loading.columns import columns_of
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.rows import read_table
from kafkagroups.log.folders import open_logs
from tests.spark.tables import LOADED, in_order

LOGS_PER_LOAD = 200
RULES = (("classic", "3.9.2"), ("new", "4.3.1"), ("new", "4.0.2"), ("classic", "1.0.1"))
"""The coordinators and Kafka versions whose rules are tried, one for each load."""
WORKER_MEMORY = "3g"


class SparkLoads:
    """Logs that wait for the next load, as partitions of one folder. `cases` has the case number of each partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cases: dict[int, int] = {}
        self.count = 0
        self.session: Any = None

    def add(self, case_number: int, log: Path) -> None:
        """Add the partition directory of a case."""
        number = len(self.cases)
        shutil.copytree(log, self.folder / f"__consumer_offsets-{number}")
        self.cases[number] = case_number

    def is_full(self) -> bool:
        return len(self.cases) >= LOGS_PER_LOAD

    def run(self) -> dict[int, str]:
        """Load all logs. Return the problem of each case whose rows differ. A failed load is a problem of all cases."""
        if not self.cases:
            return {}
        if self.session is None:
            self.session = kgs.session("local[1]", memory="1g", conf={"spark.executor.pyspark.memory": WORKER_MEMORY})
            kgs.register(self.session)
        coordinator, kafka = RULES[self.count % len(RULES)]
        self.count += 1
        try:
            problems = self._compare(coordinator, kafka)
        except Exception as error:
            problems = dict.fromkeys(self.cases, f"Spark with {coordinator} {kafka}: {str(error)[-3000:]}")
        found = {self.cases[number]: problem for number, problem in problems.items()}
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.cases.clear()
        return found

    def _compare(self, coordinator: str, kafka: str) -> dict[int, str]:
        source = self.session.read.format("consumer_offsets")
        source = source.options(coordinator=coordinator, kafka=kafka, engine="compiled", failOnDamage=False)
        problems = {}
        expected = read_rows(self.folder, coordinator, kafka)
        for table in LOADED:
            names = [column.name for column in columns_of(table)]
            frame = source.option("table", table).load(str(self.folder)).toArrow().select(names)
            found = by_partition(frame.to_pylist())
            for number in self.cases:
                if found[number] != expected[table][number]:
                    problems[number] = (
                        f"Spark's table {table} with {coordinator} {kafka} differs from the readable engine"
                    )
        records = source.option("table", "records").load(str(self.folder))
        records.select("partition", "offset", "json", "error").toArrow()
        options = {"coordinator": coordinator, "kafka": kafka}
        problems |= self._compare_stats(ROW_KINDS[self.count % len(ROW_KINDS)], options)
        problems |= self._compare_explanations(options)
        return problems

    def _compare_stats(self, by: str, options: dict[str, str]) -> dict[int, str]:
        """Compare the statistics of all logs together with those of the readable engine."""
        expected = stats(self.folder, by, engine="python", **options)
        found = kgs.stats(self.folder, by, engine="compiled", session=self.session, fail_on_damage=None, **options)
        problem = f"stats --by {by} on Spark with {options} differs from the readable engine"
        # A folder without a segment is no partition.
        numbers = [each for each in self.cases if found.partitions.get(each) != expected.partitions.get(each)]
        for name, row in expected.rows.items():
            if found.rows.get(name) != row:
                numbers += row.in_partitions
        if not numbers and found != expected:
            numbers = list(self.cases)
        return dict.fromkeys(numbers, problem)

    def _compare_explanations(self, options: dict[str, str]) -> dict[int, str]:
        """Compare the history of a group of one log, and of a group of several logs, if there are such groups."""
        partitions_of = load(self.folder, engine="python", **options).partitions_of
        alone = sorted(group for group, numbers in partitions_of.items() if len(numbers) == 1)
        shared = sorted(group for group, numbers in partitions_of.items() if len(numbers) > 1)
        problems = {}
        for groups in (alone, shared):
            for group in groups[self.count % max(len(groups), 1) :][:1]:
                expected = explain(self.folder, group, engine="python", **options)
                found = kgs.explain(
                    self.folder, group, engine="compiled", session=self.session, fail_on_damage=None, **options
                )
                if found != expected:
                    problem = f"explain --group {group!r} on Spark with {options} differs from the readable engine"
                    problems |= dict.fromkeys(partitions_of[group], problem)
        return problems

    def stop(self) -> None:
        if self.session is not None:
            self.session.stop()


def read_rows(folder: Path, coordinator: str, kafka: str) -> dict[str, dict[int, list]]:
    """Return the rows of each table and partition as the readable engine gives them."""
    rows: dict[str, list] = defaultdict(list)
    for log in open_logs(folder):
        groups = OpenTopic([log], dialect(coordinator, kafka)).load()
        for table in LOADED:
            rows[table] += read_table(groups, table).read_all().to_pylist()
    return {table: by_partition(rows[table]) for table in LOADED}


def by_partition(rows: list[dict[str, Any]]) -> dict[int, list]:
    found: dict[int, list] = defaultdict(list)
    for row in rows:
        found[row["partition"]].append(row)
    return defaultdict(list, {number: in_order(some) for number, some in found.items()})
