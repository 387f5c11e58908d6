"""Limits from outside the package: the recipe of docs/extending.md states an instance's limits and a volume type."""

import pytest
from recipes import code_blocks

import pytest_cloudbench

LOOK = """
from pytest_cloudbench import VolumeSpec

def test_it():
    spec = VolumeSpec.of("gp4", size_gib=8, iops=8_000)
    assert (spec.iops, spec.throughput_mib, spec.problems()) == (8_000, 250, [])
    assert "at most 1,000 IOPS per GiB" in str(VolumeSpec.of("gp4", size_gib=8, iops=8_001).problems()[0])
"""


@pytest.fixture
def project(pytester):
    """A project with the recipe's limits file and test; returns its folder."""
    (limits,) = code_blocks("A volume type or an instance's limit", "toml")
    (test,) = code_blocks("A volume type or an instance's limit")
    pytester.makefile(".toml", **{"cloudbench-limits": limits})
    pytester.makeini("[pytest]\ncloudbench_evidence = off\n")
    pytester.makepyfile(test_it=test)
    return pytester


def test_a_stated_volume_type_has_figures_and_rules_within_the_session_only(project):
    project.makepyfile(test_it=LOOK)
    project.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    assert pytest_cloudbench.VolumeSpec.of("gp4", size_gib=8).iops is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[instances."c5.large"]\nebs_iops = 3_000\ndate = "2026-05"\n', "needs source"),
        ('[instances."c5.large"]\nebs_iops = 3_000\nsource = "us"\ndate = "May"\n', 'such as "2026-05"'),
        (
            '[instances."c5.large"]\nnetwork = 5\nsource = "us"\ndate = "2026-05"\n',
            "has no unit",
        ),
        ('[volume_types.gp4]\nsource = "us"\ndate = "2026-05"\n', 'like = "TYPE" must name one of gp3'),
        ("[volume]\n", "unknown key 'volume': use instances, volume_types"),
        ("[instances", "Expected"),
    ],
)
def test_an_invalid_file_is_refused_before_anything_is_collected(project, text, words):
    project.makefile(".toml", **{"cloudbench-limits": text})
    result = project.runpytest_inprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *cloudbench-limits.toml: *{words.replace('[', '[[]')}*"])


@pytest.mark.embedded
def test_the_recipe_holds_on_the_embedded_region(project):
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "-rs")
    outcomes = result.parseoutcomes()
    result.stdout.fnmatch_lines(["*m5.large EBS IOPS*"])
    assert outcomes in ({"passed": 1}, {"skipped": 1}), "skipped only if this machine was the limit"
