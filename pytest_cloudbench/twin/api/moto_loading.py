"""Loading moto in a quarter of the usual time.

Two thirds of moto's start are spent on all other regions: their endpoints (botocore's endpoint file, parsed several
times) and their instance offerings. This endpoint serves one region, so both are left out. For each service that it
loads, botocore looks into 400 directories to list all services; here their names are enough.
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
    _list_services_by_their_directories()
    for module in ("moto.ec2.models", "moto.ec2.responses"):
        importlib.import_module(module)
    from moto.core.utils import get_service_model

    for service in ("ec2", "ssm", "sts"):
        get_service_model(service)


def _list_services_by_their_directories() -> None:
    from botocore.loaders import Loader

    def names(loader: Any, type_name: str) -> list[str]:
        return os.listdir(loader.BUILTIN_DATA_PATH)

    Loader.list_available_services = names  # type: ignore[method-assign, assignment]


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
