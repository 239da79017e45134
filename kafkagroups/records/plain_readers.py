"""Fast readers of messages that contain only numbers and strings, such as keys and committed offsets.

Most records of a log are committed offsets, so these readers decide how fast a log is read.
"""

from __future__ import annotations

import struct
from typing import Any

from kafkagroups.records.fields import Message, field_specs
from kafkagroups.records.text import JAVA_ERROR_HANDLER
from kafkagroups.records.wire import Int, MessageFormat, Reader, String


def is_plain(cls: type[Message], message_format: MessageFormat) -> bool:
    """Return whether the untagged fields of a message are only numbers and strings."""
    specs = [spec for spec in field_specs(cls) if spec.is_in(message_format)]
    return all(isinstance(spec.wire, Int | String) for spec in specs if spec.tag is None)


def make_plain_reader(cls: type[Message], message_format: MessageFormat) -> Reader:
    """Return a fast reader of the field values of a plain message (`is_plain`).

    This reader reads only the usual bytes: no null, no tagged field, and compact lengths of one byte. In all other
    cases, it returns None instead of the values. The general reader (structs.py) must then read the same bytes again,
    and raises the error if they are wrong.

    The reader is a function of a few lines, which are created here. It reads all numbers between two strings, and the
    length of the second string, in one step. For example, for version 3 of OffsetCommitValue:

        def read(buffer, position):
            try:
                value_0, value_1, length = unpack_0(buffer, position)
                if length < 0:
                    return None, position
                start = position + 14
                position = start + length
                value_2 = buffer[start:position].decode("utf-8", error_handler)
                value_3, = unpack_1(buffer, position)
            except struct_error:
                return None, position
            return [value_0, value_1, value_2, value_3, default_4, default_5], position + 8
    """
    is_flexible = message_format.flexible
    names: dict[str, Any] = {"struct_error": struct.error, "error_handler": JAVA_ERROR_HANDLER}
    lines = ["def read(buffer, position):", "    try:"]
    step_count = 0
    numbers: list[str] = []
    number_format = ">"
    values = []

    def add_step() -> int:
        """Add the line that reads the numbers since the last string. Return their size in bytes."""
        nonlocal step_count, numbers, number_format
        step = struct.Struct(number_format)
        if numbers:
            names[f"unpack_{step_count}"] = step.unpack_from
            lines.append(f"        {', '.join(numbers)}, = unpack_{step_count}(buffer, position)")
        step_count += 1
        numbers = []
        number_format = ">"
        return step.size

    for index, spec in enumerate(field_specs(cls)):
        if spec.tag is not None or not spec.is_in(message_format):
            names[f"default_{index}"] = spec.default
            values.append(f"default_{index}")
            continue
        values.append(f"value_{index}")
        if isinstance(spec.wire, Int):
            numbers.append(f"value_{index}")
            number_format += spec.wire.code
            continue
        numbers.append("length")
        number_format += "B" if is_flexible else "h"
        byte_count = add_step()
        lines += [
            # A compact length is stored as length + 1. If the high bit is set, the length has a second byte.
            f"        if {'not 0 < length < 0x80' if is_flexible else 'length < 0'}:",
            "            return None, position",
            f"        start = position + {byte_count}",
            f"        position = start + length{' - 1' if is_flexible else ''}",
            f"        value_{index} = buffer[start:position].decode('utf-8', error_handler)",
        ]
    if is_flexible:
        numbers.append("tag_count")
        number_format += "B"
    ends_with_string = not numbers
    last_byte_count = add_step()
    lines += [
        "    except struct_error:",
        "        return None, position",
    ]
    if is_flexible or ends_with_string:
        lines += [
            f"    if {'position > len(buffer)' if ends_with_string else 'tag_count'}:",
            "        return None, position",
        ]
    lines += [
        f"    return [{', '.join(values)}], position + {last_byte_count}",
    ]
    exec("\n".join(lines), names)
    read: Reader = names["read"]
    return read
