"""The API's actions on instances, and what is asked about their types."""

from __future__ import annotations

import logging
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.core.types import Base64EncodedString
from moto.core.utils import utcnow

from pytest_cloudbench.twin.hosts.hosts import HostPlan, ImageFacts

from . import instance_admission
from .action_base import RegionActions
from .backend import RegionVolume, instance_catalogue
from .instance_lifecycle import InstanceLifecycle, Launch
from .launch_placement import refuse_crowded_start
from .launch_request import BlockDevice, LaunchRequest, admitted_launch, with_launch_template
from .refusal import Refusal

log = logging.getLogger(__name__)

_TYPES_A_PAGE = 100


class InstanceActions(RegionActions):
    """RunInstances, Start-, Stop-, Reboot- and TerminateInstances, DescribeInstanceTypes, GetConsoleOutput."""

    def run_instances(self) -> Any:
        region = self.home
        asked = self.params
        self.params = with_launch_template(asked, region.backend)
        self.refuse_reserved_tags()
        request = admitted_launch(self.params, region.backend)
        self.error_on_dryrun()
        if known := region.tokens.recall("RunInstances", asked):
            return ActionResult(known)
        known_before = set(region.backend.reservations)
        try:
            reservation = self._write_down(request)
            launches = [self._launch(instance, request) for instance in reservation.instances]
        except BaseException as error:
            written_down = set(region.backend.reservations) - known_before
            for address in region.backend.forget_reservations(written_down):
                region.plane.instances.release_address(address)
            if isinstance(error, RuntimeError):  # the plane has no address left
                raise Refusal("InsufficientFreeAddressesInSubnet", str(error)) from error
            raise
        region.tokens.remember("RunInstances", asked, reservation)
        for launch in launches:
            InstanceLifecycle(region).launch(launch)
        region.publish()
        return ActionResult(reservation)

    def start_instances(self) -> Any:
        instances = self.found_instances(self.params.get("InstanceIds"))
        _refuse_states(instances, ("stopping", "shutting-down", "terminated"), "started")
        refuse_crowded_start(instances, self.home.backend)
        self.error_on_dryrun()
        changes = []
        for instance in instances:
            before = _state(instance)
            if instance.state == "stopped":
                instance.launch_time = utcnow()
                InstanceLifecycle(self.home).start(instance)
            changes.append(_change(instance, before))
        return ActionResult({"StartingInstances": changes})

    def stop_instances(self) -> Any:
        instances = self.found_instances(self.params.get("InstanceIds"))
        _refuse_states(instances, ("pending", "shutting-down", "terminated"), "stopped")
        for instance in instances:
            if _is_set(instance.disable_api_stop):
                raise Refusal(
                    "OperationNotPermitted",
                    f"The instance '{instance.id}' may not be stopped. Modify its 'disableApiStop' instance "
                    "attribute and try again.",
                )
        self.error_on_dryrun()
        changes = []
        for instance in instances:
            before = _state(instance)
            if instance.state == "running":
                InstanceLifecycle(self.home).stop(instance, _by_the_user())
            changes.append(_change(instance, before))
        return ActionResult({"StoppingInstances": changes})

    def reboot_instances(self) -> Any:
        instances = self.found_instances(self.params.get("InstanceIds"))
        _refuse_states(
            instances, ("pending", "stopping", "stopped", "shutting-down", "terminated"), "rebooted"
        )
        self.error_on_dryrun()
        for instance in instances:
            InstanceLifecycle(self.home).reboot(instance)
        return EmptyResult()

    def terminate_instances(self) -> Any:
        instances = self.found_instances(self.params.get("InstanceIds"))
        for instance in instances:
            if _is_set(instance.disable_api_termination):
                raise Refusal(
                    "OperationNotPermitted",
                    f"The instance '{instance.id}' may not be terminated. Modify its 'disableApiTermination' "
                    "instance attribute and try again.",
                )
        self.error_on_dryrun()
        changes = []
        for instance in instances:
            before = _state(instance)
            if instance.state not in ("shutting-down", "terminated"):
                InstanceLifecycle(self.home).terminate(instance, _by_the_user())
            changes.append(_change(instance, before))
        return ActionResult({"TerminatingInstances": changes})

    def modify_instance_attribute(self) -> Any:
        instance = self.instance(self.params.get("InstanceId"))
        if self.params.get("InstanceType") or self.params.get("Attribute") == "instanceType":
            raise Refusal(
                "UnsupportedOperation",
                f"This region does not change the type of an instance ({instance.id} is a "
                f"{instance.instance_type}): launch one of the other type.",
            )
        answer = super().modify_instance_attribute()
        for volume in self.home.backend.attached_volumes(instance.id):
            mapping = instance.block_device_mapping.get(volume.attachment.device)
            if mapping is not None:
                volume.attachment.delete_on_termination = mapping.delete_on_termination
        return answer

    def describe_instances(self) -> Any:
        if ids := self.params.get("InstanceIds"):
            self.found_instances(ids)
        self.home.publish()
        return super().describe_instances()

    def describe_tags(self) -> Any:
        self.home.publish()
        return super().describe_tags()

    def describe_instance_types(self) -> Any:
        names = self.params.get("InstanceTypes") or []
        instance_admission.refuse_unknown_types(names, instance_catalogue())
        found = self.home.backend.describe_instance_types(names, self._filters_from_querystring())
        start = _page_start(self.params.get("NextToken"))
        size = self.params.get("MaxResults") or _TYPES_A_PAGE
        more = start + size < len(found)
        return ActionResult(
            {
                "InstanceTypes": found[start : start + size],
                "NextToken": f"page-{start + size}" if more else None,
            }
        )

    def get_console_output(self) -> Any:
        instance = self.instance(self.params.get("InstanceId"))
        text = self.home.last_words.get(instance.id)
        if text is None:
            with self.home.aside():
                text = self._console(instance)
        return ActionResult(
            {
                "InstanceId": instance.id,
                "Timestamp": utcnow(),
                "Output": Base64EncodedString.from_raw_string(text),
            }
        )

    def _console(self, instance: Any) -> str:
        try:
            return self.home.plane.instances.console_output(instance.id)
        except Exception:  # an instance that has not begun to boot has said nothing yet
            log.debug("no console output of %s", instance.id, exc_info=True)
            return ""

    def _write_down(self, request: LaunchRequest) -> Any:
        params, backend = self.params, self.home.backend
        root = request.root
        reservation = backend.run_instances(
            request.image.id,
            request.count,
            _kept_user_data(params.get("UserData")),
            [],
            instance_type=request.limits.name,
            is_instance_type_default=False,
            region_name=self.region_name,
            subnet_id=request.subnet.id,
            key_name=request.key_name,
            security_group_ids=list(request.group_ids),
            tags=self._parse_tag_specification(),
            ebs_optimized=bool(params.get("EbsOptimized")),
            associate_public_ip=False,
            disable_api_stop=bool(params.get("DisableApiStop")),
            disable_api_termination=bool(params.get("DisableApiTermination")),
            instance_initiated_shutdown_behavior=params.get("InstanceInitiatedShutdownBehavior"),
            instance_market_options=(params.get("InstanceMarketOptions") or {}).get("MarketType"),
            monitoring_state="enabled" if (params.get("Monitoring") or {}).get("Enabled") else "disabled",
            metadata_options=params.get("MetadataOptions") or {},
            client_token=params.get("ClientToken") or "",
            block_device_mappings=[
                {
                    "DeviceName": root.device,
                    "Ebs": {
                        "VolumeSize": root.spec.size_gib,
                        "VolumeType": root.spec.type,
                        "Encrypted": root.encrypted,
                        "DeleteOnTermination": root.delete_on_termination,
                    },
                }
            ],
        )
        for index, instance in enumerate(reservation.instances):
            instance._placement = request.placement.of(index, request.zone)
            for card in instance.nics.values():
                card.delete_on_termination = True
            instance.add_tags(params.get("LaunchTemplateTags") or {})
            for volume in backend.attached_volumes(instance.id):
                volume.backs_root = True
                volume.take_spec(root.spec)
                volume.attachment.delete_on_termination = root.delete_on_termination
                backend.set_attachment_status(volume, "attached")
        return reservation

    def _launch(self, instance: Any, request: LaunchRequest) -> Launch:
        volumes = [self._data_volume(instance, device) for device in request.data_volumes]
        return Launch(instance, _host_plan(instance, request), volumes)

    def _data_volume(self, instance: Any, device: BlockDevice) -> RegionVolume:
        backend = self.home.backend
        volume = backend.create_volume(
            size=device.spec.size_gib,
            zone_name=instance.availability_zone,
            encrypted=device.encrypted,
            volume_type=device.spec.type,
            iops=device.spec.requested_iops,
            throughput=device.spec.requested_throughput_mib,
        )
        volume.add_tags(self._parse_tag_specification().get("volume", {}))
        backend.fasten(volume, instance, device.device, "attaching", delete_too=device.delete_on_termination)
        return volume

    @property
    def region_name(self) -> str:
        name: str = self.home.backend.region_name
        return name


def _host_plan(instance: Any, request: LaunchRequest) -> HostPlan:
    limits, address = request.limits, instance.private_ip
    return HostPlan(
        instance_id=instance.id,
        instance_type=limits.name,
        private_ip=address,
        hostname=f"ip-{address.replace('.', '-')}",
        login_user=request.image.login_user,
        authorized_keys=(request.key_line,) if request.key_line else (),
        user_data=request.user_data,
        ebs_limit=limits.ebs_maximum,
        ebs_baseline=limits.ebs_baseline,
        nitro=limits.nvme,
        image=ImageFacts(request.image.id, request.image.name, request.image.architecture),
        network=limits.network_rates,
        network_credits=limits.network_credits,
        placement_group=request.placement.cluster,
        # Others than NVMe are there only when block device mappings ask for them.
        local_disks=limits.instance_store if limits.instance_store_nvme else (),
    )


def _kept_user_data(encoded: Any) -> Base64EncodedString | None:
    if not encoded:
        return None
    if isinstance(encoded, Base64EncodedString):
        return encoded
    text = encoded.decode() if isinstance(encoded, bytes) else str(encoded)
    return Base64EncodedString(text)


def _refuse_states(instances: list[Any], states: tuple[str, ...], verb: str) -> None:
    for instance in instances:
        if instance.state in states:
            raise Refusal(
                "IncorrectInstanceState",
                f"The instance '{instance.id}' is not in a state from which it can be {verb}: it is "
                f"'{instance.state}'.",
            )


def _state(instance: Any) -> dict[str, Any]:
    return {"Code": instance.state_code, "Name": instance.state}


def _change(instance: Any, before: dict[str, Any]) -> dict[str, Any]:
    return {"InstanceId": instance.id, "CurrentState": _state(instance), "PreviousState": before}


def _by_the_user() -> str:
    return f"User initiated ({utcnow().strftime('%Y-%m-%d %H:%M:%S')} GMT)"


def _is_set(value: Any) -> bool:
    return str(value).lower() == "true"


def _page_start(token: str | None) -> int:
    if not token:
        return 0
    number = token.removeprefix("page-")
    if not number.isdigit():
        raise Refusal("InvalidNextToken", f"The token '{token}' is invalid.")
    return int(number)
