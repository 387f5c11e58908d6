"""The control plane of one run on EC2: it removes everything that it creates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import CloudError
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
    counted,
)
from pytest_cloudbench.resources.provider import Provider
from pytest_cloudbench.resources.restarts import boot_identity

from .access import CloudAccess
from .attachment_slots import check_attachments
from .clients import Clients
from .doorway import Doorway
from .existing import Existing
from .images import Images
from .instance_types import InstanceTypes
from .instances import Instances
from .journal import Journal
from .keeping import Keeping
from .kinds import INSTANCE, KEY_PAIR, PLACEMENT_GROUP, SECURITY_GROUP, SNAPSHOT, VOLUME, Kind
from .launches import Catalog, Launches
from .lease import DEFAULT_LEASE_S, RENEW_WITHIN_S, SHORTEST_ON_AWS_S, Leases
from .ledger import Ledger, Tracked
from .modifications import Modifications
from .placement import Places
from .placement_groups import CLUSTER, PlacementGroups
from .removal import Removal
from .run import Run, reap_command
from .snapshots import Snapshots, check_holds
from .ssm import SystemsManager
from .terraform import Terraform
from .volumes import Volumes, check_zone
from .waits import Bounds, gather

log = logging.getLogger(__name__)


class Cloud(Provider):
    """The provider of an EC2 region: AWS's own, or any that speaks its API.

        with Cloud(access, run_id, Journal.open(run_id, access)) as cloud:
            instance = cloud.launch("c5.18xlarge", name="test_io2")
            [volume] = cloud.create_volumes([io2(size_gib=80, iops=80_000)], instance=instance)
            [volume] = cloud.attach_all([volume], instance)

    It makes no request before the first call. Every resource carries the tag `cloudbench:run` from the call that
    creates it. `release` removes some of them early; `close` removes the rest and verifies.
    """

    def __init__(
        self,
        access: CloudAccess,
        run_id: str,
        journal: Journal,
        *,
        bounds: Bounds | None = None,
        notify: Callable[[str], None] = log.info,
        lease_s: float = DEFAULT_LEASE_S,
        terraform: Terraform | None = None,
    ) -> None:
        """`notify` shows a sentence to the user while the run's resources are being removed.

        `terraform` has the names by which tests find hardware that exists already.

        Raises CloudError for a lease under 10 min, unless the endpoint is on this machine.
        """
        if lease_s < SHORTEST_ON_AWS_S and not access.is_loopback:
            raise CloudError(
                f"a lease of {lease_s:g} s may end while an instance boots or its renewal fails once: "
                f"use --cloudbench-lease={SHORTEST_ON_AWS_S / 60:.0f}m or more"
            )
        self.access = access
        self._notify = notify
        self.journal = journal
        self.report: TeardownReport | None = None
        run = Run(Clients(access, bounds), run_id, journal, bounds or Bounds(), access.settings.tags, lease_s)
        self.run = run
        self.clients = run.clients
        self.catalog = Catalog(InstanceTypes(run.clients), Images(run.clients), Places(run.clients))
        self.instances = Instances(run)
        self.volumes = Volumes(run)
        self.leases = Leases(
            run.clients,
            lease_s,
            partial(self.host, connect_timeout_s=RENEW_WITHIN_S),
            lambda: [
                each.id for each in self.ledger.outstanding() if each.kind in (KEY_PAIR, SECURITY_GROUP)
            ],
            self.instances.refresh,
        )
        self._existing = Existing(
            run.clients, self.catalog.types, self.catalog.images, self.instances, terraform
        )
        self._modifications = Modifications(run)
        self._snapshots = Snapshots(run)
        self._placement_groups = PlacementGroups(run)
        self.ledger = Ledger(run.clients, run_id, lambda: journal.intentions)
        self.removal = Removal(
            run.clients,
            self.ledger,
            lambda: self.run.bounds,
            when_gone=self._forget,
        )
        self._keeping = Keeping(run, self.instances, self.ledger, self.leases)
        self._doorway = Doorway(run)
        self._systems_manager = SystemsManager(run)
        self._launches = Launches(
            self.catalog,
            self._doorway,
            self._placement_groups,
            self.instances,
            self.release,
            hold=self.leases.hold,
        )

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
        return self.clients.endpoint

    @property
    def run_id(self) -> str:
        return self.run.run_id

    def identity(self) -> Identity:
        """Return the account and the user of the credentials. Raises NoCredentials."""
        return self.clients.identity()

    def secrets(self) -> tuple[str, ...]:
        return self.clients.secrets()

    def listen(self, listener: Callable[[Answer], None] | None) -> None:
        self.clients.listener = listener

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
        check_attachments(limits, volumes)

    def check_zone(self, limits: InstanceLimits, zone: str | None, volume_zone: str) -> None:
        place = self.catalog.places.find(limits.name, zone, self.access.subnet_id)
        check_zone(f"the {limits.name}", place.zone, volume_zone)

    # Instances

    def launch_many(
        self, launches: Sequence[Launch], *, placement_group: PlacementGroup | str | None = None
    ) -> tuple[LaunchedInstance, ...]:
        """Launch all of these instances, or none, and wait until they run and have addresses.

        Each has a host key of its own. Those without a zone go to one zone together: the others' zone if they share
        one, else the cluster's, else the first that offers all their types and has room. `placement_group` is a
        group of this run, or the name of any group. A bad request raises before anything is created; an instance that
        does not start is terminated.
        """
        launched = self._launches.run(self._in_subnet(launches), placement_group)
        self.leases.hold(launched)
        return launched

    def find_instance(
        self,
        *,
        id: str | None = None,
        tags: Mapping[str, str] | None = None,
        terraform: str | None = None,
        user: str | None = None,
    ) -> LaunchedInstance:
        return self._existing.instance(id=id, tags=tags, terraform=terraform, user=user)

    def find_volume(
        self, *, id: str | None = None, terraform: str | None = None, instance: LaunchedInstance | None = None
    ) -> CreatedVolume:
        return self._existing.volume(id=id, terraform=terraform, instance=instance)

    def refresh(self, instance: LaunchedInstance) -> LaunchedInstance:
        return self.instances.refresh(instance)

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance as a host, over SSH or SSM as the access says. Raises CloudError without an address.

        The host key of an instance of the run is pinned. For an existing instance, the user's own keys and known hosts
        apply; its boot is not waited for, and its metadata service is not changed.
        """
        from pytest_cloudbench.hosts.boot import BOOT_S
        from pytest_cloudbench.hosts.login import HostLogin, open_host

        boot_s = None if instance.existing else BOOT_S
        ends_metadata = self.access.settings.metadata_off and not instance.existing
        when_booted = partial(self._booted, instance) if ends_metadata else None
        if self.access.way_in == "ssm":
            return self._systems_manager.host(
                instance, connect_timeout_s=connect_timeout_s, boot_s=boot_s, when_booted=when_booted
            )
        if instance.address is None:
            raise CloudError(f"{instance} has no address to reach it by SSH; see --cloudbench-address")
        own_key = self.access.settings.private_key_file if instance.existing and instance.private_key else ""
        return open_host(
            HostLogin(
                instance.address,
                instance.login_user,
                "" if instance.existing else instance.private_key,
                instance.host_public_key or self.access.host_key,
                label=str(instance),
                connect_timeout_s=connect_timeout_s,
                boot_s=boot_s,
                when_booted=when_booted,
                check_region=self.access.check_region,
                identity_file=own_key,
                jump=self.access.jump,
                proxy_command=self.access.proxy_command,
                instance_id=instance.id,
                installs_tools=self.access.install_tools or not instance.existing,
            )
        )

    def unreachable_hint(self, instance: LaunchedInstance) -> str:
        """Return what access to the instance requires, and the last lines of its console if there are any."""
        if self.access.way_in == "ssm":
            return (
                "its SSM agent needs an instance profile with the policy AmazonSSMManagedInstanceCore, and a way to "
                "Systems Manager: a public address, a NAT gateway or VPC endpoints"
                f"{'' if instance.existing else self.instances.console_tail(instance.id)}"
            )
        if instance.existing:
            here = "the bastion or endpoint" if self.access.is_relayed else "here"
            return (
                f"its security groups must allow SSH from {here} to its {instance.reached_by} address: see "
                "--cloudbench-address and --cloudbench-user"
            )
        return (
            f"its security group allows SSH from {self._doorway.ssh_from()} only, see --cloudbench-ssh-from and "
            f"--cloudbench-address{self.instances.console_tail(instance.id)}"
        )

    def stop(self, instance: LaunchedInstance, *, force: bool = False) -> LaunchedInstance:
        stopped = self.instances.stop(instance, force=force)
        self.leases.hold([stopped])
        return stopped

    def start(self, instance: LaunchedInstance) -> LaunchedInstance:
        started = self.instances.start(instance)
        self.leases.hold([started])
        return started

    def reboot(self, instance: LaunchedInstance) -> LaunchedInstance:
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
        """Create all of these encrypted volumes in parallel, or none, and wait until they are available.

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
            check_attachments(instance.limits, len(specs), self.volumes.slots.count(instance))
        if zone is None:
            raise CloudError("a volume needs its availability zone: give zone=... or the instance it is for")
        self.run.bind()
        source = snapshot.id if snapshot is not None else None
        results = gather([partial(self.volumes.create, spec, zone, name, source) for spec in specs])
        created = [result for result in results if isinstance(result, CreatedVolume)]
        failures = [result for result in results if isinstance(result, Exception)]
        if failures:
            self.release(created)
            raise failures[0]
        return tuple(created)

    def attach_all(
        self, volumes: Sequence[CreatedVolume], instance: LaunchedInstance, *, card: int | None = None
    ) -> tuple[CreatedVolume, ...]:
        """Attach volumes in parallel and wait; return them in the given order.

        They go to the EBS card `card`, or are spread evenly over the instance's cards. Raises ZoneMismatch,
        AttachmentLimit and UnsupportedOption before any call, else the first failure once all have ended.
        """
        for volume in volumes:
            check_zone(instance, instance.zone, volume.zone, f"volume {volume}")
        check_attachments(instance.limits, len(volumes), self.volumes.slots.count(instance))
        if card is not None:
            instance.limits.check_options(card=card)
        cards = self.volumes.slots.cards(instance, len(volumes)) if card is None else [card] * len(volumes)
        attach = partial(self.volumes.attach, instance=instance)
        results = gather([partial(attach, each, card=its) for each, its in zip(volumes, cards, strict=True)])
        attached = [result for result in results if isinstance(result, CreatedVolume)]
        failures = [result for result in results if isinstance(result, Exception)]
        try:
            self.volumes.end_with(instance, attached)
        except CloudError as error:
            failures.append(error)
        if failures:
            raise failures[0]
        return tuple(attached)

    def detach(self, volume: CreatedVolume) -> CreatedVolume:
        return self.volumes.detach(volume)

    def modify_volume(
        self,
        volume: CreatedVolume,
        spec: VolumeSpec,
        *,
        until: ModificationState = "completed",
        timeout_s: float = 3600.0,
    ) -> CreatedVolume:
        """Modify a volume to a new `spec` and wait until the modification is in the state `until`.

        Raises InvalidSpec, before any call, for a spec that breaks a rule or shrinks the volume.
        """
        return self._modifications.modify(volume, spec, until=until, timeout_s=timeout_s)

    def create_snapshot(self, volume: CreatedVolume, *, name: str = "") -> CreatedSnapshot:
        self.run.bind()
        return self._snapshots.create(volume, name)

    # The end

    def keep(self, instances: Sequence[LaunchedInstance], *, test: str) -> tuple[KeptInstance, ...]:
        """Keep these instances after the run with their volumes, for a day at most, or until they are reaped."""
        return self._keeping.keep(instances, test)

    def release(self, resources: Iterable[Resource]) -> None:
        """Remove resources without waiting: terminate instances now, delete the rest as soon as it is free.

        Deletion happens in the background. `close` retries refused removals, and verifies. Does nothing if the region
        has ended.
        """
        if self._region_end() is not None:
            return
        chosen: list[tuple[Kind, str]] = []
        for one in resources:
            if isinstance(one, LaunchedInstance | CreatedVolume) and one.existing:
                continue  # whoever created it removes it
            if isinstance(one, LaunchedInstance):
                chosen.append((INSTANCE, one.id))
                self.leases.drop([one.id])
                self.volumes.slots.forget(one.id)
            elif isinstance(one, CreatedVolume):
                chosen.append((VOLUME, one.id))
            elif isinstance(one, CreatedSnapshot):
                chosen.append((SNAPSHOT, one.id))
            else:
                chosen.append((PLACEMENT_GROUP, one.name))
        chosen = [(kind, each) for kind, each in chosen if not self.ledger.keeps(each)]
        if chosen:
            self.removal.release(chosen)

    def close(self) -> TeardownReport:
        """Remove everything that the run created, wait, and verify with the API that nothing remains.

        It finds resources by the journal and by the run's tag. A first interrupt shows a message, and is raised again
        at the end; a second one ends the removal. A second call does nothing and returns the same report. If the region
        has ended, so has everything in it, and the report is clean.
        """
        self.leases.close()
        interrupted: KeyboardInterrupt | None = None
        while self.report is None:
            try:
                self.report = self._remove_all()
            except KeyboardInterrupt as interrupt:
                if interrupted is not None:
                    self.report = self._report(("the removal was interrupted twice",))
                else:
                    left = counted(one.kind for one in self.ledger.left())
                    self._notify(
                        f"cloudbench: removing {left}; another Ctrl-C leaves them behind, and "
                        f"`{reap_command(self.run_id, self.region)}` removes them"
                    )
                interrupted = interrupt
        self.journal.finish(clean=self.report.clean)
        if interrupted is not None:
            raise interrupted
        return self.report

    def __enter__(self) -> Cloud:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        report = self.close()
        if error is None:
            report.raise_unless_clean()

    # Inside

    def _booted(self, instance: LaunchedInstance, host: Host) -> None:
        self.instances.end_metadata(instance, boot_identity(host))

    def _in_subnet(self, launches: Sequence[Launch]) -> list[Launch]:
        return [replace(launch, subnet_id=launch.subnet_id or self.access.subnet_id) for launch in launches]

    def _forget(self, gone: Sequence[Tracked]) -> None:
        self.journal.note_gone([one.id for one in gone])
        for one in gone:
            self.volumes.slots.free(one.id)

    def _remove_all(self) -> TeardownReport:
        # A run that created nothing makes no request.
        if not self.journal.intentions or self._region_end() is not None:
            return TeardownReport()
        failure: tuple[str, ...] = ()
        try:
            self.removal.run()
        except Exception as error:
            if self._region_end() is not None:
                return TeardownReport()
            log.debug("removal failed", exc_info=True)
            failure = (f"the removal ended early: {type(error).__name__}: {error}",)
        return self._report(failure)

    def _report(self, failure: tuple[str, ...] = ()) -> TeardownReport:
        self.journal.note_gone([one.id for one in self.ledger.all() if one.gone])
        return TeardownReport(
            (*failure, *self.removal.problems()),
            self.ledger.left(),
            remedy=f"`{reap_command(self.run_id, self.region)}` removes what is left",
            removed=self.ledger.removed(),
            kept=tuple(self._keeping.kept),
        )

    def _region_end(self) -> str | None:
        """Return how the region ended, as a sentence; None if it has not ended, or if unknown."""
        try:
            self.clients.check_region()
        except Exception as ended:
            return str(ended)
        return None
