"""What a load says when it fails, is cut, or finds two folders of one partition."""

import shutil

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.command import main
from tests.handmade import LogRecord, encode_batch, write_segment

PENDING = "e-pending-delgroup"


@pytest.fixture
def deleted_while_pending():
    """Return a partition in which a group was deleted while a transaction for it was open."""
    for partition in sorted(captured("runs").rglob("__consumer_offsets-*")):
        if "4.3.1-main" in partition.parts and PENDING in kg.load(partition, "classic").partitions_of:
            return partition
    raise AssertionError


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_load_that_fails_at_its_last_step_says_that_its_groups_are_served(deleted_while_pending, engine):
    """Before the transaction's marker the classic coordinator fails, but its cache is filled already."""
    batches = list(kg.open_log(deleted_while_pending))
    cut = next(batch.base_offset for batch in batches if batch.is_control and batch.base_offset > 8)
    groups = kg.load(deleted_while_pending, "classic", until=cut, engine=engine)
    (problem,) = groups.problems
    assert groups and f"Unexpected unload of active group '{PENDING}'" in problem
    assert "fails at its last step: this broker answers for the groups that it had loaded" in problem
    story = kg.explain(deleted_while_pending, PENDING, coordinator="classic", until=cut)
    assert story.answer is not None and story.problems == [problem]


def test_a_load_that_fails_while_reading_serves_nothing():
    """The line then says nothing about groups that are served."""
    for folder in sorted(captured("crafted").rglob("__consumer_offsets-*")):
        groups = kg.load(folder, "new")
        if groups.failed:
            assert not groups
            assert all("last step" not in problem for problem in groups.problems)


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_record_that_ends_a_load_is_named_with_its_file_and_offset(engine, tmp_path):
    records = [LogRecord(0, 0, b"\0\2\0\1a", None), LogRecord(1, 0, b"\0\2\0\1a", b"")]
    folder = write_segment(tmp_path, encode_batch(records))
    error = kg.load(folder, engine=engine).partitions[0].error
    expected = "expected a version of 2 bytes, found 0 bytes"
    assert error == f"{folder}/00000000000000000000.log, offset 1, byte 0, value: {expected}"


def test_two_folders_of_one_partition_are_refused(tmp_path, capsys):
    """Folders …-9 and …-009 are one partition; damage in one of them must not go unreported."""
    source = "data/harbour/3.9.2/__consumer_offsets-9"
    for name in ("__consumer_offsets-9", "__consumer_offsets-009"):
        shutil.copytree(source, tmp_path / name)
    with pytest.raises(kg.UsageError, match=r"offsets-009 and .*offsets-9 are both partition 9"):
        kg.load(tmp_path)
    assert main(["load", str(tmp_path)]) == 2
    assert "remove one of them" in capsys.readouterr().err
