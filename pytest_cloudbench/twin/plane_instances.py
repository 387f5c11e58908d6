"""The instances of a region: how they are booted, stopped, started and terminated."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.twin.hosts.hosts import BootFailed, Host, HostPlan, read_console, remove_console
from pytest_cloudbench.twin.hosts.run_command import RunningScript, Script
from pytest_cloudbench.twin.inventory import Inventory, PlacedInstance, PlaneError
from pytest_cloudbench.twin.network.cables import NetworkFailed
from pytest_cloudbench.twin.network.governor import AllowancePage, NetworkGovernor
from pytest_cloudbench.twin.network.shaping import Shape
from pytest_cloudbench.twin.region_parts import RegionParts
from pytest_cloudbench.twin.volumes.disks import MIB, NoRoom
from pytest_cloudbench.twin.volumes.figures import instance_figures
from pytest_cloudbench.twin.volumes.instance_store import InstanceStore
from pytest_cloudbench.twin.volumes.instance_volumes import InstanceVolumes

_INTERFACE = "eth0"
_LAST_OUTPUTS = 256
"""The console output of this many ended instances can still be read; EC2 keeps it for about an hour."""
_log = logging.getLogger(__name__)


class PlaneInstances:
    """The instances in an inventory, each with its host, its network and the process that paces its volumes.

    ``governor`` keeps their network credits; an instance without network rates in its plan is not shaped.
    ``release_volume`` detaches a volume of an instance that ends; ``machine_disks`` returns what this machine's
    disks serve.
    """

    def __init__(
        self,
        inventory: Inventory,
        parts: RegionParts,
        governor: NetworkGovernor,
        release_volume: Callable[[str], None],
        machine_disks: Callable[[], MachineLimits | None],
    ) -> None:
        self._inventory = inventory
        self._parts = parts
        self._governor = governor
        self._release_volume = release_volume
        self._machine_disks = machine_disks
        self._cpus = sorted(os.sched_getaffinity(0))
        self._next_cpu = 0
        self.serve_metadata: Callable[[HostPlan, int], Callable[[], None]] | None = None
        """Serves the metadata of an instance in a process's network namespace; returns a function that stops it."""
        self._metadata_ends: dict[str, Callable[[], None]] = {}
        self._last_outputs: dict[str, str] = {}

    def store_is_limited(self, instance_id: str) -> bool | None:
        """Return whether an instance's store is held to its published figures; None without a store."""
        instance = self._inventory.instances.get(instance_id)
        return instance.local.limited if instance is not None else None

    def console_output(self, instance_id: str) -> str:
        """Return what the instance printed on its console, even after a failed boot or its termination."""
        return self._last_outputs.get(instance_id) or read_console(self._parts.slot, instance_id)

    def agent_registered_at(self, instance_id: str) -> float | None:
        """Return when SSM Agent of an instance first answered, in seconds since the epoch; None if it never did."""
        instance = self._inventory.instances.get(instance_id)
        at = instance.host.registered_at if instance is not None else None
        return at if at is not None and at <= time.time() else None

    def agent_answers(self, instance_id: str) -> bool:
        """Return True if SSM Agent of an instance answers now."""
        instance = self._inventory.instances.get(instance_id)
        return instance is not None and instance.host.agent_answers

    def run_script(self, instance_id: str, script: Script, region: str) -> RunningScript:
        """Start a script in a running instance. Raises PlaneError or OSError if its agent does not answer."""
        with self._inventory.held(instance_id) as instance:
            if not instance.host.agent_answers:
                raise PlaneError(f"{instance_id} is not running")
            return RunningScript(script, instance_id, region, instance.host)

    def boot(self, plan: HostPlan, on_shutdown: Callable[[bool], None] = lambda reboots: None) -> None:
        """Make an instance and boot it (see `Host.start`). Raises `BootFailed` and leaves nothing behind.

        ``on_shutdown`` is called when the instance has shut itself down, with True if it is to boot again.
        """
        instance_id = plan.instance_id
        with self._inventory.lock:
            self._inventory.refuse_when_closed()
            host = Host(
                plan,
                self._parts,
                on_plugged=lambda pid: self._plugged(plan, host.allowances, pid),
                on_unplugging=lambda: self._unplugging(instance_id),
                on_shutdown=on_shutdown,
                public_ip=plan.public_ip,
                cpus=self._take_cpus(plan.vcpus),
            )
            instance = PlacedInstance(host, self._cards(plan), InstanceStore(plan, self._parts))
            self._inventory.instances[instance_id] = instance
        try:
            with instance.lock:
                self._start(instance)
        except BaseException:
            self._forget(instance)
            raise

    def _take_cpus(self, vcpus: int | None) -> tuple[int, ...]:
        """Return the next processors of this machine for an instance: one per vCPU; all if it has fewer or for None."""
        count = min(vcpus or len(self._cpus), len(self._cpus))
        first, self._next_cpu = self._next_cpu, self._next_cpu + count
        return tuple(self._cpus[(first + each) % len(self._cpus)] for each in range(count))

    def _memory_bytes(self, instance: PlacedInstance) -> int | None:
        """Return the memory limit of an instance, that of its type; None if the machine has no more or cannot limit it.

        With cgroup v2 the data of an instance store that is not paced would count as the instance's memory, so the
        instance then has no memory limit.
        """
        mib = instance.host.plan.memory_mib
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if mib is None or mib * MIB >= machine:
            return None
        if instance.local.limited is False and self._parts.memory.charges_devices:
            return None
        return mib * MIB

    def resources(self, instance_id: str) -> tuple[int, bool] | None:
        """Return how many processors an instance runs on, and whether its memory is limited to that of its type.

        None if there is no such instance.
        """
        instance = self._inventory.instances.get(instance_id)
        return None if instance is None else (len(instance.host.cpus), instance.host.memory_is_limited)

    def _cards(self, plan: HostPlan) -> dict[int, InstanceVolumes]:
        """Return, by the index of each EBS card, what paces its volumes."""
        limits: dict[int, tuple[EbsLimit | None, EbsLimit | None]]
        limits = {card.index: (card.maximum, card.baseline) for card in plan.ebs_cards}
        limits = limits or {0: (plan.ebs_limit, plan.ebs_baseline)}
        factor = self._parts.time_compression
        return {
            index: InstanceVolumes(
                f"{plan.instance_id}.card{index}" if index else plan.instance_id,
                instance_figures(maximum, baseline, factor=factor),
                self._parts,
            )
            for index, (maximum, baseline) in limits.items()
        }

    def _plugged(self, plan: HostPlan, pages: Path, pid: int) -> None:
        self._shape(plan, pages, pid)
        if self.serve_metadata is not None:
            self._metadata_ends[plan.instance_id] = self.serve_metadata(plan, pid)

    def _unplugging(self, instance_id: str) -> None:
        self._governor.disconnect(instance_id)
        if (end := self._metadata_ends.pop(instance_id, None)) is not None:
            end()

    def _shape(self, plan: HostPlan, pages: Path, pid: int) -> None:
        """Shape the new cable of an instance, whose eth0 is in the network namespace of process ``pid``.

        Its counters are published in the directory ``pages``. Its credits are full at its first boot. If shaping
        fails, the instance has an unlimited network until its next boot.
        """
        network, workshop, rates = self._parts.network, self._parts.workshop, plan.network
        instance_id = plan.instance_id
        if rates is None:
            return
        try:
            rate = self._governor.rate(instance_id)
            if rate is None:
                page = workshop.run(lambda: AllowancePage(pages / _INTERFACE))
                self._governor.add(instance_id, rates, plan.network_credits, page)
                rate = rates.peak
            shape = Shape(
                rate,
                rates.peak,
                in_cluster=plan.placement_group is not None,
                express=plan.network_options.ena_express,
                express_udp=plan.network_options.ena_express_udp,
            )
            ends = network.shape(pid, plan.private_ip, shape, plan.placement_group)
            try:
                self._governor.connect(instance_id, ends)
            except BaseException:
                network.unshape(pid, plan.private_ip)
                raise
        except (NetworkFailed, OSError, ValueError) as error:
            # The instance is useful for its disks. The governor's `rate` reports that its network is not shaped.
            _log.error("%s runs with an unlimited network: %s", instance_id, error)
            self._governor.remove(instance_id)
            workshop.run(lambda: (pages / _INTERFACE).unlink(missing_ok=True))

    def set_public_ip(self, instance_id: str, address: str | None) -> None:
        """Set an instance's public address; None removes it. Raises `NetworkFailed`."""
        with self._inventory.held(instance_id) as instance:
            instance.host.set_public_ip(address)

    def stop(self, instance_id: str) -> None:
        """Shut an instance down. Its root disk, address and attachments stay; its network credits are full again.

        The data on its instance store are lost.
        """
        with self._inventory.held(instance_id) as instance:
            self._halt(instance)
            instance.local.remove_disks()
            self._governor.refill(instance_id)

    def start(self, instance_id: str) -> None:
        """Boot a stopped instance with the volumes that are attached to it. Raises `BootFailed`."""
        with self._inventory.held(instance_id) as instance:
            if not instance.host.running:
                instance.host.kill()
                self._pace(instance, True)
                self._start(instance)

    def reboot(self, instance_id: str) -> None:
        """Shut down and boot; its network credits stay as they are."""
        with self._inventory.held(instance_id) as instance:
            self._halt(instance)
            self.start(instance_id)

    def terminate(self, instance_id: str) -> None:
        """End an instance and remove its root disk; its volumes are detached and keep their data."""
        with self._inventory.held(instance_id) as instance:
            self._halt(instance)
            for volume_id in list(instance.volumes):
                self._release_volume(volume_id)
            self._forget(instance)

    def _halt(self, instance: PlacedInstance) -> None:
        instance.host.end_programs()
        self._pace(instance, False)  # the data that remains must be written before detaching
        instance.host.stop()

    @staticmethod
    def _pace(instance: PlacedInstance, paced: bool) -> None:
        """Apply the limits of volumes, or suspend them, so that an instance that shuts down writes its data quickly."""
        for card in instance.cards.values():
            card.pace(paced)
        instance.local.pace(paced)

    def _start(self, instance: PlacedInstance) -> None:
        plan = instance.host.plan
        try:
            instance.local.make(self._machine_disks() if plan.local_disks else None)
        except (NoRoom, OSError) as error:
            raise BootFailed(f"{plan.instance_id} got no instance store: {error}") from error
        instance.host.memory_bytes = self._memory_bytes(instance)
        instance.host.start(instance.nodes)

    def _forget(self, instance: PlacedInstance) -> None:
        host = instance.host
        host.kill()
        instance.local.close()
        for card in instance.cards.values():
            card.close()
        instance_id = host.plan.instance_id
        self._governor.remove(instance_id)
        self._parts.memory.forget(instance_id)
        self._last_outputs[instance_id] = read_console(self._parts.slot, instance_id)
        while len(self._last_outputs) > _LAST_OUTPUTS:
            self._last_outputs.pop(next(iter(self._last_outputs)))
        remove_console(self._parts.slot, instance_id)
        self._parts.workshop.run(lambda: shutil.rmtree(host.directory, ignore_errors=True))
        with self._inventory.lock:
            self._inventory.instances.pop(instance_id, None)
        self._parts.network.release_address(host.plan.private_ip)
