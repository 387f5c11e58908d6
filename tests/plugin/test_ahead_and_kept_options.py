"""The options that launch ahead and keep hardware: what they refuse before anything is collected."""

import pytest

from pytest_cloudbench import launcher


@pytest.fixture
def project(pytester):
    pytester.makepyfile("raise AssertionError('collected')")
    return pytester


@pytest.mark.parametrize("text", ["-1", "two", "21", "1.5", ""])
def test_a_number_of_launches_is_a_small_whole_number(project, text):
    result = project.runpytest_inprocess(f"--cloudbench-ahead={text}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-ahead*from 0 to 20*"])


def test_hardware_of_a_region_that_ends_with_the_session_cannot_be_kept(project, monkeypatch):
    monkeypatch.setattr(launcher, "kept_region", lambda: None)
    result = project.runpytest_inprocess("--cloudbench-keep-failed")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-keep-failed*ends with it*cloudbench twin up*"])


def test_an_environment_that_names_a_region_that_has_ended_is_a_usage_error(project, monkeypatch):
    monkeypatch.setenv(launcher.KEPT_VARIABLE, "http://127.0.0.1:1")
    result = project.runpytest_inprocess("--cloudbench-keep-failed")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{launcher.KEPT_VARIABLE}=http://127.0.0.1:1*has ended*"])


def test_hardware_of_another_provider_cannot_be_kept(project):
    project.makeconftest(
        "def pytest_cloudbench_provider(config, name):\n    return object if name == 'lab' else None\n"
    )
    result = project.runpytest_inprocess("--cloudbench-keep-failed", "--cloudbench-cloud=lab")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-keep-failed*EC2*lab*"])
