"""The evidence of a session: its place, its time, and that nothing is lost or overwritten."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import recorded_runs

from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.restorable import measurement_from
from pytest_cloudbench.evidence.verify import UNFINISHED, verify

PASSES = """
def test_it(volume, fio):
    assert fio(volume, rw="randread", iodepth=16).reaches("3,000 IOPS")
"""


def evidence_of(pytester, name="cloudbench-evidence/2*"):
    (found,) = pytester.path.glob(name)
    return Evidence(found)


def test_a_session_that_measures_leaves_evidence_under_the_root_folder(session, pytester):
    result = session(PASSES)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "cloudbench evidence of 1 test with 1 measurement in cloudbench-evidence/* (* KiB; SHA-256 of the *)"
        ]
    )
    evidence = evidence_of(pytester)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", evidence.root.name)
    assert evidence.run["run"] == evidence.root.name
    assert evidence.finished
    session(PASSES)
    assert len(list(pytester.path.glob("cloudbench-evidence/2*"))) == 2, "another run, another folder"


def test_a_session_that_measures_nothing_leaves_nothing(session, pytester):
    session("def test_it(fio):\n    pass\n").assert_outcomes(passed=1)
    assert not (pytester.path / "cloudbench-evidence").exists()


@pytest.mark.parametrize("off", ["off", ""])
def test_evidence_can_be_disabled(session, pytester, off):
    session(PASSES, f"--cloudbench-evidence={off}").assert_outcomes(passed=1)
    assert not (pytester.path / "cloudbench-evidence").exists()


def test_evidence_is_never_overwritten(session, pytester):
    session(PASSES, "--cloudbench-evidence=kept").assert_outcomes(passed=1)
    before = sorted(
        (path, path.read_bytes()) for path in (pytester.path / "kept").rglob("*") if path.is_file()
    )
    result = session(PASSES, "--cloudbench-evidence=kept")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *kept exists*{run}*"])
    after = sorted(
        (path, path.read_bytes()) for path in (pytester.path / "kept").rglob("*") if path.is_file()
    )
    assert after == before
    (pytester.path / "empty").mkdir()
    session(PASSES, "--cloudbench-evidence=empty").assert_outcomes(passed=1)
    session(PASSES, "--cloudbench-evidence=runs/{run}").assert_outcomes(passed=1)
    session(PASSES, "--cloudbench-evidence=runs/{run}").assert_outcomes(passed=1)
    assert len(list((pytester.path / "runs").iterdir())) == 2


def test_the_ini_file_sets_the_folder_too(session, pytester):
    pytester.makeini("[pytest]\ncloudbench_evidence = elsewhere/{run}\n")
    session(PASSES).assert_outcomes(passed=1)
    assert evidence_of(pytester, "elsewhere/*").finished


def test_a_folder_that_cannot_be_written_fails_the_test_before_anything_is_measured(session, pytester):
    (pytester.path / "a-file").write_text("in the way")
    result = session(
        PASSES + "\n\ndef test_nothing_ran():\n    assert not ran\n", "--cloudbench-evidence=a-file/x"
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *EvidenceError: the evidence of this run cannot be written to *=off*"])


def test_a_test_s_record_is_complete_and_in_order(recorded):
    evidence = Evidence(recorded)
    first, second = evidence.tests
    assert (first.nodeid, first.outcome) == ("test_it.py::test_it_reaches", "passed")
    kinds = [entry["kind"] for entry in first.entries]
    assert kinds[0] == "begin"
    assert kinds[-1] == "end"
    assert [kind for kind in kinds if kind in ("workload", "verdict", "phase")] == [
        "workload",
        "verdict",
        "verdict",
        "phase",
        "phase",
    ]
    (workload,) = first.of_kind("workload")
    assert workload["arguments"] == {"rw": "randread", "bs": "4k", "iodepth": 16, "runtime": 300}
    assert workload["target"] == f"gp3 10 GiB {recorded_runs.VOLUME}"
    assert first.verdicts[0].startswith("held: 3,000 of 3,000 IOPS")
    verdict = first.of_kind("verdict")[0]
    assert verdict["of"] == workload["file"]
    assert verdict["verdict"]["details"]["within"] == 0.1
    assert [phase["outcome"] for phase in first.of_kind("phase")] == ["passed"] * 2
    kept = measurement_from(first.measurement(workload["file"]), first.read)
    assert kept == recorded_runs.measured()
    figures = first.measurement(workload["file"])["figures"]
    assert figures["iops"] == 3_000.0
    assert "series" not in figures
    ceilings = first.measurement(workload["file"])["value"]["envelope"]["ceilings"]
    assert {ceiling["source"] for ceiling in ceilings} > {"EC2 DescribeInstanceTypes"}
    assert [each["figures"]["iops"] for each in second.measurements()] == [2_000.0, 1_000.0]
    source = recorded / first.of_kind("begin")[0]["source"]
    assert "def test_it_reaches" in source.read_text()


def test_a_run_s_record_says_who_ran_what(recorded):
    run = Evidence(recorded).run
    assert run["versions"]["pytest"] == pytest.__version__
    assert "pytest-cloudbench" in run["versions"]
    assert run["by"]["user"]
    assert "--cloudbench-evidence=evidence" in run["command"]
    assert run["options"]["cloud"] == "embedded"
    assert run["options"]["pace"] == "quick", "the default that was in force"
    assert run["machine"]["processors"]
    assert set(run["git"]) & {"revision", "none"}


@pytest.mark.parametrize(
    ("options", "pace"), [((), "full"), (("--cloudbench-pace=quick",), "quick"), (("-n1",), "full")]
)
def test_the_effective_pace_on_aws_is_recorded(session, pytester, options, pace):
    body = "def test_it(volume, fio):\n    fio(volume, rw='randread')\n"
    aws = ("--cloudbench-cloud=aws", "--cloudbench-evidence=kept")
    session(body, *aws, *options).assert_outcomes(passed=1)
    parts = Evidence(pytester.path / "kept").parts.values()
    assert [part.entries[0]["options"]["pace"] for part in parts] == [pace] * len(parts)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_git_revision_of_the_tests_is_recorded(session, pytester):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words], cwd=pytester.path, check=True
        )

    git("init", "-q", "-b", "trunk")
    git("remote", "add", "origin", "https://me:hunter22hunter22@git.example.org/tests.git")
    pytester.makepyfile(test_other="def test_other():\n    pass\n")
    git("add", "test_other.py")
    git("commit", "-q", "-m", "tests")
    (pytester.path / "test_other.py").write_text("# changed\n")
    session(PASSES, "--cloudbench-evidence=kept", "test_it.py")
    facts = Evidence(pytester.path / "kept").run["git"]
    assert re.fullmatch("[0-9a-f]{40}", facts["revision"])
    assert facts["branch"] == "trunk"
    assert facts["changed"] == ["test_other.py"]
    assert facts["remote"] == "https://(removed: login)@git.example.org/tests.git"


def test_failures_errors_and_skips_are_recorded_with_their_messages(session, pytester):
    session(
        """
import pytest

def test_violated(volume, fio):
    assert fio(volume, rw="randread").reaches("9,000 IOPS")

def test_skipped(volume, fio):
    fio(volume, rw="randread")
    pytest.skip("not today")

@pytest.fixture
def broken(volume, fio):
    fio(volume, rw="randread")
    raise OSError("no such luck")

def test_broken(broken):
    pass
""",
        "--cloudbench-evidence=kept",
    ).assert_outcomes(failed=1, skipped=1, errors=1)
    tests = Evidence(pytester.path / "kept").tests
    assert [test.outcome for test in tests] == ["failed", "skipped", "error"]
    messages = ["".join(phase.get("message", "") for phase in test.of_kind("phase")) for test in tests]
    assert "violated: 3,000 of 9,000 IOPS" in messages[0]
    assert "not today" in messages[1]
    assert "no such luck" in messages[2]
    assert verify(pytester.path / "kept").exit_code == 0


def test_a_failed_workload_is_recorded_with_its_error(session, pytester):
    session(
        """
import pytest
from workload_stand_ins import stand_in

def test_it(volume, fio, monkeypatch):
    def lost(*args, **more):
        raise TimeoutError("the host went away")
    stand_in(monkeypatch, "fio", lost)
    with pytest.raises(TimeoutError):
        fio(volume, rw="randread")
""",
        "--cloudbench-evidence=kept",
    ).assert_outcomes(passed=1)
    (test,) = Evidence(pytester.path / "kept").tests
    (workload,) = test.of_kind("workload")
    assert workload["outcome"] == "failed"
    error = measurement_from(test.measurement(workload["file"]), test.read)
    assert (type(error), str(error)) == (TimeoutError, "the host went away")


def test_each_attempt_of_a_test_has_its_own_record(session, pytester):
    pytest.importorskip("pytest_rerunfailures")
    session(
        """
def test_it(volume, fio):
    rates[:] = [1_000.0, 3_000.0]
    assert fio(volume, rw="randread").reaches("3,000 IOPS")
""",
        "--reruns=2",
        "--cloudbench-evidence=kept",
    )
    attempts = Evidence(pytester.path / "kept").tests
    assert [attempt.outcome for attempt in attempts] == ["rerun", "passed"]
    assert [attempt.path[-2:] for attempt in attempts] == ["/1", "/2"]
    assert [attempt.measurements()[0]["figures"]["iops"] for attempt in attempts] == [1_000.0, 3_000.0]


def test_unusual_test_names_give_safe_folder_names(session, pytester):
    session(
        """
import pytest

@pytest.mark.parametrize("case", ["../../etc", "a b:c*?", "é" * 200, "", "x" * 300, "CON", "a/b", "a.b"])
def test_it(volume, fio, case):
    fio(volume, rw="randread")
""",
        "--cloudbench-evidence=kept",
    ).assert_outcomes(passed=8)
    names = [path.name for path in (pytester.path / "kept" / "tests").iterdir()]
    assert len(names) == 8
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name) and not name.startswith(".") for name in names)
    assert len({test.nodeid for test in Evidence(pytester.path / "kept").tests}) == 8
    assert verify(pytester.path / "kept").exit_code == 0


def test_evidence_outside_the_current_directory_has_an_absolute_path(session, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere") / "kept"
    session(PASSES, f"--cloudbench-evidence={folder}").stdout.fnmatch_lines(
        [f"cloudbench evidence of 1 test * in {folder} (*"]
    )


def test_workers_write_parts_and_the_controller_completes_them(session, pytester):
    body = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(volume, fio, number):
    assert fio(volume, rw="randread").reaches("3,000 IOPS")
"""
    result = session(body, "-n2", "--cloudbench-evidence=kept")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["cloudbench evidence of 6 tests with 6 measurements in kept *"])
    evidence = Evidence(pytester.path / "kept")
    assert sorted(evidence.parts) == ["gw0", "gw1", "main"]
    assert len({test.nodeid for test in evidence.tests}) == 6
    assert {part.entries[0]["run"] for part in evidence.parts.values()} == {evidence.run["run"]}
    assert verify(evidence.root).exit_code == 0
    (evidence.root / "journals" / "gw1.jsonl").unlink()
    found = verify(evidence.root)
    assert any("gw1.jsonl: missing" in line for line in found.differences)


def test_a_crashed_worker_leaves_its_entries_and_the_run_reports_it(session, pytester):
    body = """
import os

def test_it(volume, fio):
    fio(volume, rw="randread")
    os._exit(9)

def test_other(volume, fio):
    fio(volume, rw="randread")
"""
    result = session(body, "-n1", "--cloudbench-evidence=kept")
    result.stdout.fnmatch_lines(
        ["cloudbench evidence is incomplete: the process gw0 ended in the middle of test_it.py::test_it; *"]
    )
    evidence = Evidence(pytester.path / "kept")
    assert verify(evidence.root).exit_code == 0
    assert [test.outcome for test in evidence.tests if test.nodeid.endswith("test_it")] == [""]
    crashed = next(test for test in evidence.tests if test.nodeid.endswith("::test_it"))
    assert crashed.measurements()[0]["figures"]["iops"] == 3_000.0


def test_an_error_in_recording_fails_no_test_but_is_reported(session, pytester):
    body = """
from pytest_cloudbench.evidence.folder import EvidenceFolder

def test_it(volume, fio, monkeypatch):
    fio(volume, rw="randread")

    def full(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EvidenceFolder, "write", full)
    assert fio(volume, rw="randread").iops == 3_000.0
"""
    result = session(body, "--cloudbench-evidence=kept")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["cloudbench evidence is incomplete: what fio measured in * could not be recorded*No space*"]
    )
    found = verify(pytester.path / "kept")
    assert found.exit_code == 0, "the rest is unaltered"
    assert any("the run noted: what fio measured" in note for note in found.notes)


GOES_ON = """
import itertools


def test_many(volume, fio):
    for number in itertools.count():
        fio(volume, rw="randread", iodepth=1 + number)
"""


@pytest.mark.parametrize("pause_s", [0.02, 0.1, 0.25, 0.5, 0.9])
def test_a_killed_run_leaves_readable_and_verifiable_measurements(session, pytester, pause_s):
    pytester.makepyfile(test_it=GOES_ON)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--cloudbench-evidence=kept",
        "test_it.py",
    ]
    process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL)
    measured = pytester.path / "kept"
    deadline = time.monotonic() + 60
    # The entry follows the file, on a busy machine some time later.
    while not any(
        b'"kind":"workload"' in each.read_bytes() for each in measured.glob("tests/*/1/journal.jsonl")
    ):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(pause_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = verify(measured)
    assert found.exit_code == UNFINISHED, str(found)
    (test,) = Evidence(measured).tests
    workloads = test.of_kind("workload")
    assert workloads
    for workload in workloads:
        assert measurement_from(test.measurement(workload["file"]), test.read) == recorded_runs.measured()
    assert json.loads((measured / "journals" / "main.jsonl").read_text().splitlines()[0])["run"]


@pytest.mark.parametrize("seen", ["journals/main.jsonl", "tests/*/1/journal.jsonl"])
def test_a_run_killed_before_its_first_measurement_is_not_intact(session, pytester, seen):
    pytester.makepyfile(test_it=GOES_ON)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--cloudbench-evidence=kept"]
    process = subprocess.Popen([*command, "test_it.py"], cwd=pytester.path, stdout=subprocess.DEVNULL)
    folder = pytester.path / "kept"
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in folder.glob(seen)):
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = verify(folder)
    assert found.exit_code == UNFINISHED, str(found)
    assert Evidence(folder).run["run"]
