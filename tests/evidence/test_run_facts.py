"""What a run records of itself must never keep it from running."""

from pathlib import Path

import pytest

from pytest_cloudbench.evidence import run_facts


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("echo fatal: not a git repository >&2; exit 128", "fatal: not a git repository"),
        ("exit 1", "exit status 1"),
        ("echo warning: slow >&2; exec sleep 30", "timed out"),
    ],
)
def test_a_git_that_gives_no_revision_is_no_error(tmp_path, monkeypatch, does, why):
    git = Path(tmp_path, "git")
    git.write_text(f"#!/bin/sh\n{does}\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(run_facts, "_GIT_LIMIT_S", 0.5)
    assert why in run_facts.git_facts(tmp_path)["none"]


def test_no_git_at_all_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git" in run_facts.git_facts(tmp_path)["none"]
