"""Clients of boto3 that look at a region from outside, beside the code that is tested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_cloudbench.aws.access import CloudAccess


def client_of(access: CloudAccess, service: str = "ec2") -> Any:
    """Return a client of its own for a service of the region that ``access`` leads to."""
    import boto3

    return boto3.client(
        service,
        endpoint_url=access.endpoint_url,
        region_name=access.region,
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
    )
