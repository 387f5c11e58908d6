"""The value of the ``ec2`` fixture: it launches instances and attaches volumes for one test."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal

from pytest_cloudbench.limits.argument_names import named_arguments
from pytest_cloudbench.limits.bandwidth_weighting import DEFAULT
from pytest_cloudbench.limits.recorded_limits import RecordedLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import ExistingHardware
from pytest_cloudbench.resources.facts import (
    CreatedSnapshot,
    CreatedVolume,
    KeptInstance,
    Launch,
    LaunchedInstance,
    PlacementGroup,
    Resource,
)
from pytest_cloudbench.resources.fleet import Fleet
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.instance_store import check_has_store
from pytest_cloudbench.resources.markers import (
    BadMarker,
    RequestedFleet,
    RequestedHardware,
    RequestedInstance,
    RequestedPair,
    check_count,
)
from pytest_cloudbench.resources.pair import Pair, PairGroup
from pytest_cloudbench.resources.preparation import Preparation
from pytest_cloudbench.resources.provider import Provider
from pytest_cloudbench.resources.requested_existing import RequestedExisting
from pytest_cloudbench.resources.shared_storage import free, leave_shared_hardware, left_instance, left_volume
from pytest_cloudbench.resources.volumes import Volume, VolumeGroup

CONNECT_TIMEOUT_S = 300.0
"""The seconds that a new virtual instance may take to answer by SSH; `Instance` gives bare metal more."""

EXISTING_CONNECT_TIMEOUT_S = 30.0
"""The seconds that an existing instance, which has booted before the run, may take to answer."""


class Ec2:
    """Creates the hardware of a test, and removes it when the test ends."""

    def __init__(
        self,
        provider: Provider,
        *,
        test_name: str,
        zone: str | None = None,
        image: str | None = None,
        user: str | None = None,
        preparation: Preparation | None = None,
        type_limits: Mapping[str, RecordedLimits] | None = None,
    ) -> None:
        self._provider = provider
        self._test_name = test_name
        self._zone = zone
        self._image = image
        self._user = user
        self._preparation = preparation or Preparation()
        self._type_limits = type_limits or {}
        self._instances: list[Instance] = []
        self._created: list[CreatedVolume] = []
        self._volumes: dict[str, Volume] = {}
        self._groups: list[PlacementGroup] = []

    def check(self, requested: RequestedHardware) -> None:
        """Raise, before anything is created, if the provider cannot offer this hardware.

        Raises UnknownInstanceType with the nearest types, AttachmentLimit for more volumes than the type can attach,
        ZoneMismatch for a volume in another zone than the instance, NotOffered for a zone without the type,
        NoInstanceStore for a type without local disks, PlacementRefused for a type that cannot be in a cluster
        placement group.
        """
        if requested.pair is not None:
            self._check_launches(requested.instances, cluster=requested.pair.cluster)
        if requested.instance is None or requested.instance.existing is not None:
            return
        for type_name in (requested.instance.type, *requested.instance.or_types):
            self._check_type(requested, requested.instance, type_name)

    def _check_launches(self, requested: Sequence[RequestedInstance], *, cluster: bool) -> None:
        for one in requested[:2]:  # the rest repeat these requests
            for name in (one.type, *one.or_types) if one.network_options else ():
                one.network_options.check(self._provider.limits(name))
        self._provider.check_launches(self.launches(*requested), strategy="cluster" if cluster else None)

    def _check_type(self, requested: RequestedHardware, instance: RequestedInstance, type_name: str) -> None:
        limits = self._provider.limits(type_name).with_recorded(
            instance.limits or self._type_limits.get(type_name)
        )
        instance.network_options.check(limits)
        if requested.instance_store:
            check_has_store(limits)
        volumes = [each for each in (requested.volume, requested.volumes) if each is not None]
        for each in volumes:
            limits.check_options(card=each.card or 0)
        self._provider.check_attachments(limits, sum(each.count for each in volumes))
        for zone in {each.zone for each in volumes if each.zone is not None}:
            self._provider.check_zone(limits, instance.zone or self._zone, zone)

    @named_arguments("ec2.launch")
    def launch(
        self,
        type: str,
        *,
        zone: str | None = None,
        image: str | None = None,
        user: str | None = None,
        commands: Sequence[str] = (),
        placement_group: PlacementGroup | str | None = None,
        limits: RecordedLimits | None = None,
        bandwidth_weighting: str = DEFAULT,
        ena_express: bool | str = False,
        or_types: Sequence[str] = (),
        spot: bool = False,
        capacity_reservation: str | None = None,
        tenancy: str | None = None,
        security_group: str | None = None,
    ) -> Instance:
        """Launch an instance and wait until it runs.

        zone, image (AMI id or SSM parameter) and user (its login user) default to the options of the run. commands run
        once, as root, at the first boot. placement_group is one from `create_placement_group`, or the name of an
        existing one. limits are EBS limits from `recorded_limits`, which an embedded region applies and every verdict
        uses. or_types are tried, in this order, if no zone has room for ``type``; the instance then has the limits of
        its own type. spot launches a spot instance. capacity_reservation is the id of the Capacity Reservation to
        launch into. tenancy is "dedicated" or "host" for hardware of your account alone. security_group is the id of a
        group of yours, which must allow SSH from here. SSH connects at its first use, or while volumes are created.
        bandwidth_weighting ("vpc-1", "ebs-1") and ena_express (True for TCP, "udp" for UDP as well) are options of its
        network; raises UnsupportedOption, before anything is created, if the type lacks them.
        """
        asked = RequestedInstance(
            type,
            zone,
            image,
            user,
            commands,
            limits,
            bandwidth_weighting,
            ena_express,
            or_types,
            spot,
            capacity_reservation,
            tenancy,
            security_group,
        ).checked("ec2.launch")
        return self.launch_requested(asked, placement_group)

    def launch_requested(
        self, asked: RequestedInstance, placement_group: PlacementGroup | str | None = None
    ) -> Instance:
        """Launch the instance of a checked request."""
        if asked.network_options:
            asked.network_options.check(self._provider.limits(asked.type))
        [launch] = self.launches(asked)
        given = {each.name: getattr(launch, each.name) for each in fields(launch)}
        del given["type"], given["subnet_id"]
        if not launch.network_options:
            del given["network_options"]
        with self._preparation.step(f"launch {asked.type}"):
            launched = self._provider.launch(asked.type, **given, placement_group=placement_group)
        return self._add(launched)

    def existing(
        self,
        id: str | None = None,
        *,
        tag: Mapping[str, str] | None = None,
        terraform: str | None = None,
        type: str = "",
        user: str | None = None,
        limits: RecordedLimits | None = None,
        destructive: bool = False,
    ) -> Instance:
        """Return a running instance that exists already. It is neither changed nor removed.

        It is named by its id, by tags that it alone has, or by an output or a resource address of Terraform
        (--cloudbench-terraform). SSH logs in with your own keys and known hosts; user defaults to the option of the
        run, then to the image's. type is its required type. destructive allows loads to overwrite its local disks.
        Raises ExistingHardware.
        """
        named = RequestedExisting(id, tag, terraform, destructive)
        asked = RequestedInstance(type, user=user, limits=limits, existing=named)
        return self.find(asked.checked("ec2.existing"))

    def find(self, asked: RequestedInstance) -> Instance:
        """Return the existing instance of a checked request."""
        assert asked.existing is not None
        named = asked.existing
        found = self._provider.find_instance(
            id=named.id, tags=named.tag, terraform=named.terraform, user=asked.user or self._user
        )
        types = [each for each in (asked.type, *asked.or_types) if each]
        if types and found.type not in types:
            raise ExistingHardware(
                f"{found} is not the {' or '.join(types)} that the test names: name another instance, or this type"
            )
        recorded = asked.limits or self._type_limits.get(found.type)
        known = self._known(found.id)
        instance = known or self._add(replace(found, limits=found.limits.with_recorded(recorded)))
        instance.destructive |= named.destructive
        return instance

    @named_arguments("ec2.existing_volume")
    def existing_volume(
        self,
        id: str | None = None,
        *,
        terraform: str | None = None,
        instance: Instance | None = None,
        destructive: bool = False,
    ) -> Volume:
        """Return a volume that exists already, on the instance that it is attached to. It is never removed.

        Without destructive it is only read. With it, loads overwrite its data, unless it is mounted or contains
        anything that blkid recognises. Raises ExistingHardware.
        """
        named = RequestedExisting(id, None, terraform, destructive)
        return self.find_volume(named.checked("volume", _bad_volume), instance)

    def find_volume(self, named: RequestedExisting, instance: Instance | None = None) -> Volume:
        """Return the existing volume of a checked request."""
        on = instance.launched if instance is not None else None
        found = self._provider.find_volume(id=named.id, terraform=named.terraform, instance=on)
        assert found.attachment is not None
        where = found.attachment.instance_id
        if instance is None:
            instance = self._known(where) or self.existing(where)
        if found.device == instance.launched.image.root_device:
            raise ExistingHardware(
                f"{found} is the root volume of {instance.launched}: use one of its directories, by "
                "instance.directory(path)"
            )
        known = [each for each in instance.volumes if each.id == found.id]
        volume = known[0] if known else Volume(instance, found)
        volume.destructive |= named.destructive
        if not known:
            instance.volumes.append(volume)
        return volume

    def _known(self, instance_id: str) -> Instance | None:
        return next((each for each in self._instances if each.id == instance_id), None)

    def launches(self, *requested: RequestedInstance) -> list[Launch]:
        """Return the launches of checked requests, with the defaults of the run."""
        return [self._launch(each) for each in requested]

    def _launch(self, asked: RequestedInstance) -> Launch:
        first = Launch(
            asked.type,
            asked.zone or self._zone,
            asked.image or self._image,
            asked.user or self._user,
            self._test_name,
            asked.commands,
            recorded=asked.limits or self._type_limits.get(asked.type),
            market="spot" if asked.spot else None,
            capacity_reservation=asked.capacity_reservation,
            network_options=asked.network_options,
            tenancy=asked.tenancy,
            security_group=asked.security_group,
        )
        others = [replace(first, type=name, recorded=self._type_limits.get(name)) for name in asked.or_types]
        return replace(first, alternatives=tuple(others))

    @named_arguments("ec2.pair")
    def pair(
        self,
        client_type: str,
        server_type: str | None = None,
        *,
        placement: str | None = None,
        zones: Sequence[str] | None = None,
        image: str | None = None,
        user: str | None = None,
        commands: Sequence[str] = (),
        bandwidth_weighting: str = DEFAULT,
        ena_express: bool | str = False,
        or_types: Sequence[str] = (),
        spot: bool = False,
        capacity_reservation: str | None = None,
        tenancy: str | None = None,
        security_group: str | None = None,
    ) -> Pair:
        """Launch a client and a server side by side; iperf3 measures the path between them.

        server_type defaults to the client's. placement "cluster" puts both into a cluster placement group of their
        own; zones are their availability zones (default: one zone for both); the rest is as for `launch`, for both of
        them. Raises BadMarker, and the errors of `check`, before anything is created.
        """
        requested = RequestedPair.of(
            client_type,
            server_type,
            placement=placement,
            zones=zones,
            image=image,
            user=user,
            commands=commands,
            bandwidth_weighting=bandwidth_weighting,
            ena_express=ena_express,
            or_types=or_types,
            spot=spot,
            capacity_reservation=capacity_reservation,
            tenancy=tenancy,
            security_group=security_group,
            asked_by="ec2.pair",
        )
        self.check(RequestedHardware(pair=requested))
        return self.launch_pair(requested)

    def launch_pair(self, requested: RequestedPair) -> Pair:
        """Launch the client and the server of a checked request side by side."""
        client, server = self._launch_together(
            [requested.client, requested.server], cluster=requested.cluster
        )
        return Pair(client, server, cluster=requested.cluster)

    @named_arguments("ec2.fleet")
    def fleet(
        self, type: str, count: int, *, placement: Literal["cluster"] | None = None, **of_each: Any
    ) -> Fleet:
        """Launch ``count`` equal instances together, or none.

        Their storage is one target of fio, their network one of iperf3. placement "cluster" puts all into a cluster
        placement group of their own; ``of_each`` are further arguments of `launch`. Raises BadMarker, and what a launch
        raises, before anything is created.
        """
        asked = RequestedFleet.of(type, count, placement=placement, **of_each)
        instances = [asked.instance] * asked.count
        self._check_launches(instances, cluster=asked.cluster)
        launched = self._launch_together(instances, cluster=asked.cluster)
        return Fleet(self, launched, cluster=asked.cluster)

    @named_arguments("ec2.pairs")
    def pairs(
        self, client_type: str, server_type: str | None = None, *, count: int, **of_each: Any
    ) -> PairGroup:
        """Launch ``count`` pairs of a client and a server together, or none; iperf3 loads all of them at once.

        ``of_each`` are further arguments of `pair`. Raises BadMarker, and what `pair` raises, before anything is
        created.
        """
        check_count("ec2.pairs", count)
        asked = RequestedPair.of(client_type, server_type, asked_by="ec2.pairs", **of_each)
        both = [asked.client, asked.server] * count
        self._check_launches(both, cluster=asked.cluster)
        ends = self._launch_together(both, cluster=asked.cluster)
        return PairGroup(
            [Pair(*pair, cluster=asked.cluster) for pair in zip(ends[::2], ends[1::2], strict=True)]
        )

    def _launch_together(self, requested: Sequence[RequestedInstance], *, cluster: bool) -> list[Instance]:
        """Launch the instances of checked requests in one call."""
        group = self.create_placement_group() if cluster else None
        types = [one.type for one in requested]
        what = " and ".join(f"{types.count(name)} x {name}" for name in dict.fromkeys(types))
        with self._preparation.step(f"launch {what}"):
            launched = self._provider.launch_many(self.launches(*requested), placement_group=group)
        instances = [self._add(each) for each in launched]
        for each in instances:
            each.connect_ahead()
        return instances

    @named_arguments("ec2.path")
    def path(self, client: Instance, server: Instance, *, cluster: bool | None = None) -> Pair:
        """Return the network path between two instances of this test.

        cluster: True if both are in one cluster placement group; needed only for groups that
        `create_placement_group` did not create.
        """
        if cluster is None:
            clusters = {group.name for group in self._groups if group.strategy == "cluster"}
            shared = {client.launched.placement_group, server.launched.placement_group}
            cluster = len(shared) == 1 and shared <= clusters
        return Pair(client, server, cluster=cluster)

    def create_placement_group(self, strategy: str = "cluster") -> PlacementGroup:
        """Create a placement group to launch instances into; it is removed after them."""
        group = self._provider.create_placement_group(strategy, name=self._test_name)
        self._groups.append(group)
        return group

    @named_arguments("ec2.create_volume")
    def create_volume(
        self,
        spec: VolumeSpec,
        instance: Instance,
        *,
        zone: str | None = None,
        snapshot: CreatedSnapshot | None = None,
        card: int | None = None,
    ) -> Volume:
        """Create an encrypted volume in the instance's zone and attach it.

        snapshot: the initial content, from `Volume.snapshot`; such a volume is slow until `initialised` has read all of
        it. card: the EBS card of an instance that has several; volumes are spread evenly over them. Raises InvalidSpec
        with the broken rule, ZoneMismatch, or UnsupportedOption for a card that the type lacks, before anything is
        created.
        """
        return self.create_volumes(spec, instance, count=1, zone=zone, snapshot=snapshot, card=card)[0]

    @named_arguments("ec2.create_volumes")
    def create_volumes(
        self,
        spec: VolumeSpec,
        instance: Instance,
        *,
        count: int,
        zone: str | None = None,
        snapshot: CreatedSnapshot | None = None,
        card: int | None = None,
    ) -> VolumeGroup:
        """Create and attach ``count`` equal volumes, side by side; the rest is as for `create_volume`."""
        if not isinstance(spec, VolumeSpec):
            raise TypeError(f"ec2.create_volume: expected a spec such as gp3(size_gib=10), got {spec!r}")
        instance.check_ours(f"attach a new {spec} to it")
        if card is not None:
            instance.limits.check_options(card=card)
        instance.connect_ahead()
        what = f"{count} x {spec}" if count > 1 else str(spec)
        with self._preparation.step(f"create {what}"):
            created = self._provider.create_volumes(
                [spec] * count,
                zone,
                instance=instance.launched,
                name=self._test_name,
                snapshot=snapshot,
            )
            self._created += created
        with self._preparation.step(f"attach {what}"):
            on_card = {} if card is None else {"card": card}
            attached = self._provider.attach_all(created, instance.launched, **on_card)
        volumes = [Volume(instance, each) for each in attached]
        instance.volumes.extend(volumes)
        self._volumes |= {each.id: each for each in volumes}
        return VolumeGroup(volumes)

    def free_storage(self) -> None:
        """Unmount all file systems and dissolve all stripes, so that a repeat on this hardware finds it free."""
        for instance in self._instances:
            store = instance.known_store
            free([*instance.volumes, *(store.disks if store is not None else ())])

    def keep(self) -> list[tuple[Instance, KeptInstance]]:
        """Keep the instances of this test after the session with their volumes; `close` does not remove them.

        Raises CloudError if the provider cannot keep them.
        """
        ours = [each for each in self._instances if not each.launched.existing]
        if not ours:
            return []
        kept = self._provider.keep([each.launched for each in ours], test=self._test_name)
        groups = {each.launched.placement_group for each in ours}
        self._instances = [each for each in self._instances if each not in ours]
        self._groups = [each for each in self._groups if each.name not in groups]
        self.leave_volumes_of(ours)
        for each in ours:
            each.close()
        return list(zip(ours, kept, strict=True))

    def leave_volumes_of(self, instances: Sequence[Instance]) -> None:
        """Exclude the volumes of these instances, which stay after the session, from removal by `close`."""
        stay = {name for name, volume in self._volumes.items() if volume.instance in instances}
        self._created = [each for each in self._created if each.id not in stay]
        self._volumes = {name: each for name, each in self._volumes.items() if name not in stay}

    def close(self) -> None:
        """Close the connections and remove what this test created."""
        close_factories([self])

    def _release(self) -> None:
        held = list(self._instances)
        instances = [left_instance(each) for each in self._instances if not each.launched.existing]
        volumes = [left_volume(each, self._volumes.get(each.id)) for each in self._created]
        snapshots = [snapshot for instance in self._instances for snapshot in instance.snapshots]
        made: list[Resource] = [*instances, *volumes, *snapshots, *self._groups]
        self._instances.clear()
        self._created.clear()
        self._volumes.clear()
        self._groups.clear()
        with contextlib.ExitStack() as stack:  # whatever fails, the rest is closed and released
            for instance in held:
                if instance.launched.shared:  # its connection is needed to clean it
                    stack.callback(instance.close)
            stack.callback(self._provider.release, made)
            for instance in reversed(held):
                if not instance.launched.shared:
                    stack.callback(instance.close)

    def begin_test(self) -> None:
        """Begin another test with the same objects: refresh the instances and report them to the test."""
        for instance in self._instances:
            instance.begin_test()
            self._preparation.launched(instance, self._provider)

    def _add(self, launched: LaunchedInstance) -> Instance:
        timeout_s = EXISTING_CONNECT_TIMEOUT_S if launched.existing else CONNECT_TIMEOUT_S
        instance = Instance(self._provider, launched, timeout_s)
        instance.preparation = self._preparation
        self._instances.append(instance)
        self._preparation.launched(instance, self._provider)
        return instance


def close_factories(factories: Sequence[Ec2]) -> None:
    """Close the factories of one test, in this order, after its shared hardware is ready for the next test."""
    used = [each for each in factories if each._instances or each._created or each._groups]
    if not used:
        return
    with used[0]._preparation.step("tear down"), contextlib.ExitStack() as stack:
        for factory in reversed(used):
            stack.callback(factory._release)
        leave_shared_hardware(
            [instance for each in used for instance in each._instances],
            [volume for each in used for volume in each._volumes.values()],
        )


def _bad_volume(problem: str) -> BadMarker:
    return BadMarker(f"ec2.existing_volume: {problem}")
