"""The runs that a test compares, and the names that distinguish them."""

import dataclasses
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "verdicts"))

from drawn_runs import files, network, noisy, storage
from synthetic_curves import curve_of

from pytest_cloudbench import scales_linearly
from pytest_cloudbench.reports.comparisons import ComparedRuns, joined, names_of


def between(one, other, **changes):
    return network(noisy(4.9, 10), path=f"{one} i-0a1 -> {other} i-0b2", **changes)


def test_families_are_named_by_their_instance_types():
    assert names_of([between("c4.4xlarge", "c4.4xlarge"), between("m4.4xlarge", "m4.4xlarge")]) == [
        "c4.4xlarge",
        "m4.4xlarge",
    ]


def test_a_mismatched_pair_names_both_ends_and_the_way():
    slow, mixed = between("t2.medium", "t2.medium"), between("t2.medium", "m5.2xlarge")
    back = between("t2.medium", "m5.2xlarge", workload="iperf3 TCP 5 streams, reverse")
    assert names_of([slow, mixed, back]) == [
        "t2.medium",
        "t2.medium -> m5.2xlarge",
        "t2.medium -> m5.2xlarge, reverse",
    ]


def test_runs_between_the_same_ends_are_named_by_their_streams():
    one = between("c5.18xlarge", "c5.18xlarge", workload="iperf3 TCP 1 stream")
    five = between("c5.18xlarge", "c5.18xlarge", workload="iperf3 TCP 5 streams")
    assert names_of([five, one]) == ["iperf3 TCP 5 streams", "iperf3 TCP 1 stream"]


def test_storage_runs_are_named_by_their_target_without_ids():
    store = files(10, 300, to_device_s=10, mib=300, target="xfs on instance store disk 1 of 4")
    volume = files(10, 200, to_device_s=20, mib=125, target="xfs on gp3 500 GiB vol-0123456789abcdef0")
    assert names_of([store, volume]) == ["xfs on instance store disk 1 of 4", "xfs on gp3 500 GiB"]


def test_runs_of_one_workload_are_named_by_what_was_asked():
    deep, shallow = ({"iodepth": depth, "bs_bytes": 4096, "nothing": None} for depth in (16, 1))
    run = storage(noisy(1_000, 10))
    runs = [
        dataclasses.replace(run, asked=each) for each in (deep, shallow | {"rate_iops_total": 200.0}, deep)
    ]
    assert names_of(runs) == ["iodepth 16 (1)", "iodepth 1, IOPS limited to 200", "iodepth 16 (2)"]
    many = [dataclasses.replace(run, asked={f"option_{n}": n + more for n in range(9)}) for more in (0, 1)]
    assert names_of(many) == ["option 0 0, option 1 1, option 2 2", "option 0 1, option 1 2, option 2 3"]


def test_runs_without_differences_are_numbered():
    run = storage(noisy(1_000, 10))
    assert names_of([run, dataclasses.replace(run)]) == ["run (1)", "run (2)"]


def test_comparisons_that_share_a_run_are_one_picture():
    slow, mixed = between("t2.medium", "t2.medium"), between("t2.medium", "m5.2xlarge")
    back = between("t2.medium", "m5.2xlarge", workload="iperf3 TCP 5 streams, reverse")
    other = ComparedRuns((storage([1.0, 2.0]), storage([2.0, 3.0])))
    found = joined(
        [ComparedRuns((mixed, slow)), other, ComparedRuns((back, slow)), ComparedRuns((mixed, slow))]
    )
    assert [len(each.runs) for each in found] == [3, 2]
    assert found[0].heading.count(" against ") == 2


def test_a_comparison_with_a_title_is_separate_and_appears_once():
    runs = (storage([1.0, 2.0]), storage([2.0, 4.0]))
    scaled = ComparedRuns(runs, ("with 1", "with 2"), "scales linearly with 1 and 2")
    assert joined([scaled, scaled, ComparedRuns(runs)]) == [scaled, ComparedRuns(runs)]


def test_every_verdict_on_several_runs_reports_a_comparison():
    told = []

    def kept(run):
        return dataclasses.replace(run, on_comparison=lambda runs, **words: told.append((len(runs), words)))

    one, two = (kept(storage(noisy(1_000 * count, 10))) for count in (1, 2))
    assert two.outperforms(one) is not None
    assert one.resembles(two) is not None
    verdict = scales_linearly([one, two], with_=[1, 2])
    slow, fast = (kept(files(10, 200, to_device_s=each, mib=125, target="x")) for each in (20, 10))
    assert fast.faster_than(slow, by=1.3) is not None
    assert kept(curve_of()).compare(curve_of(32_000)) is not None
    nothing = {"labels": (), "title": ""}
    assert told == [
        (2, nothing),
        (2, nothing),
        (2, {"labels": ("with 1", "with 2"), "title": verdict.promise}),
        (2, nothing),
        (2, {}),
    ]


@pytest.mark.parametrize("kind", ["curves", "bars"])
def test_compared_runs_are_drawn_together(kind):
    pytest.importorskip("matplotlib")
    runs = (
        (curve_of(), curve_of(32_000, mix="vdi-boot"))
        if kind == "curves"
        else (between("c4.4xlarge", "c4.4xlarge"), between("m4.4xlarge", "m4.4xlarge"))
    )
    compared = ComparedRuns(runs)
    root = ElementTree.fromstring(compared.picture().svg)
    said = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {*compared.names, compared.heading} <= set(said)
