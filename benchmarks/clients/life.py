"""boto3: the whole life of instances and volumes, by waiters and paginators. Ends with an error if anything differs.

eval "$(cloudbench twin up)"; python benchmarks/clients/life.py
"""

from __future__ import annotations

import boto3

IMAGES = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
COUNT = 7
RUN = [{"Key": "client", "Value": "boto3"}]
OURS = [{"Name": "tag:client", "Values": ["boto3"]}]
PAGE = {"PageSize": 5}


def main() -> None:
    ec2, ssm = boto3.client("ec2"), boto3.client("ssm")
    image = ssm.get_parameter(Name=IMAGES)["Parameter"]["Value"]
    ec2.create_key_pair(KeyName="boto3")
    group = ec2.create_security_group(GroupName="boto3", Description="boto3")["GroupId"]
    launched = ec2.run_instances(
        ImageId=image, InstanceType="m5.large", MinCount=2, MaxCount=2, KeyName="boto3", SecurityGroupIds=[group],
        TagSpecifications=[{"ResourceType": "instance", "Tags": RUN}],
    )["Instances"]  # fmt: skip
    instances = [each["InstanceId"] for each in launched]
    zone = launched[0]["Placement"]["AvailabilityZone"]
    volumes = [
        ec2.create_volume(
            AvailabilityZone=zone, Size=4, VolumeType="gp3",
            TagSpecifications=[{"ResourceType": "volume", "Tags": RUN}],
        )["VolumeId"]
        for _ in range(COUNT)
    ]  # fmt: skip
    try:
        ec2.get_waiter("instance_status_ok").wait(InstanceIds=instances)
        ec2.get_waiter("volume_available").wait(VolumeIds=volumes)
        pages = list(ec2.get_paginator("describe_volumes").paginate(Filters=OURS, PaginationConfig=PAGE))
        assert [len(page["Volumes"]) for page in pages] == [5, 2]
        assert {each["VolumeId"] for page in pages for each in page["Volumes"]} == set(volumes)
        types = ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 100})
        sizes = [len(page["InstanceTypes"]) for page in types]
        assert set(sizes[:-1]) == {100}
        tags = ec2.get_paginator("describe_tags").paginate(Filters=OURS, PaginationConfig=PAGE)
        assert sum(len(page["Tags"]) for page in tags) == len(instances) + len(volumes)

        ec2.attach_volume(VolumeId=volumes[0], InstanceId=instances[0], Device="/dev/sdf")
        ec2.get_waiter("volume_in_use").wait(VolumeIds=volumes[:1])
        ec2.modify_volume(VolumeId=volumes[0], Size=8, Iops=4000)
        snapshot = ec2.create_snapshot(VolumeId=volumes[0])["SnapshotId"]
        ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot])
        ec2.delete_snapshot(SnapshotId=snapshot)
        ec2.detach_volume(VolumeId=volumes[0])
        ec2.get_waiter("volume_available").wait(VolumeIds=volumes)
        ec2.stop_instances(InstanceIds=instances)
        ec2.get_waiter("instance_stopped").wait(InstanceIds=instances)
        ec2.start_instances(InstanceIds=instances)
        ec2.get_waiter("instance_running").wait(InstanceIds=instances)
    finally:
        ec2.terminate_instances(InstanceIds=instances)
        ec2.get_waiter("instance_terminated").wait(InstanceIds=instances)
        for volume in volumes:
            ec2.delete_volume(VolumeId=volume)
        ec2.get_waiter("volume_deleted").wait(VolumeIds=volumes)
        ec2.delete_security_group(GroupId=group)
        ec2.delete_key_pair(KeyName="boto3")
    assert not ec2.describe_volumes(Filters=OURS)["Volumes"]
    print("boto3", boto3.__version__, "held")


main()
