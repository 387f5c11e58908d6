"""The actions of EC2 that the region offers. Every other action is refused, never answered with an empty success."""

from __future__ import annotations

import sys
from pathlib import Path

OFFERED: dict[str, tuple[str, ...]] = {
    "instances": (
        "RunInstances",
        "StartInstances",
        "StopInstances",
        "RebootInstances",
        "TerminateInstances",
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeInstanceAttribute",
        "ModifyInstanceAttribute",
        "DescribeInstanceCreditSpecifications",
        "ModifyInstanceMetadataOptions",
        "MonitorInstances",
        "UnmonitorInstances",
        "GetConsoleOutput",
        "DescribeIamInstanceProfileAssociations",
        "DescribeSpotInstanceRequests",
    ),
    "instance types": ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings"),
    "launch templates": (
        "CreateLaunchTemplate",
        "CreateLaunchTemplateVersion",
        "DeleteLaunchTemplate",
        "DescribeLaunchTemplates",
        "DescribeLaunchTemplateVersions",
        "ModifyLaunchTemplate",
    ),
    "placement": (
        "CreatePlacementGroup",
        "DeletePlacementGroup",
        "DescribePlacementGroups",
        "CreateCapacityReservation",
        "CancelCapacityReservation",
        "DescribeCapacityReservations",
    ),
    "images": ("DescribeImages", "DescribeImageAttribute"),
    "volumes": (
        "CreateVolume",
        "DeleteVolume",
        "AttachVolume",
        "DetachVolume",
        "ModifyVolume",
        "DescribeVolumes",
        "DescribeVolumeStatus",
        "DescribeVolumesModifications",
        "EnableEbsEncryptionByDefault",
        "DisableEbsEncryptionByDefault",
        "GetEbsEncryptionByDefault",
    ),
    "snapshots": (
        "CreateSnapshot",
        "DeleteSnapshot",
        "DescribeSnapshots",
        "DescribeSnapshotAttribute",
        "ModifySnapshotAttribute",
        "ResetSnapshotAttribute",
    ),
    "key pairs": ("CreateKeyPair", "ImportKeyPair", "DeleteKeyPair", "DescribeKeyPairs"),
    "security groups": (
        "CreateSecurityGroup",
        "DeleteSecurityGroup",
        "DescribeSecurityGroups",
        "DescribeSecurityGroupRules",
        "AuthorizeSecurityGroupEgress",
        "AuthorizeSecurityGroupIngress",
        "RevokeSecurityGroupEgress",
        "RevokeSecurityGroupIngress",
        "ModifySecurityGroupRules",
        "UpdateSecurityGroupRuleDescriptionsEgress",
        "UpdateSecurityGroupRuleDescriptionsIngress",
    ),
    "networks": (
        "CreateVpc",
        "DeleteVpc",
        "DescribeVpcs",
        "DescribeVpcAttribute",
        "ModifyVpcAttribute",
        "CreateSubnet",
        "CreateDefaultSubnet",
        "DeleteSubnet",
        "DescribeSubnets",
        "ModifySubnetAttribute",
        "CreateInternetGateway",
        "DeleteInternetGateway",
        "DescribeInternetGateways",
        "AttachInternetGateway",
        "DetachInternetGateway",
        "CreateRouteTable",
        "DeleteRouteTable",
        "DescribeRouteTables",
        "AssociateRouteTable",
        "DisassociateRouteTable",
        "ReplaceRouteTableAssociation",
        "CreateRoute",
        "DeleteRoute",
        "ReplaceRoute",
        "DescribeNetworkAcls",
        "DescribeNetworkInterfaces",
        "DescribeNetworkInterfaceAttribute",
        "ModifyNetworkInterfaceAttribute",
        "DescribeDhcpOptions",
        "AllocateAddress",
        "AssociateAddress",
        "DisassociateAddress",
        "ReleaseAddress",
        "DescribeAddresses",
        "DescribeAddressesAttribute",
    ),
    "tags": ("CreateTags", "DeleteTags", "DescribeTags"),
    "the account": ("DescribeAccountAttributes", "DescribeAvailabilityZones", "DescribeRegions"),
}
"""The names of the actions, by subject."""

ACTIONS = frozenset(action for actions in OFFERED.values() for action in actions)

_BEGIN, _END = "<!-- offered actions: begin -->\n", "<!-- offered actions: end -->\n"


def documented_table() -> str:
    """Return the tables of docs/region.md: the actions, and the filters of describe actions."""
    from .listing import listing_of

    lines = [_BEGIN, "| about | actions |", "|---|---|"]
    lines += [f"| {about} | {', '.join(actions)} |" for about, actions in OFFERED.items()]
    lines += ["", "| action | filters | filters of EC2 that are refused |", "|---|---|---|"]
    for action in sorted(ACTIONS):
        listing = listing_of(action)
        if listing is not None and listing.filters is not None:
            offered, refused = listing.filters.offered, listing.filters.not_offered
            lines.append(f"| {action} | {_code(offered)} | {_code(refused)} |")
    return "\n".join([lines[0].rstrip("\n"), *lines[1:], _END])


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main(path: str) -> None:
    """Write the tables into a page, between the markers."""
    from .moto_loading import load_moto

    load_moto()
    page = Path(path)
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    page.write_text(before + documented_table() + after, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
