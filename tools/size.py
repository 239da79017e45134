"""Prints the size of each room of kafkagroups/: lines of code (no blanks, comments, docstrings) and all lines."""

import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "kafkagroups"
CORE = ("records", "log", "groups", "coordinator")
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(source: str) -> int:
    lines: set[int] = set()
    at_start = True  # of a logical line, where a string is a docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE and not (at_start and token.type == tokenize.STRING):
            lines.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            at_start = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return len(lines)


def main() -> None:
    files, code, total = Counter[str](), Counter[str](), Counter[str]()
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).parts
        room = inside[0] if len(inside) > 1 else "(top)"
        source = path.read_text(encoding="utf-8")
        for name in {room, "all"} | ({"core"} if room in CORE else set()):
            files[name] += 1
            code[name] += code_lines(source)
            total[name] += len(source.splitlines())
    print(f"{'room':<12} {'files':>6} {'code':>7} {'total':>7}")
    for room in [*sorted(files.keys() - {"core", "all"}), "core", "all"]:
        print(f"{room:<12} {files[room]:>6} {code[room]:>7} {total[room]:>7}")
    print(f"core = {', '.join(CORE)}; aims: core below 5,000, all below 9,000")


if __name__ == "__main__":
    main()
