"""The answers of actions in the form of EC2's XML: dictionaries, lists and text under their names in the XML.

moto's results are objects whose attributes are named after the members of the service's model. A plan, made once for
each place in an answer, reads them, so describing thousands of items is fast. Filters and pages work on described
items. Import only after `moto_loading.load_moto`.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Mapping
from typing import Any

from botocore import xform_name
from botocore.model import ListShape, OperationModel, Shape, StructureShape
from botocore.utils import parse_to_aware_datetime
from moto.core.responses import ActionResult
from moto.core.serialize import AttributePickerContext, XFormedAttributePicker

Described = dict[str, Any]


class Items(list[Any]):
    """A described list. ``name`` is the XML element of each item."""

    name = "item"


Transformers = Mapping[str, Callable[[Any], Any]]

_MISSING = object()
_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#xD;"}
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


class DescribedResult(ActionResult):  # type: ignore[misc]  # moto is not typed here
    """A result that is already described."""


class Describer:
    """Describes results of one action; ``transformers`` are moto's, by the end of a member's path."""

    def __init__(self, operation: OperationModel, transformers: Transformers) -> None:
        self._transformers = transformers
        output = operation.output_shape
        self._plan = None if output is None else self._structure(output, (str(operation.name), output.name))

    def describe(self, answer: ActionResult) -> Described:
        """Return the description of an action's result; empty if it has none."""
        result: Any = answer.result
        if isinstance(answer, DescribedResult):
            return dict(result)
        described = self._plan(result) if self._plan is not None and result is not None else None
        return described or {}

    def _value(self, shape: Shape, path: tuple[str, ...]) -> Callable[[Any], Any]:
        if isinstance(shape, StructureShape):
            return self._structure(shape, path)
        if isinstance(shape, ListShape):
            return self._list(shape, path)
        return _SCALARS.get(shape.type_name, str)

    def _list(self, shape: ListShape, path: tuple[str, ...]) -> Callable[[Any], Any]:
        plans: list[Callable[[Any], Any]] = []
        name = shape.member.serialization.get("name", "member")

        def describe(values: Any) -> Items:
            if not plans:  # made at its first use, since shapes may contain themselves
                plans.append(self._value(shape.member, (*path, shape.member.name)))
            found = [plans[0](value) for value in values if value is not None]
            items = Items(one for one in found if one is not None)
            if name != "item":
                items.name = name
            return items

        return describe

    def _structure(self, shape: StructureShape, path: tuple[str, ...]) -> Callable[[Any], Any]:
        members: list[_Member] = []
        is_attribute = len(path) == 3  # a member of the answer, as in DescribeInstanceAttribute

        def describe(value: Any) -> Described | None:
            if not members:
                members.extend(self._members(shape, path))
            described = {}
            for member in members:
                found = member.read(value)
                if found is not None and (text := member.describe(found)) is not None:
                    described[member.wire_name] = text
            # EC2 leaves out an empty structure, except a requested attribute.
            return described if described or is_attribute else None

        return describe

    def _members(self, shape: StructureShape, path: tuple[str, ...]) -> list[_Member]:
        made = []
        for name, member in shape.members.items():
            member.parent = shape  # type: ignore[attr-defined]  # moto's aliases depend on it
            place = ".".join((*path, name))
            transform = next(
                (change for end, change in self._transformers.items() if place.endswith(end)), None
            )
            made.append(_Member(name, member, self._value(member, (*path, name)), transform))
        return made


class _Member:
    """One member of a structure: how its value is found in an object, and described."""

    def __init__(
        self,
        name: str,
        shape: Shape,
        describe: Callable[[Any], Any],
        transform: Callable[[Any], Any] | None,
    ) -> None:
        self.wire_name: str = shape.serialization.get("name", name)
        self.describe = describe
        self._name, self._shape, self._transform = name, shape, transform
        self._keys: dict[type, tuple[str, ...]] = {}

    def read(self, value: Any) -> Any:
        kind = type(value)
        keys = self._keys.get(kind)
        if keys is None:
            keys = self._keys[kind] = self._possible_keys(value)
        found = None
        if hasattr(kind, "__getitem__"):
            for key in keys:
                try:
                    found = value[key]
                    break
                except (KeyError, IndexError, TypeError, AttributeError):
                    continue
        else:
            for key in keys:
                found = getattr(value, key, _MISSING)
                if found is not _MISSING:
                    break
            else:
                found = None
        return found if self._transform is None else self._transform(found)

    def _possible_keys(self, value: Any) -> tuple[str, ...]:
        context = AttributePickerContext(obj=value, key=self._name, shape=self._shape)
        keys = list(XFormedAttributePicker().get_possible_keys(context))
        # moto's attributes leave out the name of the object's class, which may be a base class of this region's.
        for base in type(value).__mro__:
            if self._name.lower().startswith(base.__name__.lower()):
                keys.append(xform_name(self._name[len(base.__name__) :]))
        return tuple(dict.fromkeys(key for key in keys if key))


@functools.cache
def describer_of(operation: OperationModel) -> Describer:
    """Return the describer of an action, with the transformers of all actions."""
    from .action_base import RegionActions

    return Describer(operation, RegionActions.RESPONSE_KEY_PATH_TO_TRANSFORMER)


def _time(value: Any) -> str:
    text: str = parse_to_aware_datetime(value).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return text


def _blob(value: Any) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


_SCALARS: dict[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value is True or str(value).lower() == "true" else "false",
    "integer": lambda value: str(int(value)),
    "long": lambda value: str(int(value)),
    "float": lambda value: str(float(value)),
    "double": lambda value: str(float(value)),
    "timestamp": _time,
    "blob": _blob,
}


def write_answer(action: str, described: Described, request_id: str) -> str:
    """Return the XML of an action's answer."""
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        f'<{action}Response xmlns="{NAMESPACE}"><requestId>{request_id}</requestId>',
    ]
    _write(parts, described)
    parts.append(f"</{action}Response>")
    return "".join(parts)


def _write(parts: list[str], described: Described) -> None:
    for name, value in described.items():
        if isinstance(value, str):
            parts.append(f"<{name}>{value.translate(_ESCAPES)}</{name}>")
        elif not value:
            parts.append(f"<{name}/>")
        elif isinstance(value, dict):
            parts.append(f"<{name}>")
            _write(parts, value)
            parts.append(f"</{name}>")
        else:
            parts.append(f"<{name}>")
            for item in value:
                _write(parts, {getattr(value, "name", "item"): item})
            parts.append(f"</{name}>")
