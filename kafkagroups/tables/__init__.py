"""The tables of a log: JSON, rows, Arrow, pandas and Parquet."""
