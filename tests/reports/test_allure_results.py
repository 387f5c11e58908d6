"""The results of allure-pytest for tests that measure a cloud."""

import importlib.util
import json
import re
import zipfile
from pathlib import Path

import pytest
from measured_runs import CONFTEST, NO_EVIDENCE

pytest.importorskip("allure_pytest")
drawn = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="pictures need matplotlib")

VERDICTS = """
from conftest import measured
import pytest
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

def verdict(word, sentence="3 of 4 IOPS"):
    return Verdict(Outcome(word), f"{word}: {sentence}", "reaches 4 IOPS")

def judged(fio, word, machine=False):
    run = fio(measured(3000.0, 3001.0), rw="randread")
    given = Verdict(Outcome(word), f"{word}: 3 of 4 IOPS", "reaches 4 IOPS", machine_limited=machine)
    run.on_verdict(given)
    return given
"""


@pytest.fixture
def run(pytester, monkeypatch):
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)  # of the workers that may run these tests themselves
    pytester.makeconftest(CONFTEST)

    def run(test, *options, apart=False):
        pytester.makepyfile(VERDICTS + test)
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        return start(*NO_EVIDENCE, "--alluredir=out", *options)

    return run


@pytest.fixture
def results(pytester):
    def results():
        found = [json.loads(path.read_text()) for path in pytester.path.glob("out/*-result.json")]
        return sorted(found, key=lambda result: result["start"])

    return results


def labels(result):
    return {label["name"]: label["value"] for label in result["labels"]}


def outcomes(results):
    return {
        result["name"]: (result["status"], labels(result).get("cloudbench.outcome")) for result in results
    }


def test_a_teardown_has_only_steps_of_the_test_s_own_finalizers(run, pytester):
    run(
        """
@pytest.fixture
def left(request):
    request.addfinalizer(lambda: None)
    yield
    assert True

def test_held(fio, left):
    assert judged(fio, "held")
"""
    )
    containers = [json.loads(path.read_text()) for path in pytester.path.glob("out/*-container.json")]
    steps = {
        each["befores"][0]["name"]: [(step["name"], step.get("status")) for step in each.get("afters", [])]
        for each in containers
        if each.get("befores")
    }
    assert {"left", "fio"} <= steps.keys()
    assert sorted(steps["left"]) == [("left::2", "passed"), ("left::<lambda>", "passed")]
    assert {status for ended in steps.values() for _, status in ended} == {"passed"}


def test_every_outcome_has_its_category(run, results, pytester):
    run(
        """
def test_held(fio):
    assert judged(fio, "held")

def test_violated(fio):
    assert judged(fio, "violated")

def test_inconclusive(fio):
    assert judged(fio, "inconclusive")

def test_skipped_as_inconclusive(fio):
    assert judged(fio, "inconclusive", machine=True)

def test_plain_figures_violated(fio):
    assert fio(measured(3000.0), rw="randread").iops > 9000

def test_host_lost(fio):
    from pytest_cloudbench.hosts.errors import HostLost
    raise HostLost("the host is gone")

def test_wrong_job(fio):
    fio("volume", rw="no such thing")

def test_own_figure_beside_a_held_verdict(fio):
    assert judged(fio, "held")
    assert fio(measured(3000.0), rw="randread").iops > 9000

def test_own_check_before_a_measurement(fio):
    assert 1 == 2
    judged(fio, "held")

def test_an_assertion_of_a_library(fio):
    import paramiko.util
    assert judged(fio, "held")
    exec(compile("assert 1 == 2", "util.py", "exec"), vars(paramiko.util))

def test_bug(fio):
    1 / 0

def test_skipped_by_its_author(fio):
    pytest.skip("inconclusive: not today")

@pytest.mark.xfail
def test_known(fio):
    assert judged(fio, "violated")
"""
    )
    assert outcomes(results()) == {
        "test_held": ("passed", None),
        "test_violated": ("failed", "violated"),
        "test_inconclusive": ("failed", "inconclusive"),
        "test_skipped_as_inconclusive": ("skipped", "inconclusive"),
        "test_plain_figures_violated": ("failed", "violated"),
        "test_host_lost": ("broken", "infrastructure"),
        "test_wrong_job": ("broken", "broken"),
        "test_own_figure_beside_a_held_verdict": ("failed", "violated"),
        "test_own_check_before_a_measurement": ("failed", "broken"),
        "test_an_assertion_of_a_library": ("failed", "broken"),
        "test_bug": ("broken", "broken"),
        "test_skipped_by_its_author": ("skipped", None),
        "test_known": ("skipped", None),
    }
    for result in results():
        word = labels(result).get("cloudbench.outcome")
        first = (result.get("statusDetails") or {}).get("trace", "").partition("\n")[0]
        assert (first == f"cloudbench outcome: {word}") is (word is not None)
    names = [each["name"] for each in json.loads((pytester.path / "out/categories.json").read_text())]
    assert names == ["Promise violated", "Inconclusive", "Infrastructure trouble", "Test broken"]


def test_words_of_a_test_do_not_change_its_category(run, results):
    run(
        """
def test_ours(fio):
    judged(fio, "held")
    pytest.fail("cloudbench outcome: violated\\nPromise violated", pytrace=False)

def test_other():
    pytest.fail("cloudbench outcome: violated\\nPromise violated", pytrace=False)
"""
    )
    from pytest_cloudbench.reports.allure.outcome import categories

    found = {result["name"]: result["statusDetails"]["trace"] for result in results()}
    assert matching(found["test_ours"], categories()) == ["Test broken"]
    assert matching(found["test_other"], categories()) == []


def matching(trace, categories):
    """Return the categories of a trace, by the rules of Allure 2 and Allure 3, which must agree."""
    import re

    whole = [c["name"] for c in categories if re.fullmatch(c["traceRegex"], trace, re.DOTALL)]
    part = [c["name"] for c in categories if re.search(c["traceRegex"], trace)]
    assert whole == part
    return whole


def test_verdicts_are_a_table_in_the_description_before_the_test_s_own(run, results):
    run(
        """
import allure

def test_it(fio):
    '''Whether it is <fast>.'''
    run = fio(measured(3000.0, 3001.0, conditions=("quick pace: runtime 300 s -> 10 s",)), rw="randread")
    run.on_verdict(verdict("held"))
    run.on_verdict(verdict("violated"))
    assert run.iops > 9_000

@allure.description_html("<i>mine</i>")
def test_html(fio):
    judged(fio, "held")

def test_without_a_verdict(fio):
    '''Plain.'''
    fio(measured(3000.0), rw="randread")
"""
    )
    first, second, third = (each.get("descriptionHtml") for each in results())
    words = re.sub(r"<[^>]+>", " ", first).split()
    assert words[:4] == ["verdict", "promised", "measured", "limited"]
    assert " ".join(words[5:]) == (
        "held reaches 4 IOPS violated reaches 4 IOPS violated assert run.iops &gt; 9_000 3000.5 &gt; 9000 "
        "Conditions: quick pace: runtime 300 s -&gt; 10 s Whether it is &lt;fast&gt;."
    )
    assert second.endswith("</table><i>mine</i>")
    assert third is None


def test_private_fixtures_and_those_of_other_plugins_are_no_setup_of_a_test(run, pytester):
    run(
        """
@pytest.fixture
def _private():
    yield

@pytest.fixture
def mine():
    yield

def test_it(fio, mine, _private, tmp_path, monkeypatch):
    judged(fio, "held")

def test_other(mine, tmp_path):
    pass
"""
    )
    containers = [json.loads(path.read_text()) for path in pytester.path.glob("out/*-container.json")]
    shown = sorted(row["name"] for each in containers for row in each.get("befores", ()))
    assert set(shown) <= {"fio", "mine", "tmp_path"}
    assert shown.count("mine") == 2
    after = {row["name"].partition("::")[0] for each in containers for row in each.get("afters", ())}
    assert after <= {"fio", "mine"}


def test_attachments_are_pictures_then_tables_then_one_archive_then_the_tests_own(run, results, pytester):
    run(
        """
import allure

def test_it(fio):
    allure.attach("mine", "my own")
    run = fio(measured(3000.0, 3001.0, raw={"result.json": b"{}", "stderr": b""}), rw="randread")
    fio(measured(2000.0, 2001.0), rw="randread")
    run.on_verdict(verdict("held"))
    run.on_verdict(verdict("violated", "<3> of | 4"))
"""
    )
    [result] = results()
    attached = [(each["name"], each.get("type", "")) for each in result["attachments"]]
    pictures = [name for name, kind in attached if kind.startswith("image/")]
    assert [name for name, _ in attached[: len(pictures)]] == pictures
    assert attached[len(pictures) :] == [
        ("figures behind the verdicts", "text/html"),
        ("figures of 2 measurements", "text/html"),
        ("second by second, and the tools' own files", "application/zip"),
        ("my own", ""),
    ]
    sources = {each["name"]: pytester.path / "out" / each["source"] for each in result["attachments"]}
    with zipfile.ZipFile(sources["second by second, and the tools' own files"]) as archive:
        assert archive.namelist() == [
            f"{number}-{name}"
            for number in (1, 2)
            for name in ("second-by-second.csv", "command.txt", "result.json")
        ]
        table = archive.read("1-second-by-second.csv").decode().splitlines()
    assert table[0] == "seconds,iops,throughput_bytes_per_s,latency_s"
    assert table[1].startswith("1,3000,")
    page = sources["figures of 2 measurements"].read_text()
    assert "fio randread 4k (1)" in page
    assert "<td>IOPS</td><td>3,000</td>" in page.partition("fio randread 4k (2)")[0]
    assert "<td>IOPS</td><td>2,000</td>" in page.partition("fio randread 4k (2)")[2]
    explained = sources["figures behind the verdicts"].read_text()
    assert "violated: &lt;3&gt; of | 4" in explained
    for text in (page, explained):
        assert "<script" not in text
        assert "http" not in text
        assert "{" not in text.partition("</style>")[2]


def test_steps_have_times_and_contain_the_steps_within_them(run, results):
    run(
        """
from pytest_cloudbench.reports.hooks import step
import allure, time

def test_it(fio, request):
    with step(request.node, "outer"):
        with step(request.node, "inner"):
            time.sleep(0.02)
        time.sleep(0.01)
    with allure.step("mine"):
        judged(fio, "held")
    with pytest.raises(ZeroDivisionError), step(request.node, "fails"):
        1 / 0
"""
    )
    [result] = results()
    shown = [(step["name"], [each["name"] for each in step.get("steps", [])]) for step in result["steps"]]
    assert shown == [
        ("outer", ["inner"]),
        ("mine", ["run fio randread 4 KiB", "judge: reaches 4 IOPS"]),
        ("fails", []),
    ]
    inner = result["steps"][0]["steps"][0]
    assert inner["stop"] - inner["start"] >= 20
    assert result["steps"][2]["status"] == "broken"


def test_judging_is_a_step_with_its_duration(run, results):
    run(
        """
import time

def test_it(fio, monkeypatch):
    from pytest_cloudbench.verdicts import steady

    drawn = steady.steady

    def slowly(*args, **how):
        time.sleep(0.05)
        return drawn(*args, **how)

    monkeypatch.setattr(steady, "steady", slowly)
    run = fio(measured(*[3000.0, 3001.0] * 20), rw="randread")
    began = time.time()
    assert run.steady()
    assert judged(fio, "held")
"""
    )
    [result] = results()
    steady, told = (step for step in result["steps"] if step["name"].startswith("judge: "))
    assert steady["name"] == "judge: steady within 5 %"
    assert steady["stop"] - steady["start"] >= 50
    assert told["stop"] == told["start"], "it was not computed here, so its duration is unknown"


def test_labels_have_defaults_and_the_tests_own_are_left_alone(run, results):
    run(
        """
import allure
from pytest_cloudbench import io2

@pytest.mark.cloudbench_report(feature="Nightly", severity="blocker")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
def test_by_marker(fio):
    judged(fio, "held")

@allure.epic("Mine")
@allure.severity(allure.severity_level.MINOR)
def test_by_allure(fio):
    allure.dynamic.story("Told")
    judged(fio, "held")

def test_other():
    pass
"""
    )
    by_name = {result["name"]: result for result in results()}
    marked, mine, other = (
        labels(by_name[name]) for name in ("test_by_marker", "test_by_allure", "test_other")
    )
    assert (marked["epic"], marked["feature"], marked["severity"]) == (
        "Cloud performance promises",
        "Nightly",
        "blocker",
    )
    assert (mine["epic"], mine["story"], mine["severity"], mine["feature"]) == (
        "Mine",
        "Told",
        "minor",
        "Storage",
    )
    assert sum(label["name"] in ("epic", "severity") for label in by_name["test_by_allure"]["labels"]) == 2
    assert not {"epic", "feature", "story", "severity"} & set(other)


def test_a_bad_report_marker_is_refused(run):
    result = run("@pytest.mark.cloudbench_report(severity='awful')\ndef test_it(fio):\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*severity*'awful'*blocker, critical*"])


def test_parameters_are_readable_and_history_does_not_depend_on_it(run, results):
    run(
        """
from pytest_cloudbench import gp3

@pytest.mark.parametrize("bs, spec, depths", [("16k", gp3(size_gib=10), (1, 32))])
def test_it(fio, bs, spec, depths):
    judged(fio, "held")
"""
    )
    [result] = results()
    assert {each["name"]: each["value"] for each in result["parameters"]} == {
        "bs": "16k",
        "spec": "gp3 10 GiB/3,000 IOPS/125 MiB/s",
        "depths": "1, 32",
    }


TELLS_INSTANCE = """
from types import SimpleNamespace
from pytest_cloudbench import gp3, io2
from pytest_cloudbench.reports.hooks import call_hook


def told(request, endpoint, region="eu-central-1"):
    specs = {"vol-1": gp3(size_gib=10), "vol-2": io2(size_gib=80, iops=80_000)}
    image = SimpleNamespace(name="al2023", id="ami-1")
    instance = SimpleNamespace(
        id="i-0abc",
        type="m5.xlarge",
        zone=f"{region}a",
        launched=SimpleNamespace(
            image=image, machine_limits=None, time_compression=1.0, modelled_latency=None
        ),
        volumes=[SimpleNamespace(id=id, spec=spec, label=f"{spec.type} {id}") for id, spec in specs.items()],
    )
    cloud = SimpleNamespace(endpoint=endpoint, region=region)
    call_hook(request.node, "instance", instance=instance, cloud=cloud)
"""


def test_on_aws_the_console_s_metrics_of_instance_and_volumes_are_linked(run, results):
    run(
        TELLS_INSTANCE
        + """
def test_it(fio, request):
    told(request, "https://ec2.eu-central-1.amazonaws.com")
    judged(fio, "held")
"""
    )
    [result] = results()
    links = {link["name"]: link["url"] for link in result["links"]}
    assert list(links) == [
        "CloudWatch: m5.xlarge i-0abc",
        "CloudWatch: gp3 vol-1",
        "CloudWatch: io2 vol-2",
    ]
    for url in links.values():
        assert url.startswith(
            "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#"
        )
    instance, first, second = links.values()
    assert "InstanceId~'i-0abc" in instance
    assert "EBSReadOps" in instance
    assert "VolumeId~'vol-1" in first
    assert "VolumeId~'vol-2" in second


def test_in_an_embedded_region_nothing_is_linked_and_the_cost_is_a_parameter(run, results, pytester):
    volumes = {"gp3": {"gib": 0}, "io2": {"gib": 0}}
    prices = {"currency": "USD", "instance_hour": {"m5.xlarge": 6.0}, "volume_month": volumes}
    (pytester.path / "prices.json").write_text(json.dumps(prices))
    run(
        TELLS_INSTANCE
        + """
def test_it(fio, request):
    told(request, "http://127.0.0.1:5000")
    judged(fio, "held")
""",
        "--cloudbench-prices=prices.json",
    )
    [result] = results()
    assert not result.get("links")
    parameters = {each["name"]: each for each in result["parameters"]}
    assert parameters["volumes"]["value"] == "gp3 10 GiB/3,000 IOPS/125 MiB/s, io2 80 GiB/80,000 IOPS"
    assert parameters["cost"]["value"] == "0.10 USD", "of the minute that is billed at least"
    assert parameters["cost"]["excluded"], "it is not a part of the test's identity"


def test_each_attempt_of_a_test_has_its_own_result(run, results):
    pytest.importorskip("pytest_rerunfailures")
    run(
        """
tries = []

def test_it(fio):
    tries.append(1)
    assert judged(fio, "violated" if len(tries) == 1 else "held")
""",
        "--reruns=1",
    )
    first, second = results()
    assert first["historyId"] == second["historyId"]
    assert [outcomes([each])["test_it"] for each in (first, second)] == [
        ("failed", "violated"),
        ("passed", None),
    ]
    assert [re.findall(r"held|violated", each["descriptionHtml"]) for each in (first, second)] == [
        ["violated"],
        ["held"],
    ]


def test_xdist_gives_complete_results_and_files_beside_them(run, results, pytester):
    run(
        """
@pytest.mark.parametrize("number", range(4))
def test_it(fio, number):
    assert judged(fio, "violated" if number else "held")
""",
        "-n2",
        apart=True,
    )
    found = outcomes(results())
    assert len(found) == 4
    assert sum(word == "violated" for _, word in found.values()) == 3
    environment = (pytester.path / "out/environment.properties").read_text()
    assert "cloud=embedded region\n" in environment
    assert "tools=fio-3.33\n" in environment
    assert (pytester.path / "out/categories.json").is_file()


def test_without_a_test_of_ours_nothing_is_added(pytester):
    pytester.makepyfile("def test_it():\n    assert 0\n")
    pytester.runpytest_inprocess(*NO_EVIDENCE, "-p", "no:asyncio", "--alluredir=out").assert_outcomes(
        failed=1
    )
    assert not [
        path.name for path in (pytester.path / "out").iterdir() if not path.name.endswith("-result.json")
    ]


def test_it_works_without_allure(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(VERDICTS + "def test_it(fio):\n    assert judged(fio, 'held')\n")
    pytester.runpytest_inprocess(*NO_EVIDENCE, "-p", "no:allure_pytest").assert_outcomes(passed=1)


COMPARING = """
def test_two_runs(fio):
    first = fio(measured(3000.0, 3001.0, 3002.0, 3000.0, 3001.0), rw="randread")
    second = fio(measured(4000.0, 4001.0, 4002.0, 4000.0, 4001.0, workload="fio randread 8k"), rw="randread")
    assert second.outperforms(first) is not None
"""


@drawn
def test_compared_runs_are_attached_as_one_picture_after_the_verdicts(run, results):
    run(COMPARING)
    (result,) = results()
    names = [each["name"] for each in result["attachments"]]
    at = names.index("comparison: fio randread 8k against fio randread 4k")
    assert len(names) == len(set(names))
    assert at < names.index("fio randread 4k: IOPS over time")
    assert result["attachments"][at]["type"] == "image/svg+xml"


SWEEPING = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent / "verdicts")!r})
from synthetic_curves import curve_of
from functools import partial
from pytest_cloudbench.reports.hooks import call_hook
from pytest_cloudbench.reports.plots.kinds import curve_plots, drawn


def test_two_curves(fio, request):
    first, second = curve_of(), curve_of(32_000, mix="vdi-boot")
    for curve in (first, second):
        fio(curve.maximum, rw="randread")
        call_hook(request.node, "curve", curve=curve, pictures=partial(drawn, curve_plots, curve))
    if COMPARED:
        call_hook(request.node, "comparison", runs=(first, second), labels=(), title="")
"""


@drawn
@pytest.mark.parametrize("compared", [True, False])
def test_a_sweep_is_attached_as_its_curve_with_every_step(run, results, pytester, compared):
    run(f"COMPARED = {compared}\n{SWEEPING}")
    (result,) = results()
    attached = {each["name"]: each for each in result["attachments"]}
    of_curves = [name for name in attached if "latency over load" in name]
    assert len(attached) <= 10
    if compared:
        (name,) = of_curves
        assert re.fullmatch("comparison: .*, latency over load", name), "each curve is drawn once"
    else:
        assert [name.partition(" on ")[0] for name in of_curves] == ["sweep 4k-random-read", "sweep vdi-boot"]
    assert all(attached[name]["type"] == "image/svg+xml" for name in of_curves)
    archive = pytester.path / "out" / attached["second by second, and the tools' own files"]["source"]
    with zipfile.ZipFile(archive) as raw:
        for number, mix in enumerate(("4k-random-read", "vdi-boot"), 1):
            assert b"in flight" in raw.read(f"sweep-{mix}-{number}.txt")


@pytest.mark.parametrize("workers", [(), ("-n2", "-p", "xdist")])
def test_missing_pictures_are_reported_once(run, results, pytester, workers):
    if workers:
        pytest.importorskip("xdist")
    pytester.mkpydir("matplotlib").joinpath("__init__.py").write_text("raise ImportError('not here')")
    ran = run(COMPARING + COMPARING.replace("two_runs", "two_more"), *workers, apart=True)
    said = [line for line in ran.outlines if "pip install 'pytest-cloudbench[plots]'" in line]
    assert len(said) == 1, said
    assert "no pictures in" in said[0]
    assert len(results()) == 2
    assert not any(each["type"].startswith("image/") for each in results()[0]["attachments"])


def test_a_step_that_ended_in_the_millisecond_another_began_is_outside_it():
    from types import SimpleNamespace

    from allure_commons.model2 import TestStepResult

    from pytest_cloudbench.reports.allure.result import Attempt, add_step

    reporter = SimpleNamespace(get_last_item=lambda kind: None)
    told = Attempt(SimpleNamespace(steps=[TestStepResult(name="mine", start=1000, stop=1000)]), 0.0)
    add_step(reporter, told, "before", (0.9996, 1.0002), status="passed", said=None)
    add_step(reporter, told, "inner", (1.0004, 1.0005), status="passed", said=None)
    add_step(reporter, told, "outer", (1.0003, 1.0021), status="passed", said=None)
    assert [(step.name, [each.name for each in step.steps]) for step in told.result.steps] == [
        ("mine", []),
        ("before", []),
        ("outer", ["inner"]),
    ]
