"""EBS limits in an instance's tags: the limits of its plan, and tags that are refused."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, RecordingPlane

from pytest_cloudbench import recorded_limits
from pytest_cloudbench.limits.quantities import Throughput

REVIEW = recorded_limits(ebs_iops=64_000, ebs_throughput="1,085 MiB/s", source="a review")


def tagged(tags: dict[str, str], kind: str = "instance") -> dict[str, Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": pairs}]}


def test_an_instance_has_the_limits_in_its_tags(calls: Calls, plane: RecordingPlane) -> None:
    calls.launch("i3.metal", **tagged(REVIEW.tags))
    (plan,) = plane.plans.values()
    for limit in (plan.ebs_limit, plan.ebs_baseline):
        assert limit.iops.per_second == 64_000
        assert limit.throughput == Throughput.from_mib(1_085)


def test_tags_of_volumes_do_not_limit_the_instance(calls: Calls, plane: RecordingPlane) -> None:
    calls.launch("i3.metal", **tagged(REVIEW.tags, "volume"))
    (plan,) = plane.plans.values()
    assert plan.ebs_limit.iops.per_second == 80_000


@pytest.mark.parametrize(
    ("type_name", "tags", "says"),
    [
        ("i3.metal", {"cloudbench:ebs-iops": "many"}, "a whole number from 1 up"),
        ("t2.micro", {"cloudbench:ebs-iops": "1000"}, "has no EBS figures of its own"),
    ],
)
def test_a_tag_with_an_invalid_limit_is_refused(
    calls: Calls, type_name: str, tags: dict[str, str], says: str
) -> None:
    with pytest.raises(ClientError, match=says) as refused:
        calls.launch(type_name, **tagged(tags))
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"
