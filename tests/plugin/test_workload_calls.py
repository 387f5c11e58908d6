"""What the `fio` and `iperf3` fixtures add to a run: live line, pace, kept conditions and verdicts."""

import pytest

# Loaded here so that the runs inside these tests do not load them again: classes would exist twice.
import pytest_cloudbench.workloads.fio.run
import pytest_cloudbench.workloads.iperf3.run  # noqa: F401

STANDS_IN = """
    import dataclasses
    from collections.abc import Callable

    import pytest
    from workload_stand_ins import stand_in

    from pytest_cloudbench.workloads.iperf3.errors import Iperf3Interrupted

    @dataclasses.dataclass(frozen=True)
    class Measured:
        conditions: tuple = ("time compressed 60 times: 1,800 s ran in 30 s",)
        on_verdict: Callable | None = None
        on_comparison: Callable | None = None

    ran = []

    def run(path, job, *, pace, on_progress):
        ran.append((path, job, pace.value))
        if on_progress is not None:
            on_progress("12 s, 9.94 Gbit/s")
        if path == "breaks off":
            raise Iperf3Interrupted("the server's iperf3 ended after 12 s of 30 s", Measured())
        if path == "Ctrl-C":
            raise KeyboardInterrupt
        return Measured()

    @pytest.fixture(autouse=True)
    def _stands_in(monkeypatch):
        stand_in(monkeypatch, "iperf3", run)
        stand_in(monkeypatch, "fio", run)
"""


@pytest.fixture
def run(pytester):
    pytester.makeconftest(STANDS_IN)

    def run(body, *options):
        pytester.makepyfile(f"from conftest import ran\n\n{body}")
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options, no_reraise_ctrlc=True)

    return run


def test_the_measurement_s_conditions_and_verdicts_are_kept_with_the_test(run):
    result = run(
        """
def test_it(iperf3):
    measured = iperf3("path", streams=5, duration=1800)
    measured.on_verdict("held: fell at 902 s from 9.94 Gbit/s to 2.49 Gbit/s")
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*cloudbench verdicts*",
            "*::test_it",
            "  held: fell at 902 s from 9.94 Gbit/s to 2.49 Gbit/s",
            "  (time compressed 60 times: 1,800 s ran in 30 s)",
        ]
    )


def test_an_interrupted_run_raises_its_error_with_the_partial_measurement(run):
    result = run(
        """
import pytest

def test_it(iperf3):
    iperf3("breaks off")

def test_the_error_has_the_partial_measurement(iperf3):
    with pytest.raises(Exception, match="ended after 12 s") as broken:
        iperf3("breaks off")
    broken.value.measurement.on_verdict("inconclusive: 12 s are too short")
"""
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E *Iperf3Interrupted: the server's iperf3 ended after 12 s of 30 s",
            "  inconclusive: 12 s are too short",
            "in all tests: time compressed 60 times: 1,800 s ran in 30 s",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_cloudbench/fixtures/*")


def test_an_interrupt_stays_one_and_the_live_line_is_cleared(run):
    result = run("def test_it(iperf3):\n    iperf3('Ctrl-C')\n", "--cloudbench-progress=on", "--color=yes")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    shown = str(result.stdout)
    assert "KeyboardInterrupt" in shown
    assert shown.index("9.94 Gbit/s") < shown.rindex("\x1b[K")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("iperf3('path', streams=5)", "iperf3 TCP 5 streams: 12 s, 9.94 Gbit/s"),
        ("iperf3('path', udp=True, bitrate='1 Gbit/s')", "iperf3 UDP 1 stream, 1 Gbit/s: 12 s, 9.94 Gbit/s"),
    ],
)
def test_the_live_line_names_the_workload(run, call, line):
    result = run(f"def test_it(iperf3):\n    {call}\n", "--cloudbench-progress=on")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*{line}*"])
    assert "9.94" not in str(run(f"def test_it(iperf3):\n    {call}\n", "--cloudbench-progress=off").stdout)


def test_the_live_line_ends_with_the_target(run):
    result = run(
        """
import types

def test_it(iperf3):
    iperf3(types.SimpleNamespace(label="m5.2xlarge i-0a -> m5.2xlarge i-0b"), streams=5)
""",
        "--cloudbench-progress=on",
    )
    result.stdout.fnmatch_lines(["*9.94 Gbit/s on m5.2xlarge i-0a -> m5.2xlarge i-0b*"])


@pytest.mark.parametrize(
    ("options", "pace"),
    [
        ([], "quick"),
        (["--cloudbench-pace=full"], "full"),
        (["--cloudbench-cloud=aws"], "full"),
        (["--cloudbench-cloud=aws", "--cloudbench-pace=quick"], "quick"),
    ],
)
def test_both_workloads_run_at_the_session_s_pace(run, options, pace):
    result = run(
        f"""
def test_it(iperf3, fio):
    iperf3("path")
    fio("volume", rw="randread")
    assert [pace for _, _, pace in ran] == [{pace!r}, {pace!r}]
""",
        "--cloudbench-progress=off",
        *options,
    )
    result.assert_outcomes(passed=1)


def test_an_invalid_job_is_refused_before_anything_runs(run):
    result = run("def test_it(iperf3):\n    iperf3('path', parallel=5)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *BadIperf3Job: *parallel=*streams=*"])


def test_positional_options_are_refused_with_an_example(run):
    result = run(
        "def test_it(iperf3):\n    iperf3('path', 5, 30)\n\ndef test_after():\n    assert ran == []\n"
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E *BadIperf3Job: iperf3('path', 5, 30): options are given by name, such as streams=5, duration=30 or "
            "bitrate='1 Gbit/s'"
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_cloudbench/fixtures/*")


def test_further_fio_options_are_keywords_or_in_a_mapping(run):
    result = run(
        """
import pytest
from pytest_cloudbench import WorkloadRefused

def test_it(fio):
    fio("volume", rw="randread", norandommap=1)
    fio("volume", rw="randread", options={"norandommap": 1, "iodepth": 4})
    jobs = [job for _, job, _ in ran]
    assert [dict(job.options) for job in jobs] == [{"norandommap": 1}] * 2
    assert [job.iodepth for job in jobs] == [1, 4]

def test_an_option_given_twice(fio):
    with pytest.raises(WorkloadRefused, match="iodepth is given twice"):
        fio("volume", rw="randread", iodepth=16, options={"iodepth": 4})
"""
    )
    result.assert_outcomes(passed=2)


def test_a_test_that_has_ended_holds_neither_its_target_nor_its_measurement(run):
    """pytest keeps the items of all tests to the end of the session."""
    result = run(
        """
import gc
import weakref

held = []

class Target:
    label = "of the first test"

def test_first(fio):
    target = Target()
    held.append(weakref.ref(target))
    measured = fio(target, rw="read")
    held.append(weakref.ref(measured))

def test_second():
    ran.clear()
    gc.collect()
    assert [each() for each in held] == [None, None]
"""
    )
    result.assert_outcomes(passed=2)
