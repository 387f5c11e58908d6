"""The weather of a region's API: lags, faults, delays and refusals over real HTTP, without hosts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from region_calls import Calls, RecordingPlane, until

from pytest_cloudbench.limits.weather import parse_weather
from pytest_cloudbench.twin.api.refusal import Refusal
from pytest_cloudbench.twin.api.weather import RegionWeather

RUN = [{"Key": "run", "Value": "one"}]
BY_TAG = [{"Name": "tag:run", "Values": ["one"]}]


def tagged(kind: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": RUN}]


def refused(call: Any, **parameters: Any) -> str:
    """Return the code with which a call is refused."""
    with pytest.raises(ClientError) as refusal:
        call(**parameters)
    return str(refusal.value.response["Error"]["Code"])


def answered(call: Any, **parameters: Any) -> str:
    """Return the status and code with which a call is refused; "" if it is not."""
    try:
        call(**parameters)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return f"{status} {error.response['Error']['Code']}"
    return ""


def listed(calls: Calls, state: str = "*") -> list[str]:
    filters = [*BY_TAG, {"Name": "status", "Values": [state]}]
    return [volume["VolumeId"] for volume in calls.ec2.describe_volumes(Filters=filters)["Volumes"]]


class Clock:
    """A clock that stands until a test moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def let_weather(calls: Calls, text: str) -> Clock:
    """Put a region under weather whose clock the test moves."""
    clock = Clock()
    calls.front.region().let_weather(RegionWeather(parse_weather(text), clock))
    return clock


def test_a_new_volume_is_missing_from_listings_and_for_half_of_that_time_by_its_id(calls):
    clock = let_weather(calls, "describe-lag=12s")
    volume_id = calls.volume(TagSpecifications=tagged("volume"))
    clock.now += 5.9
    assert listed(calls) == []
    assert refused(calls.ec2.describe_volumes, VolumeIds=[volume_id]) == "InvalidVolume.NotFound"
    assert refused(calls.ec2.delete_volume, VolumeId=volume_id) == "InvalidVolume.NotFound"
    clock.now += 0.2
    assert calls.described_volume(volume_id)["VolumeId"] == volume_id
    clock.now += 5.8
    assert listed(calls) == []
    clock.now += 0.2
    assert listed(calls) == [volume_id]
    calls.ec2.delete_volume(VolumeId=volume_id)
    assert listed(calls) == []


@pytest.mark.parametrize("weather", ["describe-lag=60s"])
def test_all_kinds_of_new_resources_lag_and_calls_that_name_them_are_refused(calls, plane):
    group = calls.ec2.create_security_group(GroupName="ours", Description="ours")["GroupId"]
    calls.ec2.create_key_pair(KeyName="ours")
    calls.ec2.create_placement_group(GroupName="ours", Strategy="cluster")
    instance_id = calls.launch(wait=False)
    until(lambda: plane.named("boot"), "it boots")
    assert not calls.ec2.describe_instances()["Reservations"]
    assert not calls.ec2.describe_key_pairs()["KeyPairs"]
    assert not calls.ec2.describe_placement_groups()["PlacementGroups"]
    groups = calls.ec2.describe_security_groups()["SecurityGroups"]
    assert [each["GroupName"] for each in groups] == ["default"]
    launch = {"ImageId": calls.image(), "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    run = calls.ec2.run_instances
    assert refused(run, **launch, SecurityGroupIds=[group]) == "InvalidGroup.NotFound"
    assert refused(run, **launch, KeyName="ours") == "InvalidKeyPair.NotFound"
    assert refused(run, **launch, Placement={"GroupName": "ours"}) == "InvalidPlacementGroup.Unknown"
    terminate = calls.ec2.terminate_instances
    assert refused(terminate, InstanceIds=[instance_id]) == "InvalidInstanceID.NotFound"
    assert refused(calls.ec2.create_key_pair, KeyName="ours") == "InvalidKeyPair.Duplicate"
    assert not plane.named("terminate")


def test_a_changed_or_deleted_resource_is_described_as_it_was(calls):
    clock = let_weather(calls, "stale=5s,speed=2")
    volume_id, instance_id = calls.volume(TagSpecifications=tagged("volume")), calls.launch()
    calls.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
    clock.now += 2.4
    assert calls.described_volume(volume_id)["State"] == "available"
    assert listed(calls, "available") == [volume_id]
    assert len(calls.instance(instance_id)["BlockDeviceMappings"]) == 1
    clock.now += 0.2
    assert calls.described_volume(volume_id)["State"] == "in-use"
    assert listed(calls, "available") == []
    assert len(calls.instance(instance_id)["BlockDeviceMappings"]) == 2
    calls.ec2.detach_volume(VolumeId=volume_id)
    calls.ec2.delete_volume(VolumeId=volume_id)
    assert listed(calls) == [volume_id]
    assert refused(calls.ec2.delete_volume, VolumeId=volume_id) == "InvalidVolume.NotFound"
    clock.now += 2.6
    assert listed(calls) == []
    calls.ec2.terminate_instances(InstanceIds=[instance_id])
    assert calls.instance(instance_id)["State"]["Name"] == "running"
    clock.now += 2.6
    calls.wait_state(instance_id, "terminated")


def test_requests_beyond_the_bucket_of_their_action_are_refused(calls):
    volume_id = calls.volume()
    clock = let_weather(calls, "throttle=10%")

    def admitted_of(count: int, call: Any, **parameters: Any) -> int:
        codes = [answered(call, **parameters) for _ in range(count)]
        assert set(codes) <= {"", "503 RequestLimitExceeded"}
        return codes.count("")

    assert admitted_of(15, calls.ec2.describe_volumes, VolumeIds=[volume_id]) == 10
    assert admitted_of(15, calls.ec2.describe_volumes) == 5
    assert admitted_of(15, calls.ec2.describe_instances) == 5
    clock.now += 2.0
    assert admitted_of(15, calls.ec2.describe_volumes, Filters=BY_TAG) == 4
    assert admitted_of(15, calls.ec2.describe_volumes) == 2


@pytest.mark.parametrize("weather", ["errors=100%"])
def test_passing_errors_carry_out_nothing(calls, plane):
    codes = {
        refused(calls.ec2.create_volume, AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")
        for _ in range(20)
    }
    assert codes == {"InternalError", "Unavailable"}
    assert not plane.disks


@pytest.mark.parametrize("weather", ["lost-answers=100%"])
def test_a_lost_answer_is_of_a_call_that_was_carried_out(calls, plane):
    for _ in range(2):
        with pytest.raises(ConnectionClosedError):
            calls.volume(ClientToken="one token")
    assert len(plane.disks) == 1


@pytest.mark.parametrize("weather", ["lost-answers=30%,errors=20%,seed=4"])
def test_the_same_seed_draws_the_same_faults(calls, weather):
    def fate() -> str:
        try:
            calls.ec2.describe_volumes()
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        except ConnectionClosedError:
            return "lost"
        return "answered"

    def drawn(sky: RegionWeather) -> str:
        try:
            sky.check_call("ec2", "DescribeVolumes", {})
        except Refusal as refusal:
            return refusal.code
        return "lost" if sky.loses_answer("DescribeVolumes") else "answered"

    fates = [fate() for _ in range(30)]
    again, other = RegionWeather(parse_weather(weather)), RegionWeather(parse_weather(f"{weather},seed=5"))
    assert fates == [drawn(again) for _ in range(30)]
    assert fates != [drawn(other) for _ in range(30)]
    assert set(fates) == {"answered", "lost", "InternalError", "Unavailable"}


@pytest.mark.parametrize("weather", ["volume-delay=20s,instance-delay=40s,speed=40"])
def test_volumes_and_instances_take_their_time(calls, plane):
    asked = time.monotonic()
    volume_id = calls.volume()
    assert calls.described_volume(volume_id)["State"] == "creating"
    assert refused(calls.ec2.delete_volume, VolumeId=volume_id) == "IncorrectState"
    until(lambda: calls.described_volume(volume_id)["State"] == "available", "it is available")
    assert time.monotonic() - asked >= 0.5
    asked = time.monotonic()
    instance_id = calls.launch(wait=False)
    assert calls.instance(instance_id)["State"]["Name"] == "pending"
    calls.wait_state(instance_id, "running")
    assert time.monotonic() - asked >= 1.0
    asked = time.monotonic()
    calls.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
    assert calls.described_volume(volume_id)["Attachments"][0]["State"] == "attaching"
    assert refused(calls.ec2.detach_volume, VolumeId=volume_id) == "IncorrectState"
    until(lambda: calls.described_volume(volume_id)["Attachments"][0]["State"] == "attached", "attached")
    assert time.monotonic() - asked >= 0.5
    calls.ec2.detach_volume(VolumeId=volume_id)
    assert calls.described_volume(volume_id)["Attachments"][0]["State"] == "detaching"
    assert refused(calls.ec2.delete_volume, VolumeId=volume_id) == "VolumeInUse"
    until(lambda: calls.described_volume(volume_id)["State"] == "available", "it is detached")
    calls.ec2.delete_volume(VolumeId=volume_id)
    calls.ec2.terminate_instances(InstanceIds=[instance_id])
    assert calls.instance(instance_id)["State"]["Name"] == "shutting-down"
    calls.wait_state(instance_id, "terminated")
    assert not plane.disks


@pytest.mark.parametrize("weather", ["ssh-delay=40s,metal-delay=5min,speed=20"])
def test_an_instance_answers_ssh_later_and_bare_metal_much_later(calls, plane):
    delays = {kind: plane.plans[calls.launch(kind)].ssh_after_s for kind in ("m5.large", "c5.metal")}
    assert delays == {"m5.large": 2.0, "c5.metal": 15.0}


@pytest.mark.parametrize("weather", ["instance-delay=60s"])
def test_a_pending_instance_can_be_terminated_and_leaves_nothing(calls, plane):
    volumes = [{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 10, "VolumeType": "gp3"}}]
    instance_id = calls.launch(wait=False, BlockDeviceMappings=volumes)
    until(lambda: plane.named("attach"), "its host has its volume")
    calls.ec2.terminate_instances(InstanceIds=[instance_id])
    until(lambda: plane.named("terminate"), "its host ends without the rest of the delay")


def volume_ids(calls: Calls) -> list[str]:
    return [volume["VolumeId"] for volume in calls.ec2.describe_volumes()["Volumes"]]


CAPACITY = "no-capacity=m5.*@us-east-1a,unsupported=m5.large@us-east-1b,no-addresses=us-east-1c,vcpus=4"


@pytest.mark.parametrize("weather", [CAPACITY])
def test_launches_are_refused_by_type_zone_and_quota(calls, plane):
    image = calls.image()

    def code(instance_type: str, zone: str, count: int = 1) -> str:
        return refused(
            calls.ec2.run_instances,
            ImageId=image,
            InstanceType=instance_type,
            MinCount=count,
            MaxCount=count,
            Placement={"AvailabilityZone": zone},
        )

    assert code("m5.large", "us-east-1a") == "InsufficientInstanceCapacity"
    assert code("m5.large", "us-east-1b") == "Unsupported"
    assert code("c5.large", "us-east-1c") == "InsufficientFreeAddressesInSubnet"
    assert code("c5.xlarge", "us-east-1a", count=2) == "VcpuLimitExceeded"
    first = calls.launch("c5.xlarge", Placement={"AvailabilityZone": "us-east-1a"})
    assert code("c5.large", "us-east-1a") == "VcpuLimitExceeded"
    calls.ec2.terminate_instances(InstanceIds=[first])
    calls.wait_state(first, "terminated")
    calls.launch("c5.xlarge", Placement={"AvailabilityZone": "us-east-1a"})
    assert len(plane.named("boot")) == 2


@pytest.mark.parametrize("weather", ["late-no-capacity=@us-east-1a,instance-delay=4s,speed=20"])
def test_an_instance_without_capacity_ends_while_it_is_pending(calls, plane):
    volumes = [{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 10, "VolumeType": "gp3"}}]
    place = {"AvailabilityZone": "us-east-1a"}
    instance_id = calls.launch(wait=False, Placement=place, BlockDeviceMappings=volumes)
    assert calls.instance(instance_id)["State"]["Name"] == "pending"
    calls.wait_state(instance_id, "terminated")
    assert calls.instance(instance_id)["StateReason"]["Code"] == "Server.InsufficientInstanceCapacity"
    assert not plane.named("boot")
    assert not plane.taken
    assert volume_ids(calls) == []


def test_credentials_expire(calls):
    clock = let_weather(calls, "expiry=1h")
    clock.now += 3599
    calls.ec2.describe_volumes()
    clock.now += 2
    assert refused(calls.ec2.describe_volumes) == "RequestExpired"
    assert refused(calls.client("sts").get_caller_identity) == "ExpiredToken"
    assert refused(calls.client("ssm").get_parameter, Name="/any") == "ExpiredTokenException"


@pytest.mark.parametrize("weather", ["deny=CreateVolume+Delete*"])
def test_denied_actions_are_refused_also_as_dry_runs(calls: Calls, plane: RecordingPlane):
    volume = {"AvailabilityZone": "us-east-1a", "Size": 1, "VolumeType": "gp3"}
    assert refused(calls.ec2.create_volume, **volume) == "UnauthorizedOperation"
    assert refused(calls.ec2.create_volume, **volume, DryRun=True) == "UnauthorizedOperation"
    assert refused(calls.ec2.delete_key_pair, KeyName="any") == "UnauthorizedOperation"
    assert refused(calls.ec2.create_key_pair, KeyName="any", DryRun=True) == "DryRunOperation"
    assert not plane.disks


@pytest.mark.parametrize("weather", ["spot-interruption=400s,speed=200"])
def test_a_spot_instance_gets_a_notice_and_is_terminated(calls):
    asked = time.monotonic()
    on_demand = calls.launch()
    spot = calls.launch(InstanceMarketOptions={"MarketType": "spot"})
    described = calls.instance(spot)
    assert described["InstanceLifecycle"] == "spot"
    assert "InstanceLifecycle" not in calls.instance(on_demand)
    assert refused(calls.ec2.stop_instances, InstanceIds=[spot]) == "UnsupportedOperation"

    def status() -> str:
        requests = calls.ec2.describe_spot_instance_requests(
            SpotInstanceRequestIds=[described["SpotInstanceRequestId"]]
        )
        [request] = requests["SpotInstanceRequests"]
        assert request["InstanceId"] == spot
        return str(request["Status"]["Code"])

    until(lambda: status() == "marked-for-termination", "the notice")
    calls.wait_state(spot, "terminated")
    assert time.monotonic() - asked >= 2.6
    assert calls.instance(spot)["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert status() == "instance-terminated-no-capacity"
    assert calls.instance(on_demand)["State"]["Name"] == "running"


def test_a_spot_instance_lives_as_long_as_its_user_wants_without_weather(calls):
    spot = calls.launch(InstanceMarketOptions={"MarketType": "spot"})
    calls.ec2.terminate_instances(InstanceIds=[spot])
    calls.wait_state(spot, "terminated")
    [request] = calls.ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert (request["State"], request["Status"]["Code"]) == ("closed", "instance-terminated-by-user")
    block = {"MarketType": "capacity-block"}
    assert answered(calls.launch, InstanceMarketOptions=block) == "400 UnsupportedOperation"


def test_dry_runs_of_all_calls_change_nothing(calls):
    """A plan asks for permissions by dry runs: of the calls that create, and of those that read."""
    ec2 = calls.ec2
    volume_id, instance_id = calls.volume(), calls.launch()
    group_id = ec2.create_security_group(GroupName="ours", Description="ours")["GroupId"]
    in_zone = {"AvailabilityZone": "us-east-1a", "Size": 1, "VolumeType": "gp3"}
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
    launch = {"ImageId": calls.image(), "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    deletes = {"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": True}}
    dry = [
        answered(ec2.run_instances, **launch, DryRun=True),
        answered(ec2.create_volume, **in_zone, DryRun=True),
        answered(
            ec2.attach_volume, VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf", DryRun=True
        ),
        answered(ec2.delete_volume, VolumeId=volume_id, DryRun=True),
        answered(ec2.modify_volume, VolumeId=volume_id, Size=20, DryRun=True),
        answered(ec2.create_snapshot, VolumeId=volume_id, DryRun=True),
        answered(ec2.create_key_pair, KeyName="new", DryRun=True),
        answered(ec2.import_key_pair, KeyName="new", PublicKeyMaterial=b"ssh-ed25519 AAAA", DryRun=True),
        answered(ec2.create_security_group, GroupName="new", Description="new", DryRun=True),
        answered(ec2.authorize_security_group_ingress, GroupId=group_id, IpPermissions=[rule], DryRun=True),
        answered(ec2.delete_security_group, GroupId=group_id, DryRun=True),
        answered(ec2.create_placement_group, GroupName="new", Strategy="cluster", DryRun=True),
        answered(ec2.create_tags, Resources=[instance_id], Tags=RUN, DryRun=True),
        answered(
            ec2.modify_instance_attribute, InstanceId=instance_id, BlockDeviceMappings=[deletes], DryRun=True
        ),
        answered(
            ec2.modify_instance_metadata_options, InstanceId=instance_id, HttpTokens="required", DryRun=True
        ),
        answered(ec2.terminate_instances, InstanceIds=[instance_id], DryRun=True),
        answered(ec2.stop_instances, InstanceIds=[instance_id], DryRun=True),
        answered(ec2.get_console_output, InstanceId=instance_id, DryRun=True),
        answered(ec2.describe_instances, DryRun=True),
        answered(ec2.describe_volumes, DryRun=True),
        answered(ec2.describe_key_pairs, DryRun=True),
        answered(ec2.describe_instance_type_offerings, DryRun=True),
    ]
    assert set(dry) == {"412 DryRunOperation"}
    assert calls.instance(instance_id)["State"]["Name"] == "running"
    assert ec2.describe_key_pairs()["KeyPairs"] == []
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
    assert len(ec2.describe_security_groups()["SecurityGroups"]) == 2
    assert calls.described_volume(volume_id)["Size"] == 10
