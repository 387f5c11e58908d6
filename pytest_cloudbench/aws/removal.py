"""Removing what a run created: describe it, request what can be removed now, and repeat until all is gone."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pytest_cloudbench.resources.errors import CloudError

from .clients import Clients
from .errors import CREDENTIALS_REFUSED, is_temporary
from .kinds import CREATED_BY, INSTANCE, KEY_PAIR, PLACEMENT_GROUP, SECURITY_GROUP, SNAPSHOT, VOLUME, Kind
from .ledger import Ledger, Tracked
from .waits import Bounds, Cancelled, all_of, cancel_waits_on, poll

log = logging.getLogger(__name__)

RELEASING = "cloudbench-release"
"""Name of the thread that removes released resources while the run goes on."""

_BATCH = 100
_OWN_PROCESS_S = 60.0
"""How long the thread that removes released resources may take to end: its call, with its retries."""

# The volume is being detached, has just become free, or its attachment has just ended.
_DETACHES_ANYWAY = frozenset({"IncorrectState", "InvalidAttachment.NotFound"})
_GROUPS = (SECURITY_GROUP, PLACEMENT_GROUP)


class Removal:
    """Removes the resources of a ledger. Every step may be repeated, also after an interrupt.

    A removal that is refused for a reason that is not temporary, such as a missing permission, is retried once at the
    end. Other removals are retried until the resource is gone or its time is up.
    """

    def __init__(
        self,
        clients: Clients,
        ledger: Ledger,
        bounds: Callable[[], Bounds],
        *,
        when_gone: Callable[[Sequence[Tracked]], None] = lambda _: None,
    ) -> None:
        """`when_gone` is called with released resources once they are gone."""
        self._clients = clients
        self._ledger = ledger
        self._bounds = bounds
        self._when_gone = when_gone
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._released: list[Tracked] = []
        self._thread: threading.Thread | None = None

    # While the run goes on

    def release(self, ids: Iterable[tuple[Kind, str]]) -> None:
        """Terminate the instances in `ids` now, and remove the rest in the background.

        A resource is removed as soon as no terminating instance holds it.
        """
        chosen = [self._ledger.track(kind, each) for kind, each in ids]
        self._terminate([each for each in chosen if each.kind is INSTANCE and not each.gone])
        with self._lock:
            self._released += chosen
            if self._thread is None:
                self._thread = threading.Thread(target=self._remove_released, name=RELEASING, daemon=True)
                self._thread.start()

    def wait_for_released(self, timeout_s: float) -> None:
        """Wait until the background thread has nothing left to do."""
        if (thread := self._thread) is not None:
            thread.join(timeout_s)

    def _remove_released(self) -> None:
        cancel_waits_on(self._closing)
        with suppress(Cancelled):
            try:
                poll(self._released_are_gone, math.inf, self._clients.pace)
            except Exception as error:
                log.debug("release: %s", error)  # `run` finds what is left
                with self._lock:
                    self._thread = None

    def _released_are_gone(self) -> bool | None:
        with self._lock:
            gone = [one for one in self._released if one.gone]
            self._released = [one for one in self._released if not one.gone]
            if gone:
                self._when_gone(gone)
            chosen = [each for each in self._released if self._is_active(each)]
            if not chosen:
                self._thread = None
                return True
        if self._closing.is_set():
            raise Cancelled("the run ends")
        self._look(chosen)
        # One after the other, in this thread: nobody waits for it.
        for task in self._tasks([each for each in chosen if self._is_active(each)]):
            task()
        return None

    # The end

    def run(self) -> None:
        """Remove everything, and look by tag and by id until all is gone or cannot be removed."""
        self._closing.set()
        self._end_background()
        for each in self._ledger.outstanding():
            each.asked_at = time.monotonic() if each.accepted else None  # its time limit starts now
        for _ in range(2):  # the second pass retries refused removals: permissions may be new
            self._try_refused_again()
            self._ledger.look(listed=True)
            while True:
                poll(self._nothing_more_to_do, math.inf, self._clients.pace)
                known = len(self._ledger.all())
                self._look_at_all()
                if len(self._ledger.all()) == known:
                    break
            if not self._ledger.blind and not any(each.refused for each in self._ledger.outstanding()):
                return

    def _look_at_all(self) -> None:
        """Look by tag and by id until the service answers for each kind; the other kinds are noted in `blind`."""
        unanswered: dict[str, CloudError] = {}

        def answered() -> bool | None:
            nonlocal unanswered
            unanswered = self._ledger.look(listed=True)
            return None if unanswered else True

        if poll(answered, self._clients.settle_s, self._clients.pace) is None:
            self._ledger.blind.update(unanswered)

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each reason of a refusal.

        A refusal of the credentials is one reason for all calls; any other error code is one reason for each kind of
        resource.
        """
        refused: dict[str, list[str]] = {}
        sentences: dict[str, CloudError] = {}
        for name, error in self._ledger.blind.items():
            sentences.setdefault(_reason(error, f"list {name}"), error)
        for each in self._ledger.outstanding():
            if each.problem is not None:
                reason = _reason(each.problem, each.kind.name)
                first = sentences.setdefault(reason, each.problem)
                if first is not each.problem and reason != each.problem.code:
                    refused.setdefault(reason, []).append(each.id)
        return tuple(
            f"{error}; the same for {', '.join(refused[reason])}" if reason in refused else str(error)
            for reason, error in sentences.items()
        )

    def _end_background(self) -> None:
        deadline = time.monotonic() + _OWN_PROCESS_S
        thread = self._thread
        # In slices, so that an interruption is seen soon.
        while thread is not None and thread.is_alive() and time.monotonic() < deadline:
            thread.join(0.5)

    def _try_refused_again(self) -> None:
        self._ledger.blind.clear()
        for each in self._ledger.outstanding():
            if each.refused:
                each.refused, each.problem, each.asked_at = False, None, None
                each.detached_from.clear()

    def _nothing_more_to_do(self) -> bool | None:
        active = [each for each in self._ledger.outstanding() if self._is_active(each)]
        unsettled = self._ledger.unsettled()
        if not active and not unsettled:
            return True
        all_of(self._tasks(active))
        self._look(active)
        self._ledger.look({CREATED_BY[each.action]: None for each in unsettled}, listed=True)
        return None

    def _look(self, active: Sequence[Tracked]) -> None:
        """Describe the resources being removed and, once an instance has ended, the volumes that waited for its end."""
        waiting = [each for each in active if self._waits(each, active)]
        self._ledger.look({each.kind: None for each in active if each not in waiting}, listed=False)
        if any(each.kind is INSTANCE and not self._is_active(each) for each in active):
            self._ledger.look({each.kind: None for each in waiting if each.kind is VOLUME}, listed=False)

    # What can be done now

    def _waits(self, resource: Tracked, active: Sequence[Tracked]) -> bool:
        """Return True if its removal must wait until an instance has ended."""
        ending = {each.id for each in active if each.kind is INSTANCE}
        if resource.kind is VOLUME:
            return bool(ending & self._ledger.instances_of(resource)) and not resource.accepted
        return resource.kind in _GROUPS and bool(ending) and not resource.accepted

    def _is_active(self, resource: Tracked) -> bool:
        if resource.gone or resource.refused:
            return False
        if resource.kind.name in self._ledger.blind and resource.accepted:
            return False  # its end cannot be seen
        if resource.asked_at is None or (resource.kind in _GROUPS and self._ledger.unsettled()):
            return True  # an instance that is not known yet may hold the group
        return time.monotonic() - resource.asked_at < self._limit_s(resource)

    def _limit_s(self, resource: Tracked) -> float:
        bounds = self._bounds()
        limit_s = bounds.volume_s
        if resource.kind is INSTANCE:
            metal = "metal" in str(resource.description.get("InstanceType", ""))
            limit_s = max(bounds.terminated_s, bounds.bare_metal_s if metal else 0.0)
        elif resource.kind in _GROUPS:
            limit_s = bounds.group_s
        return limit_s if resource.seen else max(limit_s, self._clients.settle_s)

    def _tasks(self, active: Sequence[Tracked]) -> list[Callable[[], None]]:
        """Return the calls that can be made now. Resources waiting for an instance to end get no call."""
        for each in active:
            if each.state in ("shutting-down", "creating", "deleting"):
                self._ask_first([each])
                each.accepted = each.accepted or each.state != "creating"
        to_end = [each for each in active if each.kind is INSTANCE and not each.accepted]
        tasks: list[Callable[[], None]] = [partial(self._terminate, to_end)] if to_end else []
        for each in active:
            if self._waits(each, active):
                each.asked_at = None  # its time limit starts when it can be removed
                continue
            if each.accepted or each.kind is INSTANCE or each.state == "creating":
                continue
            tasks.append(partial(self._detach if each.attachments else self._delete, each))
        return tasks

    def _terminate(self, instances: Sequence[Tracked]) -> None:
        """Terminate instances without waiting; a refusal is noted."""
        for start in range(0, len(instances), _BATCH):
            batch = instances[start : start + _BATCH]
            ids = [each.id for each in batch]
            self._ask_first(batch)
            try:
                self._clients.call(
                    f"terminate {', '.join(ids)}", "ec2", "terminate_instances", InstanceIds=ids
                )
            except CloudError as error:
                if len(batch) == 1 or is_temporary(error):
                    for each in batch:
                        self._note_refusal(each, error)
                    continue
                # One that cannot be terminated, or no longer exists, fails the whole call: repeat it for each.
                for each in batch:
                    self._terminate([each])
            else:
                self._note_accepted(batch)

    def _detach(self, volume: Tracked) -> None:
        self._ask_first([volume])
        for attachment in volume.attachments:
            instance_id = attachment["InstanceId"]
            if instance_id in volume.detached_from:
                continue
            try:
                self._clients.call(
                    f"detach {volume.id} from {instance_id}", "ec2", "detach_volume",
                    VolumeId=volume.id, InstanceId=instance_id,
                )  # fmt: skip
            except CloudError as error:
                if error.code not in _DETACHES_ANYWAY:
                    self._note_refusal(volume, error)
                    continue
            volume.detached_from.add(instance_id)

    def _delete(self, resource: Tracked) -> None:
        self._ask_first([resource])
        delete, parameters = _deletion(resource)
        try:
            self._clients.call(f"delete {resource.kind.name} {resource.id}", "ec2", delete, **parameters)
        except CloudError as error:
            self._note_refusal(resource, error)
        else:
            self._note_accepted([resource])

    @staticmethod
    def _ask_first(resources: Collection[Tracked]) -> None:
        now = time.monotonic()
        for each in resources:
            each.asked_at = now if each.asked_at is None else each.asked_at

    @staticmethod
    def _note_accepted(resources: Collection[Tracked]) -> None:
        for each in resources:
            each.accepted, each.problem = True, None

    def _note_refusal(self, resource: Tracked, error: CloudError) -> None:
        if error.code in resource.kind.unknown:
            # The service no longer knows it, or does not know it yet.
            resource.accepted = self._ledger.is_settled(resource)
            return
        resource.problem = error
        busy = error.code in resource.kind.busy and not self._is_held_for_good()
        resource.refused = not busy and not is_temporary(error)

    def _is_held_for_good(self) -> bool:
        """Return True if an instance cannot be terminated: it keeps its groups and its root volume."""
        return any(each.kind is INSTANCE and each.refused for each in self._ledger.outstanding())


def _reason(error: CloudError, call: str) -> str:
    return error.code if error.code in CREDENTIALS_REFUSED else f"{error.code} {call}"


def _deletion(resource: Tracked) -> tuple[str, dict[str, Any]]:
    """Return the call that deletes a resource, with its parameters."""
    if resource.kind is KEY_PAIR:
        # By name if it is known, because not every EC2-compatible endpoint accepts the id.
        name = resource.description.get("KeyName")
        return "delete_key_pair", {"KeyName": name} if name else {"KeyPairId": resource.id}
    return {
        VOLUME.name: ("delete_volume", {"VolumeId": resource.id}),
        SNAPSHOT.name: ("delete_snapshot", {"SnapshotId": resource.id}),
        PLACEMENT_GROUP.name: ("delete_placement_group", {"GroupName": resource.id}),
        SECURITY_GROUP.name: ("delete_security_group", {"GroupId": resource.id}),
    }[resource.kind.name]
