"""Several instances as a test sees them: their storage as one target, and the network among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.fleet import fleet_envelope, summed_ceiling
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.pair import Pair, PairGroup, private_address
from pytest_cloudbench.resources.storage_target import StorageTarget
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.target import FleetTarget

if TYPE_CHECKING:
    from typing_extensions import Self

    from pytest_cloudbench.resources.ec2 import Ec2
    from pytest_cloudbench.resources.mounted import Mounted
    from pytest_cloudbench.resources.stripes import Stripe
    from pytest_cloudbench.resources.volumes import Volume, VolumeGroup

P = TypeVar("P", bound=StorageTarget)


class Fleet(Sequence[Instance]):
    """Several running instances, in the order of their launch. ``cluster``: all are in one cluster placement group."""

    def __init__(self, ec2: Ec2, instances: Sequence[Instance], *, cluster: bool = False) -> None:
        self._ec2 = ec2
        self.instances = tuple(instances)
        self.cluster = cluster

    def __getitem__(self, index: Any) -> Any:
        return self.instances[index]

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def label(self) -> str:
        """The name in messages: "4 x m5.large"."""
        return hosts_label(self.instances)

    @property
    def ebs_iops(self) -> Ceiling:
        """The maximum IOPS of the EBS volumes of all instances together. Raises NoPromise."""
        return summed_ceiling([each.ebs_iops for each in self.instances])

    @property
    def ebs_throughput(self) -> Ceiling:
        """The maximum throughput of the EBS volumes of all instances together. Raises NoPromise."""
        return summed_ceiling([each.ebs_throughput for each in self.instances])

    def create_volumes(self, spec: VolumeSpec, *, per_instance: int = 1) -> FleetStorage[Any]:
        """Create and attach ``per_instance`` equal volumes for each instance; see `Ec2.create_volumes`."""
        groups: list[VolumeGroup | Volume] = []
        for each in self.instances:
            group = self._ec2.create_volumes(spec, each, count=per_instance)
            groups.append(group if per_instance > 1 else group[0])
        return FleetStorage(groups)

    @property
    def instance_store(self) -> FleetStorage[Any]:
        """The local disks of all instances. Raises NoInstanceStore for a type without any."""
        return FleetStorage([each.instance_store for each in self.instances])

    def all_to_all(self) -> PairGroup:
        """Return the path from each instance to each other one, as one target of iperf3.

        Raises ValueError for a fleet of one.
        """
        paths = [Pair(*ends, cluster=self.cluster) for ends in permutations(self.instances, 2)]
        return PairGroup(paths, f"{self.label}, all to all")

    def __repr__(self) -> str:
        return f"<{self.label}>"


class FleetStorage(FleetTarget, Sequence[P]):
    """Storage on each instance of a fleet; as a target of fio all of it at once.

    ``fleet_storage[0]`` is the storage of the first instance, a target by itself.
    """

    def __init__(self, parts: Sequence[P]) -> None:
        if not parts:
            raise ValueError("the storage of a fleet needs at least one instance")
        if len({part.instance for part in parts}) < len(parts):
            raise TargetError(
                "a fleet takes one storage of each instance: load the disks of one instance side by side, such as "
                "volume.beside(other)"
            )
        self._parts = tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._parts[index]

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def parts(self) -> tuple[P, ...]:
        return self._parts

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(private_address(part.instance) for part in self._parts)

    @property
    def hosts_label(self) -> str:
        return hosts_label([part.instance for part in self._parts])

    @property
    def kind(self) -> Literal["block", "directory", "file"]:
        return self._parts[0].kind

    @property
    def label(self) -> str:
        names = dict.fromkeys(part.label for part in self._parts)
        each = next(iter(names)) if len(names) == 1 else f"{next(iter(names))} ..."
        return f"{each} on each of {self.hosts_label}"

    @property
    def iops(self) -> Ceiling:
        """The promised IOPS of all devices together, without the instances' limits."""
        return summed_ceiling([part.iops for part in self._parts])

    @property
    def throughput(self) -> Ceiling:
        """The promised throughput of all devices together, without the instances' limits."""
        return summed_ceiling([part.throughput for part in self._parts])

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Return the ceilings of such a load on all instances together."""
        return fleet_envelope([part.envelope(block_size, sequential=sequential) for part in self._parts])

    def initialised(self, **how: Any) -> Self:
        """Initialise the storage of each instance in turn, and return it all; see `Volume.initialised`."""
        for part in self._parts:
            cast(Any, part).initialised(**how)
        return self

    def striped(self, chunk: str | int | Size = "64k", **how: Any) -> FleetStorage[Stripe]:
        """Stripe the disks of each instance; see `VolumeGroup.striped`."""
        return FleetStorage(self._each(lambda part: part.striped(chunk, **how), "striped"))

    def mounted(self, filesystem: str = "xfs", **how: Any) -> FleetStorage[Mounted]:
        """Mount a file system on the storage of each instance; see `Volume.mounted`.

        Raises TargetError for several disks on each instance: stripe them first.
        """
        return FleetStorage(self._each(lambda part: part.mounted(filesystem, **how), "mounted"))

    def _each(self, make: Callable[[Any], Any], what: str) -> list[Any]:
        if not hasattr(self._parts[0], what):
            hint = ": stripe its disks first, striped()" if what == "mounted" else ""
            raise TargetError(f"{self._parts[0].label} cannot be {what}{hint}")
        return [make(part) for part in self._parts]

    @property
    def host(self) -> Any:
        """Not available: raises TargetError, because only fio runs on several hosts at once."""
        raise TargetError(
            f"{self.label}: only fio runs on several hosts at once; give other workloads one of them, such as "
            "fleet_storage[0]"
        )

    path = paths = data_of_device = host

    def __repr__(self) -> str:
        return f"<{self.label}>"


def hosts_label(instances: Sequence[Instance]) -> str:
    """Return the number of instances of each type: "4 x m5.large"."""
    types = [each.type for each in instances]
    return " + ".join(f"{types.count(name)} x {name}" for name in dict.fromkeys(types))
