"""Polars and DuckDB read the same tables as the package itself."""

import duckdb
import polars as pl

import kafkagroups as kg

PATH = "data/harbour/4.3.1"


def test_polars_takes_a_table():
    """The example of docs/guide.md: a table as a frame."""
    frame = pl.from_arrow(kg.record_table(PATH, "offsets").read_all())
    assert set(frame["group"]) == {group_id for group_id, group in kg.load(PATH).items() if group.offsets}


def test_duckdb_queries_a_table():
    """The example of docs/guide.md: DuckDB reads Arrow record batches by the name of the variable."""
    offsets = kg.record_table(PATH, "offsets")
    counts = duckdb.sql('SELECT "group", count(*) FROM offsets GROUP BY ALL').fetchall()
    assert dict(counts) == {group_id: len(group.offsets) for group_id, group in kg.load(PATH).items() if group.offsets}
    assert offsets is not None
