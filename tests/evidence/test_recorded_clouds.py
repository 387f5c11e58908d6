"""Calls of the cloud and of hosts are recorded, and answered from the record in a replay."""

from pathlib import Path

import pytest
import recorded_runs

# Loaded here so that the sessions inside these tests do not load them again.
import pytest_cloudbench.aws.cloud
import pytest_cloudbench.resources.ec2  # noqa: F401
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.verify import verify

BODY = """
import pytest
from conftest import look_at
from pytest_cloudbench import Size, gp3
from pytest_cloudbench.resources.errors import UnknownInstanceType
from pytest_cloudbench.hosts.errors import CommandFailed, CommandTimedOut


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=10))
def test_a_volume(ec2_instance, ebs_volume, fio):
    run = fio(ebs_volume, rw="randread")
    assert run.reaches(ebs_volume.iops)
    assert run.capped_by(ebs_volume.iops)
    assert ec2_instance.ebs_iops.limit.per_second == 18_750
    assert ebs_volume.label.startswith("gp3 10 GiB/3,000 IOPS/125 MiB/s vol-")
    assert ec2_instance.run(["uname"]).stdout == "Linux\\n"
    assert ec2_instance.run(["false"], check=False).exit_code == 1
    with pytest.raises(CommandFailed, match="ended with exit code 1: no"):
        ec2_instance.run(["false"])
    with pytest.raises(CommandTimedOut, match="did not end"):
        ec2_instance.run(["hang"])
    assert len(ec2_instance.run(["big"]).stdout) == 200_000
    assert [ec2_instance.run(["count"]).stdout for _ in range(3)] == ["1\\n", "2\\n", "3\\n"]
    device = look_at(ec2_instance.host, "/dev/nvme1n1", size=Size(5))
    assert (device.path, device.size) == ("/dev/nvme1n1", Size(5))
    assert ec2_instance.machine_limits().iops.per_second == 90_000
    assert ec2_instance.launched.state == "running again"


def test_a_factory(ec2):
    first, second = ec2.launch("m5.xlarge"), ec2.launch("m5.xlarge")
    assert first.id != second.id
    volumes = ec2.create_volumes(gp3(size_gib=1), second, count=3)
    assert len({volume.id for volume in volumes}) == 3
    with pytest.raises(UnknownInstanceType, match="m5.larg"):
        ec2.launch("m5.larg")
    second.run(["uname"])
"""


@pytest.fixture
def sessions(session, pytester):
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN)
    return session


@pytest.fixture
def kept(sessions, pytester):
    sessions(BODY, "--cloudbench-evidence=kept").assert_outcomes(passed=2)
    return pytester.path / "kept"


def test_a_replay_calls_no_cloud_and_no_host(sessions, pytester, kept):
    assert verify(kept).exit_code == 0
    nothing = """
@pytest.fixture(scope="session")
def _cloudbench_cloud():
    raise AssertionError("a replay opens no cloud")


@pytest.fixture(scope="session")
def _cloudbench_access():
    raise AssertionError("a replay opens no region")


def __init__(self, *args, **more):
    raise AssertionError("a replay connects to no host")

Host.__init__ = __init__
"""
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + nothing)
    sessions(BODY, "--cloudbench-replay=kept").assert_outcomes(passed=2)


def test_calls_answers_operations_and_commands_are_recorded_with_their_tests(kept):
    first, second = Evidence(kept).tests
    names = [(entry["name"], entry["arguments"]) for entry in first.of_kind("call")]
    assert names[:2] == [("limits", ["m5.xlarge"]), ("check_attachments", ["m5.xlarge", 1])]
    assert [name for name, _ in names[2:]] == ["launch", "create_volumes", "attach_all", "refresh", "release"]
    assert names[3][1][0] == ["gp3 10 GiB/3,000 IOPS/125 MiB/s"]
    commands = [(entry["argv"], entry.get("exit_code")) for entry in first.of_kind("command")]
    assert commands[:4] == [(["uname"], 0), (["false"], 1), (["false"], 1), (["hang"], None)]
    assert all(
        entry["seconds"] >= 0 and entry["host"].startswith("m5.xlarge i-")
        for entry in first.of_kind("command")
    )
    assert first.of_kind("command")[3]["error"]["is"] == "CommandTimedOut"
    big = [entry for entry in first.of_kind("command") if entry["argv"] == ["big"]]
    assert first.text(big[0], "stdout") == "x" * 200_000
    assert (big[1]["inside"], big[1]["stdout_chars"]) == ("look_at", 200_000)
    (operation,) = first.of_kind("operation")
    assert (operation["name"], operation["arguments"]) == ("look_at", ["/dev/nvme1n1", {"size": "5 B"}])
    assert operation["result"]["is"] == "BlockDevice"
    steps = [entry["name"] for entry in first.of_kind("step")]
    assert any(name.startswith("launch m5.xlarge") for name in steps)
    assert all(entry["started"] <= entry["ended"] for entry in first.of_kind("step"))
    assert [entry["operation"] for entry in first.of_kind("answer")] == [
        "describe_instance_types",
        "create_volume",
        "describe_instances",
        "terminate_instances",
    ]
    assert second.of_kind("answer")[0]["operation"] == "describe_instance_types", "asked once, needed twice"
    failed = [entry for entry in second.of_kind("call") if "error" in entry]
    assert failed[0]["error"]["state"] == {"code": "", "nearest": ["m5.large"]} | failed[0]["error"]["state"]


def test_identity_and_region_are_recorded_once(kept):
    (cloud,) = Evidence(kept).clouds
    assert cloud["identity"] == {"account": "123456789012", "arn": "arn:aws:sts::123456789012:user/me"}
    assert (cloud["label"], cloud["region"]) == ("embedded region", "us-east-1")
    assert cloud["machine"]["iops"] == 90_000


def test_the_evidence_has_no_key(kept):
    for path in kept.rglob("*"):
        assert not path.is_file() or b"PRIVATE KEY-----" not in path.read_bytes()
    launch = next(entry for entry in Evidence(kept).tests[0].of_kind("call") if entry["name"] == "launch")
    assert launch["result"]["private_key"] == "(removed: private key)"


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (
            'ec2_instance("m5.xlarge")',
            'ec2_instance("c5.large")',
            "asks for limits(c5.large), which was not*limits(m5.xlarge)",
        ),
        (
            "gp3(size_gib=10)",
            "gp3(size_gib=20)",
            "asks for create_volumes(*gp3 20 GiB/*there it was create_volumes(*gp3 10 ",
        ),
        (
            '["uname"]',
            '["uname", "-a"]',
            "asks for `uname -a` on m5.xlarge i-*there it was `uname` on m5.xlarge i-*",
        ),
        ('["uname"]', '["id"]', "asks for `id` on m5.xlarge i-*nothing like it was recorded*"),
        (
            "range(3)",
            "range(4)",
            "asks for `count` on m5.xlarge i-* a fourth time, and in * it was recorded 3 times",
        ),
        (
            '"/dev/nvme1n1", size',
            '"/dev/nvme2n1", size',
            "asks for look_at(/dev/nvme2n1, *there it was look_at(/dev/nvme1n1, *",
        ),
    ],
)
def test_a_call_with_other_arguments_names_the_difference(sessions, kept, then, now, said):
    assert then in BODY
    result = sessions(BODY.replace(then, now), "--cloudbench-replay=kept", "-k", "a_volume")
    assert result.parseoutcomes().get("passed") is None
    result.stdout.fnmatch_lines([f"*NotRecorded: test_it.py::test_a_volume {said}*"])


def test_a_call_that_only_reads_may_be_repeated(sessions, kept):
    more = BODY.replace(
        '    assert ec2_instance.launched.state == "running again"\n',
        "    assert ec2_instance.machine_limits().iops.per_second == 90_000\n"
        '    assert look_at(ec2_instance.host, "/dev/nvme1n1", size=Size(5)).path == "/dev/nvme1n1"\n',
        1,
    )
    result = sessions(more, "--cloudbench-replay=kept", "-k", "a_volume")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NotRecorded: *asks for look_at(*a second time*"])


def test_a_detached_job_of_the_test_itself_is_not_replayed(sessions, kept):
    more = BODY.replace(
        '    assert ec2_instance.run(["uname"])',
        '    ec2_instance.host.start_job(["sleep"])\n    assert ec2_instance.run(["uname"])',
        1,
    )
    result = sessions(more, "--cloudbench-replay=kept", "-k", "a_volume")
    result.stdout.fnmatch_lines(["*NotRecorded: the job `sleep` on m5.xlarge i-* is not replayed*"])


CONNECTS = """
import threading
from conftest import Host
from pytest_cloudbench import gp3


def test_it(ec2, _cloudbench_cloud, monkeypatch):
    def connect(host, timeout_s=None):
        host.run(["uname"])
        _cloudbench_cloud._answer("modify_instance_metadata_options", {}, {})
        threads.append(threading.current_thread())

    threads = []
    monkeypatch.setattr(Host, "connect", connect)
    instance = ec2.launch("m5.xlarge")
    ec2.create_volumes(gp3(size_gib=1), instance, count=1)
    assert instance.host
    assert threads != [threading.current_thread()]
"""


def test_a_connection_begun_ahead_writes_into_no_tests_record(sessions):
    sessions(CONNECTS, "--cloudbench-evidence=kept").assert_outcomes(passed=1)
    evidence = Evidence(Path("kept"))
    (test,) = evidence.tests
    assert not test.of_kind("command")
    asked = "modify_instance_metadata_options"
    assert asked not in [entry["operation"] for entry in test.of_kind("answer")]
    run = [entry["operation"] for part in evidence.parts.values() for entry in part.all("answer")]
    assert run.count(asked) == 1
