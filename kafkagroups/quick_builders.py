"""Functions that build objects of frozen dataclasses, faster than the classes themselves.

The `__init__` of a frozen dataclass must set each field with `object.__setattr__`, because the class refuses every
assignment. A builder first creates a draft: an object of a class that has the same fields, but accepts assignments.
The builder sets the fields of the draft, and then turns the draft into an object of the frozen class. This takes a
quarter of the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def make_builder(cls: type[T]) -> Callable[..., T]:
    """Return a function that builds an object of a frozen dataclass from the values of its fields.

    The parameters of the function are those of the class. Each of them can be given by position: first the fields in
    the order of their declaration, and then the fields that the class accepts only by keyword. The class must not have
    a `__post_init__` or a default factory.
    """
    members: dict[str, Any] = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    if "__slots__" in cls.__dict__:
        members["__slots__"] = cls.__dict__["__slots__"]
    # Python can change the class of an object if both classes have the same bases and the same slots.
    draft_class = type("Draft", cls.__bases__, members)
    all_fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    fields = [field for field in all_fields if not field.kw_only] + [field for field in all_fields if field.kw_only]
    defaults = {f"default_of_{field.name}": field.default for field in fields}
    # Like the module dataclasses, this function creates the source of a function with one assignment per field.
    parameters = [
        field.name if field.default is dataclasses.MISSING else f"{field.name}=default_of_{field.name}"
        for field in fields
    ]
    lines = [
        f"def build({', '.join(parameters)}):",
        "    built = new_object(draft_class)",
        *(f"    built.{field.name} = {field.name}" for field in fields),
        "    built.__class__ = frozen_class",
        "    return built",
    ]
    names: dict[str, Any] = {"new_object": object.__new__, "draft_class": draft_class, "frozen_class": cls, **defaults}
    exec("\n".join(lines), names)
    build: Callable[..., T] = names["build"]
    return build
