"""The options of the Spark data source, which are parsed and checked, and the schema of each table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
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
from kafkagroups.topic import Rules, Topic

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


def _parse_engine(text: str) -> str:
    if text not in ENGINES:
        raise UsageError(f"expected one of {', '.join(ENGINES)}, found {text!r}")
    return text


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"expected true or false, found {text!r}")
    return text.lower() == "true"


def _parse_count(text: str) -> int:
    count = parse_whole_number(text)
    if count < 1:
        raise UsageError(f"expected a number above 0, found {text!r}")
    return count


def _option(parse: Callable[[str], Any], default: str | None = None, *, name: str | None = None) -> Any:
    """Return the field of an option, whose text `parse` reads. `name` is its name if it is not that of the field, and
    `default` the text of an option that is not set; the value is None if there is no such text.
    """
    return field(metadata={"parse": parse, "default": default, "name": name})


@dataclass(frozen=True)
class Options:
    """`columns` None means all, and `groups` can be patterns with * and ?. `starting_offsets` are by the number of a
    log partition as text; empty for earliest, None for latest.
    """

    table: str = _option(str, "offsets")
    coordinator: str | None = _option(str)
    kafka: str | None = _option(str)
    path: str | None = _option(str)
    paths: tuple[str, ...] = _option(_parse_paths, "[]")
    cwd: str = _option(os.path.abspath, "")
    partitions: int | None = _option(_parse_count)
    engine: str = _option(_parse_engine, "auto")
    tasks: int | None = _option(_parse_count)
    columns: tuple[str, ...] | None = _option(_parse_list)
    groups: tuple[str, ...] | None = _option(_parse_list)
    log_partitions: frozenset[int] | None = _option(_parse_partitions)
    cluster: str | None = _option(str)
    max_batch_bytes: int = _option(_parse_count, str(MAX_BATCH_BYTES))
    past_damage: bool = _option(_parse_flag, "false")
    fail_on_damage: bool = _option(_parse_flag, "true", name="failOnDamage")
    fail_on_data_loss: bool = _option(_parse_flag, "true", name="failOnDataLoss")
    starting_offsets: Mapping[str, int] | None = _option(_parse_starting_offsets, "earliest", name="startingOffsets")
    max_bytes_per_trigger: int | None = _option(_parse_count, name="maxBytesPerTrigger")
    max_rows_per_trigger: int | None = _option(_parse_count, name="maxRowsPerTrigger")

    @property
    def topic(self) -> Topic:
        return Topic("", **{name: value for name, value in vars(self).items() if name in Rules.__optional_keys__})

    @property
    def selected_columns(self) -> tuple[Column, ...]:
        """The columns of the table, or those that the option `columns` names."""
        if self.columns is None:
            return BATCHES if self.table == "batches" else columns_of(self.table)
        if len(set(self.columns)) < len(self.columns):
            raise UsageError(f"option columns: a column is named twice in {','.join(self.columns)}")
        return self.find_columns(self.columns)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns that a user's schema can name."""
        return LOCATED_BATCHES if self.table == "batches" else (*columns_of(self.table), *PLACE)

    def find_columns(self, names: Iterable[str]) -> tuple[Column, ...]:
        by_name = {column.name: column for column in self.all_columns}
        for name in names:
            if name not in by_name:
                raise UsageError(f"table {self.table} has no column {name!r}; its columns are {', '.join(by_name)}")
        return tuple(by_name[name] for name in names)

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
        option_fields = {each.metadata["name"] or each.name: each for each in fields(cls)}
        by_lower_name = {name.lower(): text for name, text in user_options.items()}
        unknown = sorted(by_lower_name.keys() - set(map(str.lower, option_fields)))
        if unknown:
            raise UsageError(f"{FORMAT} has no option {unknown[0]!r}; its options are {', '.join(option_fields)}")
        given: dict[str, Any] = {}
        for name, option in option_fields.items():
            text = by_lower_name.get(name.lower(), option.metadata["default"])
            try:
                given[option.name] = None if text is None else option.metadata["parse"](text)
            except UsageError as error:
                raise UsageError(f"option {name}: {error}") from None
        options = cls(**given)
        if options.path is not None:
            options = replace(options, paths=(*options.paths, options.path))
        if not options.paths:
            raise UsageError(f"{FORMAT} needs a path: .load(path)")
        if options.max_bytes_per_trigger is not None and options.max_rows_per_trigger is not None:
            raise UsageError("maxBytesPerTrigger and maxRowsPerTrigger cannot be set together")
        assert options.selected_columns  # The property raises a UsageError for an unknown table.
        assert options.topic.dialect  # This property raises it for an unknown coordinator or Kafka version.
        return options


def check_schema(options: Options, schema: StructType) -> None:
    table_schema = from_arrow_schema(arrow_schema(options.find_columns(schema.names)))
    for column, of_user in zip(table_schema, schema, strict=True):
        expected, found = (each.dataType.simpleString() for each in (column, of_user))
        if expected != found:
            raise UsageError(f"table {options.table}, column {column.name}: expected type {expected}, found {found}")


def select_columns(options: Options, schema: StructType) -> list[Column]:
    """Return the columns that Spark wants. In a schema that the user has set, each of them can be null."""
    columns = zip(options.find_columns(schema.names), schema, strict=True)
    return [column._replace(nullable=field.nullable) for column, field in columns]
