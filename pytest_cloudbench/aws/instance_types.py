"""The instance types of a region: their limits, and the names nearest to a mistyped one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from pytest_cloudbench.limits.instances import OVERRIDES, InstanceLimits, nearest_names
from pytest_cloudbench.resources.errors import CloudError, UnknownInstanceType

from .clients import Clients


class InstanceTypes:
    """The limits of instance types by name; each type is queried once."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._limits: dict[str, InstanceLimits] = {}
        self._strategies: dict[str, tuple[str, ...] | None] = {}
        self._names: tuple[str, ...] | None = None

    def limits(self, type_name: str) -> InstanceLimits:
        """Return the limits of a type from DescribeInstanceTypes, or from this package's table for types it lacks.

        Raises UnknownInstanceType with the nearest names.
        """
        with self._lock:
            known = self._limits.get(type_name)
        if known is None:
            entry, date = self._ask(type_name)
            known = InstanceLimits.from_describe(entry, date=date)
            info = entry.get("PlacementGroupInfo")
            with self._lock:
                self._limits[type_name] = known
                self._strategies[type_name] = (
                    tuple(info.get("SupportedStrategies") or ()) if info is not None else None
                )
        return known

    def placement_strategies(self, type_name: str) -> tuple[str, ...] | None:
        """Return the strategies of the placement groups that a type may be in; None if unknown.

        Raises UnknownInstanceType.
        """
        self.limits(type_name)
        with self._lock:
            return self._strategies[type_name]

    def names(self) -> tuple[str, ...]:
        """Return every instance type that the region offers, sorted."""
        with self._lock:
            if self._names is None:
                offered = self._clients.repeat_pages(
                    "list the instance types of the region",
                    "describe_instance_type_offerings",
                    "InstanceTypeOfferings",
                    LocationType="region",
                )
                self._names = tuple(sorted({offer["InstanceType"] for offer in offered} | set(OVERRIDES)))
            return self._names

    def _ask(self, type_name: str) -> tuple[Mapping[str, Any], str]:
        """Return the entry that describes a type, and its date: "" if it is from this package's table."""
        if not type_name or not isinstance(type_name, str):
            raise UnknownInstanceType(
                f"{type_name!r} is not the name of an instance type; write e.g. 'c5.18xlarge'"
            )
        try:
            found = self._clients.repeat_call(
                f"describe instance type {type_name}", "describe_instance_types", InstanceTypes=[type_name]
            )["InstanceTypes"]
        except CloudError as error:
            if error.code not in ("InvalidInstanceType", "InvalidParameterValue"):
                raise
            found = []
        if found:
            return found[0], f"{datetime.now(timezone.utc):%Y-%m-%d}"
        if type_name in OVERRIDES:
            return OVERRIDES[type_name], ""
        nearest = tuple(nearest_names(type_name, self.names()))
        near = f"; the nearest names are {', '.join(nearest)}" if nearest else ""
        raise UnknownInstanceType(
            f"{self._clients.region} knows no instance type {type_name!r}{near}", nearest=nearest
        )
