"""An instance as a test sees it: its limits, its host, its volumes, and its restarts."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.errors import HostUnreachable
from pytest_cloudbench.hosts.host import CommandResult, Host
from pytest_cloudbench.hosts.paths import check_path
from pytest_cloudbench.hosts.phases import phase
from pytest_cloudbench.limits.ceilings import Ceiling, MachineLimits
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.errors import CloudError, ExistingHardware
from pytest_cloudbench.resources.preparation import Preparation
from pytest_cloudbench.resources.restarts import (
    NotRunning,
    boot_identity,
    find_again,
    forget_what_a_restart_ends,
    wait_for_reboot,
)

if TYPE_CHECKING:
    from pytest_cloudbench.limits.volumes import VolumeSpec
    from pytest_cloudbench.resources.directory import Directory
    from pytest_cloudbench.resources.facts import (
        CreatedSnapshot,
        CreatedVolume,
        LaunchedInstance,
        ModificationState,
    )
    from pytest_cloudbench.resources.instance_store import InstanceStore
    from pytest_cloudbench.resources.provider import Provider
    from pytest_cloudbench.resources.volumes import Volume


CONNECTING = "cloudbench-connect"
"""Name of the threads that connect ahead."""
BARE_METAL_S = 1800.0
"""The seconds that a bare-metal instance may take to answer; the EC2 User Guide says up to 20 minutes."""
_SLICE_S = 0.5


class NoPromise(LookupError):
    """The provider does not promise the requested figure for this instance type."""


class Instance:
    """A running EC2 instance.

    ``host`` runs commands on it, and connects at its first use or while volumes are created. ``volumes`` are the
    volumes attached through this object, in that order, ``snapshots`` their snapshots. ``preparation`` paces and
    reports work before measurements. ``destructive``: loads may overwrite the local disks of an existing instance.
    ``unusable`` is why no later test may use it if tests share it.
    """

    def __init__(self, provider: Provider, launched: LaunchedInstance, connect_timeout_s: float) -> None:
        self._provider = provider
        self._launched = launched
        # One that exists has booted long ago.
        bare_metal = launched.limits.bare_metal and not launched.existing
        self._connect_timeout_s = max(connect_timeout_s, BARE_METAL_S) if bare_metal else connect_timeout_s
        self._host: Host | None = None
        self._ahead: Future[Host] | None = None
        self._cpus: int | None = None
        self._stopped = False
        self._store: InstanceStore | None = None
        self._directories: dict[str, Directory] = {}
        self.volumes: list[Volume] = []
        self.snapshots: list[CreatedSnapshot] = []
        self.preparation = Preparation()
        self.destructive = False
        self.unusable = ""

    @property
    def launched(self) -> LaunchedInstance:
        """The instance as the API last described it."""
        return self._launched

    @property
    def is_stopped(self) -> bool:
        """True from `stop` to `start`."""
        return self._stopped

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
        """What its type promises, by DescribeInstanceTypes."""
        return self._launched.limits

    @property
    def ebs_iops(self) -> Ceiling:
        """The maximum IOPS of its EBS volumes together. Raises NoPromise if AWS states none for the type.

        For a type with several EBS cards, only the cards of the volumes in `volumes` count; without volumes, all cards.
        """
        return self._promised(self._ebs_ceiling(0), "EBS IOPS")

    @property
    def ebs_throughput(self) -> Ceiling:
        """The maximum throughput of its EBS volumes together, like `ebs_iops`. Raises NoPromise."""
        return self._promised(self._ebs_ceiling(1), "EBS throughput")

    def _ebs_ceiling(self, number: int) -> Ceiling | None:
        ceilings = self.limits.ebs_ceilings([volume.created.card for volume in self.volumes])
        return ceilings[number] if ceilings else None

    @property
    def network_peak(self) -> Ceiling:
        """The maximum bandwidth in each direction while its network credits last.

        Raises NoPromise if AWS states no figure for the type.
        """
        return self._promised(self.limits.network_peak, "network bandwidth")

    @property
    def network_baseline(self) -> Ceiling:
        """The bandwidth in each direction without credits; the peak itself if the type does not burst.

        Raises NoPromise if AWS states no figure for the type.
        """
        return self._promised(self.limits.network_baseline, "network baseline")

    @property
    def time_compression(self) -> float:
        """How many times faster than the clock burst credits drain and refill; 1.0 on AWS."""
        return self._launched.time_compression

    @property
    def modelled_latency(self) -> str | None:
        """How the region models the latency of storage, "ebs" or "none"; None on AWS."""
        return self._launched.modelled_latency

    @property
    def cpus(self) -> int:
        """The number of processors of its host; on the embedded region those of the machine, not of the type."""
        if self._cpus is None:
            self._cpus = int(self.host.run(["nproc"], idempotent=True).stdout)
        return self._cpus

    @property
    def host(self) -> Host:
        """The host of this instance, connected. Raises NotRunning while it is stopped, HostUnreachable."""
        if self._stopped:
            raise NotRunning(f"{self._launched} is stopped: nothing runs on it until start()")
        if self._host is None:
            with self._hint_if_unreachable(), phase(f"wait until {self.type} {self.id} answers"):
                self._host = self._open_host() if self._ahead is None else self._opened_ahead(self._ahead)
        return self._host

    def connect_ahead(self) -> None:
        """Begin to connect: the host boots and answers while its volumes are created. `host` raises the errors."""
        if self._host is None and self._ahead is None and not self._stopped:
            self._ahead = _in_a_thread(self._open_host)

    def _open_host(self) -> Host:
        host = self._provider.host(self._launched, connect_timeout_s=self._connect_timeout_s)
        host.connect()
        return host

    def _opened_ahead(self, ahead: Future[Host]) -> Host:
        while not wait([ahead], timeout=_SLICE_S).done:
            pass  # in slices: only a thread that runs sees Ctrl-C
        self._ahead = None  # not before: after an interrupted wait `close` still finds it
        return ahead.result()

    @contextlib.contextmanager
    def _hint_if_unreachable(self) -> Iterator[None]:
        """Add the provider's hint to HostUnreachable, such as who may reach the instance."""
        try:
            yield
        except HostUnreachable as error:
            self._host = None
            hint = self._provider.unreachable_hint(self._launched)
            raise HostUnreachable(f"{error}; {hint}" if hint else str(error)) from error

    def run(
        self, argv: Sequence[str], *, sudo: bool = False, check: bool = True, timeout_s: float = 60
    ) -> CommandResult:
        """Run one command, given as a list of words, and return its output; the host quotes the words.

        Raises CommandFailed with the command, its exit code and its output, unless ``check=False``.
        """
        return self.host.run(argv, sudo=sudo, check=check, timeout_s=timeout_s)

    def machine_limits(self) -> MachineLimits | None:
        """Return the limits of the machine behind this instance, from the API; None if the region publishes none.

        If the API does not answer, its last answer applies: a completed measurement must not be lost.
        """
        with contextlib.suppress(CloudError):
            self.look()
        return self._launched.machine_limits

    @property
    def storage_ceilings(self) -> tuple[Ceiling, ...]:
        """The limits stated for all storage of the host together: none for an EC2 instance."""
        return ()

    def directory(self, path: str) -> Directory:
        """Return a directory that exists on its host as a target, in which the load gets a folder of its own.

        The folder is removed when the test ends. Raises NotOurs unless the login user can write to the directory,
        BadPath for a path with control characters.
        """
        from pytest_cloudbench.resources.directory import Directory

        check_path("path", path)
        if path not in self._directories:
            self._directories[path] = Directory(self, path)
        return self._directories[path]

    @property
    def instance_store(self) -> InstanceStore:
        """Its local NVMe disks. Raises NoInstanceStore, or DeviceNotFound if they differ from DescribeInstanceTypes."""
        from pytest_cloudbench.resources.instance_store import InstanceStore

        if self._store is None:
            self._store = InstanceStore(self)
        return self._store

    @property
    def known_store(self) -> InstanceStore | None:
        """The instance store if it was used before, else None."""
        return self._store

    def stop(self, *, force: bool = False) -> None:
        """Stop it and wait until it is stopped; ``force`` stops it without a shutdown of the operating system.

        EBS volumes keep their data and stay attached. Data on the instance store is lost, and every mount ends.
        Raises NotRunning if it is stopped already, WaitTimeout with the console's last lines.
        """
        self.check_ours("stop it")
        if self._stopped:
            raise NotRunning(f"{self._launched} is stopped already: start() it first")
        try:
            with self.preparation.step(f"stop {self._launched}"):
                self._launched = self._provider.stop(self._launched, force=force)
            self._stopped = True
        except CloudError as error:
            if error.code:  # refused: it still runs
                raise
            self._forget_boot()  # unknown: it may be down
            raise
        self._forget_boot()

    def _forget_boot(self) -> None:
        self._forget_ahead()
        if self._host is not None:
            self._host.expect_reboot()
        why = f"{self._launched} was stopped since, which ends every mount"
        forget_what_a_restart_ends(self, why, stopped=True)

    def start(self) -> None:
        """Start it after `stop`, and wait until it runs and answers by SSH with the same host key.

        Its private address stays; the public one changes on AWS. Its volumes are found again; `mounted` mounts their
        file systems again. Raises NotRunning if it was not stopped, CloudError, HostUnreachable.
        """
        self.check_ours("start it")
        if not self._stopped:
            raise NotRunning(f"{self._launched} is not stopped: there is nothing to start")
        with self.preparation.step(f"start {self._launched}"):
            self._launched = self._provider.start(self._launched)
            self._stopped = False
            if self._host is None:
                self.host.connect()
            else:
                if self._launched.address is not None:
                    self._host.address = self._launched.address
                with self._hint_if_unreachable():
                    self._host.connect()
        find_again(self)

    def reboot(self) -> None:
        """Reboot it and wait until it answers by SSH after the new boot.

        All data survives, also on the instance store; mounts end. Raises NotRunning if it does not come back.
        """
        self.check_ours("reboot it")
        before = boot_identity(self.host)
        with self.preparation.step(f"reboot {self._launched}"):
            self._launched = self._provider.reboot(self._launched)
            why = f"{self._launched} was rebooted since, which ends every mount"
            forget_what_a_restart_ends(self, why, stopped=False)
            wait_for_reboot(self, before, self._connect_timeout_s)
        find_again(self)

    def check_ours(self, what: str, volume: Volume | None = None) -> None:
        """Raise ExistingHardware if the instance, or a volume, was there before the run: ``what`` would change it."""
        existing = self._launched.existing if volume is None else volume.created.existing
        if existing:
            raise ExistingHardware(
                f"{self._launched if volume is None else volume.label} existed before this run, which never changes "
                f"it: the run does not {what}"
            )

    def described_volume(self, volume_id: str) -> CreatedVolume:
        """Return an attached volume as the API describes it. Raises ExistingHardware, NotOffered."""
        return self._provider.find_volume(id=volume_id, instance=self._launched)

    def look(self) -> LaunchedInstance:
        """Return the instance as the API describes it now."""
        now, tests = self._provider.refresh(self._launched), self._launched.earlier_tests
        self._launched = replace(now, earlier_tests=max(now.earlier_tests, tests))
        return self._launched

    def begin_test(self) -> None:
        """Count one more test on it and its volumes, which that test reuses, and refresh its description."""
        self._launched = replace(self._launched, earlier_tests=self._launched.earlier_tests + 1)
        self.look()
        for each in self.volumes:
            each.created = replace(each.created, earlier_tests=each.created.earlier_tests + 1)

    def look_at_launch(self) -> datetime | None:
        """Return the time of its last start, by the API; None if that does not answer. Raises NotRunning if it is down.

        A start from outside changes it, a reboot does not.
        """
        try:
            now = self.look()
        except CloudError:
            return None
        if now.state != "running":
            raise NotRunning(
                f"{now} is {now.state!r}, but not by this test: no load can run on it, and the data "
                "on its instance store is lost"
            )
        return now.launched

    def attach(self, volume: Volume) -> CreatedVolume:
        """Attach a free volume and return its new description. Tests call `Volume.attach`."""
        self.check_ours("attach volumes to it")
        self.check_ours("attach it", volume)
        attached = self._provider.attach(volume.created, self._launched)
        self.volumes.append(volume)
        return attached

    def detach(self, volume: Volume) -> CreatedVolume:
        """Detach a volume and return its new description. Tests call `Volume.detach`."""
        self.check_ours("detach it", volume)
        free = self._provider.detach(volume.created)
        self.volumes.remove(volume)
        return free

    def create_snapshot(self, volume: Volume) -> CreatedSnapshot:
        """Create a snapshot of a volume. Tests call `Volume.snapshot`."""
        self.check_ours("create snapshots of it", volume)
        with self.preparation.step(f"create a snapshot of {volume.label}"):
            made = self._provider.create_snapshot(volume.created)
        self.snapshots.append(made)
        return made

    def modify(
        self, volume: Volume, spec: VolumeSpec, *, until: ModificationState, timeout_s: float
    ) -> CreatedVolume:
        """Modify a volume and return its new description. Tests call `Volume.modify`."""
        self.check_ours("modify it", volume)
        with self.preparation.step(f"modify {volume.label} to {spec}"):
            return self._provider.modify_volume(volume.created, spec, until=until, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connection to the host; the provider removes the instance."""
        self._forget_ahead()
        if self._host is not None:
            if self._launched.existing:  # other folders end with the instance or their test
                self.remove_folders()
            self._directories.clear()
            self._host.close()
            self._host = None

    def remove_folders(self) -> None:
        """Remove the folders of loads in its directories."""
        while self._directories:
            self._directories.popitem()[1].remove()

    def _forget_ahead(self) -> None:
        """Close what `connect_ahead` opens, if nothing has used it."""
        if self._ahead is not None:
            self._ahead.add_done_callback(_close_opened)
            self._ahead = None

    def _promised(self, ceiling: Ceiling | None, quantity: str) -> Ceiling:
        if ceiling is None:
            raise NoPromise(f"AWS states no {quantity} for {self.type}: compare with a figure of your own")
        return ceiling

    def __repr__(self) -> str:
        return f"<{self._launched} in {self.zone}>"


def _in_a_thread(work: Callable[[], Host]) -> Future[Host]:
    """Run ``work`` in a thread that does not delay the end of the process."""
    future: Future[Host] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=CONNECTING, daemon=True).start()
    return future


def _close_opened(future: Future[Host]) -> None:
    if future.exception() is None:
        future.result().close()
