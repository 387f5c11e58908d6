"""The instance metadata service, with curl as programs of an instance use it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from service_clients import client_of

from pytest_cloudbench import Instance, gp3

pytestmark = pytest.mark.embedded

URL = "http://169.254.169.254/latest"


@pytest.fixture
def read(ec2_instance: Instance) -> Callable[..., tuple[int, str]]:
    """Read a path; return the status and the body."""

    def curl(path: str, *options: str) -> tuple[int, str]:
        asked = ec2_instance.run(
            ["curl", "-s", "-m", "5", "-w", "\\n%{http_code}", *options, f"{URL}/{path}"]
        )
        body, _, status = asked.stdout.rpartition("\n")
        return int(status), body

    return curl


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_an_instance_reads_its_own_metadata(ec2_instance, ebs_volume, read, request):
    access = request.getfixturevalue("_cloudbench_access")
    ec2 = client_of(access)

    def change(**options: str) -> None:
        ec2.modify_instance_metadata_options(InstanceId=ec2_instance.id, **options)

    assert read("meta-data/instance-id")[0] == 401, "runs launch instances that require tokens"
    ttl = ("-X", "PUT", "-H", "X-aws-ec2-metadata-token-ttl-seconds: 60")
    status, token = read("api/token", *ttl)
    assert status == 200
    assert read("api/token", "-X", "PUT")[0] == 400
    assert read("api/token", *ttl, "-H", "X-Forwarded-For: 198.18.0.1")[0] == 403
    assert read("meta-data/", "-H", "X-aws-ec2-metadata-token: other")[0] == 401

    def get(path: str) -> str:
        status, body = read(path, "-H", f"X-aws-ec2-metadata-token: {token}")
        assert status == 200, path
        return body

    [described] = ec2.describe_instances(InstanceIds=[ec2_instance.id])["Reservations"][0]["Instances"]
    assert get("meta-data/instance-id") == ec2_instance.id
    assert get("meta-data/instance-type") == "m5.large"
    assert get("meta-data/ami-id") == described["ImageId"]
    assert get("meta-data/local-ipv4") == described["PrivateIpAddress"]
    assert get("meta-data/placement/availability-zone") == described["Placement"]["AvailabilityZone"]
    assert get("meta-data/placement/region") == access.region
    assert {"instance-id", "placement/", "block-device-mapping/"} <= set(get("meta-data/").split("\n"))
    assert set(get("meta-data/block-device-mapping/").split("\n")) == {"ami", "ebs1", "root"}
    mac = get("meta-data/mac")
    assert mac == ec2_instance.run(["cat", "/sys/class/net/eth0/address"]).stdout.strip()
    assert get(f"meta-data/network/interfaces/macs/{mac}/subnet-id") == described["SubnetId"]
    identity = json.loads(get("dynamic/instance-identity/document"))
    assert (identity["instanceId"], identity["region"]) == (ec2_instance.id, access.region)
    if described.get("KeyName"):
        assert get("meta-data/public-keys/") == f"0={described['KeyName']}"
        assert get("meta-data/public-keys/0/openssh-key").startswith("ssh-")
    assert get("user-data").startswith("#cloud-config")
    with_token = ("-H", f"X-aws-ec2-metadata-token: {token}")
    assert read("meta-data/tags/instance/", *with_token)[0] == 404
    assert read("meta-data/iam/info", *with_token)[0] == 404
    assert read("meta-data/nothing", *with_token)[0] == 404

    change(HttpTokens="optional", InstanceMetadataTags="enabled")
    assert read("meta-data/instance-id") == (200, ec2_instance.id)
    assert "cloudbench:run" in read("meta-data/tags/instance/")[1]
    change(HttpEndpoint="disabled")
    assert read("meta-data/instance-id")[0] == 403
