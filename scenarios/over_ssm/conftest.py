"""The bucket for the results: on AWS it exists, the embedded region begins without any."""

import boto3
import pytest


@pytest.fixture(scope="session", autouse=True)
def bucket(request, pytestconfig):
    """Create the bucket on the embedded region."""
    if pytestconfig.getoption("--cloudbench-replay") or pytestconfig.getoption("--cloudbench-cloud") == "aws":
        return
    access = request.getfixturevalue("_cloudbench_access")
    client = boto3.client(
        "s3",
        endpoint_url=access.endpoint_url,
        region_name=access.region,
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
    )
    client.create_bucket(Bucket=pytestconfig.getini("cloudbench_ssm_bucket"))
