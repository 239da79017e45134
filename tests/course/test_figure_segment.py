"""The figure of a segment, compared with the package's recovery of the same file."""

from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import UsageError
from kafkagroups.course import Segment
from kafkagroups.log.writer import recover

FOLDER = Path(__file__).parents[2] / "data" / "harbour" / "4.3.1" / "__consumer_offsets-37"
NAME = "00000000000000000000.log"
DATA = (FOLDER / NAME).read_bytes()
CHECKED = 1
RECOVERED = 2


@pytest.fixture(scope="module")
def figure():
    return Segment(DATA)


def list_results(lines):
    """Return the words at the right of each batch."""
    return [line.partition(": ")[2] for line in lines if line.startswith("offset")]


def test_the_batches_are_those_of_the_log(figure):
    batches = list(kg.open_log(FOLDER))
    assert len(batches) == 13
    lines = [line.partition(" at byte ")[2] for line in figure.text(0, CHECKED) if line.startswith("offset")]
    assert [int(line.partition(":")[0]) for line in lines] == [batch.position for batch in batches]


def test_each_offered_byte_has_the_result_of_recovery(figure, tmp_path):
    """`recover` truncates a file as a broker does after a crash (LogSegment.recover)."""
    for number, broken in enumerate(figure.choices, start=1):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        data = bytearray(DATA)
        data[broken.position] = broken.byte
        (folder / NAME).write_bytes(data)
        _, damage = recover(folder)
        size = (folder / NAME).stat().st_size
        results = list_results(figure.text(number, RECOVERED))
        kept = [batch for batch, result in zip(figure.batches, results, strict=True) if result.startswith("kept")]
        assert sum(batch.size for batch in kept) == size
        reasons = [line for line in figure.text(number, RECOVERED) if line.startswith("reason: ")]
        assert reasons == ([f"reason: {damage.reason}"] if damage else [])


def test_a_broken_byte_is_first_only_broken(figure):
    """The first moment shows the file, and not what the broker will do."""
    for number in range(len(figure.choices) + 1):
        assert list_results(figure.text(number, 0)) == []


def test_a_leader_epoch_goes_unnoticed_and_a_length_does_not(figure):
    """The checksum covers a batch from byte 21 on. The exercise of the lesson asks for this difference."""
    start = figure.batches[3].position
    numbers = {broken.position - start: number for number, broken in enumerate(figure.choices, start=1)}
    assert list_results(figure.text(numbers[15], RECOVERED)) == ["kept ✓"] * 3 + ["kept broken"] + ["kept ✓"] * 9
    assert list_results(figure.text(numbers[7], RECOVERED))[3] == "kept as offset 2"
    for noticed in (11, 16, 20):
        expected = ["fits ✓"] * 3 + ["wrong ✗"] + ["not checked"] * 9
        assert list_results(figure.text(numbers[noticed], CHECKED)) == expected


def test_a_typed_byte(figure):
    content = figure.compute_content("2536=01")
    results = list_results(content.scenes[0, RECOVERED].text)
    assert results == ["kept ✓"] * 12 + ["cut away ✗"]
    assert content.scenes[1, 0].text == figure.first_scene.text


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("byte 3", "one byte in hex"),
        ("2537=00", "positions 0 to 2536"),
        ("556=7f", "far outside this file"),
        ("406=ff", "far outside this file"),
    ],
)
def test_a_typed_value_that_makes_no_sense(figure, typed, message):
    with pytest.raises(UsageError, match=message):
        figure.compute_content(typed)


def test_a_byte_with_its_own_value_breaks_nothing(figure):
    with pytest.raises(UsageError, match="byte 100 is already"):
        figure.compute_content(f"100={DATA[100]:02x}")
