"""docs/releases.md has the table of kafkagroups/records/releases.py."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_current_table():
    """`python tools/release_table.py --write` writes it."""
    tool = runpy.run_path(str(ROOT / "tools" / "release_table.py"))
    assert tool["table"]() in (ROOT / "docs" / "releases.md").read_text()
