"""The control plane of one run on EC2: it removes everything that it creates."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import CloudError, TeardownFailed
from pytest_cloudbench.resources.facts import (
    Answer,
    CreatedSnapshot,
    CreatedVolume,
    Identity,
    Launch,
    LaunchedInstance,
    Leftover,
    ModificationState,
    PlacementGroup,
    Resource,
    TeardownReport,
)
from pytest_cloudbench.resources.provider import Provider

from .access import CloudAccess
from .attachment_slots import check_attachments
from .clients import Clients
from .doorway import Doorway
from .images import Images
from .instance_types import InstanceTypes
from .instances import Instances
from .journal import Journal
from .launches import Catalog, Launches
from .modifications import Modifications
from .placement import Places
from .placement_groups import CLUSTER, PlacementGroups
from .removal import RunResources
from .run import Run
from .snapshots import Snapshots, check_holds
from .teardown import Teardown
from .volumes import Volumes, check_zone
from .waits import Bounds, all_of, cancel_waits_on, gather

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.host import Host

log = logging.getLogger(__name__)

RELEASING = "cloudbench-release"
"""Name of the threads that remove released resources while the run goes on."""


class Cloud(Provider):
    """The provider of an EC2 region: AWS's own, or any that speaks its API.

        with Cloud(access, run_id, Journal.open(run_id, access)) as cloud:
            instance = cloud.launch("c5.18xlarge", name="test_io2")
            [volume] = cloud.create_volumes([io2(size_gib=80, iops=80_000)], instance=instance)
            [volume] = cloud.attach_all([volume], instance)

    It asks and creates nothing before the first call. Every resource carries the tag `cloudbench:run` from
    the call that creates it. `release` removes some of them early; `close` removes the rest and verifies.
    """

    def __init__(
        self,
        access: CloudAccess,
        run_id: str,
        journal: Journal,
        *,
        bounds: Bounds | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.access = access
        self.journal = journal
        self.report: TeardownReport | None = None
        run = Run(Clients(access), run_id, journal, bounds or Bounds(), dict(tags or {}))
        self.run = run
        self.clients = run.clients
        self.catalog = Catalog(InstanceTypes(run.clients), Images(run.clients), Places(run.clients))
        self.instances = Instances(run)
        self.volumes = Volumes(run)
        self._modifications = Modifications(run)
        self._snapshots = Snapshots(run)
        self._placement_groups = PlacementGroups(run)
        self.resources = RunResources(
            run.clients, run_id, run.bounds, announced=lambda: {each.action for each in journal.intentions}
        )
        self._doorway = Doorway(run)
        self._launches = Launches(
            self.catalog, self._doorway, self._placement_groups, self.instances, self._release_after_failure
        )
        self._closing = threading.Event()
        self._releases: list[threading.Thread] = []
        self._remaining: tuple[Leftover, ...] = ()
        self._removing = False
        self._teardown = Teardown()
        self._teardown.push("verify that nothing remains", self._verify)
        self._teardown.push("remove what the run created", self._remove_all)

    # Who it is

    @property
    def label(self) -> str:
        """The access's label, such as "AWS" or "embedded region"."""
        return self.access.label or "EC2"

    @property
    def region(self) -> str:
        """The region in use. Raises NoRegion if none is given or configured."""
        return self.clients.region

    @property
    def endpoint(self) -> str:
        """The EC2 endpoint in use."""
        return self.clients.endpoint

    @property
    def run_id(self) -> str:
        """The id of this run, the value of its tag."""
        return self.run.run_id

    def identity(self) -> Identity:
        """Return the account and the user of the credentials. Raises NoCredentials."""
        return self.clients.identity()

    def secrets(self) -> tuple[str, ...]:
        """Return the credentials in use, which recorded evidence must not contain."""
        return self.clients.secrets()

    def listen(self, listener: Callable[[Answer], None] | None) -> None:
        """Call `listener` with each answer of the service, in the thread that asked; None ends that."""
        self.clients.answers.listener = listener

    # Checks before anything is created

    def limits(self, instance_type: str) -> InstanceLimits:
        """Return what an instance type promises. Raises UnknownInstanceType with the nearest names."""
        return self.catalog.types.limits(instance_type)

    def check_launches(self, launches: Sequence[Launch], *, strategy: str | None = None) -> None:
        """Raise if `launch_many` cannot launch these into a placement group of `strategy` (None: no group).

        Raises UnknownInstanceType, PlacementRefused (a type that cannot be in such a group), ZoneMismatch (a
        cluster in two zones), NotOffered or NoNetwork.
        """
        self._launches.check(self._in_subnet(launches), strategy)

    def check_attachments(self, limits: InstanceLimits, volumes: int) -> None:
        """Raise AttachmentLimit if a new instance, which has a root volume, cannot take so many more."""
        check_attachments(limits, volumes)

    def check_zone(self, limits: InstanceLimits, zone: str | None, volume_zone: str) -> None:
        """Raise ZoneMismatch if an instance launched in `zone` (None: any) cannot use volumes in `volume_zone`."""
        place = self.catalog.places.find(limits.name, zone, self.access.subnet_id)
        check_zone(f"the {limits.name}", place.zone, volume_zone)

    # Instances

    def launch_many(
        self, launches: Sequence[Launch], *, placement_group: PlacementGroup | str | None = None
    ) -> tuple[LaunchedInstance, ...]:
        """Launch all of these instances, or none, and wait until they run and have addresses.

        Each has a host key of its own. Those without a zone go to one zone together: the zone of the others if
        they share one, the cluster's, or else the first that offers all their types and has room.
        `placement_group` is one of this run or the name of any other. A bad request raises before anything is
        created; an instance that does not start is terminated.
        """
        return self._launches.run(self._in_subnet(launches), placement_group)

    def refresh(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Return the instance as the API describes it now: state, addresses, attachments, tags."""
        return self.instances.refresh(instance)

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance as a host over SSH, with its host key pinned. Raises CloudError without an address."""
        from pytest_cloudbench.hosts.login import HostLogin, open_host

        if instance.address is None:
            raise CloudError(f"{instance} has no address to reach it by SSH; see --cloudbench-address")
        return open_host(
            HostLogin(
                instance.address,
                instance.login_user,
                instance.private_key,
                instance.host_public_key,
                label=str(instance),
                connect_timeout_s=connect_timeout_s,
                check_region=self.access.check_region,
            )
        )

    def unreachable_hint(self, instance: LaunchedInstance) -> str:
        """Return who may reach the instance by SSH, and the last lines of its console if there are any."""
        return (
            f"its security group allows SSH from {self._doorway.ssh_from()} only, see --cloudbench-ssh-from and "
            f"--cloudbench-address{self.instances.console_tail(instance.id)}"
        )

    def stop(self, instance: LaunchedInstance, *, force: bool = False) -> LaunchedInstance:
        """Stop an instance and wait until it is stopped."""
        return self.instances.stop(instance, force=force)

    def start(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Start a stopped instance and wait until it runs; its public address may change."""
        return self.instances.start(instance)

    def reboot(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Ask for a reboot. The API reports 'running' throughout: only the host shows when it is back."""
        return self.instances.reboot(instance)

    def create_placement_group(self, strategy: str = CLUSTER, *, name: str = "") -> PlacementGroup:
        """Create a placement group and wait until it is available; `name` is for its Name tag.

        It can be removed only after its instances have terminated: release it together with them.
        """
        self.run.bind()
        return self._placement_groups.create(strategy, name)

    # Volumes

    def create_volumes(
        self,
        specs: Sequence[VolumeSpec],
        zone: str | None = None,
        *,
        instance: LaunchedInstance | None = None,
        name: str = "",
        snapshot: CreatedSnapshot | None = None,
    ) -> tuple[CreatedVolume, ...]:
        """Create all of these encrypted volumes side by side, or none, and wait until they are available.

        `zone` is the instance's by default; `snapshot` is what they contain. Raises before any call: InvalidSpec
        for a spec against the rules or a volume smaller than its snapshot, ZoneMismatch if zone and instance
        differ, AttachmentLimit if the instance has no room for them.
        """
        for spec in specs:
            spec.check()
            if snapshot is not None:
                check_holds(spec, snapshot)
        if instance is not None:
            zone = zone or instance.zone
            check_zone(instance, instance.zone, zone)
            check_attachments(instance.limits, len(specs), self.volumes.attached_count(instance))
        if zone is None:
            raise CloudError("a volume needs its availability zone: give zone=... or the instance it is for")
        self.run.bind()
        source = snapshot.id if snapshot is not None else None
        results = gather([partial(self.volumes.create, spec, zone, name, source) for spec in specs])
        created = [result for result in results if isinstance(result, CreatedVolume)]
        failures = [result for result in results if isinstance(result, Exception)]
        if failures:
            self._release_after_failure(created)
            raise failures[0]
        return tuple(created)

    def attach_all(
        self, volumes: Sequence[CreatedVolume], instance: LaunchedInstance, *, card: int | None = None
    ) -> tuple[CreatedVolume, ...]:
        """Attach volumes side by side and wait; return them in their order.

        They go to the EBS card `card`, or are spread evenly over the instance's cards. Raises ZoneMismatch,
        AttachmentLimit and UnsupportedOption before any call, else the first failure once all have ended.
        """
        for volume in volumes:
            check_zone(instance, instance.zone, volume.zone, f"volume {volume}")
        check_attachments(instance.limits, len(volumes), self.volumes.attached_count(instance))
        if card is not None:
            instance.limits.check_options(card=card)
        cards = self.volumes.spread(instance, len(volumes)) if card is None else [card] * len(volumes)
        attach = partial(self.volumes.attach, instance=instance)
        return tuple(
            all_of([partial(attach, each, card=its) for each, its in zip(volumes, cards, strict=True)])
        )

    def detach(self, volume: CreatedVolume) -> CreatedVolume:
        """Detach a volume, which the host has unmounted, and wait until it is available."""
        return self.volumes.detach(volume)

    def modify_volume(
        self,
        volume: CreatedVolume,
        spec: VolumeSpec,
        *,
        until: ModificationState = "completed",
        timeout_s: float = 3600.0,
    ) -> CreatedVolume:
        """Give a volume another `spec` and wait until the modification is in the state `until`.

        Raises InvalidSpec before any call for a spec against the rules, or a smaller one.
        """
        return self._modifications.modify(volume, spec, until=until, timeout_s=timeout_s)

    def create_snapshot(self, volume: CreatedVolume, *, name: str = "") -> CreatedSnapshot:
        """Create a snapshot of a volume and wait until it is complete."""
        self.run.bind()
        return self._snapshots.create(volume, name)

    # The end

    def release(self, resources: Iterable[Resource]) -> None:
        """Remove resources without waiting: terminate instances now, delete the rest as soon as it is free.

        The rest happens in the background, and `close` verifies it. Raises TeardownFailed if the service refuses
        to terminate an instance. Does nothing if the region has ended.
        """
        if self._region_end() is not None:
            return
        chosen = list(resources)
        instances = [one.id for one in chosen if isinstance(one, LaunchedInstance)]
        volumes = [one.id for one in chosen if isinstance(one, CreatedVolume)]
        snapshots = [one.id for one in chosen if isinstance(one, CreatedSnapshot)]
        groups = [one.name for one in chosen if isinstance(one, PlacementGroup)]
        problems = self.resources.terminate(instances) if instances else {}
        for instance_id in instances:
            self.volumes.forget_instance(instance_id)
        ending = [one for one in instances if one not in problems]
        if volumes:
            self._in_background(volumes, partial(self._drop_volumes, volumes, ending))
        if snapshots:
            self._in_background(snapshots, partial(self.resources.drop_snapshots, snapshots))
        if groups:
            self._in_background(groups, partial(self._drop_groups, groups))
        if problems:
            raise TeardownFailed(list(problems.values()))

    def close(self) -> TeardownReport:
        """Remove everything that carries the run's tag, wait, and verify with the API that nothing remains.

        All steps run, whatever happens in one of them; the report has their errors. A KeyboardInterrupt is
        raised again after the last step. A second call does nothing and returns the same report. A region that
        has ended is no problem: everything ended with it.
        """
        if self.report is None:
            interrupted: KeyboardInterrupt | None = None
            try:
                self._teardown.run()
            except KeyboardInterrupt as interrupt:
                interrupted = interrupt
            problems = tuple(self._teardown.problems)
            if (ended := self._region_end()) is not None:
                problems = tuple(each for each in problems if ended not in each)
            self.report = TeardownReport(problems, self._remaining)
            self.journal.finish(clean=self.report.clean)
            if interrupted is not None:
                raise interrupted
        return self.report

    def remaining(self) -> tuple[Leftover, ...]:
        """Return what carries the run's tag right now, by the API."""
        return self.resources.remaining() if self.journal.intentions else ()

    def __enter__(self) -> Cloud:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        report = self.close()
        if error is None:
            report.raise_unless_clean()

    # Inside

    def _in_subnet(self, launches: Sequence[Launch]) -> list[Launch]:
        return [replace(launch, subnet_id=launch.subnet_id or self.access.subnet_id) for launch in launches]

    def _release_after_failure(self, resources: Sequence[Resource]) -> None:
        """Release resources after a failure. `close` removes what cannot be released now."""
        if not resources:
            return
        try:
            self.release(resources)
        except CloudError as error:
            log.debug("release after a failure: %s", error)

    def _drop_volumes(self, volumes: Sequence[str], ending: Sequence[str]) -> None:
        self.resources.drop_volumes(volumes, ending=ending)
        for volume_id in volumes:
            self.volumes.forget_volume(volume_id)

    def _drop_groups(self, groups: Sequence[str]) -> None:
        # An instance that was not released holds its group for ever; `close` terminates it and ends this wait.
        cancel_waits_on(self._closing)
        self.resources.drop_placement_groups(groups, bound_s=self.run.bounds.terminated_s)

    def _in_background(self, ids: Sequence[str], work: Callable[[], None]) -> None:
        def quietly() -> None:
            try:
                work()
            except Exception as error:
                log.debug("release of %s: %s", ", ".join(ids), error)

        thread = threading.Thread(target=quietly, name=RELEASING, daemon=True)
        self._releases.append(thread)
        thread.start()

    def _remove_all(self) -> None:
        """Push the steps of the removal, only now: a run that created nothing asks the service nothing."""
        if not self.journal.intentions or self._removing or self._region_end() is not None:
            return
        self._teardown.push_all(
            [
                *self.resources.removal_steps(),
                ("finish what was released earlier", self._await_releases),
                ("look for what calls without an answer created", self._let_settle),
            ]
        )
        self._removing = True

    def _let_settle(self) -> None:
        """A call whose answer was lost may have created something that its tag does not show yet."""
        if self.journal.unresolved:
            time.sleep(self.run.bounds.settle_s)

    def _await_releases(self) -> None:
        self._closing.set()
        deadline = time.monotonic() + self.run.bounds.terminated_s
        for thread in self._releases:
            # In slices, so that an interruption is seen soon.
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(0.5)

    def _verify(self) -> None:
        asked = self.journal.intentions and self._region_end() is None
        self._remaining = self.resources.left_over() if asked else ()

    def _region_end(self) -> str | None:
        """Return how the region ended, as a sentence; None if it is there or that is unknown."""
        try:
            self.clients.check_region()
        except Exception as ended:
            return str(ended)
        return None
