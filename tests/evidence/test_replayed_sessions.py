"""A replay: the same tests on recorded measurements, judged by the present thresholds."""

import pytest

from pytest_cloudbench.evidence.reader import Evidence

NOTHING_RUNS = """
import pytest
from workload_stand_ins import stand_in

@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def run(*args, **more):
        raise AssertionError("a replay runs nothing")
    stand_in(monkeypatch, "fio", run)
"""


@pytest.fixture
def replay(session, recorded):
    """Run a changed test file against the evidence of the recorded one."""

    def run(body, *options):
        return session(NOTHING_RUNS + body, f"--cloudbench-replay={recorded}", *options)

    return run


def test_a_replay_returns_the_measurements_in_the_order_of_the_calls(replay, pytester):
    result = replay(
        """
def test_it_reaches(volume, fio):
    run = fio(volume, rw="randread", iodepth=16, runtime=300)
    assert (run.iops, run.raw["series_iops.log"][:5]) == (3_000.0, b"1000,")
    assert run.reaches("3,000 IOPS")

def test_two_of_them(volume, fio):
    assert [fio(volume, rw="randread").iops for _ in range(2)] == [2_000.0, 1_000.0]
"""
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "cloudbench replays *evidence: run * UTC by * on *",
            "*cloudbench verdicts*",
            "*::test_it_reaches",
            "  held: 3,000 of 3,000 IOPS*",
        ]
    )
    assert not (pytester.path / "cloudbench-evidence").exists(), "nothing was measured"


def test_verdicts_are_computed_again_with_present_thresholds(replay):
    result = replay(
        """
def test_it_reaches(volume, fio):
    run = fio(volume, rw="randread", iodepth=16, runtime=300)
    assert run.reaches("3,000 IOPS")
    assert run.reaches("4,000 IOPS")
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*violated: 3,000 of 4,000 IOPS*",
            "test_it.py::test_it_reaches: judged differently*held: 3,000 of 2,900 IOPS*",
        ]
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            'def test_it_reaches(volume, fio):\n    fio(volume, rw="randread", iodepth=32, runtime=300)\n',
            "*asks for fio(gp3 10 GiB vol-*, rw='randread', bs='4k', iodepth=32, runtime=300), which was not "
            "recorded in *evidence: there it was iodepth=16",
        ),
        (
            'def test_it_reaches(volume, fio):\n    fio(volume, rw="randread", iodepth=16)\n',
            "*there it was runtime=300",
        ),
        (
            "def test_it_reaches(volume, fio):\n"
            '    fio(volume, rw="randread", iodepth=16, runtime=300, time_based=1)\n',
            "*there it was without time_based=",
        ),
        (
            "import dataclasses\n"
            "def test_it_reaches(volume, fio):\n"
            '    fio(dataclasses.replace(volume, label="io2 vol-1"), rw="randread", iodepth=16, runtime=300)\n',
            "*there it was fio(gp3 10 GiB vol-*, rw='randread', bs='4k', iodepth=16, runtime=300)",
        ),
        (
            'def test_two_of_them(volume, fio):\n    for _ in range(3):\n        fio(volume, rw="randread")\n',
            "*asks for fio(*) a third time, and in *evidence it was recorded 2 times",
        ),
        (
            "def test_two_of_them(volume, create_files):\n    create_files(volume, count=10)\n",
            "*asks for create_files(*, count=10, size='1m', sync='end'), and nothing like it was recorded*",
        ),
        (
            'def test_it_reached(volume, fio):\n    fio(volume, rw="randread")\n',
            "*test_it.py::test_it_reached was not recorded in *; the nearest that were are "
            "test_it.py::test_it_reaches*",
        ),
    ],
)
def test_a_call_that_was_not_recorded_is_a_clear_error(replay, body, said):
    result = replay(body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *NotRecorded: {said}"])


def test_errors_are_raised_again(session, pytester):
    body = """
import pytest
from pytest_cloudbench.workloads.fio.errors import FioRefused
from workload_stand_ins import stand_in

def test_it(volume, fio, monkeypatch):
    def refused(*args, **more):
        raise FioRefused("fio on host does not take this")
    stand_in(monkeypatch, "fio", refused)
    with pytest.raises(FioRefused, match="does not take this"):
        fio(volume, rw="randread")

def test_interrupted(volume, fio, monkeypatch):
    def interrupted(*args, **more):
        raise KeyboardInterrupt
    stand_in(monkeypatch, "fio", interrupted)
    fio(volume, rw="randread")
"""
    session(body, "--cloudbench-evidence=kept")
    assert [test.outcome for test in Evidence(pytester.path / "kept").tests] == ["passed", "interrupted"]
    result = session(body, "--cloudbench-replay=kept")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*NotRecorded: fio(*) was interrupted by builtins:KeyboardInterrupt"])


def test_a_replay_uses_the_recorded_options_unless_overridden(session, pytester):
    body = """
import pytest

@pytest.mark.full_pace
def test_it(volume, fio, pytestconfig):
    from pytest_cloudbench.options import setting
    fio(volume, rw="randread")
    print("zone", setting(pytestconfig, "zone"))
"""
    options = ("--cloudbench-pace=full", "--cloudbench-zone=us-east-1b")
    session(body, "--cloudbench-evidence=kept", *options).assert_outcomes(passed=1)
    result = session(body, "--cloudbench-replay=kept", "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*zone us-east-1b"])
    result = session(body, "--cloudbench-replay=kept", "-s", "--cloudbench-zone=us-east-1a")
    result.stdout.fnmatch_lines(["*zone us-east-1a"])


def test_a_replay_has_the_recorded_pace_everywhere(session, pytester):
    body = """
def test_it(volume, fio, pytestconfig):
    from pytest_cloudbench.options import pace
    fio(volume, rw="randread")
    print("the pace is", pace(pytestconfig))
"""
    session(body, "--cloudbench-evidence=kept").assert_outcomes(passed=1)
    for options, paced in (((), "quick"), (("--cloudbench-pace=full",), "full")):
        result = session(body, "--cloudbench-replay=kept", "-s", *options)
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"*the pace is {paced}"])
    result = session(body, "--cloudbench-replay=kept", "-s", "--cloudbench-cloud=aws")
    result.stdout.fnmatch_lines(["*the pace is quick"])


def test_reruns_and_workers_replay_too(replay):
    body = """
def test_it_reaches(volume, fio):
    assert fio(volume, rw="randread", iodepth=16, runtime=300).reaches("9,000 IOPS")

def test_two_of_them(volume, fio):
    assert [fio(volume, rw="randread").iops for _ in range(2)] == [2_000.0, 1_000.0]
"""
    pytest.importorskip("pytest_rerunfailures")
    result = replay(body, "--reruns=1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*violated: 3,000 of 9,000 IOPS*"])
    replay(body.replace("9,000", "3,000"), "-n2").assert_outcomes(passed=2)


def test_the_last_attempt_is_replayed(session, pytester):
    pytest.importorskip("pytest_rerunfailures")
    body = """
def test_it(volume, fio):
    rates[:] = [1_000.0, 3_000.0]
    assert fio(volume, rw="randread").reaches("3,000 IOPS")
"""
    session(body, "--reruns=2", "--cloudbench-evidence=kept")
    session(body, "--cloudbench-replay=kept").assert_outcomes(passed=1)


def test_another_root_folder_does_not_matter(session, pytester):
    pytester.mkdir("below")
    pytester.makepyfile(
        **{
            "below/test_deep": "from conftest import rates\n\n"
            'def test_it(volume, fio):\n    assert fio(volume, rw="randread").iops == 3_000.0\n'
        }
    )
    session("", "--cloudbench-evidence=kept", "below/test_deep.py").assert_outcomes(passed=1)
    (pytester.path / "below" / "conftest.py").write_text((pytester.path / "conftest.py").read_text())
    folder = pytester.path / "kept"
    session("", f"--cloudbench-replay={folder}", "--rootdir=below", "below/test_deep.py").assert_outcomes(
        passed=1
    )


def test_altered_evidence_is_not_replayed(replay, recorded):
    (file,) = recorded.glob("tests/*reaches*/1/measurement-1.json")
    file.write_bytes(file.read_bytes().replace(b"3000.0", b"9000.0"))
    body = 'def test_it_reaches(volume, fio):\n    fio(volume, rw="randread", iodepth=16, runtime=300)\n'
    result = replay(body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *EvidenceAltered: *measurement-1.json*altered*verify"])
    (journal,) = recorded.glob("tests/*reaches*/1/journal.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'"iodepth":16', b'"iodepth":32'))
    result = replay(body)
    result.stdout.fnmatch_lines(
        ["E *EvidenceAltered: the journal of *test_it_reaches * (entry * was altered*"]
    )


@pytest.mark.parametrize("folder", ["nowhere", "empty", "runs"])
def test_a_folder_without_evidence_is_refused_before_anything_runs(session, pytester, recorded, folder):
    pytester.mkdir("empty")
    pytester.mkdir("runs")
    recorded.rename(pytester.path / "runs" / "20261120-first")
    result = session("def test_it():\n    pass\n", f"--cloudbench-replay={folder}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    more = {
        "nowhere": "not exist*",
        "empty": "no evidence*",
        "runs": "no evidence*the last is *20261120-first",
    }
    result.stderr.fnmatch_lines([f"ERROR: *{folder} *{more[folder]}"])


def test_evidence_of_another_format_names_the_version_that_reads_it(recorded, session):
    journal = recorded / "journals" / "main.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"format":1', b'"format":99', 1))
    result = session("def test_it():\n    pass\n", f"--cloudbench-replay={recorded}")
    result.stderr.fnmatch_lines(["ERROR: *format 99*reads 1*version *"])


def test_a_killed_run_can_be_replayed(recorded, session):
    (recorded / "MANIFEST.sha256").unlink()
    journal = recorded / "journals" / "main.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    result = session(
        "def test_it_reaches(volume, fio):\n"
        '    assert fio(volume, rw="randread", iodepth=16, runtime=300).iops == 3_000\n',
        f"--cloudbench-replay={recorded}",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["cloudbench replays *not finished*"])
