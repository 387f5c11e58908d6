"""The API's actions on volumes."""

from __future__ import annotations

import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult, EmptyResult

from pytest_cloudbench.limits.instances import InstanceLimits

from . import volume_admission
from .action_base import RegionActions
from .backend import RegionVolume, instance_catalogue
from .refusal import Refusal, incorrect_state, invalid_value, required, unsupported
from .snapshot_actions import admitted_source
from .volume_modification import RegionModification, admitted_target, refuse_modification

if TYPE_CHECKING:
    from .region import Region

log = logging.getLogger(__name__)

_DETACH_POLL_S = 0.1


class VolumeActions(RegionActions):
    """CreateVolume, AttachVolume, DetachVolume, ModifyVolume, DeleteVolume."""

    def create_volume(self) -> Any:
        params, region = self.params, self.home
        if params.get("MultiAttachEnabled"):
            raise unsupported("This region attaches a volume to one instance at a time.")
        tags = self._parse_tag_specification().get("volume", {})
        if params.get("KmsKeyId") and params.get("Encrypted") is not True:
            raise Refusal(
                "InvalidParameterDependency",
                "The parameter KmsKeyId requires the parameter Encrypted to be set.",
            )
        snapshot = admitted_source(region.backend, params.get("SnapshotId"), params.get("Size"))
        spec = volume_admission.admitted_spec(
            params.get("VolumeType") or "gp2",
            params.get("Size") or (snapshot.volume_size if snapshot else None),
            params.get("Iops"),
            params.get("Throughput"),
            volume_admission.admitted_io_unit(tags),
            first_touch=volume_admission.admitted_first_touch(tags, from_snapshot=snapshot is not None),
        )
        spec = volume_admission.with_planted_weakness(spec, tags)
        zone = self._admitted_zone()
        self.error_on_dryrun()
        if known := region.tokens.recall("CreateVolume", params):
            return ActionResult(known)
        volume = region.backend.create_volume(
            zone_name=zone,
            # A volume made from an encrypted snapshot is always encrypted.
            encrypted=bool(params.get("Encrypted")) or bool(snapshot and snapshot.encrypted),
            kms_key_id=params.get("KmsKeyId") or (snapshot.kms_key_id if snapshot else None),
            snapshot_id=snapshot.id if snapshot else None,
            spec=spec,
        )
        volume.add_tags(tags)
        region.tokens.remember("CreateVolume", params, volume)

        def undo() -> None:
            region.backend.forget(volume)
            region.tokens.forget("CreateVolume", params)

        with self.on_plane(f"No disk for {volume.id}", undo, "InsufficientVolumeCapacity"):
            region.plane.volumes.create_disk(volume.id, spec, snapshot.id if snapshot else None)

        def created() -> None:
            if volume.disk_state == "creating":
                volume.disk_state = "available"

        region.after(region.delay("volume_delay", "CreateVolume"), created)
        return ActionResult(volume)

    def attach_volume(self) -> Any:
        params, region = self.params, self.home
        volume = self.volume(params.get("VolumeId"))
        instance = self.instance(params.get("InstanceId"))
        device = volume_admission.admitted_device_name(params.get("Device"))
        limits = InstanceLimits.from_describe(instance_catalogue()[instance.instance_type])
        card = volume_admission.admitted_card(params.get("EbsCardIndex"), limits)
        self._refuse_attachment(volume, instance, device)
        self.error_on_dryrun()
        attachment = region.backend.record_attachment(volume, instance, device, delete_too=False, card=card)

        def undo() -> None:
            if volume.attachment is attachment:
                region.backend.remove_attachment(volume)

        with self.on_plane(f"Volume {volume.id} could not be attached", undo):
            region.queues.run(
                instance.id, lambda: region.plane.volumes.attach(volume.id, instance.id, device, card)
            )

        def attached() -> None:
            if volume.attachment is attachment and attachment.status == "attaching":
                region.backend.set_attachment_status(volume, "attached")

        region.after(region.delay("volume_delay", "AttachVolume"), attached)
        return ActionResult(attachment)

    def detach_volume(self) -> Any:
        params, region = self.params, self.home
        volume = self.volume(params.get("VolumeId"))
        attachment = self._admitted_detachment(volume)
        self.error_on_dryrun()
        force = self._get_bool_param("Force", False)
        already_requested = attachment.status in ("detaching", "busy")
        region.backend.set_attachment_status(volume, "detaching")
        if force or not already_requested:
            with region.aside():
                done = _try_to_detach(region, volume, attachment.instance.id, force=force)
            if done:

                def detached() -> None:
                    if volume.attachment is attachment:
                        region.backend.remove_attachment(volume)

                region.after(region.delay("volume_delay", "DetachVolume"), detached)
            else:
                _keep_detaching(region, volume, attachment)
        return ActionResult(attachment)

    def delete_volume(self) -> Any:
        region = self.home
        volume = self.volume(self.params.get("VolumeId"))
        if volume.attachment:
            raise Refusal(
                "VolumeInUse", f"Volume {volume.id} is currently attached to {volume.attachment.instance.id}."
            )
        if volume.disk_state in ("creating", "deleting"):
            raise incorrect_state(f"The volume '{volume.id}' is in the '{volume.disk_state}' state.")
        self.error_on_dryrun()
        volume.disk_state = "deleting"
        if not volume.backs_root:  # a root volume that outlived its instance has no disk
            undo = functools.partial(setattr, volume, "disk_state", "error")
            with self.on_plane(f"Volume {volume.id} could not be deleted", undo):
                region.plane.volumes.delete_disk(volume.id)
        region.backend.forget(volume)
        return EmptyResult()

    def modify_volume(self) -> Any:
        params, region = self.params, self.home
        volume = self.volume(params.get("VolumeId"))
        if params.get("MultiAttachEnabled"):
            raise unsupported("This region attaches a volume to one instance at a time.")
        spec = admitted_target(volume, params)
        refuse_modification(volume)
        self.error_on_dryrun()
        modification = RegionModification(volume, spec)
        volume.modifications.append(modification)
        failure = f"Volume {volume.id} remains {volume.spec}, it could not become {spec}"
        with self.on_plane(failure, lambda: volume.modifications.remove(modification)):
            region.plane.volumes.modify(volume.id, spec)
        volume.set_spec(spec)
        modification.applied()
        return ActionResult({"VolumeModification": modification})

    def describe_volume_status(self) -> Any:
        requested = [self.volume(volume_id) for volume_id in self.params.get("VolumeIds") or []]
        ok = {"Status": "ok", "Details": [{"Name": "io-enabled", "Status": "passed"}]}
        statuses = [
            {"VolumeId": volume.id, "AvailabilityZone": volume.availability_zone, "VolumeStatus": ok}
            for volume in requested or self.home.backend.volumes.values()
        ]
        return ActionResult({"VolumeStatuses": statuses})

    def describe_volumes_modifications(self) -> Any:
        """Describe the latest modification of each volume, the most recent first."""
        named = self.params.get("VolumeIds") or []
        volumes = [self.volume(volume_id) for volume_id in named] or self.home.backend.volumes.values()
        latest = [volume.modifications[-1] for volume in volumes if volume.modifications]
        for volume in volumes if named else ():
            if not volume.modifications:
                raise Refusal(
                    "InvalidVolumeModification.NotFound",
                    f"Modification for volume '{volume.id}' does not exist.",
                )
        latest.sort(key=lambda one: one.start_time, reverse=True)
        return ActionResult({"VolumesModifications": latest})

    def describe_volumes(self) -> Any:
        for volume_id in self.params.get("VolumeIds") or []:
            self.volume(volume_id)
        return super().describe_volumes()

    def _admitted_zone(self) -> str:
        zones: dict[str, str] = {
            zone.zone_id: zone.name for zone in self.home.backend.describe_availability_zones()
        }
        requested = self.params.get("AvailabilityZone") or self.params.get("AvailabilityZoneId")
        requested = str(required(requested, "AvailabilityZone"))
        zone = zones.get(requested, requested)
        if zone not in zones.values():
            raise Refusal(
                "InvalidZone.NotFound",
                f"The zone '{requested}' does not exist. This region has {', '.join(zones.values())}.",
            )
        return zone

    def _refuse_attachment(self, volume: RegionVolume, instance: Any, device: str) -> None:
        if volume.attachment:
            holder = volume.attachment.instance.id
            raise Refusal("VolumeInUse", f"{volume.id} is already attached to an instance ({holder}).")
        if volume.status != "available":
            raise incorrect_state(f"{volume.id} is not 'available': it is '{volume.status}'.")
        if instance.state not in ("running", "stopped"):
            raise incorrect_state(f"Instance '{instance.id}' is not 'running': it is '{instance.state}'.")
        if volume.availability_zone != instance.availability_zone:
            raise Refusal(
                "InvalidVolume.ZoneMismatch",
                f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}': "
                f"{volume.availability_zone} and {instance.availability_zone}.",
            )
        for taken in instance.block_device_mapping:
            if volume_admission.same_attachment_point(taken, device):
                raise invalid_value(
                    f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use."
                )
        self._refuse_one_too_many(instance)

    def _refuse_one_too_many(self, instance: Any) -> None:
        entry = instance_catalogue()[instance.instance_type]
        limit = InstanceLimits.from_describe(entry).max_ebs_attachments
        if limit is None:
            return
        taken = len(instance.block_device_mapping)
        if (entry.get("EbsInfo") or {}).get("AttachmentLimitType") == "shared":
            taken += max(0, len(instance.nics) - 1)  # the limit does not include the first interface
        if taken >= limit:
            raise Refusal(
                "AttachmentLimitExceeded",
                f"Volume attachments for instance '{instance.id}' exceed the limit of {limit} for "
                f"{instance.instance_type} (its root volume counts).",
            )

    def _admitted_detachment(self, volume: RegionVolume) -> Any:
        attachment = volume.attachment
        if attachment is None:
            raise incorrect_state(f"Volume '{volume.id}' is in the '{volume.status}' state.")
        instance_id, device = self.params.get("InstanceId"), self.params.get("Device")
        if instance_id and instance_id != attachment.instance.id:
            raise Refusal(
                "InvalidAttachment.NotFound",
                f"The volume '{volume.id}' is not attached to instance '{instance_id}'.",
            )
        if device and not volume_admission.same_attachment_point(device, attachment.device):
            raise Refusal(
                "InvalidAttachment.NotFound",
                f"The volume '{volume.id}' is not attached to instance '{attachment.instance.id}' as device "
                f"'{device}' but as '{attachment.device}'.",
            )
        if volume.backs_root:
            raise Refusal(
                "OperationNotPermitted",
                f"Unable to detach root volume '{volume.id}' from instance '{attachment.instance.id}': in this "
                "region a root volume stays with its instance.",
            )
        if attachment.status == "attaching":
            raise incorrect_state(f"Volume '{volume.id}' is in the 'attaching' state.")
        return attachment


def _try_to_detach(region: Region, volume: RegionVolume, instance_id: str, *, force: bool = False) -> bool:
    """Detach the disk; return False if it is mounted or open on its host, unless ``force`` is set."""
    try:
        return region.queues.run(instance_id, lambda: region.plane.volumes.detach(volume.id, force=force))
    except Exception:
        log.exception("detaching %s", volume.id)
        return False


def _keep_detaching(region: Region, volume: RegionVolume, attachment: Any) -> None:
    """Try again in a thread until the disk is no longer used, as the service does."""

    def poll() -> None:
        while not region.closing.wait(_DETACH_POLL_S):
            if volume.attachment is not attachment:
                return
            if _try_to_detach(region, volume, attachment.instance.id):
                with region.lock:
                    if volume.attachment is attachment:
                        region.backend.remove_attachment(volume)
                return

    region.backend.set_attachment_status(volume, "busy")
    threading.Thread(target=poll, name=f"detach {volume.id}", daemon=True).start()
