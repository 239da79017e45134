"""The options of the Spark data source, which are parsed and checked, and the schema of each table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.helpers import parse_whole_number
from kafkagroups.loading.columns import Column, arrow_schema, columns_of, parse_columns
from kafkagroups.loading.engines import ENGINES
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.topic import Topic

FORMAT = "consumer_offsets"
"""The name of the data source."""
_DEFAULTS: dict[str, str | None] = {
    "table": "offsets",
    "coordinator": "new",
    "kafka": None,
    "path": None,
    "paths": "[]",
    "cwd": None,
    "partitions": None,
    "engine": "auto",
    "tasks": None,
    "pushdown": "false",
    "max_batch_bytes": str(MAX_BATCH_BYTES),
    "past_damage": "false",
    "failOnDamage": "true",
}

BATCHES = parse_columns("partition int, base_offset long, next_offset long, bytes binary")
"""Each row is a Kafka batch with its bytes."""
LOCATED_BATCHES = (*BATCHES, *parse_columns("file string, position long, damage string?"))
"""The columns BATCHES, and where each batch begins: the path of the segment's file, and the position in bytes in this
file. A stream has the other columns only if the user sets a schema that names them. If it names `damage`, a place at
which the log ends has a row with the reason, without bytes, if the option `failOnDamage` is false."""


@dataclass(frozen=True)
class Options:
    table: str
    paths: tuple[str, ...]
    cwd: str
    tasks: int | None
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
    def parse(cls, user_options: Mapping[str, str]) -> Options:
        """Return the checked options of a reader. Raise a UsageError if an option is unknown or has a wrong value.

        `user_options` are those that the user has set, as text; Spark's mapping ignores the case of their names.
        """
        unknown = sorted(set(map(str.lower, user_options)) - set(map(str.lower, _DEFAULTS)))
        if unknown:
            raise UsageError(f"{FORMAT} has no option {unknown[0]!r}; its options are {', '.join(_DEFAULTS)}")
        given = {name: user_options.get(name, default) for name, default in _DEFAULTS.items()}
        paths = [*json.loads(given["paths"] or ""), *([given["path"]] if "path" in user_options else [])]
        if not paths:
            raise UsageError(f"{FORMAT} needs a path: .load(path)")
        options = cls(
            table=given["table"] or "",
            paths=tuple(paths),
            cwd=given["cwd"] or os.getcwd(),
            tasks=_parse_count("tasks", given),
            pushdown=_parse_flag("pushdown", given),
            fail_on_damage=_parse_flag("failOnDamage", given),
            topic=Topic(
                "",
                given["coordinator"] or "",
                given["kafka"],
                partitions=_parse_count("partitions", given),
                engine=given["engine"] or "",
                past_damage=_parse_flag("past_damage", given),
                max_batch_bytes=_parse_count("max_batch_bytes", given) or MAX_BATCH_BYTES,
            ),
        )
        if options.topic.engine not in ENGINES:
            raise UsageError(f"option engine: expected one of {', '.join(ENGINES)}, found {options.topic.engine!r}")
        assert options.columns  # The property raises a UsageError for an unknown table.
        assert options.topic.dialect  # This property raises it for an unknown coordinator or Kafka version.
        return options


def check_schema(options: Options, schema: StructType) -> None:
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


def _parse_flag(name: str, given: Mapping[str, str | None]) -> bool:
    value = (given[name] or "").lower()
    if value not in ("true", "false"):
        raise UsageError(f"option {name}: expected true or false, found {given[name]!r}")
    return value == "true"


def _parse_count(name: str, given: Mapping[str, str | None]) -> int | None:
    text = given[name]
    if text is None:
        return None
    try:
        count = parse_whole_number(text)
    except UsageError as error:
        raise UsageError(f"option {name}: {error}") from None
    if count < 1:
        raise UsageError(f"option {name}: expected a number above 0, found {text!r}")
    return count
