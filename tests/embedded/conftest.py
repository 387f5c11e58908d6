"""What tests of whole sessions share: their runs, made once, and what this machine had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from inner_runs import Ended
    from leftovers import Leftover


@pytest.fixture(scope="module")
def before(_cloudbench_cloud: object) -> set[Leftover]:
    """What there is while this session's own region is up; runs inside these tests must add nothing to it."""
    from leftovers import leftovers

    return leftovers()


@pytest.fixture(scope="module")
def ended(
    before: object, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Ended]:
    """How each of the module's RUNS ended. They are made a few at a time, because each waits most of its time."""
    from inner_runs import run_all

    return run_all(request.module.RUNS, tmp_path_factory.mktemp("runs"))
