"""The data plane of the embedded region: hosts, disks, network and limits, as the EC2 front drives them."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.promises.ceilings import MachineLimits
from pytest_cloudbench.promises.snapshots import FIRST_READ
from pytest_cloudbench.twin.counters import CountersPage
from pytest_cloudbench.twin.disks import Disk, NoRoom, Store, create_disk, nitro_node, xen_node
from pytest_cloudbench.twin.governor import Governor
from pytest_cloudbench.twin.host_plan import BootFailed, HostPlan, ImageFacts
from pytest_cloudbench.twin.hosts import Host, Node, read_console
from pytest_cloudbench.twin.instance_networks import InstanceNetworks
from pytest_cloudbench.twin.instance_store import InstanceStore
from pytest_cloudbench.twin.io_units import open_io_units
from pytest_cloudbench.twin.network import Network
from pytest_cloudbench.twin.network_governor import NetworkState
from pytest_cloudbench.twin.network_probe import PAYLOAD_SHARE, probe_network
from pytest_cloudbench.twin.probe import MachineRecord, probe_machine
from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.snapshots import Snapshots
from pytest_cloudbench.twin.storage_accounts import (
    InstanceAccount,
    InstanceActivity,
    RateLimit,
    UntilRead,
    VolumeAccount,
    VolumeActivity,
)
from pytest_cloudbench.twin.throttle import open_throttle
from pytest_cloudbench.twin.workshop import Workshop

if TYPE_CHECKING:
    from pytest_cloudbench.promises.quantities import Throughput
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
    account: VolumeAccount
    page: CountersPage
    instance_id: str | None = None
    node: Node | None = None


@dataclass
class _Instance:
    """An instance; ``lock`` orders what is done to it."""

    host: Host
    local: InstanceStore
    lock: threading.RLock = field(default_factory=threading.RLock)
    volumes: dict[str, _Volume] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        attached = [volume.node for volume in self.volumes.values() if volume.node is not None]
        return [*self.local.nodes, *attached]


class Plane:
    """Everything of one region that is not an API: instances, volumes, network, limits.

    Needs root. Methods may be called from any thread; what they raise carries a sentence for people.
    ``backing`` is a directory for the volumes' data in place of memory: roomier and slower.
    ``time_compression`` is how many times faster than the clock burst credits drain and fill.
    """

    def __init__(self, slot: Slot, *, backing: Path | None = None, time_compression: float = 1.0) -> None:
        self.slot = slot
        self.time_compression = time_compression
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
            self.snapshots = Snapshots(self._store)
            self._network = Network(slot, self._workshop)
            undo.callback(self._network.close)
            self._networks = InstanceNetworks(
                self._network,
                self._workshop,
                time_compression=time_compression,
                on_carried=lambda rate: self._machine.saw_network(rate * PAYLOAD_SHARE),
            )
            undo.callback(self._networks.close)
            self._io_units = open_io_units(self._workshop, self._store.roots)
            if self._io_units is not None:
                undo.callback(self._io_units.close)
            self._governor = Governor(self._throttle, self._machine.saw, self._io_units)
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
                allowances=directory / "allowances",
                cgroup_procs=cgroup_procs,
                on_plugged=lambda pid: self._networks.plugged(plan, pid),
                on_unplugging=lambda: self._networks.unplugging(plan.instance_id),
            )
            try:
                self._networks.add(plan, host.allowances)
            except OSError as error:
                self._throttle.close_group(plan.instance_id)
                self._network.give_back(plan.private_ip)
                raise BootFailed(f"{plan.instance_id} got no page for its counters: {error}") from error
            label = f"{self.slot.name}/{plan.instance_id}"
            local = InstanceStore(plan, self._store, self._workshop, self._throttle, label)
            instance = self._instances[plan.instance_id] = _Instance(host, local)
            account = InstanceAccount(
                plan.ebs_limit, plan.ebs_baseline, time.monotonic(), self.time_compression
            )
            self._governor.add_instance(plan.instance_id, account)
        try:
            with instance.lock:
                self._start(instance)
        except BaseException:
            self._forget(instance)
            raise

    def stop(self, instance_id: str) -> None:
        """Shut an instance down. Its root disk, its address and its attachments stay; network credits are full.

        What was on its instance store is lost.
        """
        with self._held(instance_id) as instance:
            self._halt(instance)
            instance.local.lose()
            self._networks.refill(instance_id)

    def _halt(self, instance: _Instance) -> None:
        self._governor.suspend(instance.host.plan.instance_id)
        instance.host.stop()

    def start(self, instance_id: str) -> None:
        """Boot a stopped instance, with its volumes where they were. Raises `BootFailed`."""
        with self._held(instance_id) as instance:
            if not instance.host.running:
                instance.host.kill()
                self._throttle.open_group(instance_id)
                self._governor.resume(instance_id)
                self._start(instance)

    def _start(self, instance: _Instance) -> None:
        plan = instance.host.plan
        try:
            instance.local.make(self.machine_limits() if plan.local_disks else None)
        except (NoRoom, OSError) as error:
            raise BootFailed(f"{plan.instance_id} got no instance store: {error}") from error
        instance.host.start(instance.nodes)

    def reboot(self, instance_id: str) -> None:
        """Shut down and boot; its network credits stay as they are."""
        with self._held(instance_id) as instance:
            self._halt(instance)
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
        instance.local.lose()
        instance_id = host.plan.instance_id
        self._networks.remove(instance_id)
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

    def store_is_limited(self, instance_id: str) -> bool | None:
        """Whether an instance's store is held to its published figures; None where it has none, or nothing runs."""
        instance = self._instances.get(instance_id)
        return instance.local.limited if instance is not None else None

    def console_output(self, instance_id: str) -> str:
        """What the instance printed on its console, also when it did not come up or is gone."""
        return read_console(self.slot, instance_id)

    # --- networks ------------------------------------------------------------------------------------

    def network_state(self, instance_id: str) -> NetworkState | None:
        """An instance's rate and credits now; None where its network is not shaped: its type has no figures."""
        return self._networks.state(instance_id)

    def cut_cable(self, instance_id: str) -> None:
        """Take an instance's network cable down, as if it were pulled out, until `mend_cable`."""
        with self._held(instance_id) as instance:
            self._network.cut(instance.host.plan.private_ip)

    def mend_cable(self, instance_id: str) -> None:
        """Bring an instance's network cable up again; it is shaped as before."""
        with self._held(instance_id) as instance:
            self._network.mend(instance.host.plan.private_ip)

    # --- volumes -------------------------------------------------------------------------------------

    def create_disk(
        self, volume_id: str, size_gib: int, spec: VolumeSpec, snapshot_id: str | None = None
    ) -> None:
        """Make an empty volume, or one that holds what a snapshot does and is slow until that was read once.

        Raises `NoRoom` when nothing could ever be written to it, or the snapshot's data does not fit.
        """
        self._create_disk(volume_id, size_gib, spec)
        if snapshot_id is None:
            return
        try:
            data = self.snapshots.restore(snapshot_id, self._volume(volume_id).disk.descriptor)
        except KeyError:
            self.delete_disk(volume_id)
            raise PlaneError(f"there is no snapshot {snapshot_id}") from None
        except BaseException:
            self.delete_disk(volume_id)
            raise
        if data:
            rate = RateLimit(FIRST_READ.iops.per_second, FIRST_READ.throughput.bytes_per_second)
            self.slow_until_read(volume_id, data, rate)

    def take_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        """Copy a volume's data, attached or not; returns when the snapshot is complete. See `Snapshots.take`."""
        disk = self._volume(volume_id).disk
        self.snapshots.take(snapshot_id, disk.descriptor, disk.size)

    def snapshot_percent(self, snapshot_id: str) -> int:
        """How much of a snapshot's data is there."""
        return self.snapshots.percent(snapshot_id)

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Remove a snapshot, also while it is being made. Volumes made from it keep their data."""
        self.snapshots.delete(snapshot_id)

    def _create_disk(self, volume_id: str, size_gib: int, spec: VolumeSpec) -> None:
        with self._lock:
            self._refuse_when_closed()
            if volume_id in self._volumes:
                raise PlaneError(f"{volume_id} exists already")
            disk = create_disk(
                volume_id,
                size_gib=size_gib,
                io_unit=spec.io_unit.bytes,
                store=self._store,
                workshop=self._workshop,
                label=f"{self.slot.name}/{volume_id}",
            )
            page = self._workshop.run(lambda: CountersPage(self._store.roots / f"{volume_id}.page"))
            account = VolumeAccount(spec, time.monotonic(), self.time_compression)
            self._volumes[volume_id] = _Volume(disk, account, page)

    def attach(self, volume_id: str, instance_id: str, device_name: str) -> str:
        """Attach a volume; its node is there when this returns. The node's name, such as "nvme1n1"."""
        volume = self._volume(volume_id)
        with self._held(instance_id) as instance:
            if volume.instance_id is not None:
                raise PlaneError(f"{volume_id} is attached to {volume.instance_id}")
            loop = volume.disk.plug_in()
            try:
                if instance.host.plan.nitro:
                    taken = {*instance.local.names, *(node.name for node in instance.nodes)}
                    number = next(number for number in range(1, 1000) if f"nvme{number}n1" not in taken)
                    node = nitro_node(number, volume_id, loop)
                else:
                    node = xen_node(device_name, loop)
                self._governor.add_volume(instance_id, volume_id, volume.account, loop, volume.page)
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
        """Give a volume other figures, at once. Its size may grow: attached, the device grows with it.

        Its burst credits stay, as far as it has a bucket afterwards that holds them.
        """
        volume = self._volume(volume_id)
        volume.disk.modify(size_gib=spec.size_gib, io_unit=spec.io_unit.bytes)
        self._change_account(volume_id, lambda: volume.account.become(spec, time.monotonic()))

    def slow_until_read(self, volume_id: str, bytes_left: int, limit: RateLimit) -> None:
        """Give a volume a lower limit until so many bytes were read from it: one made from a snapshot."""
        account = self._volume(volume_id).account

        def slow() -> None:
            account.until_read = UntilRead(limit, bytes_left)

        self._change_account(volume_id, slow)

    def _change_account(self, volume_id: str, change: Callable[[], None]) -> None:
        volume = self._volume(volume_id)
        if volume.instance_id is None:
            change()
            return
        with self._held(volume.instance_id):
            self._governor.limits_changed(volume.instance_id, volume_id, change)

    def storage_activity(self) -> tuple[list[VolumeActivity], list[InstanceActivity]]:
        """What every volume has done since it was made, attached or not, and all balances of burst credits."""
        volumes, instances = self._governor.activity()
        shown = {volume.volume_id for volume in volumes}
        now = time.monotonic()
        for volume_id, volume in list(self._volumes.items()):
            if volume_id not in shown:
                account = volume.account
                volumes.append(VolumeActivity(volume_id, None, account.done, account.burst_balance(now)))
        return volumes, instances

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

    def machine_network(self) -> Throughput | None:
        """What this machine carries between two instances, unshaped; measured once per boot (about two seconds).

        None where it cannot be measured (no iperf3).
        """
        with self._probing:
            if self._machine.network() is None and not self._closed:
                measured = probe_network(self._network)
                if measured is not None:
                    self._machine.saw_network(measured, probed=True)
        return self._machine.network()

    @property
    def governor_cpu_s(self) -> float:
        """CPU seconds that the governor of the volumes has used."""
        return self._governor.cpu_s

    @property
    def network_governor_cpu_s(self) -> float:
        """CPU seconds that the network's governor has used."""
        return self._networks.governor_cpu_s

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
            ("I/O counter", self._io_units.close if self._io_units is not None else lambda: None),
            ("network's governor", self._networks.close),
            ("throttle", self._throttle.close),
            ("network", self._network.close),
            ("snapshots", self.snapshots.close),
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
