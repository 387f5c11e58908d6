"""Loading moto's EC2, SSM, STS and CloudWatch in a third of the usual time.

Two thirds of moto's start load the endpoints of all other regions (botocore's endpoint file, parsed several times)
and their instance offerings. This endpoint serves one region, so both are left out.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

REGION = "us-east-1"
ACCOUNT = "123456789012"


def load_moto() -> None:
    """Import moto's services for one region, without moto's images. More calls have no effect."""
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    os.environ["MOTO_ACCOUNT_ID"] = ACCOUNT
    _know_one_region_only()
    _skip_offerings_of_other_regions()
    for module in ("moto.ec2.models", "moto.ec2.responses"):
        importlib.import_module(module)


def _know_one_region_only() -> None:
    import boto3

    def regions(_session: Any, _service: str, partition_name: str = "aws", **_options: Any) -> list[str]:
        return [REGION] if partition_name == "aws" else []

    boto3.Session.get_available_regions = regions  # type: ignore[assignment, method-assign]
    boto3.Session.get_available_partitions = lambda _session: ["aws"]  # type: ignore[assignment, method-assign]


def _skip_offerings_of_other_regions() -> None:
    from moto.utilities import utils

    if getattr(utils.load_resource, "serves_one_region", False):
        return
    load_any = utils.load_resource

    def load_resource(resource: str) -> Any:
        if "instance_type_offerings/" in resource and f"/{REGION}." not in resource:
            return []
        return load_any(resource)

    load_resource.serves_one_region = True  # type: ignore[attr-defined]
    utils.load_resource = load_resource
