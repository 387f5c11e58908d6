"""Creating, attaching, detaching and deleting volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import (
    CloudError,
    ResourceFailed,
    WaitTimeout,
    ZoneMismatch,
)
from pytest_cloudbench.resources.facts import Attachment, CreatedVolume, LaunchedInstance

from .attachment_slots import AttachmentSlots
from .kinds import VOLUME
from .run import RUN_TAG, Run, tags_of
from .waits import Watcher

_NOT_MAPPED_YET = ("InvalidInstanceAttributeValue",)


def check_zone(instance: object, instance_zone: str, zone: str, what: str = "a volume") -> None:
    """Raise ZoneMismatch unless `zone` is the instance's: EBS volumes cannot leave their zone."""
    if zone != instance_zone:
        raise ZoneMismatch(
            f"{what} in {zone} cannot be attached to {instance} in {instance_zone}: "
            "a volume works only in its own availability zone"
        )


# The next call may not know a new resource, or may see the previous state of a volume that was just detached.
_NOT_YET = ("InvalidVolume.NotFound", "InvalidInstanceID.NotFound", "IncorrectState")
_NO_SNAPSHOT_YET = ("InvalidSnapshot.NotFound",)
# It is detached, or is being detached: by an earlier attempt whose answer was lost, or from outside.
_DETACHED = ("IncorrectState", "InvalidAttachment.NotFound")


class Volumes:
    """The calls on volumes. Thread-safe.

    A call whose answer was lost is repeated. The same client token, or an attachment to the same instance, shows that
    the first attempt succeeded.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clients = run.clients
        self._watcher = Watcher(partial(VOLUME.described, run.clients), run.clients.pace)
        self.slots = AttachmentSlots()

    def parameters(self, spec: VolumeSpec, zone: str) -> dict[str, Any]:
        """Return the parameters of CreateVolume except its tags and snapshot."""
        parameters: dict[str, Any] = {
            "AvailabilityZone": zone,
            "VolumeType": spec.type,
            "Size": spec.size_gib,
            **self._clients.access.settings.encryption,
        }
        if spec.requested_iops is not None:
            parameters["Iops"] = spec.requested_iops
        if spec.requested_throughput_mib is not None:
            parameters["Throughput"] = spec.requested_throughput_mib
        return parameters

    def create(self, spec: VolumeSpec, zone: str, name: str, snapshot_id: str | None = None) -> CreatedVolume:
        """Create, encrypt and tag a volume in one call, and wait until it is available.

        Raises InvalidSpec (a ValueError), before any call, if the spec breaks a rule.
        """
        spec.check()
        parameters = self.parameters(spec, zone)
        if snapshot_id is not None:
            parameters["SnapshotId"] = snapshot_id
        with self._run.journal.creating("create_volume", f"{spec} in {zone}") as intention:
            answer = self._clients.repeat_call(
                f"create volume {spec} in {zone}",
                "create_volume",
                codes=_NO_SNAPSHOT_YET if snapshot_id else (),
                ClientToken=intention.token,
                TagSpecifications=self._run.tagged(name, "volume", token=intention.token, extra=spec.tags),
                **parameters,
            )
            intention.done([answer["VolumeId"]])
        volume = CreatedVolume(
            id=answer["VolumeId"],
            spec=spec,
            zone=zone,
            size=Size.from_gib(spec.size_gib),
            state=answer["State"],
            snapshot_id=snapshot_id,
        )
        return self.wait_for(volume, "available")

    def attach(self, volume: CreatedVolume, instance: LaunchedInstance, card: int = 0) -> CreatedVolume:
        """Attach a volume to an EBS card, under the next free device name, and wait until it is attached."""
        check_zone(instance, instance.zone, volume.zone, f"volume {volume}")
        name = self.slots.take(volume, instance, card)
        on_card: dict[str, Any] = {"EbsCardIndex": card} if card else {}
        try:
            self._clients.repeat_call(
                f"attach {volume} to {instance} as {name}",
                "attach_volume",
                codes=_NOT_YET,
                VolumeId=volume.id,
                InstanceId=instance.id,
                Device=name,
                **on_card,
            )
        except CloudError as error:
            if error.code != "VolumeInUse" or not self._is_on(volume, instance):
                self.slots.free(volume.id)
                raise
        return self._wait_attached(volume, instance)

    def end_with(self, instance: LaunchedInstance, volumes: Sequence[CreatedVolume]) -> None:
        """Set DeleteOnTermination for attached volumes of this run, so that the instance's lease ends them too."""
        ours = [each for each in volumes if each.tags.get(RUN_TAG) == self._run.run_id]
        if ours:
            self._clients.repeat_call(
                f"let {', '.join(str(each) for each in ours)} end with {instance}",
                "modify_instance_attribute",
                codes=_NOT_MAPPED_YET,
                InstanceId=instance.id,
                BlockDeviceMappings=[
                    {"DeviceName": each.device, "Ebs": {"DeleteOnTermination": True}} for each in ours
                ],
            )

    def detach(self, volume: CreatedVolume) -> CreatedVolume:
        """Detach a volume, which the host has unmounted, and wait until it is available."""
        current = self.refresh(volume)
        if current.attachment is None:
            return current
        instance_id = current.attachment.instance_id
        try:
            self._clients.repeat_call(
                f"detach {volume} from {instance_id}",
                "detach_volume",
                VolumeId=volume.id,
                InstanceId=instance_id,
            )
        except CloudError as error:
            if error.code not in _DETACHED:
                raise
        free = self.wait_for(volume, "available")
        self.slots.free(volume.id)
        return free

    def refresh(self, volume: CreatedVolume) -> CreatedVolume:
        """Return the volume as the API describes it now. Raises ResourceFailed if it no longer exists."""
        description = self._watcher.find(volume.id, self._clients.settle_s)
        if description is None:
            raise ResourceFailed(f"volume {volume} no longer exists")
        return updated(volume, description)

    def wait_for(self, volume: CreatedVolume, state: str) -> CreatedVolume:
        """Wait until the volume is in `state`."""
        last = volume

        def look(description: Mapping[str, Any] | None) -> CreatedVolume | None:
            nonlocal last
            if description is None:
                # It is invisible right after its creation.
                return None
            last = updated(volume, description)
            if last.state == "error":
                raise ResourceFailed(
                    f"volume {volume} failed: its state is 'error' (often its encryption key cannot be used)"
                )
            return last if last.state == state else None

        reached = self._watcher.wait(volume.id, look, self._run.bounds.volume_s)
        if reached is None:
            hangs = (
                f" (it is {last.attachment.state} on {last.attachment.instance_id})"
                if last.attachment
                else ""
            )
            raise WaitTimeout(
                f"volume {volume} did not reach {state!r} in {self._run.bounds.volume_s:.0f} s; "
                f"it is {last.state!r}{hangs}"
            )
        return reached

    def _wait_attached(self, volume: CreatedVolume, instance: LaunchedInstance) -> CreatedVolume:
        last = volume

        def look(description: Mapping[str, Any] | None) -> CreatedVolume | None:
            nonlocal last
            if description is None:
                return None
            last = updated(volume, description)
            hangs = last.attachment
            return last if hangs and hangs.state == "attached" and hangs.instance_id == instance.id else None

        reached = self._watcher.wait(volume.id, look, self._run.bounds.volume_s)
        if reached is None:
            state = last.attachment.state if last.attachment else last.state
            raise WaitTimeout(
                f"volume {volume} was not attached to {instance} in {self._run.bounds.volume_s:.0f} s; it is {state!r}"
            )
        return reached

    def _is_on(self, volume: CreatedVolume, instance: LaunchedInstance) -> bool:
        """Return True if the volume that is in use is attached, or being attached, to this instance."""

        def look(description: Mapping[str, Any] | None) -> str | None:
            attachment = updated(volume, description).attachment if description is not None else None
            return attachment.instance_id if attachment is not None else None

        # The attachment of an earlier attempt may still be invisible.
        return self._watcher.wait(volume.id, look, self._clients.settle_s) == instance.id


def updated(volume: CreatedVolume, description: Mapping[str, Any]) -> CreatedVolume:
    """Return the volume as a description of DescribeVolumes shows it."""
    attachments = [
        _attachment(entry) for entry in description.get("Attachments", []) if entry.get("State") != "detached"
    ]
    return replace(
        volume,
        state=description["State"],
        attachment=attachments[0] if attachments else None,
        tags=tags_of(description),
        snapshot_id=description.get("SnapshotId") or None,
    )


def _attachment(entry: Mapping[str, Any]) -> Attachment:
    """Return an attachment as DescribeVolumes shows it."""
    return Attachment(
        volume_id=entry.get("VolumeId", ""),
        instance_id=entry.get("InstanceId", ""),
        device=entry.get("Device", ""),
        state=entry.get("State", ""),
        card=entry.get("EbsCardIndex") or 0,
    )
