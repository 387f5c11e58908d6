"""Terraform's AWS provider builds, changes and destroys hardware in a region; what it describes is what it applied.

The provider is not a part of the tests: CLOUDBENCH_TEST_TERRAFORM_PLUGINS names a directory that has it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from service_clients import client_of

pytestmark = pytest.mark.embedded

CONFIGURATION = Path(__file__).with_name("terraform") / "main.tf"
PLUGINS = os.environ.get("CLOUDBENCH_TEST_TERRAFORM_PLUGINS", "")
NO_CHANGES = 0
# What the region has before anything is made, by the call and the key of its answer.
EVERYTHING = {
    "describe_vpcs": "Vpcs",
    "describe_subnets": "Subnets",
    "describe_internet_gateways": "InternetGateways",
    "describe_route_tables": "RouteTables",
    "describe_security_groups": "SecurityGroups",
    "describe_key_pairs": "KeyPairs",
    "describe_placement_groups": "PlacementGroups",
    "describe_addresses": "Addresses",
    "describe_volumes": "Volumes",
    "describe_network_interfaces": "NetworkInterfaces",
}


class Terraform:
    """Terraform in a directory of its own, with the credentials of a region."""

    def __init__(self, directory: Path, access: Any) -> None:
        self.directory = directory
        shutil.copy(CONFIGURATION, directory)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / "key")], check=True
        )
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TF_"))},
            "AWS_ENDPOINT_URL": access.endpoint_url,
            "AWS_REGION": access.region,
            "AWS_ACCESS_KEY_ID": access.access_key,
            "AWS_SECRET_ACCESS_KEY": access.secret_key,
            "CHECKPOINT_DISABLE": "1",
            "TF_VAR_public_key": (directory / "key.pub").read_text().strip(),
        }

    def run(self, command: str, *more: str, **variables: str) -> subprocess.CompletedProcess[str]:
        settings = {f"TF_VAR_{name}": value for name, value in variables.items()}
        return subprocess.run(
            ["terraform", command, "-no-color", *more],
            cwd=self.directory, env={**self.environment, **settings}, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip

    def change(self, command: str, **variables: str) -> str:
        done = self.run(command, "-auto-approve", "-input=false", **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def plan(self, **variables: str) -> int:
        return self.run("plan", "-detailed-exitcode", "-input=false", **variables).returncode


@pytest.mark.skipif(
    not PLUGINS or shutil.which("terraform") is None,
    reason="needs terraform, and CLOUDBENCH_TEST_TERRAFORM_PLUGINS with a directory of the AWS provider",
)
def test_terraform_builds_changes_and_destroys(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    access = request.getfixturevalue("_cloudbench_access")
    request.getfixturevalue("_cloudbench_cloud")
    ec2 = client_of(access)

    def made(output: dict[str, Any]) -> set[str]:
        """Return what carries the tag of the configuration, or lies in its VPC."""
        tagged = ec2.describe_tags(Filters=[{"Name": "tag:project", "Values": ["promises"]}])["Tags"]
        within = [
            str(each)
            for call, key in EVERYTHING.items()
            for each in getattr(ec2, call)()[key]
            if each.get("VpcId") == output["vpc_id"]["value"]
        ]
        living = {
            instance["InstanceId"]
            for reservation in ec2.describe_instances()["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
        }
        return {*within} | {
            tag["ResourceId"]
            for tag in tagged
            if tag["ResourceType"] != "instance" or tag["ResourceId"] in living
        }

    terraform = Terraform(tmp_path, access)
    begun = terraform.run("init", f"-plugin-dir={PLUGINS}", "-input=false")
    assert begun.returncode == 0, begun.stderr
    try:
        terraform.change("apply")
        assert terraform.plan() == NO_CHANGES
        output = json.loads(terraform.run("output", "-json").stdout)
        said = subprocess.run(
            [
                "ssh", "-i", str(tmp_path / "key"), "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
                "-o", f"UserKnownHostsFile={tmp_path}/known", f"admin@{output['address']['value']}",
                "ls /var/lib/made-by-terraform; sudo nvme list",
            ],
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout  # fmt: skip
        assert "made-by-terraform" in said
        assert output["volume_id"]["value"].replace("-", "") in said

        changed = {"data": '{"type":"io2","size":12,"iops":4000}', "role": "replica"}
        assert "0 added, 2 changed, 0 destroyed" in terraform.change("apply", **changed)
        assert terraform.plan(**changed) == NO_CHANGES
        volume = ec2.describe_volumes(VolumeIds=[output["volume_id"]["value"]])["Volumes"][0]
        assert (volume["VolumeType"], volume["Size"], volume["Iops"]) == ("io2", 12, 4000)
        assert made(output)
    finally:
        terraform.change("destroy")
    assert made(output) == set()
