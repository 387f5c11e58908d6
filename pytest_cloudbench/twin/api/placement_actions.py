"""The API's actions on placement groups."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from . import placement_admission as admission
from .action_base import RegionActions
from .placement_groups import RESOURCE_TYPE, PlacementGroup, refuse_unknown_filters
from .refusal import Refusal

_RESERVED = ("LinkedGroupId", "ParentGroupId", "Operator")


class PlacementGroupActions(RegionActions):
    """Create-, Describe- and DeletePlacementGroup(s)."""

    def create_placement_group(self) -> Any:
        params, groups = self.params, self.home.backend.placement_groups
        self.refuse_reserved_tags()
        if given := [name for name in _RESERVED if params.get(name)]:
            raise Refusal("UnsupportedOperation", f"This region does not know the parameter {given[0]}.")
        count = params.get("PartitionCount")
        name = admission.admitted_name(params.get("GroupName"))
        strategy = admission.admitted_strategy(params.get("Strategy"), count)
        partitions = admission.admitted_partition_count(strategy, count)
        level = admission.admitted_spread_level(strategy, params.get("SpreadLevel"))
        tags = self._tags_of_the_group()
        if groups.named(name) is not None:
            raise Refusal("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        if len(groups) >= admission.MAX_GROUPS:
            raise Refusal(
                "PlacementGroupLimitExceeded",
                f"You have reached the limit of {admission.MAX_GROUPS} placement groups in this region.",
            )
        self.error_on_dryrun()
        group = PlacementGroup(self.home.backend, name, strategy, partitions, level)
        groups.add(group)
        group.add_tags(tags)
        return ActionResult({"PlacementGroup": group})

    def _tags_of_the_group(self) -> dict[str, str]:
        for specification in self.params.get("TagSpecifications") or []:
            if (kind := specification.get("ResourceType")) != RESOURCE_TYPE:
                raise Refusal(
                    "InvalidParameterValue",
                    f"'{kind}' is not a valid taggable resource type for this operation.",
                )
        tags: dict[str, str] = self._parse_tag_specification().get(RESOURCE_TYPE, {})
        return tags

    def describe_placement_groups(self) -> Any:
        groups = self.home.backend.placement_groups
        names, ids = self.params.get("GroupNames") or [], self.params.get("GroupIds") or []
        named = [groups.known(name) for name in names]
        named += [groups.with_id(admission.admitted_group_id(group_id)) for group_id in ids]
        filters = self._filters_from_querystring()
        refuse_unknown_filters(filters)
        self.error_on_dryrun()
        wanted = dict.fromkeys(named) if names or ids else groups
        return ActionResult({"PlacementGroups": [group for group in wanted if group.passes(filters)]})

    def delete_placement_group(self) -> Any:
        groups = self.home.backend.placement_groups
        group = groups.known(admission.admitted_name(self.params.get("GroupName")))
        if group.members:
            raise Refusal(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{group.group_name}' is in use and may not be deleted.",
            )
        self.error_on_dryrun()
        groups.remove(group)
        return EmptyResult()
