"""A run on the embedded region, recorded, and the same tests again without any region: the same verdicts."""

import dataclasses

import pytest

# Loaded here so that the sessions inside these tests do not load them again: classes would exist twice.
import pytest_cloudbench.resources.ec2
import pytest_cloudbench.session.recording
import pytest_cloudbench.session.replaying  # noqa: F401
from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.restorable import measurement_from

pytestmark = pytest.mark.embedded

BODY = """
import pytest
from pytest_cloudbench import gp3

verdicts = []


def judged(verdict):
    verdicts.append(verdict.outcome)


@pytest.mark.ec2_instance("m5.xlarge", commands=["export password=hunter22"])
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_a_volume(ec2_instance, ebs_volume, fio, create_files):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=16, numjobs=2, runtime=3, ramp_time=1)
    judged(run.reaches(ebs_volume.iops))
    judged(run.capped_by(ebs_volume.iops))
    data = ebs_volume.mounted("xfs", at="/data")
    assert ec2_instance.run(["findmnt", "-n", "-o", "SOURCE", "/data"]).stdout.strip() == ebs_volume.path
    assert create_files(data, count=50, size="16k").complete
    assert data.prefilled("16m").size.bytes == 16 << 20
    data.unmount()
    assert ec2_instance.run(["findmnt", "/data"], check=False).exit_code != 0


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volumes(gp3(size_gib=1), count=2)
def test_a_stripe(ebs_volumes, fio):
    stripe = ebs_volumes.striped()
    run = fio(stripe, rw="randread", bs="4k", iodepth=16, numjobs=2, runtime=3)
    judged(run.reaches(stripe.iops))
    assert "2 x gp3 1 GiB" in run.target


@pytest.mark.ec2_pair("m5.2xlarge")
def test_a_pair(ec2_pair, iperf3):
    run = iperf3(ec2_pair, streams=2, duration=3)
    judged(run.reaches("100 Mbit/s"))
    assert ec2_pair.server.run(["hostname"]).stdout


def test_a_factory(ec2):
    instance = ec2.launch("m5.large")
    volume = ec2.create_volume(gp3(size_gib=1), instance).initialised()
    assert any("every block" in said for said in volume.conditions)
    assert instance.run(["ls", "/nowhere"], check=False).exit_code == 2


def test_all_were_judged():
    assert len(verdicts) == 4
"""


def run(pytester, *options):
    quiet = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:allure_pytest")
    return pytester.runpytest_inprocess(*quiet, *options)


def verdicts_in(result):
    return [
        line
        for line in result.outlines
        if line.startswith("  ") and line.lstrip()[:4] in ("held", "viol", "inco")
    ]


def test_a_replay_says_what_the_run_said_and_opens_no_region(pytester, monkeypatch):
    pytester.makepyfile(test_it=BODY)
    first = run(pytester, "--cloudbench-evidence=kept")
    first.assert_outcomes(passed=5)
    assert len(verdicts_in(first)) == 4
    assert main(["verify", "kept"]) == 0

    def nothing(*args, **more):
        raise AssertionError("a replay starts no region and connects to no host")

    monkeypatch.setattr("pytest_cloudbench.launcher.start_leased_region", nothing)
    monkeypatch.setattr("pytest_cloudbench.hosts.ssh.SshHost.__init__", nothing)
    again = run(pytester, "--cloudbench-replay=kept")
    again.assert_outcomes(passed=5)
    assert verdicts_in(again) == verdicts_in(first)

    evidence = Evidence(pytester.path / "kept")
    (cloud,) = evidence.clouds
    assert cloud["label"] == "embedded region"
    assert cloud["identity"]["arn"].startswith("arn:aws:sts::")
    assert cloud["machine"]["iops"] > 0
    answered = {
        test.nodeid: {entry["operation"] for entry in test.of_kind("answer")} for test in evidence.tests
    }
    for nodeid in ("test_it.py::test_a_volume", "test_it.py::test_a_stripe"):
        assert {"describe_instance_types", "describe_instances", "describe_volumes"} <= answered[nodeid]
    volume = evidence.tests[0]
    steps = volume.of_kind("step")
    names = [entry["name"] for entry in steps]
    wanted = ("launch m5.xlarge", "create gp3 2 GiB", "attach gp3 2 GiB", "run fio randread 4 KiB",
              "format and mount xfs on gp3 2 GiB", "run create_files", "tear down")  # fmt: skip
    places = [next((at for at, name in enumerate(names) if name.startswith(begin)), None) for begin in wanted]
    assert None not in places, (wanted, names)
    assert places == sorted(places), names
    assert all(entry["started"] <= entry["ended"] for entry in steps)
    assert all(
        entry["started"] < entry["ended"]
        for entry in steps
        if entry["name"].startswith(("launch", "run fio"))
    )
    assert any(entry["argv"][0].endswith("/fio") for entry in volume.of_kind("job started"))
    assert {entry["exit_code"] for entry in volume.of_kind("job ended")} == {0}
    fio, files = volume.measurements()
    measured = measurement_from(fio, volume.read)
    assert b'"fio version"' in measured.raw["result.json"]
    assert measured.counters is not None
    assert measured.counters == dataclasses.replace(measured.counters)
    assert files["figures"]["files"] == 50
    for path in evidence.root.rglob("*"):
        assert not path.is_file() or b"PRIVATE KEY-----" not in path.read_bytes()
        assert not path.is_file() or b"password=hunter22" not in path.read_bytes()
