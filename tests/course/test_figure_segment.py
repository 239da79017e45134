"""The figure of a segment, compared with the package's recovery of the same file."""

from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.course import Segment

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
