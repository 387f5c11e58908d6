"""Earlier runs as a baseline: evidence that a first version recorded, and what of it can be compared."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import Outcome
from pytest_cloudbench.evidence.baseline import Baseline, NoBaseline, folders_in, plain_nodeid
from pytest_cloudbench.evidence.measured import measured_in, runs_in
from pytest_cloudbench.reports.run_history import compare, history
from pytest_cloudbench.verdicts.not_worse_than import not_worse_than

OPTIONS = {"cloud": "embedded", "pace": "quick", "twin-time": "60", "twin-latency": "ebs"}
CAPPED = "test_every_measurement.py::test_a_volume_is_capped"


@pytest.fixture(scope="module")
def workloads(kept):
    return list(measured_in(runs_in([kept])[0][0]))


def test_every_workload_of_a_run_is_its_own_baseline(kept, workloads):
    """Storage, networks, created files and sweeps: each is found by its test and arguments, and is not worse."""
    baseline = Baseline([kept], OPTIONS)
    assert {each.asked["name"] for each in workloads} == {"fio", "iperf3", "create_files", "sweep"}
    judged = 0
    for each in workloads:
        if each.rate is None:
            continue
        earlier = baseline.earlier(each.test.nodeid, each.asked, each.setup, each.nth, parts=(each.part,))[
            each.part
        ]
        verdict = not_worse_than(each.run, earlier, by=0.2)
        assert verdict.outcome is not Outcome.VIOLATED, str(verdict)
        if verdict.outcome is Outcome.HELD:
            assert "(the same, " in str(verdict)
            assert verdict.details["changed"] == []
        judged += verdict.outcome is Outcome.HELD
    assert judged >= 8, f"{judged} of {len(workloads)} were decided"


def test_the_conditions_of_a_measurement(workloads):
    (first, *_) = [each for each in workloads if each.test.nodeid.endswith("test_a_burst_ends")]
    assert first.setup == {
        "target": "gp2 100 GiB/300 IOPS",
        "instance": "m5.large",
        "region": "embedded region us-east-1",
        "zone": "us-east-1a",
        "image": "al2023-ami-2023.9.20251110.1-kernel-6.1-x86_64",
        "tool": "fio-3.33",
    }


def test_a_test_is_found_below_another_root_folder(kept, workloads):
    baseline = Baseline([kept], OPTIONS)
    (each, *_) = [each for each in workloads if each.test.nodeid == CAPPED]
    assert len(baseline.earlier(f"tests/cloud/{CAPPED}", each.asked, each.setup)[""].runs) == 1
    assert baseline.knows(f"tests/cloud/{CAPPED}")
    assert not baseline.knows("test_every_measurement.py::test_other")


def test_another_request_names_the_difference(kept, workloads):
    (each, *_) = [each for each in workloads if each.test.nodeid.endswith("test_a_burst_ends")]
    asked = {"name": "fio", "arguments": {**each.asked["arguments"], "bs": "16k"}}
    earlier = Baseline([kept], OPTIONS).earlier(each.test.nodeid, asked, {})[""]
    assert not earlier.runs
    assert "fio had bs='4k', here bs='16k'" in earlier.missing
    again = Baseline([kept], OPTIONS).earlier(each.test.nodeid, each.asked, {}, 5)[""]
    assert "fewer than 6 times" in again.missing


@pytest.mark.parametrize("name", list(OPTIONS))
def test_a_run_of_another_kind_is_refused_with_the_difference(kept, name):
    with pytest.raises(NoBaseline, match=f"had {name} {OPTIONS[name]}, this one other"):
        Baseline([kept], {**OPTIONS, name: "other"})


def test_the_present_run_is_not_its_own_baseline(kept):
    ((run,), _) = runs_in([kept])
    assert Baseline([kept], OPTIONS, but=str(run.run["run"])).runs == []


def test_folders_are_found_below_a_path_and_each_once(kept):
    assert folders_in([kept.parent, kept]) == [kept]
    assert folders_in([kept / "tests"]) == []
    with pytest.raises(NoBaseline, match="is not a folder"):
        folders_in([kept / "absent"])


def test_altered_evidence_is_no_baseline(kept, workloads, tmp_path):
    shutil.copytree(kept, tmp_path / "altered")
    (each, *_) = [each for each in workloads if each.test.nodeid == CAPPED]
    (file,) = (tmp_path / "altered" / each.test.path).glob("measurement-1.json")
    file.write_text(file.read_text().replace('"iops":', '"iops": '))
    baseline = Baseline([tmp_path / "altered"], OPTIONS)
    found = baseline.earlier(CAPPED, each.asked, each.setup, each.nth)[""]
    assert found.runs == ()
    assert "was altered" in found.missing
    assert baseline.unread == {CAPPED: {found.missing}}


def test_a_folder_without_a_run_is_left_out(kept, tmp_path):
    (tmp_path / "killed" / "journals").mkdir(parents=True)
    (tmp_path / "killed" / "journals" / "main.jsonl").touch()
    baseline = Baseline([tmp_path / "killed", kept], OPTIONS)
    assert len(baseline.runs) == 1
    assert list(baseline.left_out) == [str(tmp_path / "killed")]
    with pytest.raises(NoBaseline, match="killed holds no evidence of a run"):
        Baseline([tmp_path / "killed"], OPTIONS)


@pytest.mark.parametrize("worker", [False, True])
def test_a_run_whose_first_journal_is_broken(kept, tmp_path, worker):
    """The facts of a run are read from any whole journal."""
    shutil.copytree(kept, tmp_path / "broken")
    main = tmp_path / "broken" / "journals" / "main.jsonl"
    if worker:
        shutil.copy(main, main.with_name("gw0.jsonl"))
    first, rest = main.read_bytes().split(b"\n", 1)
    main.write_bytes(first[: len(first) // 2] + b"\n" + rest)
    baseline = Baseline([kept, tmp_path / "broken"], OPTIONS)
    assert len(baseline.runs) == 1
    assert list(baseline.left_out) == ([] if worker else [str(tmp_path / "broken")])


def test_a_history_of_every_kind_of_workload(kept):
    sections = history(*runs_in([kept]))
    assert len(sections) >= 8
    assert all(len(section.rows) == 1 and len(section.rows[0]) == len(section.heads) for section in sections)


def test_a_run_compared_with_its_copy(kept, tmp_path):
    shutil.copytree(kept, tmp_path / "copy")
    ((run,), _) = runs_in([kept])
    title, _, worst = compare([], run, by=0.05)
    assert worst is Outcome.INCONCLUSIVE
    assert "no earlier runs" in title


@pytest.mark.parametrize(
    ("nodeid", "plain"),
    [
        ("a.py::test_x", "a.py::test_x"),
        ("a.py::test_x[3]", "a.py::test_x[3]"),
        ("a.py::test_x[repeat 1 of 6]", "a.py::test_x"),
        ("a.py::test_x[3-repeat 12 of 60]", "a.py::test_x[3]"),
    ],
)
def test_repeats_of_a_test_are_one_test(nodeid, plain):
    assert plain_nodeid(nodeid) == plain


@given(st.text(max_size=20))
def test_a_node_id_is_plain_after_once(parameter):
    assert plain_nodeid(plain_nodeid(f"a.py::test_x[{parameter}]")) == plain_nodeid(
        f"a.py::test_x[{parameter}]"
    )
