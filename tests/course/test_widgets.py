"""Widgets without a browser: their static forms, and what their controls do to them."""

import re
from pathlib import Path

from kafkagroups import course

DATA = Path(__file__).parents[2] / "data" / "harbour"
SEGMENT = (DATA / "1.0.1" / "__consumer_offsets-37" / "00000000000000000000.log").read_bytes()
KEY, VALUE = course.record_bytes(str(DATA / "3.9.2" / "__consumer_offsets-9"), 42)


def bundle(widget):
    found = widget._repr_mimebundle_()
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} <= set(found)
    assert "<style" not in found["text/html"] and "http" not in found["text/html"]
    return found


def test_an_explorer_steps_through_every_field():
    """next goes around once through all fields; the chosen bytes stand in brackets."""
    explorer = course.RecordExplorer(KEY, VALUE)
    seen = set()
    for _ in explorer.spans:
        view = explorer.view.value
        chosen = "".join(re.findall(r"<b>([0-9a-f]{2})</b>", view.split("<p>")[0]))
        span = explorer.spans[explorer.field.value]
        assert chosen == explorer.spans.bytes_of[span.part][span.start : span.end].hex()
        assert f"<b>{span.field}</b>" in view and "[" in view
        seen.add(explorer.field.value)
        explorer.next.click()
    assert len(seen) == len(explorer.spans) and explorer.field.value == 0
    explorer.previous.click()
    assert explorer.field.value == len(explorer.spans) - 1


def test_the_static_form_of_an_explorer_tells_every_field():
    shown = bundle(course.RecordExplorer(KEY, VALUE))
    for word in ("group", "billing", "orders", "offset", "50", "during the rebalance", "leaderEpoch"):
        assert word in shown["text/html"] and word in shown["text/plain"]


def test_a_batch_is_explored_from_its_header_to_its_records():
    """promo's last batch in the 1.0.1 log: two tombstones (acts.json, act 6)."""
    explorer = course.BatchExplorer(SEGMENT, 658)
    text = explorer.static_text()
    assert "baseOffset = 4" in text and "count = 2" in text and text.count("a tombstone") == 2
    assert bundle(explorer)["text/html"].count("<tr>") == len(explorer.spans) + 1
    position = 0
    for span in explorer.spans:
        assert span.start == position
        position = span.end
    assert position == 111, "the spans cover the batch"


def test_a_broken_byte_is_cut_away_with_all_that_follows():
    breaker = course.ByteBreaker(SEGMENT)
    assert "every checksum is right" in breaker.static_text()
    breaker.byte.value = 320
    assert breaker.view.value.count("kept") == 1 and breaker.view.value.count("cut away") == 4
    breaker.byte.value = 7
    assert "no checksum guards this byte" in bundle(breaker)["text/plain"]
    assert "a reader now takes it for offsets 1 to 1" in breaker.static_text()


def test_a_histogram_counts_groups_and_finds_one():
    histogram = course.PartitionHistogram(["billing", "fraud-check", "dashboard"])
    assert "  9 ██         2" in histogram.static_text() and " 38 █          1" in histogram.static_text()
    histogram.group.value = "mailer"
    assert "mailer lives on 12" in histogram.view.value and "◀" in histogram.view.value
    histogram.partitions.value = 1
    assert "3 groups on 1 partitions" in histogram.view.value
    bundle(histogram)


def test_pages_say_what_is_beside_what(capsys, monkeypatch, tmp_path):
    course.beside(..., 9)
    course.beside(9, 9)
    course.beside(7, 9)
    course.confirm(1, 1, "3.9.2")
    course.confirm(1, 2, "3.9.2")
    course.hexdump(b"\x00abc" * 5, 16)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "it is 9; you made no prediction" and out[1] == "it is 9, as you predicted"
    assert out[3] == "✓ a 3.9.2 broker answered the same" and out[4].startswith("✗")
    assert out[5] == "    16  00 61 62 63 00 61 62 63  00 61 62 63 00 61 62 63  ·abc·abc·abc·abc"
    monkeypatch.chdir(DATA.parent.parent / "notebooks")
    assert course.data("harbour/1.0.1") == "../data/harbour/1.0.1"
