"""Convert values to plain JSON and back: dataclasses with their fields, enums, quantities, errors.

A dataclass becomes an object whose ``is`` is the id of its class (`restorable_types.py`). JSON lists stand for tuples,
the usual sequences in a measurement. Bytes go into files of their own. Only classes that have an id and Python's own
exceptions are restored, so a record holds values and never code.
"""

from __future__ import annotations

import base64
import builtins
import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any

from pytest_cloudbench.evidence.restorable_types import UnknownType, class_of, type_id_of

CLASS = "is"
_SMALL_BYTES = 64
_IN_CLEAR = (float, bool, type(None))

Clean = Callable[[str, Any], Any]
"""Takes the name of a text ("" if it has none) and the text; returns the text without secrets."""
Store = Callable[[str, bytes], str]
"""Takes the name of bytes and the bytes, stores them, and returns the path by which they are found."""


class NotRestorable(TypeError):
    """A value cannot be written in a form from which it could be restored."""


class NotRestored(ValueError):
    """A class or value of a record cannot be restored; the message says which."""


def _untouched(_name: str, value: Any) -> Any:
    return value


def plain(value: Any, *, clean: Clean = _untouched, store: Store | None = None) -> Any:
    """Return the value as JSON can hold it. Functions become None.

    ``clean`` removes secrets from each text. ``store`` writes bytes to a file; without it they are inline.
    Raises NotRestorable for an object of a class without an id.
    """
    return _Writer(clean, store).plain(value, "", "")


class _Writer:
    def __init__(self, clean: Clean, store: Store | None) -> None:
        self._clean = clean
        self._store = store

    def plain(self, value: Any, name: str, path: str) -> Any:
        kind = type(value)
        if kind is float:
            return value if math.isfinite(value) else {CLASS: "float", "value": repr(value)}
        if kind is str:
            return self._clean(name, value)
        if kind in (int, bool, type(None)):
            return value
        for kinds, write in self._kinds:
            if isinstance(value, kinds):
                return write(value, name, path)
        if type_id_of(kind) and dataclasses.is_dataclass(value):
            return self._dataclass(value, name, path)
        return self._other(value, name, path)

    def _other(self, value: Any, name: str, path: str) -> Any:
        if hasattr(value, "tolist") and type(value).__module__.partition(".")[0] == "numpy":
            return self.plain(value.tolist(), name, path)
        if callable(value):
            return None
        raise NotRestorable(
            f"{path or 'the value'} is of {class_name(type(value))}, which cannot be recorded"
        )

    @cached_property
    def _kinds(self) -> tuple[tuple[Any, Callable[[Any, str, str], Any]], ...]:
        """How each kind of value is written; a subclass is written as its base."""
        return (
            (tuple, self._tuple),
            (list, self._items("list")),
            (Mapping, self._mapping),
            (Enum, lambda value, name, path: {CLASS: class_name(type(value)), "value": value.value}),
            ((bytes, bytearray, memoryview), self._bytes),
            (frozenset, self._items("frozenset")),
            (set, self._items("set")),
            (BaseException, self._error),
            (datetime, lambda value, name, path: {CLASS: "datetime", "value": value.isoformat()}),
            (PurePath, lambda value, name, path: {CLASS: "path", "value": self._clean(name, str(value))}),
            (
                range,
                lambda value, name, path: {CLASS: "range", "items": [value.start, value.stop, value.step]},
            ),
            (str, lambda value, name, path: self._clean(name, str(value))),
            (int, lambda value, name, path: int(value)),
            (float, lambda value, name, path: self.plain(float(value), name, path)),
        )

    def _items(self, kind: str) -> Callable[[Any, str, str], Any]:
        def write(values: Any, name: str, path: str) -> dict[str, Any]:
            ordered = values if kind == "list" else sorted(values, key=repr)
            return {CLASS: kind, "items": self._tuple(tuple(ordered), name, path)}

        return write

    def _tuple(self, values: tuple[Any, ...], name: str, path: str) -> Any:
        first = type(values[0]) if values else None
        if first in (float, int) and all(type(each) is first for each in values):
            if first is int or all(map(math.isfinite, values)):
                return list(values)
        elif len(values) > 1 and dataclasses.is_dataclass(first) and all(type(e) is first for e in values):
            fields = dataclasses.fields(first)
            if len(fields) == 1:  # a column of quantities
                column = fields[0].name
                inner = tuple(getattr(each, column) for each in values)
                return {CLASS: "each", "of": class_name(first), column: self._tuple(inner, column, path)}
        return [self.plain(each, name, f"{path}-{number}") for number, each in enumerate(values, start=1)]

    def _dataclass(self, value: Any, _name: str, path: str) -> dict[str, Any]:
        kept = {CLASS: class_name(type(value))}
        for field in dataclasses.fields(value):
            if field.init:
                kept[field.name] = self._named(getattr(value, field.name), field.name, path)
        return kept

    def _mapping(self, value: Mapping[Any, Any], _name: str, path: str) -> dict[str, Any]:
        if all(isinstance(key, str) for key in value) and CLASS not in value:
            return {self._clean("", key): self._named(item, key, path) for key, item in value.items()}
        pairs = [
            [self.plain(key, "", path), self._named(item, str(key), path)] for key, item in value.items()
        ]
        return {CLASS: "dict", "pairs": pairs}

    def _named(self, value: Any, name: str, path: str) -> Any:
        if not isinstance(value, _IN_CLEAR):
            cleaned = self._clean(name, value)  # the name alone may say that it is secret as a whole
            if isinstance(cleaned, str):
                return str(cleaned)
        return self.plain(value, name, f"{path}-{name}" if path else name)

    def _bytes(self, data: bytes | bytearray | memoryview, _name: str, path: str) -> dict[str, Any]:
        value = bytes(data)
        if self._store is not None and len(value) > _SMALL_BYTES:
            return {CLASS: "file", "path": self._store(path or "data", value)}
        cleaned = self._clean("", value)
        return {CLASS: "bytes", "base64": base64.b64encode(cleaned).decode("ascii")}

    def _error(self, error: BaseException, _name: str, path: str) -> dict[str, Any]:
        def kept(value: Any, name: str) -> Any:
            try:
                return self._named(value, name, path)
            except NotRestorable:
                return self._clean(name, str(value))

        return {
            CLASS: class_name(type(error)),
            "args": [kept(each, "") for each in error.args],
            "state": {name: kept(value, name) for name, value in vars(error).items() if name[:2] != "__"},
        }


def class_name(kind: type[Any]) -> str:
    """Return how a record names a class: by its id, or without one by its module, such as "builtins:ValueError"."""
    return type_id_of(kind) or f"{kind.__module__}:{kind.__qualname__}"


def restored(data: Any, *, load: Callable[[str], bytes] | None = None) -> Any:
    """Return the value that `plain` converted. ``load`` returns the bytes that ``store`` wrote.

    Fields that the class no longer has are ignored, new ones take their defaults. Raises NotRestored.
    """
    if isinstance(data, list):
        return tuple(restored(each, load=load) for each in data)
    if not isinstance(data, Mapping):
        return data
    name = data.get(CLASS)
    if name is None:
        return {key: restored(value, load=load) for key, value in data.items()}
    if not isinstance(name, str):
        raise NotRestored(f"{name!r} is not a name of a class")
    if name not in _BUILT_IN:
        return _instance(name, data, load)
    try:
        return _BUILT_IN[name](data, load)
    except NotRestored:
        raise
    except Exception as error:  # a record may have been written by anybody
        raise NotRestored(f"a value of kind {name!r} cannot be restored: {error}") from error


def _each(data: Mapping[str, Any], load: Any) -> Any:
    column = next(key for key in data if key not in (CLASS, "of"))
    kind = _class(data["of"])
    return tuple(kind(**{column: value}) for value in restored(data[column], load=load))


def _file(data: Mapping[str, Any], load: Any) -> bytes:
    if load is None:
        raise ValueError(f"{data['path']} is a file, and no function to read it was given")
    return bytes(load(data["path"]))


_BUILT_IN: dict[str, Callable[[Mapping[str, Any], Any], Any]] = {
    "each": _each,
    "file": _file,
    "float": lambda data, load: float(data["value"]),
    "list": lambda data, load: list(restored(data["items"], load=load)),
    "set": lambda data, load: set(restored(data["items"], load=load)),
    "frozenset": lambda data, load: frozenset(restored(data["items"], load=load)),
    "range": lambda data, load: range(*data["items"]),
    "datetime": lambda data, load: datetime.fromisoformat(data["value"]),
    "path": lambda data, load: PurePath(data["value"]),
    "bytes": lambda data, load: base64.b64decode(data["base64"]),
    "dict": lambda data, load: {
        restored(key, load=load): restored(value, load=load) for key, value in data["pairs"]
    },
}


def _instance(name: str, data: Mapping[str, Any], load: Any) -> Any:
    kind = _class(name)
    try:
        if issubclass(kind, Enum):
            return kind(data["value"])
        if issubclass(kind, BaseException):
            args = restored(data.get("args", []), load=load)
            error = kind.__new__(kind, *args)
            error.args = args
            vars(error).update(restored(data.get("state", {}), load=load))
            return error
        known = {field.name for field in dataclasses.fields(kind) if field.init}
        return kind(**{key: restored(value, load=load) for key, value in data.items() if key in known})
    except NotRestored:
        raise
    except Exception as error:  # a record may name any class
        raise NotRestored(f"this version of the package cannot restore a {name}: {error}") from error


def _class(name: str) -> Any:
    module, _, python_name = name.partition(":")
    if module == "builtins":
        found = getattr(builtins, python_name, None)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
        raise NotRestored(f"{name} is not restored: of Python's own classes only exceptions are")
    try:
        return class_of(name)
    except UnknownType:
        raise NotRestored(
            f"{name!r} is not restored: this version knows no class of that id, and no plugin in use registers one"
        ) from None


def measurement_from(
    record: Mapping[str, Any], files: Mapping[str, bytes] | Callable[[str], bytes] | None = None
) -> Any:
    """Return the measurement (Measurement, NetworkMeasurement, FileCreation ...) in a measurement's file.

    ``record`` is the file's content, or its "value" alone. ``files`` are the raw files by their path in the evidence
    folder, or a function that reads one. The error of a failed workload is returned, not raised. Raises NotRestored
    for a record without a value, or of a class that no longer exists.
    """
    value = record.get("value") if "is" not in record else record
    if value is None:
        raise NotRestored("the record has no value")
    load: Callable[[str], bytes] | None
    if files is None or callable(files):
        load = files
    else:
        by_path = files

        def load(path: str) -> bytes:
            try:
                return by_path[path]
            except KeyError:
                raise NotRestored(f"the raw file {path} was not given") from None

    return restored(value, load=load)
