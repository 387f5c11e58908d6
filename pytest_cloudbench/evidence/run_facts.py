"""The first entry of a run's journal: who ran what, where, with which versions."""

from __future__ import annotations

import contextlib
import getpass
import importlib.metadata
import os
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

FORMAT = 1
"""Version of the evidence's format. Increment it when current readers cannot read new evidence."""

PACKAGES = (
    "pytest-cloudbench",
    "pytest",
    "boto3",
    "botocore",
    "fabric",
    "paramiko",
    "msgspec",
    "moto",
    "pytest-xdist",
    "pytest-benchmark",
    "allure-pytest",
    "pytest-rerunfailures",
)
_ENVIRONMENT = re.compile(
    r"(?:AWS_(?:PROFILE|REGION|DEFAULT_REGION|ENDPOINT_URL\w*|EXECUTION_ENV)|CLOUDBENCH_\w+|PYTEST_\w+|CI|TZ|LANG|"
    r"GITHUB_(?:SERVER_URL|REPOSITORY|RUN_ID|RUN_NUMBER|RUN_ATTEMPT|SHA|REF|WORKFLOW|JOB|ACTOR)|"
    r"CI_(?:PROJECT_URL|PIPELINE_URL|JOB_URL|COMMIT_SHA|COMMIT_REF_NAME)|BUILD_(?:URL|NUMBER|TAG)|JOB_NAME|"
    r"BUILDKITE_(?:BUILD_URL|COMMIT|JOB_ID)|CIRCLE_(?:BUILD_URL|SHA1)|TOX_ENV_NAME)\Z"
)
"""The variables that say where a run came from; no others are kept."""
_GIT_LIMIT_S = 5.0


def run_facts(config: pytest.Config) -> dict[str, Any]:
    """Return everything about this process and its run that is known before anything is measured."""
    invocation = config.invocation_params
    return {
        "format": FORMAT,
        "versions": {"python": platform.python_version(), **_versions()},
        "by": {"user": _user(), "host": socket.gethostname()},
        "machine": machine_facts(),
        "command": ["pytest", *map(str, invocation.args)],
        "directory": str(invocation.dir),
        "rootdir": str(config.rootpath),
        "ini": str(config.inipath) if config.inipath else None,
        "git": git_facts(config.rootpath),
        "environment": {name: value for name, value in os.environ.items() if _ENVIRONMENT.match(name)},
    }


def machine_facts() -> dict[str, Any]:
    """Return this machine's system, kernel, processors, and memory in bytes."""
    memory = None
    with contextlib.suppress(OSError, ValueError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_bytes": memory,
        "python": sys.executable,
    }


def git_facts(folder: Path) -> dict[str, Any]:
    """Return the revision of the tests: commit, branch, tracked files that differ from it, and its remote."""
    facts: dict[str, Any] = {}
    try:
        facts["revision"] = _git(folder, "rev-parse", "HEAD")
    except (OSError, subprocess.SubprocessError) as error:
        # What a git that took too long wrote is bytes: its error says more.
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else ""
        return {"none": (said or str(error)).partition("\n")[0]}
    for name, words in (
        ("branch", ("rev-parse", "--abbrev-ref", "HEAD")),
        ("changed", ("status", "--porcelain", "--untracked-files=no")),
        ("remote", ("remote", "get-url", "origin")),
    ):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            facts[name] = _git(folder, *words)
    if "changed" in facts:
        facts["changed"] = [line[3:] for line in facts["changed"].splitlines()]
    return facts


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_GIT_LIMIT_S,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
    ).stdout.rstrip()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _processor() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user, as in some containers
        return None
