"""A session that is compared with earlier ones: fio is a stand-in, the evidence is real."""

import json
import shutil
import xml.etree.ElementTree as ElementTree

import pytest

from pytest_cloudbench.evidence import baseline

BODY = """
def test_it(volume, fio):
    rates[:] = [{rate}]
    run = fio(volume, rw="randread", iodepth=16, runtime=300{more})
    assert run.reaches("1,000 IOPS")
"""


@pytest.fixture
def measure(session):
    """Run a session whose volume serves this rate; it leaves its evidence in runs/NAME."""

    def run(rate, *options, name=None, body=BODY, more=""):
        kept = "off" if name is None else f"runs/{name}"
        options = (f"--cloudbench-evidence={kept}", "--cloudbench-pace=full", *options)
        return session(body.format(rate=rate, more=more), *options)

    return run


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder that lasts for all tests: the same three runs are recorded once."""
    return tmp_path_factory.mktemp("kept") / "runs"


@pytest.fixture
def three_runs(measure, kept, pytester):
    if not kept.exists():
        for name, rate in (("one", 3_000.0), ("two", 3_004.0), ("three", 2_997.0)):
            measure(rate, name=name).assert_outcomes(passed=1)
        shutil.copytree(pytester.path / "runs", kept)
    shutil.copytree(kept, pytester.path / "runs", dirs_exist_ok=True)
    return ("--cloudbench-baseline=runs", "--cloudbench-regression=5%")


def test_a_regression_fails_a_test_that_holds_its_own_promise(measure, three_runs, pytester):
    result = measure(2_000.0, *three_runs, "--junitxml=out.xml", "--cloudbench-summary=out.md")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "cloudbench baseline: 3 earlier runs, the last is * UTC; at most 5 % worse allowed",
            "*violated: 2,000 IOPS against 3,000 IOPS in 3 earlier runs (33.3 % less, 95 % interval*",
        ]
    )
    (case,) = ElementTree.parse(pytester.path / "out.xml").iter("testcase")
    assert "2,000 IOPS against 3,000 IOPS" in case.find("failure").attrib["message"]
    said = [
        each.attrib["value"] for each in case.iter("property") if each.attrib["name"].endswith(".outcome")
    ]
    assert said == ["held", "violated"]
    summary = (pytester.path / "out.md").read_text()
    assert "1 held, 1 violated" in summary
    assert "not worse than 3 earlier runs by more than 5 %" in summary


def test_as_good_as_before_passes(measure, three_runs):
    result = measure(2_999.0, *three_runs)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  held: 2,999 IOPS against 3,000 IOPS in 3 earlier runs*"])


def test_better_passes_and_says_so(measure, three_runs):
    result = measure(3_140.0, *three_runs)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*3,140 IOPS against 3,000 IOPS*: better, beyond the noise*"])


def test_a_rate_that_no_limit_yields_is_no_improvement(measure, three_runs):
    result = measure(9_000.0, *three_runs, "--cloudbench-inconclusive=fail", body=IN_A_TEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*inconclusive: 9,000 IOPS is 200 % above*"])


def test_without_the_option_nothing_is_judged(measure, three_runs):
    result = measure(2_000.0, three_runs[0])
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*against 3,000 IOPS*")


def test_one_run_alone_is_inconclusive_and_fails(measure):
    measure(3_000.0, name="one")
    result = measure(
        2_990.0,
        "--cloudbench-baseline=runs/one",
        "--cloudbench-regression=0.5%",
        "--cloudbench-inconclusive=fail",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*inconclusive: 2,990 IOPS*one earlier run does not show how much runs differ*"]
    )


def test_an_inconclusive_gate_may_skip(measure):
    measure(3_000.0, name="one")
    result = measure(
        2_990.0,
        *("--cloudbench-baseline=runs/one", "--cloudbench-regression=0.5%", "--cloudbench-inconclusive=skip"),
    )
    result.assert_outcomes(skipped=1)


def test_a_skipped_test_that_holds_other_promises_does_not_look_green(measure, pytester):
    body = BODY + "\n    assert run.sustains('1,000 IOPS', for_='10 min')\n"
    result = measure(
        2_000.0,
        *("--cloudbench-inconclusive=skip", "--junitxml=out.xml", "--cloudbench-summary=out.md", "-rs"),
        body=body,
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        [
            "  skipped, not passed: 1 held, 1 inconclusive",
            "1 test was skipped as inconclusive, although 1 of its promises held*--cloudbench-inconclusive=fail*",
            "SKIPPED*inconclusive: *(of this test's promises: 1 held, 1 inconclusive)",
        ]
    )
    (case,) = ElementTree.parse(pytester.path / "out.xml").iter("testcase")
    assert "1 held, 1 inconclusive" in case.find("skipped").attrib["message"]
    assert {each.attrib["name"] for each in case.iter("property")} >= {"cloudbench.undecided"}
    assert "1 test was skipped as inconclusive" in (pytester.path / "out.md").read_text()


def test_a_regression_fails_a_test_that_would_be_skipped(measure, three_runs):
    body = BODY + "\n    assert fio(volume, rw='randwrite').sustains('1,000 IOPS', for_='10 min')\n"
    result = measure(2_000.0, *three_runs, "--cloudbench-inconclusive=skip", body=body)
    result.assert_outcomes(failed=1)


def test_a_test_that_fails_anyway_keeps_its_own_failure(measure, three_runs):
    body = BODY + "\n    assert run.iops == 7\n"
    result = measure(2_000.0, *three_runs, body=body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*2000.0 == 7*", "*violated: 2,000 IOPS against 3,000 IOPS*"])


def test_a_new_test_is_not_compared_and_says_so(measure, three_runs):
    body = BODY.replace("test_it", "test_new")
    result = measure(2_000.0, *three_runs, body=body)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*not compared*no earlier run has test_it.py::test_new*"])


def test_another_block_size_is_refused_with_the_difference(measure, three_runs):
    result = measure(3_000.0, *three_runs, "--cloudbench-inconclusive=fail", more=", bs='16k'")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*inconclusive:*fio had bs='4k', here bs='16k'*"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cloudbench-pace=quick"], "pace full, this one quick"),
        (["--cloudbench-cloud=aws"], "cloud embedded, this one aws"),
        (["--cloudbench-twin-time=60"], "twin-time 1, this one 60"),
    ],
)
def test_runs_of_another_kind_are_refused_before_anything_runs(measure, three_runs, options, said):
    result = measure(3_000.0, *three_runs, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*no earlier run can be compared with this one: run * had {said}"])


def test_runs_of_another_kind_among_others_are_left_out_and_counted(measure, three_runs):
    result = measure(3_000.0, "--cloudbench-pace=quick", name="quick")
    result.assert_outcomes(passed=1)
    result = measure(3_000.0, *three_runs)
    result.stdout.fnmatch_lines(
        ["cloudbench baseline: 3 earlier runs*1 left out, the last because run * had pace quick, this one*"]
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cloudbench-regression=5%"], "*name them with --cloudbench-baseline=PATH*"),
        (["--cloudbench-baseline=nowhere"], "*nowhere is not a folder*"),
        (["--cloudbench-baseline=a,,b"], "*names an empty path*"),
        (
            ["--cloudbench-baseline=runs", "--cloudbench-regression=five"],
            "*--cloudbench-regression*is not a share*",
        ),
    ],
)
def test_options_that_cannot_be_used(measure, pytester, options, said):
    (pytester.path / "runs").mkdir()
    result = measure(3_000.0, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_a_folder_without_runs_compares_nothing_and_says_so(measure, pytester):
    (pytester.path / "runs").mkdir()
    result = measure(3_000.0, "--cloudbench-baseline=runs", "--cloudbench-regression=5%")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["cloudbench baseline: no earlier runs*", "*not compared*there are no earlier runs*"]
    )


IN_A_TEST = """
def test_it(volume, fio, baseline):
    rates[:] = [{rate}]
    run = fio(volume, rw="randread", iodepth=16, runtime=300{more})
    assert run.not_worse_than(baseline, by="5%")
"""


def test_a_test_may_ask_itself(measure, three_runs):
    result = measure(2_999.0, three_runs[0], body=IN_A_TEST)
    result.assert_outcomes(passed=1)
    result = measure(2_000.0, *three_runs, body=IN_A_TEST)
    result.assert_outcomes(failed=1)
    # Judged once, not again by the option.
    result.stdout.fnmatch_lines(["E * violated: 2,000 IOPS against*", "*promised and measured: 1 violated*"])


def test_a_test_that_asks_without_a_baseline_is_inconclusive(measure):
    result = measure(3_000.0, "--cloudbench-inconclusive=fail", body=IN_A_TEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*inconclusive:*--cloudbench-baseline=PATH*"])


def test_a_run_that_violated_a_promise_is_no_baseline(measure, three_runs):
    measure(500.0, name="bad").assert_outcomes(failed=1)
    result = measure(3_000.0, *three_runs)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*in 3 earlier runs*"])


def test_a_replay_is_compared_too_but_not_with_itself(measure, three_runs):
    measure(2_000.0, name="worse").assert_outcomes(passed=1)
    result = measure(1.0, *three_runs, "--cloudbench-replay=runs/worse")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*2,000 IOPS against 3,000 IOPS in 3 earlier runs*"])


def test_the_workers_of_xdist_compare_with_the_same_runs(measure, three_runs, pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(test_it="from conftest import ran, rates\n" + BODY.format(rate=2_000.0, more=""))
    result = pytester.runpytest_subprocess(
        "-n1", "-p", "no:cacheprovider", "--cloudbench-evidence=off", "--cloudbench-pace=full", *three_runs
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*2,000 IOPS against 3,000 IOPS in 3 earlier runs*"])


def test_the_workers_of_xdist_do_not_look_for_runs_again(measure, pytester):
    """The controller found no runs. A run that is there when a worker starts may be the present one."""
    pytest.importorskip("xdist")
    measure(3_000.0, name="other").assert_outcomes(passed=1)
    (pytester.path / "runs" / "other").rename(pytester.path / "present")
    pytester.makepyfile(
        test_it="from conftest import ran, rates\n" + BODY.format(rate=2_000.0, more=""),
        begins_later="""
        import shutil

        def pytest_configure_node(node):
            shutil.copytree("present", "runs/present", dirs_exist_ok=True)
        """,
    )
    gate = ("--cloudbench-baseline=runs", "--cloudbench-regression=5%", "--cloudbench-pace=full")
    result = pytester.runpytest_subprocess(
        *("-n1", "-p", "no:benchmark", "-p", "begins_later", "--cloudbench-evidence=off"), *gate
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*not compared*there are no earlier runs*"])


def test_a_run_that_was_killed_early_among_others_is_left_out(measure, three_runs, pytester):
    (pytester.path / "runs" / "killed" / "journals").mkdir(parents=True)
    result = measure(3_000.0, *three_runs)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["cloudbench baseline: 3 earlier runs*1 left out*killed holds no evidence of a run*"]
    )


def test_a_run_of_another_format_among_others_is_left_out(measure, three_runs, pytester):
    journal = pytester.path / "runs" / "one" / "journals" / "main.jsonl"
    first, *others = journal.read_bytes().split(b"\n")
    entry = {**json.loads(first), "format": 99}
    journal.write_bytes(b"\n".join([json.dumps(entry).encode(), *others]))
    result = measure(2_000.0, *three_runs)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["cloudbench baseline: 2 earlier runs*1 left out*format 99*"])


@pytest.mark.parametrize("damage", ["lost", "altered"])
@pytest.mark.parametrize("what", ["journal.jsonl", "measurement-1.json"])
def test_an_altered_run_does_not_hide_what_the_others_show(measure, three_runs, pytester, what, damage):
    """A half-uploaded run lacks files of its tests."""
    (file,) = (pytester.path / "runs" / "one").rglob(f"tests/*/1/{what}")
    if damage == "lost":
        file.unlink()
    else:
        file.write_text(file.read_text().replace("3000", "9000"))
    result = measure(2_000.0, *three_runs, "--cloudbench-summary=out.md")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*violated: 2,000 IOPS against *IOPS in 2 earlier runs*"])
    said = "cannot be read" if damage == "lost" else "was altered"
    result.stdout.fnmatch_lines([f"*not compared with an earlier run: in run *, *{said}*"])
    result = measure(2_000.0, *three_runs, body=BODY + "\n    assert run.iops == 7\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*2000.0 == 7*"])


def test_a_test_whose_earlier_runs_are_all_altered_is_inconclusive(measure, pytester):
    measure(3_000.0, name="one")
    (file,) = (pytester.path / "runs" / "one").rglob("tests/*/1/measurement-1.json")
    file.unlink()
    gate = ("--cloudbench-baseline=runs", "--cloudbench-regression=5%", "--cloudbench-inconclusive=skip")
    result = measure(3_000.0, *gate)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*inconclusive: 3,000 IOPS, compared with nothing: *cannot be read*"])


def test_repeats_are_judged_together(measure, three_runs):
    options = (*three_runs, "--cloudbench-repeats=6")
    worse = measure(2_000.0, *options)
    worse.assert_outcomes(passed=6, failed=1)
    worse.stdout.fnmatch_lines(["*violated: not worse than 3 earlier runs*in 0 of 6 repeats*"])
    same = measure(3_000.0, *options)
    same.assert_outcomes(passed=7)


def test_repeated_requests_are_compared_in_their_order(measure):
    body = """
def test_two(volume, fio):
    rates[:] = [{rate}, 1_000.0]
    for _ in range(2):
        fio(volume, rw="randread")
"""
    for name in ("one", "two", "three"):
        measure(3_000.0, name=name, body=body)
    result = measure(3_000.0, "--cloudbench-baseline=runs", "--cloudbench-regression=5%", body=body)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*held: 3,000 IOPS against 3,000*", "*held: 1,000 IOPS against 1,000*"])


BOTH_WAYS = """
import pytest
import recorded_runs
from conftest import Target
from workload_stand_ins import stand_in

@pytest.fixture(autouse=True)
def _network(monkeypatch):
    stand_in(monkeypatch, "iperf3", lambda target, job, *, pace, on_progress: recorded_runs.both_ways())

def test_network(iperf3{fixture}):
    run = iperf3(Target("a -> b"), duration=10, bidirectional=True)
    {ask}
"""


@pytest.mark.parametrize("ask", ["pass", "assert run.forward.not_worse_than(baseline, by='20%')"])
def test_both_directions_of_a_network_are_judged_once_each(measure, session, monkeypatch, ask):
    body = BOTH_WAYS.replace("{fixture}", ", baseline").replace("{ask}", ask)
    session(body.replace(ask, "pass"), "--cloudbench-evidence=runs/one").assert_outcomes(passed=1)
    gate = ("--cloudbench-baseline=runs", "--cloudbench-regression=20%", "--cloudbench-evidence=off")
    restored, restore = [], baseline.measurement_from
    monkeypatch.setattr(
        baseline, "measurement_from", lambda record, read: restored.append(record) or restore(record, read)
    )
    result = session(body, *gate)
    result.assert_outcomes(passed=1)
    text = str(result.stdout)
    assert text.count("  held: 4.9 Gbit/s against 4.9 Gbit/s") == 1
    assert text.count("  held: 4.8 Gbit/s against 4.8 Gbit/s") == 1
    assert len(restored) == (1 if ask == "pass" else 2), "both directions are one measurement"


def test_created_files_that_did_not_wait_for_their_device_are_not_compared(session):
    body = """
import dataclasses
import pytest
import recorded_runs
from workload_stand_ins import stand_in

@pytest.fixture(autouse=True)
def _files(monkeypatch):
    made = dataclasses.replace(recorded_runs.files_created(), on_device_s=None)
    stand_in(monkeypatch, "create_files", lambda target, job, *, pace, on_progress: made)

def test_files(volume, create_files):
    create_files(volume, count=10, sync="none")
"""
    session(body, "--cloudbench-evidence=runs/one").assert_outcomes(passed=1)
    gate = ("--cloudbench-baseline=runs", "--cloudbench-regression=20%", "--cloudbench-evidence=off")
    result = session(body, *gate)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 measurement was not compared with earlier runs*"])
