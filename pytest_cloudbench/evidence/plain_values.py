"""Values as a record shows them: arguments that can be compared, and figures without their series."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.evidence.restorable_types import type_id_of
from pytest_cloudbench.limits.instances import InstanceLimits

_LONG = ("series", "streams", "directions", "parts")


@dataclass(frozen=True)
class WorkloadRequest:
    """A test's request to run a workload on a target; ``arguments`` are those that the test passed."""

    name: str
    target: object
    arguments: Mapping[str, Any]

    def plain(self) -> dict[str, Any]:
        """Return the request as plain JSON, by which a replay finds the recorded one."""
        return {"name": self.name, "target": worded(self.target), "arguments": worded(given(self.arguments))}


def worded(value: Any) -> Any:
    """Return a value as plain JSON, equal for equal things: targets by their labels, resources by their ids.

    Two calls are the same if their arguments are equal in this form.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): worded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [worded(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((worded(item) for item in value), key=repr)
    return _named(value)


def without_unset_fields(value: Any) -> Any:
    """Return a request as `worded` made it, without the fields of its dataclasses that are None or empty.

    So a request stays the same if a later version adds a field.
    """
    if isinstance(value, list):
        return [without_unset_fields(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: without_unset_fields(each)
        for name, each in value.items()
        if "a" not in value or (each not in (None, "", []))
    }


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call that were given; None and () count as left out.

    So a call stays the same if a later version passes one more option.
    """
    return {name: value for name, value in options.items() if value is not None and value != ()}


def call_arguments(args: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of a call in one list, its options last."""
    kept = given(options)
    return [*args, kept] if kept else list(args)


def _named(value: Any) -> Any:
    """Return the label, name or text of a thing; the fields of a plain dataclass."""
    label = value.name if isinstance(value, InstanceLimits) else getattr(value, "label", None)
    if isinstance(label, str):
        return label
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if dataclasses.is_dataclass(value) and not _says_what_it_is(value):
        fields = {field.name: worded(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"a": type_id_of(type(value)) or type(value).__name__, **fields}
    return str(value) if _says_what_it_is(value) else type(value).__name__


def _says_what_it_is(value: object) -> bool:
    """Return True if its class defines its text: not a default repr with an address or all fields."""
    kind = type(value)
    return kind.__str__ is not object.__str__ or (
        kind.__repr__ is not object.__repr__ and not dataclasses.is_dataclass(value)
    )


def figures_of(measurement: Any) -> dict[str, Any]:
    """Return a measurement's ``to_dict`` without the series, which its file has in full."""
    to_dict = getattr(measurement, "to_dict", None)
    if to_dict is None:
        return {}
    return {name: value for name, value in to_dict().items() if name not in _LONG}


def in_lines(content: Mapping[str, Any]) -> bytes:
    """Return a JSON object with one line for each of its values, for human readers."""
    import msgspec

    encode = msgspec.json.encode
    lines = (encode(name) + b": " + encode(value) for name, value in content.items())
    return b"{\n" + b",\n".join(lines) + b"\n}\n"
