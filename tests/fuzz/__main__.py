"""`python -m tests.fuzz TARGET [CORPUS] [libFuzzer's options]`: fuzzes a target until something breaks.

Needs atheris (Linux on x86-64). A find is printed with its traceback; `-artifact_prefix=DIR/` says where it is kept.
"""

import sys

import atheris

with atheris.instrument_imports(include=["kafkagroups"]):
    from tests.fuzz.targets import TARGETS


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        raise SystemExit(f"usage: python -m tests.fuzz {'|'.join(TARGETS)} [CORPUS] [options]")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]][0])
    atheris.Fuzz()


main()
