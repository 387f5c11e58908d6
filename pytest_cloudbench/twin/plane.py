"""The data plane of the embedded region: hosts, disks, network and limits, as the EC2 front drives them."""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.promises.ceilings import MachineLimits
from pytest_cloudbench.twin.counters import CountersPage
from pytest_cloudbench.twin.disks import MIB, Disk, NoRoom, Store, create_disk, nitro_node, xen_node
from pytest_cloudbench.twin.governor import Governor, RateLimit
from pytest_cloudbench.twin.host_plan import BootFailed, HostPlan, ImageFacts
from pytest_cloudbench.twin.hosts import Host, Node, read_console
from pytest_cloudbench.twin.network import Network
from pytest_cloudbench.twin.probe import MachineRecord, probe_machine
from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.throttle import open_throttle
from pytest_cloudbench.twin.workshop import Workshop

if TYPE_CHECKING:
    from pytest_cloudbench.promises.instances import EbsLimit
    from pytest_cloudbench.promises.volumes import VolumeSpec

__all__ = ["BootFailed", "HostPlan", "ImageFacts", "NoRoom", "Plane", "PlaneError"]

_LET_GO_S = 5.0  # the kernel lets go of a halted instance's mounts a moment after its last process
_log = logging.getLogger(__name__)


class PlaneError(RuntimeError):
    """A request that the data plane cannot do; the message is a sentence."""


@dataclass
class _Volume:
    """A volume and where it is attached."""

    disk: Disk
    spec: VolumeSpec
    page: CountersPage
    instance_id: str | None = None
    node: Node | None = None


@dataclass
class _Instance:
    """An instance; ``lock`` orders what is done to it."""

    host: Host
    lock: threading.RLock = field(default_factory=threading.RLock)
    volumes: dict[str, _Volume] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        return [volume.node for volume in self.volumes.values() if volume.node is not None]


def rate_limit_of_volume(spec: VolumeSpec) -> RateLimit:
    """What a volume may do while its burst credits last; unknown figures do not limit."""
    iops, throughput = spec.burst_iops, spec.burst_throughput_mib
    return RateLimit(
        iops=math.inf if iops is None else float(iops),
        bytes_per_s=math.inf if throughput is None else throughput * MIB,
    )


def rate_limit_of_instance(limit: EbsLimit | None) -> RateLimit:
    """What an instance may do over all its volumes."""
    if limit is None:
        return RateLimit()
    return RateLimit(limit.iops.per_second, limit.throughput.bytes_per_second)


class Plane:
    """Everything of one region that is not an API: instances, volumes, network, limits.

    Needs root. Methods may be called from any thread; what they raise carries a sentence for people.
    ``backing`` is a directory for the volumes' data in place of memory: roomier and slower.
    """

    def __init__(self, slot: Slot, *, backing: Path | None = None) -> None:
        self.slot = slot
        self._lock = threading.RLock()
        self._instances: dict[str, _Instance] = {}
        self._volumes: dict[str, _Volume] = {}
        self._machine = MachineRecord(slot.base)
        self._probing = threading.Lock()
        self._closed = False
        with contextlib.ExitStack() as undo:
            self._throttle = open_throttle(slot.name, slot.directory)
            undo.callback(self._throttle.close)
            self._workshop = Workshop()
            undo.callback(self._workshop.close)
            self._store = Store(slot.directory, self._workshop, backing)
            undo.callback(self._store.close)
            self._network = Network(slot, self._workshop)
            undo.callback(self._network.close)
            self._governor = Governor(self._throttle, self._machine.saw)
            undo.pop_all()

    # --- addresses -----------------------------------------------------------------------------------

    @property
    def caller_address(self) -> str:
        """The address from which this machine reaches the instances."""
        return self.slot.caller_address

    def free_address(self, zone_index: int) -> str:
        """An unused address in the zone's /24; it stays taken until its instance is terminated."""
        with self._lock:
            return self._network.take_address(zone_index)

    def give_back_address(self, address: str) -> None:
        """Let an address be handed out again whose instance will never be booted."""
        with self._lock:
            self._network.give_back(address)

    # --- instances -----------------------------------------------------------------------------------

    def boot(self, plan: HostPlan) -> None:
        """Make an instance and return once sshd answers. Raises `BootFailed`; nothing is left then."""
        with self._lock:
            self._refuse_when_closed()
            if plan.instance_id in self._instances:
                raise PlaneError(f"{plan.instance_id} exists already")
            for other in self._instances.values():
                if other.host.plan.private_ip == plan.private_ip:
                    raise PlaneError(f"{plan.private_ip} is the address of {other.host.plan.instance_id}")
            try:
                cgroup_procs = self._throttle.open_group(plan.instance_id)
            except OSError as error:
                self._network.give_back(plan.private_ip)
                raise BootFailed(f"{plan.instance_id} got no cgroup: {error}") from error
            self._network.reserve(plan.private_ip)
            directory = self._store.roots / plan.instance_id
            host = Host(
                plan=plan,
                slot=self.slot,
                network=self._network,
                workshop=self._workshop,
                directory=directory,
                counters=directory / "counters",
                cgroup_procs=cgroup_procs,
            )
            instance = self._instances[plan.instance_id] = _Instance(host)
            self._governor.add_instance(plan.instance_id, rate_limit_of_instance(plan.ebs_limit))
        try:
            with instance.lock:
                host.start([])
        except BaseException:
            self._forget(instance)
            raise

    def stop(self, instance_id: str) -> None:
        """Shut an instance down. Its root disk, its address and its attachments stay."""
        with self._held(instance_id) as instance:
            self._governor.suspend(instance_id)
            instance.host.stop()

    def start(self, instance_id: str) -> None:
        """Boot a stopped instance, with its volumes where they were. Raises `BootFailed`."""
        with self._held(instance_id) as instance:
            if not instance.host.running:
                instance.host.kill()
                self._throttle.open_group(instance_id)
                self._governor.resume(instance_id)
                instance.host.start(instance.nodes)

    def reboot(self, instance_id: str) -> None:
        """Stop and start."""
        with self._held(instance_id):
            self.stop(instance_id)
            self.start(instance_id)

    def terminate(self, instance_id: str) -> None:
        """End an instance and remove its root disk; its volumes are detached and keep their data."""
        with self._held(instance_id) as instance:
            self._governor.suspend(instance_id)
            instance.host.stop()
            for volume_id in list(instance.volumes):
                self._release(volume_id)
            self._forget(instance)

    def _forget(self, instance: _Instance) -> None:
        host = instance.host
        host.kill()
        instance_id = host.plan.instance_id
        self._governor.remove_instance(instance_id)
        self._throttle.close_group(instance_id)
        self._workshop.run(lambda: shutil.rmtree(host.directory, ignore_errors=True))
        with self._lock:
            self._instances.pop(instance_id, None)
            self._network.give_back(host.plan.private_ip)

    def running(self, instance_id: str) -> bool:
        """Whether the instance's init is alive."""
        instance = self._instances.get(instance_id)
        return instance is not None and instance.host.running

    def console_output(self, instance_id: str) -> str:
        """What the instance printed on its console, also when it did not come up or is gone."""
        return read_console(self.slot, instance_id)

    # --- volumes -------------------------------------------------------------------------------------

    def create_disk(self, volume_id: str, size_gib: int, spec: VolumeSpec) -> None:
        """Make an empty volume. Raises `NoRoom` when nothing could ever be written to it."""
        with self._lock:
            self._refuse_when_closed()
            if volume_id in self._volumes:
                raise PlaneError(f"{volume_id} exists already")
            disk = create_disk(
                volume_id,
                spec.type,
                size_gib=size_gib,
                store=self._store,
                workshop=self._workshop,
                label=f"{self.slot.name}/{volume_id}",
            )
            page = self._workshop.run(lambda: CountersPage(self._store.roots / f"{volume_id}.page"))
            self._volumes[volume_id] = _Volume(disk, spec, page)

    def attach(self, volume_id: str, instance_id: str, device_name: str) -> str:
        """Attach a volume; its node is there when this returns. The node's name, such as "nvme1n1"."""
        volume = self._volume(volume_id)
        with self._held(instance_id) as instance:
            if volume.instance_id is not None:
                raise PlaneError(f"{volume_id} is attached to {volume.instance_id}")
            loop = volume.disk.plug_in()
            try:
                if instance.host.plan.nitro:
                    taken = {node.name for node in instance.nodes}
                    number = next(number for number in range(1, 1000) if f"nvme{number}n1" not in taken)
                    node = nitro_node(number, volume_id, loop)
                else:
                    node = xen_node(device_name, loop)
                limit = rate_limit_of_volume(volume.spec)
                self._governor.add_volume(instance_id, volume_id, limit, loop, volume.page)
                if instance.host.plan.nitro:
                    self._show_page(volume, instance.host.counters / node.name)
                if instance.host.running:
                    instance.host.add_node(node)
            except BaseException:
                self._governor.remove_volume(instance_id, volume_id)
                volume.disk.unplug()
                raise
            volume.node, volume.instance_id = node, instance_id
            instance.volumes[volume_id] = volume
            return node.name

    def _show_page(self, volume: _Volume, path: Path) -> None:
        def link() -> None:
            path.unlink(missing_ok=True)
            path.hardlink_to(volume.page.path)

        self._workshop.run(link)

    def detach(self, volume_id: str) -> bool:
        """Detach a volume from its instance. False: it is still in use there, nothing has changed."""
        volume = self._volume(volume_id)
        if volume.instance_id is None:
            return True
        with self._held(volume.instance_id) as instance:
            loop = volume.disk.loop
            if loop is not None and not self._let_go(volume, wait=not instance.host.running):
                return False
            self._release(volume_id)
            return True

    @staticmethod
    def _let_go(volume: _Volume, *, wait: bool) -> bool:
        """Whether nobody uses the device; ``wait`` for the kernel to finish with a halted instance."""
        loop = volume.disk.loop
        deadline = time.monotonic() + (_LET_GO_S if wait else 0.0)
        while loop is not None and loop.busy():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def _release(self, volume_id: str) -> None:
        volume = self._volume(volume_id)
        if volume.instance_id is None:
            return
        instance = self._instance(volume.instance_id)
        node = volume.node
        self._governor.remove_volume(volume.instance_id, volume_id)
        if node is not None:
            if instance.host.running:
                instance.host.remove_node(node)
            self._workshop.run(lambda: (instance.host.counters / node.name).unlink(missing_ok=True))
        self._let_go(volume, wait=not instance.host.running)
        volume.disk.unplug()
        instance.volumes.pop(volume_id, None)
        volume.instance_id = volume.node = None

    def delete_disk(self, volume_id: str) -> None:
        """Remove a volume and its data. It must be detached."""
        with self._lock:
            volume = self._volume(volume_id)
            if volume.instance_id is not None:
                raise PlaneError(f"{volume_id} is attached to {volume.instance_id} and cannot be deleted")
            del self._volumes[volume_id]
        volume.disk.close()
        volume.page.close()
        self._workshop.run(lambda: volume.page.path.unlink(missing_ok=True))

    def modify(self, volume_id: str, spec: VolumeSpec) -> None:
        """Give a volume other figures, at once. Its size may grow: attached, the device grows with it."""
        volume = self._volume(volume_id)
        volume.disk.modify(spec.type, spec.size_gib)
        volume.spec = spec
        if volume.instance_id is not None:
            with self._held(volume.instance_id):
                self._governor.set_limit(volume.instance_id, volume_id, rate_limit_of_volume(spec))

    def room(self) -> int:
        """Bytes left for volumes' data."""
        return self._store.room()

    # --- the machine ---------------------------------------------------------------------------------

    def machine_limits(self) -> MachineLimits | None:
        """What this machine's disks serve unthrottled; measured once per boot (about a second).

        None where it cannot be measured (no fio).
        """
        with self._probing:
            if self._machine.limits() is None and not self._closed:
                measured = probe_machine(self._store, self._workshop, f"{self.slot.name}/probe")
                if measured is not None:
                    self._machine.saw(*measured, probed=True)
        return self._machine.limits()

    @property
    def governor_cpu_s(self) -> float:
        """CPU seconds that the governor has used."""
        return self._governor.cpu_s

    # --- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove everything. Errors are collected and raised as one `PlaneError` at the end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with self._probing:
            pass  # a probe that runs ends first: it uses what is removed below
        errors: list[str] = []

        @contextlib.contextmanager
        def collecting(what: str) -> Iterator[None]:
            try:
                yield
            except Exception as error:
                _log.exception("while removing %s", what)
                errors.append(f"{what}: {error}")

        for instance_id, instance in list(self._instances.items()):
            with collecting(instance_id):
                self._governor.suspend(instance_id)
                instance.host.kill()
        for instance_id in list(self._instances):
            with collecting(instance_id):
                self.terminate(instance_id)
        for volume_id in list(self._volumes):
            with collecting(volume_id):
                self.delete_disk(volume_id)
        for what, close in (
            ("governor", self._governor.close),
            ("throttle", self._throttle.close),
            ("network", self._network.close),
            ("store", self._store.close),
            ("workshop", self._workshop.close),
        ):
            with collecting(what):
                close()
        if errors:
            raise PlaneError("the region could not remove everything: " + "; ".join(errors))

    def _refuse_when_closed(self) -> None:
        """The caller holds the lock: what is made after this is seen by `close`."""
        if self._closed:
            raise PlaneError("the region is shutting down")

    # --- finding -------------------------------------------------------------------------------------

    def _instance(self, instance_id: str) -> _Instance:
        instance = self._instances.get(instance_id)
        if instance is None:
            raise PlaneError(f"there is no instance {instance_id}")
        return instance

    def _volume(self, volume_id: str) -> _Volume:
        volume = self._volumes.get(volume_id)
        if volume is None:
            raise PlaneError(f"there is no volume {volume_id}")
        return volume

    @contextlib.contextmanager
    def _held(self, instance_id: str) -> Iterator[_Instance]:
        instance = self._instance(instance_id)
        with instance.lock:
            if self._instances.get(instance_id) is not instance:  # ended while we waited for the lock
                raise PlaneError(f"there is no instance {instance_id}")
            yield instance
