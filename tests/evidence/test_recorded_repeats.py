"""Repeats of a test: each is recorded with its own measurement, and a replay judges all of them again."""

import re
import shutil
from pathlib import Path

import pytest
import recorded_runs

# Loaded here so that the sessions inside these tests do not load them again.
import pytest_cloudbench.aws.cloud
import pytest_cloudbench.resources.ec2
import pytest_cloudbench.resources.shared_hardware
import pytest_cloudbench.verdicts.repeats  # noqa: F401
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.verify import verify

BODY = """
import pytest
from pytest_cloudbench import gp3

@pytest.mark.cloudbench_repeats({repeats})
@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=10))
def test_it(ec2_instance, ebs_volume, fio):
    rates[:] = [3_000.0, 2_990.0, 3_010.0, 2_000.0, 3_000.0, 3_000.0, 3_000.0, 3_000.0, 3_000.0]
    with open("used", "a") as file:
        print(ec2_instance.id, ebs_volume.id, file=file)
    assert fio(ebs_volume, rw="randread").reaches("{target} IOPS")
"""

NOTHING = """
@pytest.fixture(scope="session")
def _cloudbench_cloud():
    raise AssertionError("a replay opens no cloud")
"""


@pytest.fixture
def sessions(session, pytester):
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN)
    return session


def body(repeats="9", target="3,000"):
    return BODY.format(repeats=repeats, target=target)


def test_each_repeat_has_its_record_and_the_verdict_over_all_has_its_own(sessions, pytester):
    sessions(body(), "--cloudbench-evidence=kept").assert_outcomes(passed=10)
    assert verify(pytester.path / "kept").exit_code == 0
    tests = {test.nodeid.partition("::")[2]: test for test in Evidence(pytester.path / "kept").tests}
    assert [name for name in tests if "repeat " in name] == [
        f"test_it[repeat {n} of 9]" for n in range(1, 10)
    ]
    (fourth,) = tests["test_it[repeat 4 of 9]"].of_kind("verdict")
    assert fourth["verdict"]["outcome"]["value"] == "violated"
    (over_all,) = tests["test_it[all 9 repeats]"].of_kind("verdict")
    assert over_all["verdict"]["outcome"]["value"] == "held"
    assert "8 of 9 repeats" in over_all["sentence"]


def test_the_example_of_the_documentation_runs(sessions):
    documentation = Path(__file__).parents[2] / "docs" / "repeats.md"
    (example,) = re.findall(r"^```python\n(.*?)^```$", documentation.read_text(), re.MULTILINE | re.DOTALL)
    result = sessions(example, "--cloudbench-evidence=off")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["  held: reaches*6 of 6 repeats*", "  held: steady*6 of 6 repeats*"])


def test_a_replay_judges_all_repeats_again(sessions, pytester):
    sessions(body(), "--cloudbench-evidence=kept").assert_outcomes(passed=10)
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + NOTHING)
    result = sessions(body(), "--cloudbench-replay=kept")
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["  held: *8 of 9 repeats*violated in repeat 4: 2,000 of 3,000 IOPS*"])
    assert result.stdout.str().count("(quick pace: runtime 300 s -> 10 s)") == 1, "of equal repeats once"
    stricter = sessions(body(target="4,000"), "--cloudbench-replay=kept")
    stricter.assert_outcomes(passed=9, failed=1)
    stricter.stdout.fnmatch_lines(["*all 9 repeats?: judged differently*held:*8 of 9*"])


def test_each_repeat_has_fresh_hardware(sessions, pytester):
    sessions(body(), "--cloudbench-evidence=off").assert_outcomes(passed=10)
    used = (pytester.path / "used").read_text().split()
    assert len(set(used)) == 2 * 9


@pytest.mark.parametrize("evidence", ["off", "kept"])
def test_repeats_on_the_same_hardware_share_what_the_first_created(sessions, pytester, evidence):
    same = body("9, on='same'")
    sessions(same, f"--cloudbench-evidence={evidence}").assert_outcomes(passed=10)
    used = (pytester.path / "used").read_text().splitlines()
    assert (len(used), len(set(used))) == (9, 1)
    if evidence == "kept":
        assert verify(pytester.path / "kept").exit_code == 0
        pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + NOTHING)
        sessions(same, "--cloudbench-replay=kept").assert_outcomes(passed=10)


RELEASES = """

def release(self, resources):
    with open("released", "a") as file:
        file.write(" ".join(sorted(getattr(each, "id", "") for each in resources)) + "\\n")


Clouds.release = release
"""


def test_the_same_hardware_is_removed_once_at_the_end_of_the_last_repeat(sessions, pytester):
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + RELEASES)
    sessions(body("9, on='same'"), "--cloudbench-evidence=off")
    (released,) = (pytester.path / "released").read_text().splitlines()
    instance, volume = released.split()
    assert instance.startswith("i-")
    assert volume.startswith("vol-")


FLAKY = """
    with open("used") as file:
        tried = file.read().count("\\n")
    assert tried not in {failing}
"""


@pytest.mark.parametrize(
    ("failing", "sharing"), [({1}, 10), ({4}, 10), ({9}, 9)], ids=["first", "another", "last"]
)
def test_a_rerun_on_the_same_hardware_works_and_the_last_one_gets_fresh_hardware(
    sessions, pytester, failing, sharing
):
    """Nobody knows that the last repeat is run again before its hardware is removed."""
    pytest.importorskip("pytest_rerunfailures")
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + RELEASES)
    flaky = body("9, on='same'") + FLAKY.format(failing=failing)
    sessions(flaky, "--cloudbench-evidence=off", "--reruns=1").assert_outcomes(passed=10)
    used = (pytester.path / "used").read_text().splitlines()
    assert [used.count(each) for each in dict.fromkeys(used)] == [sharing, 10 - sharing][: 1 + (sharing < 10)]
    released = (pytester.path / "released").read_text().splitlines()
    assert sorted(released) == sorted(set(released)), "nothing is removed twice"
    assert {word for line in released for word in line.split()} == {
        word for line in used for word in line.split()
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ec2.launch(types.pop())", "*other hardware than the first*m5.large*m5.xlarge*on='fresh'*"),
        (
            "ec2.create_volume(gp3(size_gib=1), ec2.launch('m5.xlarge')).modify(size_gib=20)",
            "*modify_volume changes the hardware*on='fresh'*",
        ),
    ],
)
def test_what_the_same_hardware_cannot_be_used_for_is_refused(sessions, change, said):
    result = sessions(
        f"""
import pytest
from pytest_cloudbench import gp3

types = ["m5.large", "m5.xlarge"]

@pytest.mark.cloudbench_repeats(2, on="same")
def test_it(ec2):
    {change}
""",
        "--cloudbench-evidence=off",
    )
    assert result.parseoutcomes()["failed"] >= 1
    result.stdout.fnmatch_lines([said])


def test_a_gate_judges_all_repeats_together(sessions, pytester):
    plain = body(target="1,000").replace("rates[:] = [", "rates[:] = [3_000.0] or [")
    sessions(plain, "--cloudbench-evidence=earlier").assert_outcomes(passed=10)
    gate = ("--cloudbench-evidence=off", "--cloudbench-baseline=earlier", "--cloudbench-regression=5%")
    worse_once = body(target="1,000").replace("2_000.0", "1_500.0")
    result = sessions(worse_once, *gate)
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["  held: *not worse*8 of 9 repeats*violated in repeat 4: *"])
    result = sessions(plain.replace("3_000.0] or", "1_500.0] or"), *gate)
    result.assert_outcomes(passed=9, failed=1)
    result.stdout.fnmatch_lines(["*violated: *not worse*0 of 9 repeats*"])


SEARCH = """
import pytest
from pytest_cloudbench import gp3
from pytest_cloudbench.strategies import fio_jobs

@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=10))
def test_it(ebs_volume, fio, search_jobs):
    def keeps(job):
        run = fio(ebs_volume, **job)
        assert run.reaches("{target} IOPS")

    jobs = fio_jobs(patterns=("randread", "read"), blocks=("4k", "8k"), depths=(16,), numjobs=(1,))
    assert search_jobs(ebs_volume, jobs, keeps)
"""


def test_a_replay_judges_the_jobs_of_a_search_again(sessions, pytester):
    result = sessions(SEARCH.format(target="3,000"), "--cloudbench-evidence=kept")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  held: no job fell short; 4 jobs were measured in *"])
    assert verify(pytester.path / "kept").exit_code == 0
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + NOTHING)
    sessions(SEARCH.format(target="3,000"), "--cloudbench-replay=kept").assert_outcomes(passed=1)
    stricter = sessions(SEARCH.format(target="4,000"), "--cloudbench-replay=kept")
    stricter.assert_outcomes(failed=1)
    stricter.stdout.fnmatch_lines(["*violated: the smallest job that falls short is rw=*4 jobs*"])


def test_jobs_of_a_search_are_judged_one_by_one_in_a_repeat_too(sessions):
    body = SEARCH.format(target="4,000").replace(
        "@pytest.mark.ec2", "@pytest.mark.cloudbench_repeats(6)\n@pytest.mark.ec2", 1
    )
    result = sessions(body, "--cloudbench-evidence=off")
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["*violated: search*0 of 6 repeats*"])


@pytest.mark.parametrize("failing", [{1}, {4}, {9}, {9, 10}], ids=["first", "another", "last", "last twice"])
def test_reruns_on_the_same_hardware_replay(sessions, pytester, failing):
    """The last attempt of a repeat is replayed, also if another attempt created its hardware."""
    pytest.importorskip("pytest_rerunfailures")
    flaky = body("9, on='same'") + FLAKY.format(failing=failing)
    sessions(flaky, "--cloudbench-evidence=kept", "--reruns=2").assert_outcomes(passed=10)
    assert verify(pytester.path / "kept").exit_code == 0
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + NOTHING)
    sessions(body("9, on='same'"), "--cloudbench-replay=kept").assert_outcomes(passed=10)
    used = (pytester.path / "used").read_text().splitlines()
    assert used[-1] == used[-10], "a repeat is replayed on the hardware that it was measured on"


def test_one_repeat_on_the_same_hardware_replays_alone(sessions, pytester):
    same = body("9, on='same'")
    sessions(same, "--cloudbench-evidence=kept").assert_outcomes(passed=10)
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + NOTHING)
    result = sessions(same, "--cloudbench-replay=kept", "-k", "repeat and 5")
    result.assert_outcomes(passed=1)


def test_repeats_replay_of_which_only_the_first_recorded_their_hardware(sessions, pytester):
    """As versions until 2026-11 recorded them."""
    shutil.unpack_archive(Path(__file__).parent / "kept_repeats" / "0.1.tar.xz", pytester.path)
    assert verify(pytester.path / "evidence").exit_code == 0
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + NOTHING)
    result = sessions(body("2, on='same'"), "--cloudbench-replay=evidence")
    result.assert_outcomes(passed=2, failed=1)  # two repeats are too few to decide
    result.stdout.no_fnmatch_line("*judged differently*")
    used = (pytester.path / "used").read_text().splitlines()
    assert (len(used), len(set(used))) == (2, 1)
