"""What the tutorial and the how-to guides show is what happens."""

import contextlib
import dataclasses
import re

import pytest
from shown_tests import shown_blocks, shown_function, shown_test

from pytest_cloudbench import gp3
from pytest_cloudbench.verdicts.verdict import Outcome

pytestmark = pytest.mark.embedded
GIVEN = gp3(size_gib=20, iops=3_000)
"""The volume of the tutorial."""

test_hardware_by_parameters = shown_test("reports", "test_it_reaches_its_iops")
test_the_first_verdict_of_the_tutorial = shown_test("tutorial", "test_the_volume_reaches_its_iops")


def without_figures(sentence):
    """Return a sentence without ids, and without the figures that differ from run to run."""
    return re.sub(r"vol-\w+|(?<=: )[\d,.]+|\([\d.]+ %", "", sentence)


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(GIVEN)
def test_the_second_promise_of_the_tutorial_falls_with_its_sentence_and_the_third_is_held(ebs_volume, fio):
    runs = []

    def measure(*given, **options):
        runs.append(fio(*given, **options))
        return runs[-1]

    with pytest.raises(AssertionError):
        shown_function("tutorial", "test_large_blocks_reach_the_iops_too")(ebs_volume, measure)
    said = str(runs[0].reaches(ebs_volume.iops))
    sentences = [line for block in shown_blocks("tutorial", "text") for line in block.splitlines()]
    assert without_figures(said) in map(without_figures, sentences)
    exec(shown_blocks("tutorial")[-1].strip(), {"run": runs[0], "ebs_volume": ebs_volume})


def verdict_of(shown, fio):
    """Run a shown test, which is called with a `fio` and ends in one verdict; return that verdict."""
    verdicts = []

    def measure(*given, **options):
        return dataclasses.replace(fio(*given, **options), on_verdict=verdicts.append)

    with contextlib.suppress(AssertionError):
        shown(measure)
    [verdict] = verdicts
    return verdict


@pytest.mark.parametrize(
    ("instance_type", "wrong"), [("m5.4xlarge", Outcome.HELD), ("c5.9xlarge", Outcome.VIOLATED)]
)
def test_the_smaller_instance_holds_the_volume_back(ec2, fio, instance_type, wrong):
    shown = shown_function("how-to/right-size", "test_the_instance_does_not_hold_the_volume_back")
    types = next(mark for mark in shown.pytestmark if mark.name == "parametrize").args[1]
    assert instance_type in types
    verdict = verdict_of(lambda fio: shown(ec2, fio, instance_type), fio)
    # A machine that is too slow makes it inconclusive.
    assert verdict.outcome is not wrong, str(verdict)
    if verdict.outcome is Outcome.VIOLATED:
        assert "limited by m5.4xlarge EBS throughput" in str(verdict)


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.parametrize(("kind", "wrong"), [(0, Outcome.HELD), (1, Outcome.VIOLATED)], ids=["gp3", "io2"])
def test_the_cheaper_volume_is_too_slow(ec2, ec2_instance, fio, kind, wrong):
    shown = shown_function("how-to/compare-volume-types", "test_orders_stay_fast")
    spec = next(mark for mark in shown.pytestmark if mark.name == "parametrize").args[1][kind]
    verdict = verdict_of(lambda fio: shown(ec2, ec2_instance, fio, spec), fio)
    assert verdict.outcome is not wrong, str(verdict)


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=500, iops=6_000))
def test_the_gate_compares_with_an_earlier_run(ebs_volume, fio):
    earlier = fio(ebs_volume, rw="randread", bs="4k", iodepth=64, runtime=60)
    verdict = verdict_of(
        lambda fio: shown_function("gate", "test_the_volume_is_as_fast_as_before")(ebs_volume, fio, earlier),
        fio,
    )
    assert verdict.outcome is not Outcome.VIOLATED, str(verdict)


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=20))
def test_what_is_shown_of_existing_volumes_holds_on_a_new_one(ec2_instance, ebs_volume, fio):
    shown_function("existing", "test_the_volume_delivers_reads")(ec2_instance, ebs_volume, fio)
    shown_function("how-to/terraform", "test_the_database_volume_delivers_its_iops")(ebs_volume, fio)
    ebs_volume.mounted("xfs", at="/data")
    shown_function("existing", "test_its_file_system_delivers_writes")(ec2_instance, fio)
