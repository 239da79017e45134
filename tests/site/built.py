"""The web edition that `make site` has built."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"


def find_site() -> Path:
    """Return the folder of the site. The tests do not build it, because two workers would do it at the same time."""
    assert (SITE / "index.html").is_file(), "run: make site"
    return SITE


def list_pages() -> list[str]:
    """Return the paths of all pages, relative to the site. Before the site is built, the list is empty."""
    return sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts)
