"""Copies of sparse files: every byte, and the holes."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cloudbench.twin.volumes import snapshots
from pytest_cloudbench.twin.volumes.disks import MIB, NoRoom
from pytest_cloudbench.twin.volumes.snapshots import Cancelled, Snapshots, copied_pieces, data_pieces

PAGE = 4096


def sparse(tmp_path, size):
    descriptor = os.open(tmp_path, os.O_RDWR | os.O_TMPFILE)
    os.ftruncate(descriptor, size)
    return descriptor


@pytest.fixture
def store(tmp_path):
    return SimpleNamespace(new_file=lambda size: sparse(tmp_path, size), room=lambda: 1024 * MIB)


@pytest.fixture
def volume(store):
    descriptor = store.new_file(64 * MIB)
    os.pwrite(descriptor, b"a" * PAGE, 0)
    os.pwrite(descriptor, b"b" * 3 * MIB, 20 * MIB)
    os.pwrite(descriptor, b"z" * PAGE, 64 * MIB - PAGE)
    yield descriptor
    os.close(descriptor)


def content(descriptor):
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


@settings(max_examples=40, deadline=None)
@given(pages=st.sets(st.integers(0, 63)), whole=st.integers(1, 64), through_memory=st.booleans())
def test_a_copy_holds_the_same_bytes_and_holes(tmp_path_factory, pages, whole, through_memory):
    folder = tmp_path_factory.getbasetemp()
    source, target = sparse(folder, whole * PAGE), sparse(folder, (whole + 7) * PAGE)
    try:
        for page in pages:
            if page < whole:
                os.pwrite(source, bytes([page + 1]) * PAGE, page * PAGE)
        with pytest.MonkeyPatch.context() as patch:
            if through_memory:
                patch.setattr(snapshots, "_by_the_kernel", snapshots._through_memory)
            copied = sum(copied_pieces(source, target, whole * PAGE))
        assert content(target) == content(source) + bytes(7 * PAGE)
        assert copied == sum(end - start for start, end in data_pieces(source, whole * PAGE))
        assert os.fstat(target).st_blocks <= os.fstat(source).st_blocks
    finally:
        os.close(source)
        os.close(target)


def test_a_snapshot_outlives_its_volume_and_what_is_written_later(store, volume):
    kept = Snapshots(store)
    before = content(volume)
    kept.take("snap-1", volume, 64 * MIB)
    assert kept.percent("snap-1") == 100
    os.pwrite(volume, b"later" * PAGE, 0)
    larger = store.new_file(80 * MIB)
    assert kept.restore("snap-1", larger) >= 3 * MIB
    assert content(larger) == before + bytes(16 * MIB)
    assert os.fstat(larger).st_blocks * 512 < 8 * MIB
    kept.delete("snap-1")
    with pytest.raises(KeyError):
        kept.restore("snap-1", larger)
    os.close(larger)
    kept.delete("snap-1")
    kept.close()


def test_a_copy_that_does_not_fit_is_refused_before_it_begins(store, volume, monkeypatch):
    monkeypatch.setattr(snapshots, "_shared", lambda source, target: False)
    store.room = lambda: MIB
    kept = Snapshots(store)
    with pytest.raises(NoRoom, match=r"snap-1 needs 3 MiB for its data, 1 MiB are left: .*--backing DIR"):
        kept.take("snap-1", volume, 64 * MIB)
    assert kept.percent("snap-1") == 0


def test_deleting_a_snapshot_stops_its_copy(store, volume, monkeypatch):
    monkeypatch.setattr(snapshots, "_shared", lambda source, target: False)
    begun, go_on = threading.Event(), threading.Event()
    plain = snapshots.copied_pieces

    def slowly(*asked):
        for copied in plain(*asked):
            begun.set()
            assert go_on.wait(10)
            yield copied

    monkeypatch.setattr(snapshots, "copied_pieces", slowly)
    kept = Snapshots(store)
    errors = []

    def take():
        try:
            kept.take("snap-1", volume, 64 * MIB)
        except Cancelled as error:
            errors.append(str(error))

    thread = threading.Thread(target=take)
    thread.start()
    assert begun.wait(10)
    with pytest.raises(KeyError):
        kept.restore("snap-1", volume)
    assert kept.percent("snap-1") < 100
    kept.delete("snap-1")
    go_on.set()
    thread.join(10)
    assert errors == ["snap-1 was deleted while it was being made"]
