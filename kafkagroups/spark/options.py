"""The options of the Spark data source, which are parsed and checked, and the schema of each table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.helpers import parse_whole_number
from kafkagroups.loading.columns import Column, arrow_schema, columns_of
from kafkagroups.loading.engines import ENGINES
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.records.dialects import Dialect, dialect
from kafkagroups.topic import Topic

FORMAT = "consumer_offsets"
"""The name of the data source."""
OPTIONS = (
    *("table", "coordinator", "kafka", "path", "paths", "cwd", "partitions", "engine", "tasks", "pushdown"),
    *("max_batch_bytes", "past_damage", "failOnDamage"),
)

BATCHES = (
    Column("partition", "int", False),
    Column("base_offset", "long", False),
    Column("next_offset", "long", False),
    Column("bytes", "binary", False),
)
"""The columns of the table `batches`, which only streams have. Each row is a Kafka batch with its bytes."""
LOCATED_BATCHES = (
    *BATCHES,
    Column("file", "string", False),
    Column("position", "long", False),
    Column("damage", "string", True),
)
"""The columns BATCHES, and where each batch begins: the path of the segment's file, and the position in bytes in this
file. A stream has the other columns only if the user sets a schema that names them. If it names `damage`, a place at
which the log ends has a row with the reason, without bytes, if the option `failOnDamage` is false."""


@dataclass(frozen=True)
class Options:
    """The checked options of a reader. The module docstring of source.py explains each option.

    `topic` has the options that are rules of a `Topic`, without a path.
    """

    table: str
    paths: tuple[str, ...]
    cwd: str
    tasks: int
    pushdown: bool
    fail_on_damage: bool
    topic: Topic

    @property
    def columns(self) -> tuple[Column, ...]:
        return BATCHES if self.table == "batches" else columns_of(self.table)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns that a user's schema can name."""
        return LOCATED_BATCHES if self.table == "batches" else columns_of(self.table)

    @classmethod
    def parse(cls, user_options: Mapping[str, str], default_tasks: int) -> Options:
        """Return the options of a reader. Raise a UsageError if an option is unknown or has a wrong value.

        `user_options` contains the options that the user has set, as text. Spark's mapping ignores the case of an
        option's name. `default_tasks` is the default of `tasks`.
        """
        unknown = sorted(set(map(str.lower, user_options)) - set(map(str.lower, OPTIONS)))
        if unknown:
            raise UsageError(f"{FORMAT} has no option {unknown[0]!r}; its options are {', '.join(OPTIONS)}")
        paths = json.loads(user_options.get("paths", "[]"))
        if "path" in user_options:
            paths.append(user_options["path"])
        if not paths:
            raise UsageError(f"{FORMAT} needs a path: .load(path)")
        partitions = user_options.get("partitions")
        limit = user_options.get("max_batch_bytes", str(MAX_BATCH_BYTES))
        options = cls(
            table=user_options.get("table", "offsets"),
            paths=tuple(paths),
            cwd=user_options.get("cwd") or os.getcwd(),
            tasks=_parse_count("tasks", user_options.get("tasks", str(default_tasks))),
            pushdown=_parse_flag("pushdown", user_options),
            fail_on_damage=_parse_flag("failOnDamage", user_options, default="true"),
            topic=Topic(
                "",
                user_options.get("coordinator", "new"),
                user_options.get("kafka"),
                partitions=None if partitions is None else _parse_count("partitions", partitions),
                engine=user_options.get("engine", "auto"),
                past_damage=_parse_flag("past_damage", user_options),
                max_batch_bytes=_parse_count("max_batch_bytes", limit),
            ),
        )
        if options.topic.engine not in ENGINES:
            raise UsageError(f"option engine: expected one of {', '.join(ENGINES)}, found {options.topic.engine!r}")
        assert options.columns  # The property raises a UsageError for an unknown table.
        assert options.dialect  # This property raises it for an unknown coordinator or Kafka version.
        return options

    @property
    def dialect(self) -> Dialect:
        return dialect(self.topic.coordinator, self.topic.kafka)


def schema_ddl(columns: Iterable[Column]) -> str:
    """Return the columns as a schema in Spark's DDL (the language of CREATE TABLE)."""
    return ", ".join(f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in columns)


def check_schema(options: Options, schema: StructType) -> None:
    """Raise a UsageError if the schema that the user has set has a column or a type that the table does not have."""
    table_schema = arrow_schema(options.all_columns)
    for field in to_arrow_schema(schema, timezone="UTC"):
        if field.name not in table_schema.names:
            raise UsageError(
                f"table {options.table} has no column {field.name!r}; its columns are {', '.join(table_schema.names)}"
            )
        expected_type = table_schema.field(field.name).type
        if not expected_type.equals(field.type):
            raise UsageError(
                f"table {options.table}, column {field.name}: expected type {expected_type}, found {field.type}"
            )


def _parse_flag(name: str, user_options: Mapping[str, str], default: str = "false") -> bool:
    """Return the value of an option that is true or false. `default` is the value if the user has not set it."""
    value = user_options.get(name, default).lower()
    if value not in ("true", "false"):
        raise UsageError(f"option {name}: expected true or false, found {user_options[name]!r}")
    return value == "true"


def _parse_count(option: str, text: str) -> int:
    """Return the value of an option that is a number above 0."""
    try:
        count = parse_whole_number(text)
    except UsageError as error:
        raise UsageError(f"option {option}: {error}") from None
    if count < 1:
        raise UsageError(f"option {option}: expected a number above 0, found {text!r}")
    return count
