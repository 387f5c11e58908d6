"""The files beside Allure's results, the executor, links to the console, and the outcomes of errors."""

import importlib
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.reports.allure.console_links import console_host, console_links
from pytest_cloudbench.reports.allure.files import (
    executor,
    write_categories,
    write_environment,
    write_executor,
)
from pytest_cloudbench.reports.allure.labels import readable
from pytest_cloudbench.reports.allure.outcome import TestOutcome, outcome_of
from pytest_cloudbench.workloads.errors import WorkloadFailed, WorkloadRefused


def test_lines_of_other_tools_are_kept(tmp_path):
    (tmp_path / "environment.properties").write_text("team=storage\ncloud=old\n")
    (tmp_path / "categories.json").write_text(
        '[{"name": "Mine", "messageRegex": ".*"}, {"name": "Inconclusive"}]'
    )
    (tmp_path / "executor.json").write_text('{"name": "their CI"}')
    write_environment(tmp_path, {"cloud": ["AWS"], "volumes": ["a", "b"], "none": []})
    write_categories(tmp_path)
    write_categories(tmp_path)
    write_executor(tmp_path, {"GITLAB_CI": "true"})
    assert (tmp_path / "environment.properties").read_text() == "team=storage\ncloud=AWS\nvolumes=a, b\n"
    names = [each["name"] for each in json.loads((tmp_path / "categories.json").read_text())]
    assert names == ["Promise violated", "Inconclusive", "Infrastructure trouble", "Test broken", "Mine"]
    assert json.loads((tmp_path / "executor.json").read_text()) == {"name": "their CI"}
    assert not list(tmp_path.glob("*.tmp"))


def test_an_executor_of_an_earlier_run_is_removed(tmp_path):
    write_executor(tmp_path, {"GITLAB_CI": "true", "CI_PIPELINE_IID": "7"})
    assert json.loads((tmp_path / "executor.json").read_text())["buildOrder"] == 7
    write_executor(tmp_path, {})
    assert not (tmp_path / "executor.json").exists()


@given(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1))
def test_an_environment_line_reads_back_as_java_reads_it(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("results")
    write_environment(folder, {"name": [text]})
    [line] = (folder / "environment.properties").read_text("ascii").splitlines()
    value = line.removeprefix("name=")
    unescaped = json.loads('"' + _as_json(value) + '"')
    assert unescaped == text


def _as_json(value):
    """Java's escapes in JSON's: \\uXXXX is the same, any other escaped character stands for itself."""
    out, at = [], 0
    while at < len(value):
        char = value[at]
        if char == "\\":
            follows = value[at + 1]
            out.append(char + follows if follows in "unrt\\" else json.dumps(follows)[1:-1])
            at += 2
        else:
            out.append(json.dumps(char)[1:-1])
            at += 1
    return "".join(out)


@pytest.mark.parametrize(
    ("environment", "name", "order", "url"),
    [
        (
            {
                "GITHUB_ACTIONS": "true",
                "GITHUB_SERVER_URL": "https://github.com",
                "GITHUB_REPOSITORY": "a/b",
                "GITHUB_RUN_ID": "99",
                "GITHUB_RUN_NUMBER": "12",
                "GITHUB_WORKFLOW": "nightly",
            },
            "GitHub Actions",
            12,
            "https://github.com/a/b/actions/runs/99",
        ),
        (
            {"GITLAB_CI": "true", "CI_PIPELINE_IID": "5", "CI_JOB_URL": "https://git.example/-/jobs/1"},
            "GitLab CI",
            5,
            "https://git.example/-/jobs/1",
        ),
        (
            {
                "JENKINS_URL": "https://ci.example/",
                "BUILD_NUMBER": "3",
                "BUILD_URL": "https://ci.example/job/x/3/",
            },
            "Jenkins",
            3,
            "https://ci.example/job/x/3/",
        ),
        (
            {
                "BUILDKITE": "true",
                "BUILDKITE_BUILD_NUMBER": "8",
                "BUILDKITE_BUILD_URL": "https://buildkite.com/o/p/builds/8",
            },
            "Buildkite",
            8,
            "https://buildkite.com/o/p/builds/8",
        ),
    ],
)
def test_the_executor_is_read_off_the_ci(environment, name, order, url):
    said = executor(environment)
    if "BUILDKITE" in environment:
        environment = {**environment, "BUILDKITE": "true"}
    assert (said["name"], said["buildOrder"], said["buildUrl"]) == (name, order, url)


@pytest.mark.parametrize(
    "present",
    ["GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "TF_BUILD", "TEAMCITY_VERSION", "JENKINS_URL"],
)
def test_a_ci_with_few_variables_is_still_named(present):
    said = executor({present: "true"})
    assert said["name"]
    assert "buildOrder" not in said


def test_outside_of_a_ci_there_is_no_executor():
    assert executor({"HOME": "/home/me", "CI": "true"}) is None


@pytest.mark.parametrize(
    ("endpoint", "region", "host"),
    [
        ("https://ec2.us-east-1.amazonaws.com", "us-east-1", "us-east-1.console.aws.amazon.com"),
        ("https://ec2.cn-north-1.amazonaws.com.cn", "cn-north-1", "cn-north-1.console.amazonaws.cn"),
        ("https://ec2.us-gov-west-1.amazonaws.com", "us-gov-west-1", "console.amazonaws-us-gov.com"),
        ("http://127.0.0.1:5000", "us-east-1", None),
        ("https://amazonaws.com.example.net", "us-east-1", None),
        ("", "", None),
    ],
)
def test_only_aws_has_a_console(endpoint, region, host):
    assert console_host(endpoint, region) == host


def test_a_link_shows_the_metrics_of_the_volume_over_the_test():
    instance = SimpleNamespace(
        id="i-0abc", type="m5.large", volumes=[SimpleNamespace(id="vol-0abc", label="gp3")]
    )

    def links(network):
        where = "https://ec2.us-east-1.amazonaws.com", "us-east-1"
        return console_links(instance, *where, (1_795_000_000, 1_795_000_060), network=network)

    link = links(network=False)["CloudWatch: gp3"]
    assert link.startswith(
        "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#metricsV2:graph=~(metrics~("
        "~(~'AWS*2fEBS~'VolumeReadOps~'VolumeId~'vol-0abc~(stat~'Sum))"
    )
    assert "~start~'2026-11-18T" in link
    assert link.count("(") == link.count(")")
    assert "EBSIOBalance*25" in links(network=False)["CloudWatch: m5.large i-0abc"]
    assert "NetworkIn" in links(network=True)["CloudWatch: m5.large i-0abc"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("hosts.errors.HostLost", TestOutcome.INFRASTRUCTURE),
        ("hosts.errors.NotOurs", TestOutcome.BROKEN),
        ("resources.errors.WaitTimeout", TestOutcome.INFRASTRUCTURE),
        ("resources.errors.ZoneMismatch", TestOutcome.BROKEN),
        ("aws.errors.Unreachable", TestOutcome.INFRASTRUCTURE),
        ("aws.errors.UnusableImage", TestOutcome.BROKEN),
        ("launcher.RegionEnded", TestOutcome.INFRASTRUCTURE),
        ("evidence.folder.EvidenceError", TestOutcome.INFRASTRUCTURE),
        ("workloads.errors.TargetError", TestOutcome.INFRASTRUCTURE),
        ("workloads.fio.errors.FioTimedOut", TestOutcome.INFRASTRUCTURE),
        ("workloads.fio.errors.FioRefused", TestOutcome.BROKEN),
        ("workloads.iperf3.errors.PortBusy", TestOutcome.INFRASTRUCTURE),
        ("workloads.create_files.errors.FilesystemFull", TestOutcome.INFRASTRUCTURE),
        ("evidence.replay.NotRecorded", TestOutcome.BROKEN),
    ],
)
def test_an_error_of_ours_blames_the_infrastructure_or_the_test(error, expected):
    module, _, name = error.rpartition(".")
    kind = getattr(importlib.import_module(f"pytest_cloudbench.{module}"), name)
    assert outcome_of(kind.__new__(kind, "why"), [], measured=False) is expected


def test_the_errors_of_a_workload_from_outside_are_filed_by_their_base():
    class SysbenchFailed(WorkloadFailed):
        pass

    class BadSysbenchJob(WorkloadRefused):
        pass

    assert outcome_of(SysbenchFailed("killed"), [], measured=False) is TestOutcome.INFRASTRUCTURE
    assert outcome_of(BadSysbenchJob("threads=0"), [], measured=False) is TestOutcome.BROKEN


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("16k", "16k"),
        (16, "16"),
        (None, "None"),
        ([1, "a"], "1, a"),
        ({"rw": "read"}, "rw=read"),
        (len, "len"),
    ],
)
def test_parameters_are_readable(value, said):
    assert readable(value) == said
