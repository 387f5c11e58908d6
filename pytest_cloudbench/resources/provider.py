"""What resources need from a cloud: the protocol of a provider of instances and volumes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import NotOffered
from pytest_cloudbench.resources.facts import (
    Answer,
    CreatedSnapshot,
    CreatedVolume,
    Identity,
    KeptInstance,
    Launch,
    LaunchedInstance,
    ModificationState,
    PlacementGroup,
    Resource,
    TeardownReport,
)


class Provider(Protocol):
    """A cloud, or anything else that has instances and volumes for tests.

    Derive from it and define the methods that have no body here: `limits`, `launch_many`, `refresh`, `host`, `release`
    and `close`. The others have a default, which does nothing or raises NotOffered. A method that cannot fulfil a
    request raises a CloudError with one sentence for the user.

    One provider serves the whole session. Its methods may be called from several threads.
    """

    # Who it is

    @property
    def label(self) -> str:
        """A name for display, such as "AWS" or "lab"."""
        return type(self).__name__

    @property
    def region(self) -> str:
        """The region in use, for reports; "" if there are no regions."""
        return ""

    @property
    def endpoint(self) -> str:
        """The URL of its API, for reports and evidence; "" if it has none."""
        return ""

    @property
    def run_id(self) -> str:
        """The id with which it marks what this session creates; "" if it marks nothing."""
        return ""

    def identity(self) -> Identity:
        """Return the account and the user in whose name it acts, for the evidence."""
        return Identity("", "")

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets in use, which recorded evidence must not contain."""
        return ()

    def listen(self, listener: Callable[[Answer], None] | None) -> None:
        """Call `listener` with each answer of the API from now on, for the evidence; None ends that."""
        return

    # Checks before anything is created

    def limits(self, instance_type: str) -> InstanceLimits:
        """Return what an instance type promises. Raises UnknownInstanceType."""
        ...

    def check_launches(self, launches: Sequence[Launch], *, strategy: str | None = None) -> None:
        """Raise CloudError if `launch_many` cannot launch these.

        `strategy` is the strategy of the placement group that they would go into, or None.
        """
        for launch in launches:
            self.limits(launch.type)

    def check_attachments(self, limits: InstanceLimits, volumes: int) -> None:
        """Raise AttachmentLimit if a new instance with these limits cannot take so many volumes."""
        return

    def check_zone(self, limits: InstanceLimits, zone: str | None, volume_zone: str) -> None:
        """Raise ZoneMismatch if an instance launched in `zone` (None: any) cannot use volumes in `volume_zone`."""
        return

    # Instances

    def launch_many(
        self, launches: Sequence[Launch], *, placement_group: PlacementGroup | str | None = None
    ) -> tuple[LaunchedInstance, ...]:
        """Launch all of these instances, or none, and wait until they run and have addresses."""
        ...

    def launch(
        self, instance_type: str, *, placement_group: PlacementGroup | str | None = None, **options: Any
    ) -> LaunchedInstance:
        """Launch one instance; ``options`` are fields of `Launch`."""
        return self.launch_many([Launch(instance_type, **options)], placement_group=placement_group)[0]

    def find_instance(
        self,
        *,
        id: str | None = None,
        tags: Mapping[str, str] | None = None,
        terraform: str | None = None,
        user: str | None = None,
    ) -> LaunchedInstance:
        """Return a running instance that was there before the run, as `existing`, without changing it.

        It is named by its id, by tags that no other instance has, or by a name of the session's Terraform state. `user`
        is its login user; by default derived from the image. Raises ExistingHardware.
        """
        raise self._not_offered("find instances that exist already")

    def find_volume(
        self, *, id: str | None = None, terraform: str | None = None, instance: LaunchedInstance | None = None
    ) -> CreatedVolume:
        """Return an attached volume that was there before the run, as `existing`, without changing it.

        `instance` is the one that it must be attached to; any by default. Raises ExistingHardware.
        """
        raise self._not_offered("find volumes that exist already")

    def find_hosts(
        self, names: Sequence[str] = (), *, group: str = "", count: int = 1
    ) -> tuple[LaunchedInstance, ...]:
        """Return hosts that were there before the run and have no API, as `existing`.

        They are those with these names, else the first `count` of the group, or of all. Raises ExistingHardware.
        """
        raise self._not_offered("find hosts without an API")

    def refresh(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Return the instance as it is now: state, addresses, attachments, tags."""
        ...

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance as a host that runs commands; connecting may wait until the first of them.

        `connect_timeout_s` is how long a host may take to answer after a launch or a start.
        """
        ...

    def unreachable_hint(self, instance: LaunchedInstance) -> str:
        """Return what may help a user if the host does not answer: the rest of a sentence, or ""."""
        return ""

    def stop(self, instance: LaunchedInstance, *, force: bool = False) -> LaunchedInstance:
        """Stop an instance and wait until it is stopped. Volumes stay attached."""
        raise self._not_offered("stop instances")

    def start(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Start a stopped instance and wait until it runs; its address may change."""
        raise self._not_offered("start instances")

    def reboot(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Request a reboot and return; the caller waits for the host."""
        raise self._not_offered("reboot instances")

    def create_placement_group(self, strategy: str = "cluster", *, name: str = "") -> PlacementGroup:
        """Create a placement group: "cluster", "partition" or "spread". `name` is for display."""
        raise self._not_offered("place instances in groups")

    # Volumes

    def create_volumes(
        self,
        specs: Sequence[VolumeSpec],
        zone: str | None = None,
        *,
        instance: LaunchedInstance,
        name: str = "",
        snapshot: CreatedSnapshot | None = None,
    ) -> tuple[CreatedVolume, ...]:
        """Create all of these volumes, or none, in the order of `specs`, for an instance to attach them to.

        `zone` is the instance's by default. `snapshot` is what the volumes contain, None if they are empty.
        """
        raise self._not_offered("create volumes")

    def attach_all(
        self, volumes: Sequence[CreatedVolume], instance: LaunchedInstance, *, card: int | None = None
    ) -> tuple[CreatedVolume, ...]:
        """Attach volumes to an instance and return them in their order, with their attachments.

        `card` is the EBS card for all of them; it is passed only if a test requests one. The host must then have a disk
        with the serial number `CreatedVolume.serial`, or one with that id under /dev/disk/by-id.
        """
        raise self._not_offered("attach volumes")

    def attach(self, volume: CreatedVolume, instance: LaunchedInstance) -> CreatedVolume:
        """Attach one volume."""
        return self.attach_all([volume], instance)[0]

    def detach(self, volume: CreatedVolume) -> CreatedVolume:
        """Detach a volume, which the host has unmounted, and wait until it is free."""
        raise self._not_offered("detach volumes")

    def modify_volume(
        self,
        volume: CreatedVolume,
        spec: VolumeSpec,
        *,
        until: ModificationState = "completed",
        timeout_s: float = 3600.0,
    ) -> CreatedVolume:
        """Modify a volume to a new `spec` and wait until the modification is in the state `until`."""
        raise self._not_offered("modify volumes")

    def create_snapshot(self, volume: CreatedVolume, *, name: str = "") -> CreatedSnapshot:
        """Create a snapshot of a volume and wait until it is complete. `name` is for display."""
        raise self._not_offered("create snapshots")

    # The end

    def keep(self, instances: Sequence[LaunchedInstance], *, test: str) -> tuple[KeptInstance, ...]:
        """Keep the instances of a failed test after the session, with the volumes that are attached to them.

        From now on, `release` and `close` do not remove them or what they need. `test` is for display.
        """
        raise self._not_offered("keep instances after a session")

    def release(self, resources: Iterable[Resource]) -> None:
        """Remove what one test created, without waiting. `close` waits for it and checks it.

        Volumes may still be mounted on a host that stays.
        """
        ...

    def close(self) -> TeardownReport:
        """Remove everything that this session created, at its end. The report names what remains.

        A second call does nothing and returns the same report.
        """
        ...

    def _not_offered(self, what: str) -> NotOffered:
        return NotOffered(f"{self.label} cannot {what}: leave that out, or run the test on another cloud")


READ_ONLY_CALLS = frozenset(
    (
        *("check_attachments", "check_launches", "check_zone", "find_instance", "find_volume", "identity"),
        *("find_hosts", "limits", "refresh", "unreachable_hint"),
    )
)
"""Calls that change nothing: a replay may answer one more often than it was recorded."""


class InterceptedProvider:
    """A provider whose calls all go through `_intercept`, such as one that records or replays them, or shares hardware.

    has_own_hardware: True if its hardware serves one test and is not shared, as in a replay whose record created it.
    """

    has_own_hardware = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return functools.partial(self._intercept, name)

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Answer the call of the provider's method `name`."""
        raise NotImplementedError
