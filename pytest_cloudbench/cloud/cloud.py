"""The control plane of one run: everything it creates, it also removes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from pytest_cloudbench.promises.instances import InstanceLimits
from pytest_cloudbench.promises.volumes import VolumeSpec

from .access import CloudAccess
from .answers import Answer
from .clients import Clients, Identity
from .doorway import Doorway
from .errors import CloudError, TeardownFailed
from .images import Images
from .instance_types import InstanceTypes
from .instances import Instances, LaunchPlan, make_plan
from .journal import Journal
from .parallel import all_of, gather
from .placement import Places
from .removal import RunResources
from .resources import CreatedVolume, ImageFacts, LaunchedInstance, Leftover, Placement
from .teardown import Teardown, TeardownReport
from .user_data import Command
from .volumes import Volumes, check_attachments, check_zone
from .waits import Bounds

log = logging.getLogger(__name__)

Resource = LaunchedInstance | CreatedVolume


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
        self._resources = RunResources(self._clients, run_id, self._bounds)
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
    ) -> LaunchedInstance:
        """Launch one instance and wait until it runs and has an address. SSH may take longer.

        image: AMI id, SSM parameter path, or None for Amazon Linux 2023 of the type's own architecture.
        user: who logs in, None guesses from the image. commands: shell lines or lists of words that the
        instance runs as root at its first boot. Whatever is wrong with the request is raised before anything
        is created; if the instance does not come up it is terminated again.
        """
        return self.launch_many(
            instance_type,
            1,
            zone=zone,
            image=image,
            user=user,
            name=name,
            commands=commands,
            subnet_id=subnet_id,
        )[0]

    def launch_many(
        self,
        instance_type: str,
        count: int,
        *,
        zone: str | None = None,
        image: str | None = None,
        user: str | None = None,
        name: str = "",
        commands: Sequence[Command] = (),
        subnet_id: str | None = None,
    ) -> tuple[LaunchedInstance, ...]:
        """Launch `count` instances side by side in one zone, each with a host key of its own. All or none."""
        if count < 1:
            raise CloudError(f"cannot launch {count} instances; ask for at least one")
        limits = self.limits(instance_type)
        self._bind()
        questions: list[Callable[[], object]] = [
            partial(self.image, instance_type, image, user),
            partial(self.place, instance_type, zone, subnet_id),
            self._doorway.ssh_from,
        ]
        all_of(questions)
        # Both are known by now and cost no call.
        found_image = self.image(instance_type, image, user)
        place = self.place(instance_type, zone, subnet_id)
        plans = [make_plan(limits, found_image, place, name, commands) for _ in range(count)]
        ways_in: list[Callable[[], object]] = [
            self._doorway.key_pair,
            partial(self._doorway.group, place.vpc_id),
        ]
        all_of(ways_in)
        results = gather([partial(self._launch, plan) for plan in plans])
        launched = [result for result in results if isinstance(result, LaunchedInstance)]
        failures = [result for result in results if isinstance(result, Exception)]
        if failures:
            self._give_back(launched)
            raise failures[0]
        return tuple(launched)

    def _launch(self, plan: LaunchPlan) -> LaunchedInstance:
        pending = self._instances.run(
            plan, self._doorway.key_pair(), self._doorway.group(plan.place.vpc_id), self._tags
        )
        try:
            return self._instances.wait_until_running(pending)
        except CloudError:
            self._give_back([pending])
            raise

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
    ) -> tuple[CreatedVolume, ...]:
        """Create several volumes side by side, in the order of `specs`. All or none."""
        for spec in specs:
            spec.check()
        if instance is not None:
            zone = zone or instance.zone
            check_zone(instance, instance.zone, zone)
            check_attachments(instance.limits, len(specs), self._volumes.attached_count(instance))
        if zone is None:
            raise CloudError("a volume needs its availability zone: give zone=... or the instance it is for")
        self._bind()
        results = gather([partial(self._volumes.create, spec, zone, name, self._tags) for spec in specs])
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

    # -- giving back

    def release(self, resources: Iterable[Resource]) -> None:
        """Give resources back without waiting: instances are told to end now, volumes go as they come free.

        What is still under way is finished in the background and verified by `close`. Raises TeardownFailed
        when the service refuses to end an instance.
        """
        chosen = list(resources)
        instances = [one.id for one in chosen if isinstance(one, LaunchedInstance)]
        volumes = [one.id for one in chosen if isinstance(one, CreatedVolume)]
        problems = self._resources.terminate(instances) if instances else {}
        for instance_id in instances:
            self._volumes.forget_instance(instance_id)
        if volumes:
            ending = [one for one in instances if one not in problems]
            thread = threading.Thread(
                target=self._drop_quietly, args=(volumes, ending), name="cloudbench-release", daemon=True
            )
            self._releases.append(thread)
            thread.start()
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
        raised again after the last step. A second call does nothing and returns the same report.
        """
        if self.report is None:
            interrupted: KeyboardInterrupt | None = None
            try:
                self._teardown.run()
            except KeyboardInterrupt as interrupt:
                interrupted = interrupt
            self.report = TeardownReport(tuple(self._teardown.problems), self._remaining)
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

    def _remove_all(self) -> None:
        """Only now push the steps of removal: a run that created nothing asks the service nothing."""
        if not self.journal.intentions or self._removing:
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
        deadline = time.monotonic() + self._bounds.terminated_s
        for thread in self._releases:
            # In slices, so that an interruption is seen soon.
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(0.5)

    def _verify(self) -> None:
        self._remaining = self.remaining()
