"""The instances of a region: booted, stopped, started and ended, with what each of them has."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.twin.hosts.host_plan import BootFailed, HostPlan
from pytest_cloudbench.twin.hosts.hosts import Host
from pytest_cloudbench.twin.inventory import Inventory, PlacedInstance, PlaneError
from pytest_cloudbench.twin.network.cables import Network
from pytest_cloudbench.twin.network.instance_networks import InstanceNetworks
from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.volumes.disks import NoRoom, Store
from pytest_cloudbench.twin.volumes.figures import StageFigures, instance_figures
from pytest_cloudbench.twin.volumes.instance_store import InstanceStore
from pytest_cloudbench.twin.volumes.instance_volumes import Ground, InstanceVolumes
from pytest_cloudbench.twin.workshop import Workshop


class PlaneInstances:
    """The instances in an inventory, each with its host, its network and what paces its volumes.

    ``release`` detaches a volume whose instance is ending; ``machine_limits`` says what this machine's disks serve.
    ``modelled`` gives I/Os of the instance store a service time.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        slot: Slot,
        store: Store,
        workshop: Workshop,
        network: Network,
        networks: InstanceNetworks,
        release: Callable[[str], None],
        machine_limits: Callable[[], MachineLimits | None],
        time_compression: float,
        modelled: bool,
    ) -> None:
        self._slot = slot
        self._inventory = inventory
        self._store = store
        self._workshop = workshop
        self._network = network
        self._networks = networks
        self._release = release
        self._machine_limits = machine_limits
        self._time_compression = time_compression
        self._modelled = modelled
        self._ground = Ground(workshop, store.roots, slot.directory)

    def boot(self, plan: HostPlan) -> None:
        """Make an instance and return once sshd answers. Raises `BootFailed`; nothing is left then."""
        with self._inventory.lock:
            self._inventory.refuse_when_closed()
            if plan.instance_id in self._inventory.instances:
                raise PlaneError(f"{plan.instance_id} exists already")
            for other in self._inventory.instances.values():
                if other.host.plan.private_ip == plan.private_ip:
                    raise PlaneError(f"{plan.private_ip} is the address of {other.host.plan.instance_id}")
            self._network.reserve(plan.private_ip)
            directory = self._store.roots / plan.instance_id
            host = Host(
                plan=plan,
                slot=self._slot,
                network=self._network,
                workshop=self._workshop,
                directory=directory,
                counters=directory / "counters",
                allowances=directory / "allowances",
                on_plugged=lambda pid: self._networks.plugged(plan, pid),
                on_unplugging=lambda: self._networks.unplugging(plan.instance_id),
            )
            try:
                self._networks.add(plan, host.allowances)
            except OSError as error:
                self._network.give_back(plan.private_ip)
                raise BootFailed(f"{plan.instance_id} got no page for its counters: {error}") from error
            label = f"{self._slot.name}/{plan.instance_id}"
            figures = instance_figures(plan.ebs_limit, plan.ebs_baseline, factor=self._time_compression)
            paced = InstanceVolumes(plan.instance_id, figures, self._ground)
            # Limits of the instance are those of its EBS volumes.
            store_paced = InstanceVolumes(f"{plan.instance_id}.store", StageFigures(), self._ground)
            local = InstanceStore(
                plan, self._store, self._workshop, store_paced, label, modelled=self._modelled
            )
            instance = self._inventory.instances[plan.instance_id] = PlacedInstance(host, paced, local)
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
        with self._inventory.held(instance_id) as instance:
            self._halt(instance)
            instance.local.lose()
            self._networks.refill(instance_id)

    def _halt(self, instance: PlacedInstance) -> None:
        self._pace(instance, False)
        instance.host.stop()

    @staticmethod
    def _pace(instance: PlacedInstance, paced: bool) -> None:
        """Hold the limits of volumes, or let an instance that goes down write its data quickly."""
        instance.paced.pace(paced)
        instance.local.pace(paced)

    def start(self, instance_id: str) -> None:
        """Boot a stopped instance, with its volumes where they were. Raises `BootFailed`."""
        with self._inventory.held(instance_id) as instance:
            if not instance.host.running:
                instance.host.kill()
                self._pace(instance, True)
                self._start(instance)

    def _start(self, instance: PlacedInstance) -> None:
        plan = instance.host.plan
        try:
            instance.local.make(self._machine_limits() if plan.local_disks else None)
        except (NoRoom, OSError) as error:
            raise BootFailed(f"{plan.instance_id} got no instance store: {error}") from error
        instance.host.start(instance.nodes)

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
                self._release(volume_id)
            self._forget(instance)

    def _forget(self, instance: PlacedInstance) -> None:
        host = instance.host
        host.kill()
        instance.local.close()
        instance.paced.close()
        instance_id = host.plan.instance_id
        self._networks.remove(instance_id)
        self._workshop.run(lambda: shutil.rmtree(host.directory, ignore_errors=True))
        with self._inventory.lock:
            self._inventory.instances.pop(instance_id, None)
            self._network.give_back(host.plan.private_ip)
