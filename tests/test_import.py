"""`import kafkagroups` is light."""

import subprocess
import sys

HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "ipywidgets", "IPython", "rich"}


def loaded_by(statement: str) -> set[str]:
    command = [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_import_loads_nothing_heavy():
    """A program that only wants a partition number does not pay for Spark, tables or widgets."""
    assert not loaded_by("import kafkagroups") & HEAVY


def test_doctor_loads_nothing_heavy():
    """The doctor must speak even where the packages that it judges are broken."""
    assert not loaded_by("from kafkagroups.cli import doctor; list(doctor.run_checks())") & (HEAVY - {"IPython"})
