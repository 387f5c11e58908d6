"""What the `create_files` fixture adds to a run: live line, pace, kept conditions and verdicts."""

import pytest

# Loaded here so that the runs inside these tests do not load them again: classes would exist twice.
import pytest_cloudbench.workloads.create_files.run  # noqa: F401

STANDS_IN = """
    import dataclasses
    from collections.abc import Callable

    import pytest
    from workload_stand_ins import stand_in

    from pytest_cloudbench.workloads.create_files.errors import FilesystemFull

    @dataclasses.dataclass(frozen=True)
    class Measured:
        conditions: tuple = ("quick pace: 100,000 files -> 512",)
        on_verdict: Callable | None = None
        on_comparison: Callable | None = None

    class Progress:
        def __str__(self):
            return "12 % 3,000 files/s, 3 s left"

    ran = []

    def run(target, job, *, pace, on_progress):
        ran.append((target, job, pace.value))
        if on_progress is not None:
            on_progress(Progress())
        if target == "full":
            raise FilesystemFull("xfs on gp3 took no more after 12 of 512 files of 1 MiB", Measured())
        return Measured()

    @pytest.fixture(autouse=True)
    def _stands_in(monkeypatch):
        stand_in(monkeypatch, "create_files", run)
"""


@pytest.fixture
def run(pytester):
    pytester.makeconftest(STANDS_IN)

    def run(body, *options):
        pytester.makepyfile(f"from conftest import ran\n\n{body}")
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


def test_the_published_job_is_the_default_and_conditions_and_verdicts_are_kept(run):
    result = run(
        """
def test_it(create_files):
    measured = create_files("data")
    measured.on_verdict("held: on the device after 292 s")
    ((target, job, pace),) = ran
    assert (target, str(job), job.sync, pace) == ("data", "100,000 files of 1 MiB", "end", "quick")
    assert repr(create_files) == "<create_files for test_it>"
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*cloudbench verdicts*",
            "*::test_it",
            "  held: on the device after 292 s",
            "  (quick pace: 100,000 files -> 512)",
        ]
    )


def test_every_option_reaches_the_job(run):
    result = run(
        """
def test_it(create_files):
    create_files("data", count=500, size="4k", sync="each", content="zero", method="python", workers=2,
                 per_folder=100, keep=True)
    assert ran[0][1].asked() == {
        "count": 500, "size_bytes": 4096, "sync": "each", "content": "zero", "method": "python", "workers": 2,
        "per_folder": 100, "keep": True,
    }
    assert ran[0][2] == "full"
""",
        "--cloudbench-pace=full",
    )
    result.assert_outcomes(passed=1)


def test_a_full_file_system_raises_an_error_with_the_partial_measurement(run):
    result = run(
        """
import pytest

def test_it(create_files):
    create_files("full")

def test_the_error_has_the_partial_measurement(create_files):
    with pytest.raises(Exception, match="after 12 of 512") as full:
        create_files("full")
    full.value.partial.on_verdict("inconclusive: not everything was done")
"""
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E *FilesystemFull: xfs on gp3 took no more after 12 of 512 files of 1 MiB",
            "  inconclusive: not everything was done",
            "in all tests: quick pace: 100,000 files -> 512",
        ]
    )
    result.stdout.no_fnmatch_line("*fixtures/workload_call.py*")


def test_the_live_line_shows_the_progress(run):
    body = "def test_it(create_files):\n    create_files('data', 500, '4k')\n"
    shown = run(body, "--cloudbench-progress=on").stdout
    shown.fnmatch_lines(["*create_files 500 files of 4 KiB: 12 % 3,000 files/s, 3 s left*"])
    assert "3,000 files/s" not in str(run(body, "--cloudbench-progress=off").stdout)


def test_an_invalid_job_is_refused_before_anything_runs(run):
    result = run("def test_it(create_files):\n    create_files('data', sync='always')\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *BadFilesJob: invalid sync='always': use one of 'end', 'each', 'none'"])
