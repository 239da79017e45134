"""What both engines are compared by: everything that a question about a log answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import Groups, KafkagroupsError, load, stats
from kafkagroups.history.stats import ROW_KINDS
from kafkagroups.loading import native
from kafkagroups.loading.rows import read_table
from kafkagroups.records.releases import CHECKED_VERSIONS

RULES = [(name, kafka) for name, versions in CHECKED_VERSIONS.items() for kafka in versions]
"""Each coordinator with each release whose loads were compared with a broker's."""
TABLES = ("offsets", "pending", "groups", "members")
MAX_BATCH_BYTES = 4 << 20
"""So that no bomb among the changed logs takes long."""


def shape(groups: Groups) -> tuple[Any, ...]:
    """Return everything that a load answers."""
    partitions_of = {group: sorted(map(str, where)) for group, where in groups.partitions_of.items()}
    return groups.groups, groups.orphans, groups.elsewhere, partitions_of, groups.partitions


def resumed_shape(groups: Groups) -> tuple[Any, ...]:
    """Return what a load answers, without the first offset of the batch of each commit.

    A snapshot leaves out records, as Kafka's cleaner does, so that a batch can begin with a later one. The classic
    coordinator only compares these offsets of different batches.
    """
    for group in (*groups.groups.values(), *groups.orphans.values()):
        for offsets in (group.offsets, *group.pending.values()):
            for partition, offset in offsets.items():
                offsets[partition] = replace(offset, batch_offset=offset.record_offset)
    return shape(groups)


def compare(path: Path, coordinator: str, kafka: str, seed: int = 0, until: int | None = None) -> None:
    """Ask both engines everything about a log, and compare the answers. The seed chooses rows and groups."""
    rules = {"coordinator": coordinator, "kafka": kafka, "max_batch_bytes": MAX_BATCH_BYTES}
    readable, native_answers = (_ask(path, rules | {"engine": name}, seed, until) for name in ("python", "compiled"))
    for (question, wanted), (_, given) in zip(readable, native_answers, strict=True):
        assert given == wanted, f"{question} ({coordinator} {kafka}, seed {seed})"


def _ask(path: Path, options: dict[str, Any], seed: int, until: int | None) -> Iterator[tuple[str, Any]]:
    """Yield the name of each question and its answer; an error is an answer, too."""
    rnd = random.Random(seed)
    groups = load(path, **options, until=until)
    yield "load", shape(groups)
    for table in TABLES:
        found = read_table(groups, table).read_all()
        found.validate(full=True)
        yield table, sorted(map(repr, found.to_pylist()))
    by = rnd.choice(ROW_KINDS)
    yield f"stats by {by}", _answer(lambda: stats(path, by, **options).to_json())
    for table in ("fates", "records"):
        yield table, _answer(lambda table=table: kg.record_table(path, table, **options).read_all().to_pylist())
    ids = sorted(groups.partitions_of)
    for group in [*rnd.sample(ids, min(2, len(ids))), "no group"]:
        yield f"explain {group!r}", _answer(lambda group=group: asdict(kg.explain(path, group, **options, until=until)))


def _answer(question: Any) -> Any:
    try:
        return question()
    except KafkagroupsError as error:
        return type(error), str(error)


def count_shards(monkeypatch: Any) -> list[Any]:
    """Return a list that grows with each shard that the native engine makes."""
    shards: list[Any] = []
    make_shard = native.make_shard

    def make_and_count(*arguments: Any) -> Any:
        shards.append(make_shard(*arguments))
        return shards[-1]

    monkeypatch.setattr(native, "make_shard", make_and_count)
    return shards
