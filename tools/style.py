"""Check the style rules that ruff cannot express; print each place that breaks one.

The rules: one assignment per line, no conditional expression inside another one, the formatter is never switched off.
A swap, and a pair with one name (`start_x, start_y = …`), may stand on one line.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("kafkagroups", "tests", "tools", "benchmarks")
FORMATTER_OFF = re.compile(r"#\s*fmt:\s*(skip|off)")


def names_in(node: ast.AST) -> set[str]:
    """Return the text of every name and attribute below a node."""
    return {ast.unparse(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute | ast.Subscript)}


def is_swap(targets: ast.Tuple, values: ast.Tuple) -> bool:
    """Return whether a value needs the old content of a target, so that the assignments cannot be separated."""
    return bool({ast.unparse(target) for target in targets.elts} & names_in(values))


def problems(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and a description of each place that breaks a rule."""
    source = path.read_text(encoding="utf-8")
    for number, line in enumerate(source.splitlines(), 1):
        if path != Path(__file__).resolve() and FORMATTER_OFF.search(line):
            yield number, "the formatter is switched off"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.IfExp):
            branches = (node.test, node.body, node.orelse)
            if any(isinstance(each, ast.IfExp) for branch in branches for each in ast.walk(branch)):
                yield node.lineno, "a conditional expression stands inside another one"
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and not is_swap(target, node.value):
                    yield node.lineno, "several assignments stand on one line"


def main() -> int:
    found = 0
    for root in ROOTS:
        for path in sorted(Path(root).rglob("*.py")):
            for line, problem in sorted(problems(path.resolve())):
                print(f"{path}:{line}: {problem}")
                found += 1
    if found:
        print(f"{found} places break a style rule; tools/style.py names the rules.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
