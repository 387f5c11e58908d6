"""The price list (GetProducts) and the account's quota of vCPUs (GetServiceQuota).

The list has prices of common types in us-east-1. Tests read them as on AWS and report what a run would cost there. None
of this is used on AWS.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .backend import instance_catalogue
from .moto_loading import REGION
from .refusal import Refusal, unsupported

_GET_PRODUCTS = "AWSPriceListService.GetProducts"
_GET_QUOTA = "ServiceQuotasV20190624.GetServiceQuota"
_VCPU_QUOTA = "ec2", "L-1216C47A"
_PAGE = 100
_PUBLISHED = "2026-07-20T00:00:00Z"

# On-Demand prices of Linux in us-east-1 for the size "large" (two vCPUs), USD an hour: the AWS price list, read
# 2026-07-20. The prices of these families are in proportion to vCPUs, bare metal left out unless the family is in
# _METAL_TOO.
_LARGE = """
a1=0.051 c5=0.085 c5a=0.077 c5ad=0.086 c5d=0.096 c5n=0.108 c6a=0.0765 c6g=0.068 c6gn=0.0864 c6i=0.085
c6id=0.1008 c6in=0.1134 c7a=0.10264 c7g=0.0725 c7gn=0.1248 c7i=0.08925 c8g=0.07976 c8gn=0.1185
c8ib=0.13608 i3=0.156 i3en=0.226 i4g=0.15444 i4i=0.1716 i7ie=0.2599 i8g=0.1716 m2=0.245 m4=0.1 m5=0.096
m5a=0.086 m5d=0.113 m5dn=0.136 m5n=0.119 m6a=0.0864 m6g=0.077 m6i=0.096 m6id=0.11865 m6idn=0.15912
m6in=0.13923 m7a=0.11592 m7g=0.0816 m7i=0.1008 m8a=0.12172 m8g=0.08976 m8gn=0.1455 r3=0.16625 r4=0.133
r5=0.126 r5a=0.113 r5b=0.149 r5d=0.144 r5dn=0.167 r5n=0.149 r6a=0.1134 r6g=0.1008 r6i=0.126 r6id=0.1512
r6in=0.17433 r7a=0.15215 r7g=0.1071 r7i=0.1323 r8g=0.11782 r8gn=0.18218 z1d=0.186 x2idn=0.208406
x2iedn=0.416812
"""
_LARGE_HOUR = {name: float(price) for name, _, price in (each.partition("=") for each in _LARGE.split())}
_METAL_TOO = frozenset({"a1", "c5", "c5d", "c5n", "c6i", "c6in", "i3en", "m5", "m5d", "m6i", "r5", "r5d"})
_TYPE_HOUR = {
    "i3.metal": 4.992,
    "m1.small": 0.044,
    "t2.micro": 0.0116,
    "t3.micro": 0.0104,
    "t3.medium": 0.0416,
    "t3.large": 0.0832,
}

# Amazon EBS, VPC and EC2 data transfer pricing of us-east-1, read 2026-11: USD for each unit.
_EBS = "AmazonEC2", "Storage"
_OPERATION = "AmazonEC2", "System Operation"
_THROUGHPUT = "AmazonEC2", "Provisioned Throughput"
_SNAPSHOT = "AmazonEC2", "Storage Snapshot"
_ADDRESS = "AmazonVPC", ""
_TRANSFER = "AWSDataTransfer", "Data Transfer"
_BETWEEN_ZONES = {"transferType": "IntraRegion", "fromRegionCode": REGION}
_OTHERS: tuple[tuple[tuple[str, str], dict[str, str], str, float], ...] = (
    (_EBS, {"volumeApiName": "gp2", "usagetype": "EBS:VolumeUsage.gp2"}, "GB-Mo", 0.10),
    (_EBS, {"volumeApiName": "gp3", "usagetype": "EBS:VolumeUsage.gp3"}, "GB-Mo", 0.08),
    (_EBS, {"volumeApiName": "io1", "usagetype": "EBS:VolumeUsage.piops"}, "GB-Mo", 0.125),
    (_EBS, {"volumeApiName": "io2", "usagetype": "EBS:VolumeUsage.io2"}, "GB-month", 0.125),
    (_EBS, {"volumeApiName": "st1", "usagetype": "EBS:VolumeUsage.st1"}, "GB-Mo", 0.045),
    (_EBS, {"volumeApiName": "sc1", "usagetype": "EBS:VolumeUsage.sc1"}, "GB-Mo", 0.015),
    (_OPERATION, {"volumeApiName": "io1", "usagetype": "EBS:VolumeP-IOPS.piops"}, "IOPS-Mo", 0.065),
    (_OPERATION, {"volumeApiName": "io2", "usagetype": "EBS:VolumeP-IOPS.io2"}, "IOPS-Mo", 0.065),
    (_OPERATION, {"volumeApiName": "io2", "usagetype": "EBS:VolumeP-IOPS.io2.tier2"}, "IOPS-Mo", 0.0455),
    (_OPERATION, {"volumeApiName": "io2", "usagetype": "EBS:VolumeP-IOPS.io2.tier3"}, "IOPS-Mo", 0.03185),
    (_OPERATION, {"volumeApiName": "gp3", "usagetype": "EBS:VolumeP-IOPS.gp3"}, "IOPS-Mo", 0.005),
    (_THROUGHPUT, {"volumeApiName": "gp3", "usagetype": "EBS:VolumeP-Throughput.gp3"}, "GiBps-mo", 40.96),
    (_SNAPSHOT, {"usagetype": "EBS:SnapshotUsage"}, "GB-Mo", 0.05),
    (_ADDRESS, {"group": "VPCPublicIPv4Address", "usagetype": "USE1-PublicIPv4:InUseAddress"}, "Hrs", 0.005),
    (_TRANSFER, {**_BETWEEN_ZONES, "usagetype": "DataTransfer-Regional-Bytes"}, "GB", 0.01),
)


def answer_account(target: str, body: bytes, vcpus: int) -> tuple[int, dict[str, str], bytes]:
    """Answer a request to the price list or the service quotas: status, headers and body. Raises Refusal.

    ``vcpus`` is the region's quota, 0 if it has none.
    """
    asked = _decoded(body)
    if target == _GET_PRODUCTS:
        answer = _found_products(asked)
    elif target == _GET_QUOTA:
        answer = _quota(asked, vcpus)
    else:
        raise unsupported(
            f"This region has GetProducts and GetServiceQuota only, not {target.rpartition('.')[2]}."
        )
    return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()


def _quota(asked: Mapping[str, Any], vcpus: int) -> dict[str, Any]:
    if (asked.get("ServiceCode"), asked.get("QuotaCode")) != _VCPU_QUOTA or not vcpus:
        raise Refusal("NoSuchResourceException", f"This region has no quota {asked.get('QuotaCode')}.")
    return {"Quota": {"ServiceCode": _VCPU_QUOTA[0], "QuotaCode": _VCPU_QUOTA[1], "Value": float(vcpus)}}


def _found_products(asked: Mapping[str, Any]) -> dict[str, Any]:
    service = asked.get("ServiceCode")
    if service not in ("AmazonEC2", "AmazonVPC", "AWSDataTransfer"):
        raise Refusal("NotFoundException", f"The service code {service} does not exist.")
    wanted = {}
    for each in asked.get("Filters") or []:
        if each.get("Type") != "TERM_MATCH":
            raise Refusal("InvalidParameterException", f"Filter type {each.get('Type')} is not supported.")
        wanted[each["Field"]] = each["Value"]
    found = [product for product in _products(service, wanted) if _matches(product, wanted)]
    start = int(token) if (token := str(asked.get("NextToken") or "0")).isdigit() else 0
    answer: dict[str, Any] = {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(each) for each in found[start : start + _PAGE]],
    }
    if start + _PAGE < len(found):
        answer["NextToken"] = str(start + _PAGE)
    return answer


def hourly_price(type_name: str) -> float | None:
    """Return the price of an instance type in USD an hour; None if this list does not have it."""
    entry = instance_catalogue().get(type_name)
    family, _, size = type_name.partition(".")
    if entry is None or type_name in _TYPE_HOUR:
        return _TYPE_HOUR.get(type_name)
    if family not in _LARGE_HOUR or (size.startswith("metal") and family not in _METAL_TOO):
        return None
    return round(_LARGE_HOUR[family] / 2 * int(entry["VCpuInfo"]["DefaultVCpus"]), 6)


def _products(service: str, wanted: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if service == "AmazonEC2" and wanted.get("productFamily") in (None, "Compute Instance"):
        names = [wanted["instanceType"]] if "instanceType" in wanted else instance_catalogue()
        for name in names:
            if (price := hourly_price(name)) is not None:
                attributes = {
                    "instanceType": name,
                    "operatingSystem": "Linux",
                    "preInstalledSw": "NA",
                    "tenancy": "Shared",
                    "capacitystatus": "Used",
                    "usagetype": f"BoxUsage:{name}",
                }
                yield _product(service, "Compute Instance", attributes, "Hrs", price)
    for (offered_by, family), attributes, unit, price in _OTHERS:
        if offered_by == service:
            yield _product(service, family, attributes, unit, price)


def _product(
    service: str, family: str, attributes: Mapping[str, str], unit: str, price: float
) -> dict[str, Any]:
    """Return one product in the form of the price list, with its On-Demand price."""
    usage = attributes["usagetype"]
    dimension = {
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"{price} USD per {unit} of {usage}",
        "pricePerUnit": {"USD": f"{price:.10f}"},
    }
    place = {"servicecode": service, "locationType": "AWS Region", "regionCode": REGION}
    return {
        "product": {"productFamily": family, "attributes": {**place, **attributes}, "sku": usage},
        "serviceCode": service,
        "terms": {"OnDemand": {f"{usage}.OD": {"priceDimensions": {f"{usage}.OD.1": dimension}}}},
        "publicationDate": _PUBLISHED,
    }


def _matches(product: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    described = product["product"]
    attributes = {"productFamily": described["productFamily"], **described["attributes"]}
    return all(attributes.get(name) == value for name, value in wanted.items())


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise Refusal("InvalidParameterException", "The body of the request is not a JSON object.")
    return asked
