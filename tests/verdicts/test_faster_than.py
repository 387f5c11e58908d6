from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import GP3, M5, STRONG_MACHINE, run_of

from pytest_cloudbench import Inconclusive, Outcome, gp3
from pytest_cloudbench.limits.envelope import MachineLimits
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.faster_than import faster_than

DATA = Size(100_000 << 20)
FAST_GP3 = (("vol-0fast", gp3(size_gib=500, iops=16_000, throughput_mib=1_000)),)


@dataclass
class Created:
    """100,000 files of 1 MiB, on the device after so many seconds."""

    on_device_s: float | None
    target: str = "xfs on gp3"
    complete: bool = True
    on: Any = None
    volumes: Any = GP3
    machine: Any = None
    counters: Any = None
    work: dict[str, object] = field(
        default_factory=lambda: {"files": 100_000, "size": Size(1 << 20), "sync": "end"}
    )

    @property
    def device_side(self) -> Any:
        iops = DATA.bytes / (256 << 10) / (self.on_device_s or 1.0)
        return run_of(
            iops, "256k", on=self.on, volumes=self.volumes, sequential=True, machine=self.machine,
            counters=self.counters, samples=3,
        )  # fmt: skip


def test_the_published_comparison() -> None:
    store, root = Created(292, "instance store"), Created(488, "gp3 root")
    verdict = faster_than(store, root, by=1.3)
    assert verdict.outcome is Outcome.HELD
    assert str(verdict) == (
        "held: on the device after 292 s, gp3 root after 488 s: 1.67 times as fast (at least 1.3 required)"
    )
    assert verdict.promise == "instance store is at least 1.3 times as fast as gp3 root"
    assert verdict.details["ratio"] == pytest.approx(488 / 292)
    assert verdict.measured == Throughput.from_mib(store.device_side.throughput_mib)
    assert not faster_than(root, store, by=1.3)
    assert not faster_than(store, root, by=2)


def test_a_violated_one_names_the_limit_of_the_slower() -> None:
    run, other = Created(800.4, on=M5, volumes=GP3), Created(900.0, "xfs on other")
    verdict = faster_than(run, other, by=1.3)
    assert verdict.outcome is Outcome.VIOLATED
    assert "1.12 times as fast (at least 1.3 required); limited by gp3 vol-0def throughput, 125 MiB/s" in str(
        verdict
    )
    assert [ceiling.label for ceiling in verdict.bound_by] == ["gp3 vol-0def throughput"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": 512}, "files 100,000 against 512"),
        ({"size": Size(4096)}, "size 1 MiB against 4 KiB"),
        ({"sync": "each"}, "sync end against each"),
        ({"files": 512, "sync": "each"}, "files 100,000 against 512 and sync end against each"),
        ({"workers": 4}, "workers None against 4"),
    ],
)
def test_different_work_cannot_be_compared(changes: dict[str, object], words: str) -> None:
    run, other = Created(100), Created(400)
    other.work.update(changes)
    verdict = faster_than(run, other, by=1.3)
    assert str(verdict) == f"inconclusive: the two did not do the same work: {words}"
    with pytest.raises(Inconclusive):
        bool(verdict)


@pytest.mark.parametrize("mine", [True, False])
def test_unfinished_work_and_work_without_a_sync_cannot_be_compared(mine: bool) -> None:
    good = Created(400)
    broken, cached = Created(100, "xfs here", complete=False), Created(None, "xfs there")
    for bad, words in (
        (broken, "on xfs here not everything"),
        (cached, "sync='none'.*xfs there.*sync='end'"),
    ):
        pair = (bad, good) if mine else (good, bad)
        verdict = faster_than(*pair)
        assert verdict.outcome is Outcome.INCONCLUSIVE
        with pytest.raises(Inconclusive, match=words):
            bool(verdict)


def test_a_ratio_within_the_clocks_resolution_and_the_noise_of_single_runs_is_not_decided() -> None:
    verdict = faster_than(Created(1.0), Created(1.35), by=1.3)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.details["ratio_interval"] == pytest.approx(
        [1.25 / 1.1 / 1.066, 1.45 / 0.9 * 1.066], rel=0.01
    )
    assert "times are known to about 100 ms" in str(verdict)
    assert not verdict.machine_limited
    assert verdict.leans is Outcome.HELD
    assert "it may be 0.00 to more" in str(faster_than(Created(0.05), Created(0.1), by=1.3))
    assert faster_than(Created(100.0), Created(135.0), by=1.3).outcome is Outcome.INCONCLUSIVE
    assert faster_than(Created(100.0), Created(125.0), by=1.3).leans is Outcome.VIOLATED
    assert faster_than(Created(100.0), Created(140.0), by=1.3)


@pytest.mark.parametrize(("store_s", "leans"), [(620, None), (612, Outcome.HELD)])
def test_the_machine_is_named_if_it_made_the_ratio_too_small_to_decide(
    store_s: float, leans: Outcome | None
) -> None:
    """A busy machine made the store, which only its own disks limit, almost as slow as the volume."""
    store = Created(store_s, "store", volumes=FAST_GP3, machine=STRONG_MACHINE)
    verdict = faster_than(store, Created(800.5, volumes=GP3, machine=STRONG_MACHINE), by=1.3)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "times are known to about 100 ms" in str(verdict)
    assert str(verdict).endswith("the machine under the embedded region was the limit on store")
    assert verdict.leans is leans


def test_runs_on_a_region_differ_less() -> None:
    one, other = (Created(seconds, volumes=GP3, machine=STRONG_MACHINE) for seconds in (600.0, 800.5))
    assert faster_than(one, other, by=1.3).details["ratio_interval"] == pytest.approx(
        [1.313, 1.356], abs=0.002
    )


def test_the_machine_does_not_matter_if_the_run_was_fast_enough() -> None:
    weak = MachineLimits(Iops(50_000), Throughput.from_mib(345), "probe")
    limited = Created(290, "store", volumes=FAST_GP3, machine=weak)
    promised = Created(800.5, "gp3", volumes=GP3, machine=weak)
    assert faster_than(limited, promised, by=1.3)
    short = faster_than(limited, promised, by=3)
    assert (short.outcome, short.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert str(short).endswith(
        "(at least 3 required); no promised ceiling but the machine under the embedded region was the limit on store"
    )
    # The other one would have been faster without the machine: what was found may be its doing.
    held = faster_than(Created(100, "store", volumes=FAST_GP3, machine=weak), limited, by=1.3)
    assert (held.outcome, held.machine_limited) == (Outcome.INCONCLUSIVE, True)
    missed = faster_than(promised, limited, by=1.3)
    assert missed.outcome is Outcome.VIOLATED


def test_counters_distinguish_a_promised_ceiling_from_the_machine() -> None:
    acted = ThrottleDelta(elapsed_s=700, volume_throughput_exceeded_s=690)
    slow = Created(700, "gp3", volumes=GP3, machine=STRONG_MACHINE, counters=acted)
    assert faster_than(Created(100, machine=STRONG_MACHINE, volumes=FAST_GP3), slow, by=1.3)


@pytest.mark.parametrize("by", [0.3, 0, -1, math.nan, math.inf])
def test_a_factor_below_one_is_refused(by: float) -> None:
    with pytest.raises(ValueError, match=r"write by=1\.3 for 30 % faster"):
        faster_than(Created(1), Created(2), by=by)


@pytest.mark.parametrize("by", ["1.3", True, None])
def test_an_invalid_factor_is_refused(by: Any) -> None:
    with pytest.raises(TypeError, match=r"is not a number: write by=1\.3"):
        faster_than(Created(1), Created(2), by=by)


def test_something_else_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match="compares two measurements of created files, not 488"):
        faster_than(Created(1), 488)  # type: ignore[arg-type]


@given(st.floats(0.01, 1e5), st.floats(0.01, 1e5), st.floats(1, 100))
def test_the_outcome_follows_the_ratio(mine: float, theirs: float, by: float) -> None:
    verdict = faster_than(Created(mine), Created(theirs), by=by)
    ratio = theirs / mine
    assert str(verdict).startswith(verdict.outcome.value)
    if verdict.outcome is Outcome.HELD:
        assert ratio >= by * (1 - 1e-6)
        assert (theirs - 0.1) / (mine + 0.1) >= by * (1 - 1e-6)
    elif verdict.outcome is Outcome.VIOLATED:
        assert ratio < by
        assert (theirs + 0.1) / (mine - 0.1) < by
    else:
        # Two single runs on AWS differ by up to 6.6 %.
        assert (theirs - 0.1) / (mine + 0.1) / 1.067 < by * (1 + 1e-6)
    # No run is clearly faster than another that is clearly faster than it.
    turned = faster_than(Created(theirs), Created(mine), by=by)
    assert not (verdict.outcome is Outcome.HELD and turned.outcome is Outcome.HELD and by > 1)
