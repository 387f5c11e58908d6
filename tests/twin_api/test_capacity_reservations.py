"""Capacity Reservations over real HTTP calls: made, used by launches, full, ended; and a run's launches into them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls

from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.plan import Planner, RequestedSet
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.errors import CloudError, NotOffered, ZoneMismatch
from pytest_cloudbench.resources.facts import Launch

IN_ZONE = {"AvailabilityZone": "us-east-1b"}


def reserve(calls: Calls, count: int = 1, **options: Any) -> str:
    given = {"InstanceType": "c5.large", "AvailabilityZone": "us-east-1b", "InstancePlatform": "Linux/UNIX"}
    made = calls.ec2.create_capacity_reservation(**given, InstanceCount=count, **options)
    return str(made["CapacityReservation"]["CapacityReservationId"])


def described(calls: Calls, reservation: str) -> dict[str, Any]:
    [found] = calls.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])[
        "CapacityReservations"
    ]
    return dict(found)


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def launch(calls: Calls, reservation: str | None = None, **options: Any) -> Any:
    into = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    asked = {"CapacityReservationSpecification": into, "Placement": IN_ZONE} if reservation else {}
    return calls.instance(calls.launch("c5.large", wait=False, **{**asked, **options}))


def test_a_run_launches_into_a_reservation_in_its_zone(calls: Calls, cloud: Cloud) -> None:
    reservation = reserve(calls, 2, TagSpecifications=[
        {"ResourceType": "capacity-reservation", "Tags": [{"Key": "Name", "Value": "x"}]}
    ])  # fmt: skip
    pair = Ec2(cloud, test_name="test_it").pair("c5.large", capacity_reservation=reservation)
    assert (pair.client.zone, pair.server.zone) == ("us-east-1b", "us-east-1b")
    found = described(calls, reservation)
    assert (found["AvailableInstanceCount"], found["TotalInstanceCount"], found["State"]) == (0, 2, "active")
    assert found["Tags"] == [{"Key": "Name", "Value": "x"}]
    one = calls.instance(pair.client.id)
    assert one["CapacityReservationId"] == reservation


def test_a_plan_of_a_reservation(calls: Calls, cloud: Cloud) -> None:
    planner = Planner(cloud, lambda types: None)
    plan = planner.plan(RequestedSet((Launch("c5.large", capacity_reservation=reserve(calls)),)))
    assert plan.instances[0].place.zone == "us-east-1b"
    assert planner.refusals([plan])[0] == []


@pytest.mark.parametrize(
    ("type_name", "zone", "error", "why"),
    [
        ("m5.large", None, NotOffered, r"for c5\.large, .* m5\.large"),
        ("c5.large", "us-east-1a", ZoneMismatch, "in us-east-1b, .* us-east-1a"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_created(
    calls: Calls, cloud: Cloud, type_name: str, zone: str | None, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=rf"Capacity Reservation cr-\w+ is {why}") as caught:
        cloud.launch(type_name, zone=zone, capacity_reservation=reserve(calls))
    assert "active" not in str(caught.value)
    assert cloud.journal.intentions == ()


def test_a_cancelled_reservation_and_one_that_has_ended(calls: Calls, cloud: Cloud) -> None:
    cancelled = reserve(calls)
    calls.ec2.cancel_capacity_reservation(CapacityReservationId=cancelled)
    ended = reserve(calls, EndDateType="limited", EndDate=datetime.now(timezone.utc) - timedelta(minutes=1))
    assert [described(calls, each)["State"] for each in (cancelled, ended)] == ["cancelled", "expired"]
    for each in (cancelled, ended):
        with pytest.raises(NotOffered, match=r"Capacity Reservation cr-\w+ is (cancelled|expired)") as caught:
            cloud.launch("c5.large", capacity_reservation=each)
        assert "c5.large" not in str(caught.value)
        assert code_of(lambda each=each: launch(calls, each)) == "InvalidCapacityReservationState"  # type: ignore[misc]


def test_a_full_reservation_is_refused_and_free_again_after_an_end(calls: Calls, cloud: Cloud) -> None:
    reservation = reserve(calls)
    other = launch(calls, reservation)["InstanceId"]
    calls.wait_state(other, "running")
    with pytest.raises(CloudError) as caught:
        cloud.launch("c5.large", capacity_reservation=reservation)
    assert caught.value.code == "ReservationCapacityExceeded"
    calls.ec2.terminate_instances(InstanceIds=[other])
    calls.wait_state(other, "terminated")
    assert cloud.launch("c5.large", capacity_reservation=reservation).zone == "us-east-1b"


def test_a_repeated_request_is_answered_as_the_first(calls: Calls) -> None:
    reservation = reserve(calls)
    first, again = (launch(calls, reservation, ClientToken="one") for _ in range(2))
    assert first["InstanceId"] == again["InstanceId"]


def test_an_open_reservation_is_used_by_launches_that_fit(calls: Calls) -> None:
    targeted = reserve(calls, InstanceMatchCriteria="targeted")
    reservation = reserve(calls, 2)
    in_zone = {"Placement": IN_ZONE}
    used = [
        launch(calls, **options).get("CapacityReservationId")
        for options in (
            in_zone,
            {"Placement": {"AvailabilityZone": "us-east-1a"}},
            {**in_zone, "InstanceMarketOptions": {"MarketType": "spot"}},
            {**in_zone, "CapacityReservationSpecification": {"CapacityReservationPreference": "none"}},
        )
    ]
    assert used == [reservation, None, None, None]
    assert described(calls, reservation)["AvailableInstanceCount"] == 1
    assert described(calls, targeted)["AvailableInstanceCount"] == 1


@pytest.mark.parametrize("weather", ["no-capacity=c5.large"])
def test_reserved_capacity_is_there_when_the_zone_has_no_other(calls: Calls) -> None:
    assert code_of(lambda: launch(calls)) == "InsufficientInstanceCapacity"
    reservation = reserve(calls)
    assert launch(calls, reservation)["CapacityReservationId"] == reservation


def test_requests_that_cannot_be(calls: Calls) -> None:
    unknown = "cr-" + "0" * 17
    assert code_of(lambda: described(calls, unknown)) == "InvalidCapacityReservationId.NotFound"
    assert code_of(lambda: described(calls, "cr-1")) == "InvalidCapacityReservationId.Malformed"
    assert code_of(lambda: launch(calls, unknown)) == "InvalidCapacityReservationId.NotFound"
    assert code_of(lambda: reserve(calls, 0)) == "InvalidParameterValue"
    in_spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    assert code_of(lambda: launch(calls, reserve(calls), **in_spot)) == "InvalidParameterCombination"
    other_zone = {"Placement": {"AvailabilityZone": "us-east-1a"}}
    assert code_of(lambda: launch(calls, reserve(calls), **other_zone)) == "InvalidParameterCombination"
    assert code_of(lambda: reserve(calls, DryRun=True)) == "DryRunOperation"


def test_a_new_reservation_that_is_shown_as_pending_is_used(cloud: Cloud, calls: Calls) -> None:
    """It may be shown so for five minutes, and be usable (EC2 User Guide, "View the state")."""
    reservation = reserve(calls)
    pages = cloud.clients.pages

    def shown(*asked: Any, **parameters: Any) -> list[dict[str, Any]]:
        return [{**each, "State": "pending"} for each in pages(*asked, **parameters)]

    cloud.clients.pages = shown  # type: ignore[method-assign]
    launch = Launch("c5.large", capacity_reservation=reservation)
    assert cloud.catalog.places.in_reservation(launch).zone == "us-east-1b"
