"""Hardware of the account that the run did not create: found, described, and never changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_cloudbench import ExistingHardware, gp3
from pytest_cloudbench.aws import existing
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.errors import UnusableImage
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.terraform import Terraform, TerraformError
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.facts import NOT_OPTIMISED

ZONE = "us-east-1a"
IMAGE = "ami-760aaa0f"
"""An Amazon Linux image that moto has."""
UNKNOWN = "0123456789abcdef0"


class Owner:
    """Somebody who has instances and volumes of their own."""

    def __init__(self, ec2: Any) -> None:
        self.ec2 = ec2
        self.image = IMAGE
        self.instances: list[str] = []
        self.volumes: list[str] = []

    def launch(self, type: str = "m5.large", **options: Any) -> str:
        tags = options.pop("tags", {})
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        given = {"TagSpecifications": [{"ResourceType": "instance", "Tags": pairs}]} if tags else {}
        made = self.ec2.run_instances(
            ImageId=self.image,
            InstanceType=type,
            MinCount=1,
            MaxCount=1,
            Placement={"AvailabilityZone": ZONE},
            BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8}}],  # as its image says
            **given,
            **options,
        )
        self.instances.append(made["Instances"][0]["InstanceId"])
        return self.instances[-1]

    def volume(self, instance_id: str | None, **options: Any) -> str:
        made = self.ec2.create_volume(AvailabilityZone=ZONE, Size=4, **{"VolumeType": "gp3", **options})
        self.volumes.append(made["VolumeId"])
        if instance_id is not None:
            self.ec2.attach_volume(VolumeId=made["VolumeId"], InstanceId=instance_id, Device="/dev/sdf")
        return self.volumes[-1]

    def described(self) -> str:
        """All that the API says of what is theirs."""
        found = [
            self.ec2.describe_instances(InstanceIds=self.instances)["Reservations"],
            self.ec2.describe_volumes(VolumeIds=self.volumes)["Volumes"] if self.volumes else [],
        ]
        return json.dumps(found, default=str, sort_keys=True)


@pytest.fixture
def owner(ec2) -> Iterator[Owner]:
    found = Owner(ec2)
    yield found
    ec2.terminate_instances(InstanceIds=found.instances)


@pytest.fixture
def named(access, journals, tmp_path, heard) -> Iterator[Callable[..., Cloud]]:
    """Return a cloud whose session has these names in Terraform."""
    made = []

    def make(**outputs: str) -> Cloud:
        file = tmp_path / "outputs.json"
        file.write_text(json.dumps({name: {"value": value} for name, value in outputs.items()}))
        run_id = new_run_id()
        cloud = Cloud(access, run_id, Journal.open(run_id, access, journals), terraform=Terraform(file))
        cloud.listen(heard.append)
        made.append(cloud)
        return cloud

    yield make
    for cloud in made:
        cloud.close()


def test_an_instance_and_its_volume_are_described_as_new_ones_are_and_left_alone(cloud, owner, heard):
    instance_id = owner.launch("c5.18xlarge", tags={"role": "db"}, KeyName="theirs", EbsOptimized=True)
    volume_id = owner.volume(instance_id, Iops=4000, Throughput=250)
    before = owner.described()
    found = cloud.find_instance(id=instance_id)
    volume = cloud.find_volume(id=volume_id, instance=found)
    assert (found.id, found.type, found.state, found.zone) == (instance_id, "c5.18xlarge", "running", ZONE)
    assert found.limits == cloud.limits("c5.18xlarge")
    assert (found.login_user, found.key_name, found.tags) == ("ec2-user", "theirs", {"role": "db"})
    assert (found.private_key, found.host_public_key) == ("", "")
    assert {each.volume_id for each in found.attachments} > {volume_id}
    assert volume.spec == gp3(size_gib=4, iops=4000, throughput_mib=250)
    assert (volume.device, volume.attachment.instance_id, volume.size.gib) == ("/dev/sdf", instance_id, 4)
    assert found.existing
    assert volume.existing
    cloud.release([found, volume])
    assert cloud.close().removed == ()
    assert owner.described() == before
    assert {each.operation.partition("_")[0] for each in heard} == {"describe"}


def test_an_instance_is_found_by_the_tags_that_it_alone_has(cloud, owner):
    db = owner.launch(tags={"role": "db", "stage": "test"})
    other = owner.launch(tags={"role": "db", "stage": "live"})
    gone = owner.launch(tags={"role": "cache"})
    owner.ec2.terminate_instances(InstanceIds=[gone])
    assert cloud.find_instance(tags={"role": "db", "stage": "test"}).id == db
    with pytest.raises(ExistingHardware, match="2 instances have the tag role=db") as error:
        cloud.find_instance(tags={"role": "db"})
    assert db in str(error.value)
    assert other in str(error.value)
    with pytest.raises(ExistingHardware, match="no instance with the tag role=cache in us-east-1 of account"):
        cloud.find_instance(tags={"role": "cache"})


def test_terraform_names_instances_and_volumes(named, owner):
    instance_id = owner.launch()
    volume_id = owner.volume(instance_id)
    cloud = named(db=instance_id, data=volume_id)
    assert cloud.find_instance(terraform="db").id == instance_id
    assert cloud.find_volume(terraform="data").id == volume_id
    with pytest.raises(ExistingHardware, match=r"'data' of Terraform: 'vol-.*' is not an id of an instance"):
        cloud.find_instance(terraform="data")


def test_names_of_terraform_need_the_option(cloud):
    with pytest.raises(TerraformError, match="--cloudbench-terraform=DIR"):
        cloud.find_instance(terraform="db")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"id": f"i-{UNKNOWN}"},
            f"no instance i-{UNKNOWN} in us-east-1 of account [0-9]{{12}}.*: check it, --cloudbench-cloud",
        ),
        ({"id": "i-12"}, "'i-12' is not an id of an instance: use one such as"),
        ({"id": f"vol-{UNKNOWN}"}, "is not an id of an instance"),
    ],
)
def test_an_instance_that_is_not_there_is_refused(cloud, asked, said):
    with pytest.raises(ExistingHardware, match=said):
        cloud.find_instance(**asked)


@pytest.mark.parametrize(("end", "state"), [("stop", "stopped"), ("terminate", "terminated")])
def test_an_instance_that_does_not_run_is_refused(cloud, owner, end, state):
    instance_id = owner.launch()
    getattr(owner.ec2, f"{end}_instances")(InstanceIds=[instance_id])
    with pytest.raises(ExistingHardware, match=f"instance {instance_id} is '{state}': "):
        cloud.find_instance(id=instance_id)


def test_a_volume_that_is_free_elsewhere_or_not_there_is_refused(cloud, owner):
    here, there = cloud.find_instance(id=owner.launch()), owner.launch()
    free, elsewhere = owner.volume(None), owner.volume(there)
    for volume_id, said in (
        (free, "is 'available' and not attached to an instance"),
        (elsewhere, f"is attached to {there}, not to m5.large {here.id}"),
        (f"vol-{UNKNOWN}", f"no volume vol-{UNKNOWN} in us-east-1"),
        ("vol-x", "not an id of a volume"),
    ):
        with pytest.raises(ExistingHardware, match=said):
            cloud.find_volume(id=volume_id, instance=here)


def test_a_volume_type_without_known_limits_is_refused(cloud, owner, monkeypatch):
    monkeypatch.setattr(existing, "VOLUME_TYPES", {})
    volume_id = owner.volume(owner.launch(), VolumeType="standard")
    with pytest.raises(ExistingHardware, match="has the type 'standard', whose limits are unknown"):
        cloud.find_volume(id=volume_id)


def test_without_ebs_optimisation_no_ebs_limits_are_promised(cloud, owner):
    found = cloud.find_instance(id=owner.launch("m4.large", EbsOptimized=True))
    assert found.limits.ebs_iops is not None
    plain = cloud.limits("m3.xlarge")
    assert plain.ebs_optimised == "supported"
    found = cloud.find_instance(id=owner.launch("m3.xlarge", EbsOptimized=False))
    assert found.limits.ebs_optimised == NOT_OPTIMISED
    assert found.limits.ebs_iops is None
    assert any("without EBS optimisation" in each for each in found.conditions)
    found = cloud.find_instance(id=owner.launch("m3.xlarge", EbsOptimized=True))
    assert found.limits == plain


def test_the_login_user_is_that_of_the_image_or_the_given_one(cloud, owner):
    instance_id = owner.launch()
    assert cloud.find_instance(id=instance_id, user="admin").login_user == "admin"
    owner.image = owner.ec2.register_image(Name="their own build", Architecture="x86_64")["ImageId"]
    unnamed = owner.launch()
    with pytest.raises(UnusableImage, match=f"the login user of instance {unnamed} is unknown"):
        cloud.find_instance(id=unnamed)
    owner.ec2.deregister_image(ImageId=owner.image)
    assert cloud.find_instance(id=unnamed, user="admin").login_user == "admin"


def test_the_private_key_of_the_options_is_used_for_its_key_pair_only(make_cloud, access, owner):
    settings = AccountSettings(key_name="theirs", private_key="PRIVATE")
    cloud = make_cloud(replace(access, settings=settings))
    assert cloud.find_instance(id=owner.launch(KeyName="theirs")).private_key == "PRIVATE"
    assert cloud.find_instance(id=owner.launch(KeyName="another")).private_key == ""


def test_a_key_of_the_options_leaves_the_user_s_own_login_in_force(
    make_cloud, access, owner, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n Port 2222\n IdentityFile ~/other\n")
    settings = AccountSettings(key_name="theirs", private_key="PRIVATE", private_key_file="/keys/theirs")
    cloud = make_cloud(replace(access, settings=settings))
    found = cloud.find_instance(id=owner.launch(KeyName="theirs"))
    server = cloud.host(replace(found, address="203.0.113.7"), connect_timeout_s=1.0)._server
    assert server.port == 2222
    assert server.key.files == ("/keys/theirs", str(tmp_path / "other"))


def test_the_type_must_be_the_one_that_the_test_names(cloud, owner):
    instance_id = owner.launch()
    ec2 = Ec2(cloud, test_name="test")
    assert ec2.existing(instance_id, type="m5.large").type == "m5.large"
    with pytest.raises(
        ExistingHardware, match=f"m5.large {instance_id} is not the c5.18xlarge that the test names"
    ):
        ec2.existing(instance_id, type="c5.18xlarge")


def test_what_would_change_existing_hardware_is_refused_before_any_call(cloud, owner, heard):
    instance_id = owner.launch()
    volume_id, found = owner.volume(instance_id), cloud.find_instance(id=instance_id)
    [root] = {each.volume_id for each in found.attachments} - {volume_id}
    before = owner.described()
    ec2 = Ec2(cloud, test_name="test")
    volume = ec2.existing_volume(volume_id)
    instance = volume.instance
    assert ec2.existing(instance_id) is instance
    assert ec2.existing_volume(volume_id, instance=instance) is volume
    with pytest.raises(ExistingHardware, match=f"{root} is the root volume of m5.large {instance_id}"):
        ec2.existing_volume(root, instance=instance)
    asked = len(heard)
    for change in (
        instance.stop,
        instance.start,
        instance.reboot,
        lambda: ec2.create_volume(gp3(size_gib=1), instance),
        volume.detach,
        volume.snapshot,
        lambda: volume.modify(iops=4000),
        volume.mounted,
        volume.beside(volume).striped,
    ):
        with pytest.raises(ExistingHardware, match="existed before this run"):
            change()
    assert len(heard) == asked
    ec2.close()
    assert cloud.close().removed == ()
    assert owner.described() == before
    assert {each.operation.partition("_")[0] for each in heard} == {"describe"}
