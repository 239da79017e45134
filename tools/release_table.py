"""Prints the table of docs/releases.md from kafkagroups/records/releases.py; --write writes it into the page."""

import sys
from itertools import groupby
from pathlib import Path

from kafkagroups.records.releases import CHECKED_VERSIONS, REFUSALS, parse_release

PAGE = Path(__file__).parents[1] / "docs" / "releases.md"
BEGIN = "<!-- table: python tools/release_table.py --write -->"
END = "<!-- end of the table -->"
RELEASES = CHECKED_VERSIONS["new"]


def table() -> str:
    """Return the table: which record fails a load, in which releases, and which release is the first without it."""
    lines = ["| The load fails on | Kafka's issue | Fails in | Fixed in |", "|---|---|---|---|"]
    for refusal in REFUSALS:
        failing = [refusal.applies_to(parse_release(release)) for release in RELEASES]
        lines.append(f"| {refusal.description}. | {refusal.issue} | {_ranges(failing)} | {_fixes(failing)} |")
    return "\n".join(lines)


def _ranges(failing: list[bool]) -> str:
    found = []
    for fails, releases in groupby(zip(failing, RELEASES, strict=True), key=lambda pair: pair[0]):
        names = [release for _, release in releases]
        if fails:
            found.append(names[0] if len(names) == 1 else f"{names[0]} – {names[-1]}")
    return ", ".join(found)


def _fixes(failing: list[bool]) -> str:
    """Return the first releases that load the record again."""
    pairs = zip(RELEASES[1:], failing[:-1], failing[1:], strict=True)
    fixes = [release for release, before, after in pairs if before and not after]
    if failing[-1]:
        fixes.append("not in 4.4.0")
    return ", ".join(fixes)


def main() -> None:
    if sys.argv[1:] != ["--write"]:
        print(table())
        return
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
