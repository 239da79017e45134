"""`explain` gives the same answer with both engines: the native one finds the batches of the group."""

from dataclasses import asdict

import pytest

import kafkagroups as kg
from tests.groups.small_logs import commit
from tests.handmade import LogRecord, encode_batch, write_segment

pytestmark = pytest.mark.engine


def explain_both(path, group, coordinator, kafka, **options):
    """Return what `explain` gives with the readable engine, and with the native one."""
    options |= {"coordinator": coordinator, "kafka": kafka}
    return [asdict(kg.explain(path, group, engine=engine, **options)) for engine in ("python", "compiled")]


@pytest.mark.parametrize("ending", [b"\0\0\0\1", b"\0\0\0\0"])
def test_a_transaction_without_a_producer_id(ending, tmp_path):
    """The classic coordinator decides by the transactional bit: the marker of producer -1 ends its transaction."""
    marker = LogRecord(1, 5, ending, b"\0\0\0\0\0\0")
    log = encode_batch([commit(0, "g")], attributes=0x10) + encode_batch([marker], attributes=0x30)
    folder = write_segment(tmp_path, log)
    for coordinator, kafka in (("classic", "3.9.2"), ("new", "4.3.1")):
        readable, compiled = explain_both(folder, "g", coordinator, kafka)
        assert compiled == readable
    assert [entry["fate"].value for entry in explain_both(folder, "g", "classic", "3.9.2")[1]["history"]][1] == "marker"


@pytest.mark.parametrize("group", ["\ufffd", "\ud800", "", "a" * 40_000, "a" * 70_000], ids=lambda group: group[:2])
def test_a_group_id_that_has_no_single_encoding(group, tmp_path):
    """Java reads different wrong bytes as U+FFFD, so no bytes can be searched for it. No key has a very long id."""
    wrong = commit(0, "ab")
    records = [wrong._replace(key=wrong.key.replace(b"ab", b"\xff\xfe")), commit(1, "\ufffd"), commit(2, "")]
    folder = write_segment(tmp_path, encode_batch(records))
    readable, compiled = explain_both(folder, group, "new", "4.3.1")
    assert compiled == readable and bool(compiled["history"]) == (group in ("\ufffd", ""))
