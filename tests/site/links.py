"""The links of a folder of HTML pages: the dead links, and the links to other hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Page(HTMLParser):
    """The ids and the addresses of one HTML page."""

    text: str
    ids: set[str] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src", "action", "data", "poster") and value:
                self.addresses.add(value)


@dataclass
class Links:
    """What the links of a folder lead to.

    Attributes
    ----------
    dead
        A line for each link to a file or an anchor that does not exist.
    external
        The addresses on other hosts.
    checked
        How many links lead to files of the folder.
    """

    dead: list[str]
    external: set[str]
    checked: int


def check_links(folder: Path) -> Links:
    """Check every link of every page of a folder. Nothing is fetched."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    links = Links([], set(), 0)
    for path, page in pages.items():
        for address in sorted(page.addresses):
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                links.external.add(address)
                continue
            links.checked += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            name = f"{path.relative_to(folder)}: {address}"
            anchor = unquote(parts.fragment)
            if not target.is_file():
                links.dead.append(f"{name}: no such file")
            elif anchor and anchor not in pages[target].ids:
                links.dead.append(f"{name}: no such anchor")
    return links
