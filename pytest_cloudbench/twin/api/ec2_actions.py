"""All actions of the EC2 API: on security groups, placement groups and reservations, and what is not available."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from . import instance_admission
from . import placement_admission as admission
from .action_base import RegionActions
from .backend import instance_catalogue
from .capacity_reservations import RESOURCE_TYPE as CAPACITY_RESERVATION
from .capacity_reservations import CapacityReservation
from .instance_actions import InstanceActions
from .placement_groups import RESOURCE_TYPE, PlacementGroup, refuse_unknown_filters
from .refusal import Refusal, dry_run, invalid_value, required, unsupported, well_formed_id
from .snapshot_actions import SnapshotActions
from .throttling import reads
from .volume_actions import VolumeActions

_NO_SNAPSHOTS = "this region has snapshots of single volumes only, and no own images"
_NO_SPOT = "this region launches instances with RunInstances only"
_NO_PUBLIC = "this region has no public addresses: its hosts answer at their private ones"
_OWN_PROFILE = "an instance of this region has the instance profile that it was launched with"
_ONE_INTERFACE = "an instance of this region has one network interface, made with it"
_RESERVED = ("LinkedGroupId", "ParentGroupId", "Operator")

# moto carries these out also as dry runs.
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
    "AllocateAddress": _NO_PUBLIC,
    "AssociateAddress": _NO_PUBLIC,
    "AttachNetworkInterface": _ONE_INTERFACE,
    "DetachNetworkInterface": _ONE_INTERFACE,
    "AssociateIamInstanceProfile": _OWN_PROFILE,
    "DisassociateIamInstanceProfile": _OWN_PROFILE,
    "ReplaceIamInstanceProfileAssociation": _OWN_PROFILE,
}


class OtherActions(RegionActions):
    """Security groups, with refusals of the service that moto lacks."""

    def delete_security_group(self) -> Any:
        named = self.params.get("GroupId") or self.params.get("GroupName") or ""
        group = self.home.backend.get_security_group_by_name_or_id(named)
        if group is not None:
            if group.name == "default":
                raise Refusal(
                    "CannotDelete", f'the specified group: "{group.id}" name: "default" cannot be deleted'
                )
            self._refuse_while_used(group)
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
        filters = self._filters_from_querystring()
        refuse_unknown_filters(filters)
        self.error_on_dryrun()
        requested = dict.fromkeys(named) if names or ids else groups.values()
        return ActionResult({"PlacementGroups": [group for group in requested if group.passes(filters)]})

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
        name = required(params.get("InstanceType"), "InstanceType")
        instance_admission.admitted_type(name, instance_catalogue())
        asked_zone = required(params.get("AvailabilityZone"), "AvailabilityZone")
        zone = instance_admission.admitted_zone(
            name, asked_zone, backend.zones_offering(name), backend.zone_names
        )
        asked_count = params.get("InstanceCount")
        required(asked_count is not None, "InstanceCount")
        count = instance_admission.admitted_count(asked_count, None)
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
        if self.params.get("Filters"):
            raise unsupported("This region finds Capacity Reservations by their ids only.")
        known = self.home.backend.capacity_reservations
        found = [known.known(each) for each in self.params.get("CapacityReservationIds") or known]
        return ActionResult({"CapacityReservations": found})

    def cancel_capacity_reservation(self) -> Any:
        """End it; its instances go on running."""
        found = self.home.backend.capacity_reservations.known(self.params.get("CapacityReservationId"))
        self.error_on_dryrun()
        found.cancelled = True
        return ActionResult({"Return": True})


class Ec2Actions(
    VolumeActions,
    SnapshotActions,
    InstanceActions,
    PlacementGroupActions,
    CapacityReservationActions,
    OtherActions,
):
    """Every action of the region's EC2 API."""

    def call_action(self) -> Any:
        action = self._get_action()
        if reason := UNSUPPORTED.get(action):
            raise unsupported(f"{action} is not available: {reason}.")
        self.refuse_reserved_tags()
        if self.params.get("DryRun") and (reads(action) or action in _RUNS_DRY_FIRST):
            raise dry_run()
        return super().call_action()
