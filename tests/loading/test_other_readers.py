"""Polars and DuckDB read the same tables as the package itself."""

import duckdb
import polars as pl
import pytest

import kafkagroups as kg

PATH = "data/harbour/4.3.1"


def test_a_scan_of_polars_selects_columns_and_rows():
    """The plan of Polars gives columns, a predicate and a number of rows to the reader; the answer is the table's."""
    table = pl.from_arrow(kg.record_table(PATH, "offsets").read_all())
    frame = kg.scan(PATH)
    assert frame.collect().equals(table)
    first = table["group"][0]
    narrow = frame.filter(pl.col("group") == first).select("topic", "committed_offset")
    assert narrow.collect().equals(table.filter(pl.col("group") == first).select("topic", "committed_offset"))
    assert kg.scan(PATH, "records").head(3).collect().height == 3
    with pytest.raises(kg.UsageError, match="no table 'nothing'"):
        kg.scan(PATH, "nothing")


def test_duckdb_queries_a_table():
    """The example of docs/guide.md: DuckDB reads Arrow record batches by the name of the variable."""
    offsets = kg.record_table(PATH, "offsets")
    counts = duckdb.sql('SELECT "group", count(*) FROM offsets GROUP BY ALL').fetchall()
    assert dict(counts) == {group_id: len(group.offsets) for group_id, group in kg.load(PATH).items() if group.offsets}
    assert offsets is not None
