"""What a target on storage must define itself: a proof that is missing is not a proof."""

from __future__ import annotations

import pytest

from pytest_cloudbench.resources.storage_target import StorageTarget


class Undefined(StorageTarget):
    """A target that defines nothing."""


@pytest.mark.parametrize("name", ["prove_writable", "prove_readable", "counters"])
def test_a_target_without_a_proof_is_not_proven(name: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(Undefined(), name)()


@pytest.mark.parametrize("name", ["path", "paths", "size", "label", "kind"])
def test_a_target_has_no_path_or_size_by_itself(name: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(Undefined(), name)
