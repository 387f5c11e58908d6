"""The control plane of one run: everything it creates, it also removes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.recorded_limits import RecordedLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import CloudError, TeardownFailed
from pytest_cloudbench.resources.facts import (
    Command,
    CreatedSnapshot,
    CreatedVolume,
    Identity,
    ImageFacts,
    Launch,
    LaunchedInstance,
    Leftover,
    Placement,
    PlacementGroup,
    TeardownReport,
)

from .access import CloudAccess
from .answers import Answer
from .clients import Clients
from .doorway import Doorway
from .images import Images
from .instance_types import InstanceTypes
from .instances import Instances
from .journal import Journal
from .launches import Launches
from .modifications import Reached, modify
from .parallel import all_of, gather
from .placement import Places
from .placement_groups import CLUSTER, PlacementGroups
from .removal import RunResources
from .snapshots import Snapshots, check_holds
from .teardown import Teardown
from .volumes import Volumes, check_attachments, check_zone
from .waits import Bounds, cancel_waits_on

log = logging.getLogger(__name__)

RELEASING = "cloudbench-release"
"""Name of the threads that remove what was given back, while the run goes on."""

Resource = LaunchedInstance | CreatedVolume | CreatedSnapshot | PlacementGroup


class Cloud:
    """One run's hold on an EC2 region, AWS's own or any that speaks its API.

        with Cloud(access, run_id, Journal.open(run_id, access)) as cloud:
            instance = cloud.launch("c5.18xlarge", name="test_io2")
            volume = cloud.attach(cloud.create_volume(io2(size_gib=80, iops=80_000), instance=instance), instance)

    Nothing is asked or created before the first call. Every resource carries the tag `cloudbench:run` from
    the call that creates it. `release` gives some of them back early; `close` removes the rest and verifies.
    Methods may be called from several threads.
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
        self.run_id = run_id
        self.journal = journal
        self.report: TeardownReport | None = None
        self._bounds = bounds or Bounds()
        self._tags = dict(tags or {})
        self._clients = Clients(access)
        self._types = InstanceTypes(self._clients)
        self._images = Images(self._clients)
        self._places = Places(self._clients)
        self._doorway = Doorway(self._clients, run_id, journal, self._bounds)
        self._instances = Instances(self._clients, access, run_id, journal, self._bounds)
        self._volumes = Volumes(self._clients, run_id, journal, self._bounds)
        self._snapshots = Snapshots(self._clients, run_id, journal, self._bounds)
        self._placement_groups = PlacementGroups(self._clients, run_id, journal, self._bounds)
        self._resources = RunResources(
            self._clients,
            run_id,
            self._bounds,
            announced=lambda: {intention.action for intention in journal.intentions},
        )
        self._launches = Launches(
            types=self._types,
            images=self._images,
            places=self._places,
            doorway=self._doorway,
            groups=self._placement_groups,
            instances=self._instances,
            tags=self._tags,
            before=self._bind,
            give_back=self._give_back,
        )
        self._closing = threading.Event()
        self._releases: list[threading.Thread] = []
        self._remaining: tuple[Leftover, ...] = ()
        self._removing = False
        self._teardown = Teardown()
        self._teardown.push("verify that nothing remains", self._verify)
        self._teardown.push("remove what the run created", self._remove_all)

    # -- what can be asked without creating anything

    @property
    def region(self) -> str:
        """The region in use. Raises NoRegion when none is given or configured."""
        return self._clients.region

    @property
    def endpoint(self) -> str:
        """The EC2 endpoint in use."""
        return self._clients.endpoint

    @property
    def answers(self) -> tuple[Answer, ...]:
        """What the service answered so far, without secrets: evidence."""
        return self._clients.answers.all()

    def listen(self, listener: Callable[[Answer], None] | None) -> None:
        """Have every answer of the service told as it comes, in the thread that asked; None ends it."""
        self._clients.answers.listener = listener

    def secrets(self) -> tuple[str, ...]:
        """The credentials in use, for whoever must keep them out of what is written."""
        return self._clients.secrets()

    @property
    def ssh_from(self) -> str:
        """The network, as CIDR, from which the security group lets SSH in."""
        return self._doorway.ssh_from()

    def identity(self) -> Identity:
        """The account and user that the credentials belong to. Raises NoCredentials."""
        return self._clients.identity()

    def limits(self, instance_type: str) -> InstanceLimits:
        """What an instance type promises. Raises UnknownInstanceType with the nearest names."""
        return self._types.limits(instance_type)

    def place(self, instance_type: str, zone: str | None = None, subnet_id: str | None = None) -> Placement:
        """The zone and subnet where `launch` would put such an instance. Raises NotOffered, NoNetwork, ZoneMismatch."""
        return self._places.find(instance_type, zone, subnet_id or self.access.subnet_id)

    def image(self, instance_type: str, image: str | None = None, user: str | None = None) -> ImageFacts:
        """The image that `launch` would boot such an instance from. Raises UnusableImage."""
        return self._images.find(instance_type, self.limits(instance_type).architectures, image, user)

    @staticmethod
    def check_attachments(limits: InstanceLimits, volumes: int, attached: int = 1) -> None:
        """Raise AttachmentLimit when a type that has `attached` volumes (the root) cannot take `volumes` more."""
        check_attachments(limits, volumes, attached)

    def check_zone(self, limits: InstanceLimits, zone: str | None, volume_zone: str) -> None:
        """Raise ZoneMismatch when a volume in `volume_zone` could not be attached to what `launch` puts in `zone`."""
        place = self.place(limits.name, zone)
        check_zone(f"the {limits.name}", place.zone, volume_zone)

    # -- instances

    def launch(
        self,
        instance_type: str,
        *,
        zone: str | None = None,
        image: str | None = None,
        user: str | None = None,
        name: str = "",
        commands: Sequence[Command] = (),
        subnet_id: str | None = None,
        placement_group: PlacementGroup | str | None = None,
        recorded: RecordedLimits | None = None,
    ) -> LaunchedInstance:
        """Launch one instance and wait until it runs and has an address. SSH may take longer.

        image: AMI id, SSM parameter path, or None for Amazon Linux 2023 of the type's own architecture.
        user: who logs in, None guesses from the image. commands: shell lines or lists of words that the
        instance runs as root at its first boot. placement_group: one of this run or the name of any other.
        recorded: EBS limits that are stated in place of the type's own.
        Where no zone is asked for, one without capacity makes it try the next that offers the type.
        Whatever is wrong with the request is raised before anything is created; if the instance does not
        come up it is terminated again.
        """
        launch = Launch(instance_type, zone, image, user, name, commands, subnet_id, recorded)
        return self.launch_many([launch], placement_group=placement_group)[0]

    def launch_many(
        self, launches: Sequence[Launch], *, placement_group: PlacementGroup | str | None = None
    ) -> tuple[LaunchedInstance, ...]:
        """Launch several instances side by side, each with a host key of its own. All or none.

        Those that ask for no zone go to one together: to the others' zone where that is one, or the cluster's,
        else to the first that offers all their types and has room.
        """
        default = self.access.subnet_id
        return self._launches.run(
            [replace(launch, subnet_id=launch.subnet_id or default) for launch in launches], placement_group
        )

    def check_launches(self, launches: Sequence[Launch], *, strategy: str | None = None) -> None:
        """Raise, before anything is created, for what `launch_many` could not launch.

        `strategy` is that of the placement group that they would go into, None for none. Raises
        UnknownInstanceType, PlacementRefused (a type that cannot be in such a group), ZoneMismatch (a cluster
        in two zones), NotOffered or NoNetwork.
        """
        default = self.access.subnet_id
        self._launches.check(
            [replace(launch, subnet_id=launch.subnet_id or default) for launch in launches], strategy
        )

    def create_placement_group(self, strategy: str = CLUSTER, *, name: str = "") -> PlacementGroup:
        """Create a placement group and wait until it is available; `name` is for its Name tag.

        `release` or `close` removes it once its instances are terminated: give it back with them.
        """
        self._bind()
        return self._placement_groups.create(strategy, name, self._tags)

    def refresh(self, instance: LaunchedInstance) -> LaunchedInstance:
        """The instance as the API describes it now: state, addresses, attachments, tags."""
        return self._instances.refresh(instance)

    def stop(self, instance: LaunchedInstance, *, force: bool = False) -> LaunchedInstance:
        """Stop an instance and wait until it is stopped."""
        return self._instances.stop(instance, force=force)

    def start(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Start a stopped instance and wait until it runs; its public address may be another one."""
        return self._instances.start(instance)

    def reboot(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Ask for a reboot. The API says 'running' throughout: only the host itself tells when it is back."""
        return self._instances.reboot(instance)

    def terminate(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Terminate an instance and wait until it is. `release` does it without waiting."""
        ended = self._instances.terminate(instance)
        self._volumes.forget_instance(instance.id)
        return ended

    def console_output(self, instance: LaunchedInstance) -> str:
        """The last lines of the console, for an error about a host that does not answer; "" where there are none."""
        return self._instances.console_tail(instance.id).removeprefix("; ")

    # -- volumes

    def create_volume(
        self,
        spec: VolumeSpec,
        zone: str | None = None,
        *,
        instance: LaunchedInstance | None = None,
        name: str = "",
    ) -> CreatedVolume:
        """Create one encrypted volume in `zone`, or in the zone of `instance`, and wait until it is available.

        Before any call: InvalidSpec for a spec against the rules, ZoneMismatch when zone and instance differ,
        AttachmentLimit when the instance has no room for it.
        """
        return self.create_volumes([spec], zone, instance=instance, name=name)[0]

    def create_volumes(
        self,
        specs: Sequence[VolumeSpec],
        zone: str | None = None,
        *,
        instance: LaunchedInstance | None = None,
        name: str = "",
        snapshot: CreatedSnapshot | None = None,
    ) -> tuple[CreatedVolume, ...]:
        """Create several volumes side by side, in the order of `specs`. All or none.

        snapshot: what they hold at the start; InvalidSpec for a volume smaller than that.
        """
        for spec in specs:
            spec.check()
            if snapshot is not None:
                check_holds(spec, snapshot)
        if instance is not None:
            zone = zone or instance.zone
            check_zone(instance, instance.zone, zone)
            check_attachments(instance.limits, len(specs), self._volumes.attached_count(instance))
        if zone is None:
            raise CloudError("a volume needs its availability zone: give zone=... or the instance it is for")
        self._bind()
        source = snapshot.id if snapshot is not None else None
        results = gather(
            [partial(self._volumes.create, spec, zone, name, self._tags, source) for spec in specs]
        )
        created = [result for result in results if isinstance(result, CreatedVolume)]
        failures = [result for result in results if isinstance(result, Exception)]
        if failures:
            self._give_back(created)
            raise failures[0]
        return tuple(created)

    def attach(
        self, volume: CreatedVolume, instance: LaunchedInstance, device: str | None = None
    ) -> CreatedVolume:
        """Attach a volume under `device` (None: the next free name) and wait until it is attached.

        Raises ZoneMismatch and AttachmentLimit before any call.
        """
        return self._volumes.attach(volume, instance, device)

    def attach_all(
        self, volumes: Sequence[CreatedVolume], instance: LaunchedInstance
    ) -> tuple[CreatedVolume, ...]:
        """Attach several volumes side by side, in their order. The first failure is raised once all have ended."""
        for volume in volumes:
            check_zone(instance, instance.zone, volume.zone, f"volume {volume}")
        check_attachments(instance.limits, len(volumes), self._volumes.attached_count(instance))
        return tuple(all_of([partial(self._volumes.attach, volume, instance, None) for volume in volumes]))

    def detach(self, volume: CreatedVolume, *, force: bool = False) -> CreatedVolume:
        """Detach a volume and wait until it is available. Unmount it on the host first."""
        return self._volumes.detach(volume, force=force)

    def delete(self, volume: CreatedVolume) -> None:
        """Delete a detached volume."""
        self._volumes.delete(volume)

    def refresh_volume(self, volume: CreatedVolume) -> CreatedVolume:
        """The volume as the API describes it now: state, attachment, tags."""
        return self._volumes.refresh(volume)

    def modify_volume(
        self,
        volume: CreatedVolume,
        spec: VolumeSpec,
        *,
        until: Reached = "completed",
        timeout_s: float = 3600.0,
    ) -> CreatedVolume:
        """Make the volume one of `spec`, and wait until the service has begun to optimise it, or completed that.

        Before any call: InvalidSpec for a spec against the rules, or a smaller one.
        """
        return modify(self._clients, volume, spec, until=until, timeout_s=timeout_s)

    # -- snapshots

    def create_snapshot(self, volume: CreatedVolume, *, name: str = "") -> CreatedSnapshot:
        """Create a snapshot of a volume and wait until it is complete; `release` or `close` deletes it."""
        self._bind()
        return self._snapshots.create(volume, name, self._tags)

    # -- giving back

    def release(self, resources: Iterable[Resource]) -> None:
        """Give resources back without waiting: instances are told to end now, the rest goes as it comes free.

        What is still under way is finished in the background and verified by `close`. Raises TeardownFailed
        when the service refuses to end an instance. Nothing is left of a region that has ended.
        """
        if self._region_ended() is not None:
            return
        chosen = list(resources)
        instances = [one.id for one in chosen if isinstance(one, LaunchedInstance)]
        volumes = [one.id for one in chosen if isinstance(one, CreatedVolume)]
        snapshots = [one.id for one in chosen if isinstance(one, CreatedSnapshot)]
        groups = [one.name for one in chosen if isinstance(one, PlacementGroup)]
        problems = self._resources.terminate(instances) if instances else {}
        for instance_id in instances:
            self._volumes.forget_instance(instance_id)
        ending = [one for one in instances if one not in problems]
        if volumes:
            self._in_background(partial(self._drop_quietly, volumes, ending))
        if snapshots:
            self._in_background(partial(self._drop_snapshots_quietly, snapshots))
        if groups:
            self._in_background(partial(self._drop_groups_quietly, groups))
        if problems:
            raise TeardownFailed(list(problems.values()))

    def on_close(self, label: str, step: Callable[[], None]) -> None:
        """Have `step` run by `close` before resources are removed; the last one added runs first.

        `label` completes "could not ..." in the report of a failure.
        """
        self._teardown.push(label, step)

    def close(self) -> TeardownReport:
        """Remove everything that carries the run's tag, wait, and verify with the API that nothing remains.

        All steps run whatever happens in one of them; their errors are in the report. A KeyboardInterrupt is
        raised again after the last step. A second call does nothing and returns the same report. What a region that
        has ended could not be asked any more is no problem: everything went with it.
        """
        if self.report is None:
            interrupted: KeyboardInterrupt | None = None
            try:
                self._teardown.run()
            except KeyboardInterrupt as interrupt:
                interrupted = interrupt
            problems = tuple(self._teardown.problems)
            if (ended := self._region_ended()) is not None:
                problems = tuple(each for each in problems if ended not in each)
            self.report = TeardownReport(problems, self._remaining)
            self.journal.finish(clean=self.report.clean)
            if interrupted is not None:
                raise interrupted
        return self.report

    def remaining(self) -> tuple[Leftover, ...]:
        """What carries the run's tag right now, asked from the API."""
        return self._resources.remaining() if self.journal.intentions else ()

    def __enter__(self) -> Cloud:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        report = self.close()
        if error is None:
            report.raise_unless_clean()

    def write_private_key(self, path: Path) -> Path:
        """Write the run's private key to `path` (mode 0600) for SSH by hand; `close` removes the file."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.on_close(f"remove the private key {path}", partial(path.unlink, missing_ok=True))
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(self._doorway.key_pair().private_key)
        return path

    # -- inside

    def _bind(self) -> None:
        """Before the first creating call: who and where we are goes into the journal, for whoever reaps us."""
        account = self.identity().account
        self.journal.bind(self.endpoint, self.region, account)

    def _give_back(self, resources: Sequence[Resource]) -> None:
        """Release after a failure; a failure of that too is left to `close`."""
        if not resources:
            return
        try:
            self.release(resources)
        except CloudError as error:
            log.debug("release after a failure: %s", error)

    def _drop_quietly(self, volumes: Sequence[str], ending: Sequence[str]) -> None:
        try:
            self._resources.drop_volumes(volumes, ending=ending)
            for volume_id in volumes:
                self._volumes.forget_volume(volume_id)
        except Exception as error:
            log.debug("release of %s: %s", ", ".join(volumes), error)

    def _drop_snapshots_quietly(self, snapshots: Sequence[str]) -> None:
        try:
            self._resources.drop_snapshots(snapshots)
        except Exception as error:
            log.debug("release of %s: %s", ", ".join(snapshots), error)

    def _drop_groups_quietly(self, groups: Sequence[str]) -> None:
        # An instance that was not given back would hold its group for ever: `close`, which ends it, goes on.
        cancel_waits_on(self._closing)
        try:
            self._resources.drop_placement_groups(groups, bound_s=self._bounds.terminated_s)
        except Exception as error:
            log.debug("release of %s: %s", ", ".join(groups), error)

    def _in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=RELEASING, daemon=True)
        self._releases.append(thread)
        thread.start()

    def _remove_all(self) -> None:
        """Only now push the steps of removal: a run that created nothing asks the service nothing."""
        if not self.journal.intentions or self._removing or self._region_ended() is not None:
            return
        self._teardown.push_all(
            [
                *self._resources.removal_steps(),
                ("finish what was released earlier", self._await_releases),
                ("look for what calls without an answer created", self._let_settle),
            ]
        )
        self._removing = True

    def _let_settle(self) -> None:
        """A call whose answer was lost may have created something that its tag does not show yet."""
        if self.journal.unresolved:
            time.sleep(self._bounds.settle_s)

    def _await_releases(self) -> None:
        self._closing.set()
        deadline = time.monotonic() + self._bounds.terminated_s
        for thread in self._releases:
            # In slices, so that an interruption is seen soon.
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(0.5)

    def _verify(self) -> None:
        asked = self.journal.intentions and self._region_ended() is None
        self._remaining = self._resources.left_over() if asked else ()

    def _region_ended(self) -> str | None:
        """The sentence of a region that has ended; None while it stands, and where nobody can know."""
        try:
            self._clients.check_region()
        except Exception as ended:
            return str(ended)
        return None
