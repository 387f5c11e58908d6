"""The network of a launch: its subnet and group, a public address, bandwidth weighting and ENA Express."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_cloudbench.limits.bandwidth_weighting import DEFAULT
from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.resources.facts import Placement


def network_parameters(
    place: Placement, group_id: str | None, options: NetworkOptions, *, public: bool
) -> dict[str, Any]:
    """Return the parameters of RunInstances. ``public``: SSH needs a public address, whatever the subnet assigns.

    Without ``group_id`` the instance is in the default group of its VPC.
    """
    settings: dict[str, Any] = {}
    if public and not place.assigns_public:
        settings["AssociatePublicIpAddress"] = True
    if options.ena_express:
        settings["EnaSrdSpecification"] = {
            "EnaSrdEnabled": True,
            "EnaSrdUdpSpecification": {"EnaSrdUdpEnabled": options.ena_express_udp},
        }
    found: dict[str, Any]
    if settings:
        groups = {"Groups": [group_id]} if group_id else {}
        interface = {"DeviceIndex": 0, "SubnetId": place.subnet_id, **groups}
        found = {"NetworkInterfaces": [{**interface, "DeleteOnTermination": True, **settings}]}
    else:
        groups = {"SecurityGroupIds": [group_id]} if group_id else {}
        found = {"SubnetId": place.subnet_id, **groups}
    if options.weighting != DEFAULT:
        found["NetworkPerformanceOptions"] = {"BandwidthWeighting": options.weighting}
    return found


def described_options(description: Mapping[str, Any]) -> NetworkOptions:
    """Return the options in one instance of a DescribeInstances answer."""
    weighting = (description.get("NetworkPerformanceOptions") or {}).get("BandwidthWeighting")
    interface: Mapping[str, Any] = next(iter(description.get("NetworkInterfaces") or ()), {})
    express = (interface.get("Attachment") or {}).get("EnaSrdSpecification") or {}
    udp = (express.get("EnaSrdUdpSpecification") or {}).get("EnaSrdUdpEnabled")
    return NetworkOptions(weighting or DEFAULT, bool(express.get("EnaSrdEnabled")), bool(udp))
