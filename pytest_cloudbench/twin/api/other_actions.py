"""Actions on what surrounds instances and volumes, and those that this region does not have."""

from __future__ import annotations

from typing import Any

from .action_base import RegionActions
from .instance_actions import InstanceActions
from .placement_actions import PlacementGroupActions
from .refusal import Refusal
from .snapshot_actions import SnapshotActions
from .volume_actions import VolumeActions

_NO_SNAPSHOTS = "this region keeps snapshots of single volumes only, and no images of one's own"
_NO_SPOT = "this region launches instances with RunInstances only"
_NO_PUBLIC = "this region has no public addresses: its hosts answer at their private ones"
_ONE_INTERFACE = "an instance of this region has one network interface, made with it"

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
}


class OtherActions(RegionActions):
    """Tags and security groups, where moto lets pass what the service refuses."""

    def create_tags(self) -> Any:
        self.refuse_reserved_tags()
        return super().create_tags()

    def delete_tags(self) -> Any:
        self.refuse_reserved_tags()
        return super().delete_tags()

    def delete_security_group(self) -> Any:
        group = self._group()
        if group is not None:
            if group.name == "default":
                raise Refusal(
                    "CannotDelete", f'the specified group: "{group.id}" name: "default" cannot be deleted'
                )
            self._refuse_while_used(group)
        return super().delete_security_group()

    def _group(self) -> Any | None:
        backend = self.home.backend
        if group_id := self.params.get("GroupId"):
            return backend.get_security_group_from_id(group_id)
        if name := self.params.get("GroupName"):
            return backend.get_security_group_from_name(name, backend.default_vpc.id)
        return None

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


class Ec2Actions(VolumeActions, SnapshotActions, InstanceActions, PlacementGroupActions, OtherActions):
    """Every action of the region's EC2 API."""

    def call_action(self) -> Any:
        action = self._get_action()
        if reason := UNSUPPORTED.get(action):
            raise Refusal("UnsupportedOperation", f"{action} is not there: {reason}.")
        return super().call_action()
