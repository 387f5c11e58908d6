"""The view of describe calls that lag under the weather: each resource as it was some seconds ago.

EC2's API is eventually consistent (Amazon EC2 Developer Guide, "Eventual consistency in the Amazon EC2 API"). A new
resource is missing from listings at first, and for half of that time calls that name it are refused as if it did not
exist. A changed or deleted one is shown as it was. Only the view lags: the region's own state is always true.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .backend import RegionBackend
from .placement_groups import PlacementGroups
from .refusal import Refusal
from .throttling import names_resources, reads
from .weather import RegionWeather

_NOT_FOUND = {
    "i": ("InvalidInstanceID.NotFound", "The instance ID '{}' does not exist"),
    "vol": ("InvalidVolume.NotFound", "The volume '{}' does not exist."),
    "snap": ("InvalidSnapshot.NotFound", "The snapshot '{}' does not exist."),
    "sg": ("InvalidGroup.NotFound", "The security group '{}' does not exist"),
    "key": ("InvalidKeyPair.NotFound", "The key pair '{}' does not exist"),
    "group": ("InvalidPlacementGroup.Unknown", "The Placement Group '{}' is unknown."),
}


@dataclass(frozen=True)
class _Shown:
    """How a resource is shown: ``resource`` is a copy from before the change; None hides it."""

    resource: Any
    tags: dict[str, str]
    until: float
    until_by_id: float


class Replica:
    """The lagging view of a region. Callers hold the region's lock."""

    def __init__(self, backend: RegionBackend, weather: RegionWeather) -> None:
        self._backend = backend
        self._weather = weather
        self._known = set(self._resources())
        self._shown: dict[str, _Shown] = {}

    @contextlib.contextmanager
    def during(self, action: str, form: Mapping[str, str]) -> Iterator[None]:
        """Show the lagging view to a call that reads; make the view lag behind the changes of any other call."""
        self._notice_new()
        self._drop_outdated()
        if reads(action):
            with self._as_seen(by_id=names_resources(form)):
                yield
            return
        named = _named_resources(action, form)
        self._refuse_unseen(named)
        before = self._copies_of(named)
        yield
        self._notice_new()
        now = self._weather.now()
        for name, (resource, tags) in before.items():
            if lag := self._weather.draw_span("stale", action):
                self._shown[name] = _Shown(resource, tags, now + lag, now + lag)

    def _notice_new(self) -> None:
        resources = self._resources()
        now = self._weather.now()
        for name in resources.keys() - self._known:
            kind = re.split("[-:]", name)[0]
            if lag := self._weather.draw_span("describe_lag", kind):
                self._shown[name] = _Shown(None, {}, now + lag, now + lag / 2)
        self._known = set(resources)

    def _drop_outdated(self) -> None:
        now = self._weather.now()
        self._shown = {name: shown for name, shown in self._shown.items() if shown.until > now}

    def _resources(self) -> dict[str, Any]:
        """Return the resources in the view, by id, or by name if requests use their names."""
        backend = self._backend
        found: dict[str, Any] = {**backend.volumes, **backend.snapshots}
        for reservation in backend.reservations.values():
            found.update({instance.id: instance for instance in reservation.instances})
        for groups in backend.groups.values():
            found.update(groups)
        found.update({f"key:{name}": pair for name, pair in backend.key_pairs.items()})
        found.update({f"group:{name}": group for name, group in backend.placement_groups.items()})
        return found

    def _refuse_unseen(self, named: Mapping[str, str]) -> None:
        now = self._weather.now()
        for name, value in named.items():
            shown = self._shown.get(name)
            if shown is not None and shown.resource is None and shown.until_by_id > now:
                code, message = _NOT_FOUND[re.split("[-:]", name)[0]]
                raise Refusal(code, message.format(value))

    def _copies_of(self, named: Mapping[str, str]) -> dict[str, tuple[Any, dict[str, str]]]:
        """Return copies of the resources that a request names, as they are before it is carried out."""
        if not self._weather.settings.stale.most:
            return {}
        resources = self._resources()
        # A resource that is not shown yet has no earlier state. A stale one continues to be shown as it was.
        return {
            name: (_copy(resources[name]), dict(self._backend.tags.get(name) or {}))
            for name in named
            if name in resources and name not in self._shown
        }

    @contextlib.contextmanager
    def _as_seen(self, *, by_id: bool) -> Iterator[None]:
        now = self._weather.now()
        shown = {
            name: one.resource
            for name, one in self._shown.items()
            if (one.until_by_id if by_id else one.until) > now
        }
        if not shown:
            yield
            return
        backend = self._backend
        true = {name: getattr(backend, name) for name in _STORES}
        seen = _seen(true, shown)
        tags = {name: self._shown[name].tags for name, resource in shown.items() if resource is not None}
        hidden = [name for name, resource in shown.items() if resource is None]
        seen["tags"] = {name: kept for name, kept in true["tags"].items() if name not in hidden} | tags
        try:
            for name, store in seen.items():
                setattr(backend, name, store)
            yield
        finally:
            for name, store in true.items():
                setattr(backend, name, store)


_STORES = ("volumes", "snapshots", "reservations", "groups", "key_pairs", "placement_groups", "tags")


def _seen(true: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stores with shown copies instead of their resources, and without resources not shown yet."""

    def view(store: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        kept = {name: shown.get(prefix + name, one) for name, one in store.items()}
        return {name: one for name, one in kept.items() if one is not None}

    def deleted(kind: str) -> dict[str, Any]:
        """Return the deleted resources that are still shown."""
        gone = {
            name: one for name, one in shown.items() if name.partition("-")[0] == kind and one is not None
        }
        return {name: one for name, one in gone.items() if name not in true[_DELETABLE[kind]]}

    reservations = {}
    for name, reservation in true["reservations"].items():
        instances = [shown.get(instance.id, instance) for instance in reservation.instances]
        if any(instances):
            reservations[name] = copy.copy(reservation)
            reservations[name].instances = [instance for instance in instances if instance is not None]
    groups: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    groups.update({vpc: view(store) for vpc, store in true["groups"].items()})
    return {
        "volumes": view(true["volumes"]) | deleted("vol"),
        "snapshots": view(true["snapshots"]) | deleted("snap"),
        "reservations": reservations,
        "groups": groups,
        "key_pairs": view(true["key_pairs"], "key:"),
        "placement_groups": PlacementGroups(view(true["placement_groups"], "group:")),
    }


_DELETABLE = {"vol": "volumes", "snap": "snapshots"}


def _named_resources(action: str, form: Mapping[str, str]) -> dict[str, str]:
    """Return the resources that a changing request names: the parameters' values, by their names in the view."""
    named = {}
    for parameter, value in form.items():
        if parameter.startswith(("TagSpecification", "Tag.")):
            continue
        if parameter == "KeyName" and action == "RunInstances":
            named[f"key:{value}"] = value
        elif parameter == "Placement.GroupName" or (parameter, action) == (
            "GroupName",
            "DeletePlacementGroup",
        ):
            named[f"group:{value}"] = value
        elif value.partition("-")[0] in _NOT_FOUND:
            named[value] = value
    return named


def _copy(resource: Any) -> Any:
    """Return a copy that later changes to a volume, an instance or their attachments do not affect."""
    kept = copy.copy(resource)
    for name in ("attachment", "_state"):
        if getattr(kept, name, None) is not None:
            setattr(kept, name, copy.copy(getattr(kept, name)))
    mappings = getattr(kept, "block_device_mapping", None)
    if mappings is not None:
        kept.block_device_mapping = type(mappings)(mappings)
        for device, mapping in mappings.items():
            kept.block_device_mapping[device] = copy.copy(mapping)
    return kept
