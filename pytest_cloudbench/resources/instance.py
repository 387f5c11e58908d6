"""An EC2 instance as a test sees it: its limits, and the host it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.ceilings import Ceiling, MachineLimits
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.preparation import Preparation

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.host import CommandResult, Host
    from pytest_cloudbench.limits.volumes import VolumeSpec
    from pytest_cloudbench.resources.facts import (
        CreatedSnapshot,
        CreatedVolume,
        LaunchedInstance,
        ModificationState,
    )
    from pytest_cloudbench.resources.instance_store import InstanceStore
    from pytest_cloudbench.resources.provider import Provider
    from pytest_cloudbench.resources.volumes import Volume


class NoPromise(LookupError):
    """A figure was asked for that the provider does not promise for this instance type."""


class Instance:
    """A running EC2 instance.

    ``host`` is the SSH connection, made when first used; ``run`` a command on it. ``volumes`` are the
    volumes attached to it through this object, in the order of attaching, ``snapshots`` what was made of them.
    ``preparation`` says how work before a measurement is paced and shown.
    """

    def __init__(self, provider: Provider, launched: LaunchedInstance, connect_timeout_s: float) -> None:
        self._provider = provider
        self._launched = launched
        self._connect_timeout_s = connect_timeout_s
        self._host: Host | None = None
        self._cpus: int | None = None
        self._stopped = False
        self._store: InstanceStore | None = None
        self.volumes: list[Volume] = []
        self.snapshots: list[CreatedSnapshot] = []
        self.preparation = Preparation()

    @property
    def launched(self) -> LaunchedInstance:
        """The instance as the API last described it."""
        return self._launched

    @property
    def id(self) -> str:
        """Instance id, "i-" and 17 hexadecimal digits."""
        return self._launched.id

    @property
    def type(self) -> str:
        """Instance type, such as "c5.18xlarge"."""
        return self._launched.type

    @property
    def zone(self) -> str:
        """Availability zone."""
        return self._launched.zone

    @property
    def limits(self) -> InstanceLimits:
        """What its type promises, as DescribeInstanceTypes says."""
        return self._launched.limits

    @property
    def ebs_iops(self) -> Ceiling:
        """The most IOPS over all its EBS volumes. Raises NoPromise where AWS states none for the type."""
        return self._promised(self.limits.ebs_iops, "EBS IOPS")

    @property
    def ebs_throughput(self) -> Ceiling:
        """The most throughput over all its EBS volumes. Raises NoPromise where AWS states none for the type."""
        return self._promised(self.limits.ebs_throughput, "EBS throughput")

    @property
    def network_peak(self) -> Ceiling:
        """The most it sends, and the most it receives, while its network credits last.

        Raises NoPromise where AWS states no figure for the type.
        """
        return self._promised(self.limits.network_peak, "network bandwidth")

    @property
    def network_baseline(self) -> Ceiling:
        """What it sends and receives for good; the peak itself where the type does not burst.

        Raises NoPromise where AWS states no figure for the type.
        """
        return self._promised(self.limits.network_baseline, "network baseline")

    @property
    def time_compression(self) -> float:
        """How many times faster than the clock the region lets burst credits go; 1.0 on AWS."""
        return self._launched.time_compression

    @property
    def modelled_latency(self) -> str | None:
        """How the region models the latency of storage, "ebs" or "none"; None on AWS."""
        return self._launched.modelled_latency

    @property
    def cpus(self) -> int:
        """How many processors its host shows; on the embedded region those of the machine, not of the type."""
        if self._cpus is None:
            self._cpus = int(self.host.run(["nproc"], idempotent=True).stdout)
        return self._cpus

    @property
    def host(self) -> Host:
        """The SSH connection to this instance; the host key it must show is pinned. NotRunning while it is stopped."""
        if self._stopped:
            from pytest_cloudbench.resources.restarts import NotRunning

            raise NotRunning(f"{self._launched} is stopped: nothing runs on it until start()")
        if self._host is None:
            self._host = self._provider.host(self._launched, connect_timeout_s=self._connect_timeout_s)
            self._connect(self._host)
        return self._host

    def _connect(self, host: Host) -> None:
        from pytest_cloudbench.hosts.errors import HostUnreachable

        try:
            host.connect()
        except HostUnreachable as error:
            self._host = None
            hint = self._provider.unreachable_hint(self._launched)
            raise HostUnreachable(f"{error}; {hint}" if hint else str(error)) from error

    def run(
        self, argv: Sequence[str], *, sudo: bool = False, check: bool = True, timeout_s: float = 60
    ) -> CommandResult:
        """Run one command, given as a list, and return its output; quoting is done here.

        Raises CommandFailed with the command, exit code and what it said, unless ``check=False``.
        """
        return self.host.run(argv, sudo=sudo, check=check, timeout_s=timeout_s)

    def machine_limits(self) -> MachineLimits | None:
        """Ask the API what the machine behind this instance serves; None where the region publishes nothing.

        When the API does not answer, what it said last counts: a measurement already made must not be lost.
        """
        from pytest_cloudbench.resources.errors import CloudError

        with contextlib.suppress(CloudError):
            self._launched = self._provider.refresh(self._launched)
        return self._launched.machine_limits

    @property
    def instance_store(self) -> InstanceStore:
        """Its own NVMe disks, count and size as DescribeInstanceTypes says. NoInstanceStore, DeviceNotFound."""
        from pytest_cloudbench.resources.instance_store import InstanceStore

        if self._store is None:
            self._store = InstanceStore(self)
        return self._store

    @property
    def known_store(self) -> InstanceStore | None:
        """The instance store, if anybody has asked for it."""
        return self._store

    def stop(self, *, force: bool = False) -> None:
        """Stop it and wait until it is stopped; ``force`` is a stop without the operating system's own shutdown.

        EBS volumes keep their data and their attachments; what is on the instance store is lost, and nothing
        stays mounted. NotRunning when it is stopped already, WaitTimeout with the console's last lines.
        """
        from pytest_cloudbench.resources.restarts import NotRunning, forget_what_a_restart_ends

        if self._stopped:
            raise NotRunning(f"{self._launched} is stopped already: start() it first")
        from pytest_cloudbench.resources.errors import CloudError

        try:
            with self.preparation.step(f"stop {self._launched}"):
                self._launched = self._provider.stop(self._launched, force=force)
            self._stopped = True
        except CloudError as error:
            if error.code:  # refused: it is as it was
                raise
            self._went_down(forget_what_a_restart_ends)  # nobody knows: it may be down by now
            raise
        self._went_down(forget_what_a_restart_ends)

    def _went_down(self, forget: Callable[..., None]) -> None:
        if self._host is not None:
            self._host.expect_reboot()
        forget(self, f"{self._launched} was stopped since, which ends every mount", stopped=True)

    def start(self) -> None:
        """Start it after `stop`, wait until it runs and answers by SSH, with the host key it had before.

        Its private address is the same; the public one changes on AWS. Its volumes are found again, their file
        systems are mounted by `mounted`. NotRunning when it was not stopped, CloudError, HostUnreachable.
        """
        from pytest_cloudbench.resources.restarts import NotRunning, find_again

        if not self._stopped:
            raise NotRunning(f"{self._launched} was not stopped: there is nothing to start")
        with self.preparation.step(f"start {self._launched}"):
            self._launched = self._provider.start(self._launched)
            self._stopped = False
            if self._host is None:
                self.host.connect()
            else:
                if self._launched.address is not None:
                    self._host.address = self._launched.address
                self._connect(self._host)
        find_again(self)

    def reboot(self) -> None:
        """Reboot it and wait until it answers by SSH after another boot than before.

        All data survive, those of the instance store too; mounts do not. NotRunning when it does not come back.
        """
        from pytest_cloudbench.resources.restarts import (
            boot_identity,
            find_again,
            forget_what_a_restart_ends,
            wait_for_reboot,
        )

        before = boot_identity(self.host)
        with self.preparation.step(f"reboot {self._launched}"):
            self._launched = self._provider.reboot(self._launched)
            why = f"{self._launched} was rebooted since, which ends every mount"
            forget_what_a_restart_ends(self, why, stopped=False)
            wait_for_reboot(self, before, self._connect_timeout_s)
        find_again(self)

    def look(self) -> LaunchedInstance:
        """The instance as the API describes it now."""
        self._launched = self._provider.refresh(self._launched)
        return self._launched

    def look_at_launch(self) -> datetime | None:
        """When it was last started, by the API; None where that does not answer. NotRunning when it is not up.

        A start by anybody changes it, a reboot does not.
        """
        from pytest_cloudbench.resources.errors import CloudError
        from pytest_cloudbench.resources.restarts import NotRunning

        try:
            now = self.look()
        except CloudError:
            return None
        if now.state != "running":
            raise NotRunning(
                f"{now} is {now.state!r}, by somebody else's doing: no load can be put on it, and what was on its "
                "instance store is gone"
            )
        return now.launched

    def attach(self, volume: Volume) -> CreatedVolume:
        """Have the API attach a free volume; what it says of it then. `Volume.attach` is what tests call."""
        attached = self._provider.attach(volume.created, self._launched)
        self.volumes.append(volume)
        return attached

    def detach(self, volume: Volume) -> CreatedVolume:
        """Have the API detach a volume; what it says of it then. `Volume.detach` is what tests call."""
        free = self._provider.detach(volume.created)
        self.volumes.remove(volume)
        return free

    def create_snapshot(self, volume: Volume) -> CreatedSnapshot:
        """Have the API make a snapshot of a volume. `Volume.snapshot` is what tests call."""
        with self.preparation.step(f"create a snapshot of {volume.label}"):
            made = self._provider.create_snapshot(volume.created)
        self.snapshots.append(made)
        return made

    def modify(
        self, volume: Volume, spec: VolumeSpec, *, until: ModificationState, timeout_s: float
    ) -> CreatedVolume:
        """Have the API modify a volume; what it is then. `Volume.modify` is what tests call."""
        with self.preparation.step(f"modify {volume.label} to {spec}"):
            return self._provider.modify_volume(volume.created, spec, until=until, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the SSH connection; the instance itself is the control plane's to remove."""
        if self._host is not None:
            self._host.close()
            self._host = None

    def _promised(self, ceiling: Ceiling | None, quantity: str) -> Ceiling:
        if ceiling is None:
            raise NoPromise(f"AWS states no {quantity} for {self.type}: there is no promise to judge by")
        return ceiling

    def __repr__(self) -> str:
        return f"<{self._launched} in {self.zone}>"
