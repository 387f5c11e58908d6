"""From pending to terminated: what happens to an instance's host, disks and description, in the right order.

The steps of one instance run in its queue, those of different instances side by side. Every step takes the
region's lock only to write down what it did.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models.instances import StateReason

from pytest_cloudbench.twin.hosts.host_plan import HostPlan

from .backend import RegionVolume
from .region import Region

log = logging.getLogger(__name__)

_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}

USER_SHUTDOWN = ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")


@dataclass
class Launch:
    """An instance to be booted: its host's plan and the data volumes to be made and attached with it."""

    instance: Any
    plan: HostPlan
    volumes: list[RegionVolume] = field(default_factory=list)


def set_state(
    instance: Any, name: str, *, reason: tuple[str, str] | None = None, transition: str = ""
) -> None:
    """Describe an instance as being in a state. ``reason`` is (code, message). The caller holds the lock."""
    instance._state.name, instance._state.code = name, _CODES[name]
    instance.state_reason = StateReason(reason[1], reason[0]) if reason else None
    instance._reason = transition


class InstanceLifecycle:
    """Moves instances from state to state. Methods are called with the region's lock held and return at once."""

    def __init__(self, region: Region) -> None:
        self._region = region

    def launch(self, launch: Launch) -> None:
        """Boot a pending instance."""
        set_state(launch.instance, "pending")
        self._region.queues.submit(launch.instance.id, lambda: self._boot(launch))

    def start(self, instance: Any) -> None:
        """Boot a stopped instance again, with its address, volumes and root file system."""
        set_state(instance, "pending")
        self._region.queues.submit(instance.id, lambda: self._start(instance))

    def stop(self, instance: Any, transition: str) -> None:
        """Shut a running instance down; everything but its memory stays."""
        set_state(instance, "stopping", reason=USER_SHUTDOWN, transition=transition)
        self._region.queues.submit(instance.id, lambda: self._stop(instance))

    def reboot(self, instance: Any) -> None:
        """Shut an instance down and boot it again; it is described as running all the while."""
        self._region.queues.submit(instance.id, lambda: self._reboot(instance))

    def terminate(self, instance: Any, transition: str) -> None:
        """End an instance for good and give its volumes back."""
        set_state(instance, "shutting-down", reason=USER_SHUTDOWN, transition=transition)
        self._region.queues.submit(instance.id, lambda: self._terminate(instance))

    def _boot(self, launch: Launch) -> None:
        region, instance = self._region, launch.instance
        if instance.state != "pending":  # terminated before it was its turn
            region.plane.give_back_address(launch.plan.private_ip)
            self._forget_unmade(launch.volumes)
            return
        try:
            self._make_disks(launch)
            region.plane.boot(launch.plan)
            region.on_plane.add(instance.id)
            for volume in launch.volumes:
                region.plane.attach(volume.id, instance.id, volume.attachment.device)
            region.measure_network()
        except Exception as error:
            log.exception("%s did not start", instance.id)
            region.last_words[instance.id] = f"{self._console(instance)}{error}\n"
            self._fail(instance, str(error))
            return
        with region.lock:
            for volume in launch.volumes:
                if volume.attachment:
                    region.backend.set_attachment_status(volume, "attached")
            self._arrive(instance, "pending", "running")

    def _make_disks(self, launch: Launch) -> None:
        plane = self._region.plane
        for number, volume in enumerate(launch.volumes):
            try:
                plane.create_disk(volume.id, volume.size, volume.spec)
            except Exception:
                plane.give_back_address(launch.plan.private_ip)  # no boot will do it
                self._forget_unmade(launch.volumes[number:])
                raise

    def _forget_unmade(self, volumes: list[RegionVolume]) -> None:
        """Volumes without a disk go, also those that were to stay."""
        with self._region.lock:
            for volume in volumes:
                self._region.backend.unfasten(volume)
                self._region.backend.forget_volume(volume)

    def _console(self, instance: Any) -> str:
        try:
            return self._region.plane.console_output(instance.id)
        except Exception:
            log.exception("console output of %s", instance.id)
            return ""

    def _start(self, instance: Any) -> None:
        if instance.state != "pending":
            return
        try:
            self._region.plane.start(instance.id)
        except Exception as error:
            log.exception("%s did not start again", instance.id)
            reason = ("Server.InternalError", f"Server.InternalError: {error}")
            with self._region.lock:
                self._arrive(instance, "pending", "stopped", reason=reason, transition="Server.InternalError")
            return
        with self._region.lock:
            self._arrive(instance, "pending", "running")

    def _stop(self, instance: Any) -> None:
        try:
            self._region.plane.stop(instance.id)
        except Exception:
            log.exception("stopping %s", instance.id)
        with self._region.lock:
            self._arrive(
                instance,
                "stopping",
                "stopped",
                reason=USER_SHUTDOWN,
                transition=instance.state_transition_reason,
            )

    def _reboot(self, instance: Any) -> None:
        if instance.state != "running":
            return
        try:
            self._region.plane.reboot(instance.id)
        except Exception as error:
            log.exception("%s did not come back from its reboot", instance.id)
            reason = ("Server.InternalError", f"Server.InternalError: {error}")
            with self._region.lock:
                self._arrive(instance, "running", "stopped", reason=reason, transition="Server.InternalError")

    def _terminate(self, instance: Any) -> None:
        self._end(instance, USER_SHUTDOWN, instance.state_transition_reason)

    def _fail(self, instance: Any, sentence: str) -> None:
        self._end(
            instance,
            ("Server.InternalError", f"Server.InternalError: {sentence}"),
            f"Server.InternalError: {sentence}",
        )

    def _end(self, instance: Any, reason: tuple[str, str], transition: str) -> None:
        region = self._region
        if instance.id in region.on_plane:
            self._end_host(instance)
        with region.lock:
            volumes = region.backend.attached_volumes(instance.id)
        for volume in volumes:
            self._let_go(volume)
        with region.lock:
            for card in list(instance.nics.values()):
                region.backend.enis.pop(card.id, None)
            set_state(
                instance,
                "terminated",
                reason=reason,
                transition=transition,
            )

    def _end_host(self, instance: Any) -> None:
        region = self._region
        region.last_words.setdefault(instance.id, self._console(instance))
        try:
            region.plane.terminate(instance.id)
        except Exception:
            log.exception("termination of %s", instance.id)
        region.on_plane.discard(instance.id)

    def _let_go(self, volume: RegionVolume) -> None:
        region = self._region
        goes_too = bool(volume.attachment and volume.attachment.delete_on_termination)
        try:
            if not volume.backs_root:
                region.plane.detach(volume.id)
                if goes_too:
                    region.plane.delete_disk(volume.id)
        except Exception:
            log.exception("giving %s back", volume.id)
        with region.lock:
            region.backend.unfasten(volume)
            if goes_too:
                region.backend.forget_volume(volume)

    @staticmethod
    def _arrive(
        instance: Any,
        expected: str,
        name: str,
        *,
        reason: tuple[str, str] | None = None,
        transition: str = "",
    ) -> None:
        """Write the new state down, unless a termination was asked for meanwhile."""
        if instance.state == expected:
            set_state(instance, name, reason=reason, transition=transition)
