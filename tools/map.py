"""Print the map of the package: every module with the first line of its docstring (`make map`).

With `--write` the map also replaces the block between the marks in docs/architecture.md.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- map -->\n"
END = "<!-- /map -->"


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring without its period, or an empty text."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n")[0].rstrip(".")


def rows(folder: Path) -> list[str]:
    """Return a table row for each module of a folder that has a docstring."""
    paths = sorted(folder.glob("*.py"), key=lambda path: (path.name != "__init__.py", path.name))
    entries = [(path.relative_to(folder).as_posix(), first_line(path)) for path in paths]
    return [f"| `{name}` | {line} |" for name, line in entries if line]


def folders() -> list[Path]:
    """Return the package's folders, the top first, each package before its own packages."""
    package = ROOT / "kafkagroups"
    inside = {path.parent for path in package.rglob("*.py")}
    return sorted(inside, key=lambda folder: folder.relative_to(ROOT).parts)


def package_map() -> str:
    """Return the map as Markdown."""
    parts = []
    for folder in folders():
        table = "\n".join(["| file | what it is |", "|---|---|", *rows(folder)])
        parts.append(f"### `{folder.relative_to(ROOT).as_posix()}/`\n\n{table}\n")
    return "\n".join(parts)


def with_map(page: str) -> str:
    """Return the text of a page with the current map between its marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{package_map()}\n{END}{after}"


def main() -> None:
    print(package_map(), end="")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(with_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
