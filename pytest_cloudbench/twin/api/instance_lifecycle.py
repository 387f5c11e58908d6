"""The life of an instance from pending to terminated: its host, disks and description, in the right order.

The steps of one instance run one after another in its queue, those of different instances side by side. A step holds
the region's lock only to record its result.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from moto.core.utils import utcnow
from moto.ec2.models.instances import StateReason

from pytest_cloudbench.limits.region_settings import AHEAD_TAG
from pytest_cloudbench.twin.hosts.hosts import HostPlan

from .backend import RegionVolume
from .region import Region
from .weather import SPOT_NOTICE_S

log = logging.getLogger(__name__)

_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}

USER_SHUTDOWN = ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")
INSTANCE_SHUTDOWN = (
    "Client.InstanceInitiatedShutdown",
    "Client.InstanceInitiatedShutdown: Instance initiated shutdown",
)
NO_CAPACITY = (
    "Server.InsufficientInstanceCapacity",
    "Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance request",
)
SPOT_INTERRUPTION = (
    "Server.SpotInstanceTermination",
    "Server.SpotInstanceTermination: Spot instance termination",
)
_LOOK_S = 0.05  # how often a delayed instance is checked for termination


@dataclass
class Launch:
    """An instance to be booted, the plan of its host, and the data volumes to make and attach."""

    instance: Any
    plan: HostPlan
    volumes: list[RegionVolume] = field(default_factory=list)


def set_state(
    instance: Any, name: str, *, reason: tuple[str, str] | None = None, transition: str = ""
) -> None:
    """Describe an instance as being in a state; ``reason`` is (code, message). The caller holds the lock."""
    instance._state.name, instance._state.code = name, _CODES[name]
    instance.state_reason = StateReason(reason[1], reason[0]) if reason else None
    instance._reason = transition


class InstanceLifecycle:
    """Moves instances from state to state. Public methods return at once; the caller holds the region's lock."""

    def __init__(self, region: Region) -> None:
        self._region = region

    def launch(self, launch: Launch) -> None:
        """Boot a pending instance."""
        instance = launch.instance
        set_state(instance, "pending")
        delay = self._region.delay("instance_delay", "RunInstances")
        weather = self._region.weather
        lacks_capacity = (
            weather is not None
            and instance.capacity_reservation_id is None
            and weather.lacks_capacity_later(instance.instance_type, instance.availability_zone)
        )
        work = self._refuse_late if lacks_capacity else self._boot
        self._region.queues.submit(instance.id, lambda: work(launch, delay))

    def start(self, instance: Any) -> None:
        """Boot a stopped instance with its address, volumes and root file system."""
        set_state(instance, "pending")
        self._region.queues.submit(instance.id, lambda: self._start(instance))

    def stop(self, instance: Any, reason: tuple[str, str] = USER_SHUTDOWN) -> None:
        """Shut a running instance down; everything but its memory and its instance store stays."""
        set_state(instance, "stopping", reason=reason, transition=_transition(reason))
        self._region.queues.submit(instance.id, lambda: self._stop(instance, reason))

    def reboot(self, instance: Any) -> None:
        """Shut an instance down and boot it again; it is described as running all the time."""
        self._region.queues.submit(instance.id, lambda: self._reboot(instance))

    def terminate(self, instance: Any, reason: tuple[str, str] = USER_SHUTDOWN) -> None:
        """Terminate an instance and release its volumes."""
        set_state(instance, "shutting-down", reason=reason, transition=_transition(reason))
        self._region.queues.submit(
            instance.id, lambda: self._end(instance, reason, instance.state_transition_reason)
        )

    def _interrupt_later(self, instance: Any) -> None:
        """Let the weather interrupt a running spot instance: first a notice, two minutes later its end."""
        weather = self._region.weather
        if weather is None or instance.lifecycle != "spot" or not weather.settings.spot_interruption.most:
            return

        def notice() -> None:
            if instance.state == "running":
                instance.spot_notice = True
                self._region.after(SPOT_NOTICE_S / weather.settings.speed, end)

        def end() -> None:
            if instance.state == "running":
                self.terminate(instance, SPOT_INTERRUPTION)

        self._region.after(weather.delay("spot_interruption", "RunInstances"), notice)

    def shut_down_from_inside(self, instance_id: str, reboots: bool) -> None:
        """React when an instance has shut itself down: boot it again, or stop or terminate it by its shutdown behavior.

        The caller does not hold the region's lock.
        """
        with contextlib.suppress(RuntimeError):  # the region is shutting down
            self._region.queues.submit(instance_id, lambda: self._follow_shutdown(instance_id, reboots))

    def _follow_shutdown(self, instance_id: str, reboots: bool) -> None:
        with self._region.lock:
            instance = next(each for each in self._region.instances() if each.id == instance_id)
            if instance.state != "running":  # a call ended it first
                return
            if reboots:
                self.reboot(instance)
            elif instance.instance_initiated_shutdown_behavior == "terminate":
                self.terminate(instance, INSTANCE_SHUTDOWN)
            else:
                self.stop(instance, INSTANCE_SHUTDOWN)

    def _refuse_late(self, launch: Launch, delay: float) -> None:
        self._stay(launch.instance, "pending", delay)
        self._drop(launch)
        if launch.instance.state == "pending":
            self._end(launch.instance, NO_CAPACITY, NO_CAPACITY[0])

    def _drop(self, launch: Launch) -> None:
        """Release what a launch reserved, if it boots no instance."""
        with self._region.lock:
            self._region.backend.forget_public_addresses(launch.instance)
        self._region.plane.network.release_address(launch.plan.private_ip)
        self._forget_unmade(launch.volumes)

    def _stay(self, instance: Any, state: str, seconds: float) -> None:
        """Wait, without the lock, until the weather's delay of ``seconds`` is over or the instance leaves ``state``."""
        deadline = time.monotonic() + seconds
        while instance.state == state and (left := deadline - time.monotonic()) > 0:
            if self._region.closing.wait(min(left, _LOOK_S)):
                return

    def _boot(self, launch: Launch, delay: float) -> None:
        region, instance = self._region, launch.instance
        deadline = time.monotonic() + delay
        with self._undisturbing(instance):
            if instance.state != "pending":  # terminated before its turn
                self._drop(launch)
                return
            if not self._boot_host(launch):
                return
        self._stay(instance, "pending", deadline - time.monotonic())
        with region.lock:
            for volume in launch.volumes:
                if volume.attachment:
                    region.backend.set_attachment_status(volume, "attached")
            _change_state(instance, "pending", "running")
            self._interrupt_later(instance)

    def _undisturbing(self, instance: Any) -> AbstractContextManager[None]:
        """Return a context to boot in: between measurements if launched ahead of the test, else at once."""
        region = self._region
        if AHEAD_TAG not in region.backend.tags.get(instance.id, {}):
            return contextlib.nullcontext()
        return region.between_measurements.work(
            lambda: instance.state == "pending" and not region.closing.is_set()
        )

    def _boot_host(self, launch: Launch) -> bool:
        """Boot the host of an instance with its volumes; if that fails, end the instance and return False."""
        region, instance = self._region, launch.instance
        try:
            self._make_disks(launch)
            region.plane.instances.boot(
                launch.plan, lambda reboots: self.shut_down_from_inside(instance.id, reboots)
            )
            region.on_plane.add(instance.id)
            for volume in launch.volumes:
                place = volume.attachment
                region.plane.volumes.attach(volume.id, instance.id, place.device, place.ebs_card_index)
            region.measure_network()
        except Exception as error:
            log.exception("%s did not start", instance.id)
            region.boot_errors[instance.id] = f"{error}\n"
            sentence = f"Server.InternalError: {error}"
            self._end(instance, ("Server.InternalError", sentence), sentence)
            return False
        return True

    def _make_disks(self, launch: Launch) -> None:
        plane = self._region.plane
        for number, volume in enumerate(launch.volumes):
            try:
                plane.volumes.create_disk(volume.id, volume.spec)
            except Exception:
                plane.network.release_address(launch.plan.private_ip)  # otherwise the failed boot would
                self._forget_unmade(launch.volumes[number:])
                raise

    def _forget_unmade(self, volumes: list[RegionVolume]) -> None:
        """Remove volumes without a disk, even those that should outlive the instance."""
        with self._region.lock:
            for volume in volumes:
                self._region.backend.remove_attachment(volume)
                self._region.backend.forget(volume)

    def _start(self, instance: Any) -> None:
        with self._region.lock:
            public = self._region.backend.give_public_address(instance)
        if public is not None:
            self._region.plane.instances.set_public_ip(instance.id, public)
        if instance.state == "pending" and self._succeeds(
            instance, "pending", self._region.plane.instances.start
        ):
            self._stay(instance, "pending", self._region.delay("instance_delay", "StartInstances"))
            with self._region.lock:
                _change_state(instance, "pending", "running")

    def _reboot(self, instance: Any) -> None:
        if instance.state == "running":
            self._succeeds(instance, "running", self._region.plane.instances.reboot)

    def _succeeds(self, instance: Any, state: str, boot: Callable[[str], None]) -> bool:
        """Call ``boot``; if it fails, describe the instance as stopped and return False."""
        try:
            boot(instance.id)
        except Exception as error:
            log.exception("%s did not start again", instance.id)
            reason = ("Server.InternalError", f"Server.InternalError: {error}")
            with self._region.lock:
                _change_state(instance, state, "stopped", reason=reason, transition="Server.InternalError")
            return False
        return True

    def _stop(self, instance: Any, reason: tuple[str, str]) -> None:
        try:
            self._region.plane.instances.stop(instance.id)
        except Exception:
            log.exception("stopping %s", instance.id)
        transition = instance.state_transition_reason
        with self._region.lock:
            self._region.backend.take_public_address_from(instance)
            _change_state(instance, "stopping", "stopped", reason=reason, transition=transition)

    def _end(self, instance: Any, reason: tuple[str, str], transition: str) -> None:
        region = self._region
        if instance.id in region.on_plane:
            try:
                region.plane.instances.terminate(instance.id)
            except Exception:
                log.exception("termination of %s", instance.id)
            region.on_plane.discard(instance.id)
        with region.lock:
            volumes = region.backend.attached_volumes(instance.id)
        for volume in volumes:
            self._release(volume)
        self._stay(instance, "shutting-down", region.delay("instance_delay", "TerminateInstances"))
        with region.lock:
            region.backend.forget_public_addresses(instance)
            for card in list(instance.nics.values()):
                region.backend.enis.pop(card.id, None)
            set_state(instance, "terminated", reason=reason, transition=transition)
            instance.ended_at = time.monotonic()

    def _release(self, volume: RegionVolume) -> None:
        """Detach a volume, and delete it if its attachment says DeleteOnTermination."""
        region = self._region
        goes_too = bool(volume.attachment and volume.attachment.delete_on_termination)
        try:
            if not volume.backs_root:
                region.plane.volumes.detach(volume.id)
                if goes_too:
                    region.plane.volumes.delete_disk(volume.id)
        except Exception:
            log.exception("releasing %s", volume.id)
        with region.lock:
            region.backend.remove_attachment(volume)
            if goes_too:
                region.backend.forget(volume)


def _change_state(
    instance: Any, expected: str, name: str, *, reason: tuple[str, str] | None = None, transition: str = ""
) -> None:
    """Set the new state, unless a termination was requested meanwhile. The caller holds the region's lock."""
    if instance.state == expected:
        set_state(instance, name, reason=reason, transition=transition)


def _transition(reason: tuple[str, str]) -> str:
    if reason is not USER_SHUTDOWN:
        return ""
    return f"User initiated ({utcnow().strftime('%Y-%m-%d %H:%M:%S')} GMT)"
