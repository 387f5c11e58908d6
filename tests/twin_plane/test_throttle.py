"""The cgroup writers, against directories that look like cgroups."""

from __future__ import annotations

import math

import pytest

from pytest_cloudbench.twin import throttle
from pytest_cloudbench.twin.throttle import (
    Journal,
    Limits,
    ThrottleUnavailable,
    ThrottleV1,
    ThrottleV2,
    lift_leftovers,
    open_throttle,
    remove_left_groups,
)

V1_FILES = [f"blkio.throttle.{name}_device" for name in ("read_iops", "write_iops", "read_bps", "write_bps")]
LIMITS = Limits(100.4, 200, 1e6, math.inf)


@pytest.fixture
def v1_root(tmp_path):
    root = tmp_path / "blkio"
    root.mkdir()
    for name in V1_FILES:
        (root / name).touch()
    return root


def lines(root):
    """What was last written to each file; a plain file keeps the tail of a longer older line."""
    found = [(root / name).read_text() for name in V1_FILES]
    for name in V1_FILES:
        (root / name).write_text("")
    return found


def test_v1_writes_a_line_per_limit_and_only_what_changes(v1_root, tmp_path):
    writer = ThrottleV1(v1_root, Journal(tmp_path))
    writer.set("i-1", "7:3", LIMITS)
    assert lines(v1_root) == ["7:3 100", "7:3 200", "7:3 1000000", f"7:3 {2**62}"]
    writer.set("i-1", "7:3", Limits(100.4, 250, 1e6, math.inf))
    assert lines(v1_root) == ["", "7:3 250", "", ""]
    assert Journal.read(tmp_path) == {"7:3"}
    writer.lift("i-1", "7:3")
    assert lines(v1_root) == ["7:3 0"] * 4
    writer.lift("i-1", "7:3")
    assert lines(v1_root) == [""] * 4
    writer.set("i-1", "7:4", LIMITS)
    lines(v1_root)
    writer.close()
    assert lines(v1_root) == ["7:4 0"] * 4


def test_a_limit_is_never_written_as_zero_which_would_mean_none(v1_root, tmp_path):
    writer = ThrottleV1(v1_root, Journal(tmp_path))
    writer.set("i-1", "7:3", Limits(0.2, 0, 0, 0))
    assert lines(v1_root) == ["7:3 1"] * 4
    writer.close()


def test_v2_keeps_a_group_per_instance(tmp_path):
    base = tmp_path / "scope"
    group = base / "cloudbench-3-i-1"
    group.mkdir(parents=True)
    (group / "io.max").touch()
    writer = ThrottleV2(base, "cloudbench-3", Journal(tmp_path))
    assert writer.open_group("i-1") == [str(group / "cgroup.procs")]
    writer.set("i-1", "7:3", LIMITS)
    assert (group / "io.max").read_text() == "7:3 rbps=1000000 wbps=max riops=100 wiops=200"
    (group / "io.max").write_text("")
    writer.lift("i-1", "7:3")
    assert (group / "io.max").read_text() == "7:3 rbps=max wbps=max riops=max wiops=max"
    assert Journal.read(tmp_path) == {str(group)}
    (group / "io.max").unlink()
    writer.close()
    assert not group.exists()


def test_leftovers_are_lifted_except_where_a_living_region_uses_the_device(v1_root, tmp_path, monkeypatch):
    monkeypatch.setattr(throttle, "CGROUP", tmp_path)
    group = tmp_path / "old-group"
    group.mkdir()
    lift_leftovers({"7:3", str(group)}, still_used=set())
    assert lines(v1_root) == ["7:3 0"] * 4
    assert remove_left_groups({"7:3", str(group)})
    assert not group.exists()
    lift_leftovers({"7:3"}, still_used={"7:3"})
    assert lines(v1_root) == [""] * 4


def test_a_machine_without_io_control_is_told_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(throttle, "CGROUP", tmp_path)
    with pytest.raises(ThrottleUnavailable, match="CONFIG_BLK_DEV_THROTTLING"):
        open_throttle("cloudbench-0", tmp_path)


def test_v2_is_found_where_v1_cannot_throttle(tmp_path, monkeypatch):
    monkeypatch.setattr(throttle, "CGROUP", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu io memory\n")
    assert throttle.cgroup_version() == 2
    (tmp_path / "blkio").mkdir()
    (tmp_path / "blkio" / V1_FILES[0]).touch()
    assert throttle.cgroup_version() == 1
