"""`cloudbench reap` finds by tag what runs have left, in one region or all, shows it, asks, and removes it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from service_clients import client_of

from pytest_cloudbench import cli
from pytest_cloudbench.aws import reap_command as command
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.clients import Clients
from pytest_cloudbench.aws.journal import Journal, boot_id
from pytest_cloudbench.aws.lease import LEASE_TAG
from pytest_cloudbench.aws.reap_command import (
    LEFT,
    NOT_ASKED,
    NOT_REMOVED,
    NOTHING_LEFT,
    Choice,
    reap_command,
)
from pytest_cloudbench.aws.run import CREATED_TAG, RUN_TAG
from pytest_cloudbench.aws.survey import age_words
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.resources.errors import CloudError

FAST = Bounds(terminated_s=10, volume_s=10, group_s=5, settle_s=0.5)


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def region(access, monkeypatch):
    """A region whose API has no placement groups and no price list, as that of moto has none."""
    kinds = tuple(kind for kind in command.survey.__globals__["KINDS"] if kind.name != "placement group")
    monkeypatch.setattr("pytest_cloudbench.aws.survey.KINDS", kinds)
    monkeypatch.setattr("pytest_cloudbench.aws.ledger.KINDS", kinds)
    monkeypatch.setattr("pytest_cloudbench.aws.price_list.PriceList.prices", no_price_list)
    return access


def no_price_list(*_):
    raise CloudError("there is none")


@pytest.fixture
def leave(ec2):
    """Create a volume of a run that is so many hours old; removed at the end."""
    made = []

    def create(run_id, hours=10.0, *, client=ec2, size=1, **tags):
        then = datetime.now(timezone.utc) - timedelta(hours=hours)
        pairs = {RUN_TAG: run_id, CREATED_TAG: then.isoformat(timespec="seconds"), **tags}
        zone = client.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
        volume = client.create_volume(
            AvailabilityZone=zone,
            Size=size,
            VolumeType="gp3",
            TagSpecifications=[
                {
                    "ResourceType": "volume",
                    "Tags": [{"Key": key, "Value": value} for key, value in pairs.items()],
                }
            ],
        )["VolumeId"]
        made.append((client, volume))
        return volume

    yield create
    for client, volume in made:
        if volume in volumes(client):
            client.delete_volume(VolumeId=volume)


def volumes(client):
    return {each["VolumeId"] for each in client.describe_volumes()["Volumes"]}


def in_region(access, name):
    return client_of(replace(access, region=name))


def reap(access, choice=None, **options):
    return reap_command(choice or Choice(), access=access, bounds=FAST, **options)


def test_it_shows_before_it_asks_and_removes_what_was_agreed_to(region, ec2, leave, capsys, tmp_path):
    volume, untagged = leave("old-run", size=73), leave("", hours=10)
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"currency": "USD", "volume_month": {"gp3": {"gib": 0.08}}}))
    shown = []

    def ask(question):
        shown.append((capsys.readouterr().out, question))
        return "y"

    assert reap(region, prices=prices, ask=ask) == NOTHING_LEFT
    [(table, question)] = shown
    row = next(line for line in table.splitlines() if volume in line)
    for cell in ("old-run", "us-east-1", "volume", "available", "10.0 h", "0.008 USD an hour"):
        assert cell in row
    assert "1 volume" in question
    assert volume not in volumes(ec2)
    assert untagged in volumes(ec2)
    assert "removed 1 volume; nothing left" in capsys.readouterr().out


@pytest.mark.parametrize("answer", ["", "n", "no", None])
def test_nothing_is_removed_without_a_yes(region, ec2, leave, answer):
    volume = leave("old-run")
    ask = None if answer is None else lambda _: answer
    assert reap(region, ask=ask) == NOT_REMOVED
    assert volume in volumes(ec2)


def test_one_run_by_its_id(region, ec2, leave):
    first, second = leave("first-run"), leave("second-run")
    assert reap(region, Choice(runs=("first-run",), yes=True)) == NOTHING_LEFT
    assert first not in volumes(ec2)
    assert second in volumes(ec2)


def test_runs_older_than_an_age(region, ec2, leave):
    old, new = leave("old-run", hours=7), leave("new-run", hours=5)
    assert reap(region, Choice(older_than_s=6 * 3600, yes=True)) == NOTHING_LEFT
    assert old not in volumes(ec2)
    assert new in volumes(ec2)


def test_all_regions(region, leave, service_of_all_regions, monkeypatch, capsys):
    region = replace(region, endpoint_url=service_of_all_regions)
    monkeypatch.setattr(command, "all_regions", lambda _: ["eu-west-1", "us-east-1"])
    far, near = in_region(region, "eu-west-1"), in_region(region, "us-east-1")
    there, here = leave("far-run", client=far), leave("near-run", client=near)
    assert reap(region, Choice(yes=True)) == NOTHING_LEFT
    assert there in volumes(far)
    assert here not in volumes(near)
    assert reap(region, Choice(all_regions=True, yes=True)) == NOTHING_LEFT
    assert there not in volumes(far)
    assert "run far-run in eu-west-1: removed 1 volume" in capsys.readouterr().out


def test_the_regions_are_those_of_the_account(region, service_of_all_regions):
    from pytest_cloudbench.aws.survey import all_regions

    region = replace(region, endpoint_url=service_of_all_regions)
    assert {"eu-west-1", "us-east-1"} <= set(all_regions(Clients(region)))


def test_all_regions_need_no_configured_region(region, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(command, "all_regions", lambda clients: asked.append(clients.region) or ["us-east-1"])
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    assert reap(replace(region, region=None), Choice(all_regions=True)) == NOTHING_LEFT
    assert asked == ["us-east-1"]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert reap(replace(region, region=None), Choice(all_regions=True)) == NOTHING_LEFT
    assert asked[1:] == ["eu-west-3"]


def test_all_regions_without_credentials_asks_for_credentials_only(monkeypatch, capsys):
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert reap_command(Choice(all_regions=True)) == NOT_ASKED
    said = capsys.readouterr().err
    assert "no AWS credentials" in said
    assert "no region" not in said


@pytest.mark.parametrize(
    ("hours", "lease_h", "is_alive"),
    [
        *((10, 0.5, True), (10, -0.5, False), (0.1, None, True), (10, None, False), (0.1, -0.05, False)),
        (0.1, -0.5, True),  # created after the end of a lease whose tag was not renewed
    ],
)
def test_a_run_that_may_be_going_on_is_left_alone(region, ec2, leave, capsys, hours, lease_h, is_alive):
    """By the end of its lease; without a lease, by its age."""
    tags = {}
    if lease_h is not None:
        tags[LEASE_TAG] = (datetime.now(timezone.utc) + timedelta(hours=lease_h)).isoformat()
    volume = leave("that-run", hours, **tags)
    assert reap(region, Choice(yes=True)) == NOTHING_LEFT
    assert (volume in volumes(ec2)) is is_alive
    assert ("run that-run in us-east-1 was left alone with 1 volume" in capsys.readouterr().out) is is_alive
    if is_alive:
        assert reap(region, Choice(runs=("that-run",)), ask=lambda _: "y") == NOTHING_LEFT
        assert volume in volumes(ec2), "it was not confirmed by --yes"
        assert reap(region, Choice(runs=("that-run",), yes=True)) == NOTHING_LEFT
        assert volume not in volumes(ec2)


def test_a_run_of_this_machine_is_alive_while_its_journal_is_locked(region, ec2, leave, capsys):
    volume = leave("here-1")
    journal = Journal.open("here-1", region)
    assert reap(region, Choice(yes=True)) == NOTHING_LEFT
    assert volume in volumes(ec2)
    assert "journal is locked" in capsys.readouterr().out
    journal.finish(clean=False)
    assert reap(region, Choice(yes=True)) == NOTHING_LEFT
    assert volume not in volumes(ec2)


def test_an_unlocked_journal_of_another_boot_proves_no_end(region, ec2, leave):
    """In a home directory that machines share, the lock may be invisible here."""
    volume = leave("there-1", hours=0.1)
    journal = Journal.open("there-1", region)
    journal.finish(clean=False)
    journal.path.write_text(journal.path.read_text().replace(boot_id(), "another-boot"))
    assert reap(region, Choice(yes=True)) == NOTHING_LEFT
    assert volume in volumes(ec2)


def dead_journal(access, run_id, region="us-east-1", ids=("vol-0",)):
    journal = Journal.open(run_id, access)
    journal.bind(access.endpoint_url, region, "123456789012")
    with journal.creating("create_volume", "x") as intention:
        intention.done(ids)
    journal.finish(clean=False)
    return journal.path


def test_a_resource_without_tags_is_found_by_the_journal_of_its_run(region, ec2):
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
    path = dead_journal(region, "dead-1", ids=(volume,))
    assert reap(region, Choice(yes=True)) == NOTHING_LEFT
    assert volume not in volumes(ec2)
    assert not path.exists()


def test_journals_of_other_regions_are_reported(region, capsys):
    path = dead_journal(region, "dead-2", region="eu-west-1")
    assert reap(region) == NOTHING_LEFT
    assert "1 killed run may have left resources elsewhere" in (said := capsys.readouterr().out)
    assert "cloudbench reap --run dead-2 --region eu-west-1" in said
    assert path.exists()


def test_what_is_left_is_an_exit_code(region, ec2, leave, monkeypatch, capsys):
    volume = leave("old-run")
    call = Clients.call

    def refused(self, asked, service, operation, **parameters):
        if operation == "delete_volume":
            raise CloudError("you may not", code="UnauthorizedOperation")
        return call(self, asked, service, operation, **parameters)

    monkeypatch.setattr(Clients, "call", refused)
    assert reap(region, Choice(yes=True)) == LEFT
    assert volume in (said := capsys.readouterr().err)
    assert "you may not" in said


@pytest.mark.parametrize("error", [OSError("no space"), CloudError("no answer"), KeyboardInterrupt()])
def test_an_end_in_the_middle_of_a_removal_leaves_something(region, leave, monkeypatch, capsys, error):
    volume = leave("old-run")

    def remove(*_, **__):
        raise error

    monkeypatch.setattr(command, "remove_run", remove)
    assert reap(region, Choice(yes=True)) == LEFT
    said = capsys.readouterr()
    assert volume in said.out
    assert (str(error) or "again") in said.err


def test_a_region_that_cannot_be_asked_is_an_exit_code(capsys):
    nobody = CloudAccess(
        endpoint_url="http://127.0.0.1:9", region="us-east-1", access_key="AKIAEXAMPLE", secret_key="s"
    )
    assert reap_command(Choice(), access=nobody) == NOT_ASKED
    assert "did not answer" in capsys.readouterr().err


def test_the_command_line(monkeypatch):
    chosen = []
    monkeypatch.setattr(command, "reap_command", lambda choice, **_: chosen.append(choice) or 0)
    assert cli.main(["reap", "--run", "a", "--run", "b", "--older-than", "6h", "--all-regions", "--yes"]) == 0
    assert chosen == [Choice(("a", "b"), 6 * 3600.0, (), all_regions=True, yes=True)]
    with pytest.raises(SystemExit):
        cli.main(["reap", "--older-than", "6"])
    with pytest.raises(SystemExit):
        cli.main(["reap", "--region", "eu-west-1", "--all-regions"])


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (3600, "1.0 h"), (72 * 3600, "3 days")]
)
def test_ages(seconds, words):
    assert age_words(seconds) == words
