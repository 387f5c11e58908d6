"""The ``ec2`` fixture's value: launches instances and gives them volumes, for one test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_cloudbench.promises.volumes import VolumeSpec
from pytest_cloudbench.topology.instance import Instance
from pytest_cloudbench.topology.markers import Wanted
from pytest_cloudbench.topology.volumes import Volume, VolumeGroup

if TYPE_CHECKING:
    from pytest_cloudbench.cloud.cloud import Cloud, Resource
    from pytest_cloudbench.cloud.resources import CreatedVolume

CONNECT_TIMEOUT_S = 300.0
"""How long a new instance may take until it answers by SSH; bare metal needs minutes."""


class Ec2:
    """Makes what a test needs, and gives it all back when the test ends."""

    def __init__(
        self,
        cloud: Cloud,
        *,
        test_name: str,
        zone: str | None = None,
        image: str | None = None,
        user: str | None = None,
    ) -> None:
        self._cloud = cloud
        self._test_name = test_name
        self._zone = zone
        self._image = image
        self._user = user
        self._instances: list[Instance] = []
        self._created: list[CreatedVolume] = []

    def check(self, wanted: Wanted) -> None:
        """Raise, before anything is created, for what this region cannot give a test that wants this.

        UnknownInstanceType names the nearest types, AttachmentLimit more volumes than the type can attach,
        ZoneMismatch a volume in another zone than the instance would be launched in.
        """
        if wanted.instance is None:
            return
        limits = self._cloud.limits(wanted.instance.type)
        volumes = [each for each in (wanted.volume, wanted.volumes) if each is not None]
        self._cloud.check_attachments(limits, sum(each.count for each in volumes))
        for zone in {each.zone for each in volumes if each.zone is not None}:
            self._cloud.check_zone(limits, wanted.instance.zone or self._zone, zone)

    def launch(
        self,
        type: str,
        *,
        zone: str | None = None,
        image: str | None = None,
        user: str | None = None,
        commands: Sequence[str] = (),
    ) -> Instance:
        """Launch an instance and wait until it runs.

        zone, image (AMI id or SSM parameter) and user (its login user) default to the options of the
        run. commands run once, as root, at the first boot. SSH is connected when first used.
        """
        launched = self._cloud.launch(
            type,
            zone=zone or self._zone,
            image=image or self._image,
            user=user or self._user,
            commands=tuple(commands),
            name=self._test_name,
        )
        instance = Instance(self._cloud, launched, CONNECT_TIMEOUT_S)
        self._instances.append(instance)
        return instance

    def create_volume(self, spec: VolumeSpec, instance: Instance, *, zone: str | None = None) -> Volume:
        """Create an encrypted volume in the instance's zone and attach it.

        Raises InvalidSpec with the broken rule, or ZoneMismatch, before anything is created.
        """
        return self.create_volumes(spec, instance, count=1, zone=zone)[0]

    def create_volumes(
        self, spec: VolumeSpec, instance: Instance, *, count: int, zone: str | None = None
    ) -> VolumeGroup:
        """Create and attach ``count`` equal volumes, side by side."""
        created = self._cloud.create_volumes(
            [spec] * count, zone, instance=instance.launched, name=self._test_name
        )
        self._created += created
        attached = self._cloud.attach_all(created, instance.launched)
        volumes = [Volume(instance, each) for each in attached]
        instance.volumes.extend(volumes)
        return VolumeGroup(volumes)

    def close(self) -> None:
        """Close the connections and have the control plane remove what this test made."""
        for instance in self._instances:
            instance.close()
        made: list[Resource] = [*(instance.launched for instance in self._instances), *self._created]
        self._instances.clear()
        self._created.clear()
        if made:
            self._cloud.release(made)
