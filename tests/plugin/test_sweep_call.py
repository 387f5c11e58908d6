"""What the `sweep` fixture adds to a run: the project's mixes, the report, the live line, interruptions."""

import importlib.util
import json
from pathlib import Path

import pytest

# Loaded here so that the runs inside these tests do not load it again: classes would exist twice.
import pytest_cloudbench.workloads.sweep.sweep  # noqa: F401

STANDS_IN = f"""
    import sys

    import pytest

    sys.path[:0] = {[str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "verdicts")]!r}

    from synthetic_curves import curve_of
    from workload_stand_ins import stand_in

    from pytest_cloudbench.limits.quantities import Iops
    from pytest_cloudbench.workloads.sweep.errors import SweepBroken, SweepInterrupted
    from pytest_cloudbench.workloads.sweep.sweep import SweepProgress

    ran = []

    def run(target, plan, *, pace, on_progress, on_run):
        ran.append((target, plan, pace.value))
        if on_progress is not None:
            on_progress(SweepProgress(5, 13, 40, Iops(25_600.0), 25_590.0, 0.00031, 38.4))
        done = curve_of(percents=(10, 20), conditions=("quick pace: step 5 + 60 s -> 1 + 2 s",))
        if target == "breaks off":
            raise SweepBroken("the sweep failed at 30 %: fio ended with exit code 137", done)
        if target == "Ctrl-C":
            raise SweepInterrupted(done)
        return curve_of(conditions=("quick pace: step 5 + 60 s -> 1 + 2 s",))

    @pytest.fixture(autouse=True)
    def _stands_in(monkeypatch):
        stand_in(monkeypatch, "sweep", run)
"""


@pytest.fixture
def run(pytester):
    pytester.makeconftest(STANDS_IN)

    def run(body, *options, apart=False):
        pytester.makepyfile(f"from conftest import ran\nimport pytest\n\n{body}")
        if apart:
            return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options, no_reraise_ctrlc=True)

    return run


def test_the_curve_s_conditions_and_verdicts_are_kept_with_the_test(run):
    result = run(
        """
def test_it(sweep):
    curve = sweep("volumes", mix="4k-random-read", threads=128)
    assert curve.stays_below("2ms", until=60_000)
    assert curve.peak.reaches("64,000 IOPS")
    ((target, plan, pace),) = ran
    assert (target, plan.mix.name, plan.threads, pace) == ("volumes", "4k-random-read", 128, "quick")
    assert plan.steps == tuple(range(10, 130, 10))
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "  held: mean latency at most 1.8 ms up to 57,600 IOPS (at most 2 ms until 60,000 IOPS required)",
            "  held: 64,000 of 64,000 IOPS (100.0 %*",
            "  (quick pace: step 5 + 60 s -> 1 + 2 s)",
        ]
    )


def test_verdicts_on_a_step_are_kept_with_the_test(run, pytester):
    result = run(
        """
def test_it(sweep):
    step = sweep("volumes").steps[4]
    assert step.reached()
    assert step.latency.at_most(mean="1ms")
    assert step.measurement.reaches("31,000 IOPS")
    with pytest.raises(AssertionError):
        assert step.measurement.reaches("80,000 IOPS")

def test_of_a_sweep_that_broke_off(sweep):
    with pytest.raises(Exception, match="the sweep failed") as broken:
        sweep("breaks off")
    assert broken.value.curve.steps[0].reached()
""",
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "  held: 32,000 of 32,000 IOPS (100.0 %*",
            "  held: latency: mean 0.56 ms, at most 1 ms required*",
            "  held: 32,000 of 31,000 IOPS (103.2 %*",
            "  inconclusive: 32,000 of 80,000 IOPS (40 %*",
            "  held: 6,400 of 6,400 IOPS (100.0 %*",
        ]
    )
    junit = (pytester.path / "junit.xml").read_text()
    assert junit.count('name="cloudbench.verdict"') == 5
    assert 'name="cloudbench.promise" value="reaches 32,000 IOPS' in junit


def test_a_comparison_of_steps_is_reported(run):
    result = run(
        """
class Pictures:
    def __init__(self):
        self.compared = []

    def pytest_cloudbench_comparison(self, runs):
        self.compared.append([round(run.iops) for run in runs])

def test_it(sweep, request):
    pictures = Pictures()
    request.config.pluginmanager.register(pictures)
    steps = sweep("volumes").steps
    with pytest.raises(AssertionError, match="limited its own load"):
        assert steps[3].measurement.outperforms(steps[1].measurement, by=0.5)
    assert pictures.compared == [[25_600, 12_800]]
"""
    )
    result.assert_outcomes(passed=1)


def test_a_violated_step_is_filed_as_a_violated_promise(run, pytester):
    """In a process of its own: what allure-pytest keeps for a session it keeps for a process."""
    pytest.importorskip("allure_pytest")
    run(
        """
def test_it(sweep):
    curve = sweep("volumes")
    assert curve.stays_below("2ms", until=60_000)
    assert curve.steps[4].latency.at_most(mean="0.1ms")
""",
        "--alluredir=out",
        "--cloudbench-evidence=off",
        apart=True,
    ).assert_outcomes(failed=1)
    (result,) = (json.loads(path.read_text()) for path in pytester.path.glob("out/*-result.json"))
    judged = [step for step in result["steps"] if step["name"].startswith("judge: ")]
    assert [step["status"] for step in judged] == ["passed", "failed"]
    (outcome,) = (each["value"] for each in result["labels"] if each["name"] == "cloudbench.outcome")
    assert outcome == "violated"


def test_a_violated_curve_fails_its_test_with_the_sentence(run):
    result = run("def test_it(sweep):\n    assert sweep('volumes').stays_below('1ms', until=60_000)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*violated: mean latency 1.16 ms at 51,200 IOPS; no known ceiling was reached*"]
    )


def test_an_unknown_mix_is_refused_with_the_nearest_names(run):
    result = run("def test_it(sweep):\n    sweep('volumes', mix='orcle-like')\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *UnknownMix: unknown mix 'orcle-like': did you mean oracle-like*"])
    result.stdout.no_fnmatch_line("*fixtures/sweep.py*")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("steps=range(0, 100, 10)", "*BadSweep: invalid step 0: use 1 to 200 per cent of the maximum"),
        ("step_tme=3", "*BadSweep: sweep has no step_tme=: its times are step_time, maximum_time, ramp_time"),
        ("working_set='lots'", "*BadSweep: invalid working_set='lots': use a share*"),
    ],
)
def test_an_invalid_option_is_refused_before_anything_runs(run, arguments, sentence):
    result = run(
        f"""
def test_it(sweep):
    try:
        sweep('volumes', {arguments})
    finally:
        assert ran == []
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([sentence])


def test_a_project_s_own_mix_is_found_beside_its_settings(run, pytester):
    pytester.makefile(
        ".toml",
        **{
            "cloudbench-mixes": """
[mixes.shop]
blocks = { 8k = 100 }
read_percent = 75
random_percent = 100
source = "our own"
"""
        },
    )
    pytester.makeini("[pytest]\n")
    (pytester.path / "deeper").mkdir()
    result = run(
        """
def test_it(sweep):
    sweep("volumes", mix="shop")
    assert ran[0][1].mix.read_percent == 75
"""
    )
    result.assert_outcomes(passed=1)


def test_a_mix_may_be_an_object(run):
    result = run(
        """
from pytest_cloudbench import Mix

def test_it(sweep):
    mix = Mix.of("log", {"64k": 100}, read_percent=0, random_percent=0, source="our own")
    sweep("volumes", mix)
    assert ran[0][1].mix is mix
"""
    )
    result.assert_outcomes(passed=1)


def test_an_interrupted_sweep_raises_its_error_with_the_completed_steps(run):
    result = run(
        """
def test_it(sweep):
    sweep("breaks off")

def test_the_error_has_the_completed_steps(sweep):
    with pytest.raises(Exception, match="the sweep failed") as broken:
        sweep("breaks off")
    assert broken.value.curve.stays_below("2ms", until=12_800)
"""
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E *SweepBroken: the sweep failed at 30 %: fio ended with exit code 137; the steps done before it:",
            "E *10 %*6,400*",
            "  held: mean latency at most 0.37 ms up to 12,800 IOPS*",
        ]
    )


def test_ctrl_c_shows_the_completed_steps(run):
    result = run("def test_it(sweep):\n    sweep('Ctrl-C')\n")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["the sweep was interrupted after 2 steps:", "*10 %*6,400*", "*20 %*12,800*"])


def test_the_live_line_shows_the_step_and_the_time_left(run):
    result = run("def test_it(sweep):\n    sweep('volumes')\n", "--cloudbench-progress=on")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*sweep 4k-random-read: 5 of 13, 40 % = 25,600 IOPS: 25,590 IOPS at 0.31 ms, 38 s left*"]
    )


def test_the_curve_is_drawn_to_the_requested_file(run):
    """In a process of its own: matplotlib cannot be loaded twice in one."""
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    result = run(
        """
def test_it(sweep, tmp_path):
    svg, png = sweep.plot(sweep("volumes"), to=tmp_path / "curve.svg")
    assert svg.read_bytes().startswith(b"<?xml")
    assert png.read_bytes().startswith(b"\\x89PNG")
""",
        apart=True,
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("limits", ["64_000", "{'ebs_iops': 64_000}"])
def test_recorded_limits_are_made_by_their_own_call(run, limits):
    result = run(
        f"""
@pytest.mark.ec2_instance("i3.metal", limits={limits})
def test_it(ec2_instance):
    pass
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*BadMarker*limits must be made by recorded_limits from pytest_cloudbench*"])
