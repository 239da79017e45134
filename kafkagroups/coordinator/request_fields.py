"""What is checked first of all: whether a request can contain the values of its fields.

Python callers can pass a value that does not fit into its field, for example a producer epoch of 40,000. Then
`check_fields` raises UsageError before the coordinator changes anything. The annotation of a parameter or field says
what it can be:

    str                   text of at most 32767 bytes in UTF-8, without half of a surrogate pair
    ClientText            the same, with room for what a broker appends to build a member id
    int, Int16, Int64     a number of 32, 16 or 64 bits
    bytes                 a subscription, an assignment
    a class               an object whose fields are checked, too

A list, mapping or None is checked as its annotation says; a bool is not checked.
Source: the request schemas of 3.9 and 4.3.1 (JoinGroupRequest.json, TxnOffsetCommitRequest.json, …).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from kafkagroups.errors import UsageError
from kafkagroups.records.wire import INT16, INT32, INT64, MAX_STRING_BYTES

P = ParamSpec("P")
R = TypeVar("R")
Request = TypeVar("Request")
Verbs = TypeVar("Verbs")
Check = Callable[[Any], Any]


def check_text(value: Any, max_bytes: int = MAX_STRING_BYTES) -> Any:
    _check_type("a string", value, str)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        message = f"expected text with an encoding in UTF-8, found half of a surrogate pair at index {error.start}"
        raise UsageError(message) from None
    if size > max_bytes:
        raise UsageError(f"expected at most {max_bytes} bytes of UTF-8, found {size} bytes")
    return value


def _check_bytes(value: Any) -> Any:
    _check_type("bytes", value, bytes)
    return value


def _check_pair(value: Any) -> Any:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise _refuse_type("a pair", value)
    return value


def _check_protocols(value: Any) -> list[tuple[str, bytes]]:
    """Check pairs of a protocol's name and the member's metadata. Two pairs with the same name are refused."""
    protocols: dict[str, bytes] = {}
    for index, (name, metadata) in enumerate(_check_list(_check_pair, value)):
        check_field(f"[{index}].name", check_text, name)
        check_field(f"[{index}].metadata", _check_bytes, metadata)
        if name in protocols:
            raise UsageError(f"expected each protocol once, found {name!r} again", field=f"[{index}].name")
        protocols[name] = metadata
    return list(protocols.items())


MEMBER_ID_SUFFIX_BYTES = 37
"""The hyphen and the UUID that a broker appends to a client id or an instance id to build a member id."""
Int16 = Annotated[int, INT16.check]
Int64 = Annotated[int, INT64.check]
ClientText = Annotated[str, partial(check_text, max_bytes=MAX_STRING_BYTES - MEMBER_ID_SUFFIX_BYTES)]
"""A client id or an instance id. A member id that contains it must be a text, too."""
Protocols = Annotated[Sequence[tuple[str, bytes]], _check_protocols]
_CHECKS: dict[Any, Check] = {str: check_text, int: INT32.check, bytes: _check_bytes}


def check_field(name: str, check: Check, value: Any) -> Any:
    """Return the value, an iterator as a list. Raises UsageError if the field `name` cannot contain it."""
    try:
        return check(value)
    except UsageError as error:
        raise error.prefix_field(name) from None


@cache
def _find_check(field_type: Any) -> Check:
    if field_type in _CHECKS:
        return _CHECKS[field_type]
    kind = get_origin(field_type)
    options = get_args(field_type)
    if kind is None:
        return partial(_check_object, field_type, _find_checks(field_type))
    if kind is Annotated:
        check: Check = field_type.__metadata__[0]
        return check
    if kind in (Union, UnionType):
        return partial(_check_option, options, _find_check(options[0]))
    if issubclass(kind, Mapping):
        return partial(_check_mapping, *map(_find_check, options))
    return partial(_check_list, _find_check(options[0]))


def _find_checks(declaration: Callable[..., Any]) -> dict[str, Check]:
    """Return the checks of a method's parameters or a class's fields. Those that are not checked are left out."""
    hints = get_type_hints(declaration, include_extras=True)
    names = inspect.signature(declaration).parameters
    return {name: _find_check(hints[name]) for name in names if hints.get(name, bool) not in (bool, bool | None)}


def _check_object(cls: type, checks: Mapping[str, Check], value: Any) -> Any:
    _check_type(cls.__name__, value, cls)
    for name, check in checks.items():
        check_field(name, check, getattr(value, name))
    return value


def _check_option(options: Collection[type], check: Check, value: Any) -> Any:
    """Besides a value of the first type, the options can be None and text."""
    if value is None and NoneType in options:
        return None
    is_text = str in options and isinstance(value, str)
    return check_text(value) if is_text else check(value)


def _check_mapping(check_key: Check, check_content: Check, value: Any) -> dict[Any, Any]:
    _check_type("a mapping", value, Mapping)
    for index, key in enumerate(value):
        check_field(f"[key {index}]", check_key, key)
    return {key: check_field(f"[{key}]", check_content, content) for key, content in value.items()}


def _check_list(check_element: Check, value: Any) -> list[Any]:
    if isinstance(value, str | bytes):
        raise _refuse_type("a list", value)
    _check_type("a list", value, Iterable)
    return [check_field(f"[{index}]", check_element, element) for index, element in enumerate(value)]


def _check_type(expected: str, value: Any, value_type: type) -> None:
    if not isinstance(value, value_type):
        raise _refuse_type(expected, value)


def _refuse_type(expected: str, value: Any) -> UsageError:
    return UsageError(f"expected {expected}, found a value of type {type(value).__name__}")


def check_fields(method: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a method, or the fields of a request, before it runs."""
    signature = inspect.signature(method)
    checks = _find_checks(method)

    @wraps(method)
    def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        call = signature.bind(*args, **kwargs)
        for name, value in call.arguments.items():
            if name in checks:
                call.arguments[name] = check_field(name, checks[name], value)
        return method(*call.args, **call.kwargs)

    return check_and_call


def check_fields_of(
    request_class: Callable[P, Request],
) -> Callable[[Callable[[Verbs, Request], R]], Callable[Concatenate[Verbs, P], R]]:
    """Return a decorator for a method that takes a request object: callers pass the fields, which it checks."""
    build = check_fields(request_class)

    def decorate(method: Callable[[Verbs, Request], R]) -> Callable[Concatenate[Verbs, P], R]:
        @wraps(method)
        def build_and_call(verbs: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return method(verbs, build(*args, **kwargs))

        own = inspect.signature(method)
        parameters = [next(iter(own.parameters.values())), *inspect.signature(request_class).parameters.values()]
        build_and_call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return build_and_call

    return decorate
