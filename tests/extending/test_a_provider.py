"""A provider from outside the package: the recipe of docs/extending.md makes this machine a cloud of one instance."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from recipes import code_blocks

QUIET = ("-p", "no:cacheprovider", "-p", "no:benchmark")
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed on this machine")


@pytest.fixture
def project(pytester):
    """A project with the recipe's conftest and test."""
    conftest, test, _, _ = code_blocks("A provider")
    pytester.makeconftest(conftest)
    pytester.makeini("[pytest]\ncloudbench_evidence = off\n")
    pytester.makepyfile(test_it=test)
    return pytester


def run(project, *arguments):
    return project.runpytest_inprocess(*QUIET, "-rA", *arguments)


@needs_fio
def test_the_recipe_measures_on_this_machine_and_replays_without_the_provider(project):
    recorded = run(project, "--cloudbench-cloud=lab", "--cloudbench-evidence=kept")
    recorded.assert_outcomes(passed=1)
    assert "quick pace" not in recorded.stdout.str()
    project.makeconftest("")
    replayed = run(project, "--cloudbench-replay=kept")
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["cloudbench replays *lab*"])


def loop_devices():
    """Return the loop devices whose files belong to the recipe."""
    listed = subprocess.check_output(
        ["losetup", "--list", "--noheadings", "--output", "BACK-FILE"], text=True
    )
    return [line for line in listed.splitlines() if "/lab-" in line]


@needs_fio
@pytest.mark.alone
@pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root")
def test_the_recipe_with_volumes_measures_on_real_devices_and_replays(project):
    conftest, _, disks, test = code_blocks("A provider")
    project.makeconftest(conftest + disks)
    project.makepyfile(test_it=test)
    mount_points = set(Path("/mnt").glob("vol-*"))
    recorded = run(project, "--cloudbench-cloud=lab-with-disks", "--cloudbench-evidence=kept")
    for empty in set(Path("/mnt").glob("vol-*")) - mount_points:
        empty.rmdir()
    recorded.assert_outcomes(passed=1)
    assert loop_devices() == []
    project.makeconftest("")
    replayed = run(project, "--cloudbench-replay=kept")
    replayed.assert_outcomes(passed=1)


def test_an_unknown_name_is_refused_before_anything_is_collected(project):
    project.makepyfile(test_it="raise AssertionError('collected')")
    result = run(project, "--cloudbench-cloud=lob")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-cloud*'lob'*embedded, aws, lab*"])


@pytest.mark.parametrize(
    ("marks", "fixture", "error"),
    [
        (
            "@pytest.mark.ec2_instance('workbnech')",
            "ec2_instance",
            "*UnknownInstanceType*the lab has no workbnech*",
        ),
        (
            "@pytest.mark.ec2_instance('workbench')\n@pytest.mark.ebs_volume(gp3(size_gib=1))",
            "ebs_volume",
            "*NotOffered*lab cannot create volumes*",
        ),
        ("@pytest.mark.ec2_pair('workbench')", "ec2_pair", "*NotOffered*the lab has one machine*"),
    ],
)
def test_what_the_provider_does_not_offer_is_an_error_of_one_sentence(project, marks, fixture, error):
    project.makepyfile(
        test_it=f"import pytest\nfrom pytest_cloudbench import gp3\n\n{marks}\ndef test_it({fixture}):\n    pass\n"
    )
    result = run(project, "--cloudbench-cloud=lab")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([error])


@pytest.mark.parametrize(
    ("doing", "error"),
    [
        ("ec2_instance.stop()", "*NotOffered*lab cannot stop instances*"),
        ("ec2_instance.reboot()", "*NotOffered*lab cannot reboot instances*"),
    ],
)
def test_requests_within_a_test_are_refused_alike(project, doing, error):
    project.makepyfile(
        test_it=f"import pytest\n\n@pytest.mark.ec2_instance('workbench')\ndef test_it(ec2_instance):\n    {doing}\n"
    )
    result = run(project, "--cloudbench-cloud=lab")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([error])


def test_what_remains_at_the_end_fails_the_session(project):
    conftest = code_blocks("A provider")[0]
    left = 'TeardownReport(remaining=(Leftover("machine", "workbench-1", "on"),))'
    project.makeconftest(
        conftest.replace("TeardownReport()", left).replace("NotOffered, ", "NotOffered, Leftover, ")
    )
    project.makepyfile(
        test_it="import pytest\n\n@pytest.mark.ec2_instance('workbench')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = run(project, "--cloudbench-cloud=lab")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*TeardownFailed*", "*machine workbench-1 (on) still exists*"])


def test_a_time_factor_is_for_the_embedded_region_only(project):
    result = run(project, "--cloudbench-cloud=lab", "--cloudbench-twin-time=60")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*60 times on lab*--cloudbench-twin-time*"])
