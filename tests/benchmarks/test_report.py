"""docs/performance.md says what was measured: its tables and its plot are made of benchmarks/measured.json."""

import json

from benchmarks import report


def test_the_docs_are_what_was_measured():
    """`python -m benchmarks report` changes nothing."""
    measured = json.loads(report.MEASURED.read_text())
    page = (report.DOCS / "performance.md").read_text()
    assert report.render(page, measured) == page
    assert report.draw_plot(measured) == (report.DOCS / "performance.svg").read_text()
