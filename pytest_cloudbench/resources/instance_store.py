"""The instance store as a test sees it: the local NVMe disks of an instance, each alone and all together."""

from __future__ import annotations

from pytest_cloudbench.hosts import devices
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import DeviceNotFound
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.instance_store import (
    STORE_RATES,
    StoreRates,
    store_ceilings,
    store_envelope,
)
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.region_settings import NONE
from pytest_cloudbench.resources.disks import Disk, DiskGroup
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.storage_target import StorageTarget

SIZE_TOLERANCE = 0.01
"""The relative difference allowed between a disk's size and DescribeInstanceTypes, which has whole GB."""


_NEVER_WRITTEN = (
    "the disk of the instance store was never written: it answers reads of such blocks without reading its flash; call "
    "initialised() first, or read files, such as on mounted('xfs')"
)


_MAYBE_UNWRITTEN = (
    "it is unknown whether the blocks were ever written, and a disk answers reads of unwritten blocks without reading "
    "its flash"
)


class NoInstanceStore(LookupError):
    """The instance type has no local NVMe disks."""


class StoreLost(RuntimeError):
    """The data on the instance store is lost, because the instance was stopped in between."""


class NoStoreFigure(LookupError):
    """AWS publishes no such figure for the instance store of this type."""


def check_has_store(limits: InstanceLimits) -> None:
    """Raise NoInstanceStore for a type without local NVMe disks."""
    if not limits.instance_store:
        raise NoInstanceStore(
            f"{limits.name} has no instance store: DescribeInstanceTypes names no local disks for it. Choose a type "
            "that has them, such as i3.8xlarge or c5d.large"
        )
    if not limits.instance_store_nvme:
        raise NoInstanceStore(
            f"the local disks of {limits.name} are not NVMe, and such disks are attached only if a launch requests "
            "them: choose a type with NVMe, such as i3.8xlarge or c5d.large"
        )


class _OnStore(StorageTarget):
    """Some local disks together, with their published figures."""

    @property
    def owner(self) -> str:
        """The owner of the published figures, for messages."""
        raise NotImplementedError

    @property
    def rates(self) -> StoreRates | None:
        """The published figures; None if this package has none for the type."""
        raise NotImplementedError

    @property
    def modelled_latency(self) -> str | None:
        """How the region models its latency; "none" if only the machine limits the disks."""
        modelled = super().modelled_latency
        return NONE if modelled is not None and self.instance.launched.store_unlimited else modelled

    @property
    def read_iops(self) -> Ceiling:
        """The random 4 KiB reads per second of all its disks. Raises NoStoreFigure if none are published."""
        return store_ceilings(self.owner, self._published())[0]

    @property
    def write_iops(self) -> Ceiling:
        """The random 4 KiB writes per second of all its disks. Raises NoStoreFigure if none are published."""
        return store_ceilings(self.owner, self._published())[1]

    @property
    def iops(self) -> Ceiling:
        """Not available: raises NoStoreFigure, because reads and writes have separate figures."""
        raise NoStoreFigure(
            f"reads and writes of the instance store of {self.instance.type} have separate figures: compare with "
            "read_iops or write_iops"
        )

    @property
    def throughput(self) -> Ceiling:
        """Not available: raises NoStoreFigure, because AWS publishes IOPS only."""
        raise NoStoreFigure(f"AWS publishes no throughput of the instance store of {self.instance.type}")

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        return store_envelope(
            self.owner,
            self.rates,
            block_size,
            sequential=sequential,
            machine=self.instance.machine_limits(),
        )

    def counters(self) -> None:
        """Return None: the log page of an instance store has no throttle counters."""

    @property
    def burst_credits(self) -> tuple[str, ...]:
        return ()

    @property
    def _own_conditions(self) -> tuple[str, ...]:
        if not self.instance.launched.store_unlimited:
            return ()
        rates = STORE_RATES.get(self.instance.type)
        published = (
            f"{self.instance.type} is published with {rates.read.number} read and {rates.write.number} write IOPS"
            if rates
            else f"no figures of {self.instance.type} are known"
        )
        return (f"instance store limited by this machine's own ceiling only ({published})",)

    def _published(self) -> StoreRates:
        if self.rates is None:
            raise NoStoreFigure(
                f"no published IOPS of the instance store of {self.instance.type} are known: compare with a figure "
                "of your own"
            )
        return self.rates


class InstanceStoreDisk(_OnStore, Disk):
    """One local disk; as a target of a workload it is the raw device. It lasts as long as its data."""

    def __init__(self, store: InstanceStore, number: int) -> None:
        self.store = store
        self.instance = store.instance
        self.number = number

    @property
    def device(self) -> BlockDevice:
        """The device on the host, found by model and serial number. Raises StoreLost if its data is lost."""
        return self.store.device_of(self)

    @property
    def paths(self) -> tuple[str, ...]:
        """Its only path. Raises StoreLost if the instance was stopped since the store was first used."""
        self.check_there()
        return super().paths

    @property
    def size(self) -> Size:
        return self.device.size

    @property
    def owner(self) -> str:
        count = len(self.store)
        return self.instance.type if count == 1 else f"{self.instance.type} disk {self.number} of {count}"

    @property
    def rates(self) -> StoreRates | None:
        """Its share of the published figures, which are stated for all disks together."""
        rates = STORE_RATES.get(self.instance.type)
        return rates.share(len(self.store)) if rates else None

    @property
    def label(self) -> str:
        return f"instance store disk {self.number} of {len(self.store)}"

    @property
    def default_mount_point(self) -> str:
        return f"/mnt/instance-store-{self.number}"

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*super().conditions, *self._own_conditions)

    @property
    def known_device(self) -> BlockDevice | None:
        """The device on the host, which was found with its store; None after a stop."""
        return self.store.known_device_of(self)

    def check_there(self) -> None:
        """Raise StoreLost if the instance was stopped since the store was first used."""
        self.store.check_there()

    def prove_writable(self) -> None:
        self.check_there()
        super().prove_writable()

    def prove_readable(self) -> None:
        self.check_there()
        super().prove_readable()

    @property
    def never_written(self) -> str:
        if self.initialisation is not None or self.instance.launched.existing:
            return ""
        return _NEVER_WRITTEN

    @property
    def maybe_unwritten(self) -> str:
        """The remark for reads of the raw disk if it was there before the run; "" if its written blocks are known."""
        existing = self.initialisation is None and self.instance.launched.existing
        return _MAYBE_UNWRITTEN if existing else ""

    def lose(self, why: str) -> None:
        """Forget its mount, its stripe and its initialisation, because its data is lost."""
        self.forget_mount(why)
        self.initialisation = None
        if self.stripe is not None:
            self.stripe.lose(why)


class InstanceStore(_OnStore, DiskGroup[InstanceStoreDisk]):
    """All local disks of an instance, side by side; as a target, all their devices at once.

    ``instance_store[0]`` is the first of them. After a stop they are new, empty disks.
    """

    def __init__(self, instance: Instance) -> None:
        check_has_store(instance.limits)
        self.instance = instance
        count = sum(disk.count for disk in instance.limits.instance_store)
        self.disks = tuple(InstanceStoreDisk(self, number) for number in range(1, count + 1))
        for disk, done in zip(self.disks, instance.launched.store_initialised, strict=False):
            disk.initialisation = done
        self._serials: list[str] | None = None
        self._devices: dict[str, BlockDevice] = {}
        self._since: object = None
        self._find()

    @property
    def owner(self) -> str:
        return self.instance.type

    @property
    def rates(self) -> StoreRates | None:
        return STORE_RATES.get(self.instance.type)

    @property
    def label(self) -> str:
        return f"instance store of {self.instance.type}"

    @property
    def paths(self) -> tuple[str, ...]:
        self.check_there()
        return super().paths

    @property
    def maybe_unwritten(self) -> str:
        """The remark for reads of the raw disks if one disk has one; else ""."""
        return next((disk.maybe_unwritten for disk in self.disks if disk.maybe_unwritten), "")

    def device_of(self, disk: InstanceStoreDisk) -> BlockDevice:
        if self._serials is None or not self._devices:
            self._find()
        assert self._serials is not None
        return self._devices[self._serials[disk.number - 1]]

    def known_device_of(self, disk: InstanceStoreDisk) -> BlockDevice | None:
        return self._devices.get(self._serials[disk.number - 1]) if self._serials else None

    def check_there(self) -> None:
        """Raise StoreLost if the instance was stopped and started from outside, which replaces the disks.

        Raised once; later calls use the new, empty disks, without mounts.
        """
        now = self.instance.look_at_launch()
        if self._since is None or now is None or now == self._since:
            return
        why = (
            f"{self.instance.launched} was stopped and started from outside (last start {now}): the data on "
            "its instance store is lost"
        )
        self.lose(why)
        raise StoreLost(f"{why}; its disks are new and empty, and this load was not run on them")

    def lose(self, why: str) -> None:
        """Forget the disks, because the instance was stopped and will have new ones."""
        self._serials, self._devices, self._since = None, {}, None
        for disk in self.disks:
            disk.lose(why)

    def look_again(self) -> None:
        """Find the same disks again after a reboot, which may change their names."""
        self._devices = {}
        for disk in self.disks:
            disk.look_again()

    def _find(self) -> None:
        sizes = sorted(
            disk.size_gb for disk in self.instance.limits.instance_store for _ in range(disk.count)
        )
        found = devices.find_instance_store(self.instance.host, len(self.disks))
        for device, size_gb in zip(sorted(found, key=lambda one: one.size.bytes), sizes, strict=True):
            if abs(device.size.bytes / (size_gb * 1e9) - 1) > SIZE_TOLERANCE:
                raise DeviceNotFound(
                    f"{device.path} of the instance store on {self.instance.launched} has {device.size.bytes:,} "
                    f"bytes, DescribeInstanceTypes says {size_gb:,} GB for {self.instance.type}"
                )
        self._devices = {device.serial or device.path: device for device in found}
        if self._serials is None:
            self._serials = list(self._devices)
            self._since = self.instance.look_at_launch()
        elif missing := set(self._serials) - set(self._devices):
            self.lose(
                why
                := f"{', '.join(sorted(missing))} of the instance store on {self.instance.launched} was replaced"
            )
            raise StoreLost(f"{why} by an empty disk")
