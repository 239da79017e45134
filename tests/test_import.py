"""`import kafkagroups` is light."""

import subprocess
import sys
from importlib.util import find_spec

import kafkagroups as kg

HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "ipywidgets", "IPython", "rich"}


def loaded_by(statement: str) -> set[str]:
    command = [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_import_loads_nothing_heavy():
    """A program that only wants a partition number does not pay for Spark, tables or widgets."""
    assert not loaded_by("import kafkagroups") & HEAVY


def test_the_list_of_commands_loads_no_command():
    """`kafkagroups --help` answers at once."""
    loaded = loaded_by("from kafkagroups.cli import main; main(['--help'])")
    assert not loaded & {"kafkagroups.public", "kafkagroups.api", "kafkagroups.cli.load", "argparse"}


def test_public_names_are_those_of_the_list():
    """They are imported when one of them is used, and no module has the name of one."""
    for name in kg.__all__:
        assert getattr(kg, name) is not None
        assert find_spec(f"kafkagroups.{name}") is None, name
    assert callable(kg.report) and callable(kg.load)
    assert not hasattr(kg, "no_such_name")
    assert dir(kg) == sorted(kg.__all__), "what Tab completes"


def test_doctor_loads_nothing_heavy():
    """The doctor must speak even where the packages that it judges are broken."""
    assert not loaded_by("from kafkagroups.cli import doctor; list(doctor.run_checks())") & (HEAVY - {"IPython"})
