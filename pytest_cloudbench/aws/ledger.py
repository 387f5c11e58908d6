"""Which resources a run created and which are gone: by the ids of its journal and by its tag, never by one alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from pytest_cloudbench.limits.cost import Cost
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.reports.prices import Prices
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Leftover

from .clients import Clients
from .errors import is_temporary
from .journal import Intention
from .kinds import (
    CREATED_BY,
    INSTANCE,
    KEY_PAIR,
    KINDS,
    PLACEMENT_GROUP,
    SECURITY_GROUP,
    VOLUME,
    Kind,
)
from .run import CREATED_TAG, KEPT_TAG, TOKEN_TAG, only_ours, run_filter, tags_of
from .waits import gather

AskPrices = Callable[[Sequence[str]], Prices | None]
"""Returns the prices of the region and of these instance types; None if they are unknown."""

_MOST_IDS = 200
"""The most values that EC2 accepts in one filter."""


@dataclass(eq=False)
class Tracked:
    """A resource of the run, and the progress of its removal.

    created: when it was created, in seconds since 1970. seen: the API has described it. was_there: the API has
    described it as existing. accepted: the service accepted its removal. refused: its removal was refused for a reason
    that is not temporary. asked_at: when its removal was first requested, by the monotonic clock.
    """

    kind: Kind
    id: str
    created: float
    description: Mapping[str, Any] = field(default_factory=dict)
    seen: bool = False
    was_there: bool = False
    accepted: bool = False
    refused: bool = False
    gone: bool = False
    problem: CloudError | None = None
    asked_at: float | None = None
    detached_from: set[str] = field(default_factory=set)

    @property
    def state(self) -> str:
        """The state that the API last described, "" if it has none or was never described."""
        return self.kind.state(self.description)

    @property
    def attachments(self) -> list[Mapping[str, Any]]:
        """The attachments of a volume."""
        return [each for each in self.description.get("Attachments", ()) if each.get("State") != "detached"]

    def leftover(self, prices: Prices | None) -> Leftover:
        """Return it for a report, with what it costs."""
        unseen = "" if self.seen else "not shown by the API"
        hourly = hourly_cost(self.kind, self.description, prices)
        return Leftover(self.kind.name, self.id, self.state or unseen, hourly)


class Ledger:
    """The resources of one run. Thread-safe.

    A resource is known once the journal has its id or the API shows the run's tag on it. It is gone once the API
    describes its end, or no longer describes it after the service accepted its removal: an answer that lacks a resource
    may be out of date.
    """

    def __init__(
        self,
        clients: Clients,
        run_id: str,
        intentions: Callable[[], Sequence[Intention]] | None = None,
        *,
        gone: Sequence[str] = (),
        kept: Sequence[str] | None = (),
        ask_prices: AskPrices = lambda _: None,
    ) -> None:
        """`intentions` returns the creating calls of the run's journal; None if there is no journal.

        `gone` are the ids that the journal says are gone. `kept` are those that stay, like all with the kept tag; None
        if they are removed too.

        Kinds that no call created are not described: most runs have no placement groups or snapshots, and need no
        permission for them.
        """
        self._known_gone = frozenset(gone)
        self._kept = None if kept is None else set(kept)
        self.ask_prices = ask_prices
        self._clients = clients
        self._run_id = run_id
        self._intentions = intentions
        self._lock = threading.RLock()
        self._tracked: dict[tuple[str, str], Tracked] = {}
        self._tokens: set[str] = set()
        self._ends_with: dict[str, str] = {}  # volume id -> the instance whose end deletes it
        self.blind: dict[str, CloudError] = {}
        """The kinds that the service refuses to describe, by name, each with its refusal."""

    def track(self, kind: Kind, resource_id: str, created: float | None = None) -> Tracked:
        """Return the entry of a resource; a new one counts as created at `created`, by default now."""
        with self._lock:
            return self._tracked.setdefault(
                (kind.name, resource_id),
                Tracked(kind, resource_id, time.time() if created is None else created),
            )

    def all(self) -> list[Tracked]:
        """Return all known resources, instances first."""
        with self._lock:
            self._read_journal()
            order = {kind.name: place for place, kind in enumerate(KINDS)}
            return sorted(self._tracked.values(), key=lambda each: order[each.kind.name])

    def keep(self, ids: Iterable[str]) -> None:
        """Leave these alone from now on: they stay after the run."""
        with self._lock:
            self._kept = (self._kept or set()) | set(ids)

    def keeps(self, resource_id: str) -> bool:
        """Return True if a resource stays after the run."""
        return self._kept is not None and resource_id in self._kept

    def outstanding(self) -> list[Tracked]:
        """Return what is not known to be gone, without what is kept."""
        return [each for each in self.all() if not each.gone and not self.keeps(each.id)]

    def left(self) -> tuple[Leftover, ...]:
        """Return what is not known to be gone, for a report; makes no EC2 calls."""
        return self._leftovers(self.outstanding())

    def removed(self) -> tuple[str, ...]:
        """Return the kind of each resource that is gone."""
        return tuple(each.kind.name for each in self.all() if each.gone)

    def unsettled(self) -> list[Intention]:
        """Return the calls without an answer that may have created something the API does not show yet."""
        oldest = time.time() - self._clients.settle_s
        return [
            each
            for each in self._announced()
            if each.unresolved
            and each.action in CREATED_BY
            and CREATED_BY[each.action].name not in self.blind
            and each.token not in self._tokens
            and _seconds_or_now(each.time) > oldest
        ]

    def instances_of(self, volume: Tracked) -> set[str]:
        """Return the instances that a volume is attached to, or ends with."""
        attached = {each["InstanceId"] for each in volume.attachments}
        return attached | ({self._ends_with[volume.id]} if volume.id in self._ends_with else set())

    def is_settled(self, resource: Tracked) -> bool:
        """Return True if the API would show the resource if it existed.

        An earlier answer that showed it does not prove this: the next one may come from a replica that lacks it.
        """
        return time.time() - resource.created > self._clients.settle_s

    def look(self, kinds: Iterable[Kind] | None = None, *, listed: bool) -> dict[str, CloudError]:
        """Describe each kind, in one call or two, and note what is gone.

        `listed`: describe everything with the run's tag, and then known ids that the answer lacks; else only known ids
        that are not gone. A refusal is noted in `blind`. A temporary error changes nothing; return these errors by the
        names of their kinds.
        """
        unanswered: dict[str, CloudError] = {}
        asked = [kind for kind in (self._kinds() if kinds is None else kinds) if kind.name not in self.blind]
        for kind, result in zip(
            asked, gather([partial(self._look_at, k, listed) for k in asked]), strict=True
        ):
            if isinstance(result, CloudError):
                (unanswered if is_temporary(result) else self.blind)[kind.name] = result
            elif isinstance(result, Exception):
                raise result
        return unanswered

    def remaining(self) -> tuple[Leftover, ...]:
        """Return the resources of the run that the API shows now. Raises CloudError if a call fails."""
        for kind in self._kinds():
            self._look_at(kind, listed=True)
        return self._leftovers([each for each in self.outstanding() if each.description])

    # Inside

    def _leftovers(self, resources: Sequence[Tracked]) -> tuple[Leftover, ...]:
        prices = (
            self.ask_prices(instance_types(each.description for each in resources)) if resources else None
        )
        return tuple(each.leftover(prices) for each in resources)

    def _announced(self) -> Sequence[Intention]:
        return () if self._intentions is None else self._intentions()

    def _kinds(self) -> list[Kind]:
        actions = {each.action for each in self._announced()}
        if self._intentions is None or actions - CREATED_BY.keys():
            return list(KINDS)
        made = {CREATED_BY[each].name for each in actions}
        if INSTANCE.name in made:
            made.add(VOLUME.name)  # its root volume
        made |= {name for name, _ in self._tracked}
        return [kind for kind in KINDS if kind.name in made]

    def _read_journal(self) -> None:
        for intention in self._announced():
            kind = CREATED_BY.get(intention.action)
            for resource_id in intention.ids if kind else ():
                assert kind is not None
                if resource_id not in self._known_gone:
                    self.track(kind, resource_id, _seconds_or_now(intention.time))

    def _look_at(self, kind: Kind, listed: bool) -> None:
        whose = f"of run {self._run_id}"
        found: dict[str, dict[str, Any]] = {}
        if listed:
            by_tag = only_ours(kind.find(self._clients, run_filter(self._run_id), whose), self._run_id)
            found.update((each[kind.id_key], each) for each in by_tag)
        known = [each for each in self.outstanding() if each.kind is kind]
        missing = [each.id for each in known if each.id not in found]
        for start in range(0, len(missing), _MOST_IDS):
            ids = missing[start : start + _MOST_IDS]
            by_id = kind.find(self._clients, [{"Name": kind.id_filter, "Values": ids}], whose)
            # An ignored filter must not add the resources of others.
            found.update((each[kind.id_key], each) for each in by_id if each[kind.id_key] in ids)
        with self._lock:
            for resource_id, description in found.items():
                self._note(self.track(kind, resource_id), description)
            for each in known:
                if each.id not in found:
                    self._note_absent(each)

    def _note(self, resource: Tracked, description: Mapping[str, Any]) -> None:
        resource.description = description
        resource.seen = True
        ended = resource.state in resource.kind.gone
        resource.gone, resource.was_there = resource.gone or ended, resource.was_there or not ended
        tags = tags_of(description)
        if KEPT_TAG in tags and self._kept is not None:
            self._kept.add(resource.id)
        self._tokens.add(tags.get(TOKEN_TAG, ""))
        if CREATED_TAG in tags:
            resource.created = min(resource.created, _seconds_or_now(tags[CREATED_TAG]))
        for mapping in description.get("BlockDeviceMappings", ()):
            volume = mapping.get("Ebs", {})
            if volume.get("DeleteOnTermination"):
                self._ends_with[volume["VolumeId"]] = resource.id
        if resource.kind is VOLUME and not resource.attachments:
            self._ends_with.pop(resource.id, None)

    def _note_absent(self, resource: Tracked) -> None:
        # EC2 shows an instance for an hour after its end: one that is not shown may be too new. If a permission depends
        # on tags, EC2 reports the removal of what no longer exists as unauthorized.
        settled = self.is_settled(resource)
        ended = (resource.accepted and (resource.kind is not INSTANCE or settled)) or (
            resource.refused and settled
        )
        resource.gone = resource.gone or ended or self._went_with_its_instance(resource)
        resource.description = {}

    def _went_with_its_instance(self, resource: Tracked) -> bool:
        owner = self._tracked.get((INSTANCE.name, self._ends_with.get(resource.id, "")))
        return owner is not None and owner.gone and not resource.detached_from


def instance_types(descriptions: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the types of the instances among these descriptions, each once."""
    return list(dict.fromkeys(each["InstanceType"] for each in descriptions if "InstanceType" in each))


def hourly_cost(kind: Kind, description: Mapping[str, Any], prices: Prices | None) -> str:
    """Return what a resource costs, such as "0.096 USD an hour"; "" if it is not billed."""
    free = (PLACEMENT_GROUP, SECURITY_GROUP, KEY_PAIR)
    if kind in free or kind.state(description) in ("shutting-down", "stopping", "stopped"):
        return ""
    if prices is None or not description:
        return "unknown price"
    if kind is INSTANCE:
        charge = prices.instance(str(description.get("InstanceType")))
    elif kind is VOLUME:
        charge = prices.volume(_spec(description))
    else:
        charge = prices.snapshot(description.get("VolumeSize", 0))
    return "unknown price" if charge.per_hour is None else f"{Cost(charge.per_hour, prices.currency)} an hour"


def _spec(volume: Mapping[str, Any]) -> VolumeSpec:
    return VolumeSpec(
        volume["VolumeType"],
        volume["Size"],
        requested_iops=volume.get("Iops"),
        requested_throughput_mib=volume.get("Throughput"),
    )


def seconds(when: str | None) -> float | None:
    """Return an ISO 8601 time in seconds since 1970; None if it is not one."""
    with suppress(ValueError):
        return datetime.fromisoformat(when).timestamp() if when else None
    return None


def _seconds_or_now(when: str) -> float:
    found = seconds(when)
    return time.time() if found is None else found
