"""`load --to parquet:DIR`: the tables as Parquet files."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

import kafkagroups as kg
from tests.command import main
from tests.spark.tables import LOADED, in_order, loaded_rows

DATA = "data/harbour/3.9.2"
ENGINES = ["python", "compiled", pytest.param("spark", marks=pytest.mark.java)]


@pytest.fixture
def engine(request):
    """Return an engine's name; for Spark, start the shared session first."""
    if request.param == "spark":
        request.getfixturevalue("session")
    return request.param


def schema_of(table):
    return kg.record_table(DATA, table).schema


def read(folder, table):
    return pq.read_table(folder / table).select(schema_of(table).names)


@pytest.mark.parametrize(
    ("path", "options", "rules"),
    [
        (DATA, ["--coordinator", "classic"], {"coordinator": "classic"}),
        (f"{DATA}/__consumer_offsets-9", ["--until", "20"], {"until": 20}),
    ],
)
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_the_files_hold_the_tables(engine, path, options, rules, tmp_path, capsys):
    """Every engine writes all five tables with their types, and prints only the row counts."""
    out = tmp_path / "out put"
    assert main(["load", path, *options, "--engine", engine, "--to", f"parquet:{out}", "--json"]) == 0
    groups = kg.load(path, **rules)
    said = json.loads(capsys.readouterr().out)
    assert {entry.name for entry in out.iterdir()} == set(LOADED)
    for table in LOADED:
        found = read(out, table)
        assert in_order(found.to_pylist()) == loaded_rows(groups, table), table
        assert found.schema.types == schema_of(table).types
    assert said == {"path": path, "to": str(out), "rows": {table: read(out, table).num_rows for table in LOADED}}


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_problems_are_told_and_the_rest_is_written(engine, tmp_path, capsys):
    """Damage and a failed load give exit code 1 and one line each, as without --to.

    The broker of 1.0.1 fails to load newer values.
    """
    log = tmp_path / "log"
    shutil.copytree(DATA, log)
    (log / "__consumer_offsets-8" / "00000000000000000000.log").write_bytes(b"torn")
    options = ["load", str(log), "--kafka", "1.0.1", "--engine", engine]
    assert main([*options, "--to", f"parquet:{tmp_path / 'out'}"]) == 1
    said = capsys.readouterr()
    groups = kg.load(log, "classic", "1.0.1")
    rows = {table: loaded_rows(groups, table) for table in LOADED}
    assert said.out.splitlines() == [f"{tmp_path / 'out'}/{table}: {len(rows[table])} rows" for table in LOADED]
    assert all(in_order(read(tmp_path / "out", table).to_pylist()) == rows[table] for table in LOADED)
    assert main(options) == 1
    assert capsys.readouterr().err == said.err
    assert "the log ends here" in said.err and "Kafka 1.0.1 fails to load it" in said.err


def test_a_folder_that_is_not_empty_is_refused(tmp_path, capsys):
    """A folder with content is refused before anything is read or overwritten."""
    (tmp_path / "mine").write_text("mine")
    for place in (tmp_path, tmp_path / "mine"):
        assert main(["load", DATA, "--to", f"parquet:{place}"]) == 2
        assert str(place) in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_a_uri_that_pyarrow_knows_is_written(tmp_path):
    """A file:// URI is written through pyarrow, as s3:// is."""
    assert main(["load", DATA, "--to", f"parquet:file://{tmp_path}/out"]) == 0
    assert read(tmp_path / "out", "groups").num_rows == len(kg.load(DATA))


@pytest.mark.parametrize("to", ["csv:out", "parquet", "parquet:", "out", ":out"])
def test_another_form_is_bad_usage(to, capsys):
    """The message says what was expected; the exit code is 2."""
    with pytest.raises(SystemExit) as caught:
        main(["load", DATA, "--to", to])
    assert caught.value.code == 2 and "expected parquet:DIR" in capsys.readouterr().err


def test_to_takes_one_path(tmp_path, capsys):
    """--to takes one PATH, because two logs would share the tables."""
    assert main(["load", DATA, DATA, "--to", f"parquet:{tmp_path / 'out'}"]) == 2
    assert "--to takes one PATH" in capsys.readouterr().err
    assert main(["load", "nowhere", "--to", f"parquet:{tmp_path / 'out'}"]) == 2
    assert main(["load", DATA, "--to", "parquet:foo://x/y"]) == 2
    assert "unknown file system" in capsys.readouterr().err
