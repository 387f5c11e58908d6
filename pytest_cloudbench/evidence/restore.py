"""Measurements out of a record: objects whose verdict methods work as on the day they were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_cloudbench.evidence.restorable import NotRestored, restored


def measurement_from(
    record: Mapping[str, Any], files: Mapping[str, bytes] | Callable[[str], bytes] | None = None
) -> Any:
    """The measurement (Measurement, NetworkMeasurement, FileCreation ...) that a measurement's file holds.

    record: the file's content, or its "value" alone. files: the raw files by their path in the evidence folder,
    or what reads one. Raises NotRestored for a record without a value or of a class that is no longer there;
    what a failed workload left is its error, returned as an object and not raised.
    """
    value = record.get("value") if "is" not in record else record
    if value is None:
        raise NotRestored("the record holds no value")
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
