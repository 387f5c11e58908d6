"""The API's actions on volumes."""

from __future__ import annotations

import copy
import logging
import threading
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult, EmptyResult
from moto.core.utils import utcnow

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES

from . import volume_admission
from .action_base import RegionActions
from .backend import RegionVolume, instance_catalogue
from .refusal import Refusal
from .snapshot_actions import admitted_source
from .volume_modification import RegionModification

if TYPE_CHECKING:
    from .region import Region

log = logging.getLogger(__name__)

_DETACH_POLL_S = 0.1
_DAY_S = 24 * 3600


class VolumeActions(RegionActions):
    """CreateVolume, AttachVolume, DetachVolume, ModifyVolume, DeleteVolume."""

    def create_volume(self) -> Any:
        params, region = self.params, self.home
        self.refuse_reserved_tags()
        if params.get("MultiAttachEnabled"):
            raise Refusal("UnsupportedOperation", "This region attaches a volume to one instance at a time.")
        tags = self._parse_tag_specification().get("volume", {})
        snapshot = admitted_source(region.backend, params.get("SnapshotId"), params.get("Size"))
        spec = volume_admission.admitted_spec(
            params.get("VolumeType") or "gp2",
            params.get("Size") or (snapshot.volume_size if snapshot else None),
            params.get("Iops"),
            params.get("Throughput"),
            volume_admission.admitted_io_unit(tags),
            first_touch=volume_admission.admitted_first_touch(tags, from_snapshot=snapshot is not None),
        )
        zone = self._admitted_zone()
        self.error_on_dryrun()
        if known := region.tokens.recall("CreateVolume", params):
            return ActionResult(_as_created(known))
        volume = region.backend.create_volume(
            size=spec.size_gib,
            zone_name=zone,
            # A snapshot's encryption is its volumes', whatever was asked for.
            encrypted=bool(params.get("Encrypted")) or bool(snapshot and snapshot.encrypted),
            kms_key_id=params.get("KmsKeyId") or (snapshot.kms_key_id if snapshot else None),
            snapshot_id=snapshot.id if snapshot else None,
            volume_type=spec.type,
            iops=spec.requested_iops,
            throughput=spec.requested_throughput_mib,
            io_unit=spec.counted_in,
            first_touch=spec.first_touch,
        )
        volume.add_tags(tags)
        region.tokens.remember("CreateVolume", params, volume)
        try:
            with region.aside():
                region.plane.create_disk(volume.id, spec.size_gib, spec, snapshot.id if snapshot else None)
        except Exception as error:
            log.exception("no disk for %s", volume.id)
            region.backend.forget_volume(volume)
            region.tokens.forget("CreateVolume", params)
            raise Refusal("InsufficientVolumeCapacity", str(error)) from error
        volume.disk_state = "available"
        return ActionResult(_as_created(volume))

    def attach_volume(self) -> Any:
        params, region = self.params, self.home
        volume = self._volume(params.get("VolumeId"))
        instance = self.instance(params.get("InstanceId"))
        device = volume_admission.admitted_device_name(params.get("Device"))
        self._refuse_attachment(volume, instance, device)
        self.error_on_dryrun()
        attachment = region.backend.fasten(volume, instance, device, "attaching", delete_too=False)
        try:
            with region.aside():
                region.queues.run(instance.id, lambda: region.plane.attach(volume.id, instance.id, device))
        except Exception as error:
            log.exception("attaching %s to %s", volume.id, instance.id)
            if volume.attachment is attachment:
                region.backend.unfasten(volume)
            raise Refusal(
                "InternalError", f"Volume {volume.id} could not be attached: {error}", status=400
            ) from error
        if volume.attachment is attachment and attachment.status == "attaching":
            region.backend.set_attachment_status(volume, "attached")
        return ActionResult(_described(attachment, "attaching"))

    def detach_volume(self) -> Any:
        params, region = self.params, self.home
        volume = self._volume(params.get("VolumeId"))
        attachment = self._admitted_detachment(volume)
        self.error_on_dryrun()
        force = _is_true(params.get("Force"))
        already_on_its_way = attachment.status in ("detaching", "busy")
        region.backend.set_attachment_status(volume, "detaching")
        if force or not already_on_its_way:
            with region.aside():
                done = _try_to_detach(region, volume, attachment.instance.id, force=force)
            if done:
                if volume.attachment is attachment:
                    region.backend.unfasten(volume)
            else:
                _keep_detaching(region, volume, attachment)
        return ActionResult(_described(attachment, "detaching"))

    def delete_volume(self) -> Any:
        region = self.home
        volume = self._volume(self.params.get("VolumeId"))
        if volume.attachment:
            raise Refusal(
                "VolumeInUse", f"Volume {volume.id} is currently attached to {volume.attachment.instance.id}."
            )
        if volume.disk_state in ("creating", "deleting"):
            raise Refusal(
                "IncorrectState", f"The volume '{volume.id}' is in the '{volume.disk_state}' state."
            )
        self.error_on_dryrun()
        volume.disk_state = "deleting"
        try:
            if not volume.backs_root:  # one that outlived its instance has no disk of its own
                with region.aside():
                    region.plane.delete_disk(volume.id)
        except Exception as error:
            log.exception("deleting %s", volume.id)
            volume.disk_state = "error"
            raise Refusal(
                "InternalError", f"Volume {volume.id} could not be deleted: {error}", status=400
            ) from error
        region.backend.forget_volume(volume)
        return EmptyResult()

    def modify_volume(self) -> Any:
        params, region = self.params, self.home
        volume = self._volume(params.get("VolumeId"))
        if params.get("MultiAttachEnabled"):
            raise Refusal("UnsupportedOperation", "This region attaches a volume to one instance at a time.")
        spec = _admitted_target(volume, params)
        _refuse_modification(volume)
        self.error_on_dryrun()
        before = volume.spec
        modification = RegionModification(volume, spec)
        volume.modifications.append(modification)
        try:
            with region.aside():
                region.plane.modify(volume.id, spec)
        except Exception as error:
            log.exception("modifying %s to %s", volume.id, spec)
            volume.modifications.remove(modification)
            raise Refusal(
                "InternalError",
                f"Volume {volume.id} stays {before}, it could not become {spec}: {error}",
                status=400,
            ) from error
        volume.take_spec(spec)
        modification.applied()
        return ActionResult({"VolumeModification": modification.as_answered()})

    def describe_volume_status(self) -> Any:
        wanted = self.params.get("VolumeIds") or []
        volumes = [self._volume(volume_id) for volume_id in wanted] or list(
            self.home.backend.volumes.values()
        )
        fine = {"Status": "ok", "Details": [{"Name": "io-enabled", "Status": "passed"}]}
        return ActionResult(
            {
                "VolumeStatuses": [
                    {
                        "VolumeId": volume.id,
                        "AvailabilityZone": volume.availability_zone,
                        "VolumeStatus": fine,
                    }
                    for volume in volumes
                ]
            }
        )

    def describe_volumes(self) -> Any:
        for volume_id in self.params.get("VolumeIds") or []:
            self._volume(volume_id)
        return super().describe_volumes()

    def _volume(self, volume_id: str | None) -> RegionVolume:
        volume = self.home.backend.volumes.get(volume_admission.admitted_volume_id(volume_id))
        if volume is None:
            raise Refusal("InvalidVolume.NotFound", f"The volume '{volume_id}' does not exist.")
        found: RegionVolume = volume
        return found

    def _admitted_zone(self) -> str:
        zones: dict[str, str] = {
            zone.zone_id: zone.name for zone in self.home.backend.describe_availability_zones()
        }
        asked = self.params.get("AvailabilityZone") or self.params.get("AvailabilityZoneId")
        if not asked:
            raise Refusal("MissingParameter", "The request must contain the parameter AvailabilityZone.")
        zone = zones.get(str(asked), str(asked))
        if zone not in zones.values():
            raise Refusal(
                "InvalidZone.NotFound",
                f"The zone '{asked}' does not exist. This region has {', '.join(zones.values())}.",
            )
        return zone

    def _refuse_attachment(self, volume: RegionVolume, instance: Any, device: str) -> None:
        if volume.attachment:
            holder = volume.attachment.instance.id
            raise Refusal("VolumeInUse", f"{volume.id} is already attached to an instance ({holder}).")
        if volume.status != "available":
            raise Refusal("IncorrectState", f"{volume.id} is not 'available': it is '{volume.status}'.")
        if instance.state not in ("running", "stopped"):
            raise Refusal(
                "IncorrectState", f"Instance '{instance.id}' is not 'running': it is '{instance.state}'."
            )
        if volume.availability_zone != instance.availability_zone:
            raise Refusal(
                "InvalidVolume.ZoneMismatch",
                f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}': "
                f"{volume.availability_zone} and {instance.availability_zone}.",
            )
        for taken in instance.block_device_mapping:
            if volume_admission.same_attachment_point(taken, device):
                raise Refusal(
                    "InvalidParameterValue",
                    f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use.",
                )
        self._refuse_one_too_many(instance)

    def _refuse_one_too_many(self, instance: Any) -> None:
        entry = instance_catalogue()[instance.instance_type]
        limit = InstanceLimits.from_describe(entry).max_ebs_attachments
        if limit is None:
            return
        taken = len(instance.block_device_mapping)
        if (entry.get("EbsInfo") or {}).get("AttachmentLimitType") == "shared":
            taken += max(0, len(instance.nics) - 1)  # the figure leaves room for the first interface
        if taken >= limit:
            raise Refusal(
                "AttachmentLimitExceeded",
                f"Volume attachments for instance '{instance.id}' exceed the limit of {limit} for "
                f"{instance.instance_type} (its root volume counts).",
            )

    def _admitted_detachment(self, volume: RegionVolume) -> Any:
        attachment = volume.attachment
        if attachment is None:
            raise Refusal("IncorrectState", f"Volume '{volume.id}' is in the '{volume.status}' state.")
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
            raise Refusal("IncorrectState", f"Volume '{volume.id}' is in the 'attaching' state.")
        return attachment


def _as_created(volume: RegionVolume) -> RegionVolume:
    """The volume as CreateVolume answers: clients wait for it to become available, as it is by then."""
    answer = copy.copy(volume)
    answer.attachment, answer.disk_state = None, "creating"
    return answer


def _described(attachment: Any, state: str) -> dict[str, Any]:
    return {
        "VolumeId": attachment.volume.id,
        "InstanceId": attachment.instance.id,
        "Device": attachment.device,
        "State": state,
        "AttachTime": attachment.attach_time,
        "DeleteOnTermination": attachment.delete_on_termination,
    }


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


def _try_to_detach(region: Region, volume: RegionVolume, instance_id: str, *, force: bool = False) -> bool:
    """Whether the disk has left its host; False while it is mounted or open there, unless by ``force``."""
    try:
        return region.queues.run(instance_id, lambda: region.plane.detach(volume.id, force=force))
    except Exception:
        log.exception("detaching %s", volume.id)
        return False


def _keep_detaching(region: Region, volume: RegionVolume, attachment: Any) -> None:
    """Try on in a thread of its own until the host lets go, as the service does."""

    def poll() -> None:
        while not region.closing.wait(_DETACH_POLL_S):
            if volume.attachment is not attachment:
                return
            if _try_to_detach(region, volume, attachment.instance.id):
                with region.lock:
                    if volume.attachment is attachment:
                        region.backend.unfasten(volume)
                return

    region.backend.set_attachment_status(volume, "busy")
    threading.Thread(target=poll, name=f"detach {volume.id}", daemon=True).start()


def _admitted_target(volume: RegionVolume, params: dict[str, Any]) -> Any:
    asked = {key: params.get(key) for key in ("Size", "VolumeType", "Iops", "Throughput")}
    if not any(asked.values()):
        raise Refusal(
            "InvalidParameterValue",
            "ModifyVolume must name at least one of Size, VolumeType, Iops and Throughput.",
        )
    if volume.backs_root:
        raise Refusal(
            "UnsupportedOperation", f"{volume.id} is a root volume: this region does not modify those."
        )
    size = asked["Size"] or volume.size
    volume_admission.refuse_shrinking(volume.id, volume.size, size)
    same_type = asked["VolumeType"] in (None, volume.volume_type)
    target_type = asked["VolumeType"] or volume.volume_type
    kept = volume.spec if same_type else None
    iops = asked["Iops"] or (kept.requested_iops if kept else None)
    if iops is None and VOLUME_TYPES.get(target_type) and target_type in ("io1", "io2"):
        # Between the provisioned types the service keeps the figure that the volume has.
        iops = volume.spec.requested_iops if volume.volume_type in ("io1", "io2") else None
    throughput = asked["Throughput"] or (kept.requested_throughput_mib if kept else None)
    return volume_admission.admitted_spec(
        target_type, size, iops, throughput, volume.spec.counted_in, first_touch=volume.spec.first_touch
    )


def _refuse_modification(volume: RegionVolume) -> None:
    if volume.status not in ("available", "in-use"):
        raise Refusal("IncorrectState", f"The volume '{volume.id}' is in the '{volume.status}' state.")
    now = utcnow()
    recent = [entry for entry in volume.modifications if (now - entry.start_time).total_seconds() < _DAY_S]
    if len(recent) >= volume_admission.MODIFICATIONS_A_DAY:
        raise Refusal(
            "VolumeModificationRateExceeded",
            f"You've reached the maximum modification rate per volume limit: {volume.id} was modified "
            f"{len(recent)} times in 24 hours. Wait, or create a new volume.",
        )
    state = volume.modifications[-1].modification_state if volume.modifications else "completed"
    if state != "completed":
        raise Refusal(
            "IncorrectModificationState",
            f"You cannot modify volume {volume.id} while its last modification is in state '{state}'.",
        )
