"""The EC2 API: its dispatch, the actions on security groups, placement groups and reservations, and what is refused."""

from __future__ import annotations

import sys
import uuid
from typing import Any

from botocore.model import OperationModel, OperationNotFoundError
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult
from moto.core.utils import camelcase_to_underscores, get_service_model

from . import instance_admission
from . import placement_admission as admission
from .action_base import RegionActions
from .backend import instance_catalogue
from .capacity_reservations import RESOURCE_TYPE as CAPACITY_RESERVATION
from .capacity_reservations import CapacityReservation
from .descriptions import Described, describer_of, write_answer
from .instance_actions import InstanceActions
from .key_actions import KeyActions
from .listing import listing_of
from .moto_loading import ACCOUNT, REGION
from .network_actions import NetworkActions
from .offered import ACTIONS
from .placement_groups import RESOURCE_TYPE, PlacementGroup
from .refusal import Refusal, dry_run, invalid_value, required, unsupported, well_formed_id
from .request_checks import RequestParser, check_form, check_required, check_tags
from .snapshot_actions import SnapshotActions
from .throttling import reads
from .volume_actions import VolumeActions

_NO_SNAPSHOTS = "this region has snapshots of single volumes only, and no own images"
_NO_SPOT = "this region launches instances with RunInstances only"
_NO_OTHER_NETWORKS = "this region has no networks beyond its VPCs with their internet gateways"
_OWN_PROFILE = "an instance of this region has the instance profile that it was launched with"
_ONE_INTERFACE = "an instance of this region has one network interface, made with it"
_RESERVED = ("LinkedGroupId", "ParentGroupId", "Operator")

# moto would carry these out even as dry runs.
_RUNS_DRY_FIRST = {"ModifyInstanceMetadataOptions", "ModifyInstanceAttribute"}
UNSUPPORTED = {
    "CopyImage": _NO_SNAPSHOTS,
    "CopySnapshot": _NO_SNAPSHOTS,
    "CreateImage": _NO_SNAPSHOTS,
    "CreateSnapshots": _NO_SNAPSHOTS,
    "DeregisterImage": _NO_SNAPSHOTS,
    "ImportVolume": _NO_SNAPSHOTS,
    "RegisterImage": _NO_SNAPSHOTS,
    "CreateFleet": _NO_SPOT,
    "RequestSpotFleet": _NO_SPOT,
    "RequestSpotInstances": _NO_SPOT,
    **dict.fromkeys(
        (
            "CreateCarrierGateway",
            "CreateCustomerGateway",
            "CreateEgressOnlyInternetGateway",
            "CreateNatGateway",
            "CreateTransitGateway",
            "CreateVpcEndpoint",
            "CreateVpcPeeringConnection",
            "CreateVpnConnection",
            "CreateVpnGateway",
        ),
        _NO_OTHER_NETWORKS,
    ),
    "AttachNetworkInterface": _ONE_INTERFACE,
    "DetachNetworkInterface": _ONE_INTERFACE,
    "AssociateIamInstanceProfile": _OWN_PROFILE,
    "DisassociateIamInstanceProfile": _OWN_PROFILE,
    "ReplaceIamInstanceProfileAssociation": _OWN_PROFILE,
}


class OtherActions(RegionActions):
    """Security groups and launch templates, where moto differs from the service."""

    def delete_security_group(self) -> Any:
        named = self.params.get("GroupId") or self.params.get("GroupName") or ""
        group = self.home.backend.get_security_group_by_name_or_id(named)
        if group is not None:
            if group.name == "default":
                raise Refusal(
                    "CannotDelete", f'the specified group: "{group.id}" name: "default" cannot be deleted'
                )
            self._refuse_while_used(group)
            self.params.pop("GroupName", None)  # moto finds no group of a VPC by its name here
            self.params["GroupId"] = group.id
        return super().delete_security_group()

    def _refuse_while_used(self, group: Any) -> None:
        for instance in self.home.instances():
            if instance.state != "terminated" and any(one.id == group.id for one in instance.security_groups):
                raise Refusal(
                    "DependencyViolation",
                    f"resource {group.id} has a dependent object: instance {instance.id} ({instance.state}) uses it",
                )
        for other in self.home.backend.describe_security_groups():
            rules = list(other.ingress_rules) + list(other.egress_rules)
            if other.id != group.id and any(rule.source_group.get("GroupId") == group.id for rule in rules):
                raise Refusal(
                    "DependencyViolation",
                    f"resource {group.id} has a dependent object: a rule of security group {other.id} names it",
                )

    def describe_launch_templates(self) -> Any:
        """Describe all requested templates with their current tags; moto shows 15, with their original tags."""
        self.params["MaxResults"] = sys.maxsize  # pages are made afterwards
        answer = super().describe_launch_templates()
        for described in answer.result["LaunchTemplates"]:
            template = self.home.backend.launch_templates[described["LaunchTemplateId"]]
            described["Tags"] = template.get_tags()
        return answer

    def describe_launch_template_versions(self) -> Any:
        self.params["MaxResults"] = sys.maxsize  # moto shows 15; pages are made afterwards
        return super().describe_launch_template_versions()

    def describe_security_group_rules(self) -> Any:
        for group_id in [value for name, values in self.filters if name == "group-id" for value in values]:
            if not set("*?") & set(group_id):
                well_formed_id("sg", group_id)
        return super().describe_security_group_rules()


class PlacementGroupActions(RegionActions):
    """Create-, Describe- and DeletePlacementGroup(s)."""

    def create_placement_group(self) -> Any:
        params, groups = self.params, self.home.backend.placement_groups
        if given := [name for name in _RESERVED if params.get(name)]:
            raise unsupported(f"This region does not support the parameter {given[0]}.")
        count = params.get("PartitionCount")
        name = admission.admitted_name(params.get("GroupName"))
        strategy = admission.admitted_strategy(params.get("Strategy"), count)
        partitions = admission.admitted_partition_count(strategy, count)
        level = admission.admitted_spread_level(strategy, params.get("SpreadLevel"))
        tags = self._tags_of_the_group()
        if name in groups:
            raise Refusal("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        if len(groups) >= admission.MAX_GROUPS:
            raise Refusal(
                "PlacementGroupLimitExceeded",
                f"You have reached the limit of {admission.MAX_GROUPS} placement groups in this region.",
            )
        self.error_on_dryrun()
        group = PlacementGroup(self.home.backend, name, strategy, partitions, level)
        groups[name] = group
        group.add_tags(tags)
        return ActionResult({"PlacementGroup": group})

    def _tags_of_the_group(self) -> dict[str, str]:
        for specification in self.params.get("TagSpecifications") or []:
            if (kind := specification.get("ResourceType")) != RESOURCE_TYPE:
                raise invalid_value(f"'{kind}' is not a valid taggable resource type for this operation.")
        tags: dict[str, str] = self._parse_tag_specification().get(RESOURCE_TYPE, {})
        return tags

    def describe_placement_groups(self) -> Any:
        groups = self.home.backend.placement_groups
        names, ids = self.params.get("GroupNames") or [], self.params.get("GroupIds") or []
        named = [groups.known(name) for name in names]
        named += [groups.with_id(well_formed_id("pg", group_id)) for group_id in ids]
        self.error_on_dryrun()
        return ActionResult(
            {"PlacementGroups": list(dict.fromkeys(named) if names or ids else groups.values())}
        )

    def delete_placement_group(self) -> Any:
        groups = self.home.backend.placement_groups
        group = groups.known(admission.admitted_name(self.params.get("GroupName")))
        if group.members:
            raise Refusal(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{group.group_name}' is in use and may not be deleted.",
            )
        self.error_on_dryrun()
        del groups[group.group_name]
        self.home.backend.tags.pop(group.id, None)
        return EmptyResult()


class CapacityReservationActions(RegionActions):
    """Create-, Describe- and CancelCapacityReservation(s)."""

    def create_capacity_reservation(self) -> Any:
        params, backend = self.params, self.home.backend
        if params.get("Tenancy") == "dedicated":
            raise unsupported("This region has no dedicated hosts.")
        name = params["InstanceType"]
        instance_admission.admitted_type(name, instance_catalogue())
        asked_zone = required(params.get("AvailabilityZone"), "AvailabilityZone")
        zone = instance_admission.admitted_zone(
            name, asked_zone, backend.zones_offering(name), backend.zone_names
        )
        count = instance_admission.admitted_count(params["InstanceCount"], params["InstanceCount"])
        self.error_on_dryrun()
        if known := self.home.tokens.recall("CreateCapacityReservation", params):
            return ActionResult({"CapacityReservation": known})
        made = CapacityReservation(backend, name, zone, count)
        made.instance_match_criteria = params.get("InstanceMatchCriteria") or "open"
        made.end_date = params.get("EndDate")
        backend.capacity_reservations[made.id] = made
        made.add_tags(self._parse_tag_specification().get(CAPACITY_RESERVATION, {}))
        self.home.tokens.remember("CreateCapacityReservation", params, made)
        return ActionResult({"CapacityReservation": made})

    def describe_capacity_reservations(self) -> Any:
        known = self.home.backend.capacity_reservations
        found = [known.known(each) for each in self.params.get("CapacityReservationIds") or known]
        return ActionResult({"CapacityReservations": found})

    def cancel_capacity_reservation(self) -> Any:
        """Cancel a reservation; its instances continue to run."""
        found = self.home.backend.capacity_reservations.known(self.params.get("CapacityReservationId"))
        self.error_on_dryrun()
        found.cancelled = True
        return ActionResult({"Return": True})


class Ec2Actions(
    VolumeActions,
    SnapshotActions,
    InstanceActions,
    KeyActions,
    PlacementGroupActions,
    CapacityReservationActions,
    NetworkActions,
    OtherActions,
):
    """Every action of the region's EC2 API."""

    def answer(self, request: Any) -> tuple[int, dict[str, str], str]:
        """Return status, headers and body of the answer to a request. Raises Refusal if it is refused."""
        form = request.values
        operation = self._offered_operation(form.get("Action", ""))
        check_form(form, operation)
        self.params = RequestParser(operation).parse({"values": form})
        check_required(self.params, operation)
        check_tags(self.params)
        # moto's actions read these attributes of a request.
        self.region, self.partition, self.current_account = REGION, "aws", ACCOUNT
        self.uri_match: dict[str, str] = {}
        self.data = self.querystring = {name: [value] for name, value in form.items()}
        described = self._described_result(operation)
        request_id = str(uuid.uuid4())
        headers = {"Content-Type": "text/xml;charset=UTF-8", "x-amzn-requestid": request_id}
        return 200, headers, write_answer(self.action, described, request_id)

    def _offered_operation(self, action: str) -> OperationModel:
        self.action = action
        if not action:
            raise Refusal("MissingAction", "The request must contain the parameter Action.")
        try:
            operation: OperationModel = get_service_model("ec2").operation_model(action)
        except OperationNotFoundError:
            message = f"The action {action} is not valid for this web service."
            raise Refusal("InvalidAction", message) from None
        if reason := UNSUPPORTED.get(action):
            raise unsupported(f"{action} is not available: {reason}.")
        if action not in ACTIONS:
            raise unsupported(f"This region does not offer {action}.")
        return operation

    def _described_result(self, operation: OperationModel) -> Described:
        """Carry the request out and return its result, filtered and in pages."""
        if self.params.get("DryRun") and (reads(self.action) or self.action in _RUNS_DRY_FIRST):
            raise dry_run()
        listing = listing_of(self.action)
        query = listing.read(self.params) if listing is not None else None
        self.filters = query.filters if query is not None else ()
        method = getattr(self, camelcase_to_underscores(self.action))
        try:
            described = describer_of(operation).describe(method())
        except ServiceException as error:
            status = 412 if error.code == "DryRunOperation" else 400
            raise Refusal(error.code, error.message, status=status) from error
        if listing is None or query is None:
            return described
        return listing.answer(described, query)
