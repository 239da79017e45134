"""The tables and the plot of docs/performance.md are generated from benchmarks/measured.json."""

import json

from benchmarks import report


def test_the_docs_are_what_was_measured():
    """`python -m benchmarks --write` with these measurements changes nothing."""
    measured = json.loads(report.MEASURED.read_text())
    page = (report.DOCS / "performance.md").read_text()
    assert report.render(page, measured) == page
    assert report.draw_plot(measured) == (report.DOCS / "performance.svg").read_text()
