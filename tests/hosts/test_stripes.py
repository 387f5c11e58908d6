"""The choice of the method for stripes, and the commands of md and LVM, on a modelled host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modelled_host import ModelledHost

from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import FilesystemError, NotOurs, StripeError
from pytest_cloudbench.hosts.stripe_methods import choose_method
from pytest_cloudbench.hosts.stripes import check_chunk, check_members, stripe, unstripe
from pytest_cloudbench.limits.quantities import Size

_SIZE = Size.from_gib(100)
_CHUNK = Size(64 << 10)


def _volume(number: int, size: Size = _SIZE) -> BlockDevice:
    path = f"/dev/xvd{'fghijklm'[number]}"
    return BlockDevice(path, size, f"vol-0123456789abcde{number:02x}", attached_as=path)


@pytest.fixture
def host() -> ModelledHost:
    modelled = ModelledHost()
    for number in range(4):
        modelled.add(_volume(number).path, _SIZE.bytes)
    return modelled


_VOLUMES = [_volume(number) for number in range(3)]


@pytest.mark.parametrize(
    ("able", "missing", "method", "why"),
    [
        (("nodes", "md", "LVM", "btrfs"), (), "md", ""),
        (("nodes", "LVM", "btrfs"), (), "LVM", "no md: its kernel has no raid0"),
        (("nodes", "btrfs"), (), "btrfs", "no md: its kernel has no raid0; no LVM: its kernel has no dm_mod"),
        (("btrfs",), (), "btrfs", "no md and no LVM: its root may not make device nodes"),
        (("nodes", "md", "LVM", "btrfs"), ("mdadm",), "LVM", "no md: mdadm is not on modelled host"),
    ],
)
def test_the_first_method_that_works_is_chosen(host, able, missing, method, why) -> None:
    host.able, host.missing_tools = able, missing
    chosen = choose_method(host)
    assert chosen.method == method
    assert chosen.why.startswith(why)
    assert bool(chosen.why) == bool(why)


def test_a_host_that_may_not_make_nodes_never_uses_md_or_lvm(host) -> None:
    """Not even if the kernel, which it shares with other hosts, has both."""
    host.able = ("btrfs",)
    striped = stripe(host, _VOLUMES, chunk=_CHUNK)
    assert striped.method == "btrfs"
    assert host.done == []


def test_the_error_without_any_method_lists_all_reasons(host) -> None:
    host.able = ("nodes",)
    with pytest.raises(StripeError, match=r"modelled host cannot stripe: no md: .* no LVM: .* no btrfs: "):
        stripe(host, _VOLUMES, chunk=_CHUNK)


def test_md_is_made_proven_and_undone(host) -> None:
    striped = stripe(host, _VOLUMES, chunk=Size(256 << 10))
    assert (striped.method, striped.path, striped.is_device) == ("md", "/dev/md127", True)
    assert striped.size.bytes == 3 * (_SIZE.bytes - 1024**2)
    created = host.done[0].split()
    assert created[:3] == ["mdadm", "--create", f"/dev/md/{striped.name}"]
    assert {"--level=0", "--chunk=256", "--raid-devices=3", "--run"} <= set(created)
    assert created[-3:] == [volume.path for volume in _VOLUMES]
    (facts,) = striped.prove(host)
    assert facts.path == "/dev/md127"
    with pytest.raises(NotOurs, match="is in use by md127"):
        _VOLUMES[0].prove(host)
    unstripe(host, striped)
    assert [host.devices[volume.path].holders for volume in _VOLUMES] == [[], [], []]
    assert [host.devices[volume.path].signature for volume in _VOLUMES] == [None, None, None]


def test_an_array_that_udev_assembles_again_is_stopped_again(host) -> None:
    striped = stripe(host, _VOLUMES, chunk=_CHUNK)
    host.assembled_again = 3
    unstripe(host, striped)
    assert "/dev/md127" not in host.devices
    assert all(host.devices[volume.path].signature is None for volume in _VOLUMES)


def test_the_error_names_an_array_that_cannot_be_stopped(host) -> None:
    striped = stripe(host, _VOLUMES, chunk=_CHUNK)
    host.assembled_again = 10_000
    with pytest.raises(StripeError, match=r"/dev/xvdf, .* by md"):
        unstripe(host, striped)


def test_an_array_of_other_devices_is_not_ours(host) -> None:
    striped = stripe(host, _VOLUMES, chunk=_CHUNK)
    host.devices["/dev/md127"].members = tuple(volume.path for volume in _VOLUMES[:2])
    with pytest.raises(NotOurs, match=r"/dev/md127 .* is not proven to be the stripe of .* it consists of"):
        striped.prove(host)
    host.devices["/dev/md127"].holders = ["dm-3"]
    with pytest.raises(NotOurs, match="is in use by dm-3"):
        striped.prove(host)
    host.devices[_VOLUMES[2].path].holders = ["md5"]
    with pytest.raises(NotOurs, match=f"{_VOLUMES[2].path} .* is in use by md5"):
        striped.prove(host)


def test_an_error_of_mdadm_is_quoted_and_its_changes_undone(host) -> None:
    host.failing["mdadm"] = "mdadm: unexpected failure opening /dev/md127"
    with pytest.raises(StripeError, match=r"md could not stripe .*unexpected failure opening"):
        stripe(host, _VOLUMES, chunk=_CHUNK)
    assert all(not host.devices[volume.path].holders for volume in _VOLUMES)


def test_lvm_is_made_proven_and_undone(host) -> None:
    host.able = ("nodes", "LVM", "btrfs")
    striped = stripe(host, _VOLUMES, chunk=Size(128 << 10))
    assert (striped.method, striped.path) == ("LVM", "/dev/dm-0")
    assert [line.split()[0] for line in host.done] == ["pvcreate", "vgcreate", "lvcreate"]
    assert "-i 3 -I 128k -l 100%FREE" in host.done[-1]
    striped.prove(host)
    unstripe(host, striped)
    assert [host.devices[volume.path].signature for volume in _VOLUMES] == [None, None, None]


def test_the_changes_of_a_failing_lvm_are_undone(host) -> None:
    host.able = ("nodes", "LVM", "btrfs")
    host.failing["lvcreate"] = "Failure to communicate with kernel device-mapper driver."
    with pytest.raises(StripeError, match="Failure to communicate"):
        stripe(host, _VOLUMES, chunk=_CHUNK)
    assert [host.devices[volume.path].signature for volume in _VOLUMES] == [None, None, None]


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([], "0 device"),
        (_VOLUMES[:1], "1 device .* give two or more"),
        ([_VOLUMES[0], _VOLUMES[0]], "twice: /dev/xvdf, /dev/xvdf"),
        (
            [_VOLUMES[0], _volume(3, Size.from_gib(50))],
            r"devices of unequal size are not striped.*vol-0123456789abcde00 100 GiB, .*50 GiB",
        ),
    ],
)
def test_unsuitable_members_are_refused_without_a_command(host, members, sentence) -> None:
    with pytest.raises(StripeError, match=sentence):
        stripe(host, members, chunk=_CHUNK)
    assert host.done == []


def test_nothing_is_written_if_one_member_carries_data(host) -> None:
    host.devices[_VOLUMES[1].path].signature = "linux_raid_member"
    with pytest.raises(FilesystemError, match=r"/dev/xvdg carries a member of an md array: striping would"):
        stripe(host, _VOLUMES, chunk=_CHUNK)
    assert host.done == []
    stripe(host, _VOLUMES, chunk=_CHUNK, overwrite=True)
    assert host.done[0].startswith("wipefs --all")


@given(st.integers(min_value=-10, max_value=1 << 34))
def test_a_chunk_is_a_power_of_two_in_bounds(number: int) -> None:
    in_bounds = number in [4096 << shift for shift in range(11)]
    try:
        check_chunk(Size(number))
    except (StripeError, ValueError):
        assert not in_bounds
    else:
        assert in_bounds


@pytest.mark.parametrize("shift", range(11))
def test_every_power_of_two_from_4_kib_to_4_mib_is_a_chunk(shift: int) -> None:
    check_chunk(Size(4096 << shift))


def test_the_error_of_an_invalid_chunk_shows_a_valid_one() -> None:
    with pytest.raises(StripeError, match="chunk 96 KiB: use a power of two from 4 KiB to"):
        check_chunk(Size(96 << 10))


@given(st.lists(st.integers(min_value=1, max_value=3), min_size=0, max_size=5))
def test_members_are_two_or_more_devices_of_equal_size(sizes: list[int]) -> None:
    members = [_volume(number, Size.from_gib(size)) for number, size in enumerate(sizes)]
    if len(sizes) >= 2 and len(set(sizes)) == 1:
        check_members(members)
    else:
        with pytest.raises(StripeError):
            check_members(members)
