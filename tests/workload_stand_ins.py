"""Stand-ins for the run functions of the built-in workloads."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import pytest

_MODULES = {
    "create_files": "create_files.run",
    "fio": "fio.run",
    "iperf3": "iperf3.run",
    "sweep": "sweep.sweep",
}


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, run: Callable[..., Any]) -> None:
    """Let calls of the workload's fixture call ``run`` for the rest of the test."""
    module = importlib.import_module(f"pytest_cloudbench.workloads.{_MODULES[name]}")
    monkeypatch.setattr(module, name.upper(), dataclasses.replace(getattr(module, name.upper()), run=run))
