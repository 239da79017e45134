"""Print the size of each package of kafkagroups: files, lines of code, and all lines (`make size`).

Lines of code are those without blank lines, comments and docstrings. The lines of a template (*.j2) count, too, and
those of the native engine (engine/src), which are not part of the sum. A package above its ceiling is an error: whoever
adds something takes something away, or moves a ceiling and says why in docs/architecture.md. A ceiling falls when a
package has become smaller.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kafkagroups"
ENGINE = ROOT / "engine" / "src"
CEILINGS = {
    "(top)": 498,
    "cli": 2732,
    "coordinator": 4974,
    "course": 6645,
    "engine": 2552,
    "groups": 1995,
    "history": 4946,
    "html_report": 294,
    "kafka_tools": 399,
    "loading": 1946,
    "log": 2260,
    "records": 1762,
    "repair": 1999,
    "spark": 1512,
    "synth": 537,
}
"""The largest number of lines of code of each package."""
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(source: str) -> int:
    """Return how many lines hold code."""
    lines: set[int] = set()
    # A string at the start of a logical line is a docstring.
    is_at_start = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE and not (is_at_start and token.type == tokenize.STRING):
            lines.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            is_at_start = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return len(lines)


def other_lines(source: str) -> int:
    """Return how many lines of a template or of Rust are neither blank nor a comment of one line."""
    lines = (line.strip() for line in source.splitlines())
    return sum(bool(line) and not line.startswith("//") and not re.fullmatch(r"{#.*#}", line) for line in lines)


def main() -> None:
    files: Counter[str] = Counter()
    code: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.j2"), *ENGINE.rglob("*.rs")]):
        *folders, _ = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).parts
        package = folders[0] if folders else "(top)"
        source = path.read_text(encoding="utf-8")
        for name in (package,) if package == "engine" else (package, "all"):
            files[name] += 1
            code[name] += code_lines(source) if path.suffix == ".py" else other_lines(source)
            total[name] += len(source.splitlines())
    print(f"{'package':<12} {'files':>6} {'code':>7} {'total':>7}")
    for package in [*sorted(files.keys() - {"all"}), "all"]:
        print(f"{package:<12} {files[package]:>6} {code[package]:>7} {total[package]:>7}")
    above = [name for name in files if name != "all" and code[name] > CEILINGS.get(name, 0)]
    if above:
        sys.exit(
            "above the ceiling in tools/size.py: " + ", ".join(f"{name} ({CEILINGS.get(name, 0)})" for name in above)
        )


if __name__ == "__main__":
    main()
