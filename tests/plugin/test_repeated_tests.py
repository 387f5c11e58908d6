"""Repeated tests: their items, their order, and the verdict over all repeats."""

import re
from xml.etree import ElementTree

import pytest

# Loaded here so that the runs inside these tests do not load it again: classes would exist twice.
import pytest_cloudbench.verdicts.repeats  # noqa: F401

JUDGE = """
    from pytest_cloudbench import Iops, Outcome, Verdict

    def verdict(outcome, promise="reaches 3,000 IOPS within 10 %", **figures):
        figures = {"measured": Iops(3_000), "asked": Iops(3_000), **figures}
        return getattr(Verdict, outcome)("3,000 of 3,000 IOPS", promise=promise, **figures)
"""

GIVEN = """
    import pytest
    from judge import verdict

    from pytest_cloudbench.reports.hooks import call_hook

    OUTCOMES = {outcomes!r}

    @pytest.fixture
    def turn(request):
        return int(request.node.name.split("repeat ")[1].split()[0])

    @pytest.mark.cloudbench_repeats({number})
    def test_it(turn, request):
        outcome = OUTCOMES[turn - 1]
        if outcome == "broken":
            raise RuntimeError("the host is gone")
        judged = verdict(outcome)
        call_hook(request.node, "verdict", verdict=judged, measurement=None)
        assert judged
"""


@pytest.fixture
def run(pytester):
    """Run pytest on a module, in this process."""
    pytester.makepyfile(judge=JUDGE)

    def run(body, *options):
        pytester.makepyfile(body)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


def given(*outcomes):
    return GIVEN.format(outcomes=outcomes, number=len(outcomes))


def names_run(result):
    """Return the names of the tests in the order in which they ran."""
    return [re.sub(r" (PASSED|FAILED|SKIPPED).*", "", line).partition("::")[2] for line in result.outlines if re.search(
        r"::.* (PASSED|FAILED|SKIPPED)", line)]  # fmt: skip


def test_six_repeats_that_hold_pass_with_one_verdict_over_all(run):
    result = run(given(*["held"] * 6), "-v")
    result.assert_outcomes(passed=7)
    assert names_run(result) == [
        *(f"test_it[repeat {n} of 6]" for n in range(1, 7)),
        "test_it[all 6 repeats]",
    ]
    result.stdout.fnmatch_lines(
        ["*::test_it?all 6 repeats?", "  held: *6 of 6 repeats*median 3,000 IOPS*96.9 %*"]
    )
    result.stdout.fnmatch_lines(["*promised and measured: 1 held*"])


def test_a_repeat_that_is_violated_does_not_stop_the_others(run):
    result = run(given("violated", *["held"] * 8))
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["  held: *8 of 9 repeats*violated in repeat 1: *"])


def test_repeats_that_are_violated_fail_the_last_item_only(run):
    result = run(given(*["violated"] * 6))
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["violated: *0 of 6 repeats*", "FAILED *::test_it?all 6 repeats?*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_repeats_that_decide_nothing_fail_with_how_many_more_would(run):
    result = run(given("violated", *["held"] * 5))
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["*inconclusive: *3 more repeats would decide this*"])


def test_inconclusive_skips_if_told_to(run):
    result = run(given("violated", *["held"] * 5), "--cloudbench-inconclusive=skip", "-rs")
    result.assert_outcomes(passed=6, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*inconclusive: *3 more repeats*"])


def test_a_repeat_that_is_not_measured_fails_and_is_named_in_the_verdict(run):
    result = run(given(*["held"] * 8, "broken"))
    result.assert_outcomes(passed=9, failed=1)
    result.stdout.fnmatch_lines(
        ["  held: *8 of 9 repeats*repeat 9 was not judged: RuntimeError: the host is gone*"]
    )


def test_nothing_is_judged_if_no_repeat_was_measured(run):
    result = run(given("broken", "broken"))
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*no repeat asserted a verdict*repeat 2: RuntimeError: the host is gone*"])


@pytest.mark.parametrize("where", ["test", "fixture"])
def test_repeats_that_are_all_skipped_are_skipped_together(run, where):
    skip = 'pytest.skip("no such device")'
    result = run(
        f"""
        import pytest

        @pytest.fixture
        def device():
            {skip if where == "fixture" else "pass"}

        @pytest.mark.cloudbench_repeats(3)
        def test_it(device):
            {skip}
        """,
        "-rs",
    )
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED*no repeat asserted a verdict*repeat 3: Skipped: no such device*"])


def test_repeats_of_which_one_failed_are_not_skipped_together(run):
    result = run(
        """
        import pytest

        @pytest.mark.cloudbench_repeats(2)
        def test_it(request):
            if "repeat 2 " in request.node.name:
                raise OSError("no capacity")
            pytest.skip("no such device")
        """
    )
    result.assert_outcomes(skipped=1, failed=2)


def test_a_repeat_whose_fixture_fails_is_named(run):
    result = run(
        """
        import pytest
        from judge import verdict

        @pytest.fixture
        def hardware(request):
            if "repeat 2 " in request.node.name:
                raise OSError("no capacity")

        @pytest.mark.cloudbench_repeats(2)
        def test_it(hardware):
            assert verdict("held")
        """
    )
    result.assert_outcomes(passed=1, errors=1, failed=1)
    result.stdout.fnmatch_lines(["*inconclusive: *repeat 2 was not judged: OSError: no capacity*"])


def test_repeats_of_tests_take_turns(run):
    result = run(
        """
        import pytest

        @pytest.mark.cloudbench_repeats(2)
        def test_one(): pass

        def test_once(): pass

        @pytest.mark.cloudbench_repeats(3)
        @pytest.mark.parametrize("block", ["4k", "64k"])
        def test_two(block): pass
        """,
        "-v",
    )
    two = [[f"test_two[{block}-repeat {n} of 3]" for block in ("4k", "64k")] for n in (1, 2, 3)]
    assert names_run(result) == [
        *("test_one[repeat 1 of 2]", "test_once", *two[0]),
        *("test_one[repeat 2 of 2]", "test_one[all 2 repeats]", *two[1]),
        *(two[2][0], "test_two[4k-all 3 repeats]", two[2][1], "test_two[64k-all 3 repeats]"),
    ]


def test_each_assertion_is_judged_by_its_place(run):
    result = run(
        """
        import pytest
        from judge import verdict

        class TestIt:
            @pytest.mark.cloudbench_repeats(6)
            def test_two_promises(self):
                assert verdict("held")
                assert verdict("violated", "steady within 5 %")
        """
    )
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["violated: steady*0 of 6*", "held: reaches*6 of 6*"])


def test_repeats_that_assert_different_promises_are_not_mixed(run):
    result = run(
        """
        import pytest
        from judge import verdict

        @pytest.mark.cloudbench_repeats(6)
        def test_it(request):
            assert verdict("held", *(["steady"] if "repeat 3 " in request.node.name else []))
        """
    )
    result.stdout.fnmatch_lines(["*inconclusive: reaches*5 of 6*repeat 3 was not judged: *steady*"])


def test_a_verdict_that_is_only_looked_at_decides_nothing(run):
    result = run(
        """
        import pytest
        from judge import verdict

        @pytest.mark.cloudbench_repeats(6)
        def test_it():
            verdict("violated")
            assert verdict("held")
        """
    )
    result.assert_outcomes(passed=7)


def test_a_plain_assertion_fails_its_own_repeat(run):
    result = run(
        """
        import pytest
        from judge import verdict

        @pytest.mark.cloudbench_repeats(6)
        def test_it(request):
            assert verdict("held")
            assert "repeat 2 " not in request.node.name
        """
    )
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["FAILED *repeat 2 of 6*"])


def test_an_expected_failure_is_that_of_all_repeats(run):
    marked = "@pytest.mark.xfail(strict=True)\n    @pytest.mark.cloudbench_repeats"
    result = run(given(*["violated"] * 6).replace("@pytest.mark.cloudbench_repeats", marked))
    result.assert_outcomes(passed=6, xfailed=1)


def test_asserting_the_contrary_of_a_verdict_is_refused_with_what_to_do(run):
    result = run(
        """
        import pytest
        from judge import verdict

        @pytest.mark.cloudbench_repeats(2)
        def test_it():
            assert not verdict("violated")
        """
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*`assert not` of a verdict cannot be repeated*assert what the run should show*"]
    )


def test_the_option_repeats_tests_that_measure_and_replaces_the_marker_s_number(run):
    body = """
        import pytest

        @pytest.mark.cloudbench_repeats(6)
        def test_marked(): pass

        def test_measures(fio): pass

        def test_does_not(): pass
        """
    result = run(body, "--collect-only", "-q", "--cloudbench-repeats=2")
    names = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert len([name for name in names if name.startswith("test_marked")]) == 3
    assert len([name for name in names if name.startswith("test_measures")]) == 3
    assert "test_does_not" in names
    once = run(body, "--collect-only", "-q", "--cloudbench-repeats=1").outlines
    assert [line.partition("::")[2] for line in once if "::" in line] == [
        *("test_marked", "test_measures", "test_does_not")
    ]


@pytest.mark.parametrize("value", ["0", "101", "-1", "six", "1.5"])
def test_a_number_that_is_none_is_refused(run, value):
    result = run("def test_it(): pass", f"--cloudbench-repeats={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cloudbench-repeats*{value}*from 1 to 100*"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "*None*from 1 to 100*"),
        ("0", "*0*from 1 to 100*"),
        ("6, on='other'", "*on='other'*'fresh'*'same'*"),
        ("6, 'same'", "*takes a number and on=*"),
        ("6, of=2", "*takes a number and on=*"),
    ],
)
def test_a_marker_that_cannot_be_used_is_refused_when_tests_are_collected(run, arguments, said):
    result = run(f"import pytest\n\n@pytest.mark.cloudbench_repeats({arguments})\ndef test_it():\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])


def test_a_repeat_that_is_run_without_the_item_for_all_is_judged_alone(pytester, run):
    pytester.makepyfile(test_some=given(*["violated"] * 6))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "test_some.py::test_it[repeat 2 of 6]")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*promised and measured: 1 violated*"])


@pytest.mark.parametrize("others", [[], ["repeat 2 of 6"], ["repeat 2 of 6", "repeat 5 of 6"]])
def test_the_item_for_all_runs_all_repeats_whichever_are_selected_with_it(pytester, run, others):
    pytester.makepyfile(test_some=given(*["held"] * 6))
    names = [f"test_some.py::test_it[{which}]" for which in (*others, "all 6 repeats")]
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *names)
    result.assert_outcomes(passed=7)


def test_what_failed_last_is_one_repeat_and_all_of_them_and_is_judged_over_all(pytester):
    body = """
        import pathlib
        import pytest
        from judge import verdict

        @pytest.mark.cloudbench_repeats(6)
        def test_it(request):
            if "repeat 3 " in request.node.name and not pathlib.Path("mended").exists():
                raise OSError("no route to the host")
            assert verdict("held")
        """
    pytester.makepyfile(judge=JUDGE, test_some=body)
    pytester.runpytest_inprocess("-q").assert_outcomes(passed=5, failed=2)
    (pytester.path / "mended").touch()
    pytester.runpytest_inprocess("-q", "--lf").assert_outcomes(passed=7)


@pytest.mark.parametrize(("option", "others"), [("--lf", 0), ("--ff", 1), ("--nf", 1)])
def test_what_failed_last_is_judged_again_over_all_its_repeats(pytester, option, others):
    pytester.makepyfile(judge=JUDGE, test_some=given(*["violated"] * 6), test_more="def test_more(): pass")
    for options in ((), (option,), (option,)):
        result = pytester.runpytest_inprocess(*options, "-v")
        passed = 6 + (others if options else 1)
        assert result.parseoutcomes()["passed"] == passed
        assert result.parseoutcomes()["failed"] == 1
        result.stdout.fnmatch_lines(["*violated: *0 of 6 repeats*"])
        names = [name for name in names_run(result) if name != "test_more"]
        assert names == [*(f"test_it[repeat {n} of 6]" for n in range(1, 7)), "test_it[all 6 repeats]"]


SHARED = """
    import pytest

    from pytest_cloudbench.fixtures.repeats import is_used_again

    @pytest.mark.cloudbench_repeats(4, on="same")
    def test_it(request):
        print("used again", is_used_again(request.node))
"""


@pytest.mark.parametrize("selected", [(1, 2, 3, 4), (1, 2, 3), (1, 3), (3,)])
def test_shared_hardware_is_kept_until_the_last_repeat_that_is_selected(pytester, run, selected):
    pytester.makepyfile(test_some=SHARED)
    names = [f"test_some.py::test_it[repeat {number} of 4]" for number in selected]
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-s", *names)
    used = [line.rpartition(" ")[2] for line in result.outlines if "used again" in line]
    assert used == ["True"] * (len(selected) - 1) + ["False"]


def test_junit_and_the_summary_have_the_verdict_over_all_as_the_test_s_outcome(run, pytester):
    run(given(*["violated"] * 6), "--junitxml=junit.xml", "--cloudbench-summary=summary.md")
    tests = {each.get("name"): each for each in ElementTree.parse("junit.xml").iter("testcase")}
    assert len(tests) == 7
    over_all = tests["test_it[all 6 repeats]"]
    assert over_all.find("failure") is not None
    properties = {each.get("name"): each.get("value") for each in over_all.iter("property")}
    assert properties["cloudbench.outcome"] == "violated"
    one = tests["test_it[repeat 1 of 6]"]
    assert one.find("failure") is None
    assert [each.get("name") for each in one.iter("property")] == ["cloudbench.repeat_verdict"]
    summary = (pytester.path / "summary.md").read_text()
    assert summary.startswith("### cloudbench: 1 violated\n")


def test_repeats_stay_together_under_xdist(run):
    pytest.importorskip("xdist")
    result = run(given(*["held"] * 6), "-n2", "--dist=loadfile")
    result.assert_outcomes(passed=7)
    result = run(given(*["held"] * 6), "-n2", "--dist=load")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--dist load*use --dist loadfile*"])


def test_a_rerun_repeat_counts_once(run):
    pytest.importorskip("pytest_rerunfailures")
    body = """
        import pytest
        from judge import verdict

        TRIED = []

        @pytest.mark.cloudbench_repeats(6)
        def test_it(request):
            TRIED.append(request.node.name)
            assert verdict("held")
            if "repeat 2 " in request.node.name:
                assert TRIED.count(request.node.name) == 2
        """
    result = run(body, "--reruns=1")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["  held: *6 of 6 repeats*"])
