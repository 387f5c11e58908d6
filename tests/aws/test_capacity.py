"""Zones and types without room, at once and later, Capacity Reservations, and spot instances."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from pytest_cloudbench.aws import waits
from pytest_cloudbench.errors import InfrastructureError
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.errors import (
    CloudError,
    NotOffered,
    SpotInterrupted,
    UnknownInstanceType,
    ZoneMismatch,
)
from pytest_cloudbench.resources.facts import Launch
from pytest_cloudbench.resources.markers import BadMarker, RequestedPair, read_markers
from pytest_cloudbench.resources.spot import unless_interrupted


def in_zones(cloud, *zones):
    subnets = {cloud.catalog.places.find("c5.large", zone).subnet_id for zone in zones}
    return lambda asked: asked["SubnetId"] in subnets


def end_in(faults, code, *zones):
    """Let instances in these zones end instead of running, with this StateReason. Returns their ids."""
    ended = []

    def end(parsed, **_):
        for one in [each for group in parsed.get("Reservations", []) for each in group["Instances"]]:
            if one["Placement"]["AvailabilityZone"] in zones and one["State"]["Name"] == "running":
                one["State"] = {"Code": 48, "Name": "terminated"}
                one["StateReason"] = {"Code": code, "Message": f"{code}: so it was"}
                ended.append(one["InstanceId"])

    faults.on("after-call", "DescribeInstances", end)
    return ended


@pytest.mark.fault("API", "a zone or a type has no room")
@pytest.mark.parametrize(
    "code", ["InsufficientInstanceCapacity", "InsufficientFreeAddressesInSubnet", "Unsupported"]
)
def test_a_zone_without_room_leads_to_the_next(cloud, faults, code):
    faults.answer("RunInstances", code, when=in_zones(cloud, "us-east-1a"))
    assert cloud.launch("c5.large").zone == "us-east-1b"


@pytest.mark.fault("API", "a zone or a type has no room")
@pytest.mark.parametrize("code", ["Server.InsufficientInstanceCapacity", "Server.InternalError"])
def test_an_instance_that_ends_for_want_of_room_leads_to_the_next_zone(cloud, faults, code):
    ended = end_in(faults, code, "us-east-1a")
    pair = cloud.launch_many([Launch("c5.large"), Launch("c5.xlarge")])
    assert [one.zone for one in pair] == ["us-east-1b"] * 2
    faults.none("DescribeInstances", "after-call")
    assert len(set(ended)) == 2
    assert cloud.close().clean


@pytest.mark.parametrize("code", ["VcpuLimitExceeded", "ReservationCapacityExceeded"])
def test_a_quota_that_ending_instances_of_the_run_use_up_is_waited_for(cloud, faults, code):
    """The instances of the previous test count until they have terminated."""
    former = cloud.launch("c5.large")
    looks = []

    def shutting_down(parsed, **_):
        for one in [each for group in parsed.get("Reservations", []) for each in group["Instances"]]:
            if one["InstanceId"] == former.id and len(looks) < 3:
                looks.append(one["State"]["Name"])
                one["State"] = {"Code": 32, "Name": "shutting-down"}

    faults.on("after-call", "DescribeInstances", shutting_down)
    calls = faults.answer("RunInstances", code, times=1)
    assert cloud.launch("c5.large").state == "running"
    assert (len(calls), len(looks)) == (1, 3)


def test_a_quota_that_was_used_up_until_just_now_is_asked_for_once_more(cloud, faults):
    former = cloud.launch("c5.large")
    cloud.release([former])
    cloud.instances.wait_until_ended(former)
    calls = faults.answer("RunInstances", "VcpuLimitExceeded", times=1)
    assert cloud.launch("c5.large").state == "running"
    assert len(calls) == 1


def test_a_quota_that_no_ending_instance_uses_up_is_the_error(cloud, faults):
    cloud.launch("c5.large")
    calls = faults.answer("RunInstances", "VcpuLimitExceeded")
    with pytest.raises(CloudError, match="Service Quotas"):
        cloud.launch("c5.large")
    assert len(calls) == 1


@pytest.mark.fault("kill", "Ctrl-C during a launch", leak=True)
@pytest.mark.parametrize("interrupted", ["launch", "wait_until_running"])
def test_an_interrupted_launch_releases_what_it_launched(cloud, monkeypatch, interrupted):
    """Else the lease of these instances is renewed until the run ends."""
    launched = threading.Event()
    step = getattr(cloud.instances, interrupted)

    def interrupt(*asked):
        answer = step(*asked)
        launched.set()
        return answer

    def wait(*asked, **options):
        done = wait_for(*asked, **options)
        if launched.is_set():
            monkeypatch.undo()
            raise KeyboardInterrupt
        return done

    wait_for = waits.wait
    monkeypatch.setattr(cloud.instances, interrupted, interrupt)
    monkeypatch.setattr(waits, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        cloud.launch_many([Launch("c5.large")] * 2)
    created = [each for each in cloud.ledger.all() if each.kind.name == "instance"]
    assert created
    assert not cloud.leases._held
    began = time.monotonic()
    while not all(each.accepted for each in created):
        assert time.monotonic() - began < 20
        time.sleep(0.02)


def test_an_instance_that_ends_for_another_reason_is_the_error(cloud, faults):
    end_in(faults, "Client.VolumeLimitExceeded", "us-east-1a")
    with pytest.raises(CloudError, match=r"Client\.VolumeLimitExceeded") as caught:
        cloud.launch("c5.large")
    assert caught.value.code == "VolumeLimitExceeded"


def other_types(*names, **options):
    return tuple(Launch(name, **options) for name in names)


def test_another_type_is_launched_once_no_zone_has_room(cloud, faults):
    faults.answer(
        "RunInstances",
        "InsufficientInstanceCapacity",
        when=lambda asked: asked["InstanceType"] != "m5.xlarge",
    )
    one = cloud.launch("c5.xlarge", alternatives=other_types("c5a.xlarge", "m5.xlarge"))
    assert (one.type, one.requested_type, one.limits.name) == ("m5.xlarge", "c5.xlarge", "m5.xlarge")
    assert one.conditions == ("m5.xlarge instead of c5.xlarge, for which there was no capacity",)
    plain = cloud.launch("m5.xlarge", alternatives=other_types("c5.xlarge"))
    assert (plain.type, plain.conditions) == ("m5.xlarge", ())


def test_the_first_type_is_tried_in_every_zone_first(cloud, faults):
    calls = faults.answer("RunInstances", "InsufficientInstanceCapacity")
    with pytest.raises(
        CloudError, match=r"launch c5\.xlarge .*also without success: .*m5\.xlarge in "
    ) as caught:
        cloud.launch("c5.xlarge", alternatives=other_types("m5.xlarge"))
    assert caught.value.code == "InsufficientInstanceCapacity"
    places = cloud.catalog.places
    assert len(calls) == len(places.candidates(["c5.xlarge"])) + len(places.candidates(["m5.xlarge"]))


def test_a_type_that_the_zone_lacks_is_passed_over(cloud):
    one = cloud.launch(
        "t3.micro", zone="us-east-1e", alternatives=other_types("c5.18xlarge", "t2.micro", zone="us-east-1e")
    )
    assert (one.type, one.zone) == ("t2.micro", "us-east-1e")


def test_an_unknown_alternative_is_refused_before_anything_is_created(cloud):
    with pytest.raises(UnknownInstanceType):
        cloud.launch("c5.xlarge", alternatives=other_types("c5.extralarge"))
    assert cloud.journal.intentions == ()


def test_the_factory_launches_alternatives_with_their_own_limits(cloud, faults):
    from pytest_cloudbench.limits.recorded_limits import recorded_limits

    faults.answer(
        "RunInstances",
        "InsufficientInstanceCapacity",
        when=lambda asked: asked["InstanceType"] == "c5.18xlarge",
    )
    stated = {"m5.24xlarge": recorded_limits(ebs_iops=70_000, source="a review", date="2026")}
    factory = Ec2(cloud, test_name="test_it", type_limits=stated)
    instance = factory.launch("c5.18xlarge", or_types=["m5.24xlarge"])
    assert (instance.type, instance.ebs_iops.limit.per_second) == ("m5.24xlarge", 70_000)
    assert instance.launched.tags["Name"] == "cloudbench test_it"
    factory.close()


# Markers


def instance_marker(*args, **kwargs):
    return read_markers({"ec2_instance": SimpleNamespace(args=args, kwargs=kwargs)}).instance


def test_the_marker_names_types_market_and_reservation():
    asked = instance_marker("m7i.xlarge", or_types=("m6i.xlarge",), spot=True)
    assert (asked.or_types, asked.spot, asked.capacity_reservation) == (("m6i.xlarge",), True, None)
    assert instance_marker("m7i.xlarge", capacity_reservation="cr-0123").capacity_reservation == "cr-0123"


@pytest.mark.parametrize(
    "options",
    [
        {"or_types": ("m6i.xlarge", "m5.xlarge"), "spot": True, "tenancy": "dedicated"},
        {"capacity_reservation": "cr-0123", "security_group": "sg-0123456789abcdef0"},
    ],
)
def test_both_ends_of_a_pair_take_the_options_of_an_instance(options):
    asked = read_markers({"ec2_pair": pytest.mark.ec2_pair("m7i.xlarge", **options).mark}).pair
    assert asked.client == asked.server == instance_marker("m7i.xlarge", **options)


def test_a_reservation_is_for_pairs_of_one_type():
    with pytest.raises(BadMarker, match=r"m7i\.xlarge and a m7i\.large"):
        RequestedPair.of("m7i.xlarge", "m7i.large", capacity_reservation="cr-0123")


def test_a_pair_without_room_becomes_one_of_the_next_type(cloud, faults, asked_of):
    faults.answer(
        "RunInstances",
        "InsufficientInstanceCapacity",
        when=lambda asked: asked["InstanceType"] == "c5.xlarge",
    )
    factory = Ec2(cloud, test_name="test_it")
    pair = factory.pair("c5.xlarge", or_types=["m5.xlarge"], spot=True)
    for end in (pair.client, pair.server):
        assert (end.type, end.launched.requested_type, end.launched.market) == (
            "m5.xlarge",
            "c5.xlarge",
            "spot",
        )
        assert "spot instance" in end.launched.conditions
    assert {asked["InstanceMarketOptions"]["MarketType"] for asked in asked_of(cloud, "run_instances")} == {
        "spot"
    }
    factory.close()


@pytest.mark.parametrize("marker", ["ec2_instance", "ec2_pair"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"or_types": "m6i.xlarge"},
        {"or_types": [6]},
        {"spot": "yes"},
        {"capacity_reservation": 7},
        {"capacity_reservation": "cr-1", "spot": True},
        {"capacity_reservation": "cr-1", "or_types": ["m6i.xlarge"]},
    ],
)
def test_arguments_that_cannot_be_used_are_refused(marker, arguments):
    mark = SimpleNamespace(args=("m7i.xlarge",), kwargs=arguments)
    with pytest.raises(BadMarker, match=rf"{marker}: .*{next(iter(arguments))}"):
        read_markers({marker: mark})


def test_limits_of_one_type_are_not_those_of_another():
    from pytest_cloudbench.limits.recorded_limits import recorded_limits

    stated = recorded_limits(ebs_iops=64_000, source="a review", date="2018")
    with pytest.raises(BadMarker, match="or_types"):
        instance_marker("m7i.xlarge", or_types=["m6i.xlarge"], limits=stated)


# Capacity Reservations


class _Raw(io.BytesIO):
    def stream(self, *_, **__) -> Iterator[bytes]:
        yield self.read()


@pytest.fixture
def reservation(cloud, faults):
    """Let the service describe one Capacity Reservation, of c5.large in us-east-1c."""
    from botocore.awsrequest import AWSResponse

    def describe(state="active"):
        body = (
            "<DescribeCapacityReservationsResponse><capacityReservationSet><item>"
            "<capacityReservationId>cr-0123</capacityReservationId><instanceType>c5.large</instanceType>"
            f"<availabilityZone>us-east-1c</availabilityZone><state>{state}</state></item></capacityReservationSet>"
            "</DescribeCapacityReservationsResponse>"
        ).encode()

        def answer(request, **_):
            return AWSResponse(request.url, 200, {"content-type": "text/xml"}, _Raw(body))

        faults.on("before-send", "DescribeCapacityReservations", answer)

    return describe


def test_a_launch_into_a_reservation_goes_to_its_zone(cloud, reservation, asked_of):
    reservation()
    one = cloud.launch("c5.large", capacity_reservation="cr-0123")
    assert one.zone == "us-east-1c"
    [asked] = asked_of(cloud, "run_instances")
    target = asked["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-0123"}


@pytest.mark.parametrize(
    ("state", "type_name", "zone", "error"),
    [
        ("active", "m5.large", None, NotOffered),
        ("expired", "c5.large", None, NotOffered),
        ("active", "c5.large", "us-east-1a", ZoneMismatch),
    ],
)
def test_a_reservation_that_does_not_fit(cloud, reservation, state, type_name, zone, error):
    reservation(state)
    with pytest.raises(error, match="Capacity Reservation cr-0123"):
        cloud.launch(type_name, zone=zone, capacity_reservation="cr-0123")
    assert cloud.journal.intentions == ()


def test_an_unknown_reservation(cloud, faults):
    faults.answer("DescribeCapacityReservations", "InvalidCapacityReservationId.NotFound")
    with pytest.raises(NotOffered, match="no Capacity Reservation cr-0123"):
        cloud.launch("c5.large", capacity_reservation="cr-0123")


# Spot


def test_a_spot_instance_is_requested_once_and_named_in_every_measurement(cloud, asked_of):
    one = cloud.launch("c5.large", market="spot")
    [asked] = asked_of(cloud, "run_instances")
    market = asked["InstanceMarketOptions"]
    assert (market["MarketType"], market["SpotOptions"]["SpotInstanceType"]) == ("spot", "one-time")
    assert (one.market, one.conditions) == ("spot", ("spot instance",))
    cloud.launch("c5.large")
    assert "InstanceMarketOptions" not in asked_of(cloud, "run_instances")[-1]


def instances(cloud, market="spot"):
    return [Ec2(cloud, test_name="test_it").launch("c5.large", spot=market == "spot")]


def lost():
    raise InfrastructureError("the host does not answer")


@pytest.mark.fault("API", "a spot instance is interrupted")
def test_an_interruption_is_an_infrastructure_error_with_its_cause(cloud, faults):
    on_spot = instances(cloud)
    end_in(faults, "Server.SpotInstanceTermination", on_spot[0].zone)
    with pytest.raises(SpotInterrupted, match=r"took back c5\.large") as caught, unless_interrupted(on_spot):
        lost()
    assert str(caught.value.__cause__) == "the host does not answer"
    assert isinstance(caught.value, InfrastructureError)


def test_a_measurement_that_an_interruption_ended_does_not_count(cloud, faults):
    on_spot = instances(cloud)
    end_in(faults, "Server.SpotInstanceTermination", on_spot[0].zone)
    with pytest.raises(SpotInterrupted), unless_interrupted(on_spot):
        pass


def test_other_failures_and_other_markets_stay_as_they_are(cloud, faults, monkeypatch):
    monkeypatch.setattr("pytest_cloudbench.resources.spot._DESCRIBED_WITHIN_S", 0.0)
    on_spot, on_demand = instances(cloud), instances(cloud, market=None)
    with pytest.raises(InfrastructureError, match="does not answer"), unless_interrupted(on_spot):
        lost()
    with unless_interrupted(on_spot):
        pass
    asked = faults.answer("DescribeInstances", "UnauthorizedOperation")
    with pytest.raises(InfrastructureError, match="does not answer"), unless_interrupted(on_spot):
        lost()
    seen = len(asked)
    with unless_interrupted(on_demand):
        pass
    assert len(asked) == seen, "no question about instances that cannot be interrupted"
    faults.none("DescribeInstances")
