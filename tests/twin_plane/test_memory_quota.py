"""The memory that volumes of several regions may take: together they never take what the machine must keep."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.twin.slots import regions_at_most, take_slot
from pytest_cloudbench.twin.volumes.disks import GIB, quota

bytes_of = st.integers(0, 64 * GIB)


@given(used=st.lists(bytes_of, min_size=1, max_size=32), available=bytes_of, reserve=bytes_of)
def test_all_regions_together_leave_the_reserve(used: list[int], available: int, reserve: int) -> None:
    quotas = [quota(each, available, reserve=reserve, regions=len(used)) for each in used]
    assert all(most >= each for most, each in zip(quotas, used, strict=True)), "what is written stays"
    assert sum(quotas) - sum(used) <= max(0, available - reserve)


def test_a_single_region_may_take_all_but_the_reserve() -> None:
    assert quota(2 * GIB, 10 * GIB, reserve=GIB, regions=1) == 11 * GIB


def test_regions_are_counted_by_their_slots(tmp_path) -> None:
    assert regions_at_most(tmp_path) == 1
    slots = [take_slot(base=tmp_path) for _ in range(3)]
    (tmp_path / "machine.json").touch()
    assert regions_at_most(tmp_path) == 3
    for slot in slots:
        slot.release()
    assert regions_at_most(tmp_path) == 1
