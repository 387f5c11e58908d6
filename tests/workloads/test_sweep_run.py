"""Sweeps with real fio on this machine: steps, ends, and the result of a failed sweep."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, cast

import pytest
from host_targets import HostTarget

from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.instance_store import STORE_RATES, store_envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.reports.plots.latency import distributions
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.errors import FioRefused
from pytest_cloudbench.workloads.fio.options import HostFio
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.sweep.errors import BadSweep, SweepBroken, SweepInterrupted
from pytest_cloudbench.workloads.sweep.mixes import Mix
from pytest_cloudbench.workloads.sweep.named_mixes import MIXES
from pytest_cloudbench.workloads.sweep.plan import SweepPlan
from pytest_cloudbench.workloads.sweep.runs import Runs
from pytest_cloudbench.workloads.sweep.sweep import SweepProgress, run_sweep
from pytest_cloudbench.workloads.target import Target

MIB = 1 << 20
READS = MIXES["4k-random-read"]
MIXED = Mix.of("mixed", {"4k": 50, "16k": 50}, read_percent=70, random_percent=100, source="our own")
SHORT = {"threads": 2, "step_time": 2, "maximum_time": 2, "ramp_time": 1, "working_set": "100%"}


@pytest.fixture
def files(host: SshHost, tmp_path: Path) -> HostTarget:
    """Return two files as one target."""
    paths = []
    for name in ("one", "two"):
        path = tmp_path / name
        path.write_bytes(os.urandom(16 * MIB))
        paths.append(str(path))
    return HostTarget(host, "file", tuple(paths), conditions=("laid out before",), label="two files")


def plan(mix: Mix = READS, **how: object) -> SweepPlan:
    return SweepPlan.of(mix, **{**SHORT, "steps": (5, 10), **how})  # type: ignore[arg-type]


def fios(target: HostTarget) -> list[str]:
    said = target.host.run(["pgrep", "-f", f"fio .*{target.path}"], check=False).stdout
    return [pid for pid in said.split() if _is_fio(pid)]


def jobs(target: HostTarget) -> list[Path]:
    """Return the directories of the sweep's runs on the host."""
    commands = Path("/var/tmp").glob("cloudbench-*/sweep-*/command")
    return [each.parent for each in commands if target.path in each.read_text()]


def _is_fio(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "fio"
    except OSError:
        return False


@pytest.mark.timed
def test_a_maximum_and_steps_at_shares_of_it(files: HostTarget) -> None:
    told: list[SweepProgress] = []
    curve = run_sweep(files, plan(MIXED), on_progress=told.append)
    assert curve.maximum.iops > 0
    assert curve.maximum.rate_asked is None
    assert curve.maximum.outstanding_asked == 4
    assert curve.maximum.consistency is not None
    assert curve.maximum.consistency.consistent
    assert curve.maximum.asked["threads_per_device"] == 2
    assert [step.percent for step in curve.steps] == [5, 10]
    for step in curve.steps:
        run = step.measurement
        assert step.asked.per_second == pytest.approx(curve.maximum.iops * step.percent / 100)
        assert run.rate_asked == step.asked
        assert run.iops == pytest.approx(step.asked.per_second, rel=0.15)
        assert run.read is not None
        assert run.read.iops / run.iops == pytest.approx(0.7, abs=0.05)
        assert run.throughput_mib * MIB / run.iops == pytest.approx(10_240, rel=0.05)
        assert run.latency is not None
        assert run.latency.p50_s is not None
        assert run.latency.p999_s is not None
        assert run.latency.min_s <= run.latency.p50_s <= run.latency.p999_s <= run.latency.max_s
        assert len(run.series) >= 1
        assert len(run.series.percentiles_s["p99"]) == len(run.series)
        assert run.runtime_s == pytest.approx(2, abs=0.5)
        assert run.conditions == ("laid out before",)
        assert run.command.startswith("/usr/bin/fio ")
    for run in (curve.maximum, *(step.measurement for step in curve.steps)):
        assert run.read is not None
        assert run.read.latency is not None
        drawn = distributions(run.raw)["read"]
        assert drawn.total == pytest.approx(run.read.ios, rel=0.01), (
            "the picture shows what the figures are of"
        )
        assert drawn.percentile_s(99) == pytest.approx(run.read.latency.p99_s, rel=0.02)
        assert drawn.seconds[-1] == run.read.latency.max_s
        ramp_too = distributions({"result.json": run.raw["result.json"]})["read"]
        assert ramp_too.total > drawn.total * 1.2
    assert {progress.of for progress in told} == {3}
    assert told[0].asked is None
    assert told[-1].percent == 10
    assert told[-1].left_s < told[0].left_s
    assert fios(files) == []
    assert jobs(files) == []


@pytest.mark.timed
def test_a_run_ends_once_it_is_steady(files: HostTarget) -> None:
    began = time.monotonic()
    slow = plan(steps=(2,), step_time=40, threads=1)
    curve = run_sweep(files, slow)
    (step,) = curve.steps
    assert time.monotonic() - began < 35
    assert step.ended.startswith("steady after 1")
    assert 9 <= step.measurement.runtime_s < 30
    assert step.measurement.iops == pytest.approx(step.asked.per_second, rel=0.1)
    assert jobs(files) == []


@pytest.mark.timed
def test_quick_pace_notes_its_changes(files: HostTarget) -> None:
    curve = run_sweep(files, plan(step_time=60, steps=(5,)), pace=Pace.QUICK)
    assert curve.conditions == ("laid out before", "quick pace: step 1 + 60 s -> 1 + 2 s")
    assert curve.maximum.conditions == curve.conditions


@pytest.mark.timed
def test_a_sweep_stops_above_its_latency_limit(files: HostTarget) -> None:
    curve = run_sweep(files, plan(latency_limit="1us", steps=(5, 10, 20)))
    assert [step.percent for step in curve.steps] == [5]
    assert curve.conditions[-1].startswith("stopped after 5 %: mean latency ")
    assert curve.conditions[-1].endswith("exceeds the limit of 1 us")


def _at(number: int, do: Callable[[], None]) -> Callable[[SweepProgress], None]:
    def told(progress: SweepProgress) -> None:
        if progress.number == number:
            do()

    return told


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.timed
def test_an_interrupted_sweep_keeps_the_measured_steps(files: HostTarget) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        run_sweep(files, plan(), on_progress=_at(3, _interrupt))
    ended = raised.value
    assert isinstance(ended, SweepInterrupted)
    assert ended.curve is not None
    assert [step.percent for step in ended.curve.steps] == [5]
    assert "interrupted after 1 steps:\n   step" in str(ended)
    assert fios(files) == []
    assert jobs(files) == []


@pytest.mark.timed
def test_an_interrupt_while_a_step_is_recorded_keeps_that_step(files: HostTarget) -> None:
    recorded = []

    def record(run: object) -> None:
        recorded.append(run)
        if len(recorded) == 2:
            _interrupt()

    with pytest.raises(SweepInterrupted, match="interrupted after 1 steps:") as raised:
        run_sweep(files, plan(), on_run=record)
    assert raised.value.curve is not None
    assert [raised.value.curve.maximum, *(step.measurement for step in raised.value.curve.steps)] == recorded


@pytest.mark.timed
def test_a_sweep_interrupted_before_its_first_step_has_no_curve(files: HostTarget) -> None:
    with pytest.raises(SweepInterrupted, match="before its first step") as raised:
        run_sweep(files, plan(), on_progress=_at(1, _interrupt))
    assert raised.value.curve is None
    assert fios(files) == []
    assert jobs(files) == []


@pytest.mark.timed
def test_a_step_that_cannot_be_measured_keeps_those_before_it(files: HostTarget) -> None:
    def kill() -> None:
        for pid in fios(files):
            os.kill(int(pid), signal.SIGKILL)

    with pytest.raises(
        SweepBroken, match=r"the sweep failed at 10 %: fio on .* it was killed on its host"
    ) as raised:
        run_sweep(files, plan(), on_progress=_at(3, kill))
    assert raised.value.curve is not None
    assert [step.percent for step in raised.value.curve.steps] == [5]
    assert "the steps done before it:" in str(raised.value)
    assert fios(files) == []
    assert jobs(files) == []


def test_an_immediate_failure_of_fio_is_reported_in_its_words(
    files: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pytest_cloudbench.workloads.sweep.runs.step_options",
        lambda *_: ("--name=a", "--nonsense=1"),
    )
    with pytest.raises(FioRefused, match=r"fio ended with exit code 1: .*nonsense"):
        run_sweep(files, plan())


def test_an_invalid_target_is_refused_before_anything_starts(files: HostTarget) -> None:
    with pytest.raises(BadSweep, match=r"a working set of 1 MiB .* too small for 2000 threads"):
        run_sweep(files, plan(threads=2000, working_set="1m"))
    with pytest.raises(BadSweep, match="I/Os in flight exceed the"):
        run_sweep(
            files,
            plan(
                Mix.of("tiny", {"512": 100}, read_percent=100, random_percent=100, source="x"), threads=60_000
            ),
        )
    files.kind = "directory"
    with pytest.raises(BadSweep, match=r"not on the directory two files: .*prefilled"):
        run_sweep(files, plan())
    files.kind = "block"
    with pytest.raises(TargetError, match="is a regular file, not a block device"):
        run_sweep(files, plan())
    files.kind, files.paths = "file", ("/nonexistent",)
    with pytest.raises(TargetError, match="does not exist"):
        run_sweep(files, plan())


@pytest.mark.parametrize("kind", ["file", "block"])
def test_a_writing_mix_needs_a_target_with_proven_ownership(
    files: HostTarget, kind: Literal["file", "block"]
) -> None:
    def refuse() -> None:
        raise NotOurs("not proven to be ours")

    files.prove, files.kind = refuse, kind
    for mix in (MIXED, READS):
        with pytest.raises(NotOurs):
            run_sweep(files, plan(mix))
    assert Size(os.stat(files.path).st_size) == Size(16 * MIB)


@pytest.mark.parametrize(
    ("mix", "limits"),
    [
        ("4k-random-read", {"NVMe random read IOPS": 3_300_000}),
        ("4k-random-write", {"NVMe random write IOPS": 1_440_000}),
        ("oltp", {"NVMe random read IOPS": 3_300_000 / 0.67, "NVMe random write IOPS": 1_440_000 / 0.33}),
    ],
)
def test_only_ceilings_of_the_mixs_own_io_count(mix: str, limits: dict[str, float]) -> None:
    """Reads and writes of local disks have separate limits."""
    rates = STORE_RATES["i3.metal"]
    target = SimpleNamespace(
        envelope=lambda block_size, *, sequential: store_envelope(
            "i3.metal", rates, block_size, sequential=sequential
        )
    )
    runs = Runs(cast(Target, target), MIXES[mix], 32, (), cast(HostFio, None), ())
    envelope = runs.envelope()
    assert envelope is not None
    found = {ceiling.quantity: ceiling.limit.per_second for ceiling in envelope.ceilings}  # type: ignore[union-attr]
    assert found == pytest.approx(limits)
