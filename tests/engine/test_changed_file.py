"""A file that changes between the load and the second reading of the compiled engine gives one clear error."""

import pytest

import kafkagroups as kg
from kafkagroups.log.record_batch import encode_batch
from tests.history.test_compiled_stats import commit


@pytest.mark.parametrize("table", ["fates", "records"])
@pytest.mark.parametrize("size", [0x7FFF, -0x8000])
def test_a_key_with_a_wrong_size_is_refused(table, size, tmp_path):
    """No byte outside the file can become a part of a group id, whatever sizes the changed file contains."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(encode_batch([commit(0, "g")]))
    last = folder / f"{10:020}.log"
    last.write_bytes(encode_batch([commit(10, "g")]))
    reader = iter(kg.record_table(folder, table, columns=["offset", "group", "topic"], engine="compiled"))
    assert next(reader).to_pylist() == [{"offset": 0, "group": "g", "topic": "orders"}]
    changed = commit(10, "g")
    key = changed.key[:2] + (size & 0xFFFF).to_bytes(2, "big") + changed.key[4:]
    last.write_bytes(encode_batch([changed._replace(key=key)]))
    with pytest.raises(kg.InvalidLog, match="has changed while it was read"):
        next(reader)


def test_a_file_with_more_records_is_refused(tmp_path):
    """The fates of the load do not fit to the records of the changed file."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(encode_batch([commit(0, "g")]))
    last = folder / f"{10:020}.log"
    last.write_bytes(encode_batch([commit(10, "g")]))
    reader = iter(kg.record_table(folder, "fates", engine="compiled"))
    next(reader)
    last.write_bytes(encode_batch([commit(offset, "g") for offset in range(10, 20)]))
    with pytest.raises(kg.InvalidLog, match="has changed while it was read"):
        next(reader)
