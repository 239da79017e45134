"""The extras of this package: which of them installs a module that is missing."""

from __future__ import annotations

EXTRA_OF_MODULE = {
    "pyarrow": "arrow",
    "numpy": "pandas",
    "pandas": "pandas",
    "pyspark": "spark",
    "kafka": "live",
    "IPython": "course",
    "anywidget": "course",
    "ipywidgets": "course",
    "jupyterlab": "course",
}
"""The extra that installs a module, by the name of the module. pyproject.toml lists the packages of each extra."""

NATIVE_ENGINE = "kafkagroups_engine"
"""The module of the native engine. No extra installs it, because it is built from the folder `engine`."""


def describe_missing(module: str | None, user: str) -> str | None:
    """Return a line that says how to install a missing module, or None if nothing of this project does.

    `module` is the name of the module, for example "pyarrow.parquet". `user` is what needs the module.
    """
    package = (module or "").partition(".")[0]
    if package == NATIVE_ENGINE:
        return f"{user} needs the native engine: pip install ./engine, in a clone of kafkagroups"
    extra = EXTRA_OF_MODULE.get(package)
    if extra is None:
        return None
    return f"{user} needs the Python package {package}: pip install 'kafkagroups[{extra}]'"
