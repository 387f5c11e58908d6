"""The API's actions on instances and their types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.core.types import Base64EncodedString
from moto.core.utils import get_service_model, utcnow

from pytest_cloudbench.twin.hosts.hosts import HostPlan

from . import instance_admission
from .action_base import RegionActions
from .backend import RegionVolume, instance_catalogue
from .descriptions import DescribedResult, describer_of
from .instance_lifecycle import SPOT_INTERRUPTION, InstanceLifecycle, Launch
from .launch_request import BlockDevice, LaunchRequest, admitted_launch, with_launch_template
from .moto_loading import REGION
from .placement_admission import refuse_crowded_start
from .refusal import Refusal, invalid_combination, unsupported
from .region_network import RegionInterface
from .request_checks import check_tags


class InstanceActions(RegionActions):
    """RunInstances, Start-, Stop-, Reboot- and TerminateInstances, DescribeInstanceTypes, GetConsoleOutput."""

    def run_instances(self) -> Any:
        region = self.home
        params = self.params
        self.params = with_launch_template(params, region.backend)
        check_tags(self.params)  # also those of the launch template
        request = admitted_launch(self.params, region.backend)
        self.error_on_dryrun()
        if known := region.tokens.recall("RunInstances", params):
            return ActionResult(known)
        reserved = region.backend.capacity_reservations.of_launch(self.params, request)
        if region.weather is not None:
            region.weather.check_launch(request.limits.name, request.zone, reserved=reserved is not None)
            self._refuse_above_quota(request, region.weather.settings.vcpus)
        known_before = set(region.backend.reservations)
        try:
            reservation = self._record_launch(request)
            for instance in reservation.instances:
                instance.capacity_reservation_id = reserved.id if reserved is not None else None
            launches = [self._launch(instance, request) for instance in reservation.instances]
        except BaseException as error:
            incomplete = set(region.backend.reservations) - known_before
            for address in region.backend.forget_reservations(incomplete):
                region.plane.network.release_address(address)
            if isinstance(error, RuntimeError):  # the plane has no address left
                raise Refusal("InsufficientFreeAddressesInSubnet", str(error)) from error
            raise
        region.tokens.remember("RunInstances", params, reservation)
        for launch in launches:
            InstanceLifecycle(region).launch(launch)
        region.publish()
        return ActionResult(reservation)

    def _refuse_above_quota(self, request: LaunchRequest, quota: int) -> None:
        """Refuse a launch beyond a quota of vCPUs; 0 means no quota."""
        living = [each.instance_type for each in self.home.instances() if each.state != "terminated"]
        types = [*living, *[request.limits.name] * request.count]
        vcpus = sum(instance_catalogue()[name]["VCpuInfo"]["DefaultVCpus"] for name in types)
        if quota and vcpus > quota:
            raise Refusal(
                "VcpuLimitExceeded",
                f"You have requested more vCPU capacity than your current vCPU limit of {quota} allows for the "
                "instance bucket that the specified instance type belongs to.",
            )

    def start_instances(self) -> Any:
        instances = self.found_instances(self.params.get("InstanceIds"))
        _refuse_states(instances, ("stopping", "shutting-down", "terminated"), "started")
        refuse_crowded_start(instances, self.home.backend)

        def start(instance: Any) -> None:
            instance.launch_time = utcnow()
            InstanceLifecycle(self.home).start(instance)

        return self._change_states("StartingInstances", instances, ("stopped",), start)

    def stop_instances(self) -> Any:
        instances = self.found_instances(self.params.get("InstanceIds"))
        _refuse_states(instances, ("pending", "shutting-down", "terminated"), "stopped")
        for instance in instances:
            _refuse_protected(instance, instance.disable_api_stop, "disableApiStop", "stopped")
            if instance.lifecycle == "spot":
                raise unsupported(
                    f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot "
                    "Instance request."
                )
        return self._change_states(
            "StoppingInstances", instances, ("running",), InstanceLifecycle(self.home).stop
        )

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
            protected = instance.disable_api_termination
            _refuse_protected(instance, protected, "disableApiTermination", "terminated")
        living = ("pending", "running", "stopping", "stopped")
        return self._change_states(
            "TerminatingInstances", instances, living, InstanceLifecycle(self.home).terminate
        )

    def _change_states(
        self, answer: str, instances: list[Any], states: tuple[str, ...], change: Callable[[Any], None]
    ) -> Any:
        """Call ``change`` for the instances in one of these states; return the states before and after."""
        self.error_on_dryrun()
        changes = []
        for instance in instances:
            before = _state(instance)
            if instance.state in states:
                change(instance)
            changes.append(
                {"InstanceId": instance.id, "CurrentState": _state(instance), "PreviousState": before}
            )
        return ActionResult({answer: changes})

    def describe_spot_instance_requests(self) -> Any:
        """Describe the requests of spot instances; an interruption notice marks a request for termination."""
        named = self.params.get("SpotInstanceRequestIds") or []
        known = {
            each.spot_instance_request_id: each for each in self.home.instances() if each.lifecycle == "spot"
        }
        for request_id in named:
            if request_id not in known:
                raise Refusal(
                    "InvalidSpotInstanceRequestID.NotFound",
                    f"The spot instance request ID '{request_id}' does not exist",
                )
        return ActionResult(
            {"SpotInstanceRequests": [_spot_request(known[request_id]) for request_id in named or known]}
        )

    def modify_instance_attribute(self) -> Any:
        instance = self.instance(self.params.get("InstanceId"))
        if not self.params.keys() - {"InstanceId", "DryRun"}:
            raise invalid_combination("No attributes specified.")
        if self.params.get("InstanceType") or self.params.get("Attribute") == "instanceType":
            raise unsupported(
                f"This region does not change the type of an instance ({instance.id} is a "
                f"{instance.instance_type}): launch one of the other type."
            )
        if behaviour := (self.params.get("InstanceInitiatedShutdownBehavior") or {}).get("Value"):
            self.error_on_dryrun()
            instance.instance_initiated_shutdown_behavior = behaviour
            return EmptyResult()
        for asked in self.params.get("BlockDeviceMappings") or []:
            if asked.get("DeviceName") not in instance.block_device_mapping:
                raise Refusal(
                    "InvalidInstanceAttributeValue",
                    f"No device is currently mapped at {asked.get('DeviceName')}",
                )
        answer = super().modify_instance_attribute()
        for volume in self.home.backend.attached_volumes(instance.id):
            mapping = instance.block_device_mapping.get(volume.attachment.device)
            if mapping is not None:
                volume.attachment.delete_on_termination = mapping.delete_on_termination
        return answer

    def describe_iam_instance_profile_associations(self) -> Any:
        known = {
            f"iip-assoc-{instance.id.removeprefix('i-')}": instance
            for instance in self.home.instances()
            if instance.iam_instance_profile and instance.state != "terminated"
        }
        asked = self.params.get("AssociationIds") or list(known)
        if missing := [each for each in asked if each not in known]:
            raise Refusal(
                "InvalidAssociationID.NotFound", f"The association ID '{missing[0]}' does not exist"
            )
        described = [
            {
                "AssociationId": each,
                "IamInstanceProfile": known[each].iam_instance_profile,
                "InstanceId": known[each].id,
                "State": "associated",
            }
            for each in asked
        ]
        return ActionResult({"IamInstanceProfileAssociations": described})

    def describe_instances(self) -> Any:
        backend = self.home.backend
        self.home.publish()
        if not (ids := self.params.get("InstanceIds")):
            return ActionResult({"Reservations": list(backend.reservations.values())})
        self.found_instances(ids)
        return ActionResult(
            {"Reservations": backend.get_reservations_by_instance_ids(list(dict.fromkeys(ids)))}
        )

    def describe_tags(self) -> Any:
        self.home.publish()
        self.home.backend.forget_tags_of_removed()
        return super().describe_tags()

    def describe_instance_types(self) -> Any:
        names = self.params.get("InstanceTypes") or []
        instance_admission.refuse_unknown_types(names, instance_catalogue())
        return DescribedResult(
            {"instanceTypeSet": [_described_type(name) for name in names or instance_catalogue()]}
        )

    def get_console_output(self) -> Any:
        instance = self.instance(self.params.get("InstanceId"))
        with self.home.aside():
            text = self.home.plane.instances.console_output(instance.id)
        text += self.home.boot_errors.get(instance.id, "")
        return ActionResult(
            {
                "InstanceId": instance.id,
                "Timestamp": utcnow(),
                "Output": Base64EncodedString.from_raw_string(text),
            }
        )

    def _record_launch(self, request: LaunchRequest) -> Any:
        params, backend = self.params, self.home.backend
        root, user_data = request.root, params.get("UserData")
        reservation = backend.run_instances(
            request.image.id,
            request.count,
            Base64EncodedString(str(user_data)) if user_data else None,
            [],
            instance_type=request.limits.name,
            is_instance_type_default=False,
            region_name=REGION,
            subnet_id=request.subnet.id,
            key_name=request.key_name,
            security_group_ids=list(request.group_ids),
            tags=self._parse_tag_specification(),
            ebs_optimized=bool(params.get("EbsOptimized")),
            associate_public_ip=False,  # the region assigns its own: see `give_public_address`
            private_ip=request.private_ip,
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
            instance.instance_lifecycle = instance.lifecycle
            instance.ena_support = request.ena_support
            instance.cpu_options = request.cpu_options
            instance.hibernation_options = {"Configured": False}
            instance.iam_instance_profile = request.profile
            instance.platform_details, instance.usage_operation = "Linux/UNIX", "RunInstances"
            if instance.lifecycle == "spot":
                instance.spot_instance_request_id = f"sir-{instance.id[-8:]}"
            instance._placement = request.placement.of(index, request.zone)
            instance.availability_zone_id = backend.get_zone_by_name(request.zone).zone_id
            instance._placement.availability_zone_id = instance.availability_zone_id
            options = request.network_options
            instance.network_performance_options = {"BandwidthWeighting": options.weighting}
            for card in instance.nics.values():
                card.delete_on_termination = True
                RegionInterface.take_over(card, options, wants_public=request.wants_public)
            backend.give_public_address(instance)
            instance.add_tags(params.get("LaunchTemplateTags") or {})
            for volume in backend.attached_volumes(instance.id):
                volume.backs_root = True
                volume.set_spec(root.spec)
                volume.attachment.delete_on_termination = root.delete_on_termination
                backend.set_attachment_status(volume, "attached")
        return reservation

    def _launch(self, instance: Any, request: LaunchRequest) -> Launch:
        volumes = [self._data_volume(instance, device) for device in request.data_volumes]
        slow = "metal_delay" if request.limits.bare_metal else "ssh_delay"
        ssh_after_s = self.home.delay(slow, "RunInstances")
        return Launch(instance, _host_plan(instance, request, ssh_after_s), volumes)

    def _data_volume(self, instance: Any, device: BlockDevice) -> RegionVolume:
        backend = self.home.backend
        volume = backend.create_volume(
            zone_name=instance.availability_zone, encrypted=device.encrypted, spec=device.spec
        )
        volume.add_tags(self._parse_tag_specification().get("volume", {}))
        backend.record_attachment(
            volume, instance, device.device, delete_too=device.delete_on_termination, card=device.card
        )
        return volume


def _host_plan(instance: Any, request: LaunchRequest, ssh_after_s: float) -> HostPlan:
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
        ebs_cards=limits.ebs_cards,
        nitro=limits.nvme,
        network=limits.network_rates,
        network_options=request.network_options,
        network_credits=limits.network_credits,
        placement_group=request.placement.cluster,
        # Local disks other than NVMe must be requested by block device mappings.
        local_disks=limits.instance_store if limits.instance_store_nvme else (),
        vcpus=limits.vcpus,
        memory_mib=limits.memory_mib,
        ssh_after_s=ssh_after_s,
        public_ip=instance.public_ip,
        netmask=instance.ec2_backend.netmask_of(request.subnet),
    )


@functools.cache
def _described_type(name: str) -> dict[str, Any]:
    """Return the description of a type; it never changes, and describing all types takes a tenth of a second."""
    operation = get_service_model("ec2").operation_model("DescribeInstanceTypes")
    answer = ActionResult({"InstanceTypes": [instance_catalogue()[name]]})
    described: dict[str, Any] = describer_of(operation).describe(answer)["instanceTypeSet"][0]
    return described


def _spot_request(instance: Any) -> dict[str, Any]:
    code = "fulfilled"
    if instance.state in ("shutting-down", "terminated"):
        interrupted = instance.state_reason and instance.state_reason.code == SPOT_INTERRUPTION[0]
        code = "instance-terminated-no-capacity" if interrupted else "instance-terminated-by-user"
    elif getattr(instance, "spot_notice", False):
        code = "marked-for-termination"
    return {
        "SpotInstanceRequestId": instance.spot_instance_request_id,
        "InstanceId": instance.id,
        "State": "closed" if code.startswith("instance-terminated") else "active",
        "Status": {"Code": code},
        "Type": "one-time",
    }


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


def _refuse_protected(instance: Any, protected: Any, attribute: str, verb: str) -> None:
    if str(protected).lower() == "true":
        raise Refusal(
            "OperationNotPermitted",
            f"The instance '{instance.id}' may not be {verb}. Modify its '{attribute}' instance attribute and try "
            "again.",
        )
