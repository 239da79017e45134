"""The functions of `repair` stay easy to call."""

import importlib
import inspect
import pkgutil

from kafkagroups import repair


def test_no_function_has_more_than_seven_parameters():
    """Options that belong together are one object. A dataclass may have more fields."""
    modules = [
        importlib.import_module(f"{repair.__name__}.{module.name}") for module in pkgutil.iter_modules(repair.__path__)
    ]
    classes = [each for module in modules for each in vars(module).values() if inspect.isclass(each)]
    functions = [
        each
        for owner in (*modules, *classes)
        for name, each in vars(owner).items()
        if inspect.isfunction(each) and each.__module__.startswith(repair.__name__) and name != "__init__"
    ]
    assert len(functions) > 100
    assert [each.__qualname__ for each in functions if len(inspect.signature(each).parameters) > 7] == []
