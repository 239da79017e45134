"""The sentences of a lesson that only a living notebook shows: they ask for a value that the reader types.

In a lesson's text, such a sentence stands in `<span class="live-only">…</span>`. The web edition and the slides have no
field for it, so they leave it out.
"""

from __future__ import annotations

import re

from nbformat import NotebookNode

_LIVE_ONLY = re.compile(r'\s?<span class="live-only">.*?</span>', re.DOTALL)


def drop_live_only(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _LIVE_ONLY.sub("", cell.source)
