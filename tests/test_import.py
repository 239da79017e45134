"""`import kafkagroups` is light."""

import subprocess
import sys
from pathlib import Path

import kafkagroups

HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "ipywidgets", "IPython", "rich", "jinja2"}


def loaded_by(statement: str) -> set[str]:
    command = [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_import_loads_nothing_heavy():
    """A program that only wants a partition number does not pay for Spark, tables or widgets."""
    assert not loaded_by("import kafkagroups") & HEAVY


def test_no_public_name_hides_a_module():
    """A function and a module of one name exclude each other: `import kafkagroups.NAME.x as x` finds the function."""
    folder = Path(kafkagroups.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert not modules & set(kafkagroups.__all__)


def test_doctor_loads_nothing_heavy():
    """The doctor must speak even where the packages that it judges are broken."""
    assert not loaded_by("from kafkagroups.cli import doctor; list(doctor.run_checks())") & (HEAVY - {"IPython"})
