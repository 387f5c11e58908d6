"""Device names: unique, valid, enough of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.aws.attachment_slots import (
    DEVICE_NAMES,
    check_attachments,
    next_device_name,
    same_slot,
)
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.errors import AttachmentLimit
from pytest_cloudbench.twin.api.volume_admission import admitted_device_name

DOCUMENTED = re.compile(r"/dev/(sd[b-z]|xvd[a-d][a-x]|xvd[e-z])")
ACCEPTED = re.compile(r"/dev/xvd[a-c][yz]")
TAKEN = st.sets(
    st.sampled_from([*DEVICE_NAMES, "/dev/sda1", "/dev/xvda", "/dev/xvdf", "/dev/sdq", "/dev/xvdb"])
)


def test_first_the_recommended_names_and_then_the_others():
    assert DEVICE_NAMES[0] == "/dev/sdf"
    assert DEVICE_NAMES[10:13] == ("/dev/sdp", "/dev/xvdba", "/dev/xvdbb")
    assert all(DOCUMENTED.fullmatch(name) for name in DEVICE_NAMES[:117])
    assert len(DEVICE_NAMES) == 127


@given(st.integers(1, len(DEVICE_NAMES)), TAKEN)
def test_next_device_names_are_valid_unique_and_free(count, taken):
    given_out = set(taken)
    free = [name for name in DEVICE_NAMES if same_slot(name) not in {same_slot(t) for t in taken}]
    for _ in range(min(count, len(free))):
        name = next_device_name(given_out)
        assert DOCUMENTED.fullmatch(name) or ACCEPTED.fullmatch(name)
        assert admitted_device_name(name) == name
        assert same_slot(name) not in {same_slot(other) for other in given_out}
        given_out.add(name)


def test_all_slots_differ():
    assert len({same_slot(name) for name in DEVICE_NAMES}) == len(DEVICE_NAMES)


def test_when_all_are_in_use():
    with pytest.raises(AttachmentLimit, match=r"all .* device names"):
        next_device_name(DEVICE_NAMES)


def instance_limits(most: int | None) -> InstanceLimits:
    return InstanceLimits.from_describe(
        {"InstanceType": "x9.large", "EbsInfo": {"MaximumEbsAttachments": most}}
    )


def test_127_volumes_fit_beside_the_root_and_no_more():
    check_attachments(instance_limits(128), 127)
    for most in (128, 200, None):
        with pytest.raises(AttachmentLimit, match="128"):
            check_attachments(instance_limits(most), 128)
