"""The options of the Spark data source, which are parsed and checked, and the schema of each table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import glob, has_magic
from typing import Annotated, Any

import msgspec
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.helpers import MAX_INT64, parse_whole_number
from kafkagroups.loading.columns import Column, arrow_schema, columns_of, parse_columns
from kafkagroups.loading.load import ENGINES
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import local_path
from kafkagroups.topic import Topic

FORMAT = "consumer_offsets"
"""The name of the data source."""
EARLIEST = -2
"""The number that stands for it in the option `startingOffsets`, as in Spark's Kafka source."""
LATEST = -1

BATCHES = parse_columns("partition int, base_offset long, next_offset long, bytes binary")
"""Each row is a Kafka batch with its bytes."""
LOCATED_BATCHES = (*BATCHES, *parse_columns("file string, position long, damage string?"))
"""The columns BATCHES, and where each batch begins: the path of the segment's file, and the position in bytes in this
file. A stream has the other columns only if the user sets a schema that names them. If it names `damage`, a place at
which the log ends has a row with the reason, without bytes, if the option `failOnDamage` is false."""


PLACE = parse_columns("path string, cluster string?")
"""Columns that every table has, if they are named: the path of the log, and the option `cluster`."""


@dataclass(frozen=True)
class Options:
    """The options, by name in snake_case. `columns` None means all, and `groups` can be patterns with * and ?."""

    table: str
    paths: tuple[str, ...]
    cwd: str
    tasks: int | None
    fail_on_damage: bool
    columns: tuple[str, ...] | None
    groups: tuple[str, ...] | None
    log_partitions: frozenset[int] | None
    cluster: str | None
    topic: Topic
    fail_on_data_loss: bool
    starting_offsets: dict[str, int] | None
    """By the number of a log partition as text; empty for earliest, None for latest."""
    max_bytes_per_trigger: int | None
    max_rows_per_trigger: int | None

    @property
    def selected_columns(self) -> tuple[Column, ...]:
        """The columns of the table, or those that the option `columns` names."""
        if self.columns is None:
            return BATCHES if self.table == "batches" else columns_of(self.table)
        by_name = {column.name: column for column in self.all_columns}
        unknown = [name for name in self.columns if name not in by_name]
        if len(set(self.columns)) < len(self.columns):
            raise UsageError(f"option columns: a column is named twice in {','.join(self.columns)}")
        if unknown:
            raise UsageError(f"table {self.table} has no column {unknown[0]!r}; its columns are {', '.join(by_name)}")
        return tuple(by_name[name] for name in self.columns)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns that a user's schema can name."""
        return LOCATED_BATCHES if self.table == "batches" else (*columns_of(self.table), *PLACE)

    def selects(self, partition: int) -> bool:
        return self.log_partitions is None or partition in self.log_partitions

    def find_paths(self) -> list[str]:
        """Return the paths, and for a local pattern with * ? or [ what it matches, each once.

        Raises UsageError if a pattern matches nothing. An existing path with such a character in its name is itself.
        """
        paths: list[str] = []
        for path in self.paths:
            pattern = local_path(path)
            if pattern is None or not has_magic(pattern) or os.path.exists(os.path.join(self.cwd, pattern)):
                paths.append(path)
                continue
            matches = sorted(glob(pattern, root_dir=self.cwd))
            if not matches:
                raise UsageError(f"{path}: no file or folder matches this pattern")
            paths.extend(matches)
        return list(dict.fromkeys(paths))

    @classmethod
    def parse(cls, user_options: Mapping[str, str]) -> Options:
        """Return the checked options of a reader, from the texts that the user has set. The case of names is ignored.

        Raises UsageError if an option is unknown or has a wrong value.
        """
        by_lower_name = {name.lower(): text for name, text in user_options.items()}
        unknown = sorted(by_lower_name.keys() - set(map(str.lower, _OPTIONS)))
        if unknown:
            raise UsageError(f"{FORMAT} has no option {unknown[0]!r}; its options are {', '.join(_OPTIONS)}")
        given: dict[str, Any] = {}
        for name, (default, parse) in _OPTIONS.items():
            text = by_lower_name.get(name.lower(), default)
            attribute = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)
            try:
                given[attribute] = None if text is None else parse(text)
            except UsageError as error:
                raise UsageError(f"option {name}: {error}") from None
        path = given.pop("path")
        given["paths"] += () if path is None else (path,)
        if not given["paths"]:
            raise UsageError(f"{FORMAT} needs a path: .load(path)")
        if given["engine"] not in ENGINES:
            raise UsageError(f"option engine: expected one of {', '.join(ENGINES)}, found {given['engine']!r}")
        if given["max_bytes_per_trigger"] is not None and given["max_rows_per_trigger"] is not None:
            raise UsageError("maxBytesPerTrigger and maxRowsPerTrigger cannot be set together")
        given["cwd"] = given["cwd"] or os.getcwd()
        rules = {name: given.pop(name) for name in _TOPIC_OPTIONS}
        options = cls(topic=Topic("", **rules), **given)
        assert options.selected_columns  # The property raises a UsageError for an unknown table.
        assert options.topic.dialect  # This property raises it for an unknown coordinator or Kafka version.
        return options


def check_schema(options: Options, schema: StructType) -> None:
    table_schema = from_arrow_schema(arrow_schema(options.all_columns))
    for field in schema:
        if field.name not in table_schema.names:
            raise UsageError(
                f"table {options.table} has no column {field.name!r}; its columns are {', '.join(table_schema.names)}"
            )
        expected, found = (each[field.name].dataType.simpleString() for each in (table_schema, schema))
        if expected != found:
            raise UsageError(f"table {options.table}, column {field.name}: expected type {expected}, found {found}")


def select_columns(options: Options, schema: StructType) -> list[Column]:
    """Return the columns that Spark wants. In a schema that the user has set, each of them can be null."""
    by_name = {column.name: column for column in options.all_columns}
    return [by_name[field.name]._replace(nullable=field.nullable) for field in schema]


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _parse_paths(text: str) -> tuple[str, ...]:
    """Return the paths of a JSON list, which is what Spark makes of `.load([a, b])`, or of a list such as a,b."""
    if not text.startswith("["):
        return _parse_list(text)
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError as error:
        raise UsageError(f"expected a JSON list of texts, or paths with commas: {error}") from None


def _parse_starting_offsets(text: str) -> dict[str, int] | None:
    if text.lower() in ("earliest", "latest"):
        return {} if text.lower() == "earliest" else None
    try:
        offsets = msgspec.json.decode(text, type=dict[int, Annotated[int, msgspec.Meta(ge=EARLIEST, le=MAX_INT64)]])
    except msgspec.DecodeError as error:
        reason = 'expected earliest, latest or JSON such as {"0": 23}'
        raise UsageError(f"{reason}, found {text!r}: {error}") from None
    return {str(partition): offset for partition, offset in offsets.items()}


def _parse_partitions(text: str) -> frozenset[int]:
    """Return the numbers of a list such as 0,3,7-9."""
    numbers: set[int] = set()
    for part in _parse_list(text):
        first, dash, last = part.partition("-")
        found = range(parse_whole_number(first), parse_whole_number(last if dash else first) + 1)
        if not found:
            raise UsageError(f"{part} has no number")
        numbers.update(found)
    return frozenset(numbers)


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"expected true or false, found {text!r}")
    return text.lower() == "true"


def _parse_count(text: str) -> int:
    count = parse_whole_number(text)
    if count < 1:
        raise UsageError(f"expected a number above 0, found {text!r}")
    return count


_OPTIONS: dict[str, tuple[str | None, Callable[[str], Any]]] = {
    "table": ("offsets", str),
    "coordinator": (None, str),
    "kafka": (None, str),
    "path": (None, str),
    "paths": ("[]", _parse_paths),
    "cwd": (None, str),
    "partitions": (None, _parse_count),
    "engine": ("auto", str),
    "tasks": (None, _parse_count),
    "columns": (None, _parse_list),
    "groups": (None, _parse_list),
    "log_partitions": (None, _parse_partitions),
    "cluster": (None, str),
    "max_batch_bytes": (str(MAX_BATCH_BYTES), _parse_count),
    "past_damage": ("false", _parse_flag),
    "failOnDamage": ("true", _parse_flag),
    "failOnDataLoss": ("true", _parse_flag),
    "startingOffsets": ("earliest", _parse_starting_offsets),
    "maxBytesPerTrigger": (None, _parse_count),
    "maxRowsPerTrigger": (None, _parse_count),
}
"""By name: the default of each option, None for an option that is not set, and how its text is read."""
_TOPIC_OPTIONS = ("coordinator", "kafka", "partitions", "engine", "past_damage", "max_batch_bytes")
