"""The benchmark of the scenarios' times: what it runs, and when it is content."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scenario_times():
    spec = importlib.util.spec_from_file_location("scenario_times", ROOT / "benchmarks" / "scenario_times.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_scenario_is_timed_once(scenario_times):
    timed = sorted(file for case in scenario_times.CASES.values() for file in case.files)
    assert timed == sorted(path.name for path in (ROOT / "scenarios").glob("test_*.py"))


@pytest.mark.parametrize(
    ("seconds", "exit_code", "passed", "kept"),
    [(89.9, 0, 3, True), (90.1, 0, 3, False), (10, 1, 3, False), (10, 0, 0, False)],
    ids=["in time", "too slow", "a test failed", "all skipped"],
)
def test_a_case_is_kept_in_time_with_a_verdict_and_without_a_failure(
    scenario_times, seconds, exit_code, passed, kept
):
    outcomes = {"passed": passed, "skipped": 1, "failed": 0}
    assert scenario_times.Result(seconds, exit_code, outcomes).kept(90) is kept


def test_a_session_is_run_and_its_outcomes_counted(scenario_times, tmp_path, monkeypatch, capsys):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): pytest.skip('the machine')\n"
        "def test_c(): assert False, 'why'\n"
        "def test_d(): assert False\n"
    )
    monkeypatch.setattr(scenario_times, "SCENARIOS", tmp_path)
    result = scenario_times.run(scenario_times.Case(("test_it.py",), 90, only="not test_d"))
    assert (result.exit_code, result.outcomes) == (1, {"passed": 1, "skipped": 1, "failed": 1})
    assert result.seconds > 0
    assert "why" in capsys.readouterr().err


def test_an_unknown_case_is_refused_with_the_known_ones():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "scenario_times.py", "tapes"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "unknown case 'tapes': use io2, network, storage, curves" in done.stderr
