"""The files beside Allure's results: environment, categories, and executor.

Environment lines, categories and an executor from elsewhere are kept.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_cloudbench.reports.allure.outcome import categories

ENVIRONMENT = "environment.properties"
CATEGORIES = "categories.json"
EXECUTOR = "executor.json"
_WRITER = "writtenBy"
_OURS = "pytest-cloudbench"


def write_categories(folder: Path) -> None:
    """Write our categories, before others in the file."""
    ours = categories()
    names = {category["name"] for category in ours}
    present = _json(folder / CATEGORIES)
    kept = (
        [each for each in present if not (isinstance(each, dict) and each.get("name") in names)]
        if isinstance(present, list)
        else []
    )
    # Ours first: in Allure 3 the first match counts, and another category may match everything.
    _write(folder / CATEGORIES, json.dumps(ours + kept, indent=2, ensure_ascii=False) + "\n")


def write_executor(folder: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Write the executor if a known CI runs this and no other tool wrote it. Remove one of an earlier run."""
    path = folder / EXECUTOR
    present = _json(path)
    if path.exists() and not (isinstance(present, dict) and present.get(_WRITER) == _OURS):
        return
    said = executor(environment)
    if said is not None:
        _write(path, json.dumps({**said, _WRITER: _OURS}, indent=2, ensure_ascii=False) + "\n")
    elif path.exists():
        path.unlink()


def write_environment(folder: Path, facts: Mapping[str, Sequence[str]]) -> None:
    """Write the facts, one a line with its values joined; keep lines of other names."""
    path = folder / ENVIRONMENT
    lines = path.read_text("utf-8", errors="replace").splitlines() if path.exists() else []
    ours = {_escaped(name, key=True): _escaped(", ".join(values)) for name, values in facts.items() if values}
    kept = [line for line in lines if line.partition("=")[0].strip() not in ours]
    _write(path, "\n".join([*kept, *(f"{name}={value}" for name, value in ours.items())]) + "\n")


def _escaped(text: str, *, key: bool = False) -> str:
    """Escape a text for java.util.Properties, independent of the encoding."""
    out = []
    for number, char in enumerate(text):
        if char in "\\" or (char in "=:#! " and (key or number == 0)):
            out.append(f"\\{char}")
        elif char in "\n\r\t":
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char])
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    return "".join(out)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, text: str) -> None:
    """Write a file whole, so that a report that is generated now reads the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(path)


Environment = Mapping[str, str]


def executor(environment: Environment) -> dict[str, Any] | None:
    """Return the content of executor.json from the CI's own variables; None outside of a known CI.

    Allure orders a trend by ``buildOrder``, which is left out if the CI has no build number.
    """
    for present, describe in _KNOWN:
        if environment.get(present):
            said = describe(environment)
            order = said.pop("order", "")
            if re.fullmatch(r"\d+", order or ""):
                said["buildOrder"] = int(order)
            return {name: value for name, value in said.items() if value not in (None, "")}
    return None


def _github(env: Environment) -> dict[str, Any]:
    home = f"{env.get('GITHUB_SERVER_URL', 'https://github.com')}/{env.get('GITHUB_REPOSITORY', '')}"
    attempt = env.get("GITHUB_RUN_ATTEMPT", "1")
    url = f"{home}/actions/runs/{env['GITHUB_RUN_ID']}" if env.get("GITHUB_RUN_ID") else ""
    again = f" (attempt {attempt})" if attempt != "1" else ""
    return {
        "name": "GitHub Actions",
        "type": "github",
        "url": home,
        "order": env.get("GITHUB_RUN_NUMBER"),
        "buildName": f"{env.get('GITHUB_WORKFLOW', 'run')} #{env.get('GITHUB_RUN_NUMBER', '?')}{again}",
        "buildUrl": f"{url}/attempts/{attempt}" if url and attempt != "1" else url,
    }


def _gitlab(env: Environment) -> dict[str, Any]:
    return {
        "name": "GitLab CI",
        "type": "gitlab",
        "url": env.get("CI_PROJECT_URL"),
        "order": env.get("CI_PIPELINE_IID") or env.get("CI_PIPELINE_ID"),
        "buildName": f"{env.get('CI_JOB_NAME', 'job')} #{env.get('CI_PIPELINE_IID', env.get('CI_JOB_ID', '?'))}",
        "buildUrl": env.get("CI_JOB_URL") or env.get("CI_PIPELINE_URL"),
    }


def _jenkins(env: Environment) -> dict[str, Any]:
    return {
        "name": "Jenkins",
        "type": "jenkins",
        "url": env.get("JENKINS_URL"),
        "order": env.get("BUILD_NUMBER"),
        "buildName": env.get("BUILD_DISPLAY_NAME")
        or f"{env.get('JOB_NAME', 'job')} #{env.get('BUILD_NUMBER', '?')}",
        "buildUrl": env.get("BUILD_URL"),
        "reportUrl": f"{env['BUILD_URL'].rstrip('/')}/allure/" if env.get("BUILD_URL") else None,
    }


def _buildkite(env: Environment) -> dict[str, Any]:
    pipeline = env.get("BUILDKITE_PIPELINE_NAME") or env.get("BUILDKITE_PIPELINE_SLUG", "pipeline")
    return {
        "name": "Buildkite",
        "type": "buildkite",
        "url": env.get("BUILDKITE_BUILD_URL", "").rpartition("/builds/")[0],
        "order": env.get("BUILDKITE_BUILD_NUMBER"),
        "buildName": f"{pipeline} #{env.get('BUILDKITE_BUILD_NUMBER', '?')}",
        "buildUrl": env.get("BUILDKITE_BUILD_URL"),
    }


def _circle(env: Environment) -> dict[str, Any]:
    return {
        "name": "CircleCI",
        "type": "circleci",
        "order": env.get("CIRCLE_BUILD_NUM"),
        "buildName": f"{env.get('CIRCLE_JOB', 'job')} #{env.get('CIRCLE_BUILD_NUM', '?')}",
        "buildUrl": env.get("CIRCLE_BUILD_URL"),
    }


def _azure(env: Environment) -> dict[str, Any]:
    home = f"{env.get('SYSTEM_COLLECTIONURI', '')}{env.get('SYSTEM_TEAMPROJECT', '')}".replace(" ", "%20")
    return {
        "name": "Azure Pipelines",
        "type": "azure",
        "url": home,
        "order": env.get("BUILD_BUILDID"),
        "buildName": f"{env.get('BUILD_DEFINITIONNAME', 'pipeline')} #{env.get('BUILD_BUILDNUMBER', '?')}",
        "buildUrl": f"{home}/_build/results?buildId={env['BUILD_BUILDID']}"
        if env.get("BUILD_BUILDID")
        else "",
    }


def _teamcity(env: Environment) -> dict[str, Any]:
    return {
        "name": "TeamCity",
        "type": "teamcity",
        "url": env.get("TEAMCITY_SERVER_URL"),
        "order": env.get("BUILD_NUMBER"),
        "buildName": f"{env.get('TEAMCITY_BUILDCONF_NAME', 'build')} #{env.get('BUILD_NUMBER', '?')}",
        "buildUrl": env.get("BUILD_URL"),
    }


def _bitbucket(env: Environment) -> dict[str, Any]:
    number, home = env.get("BITBUCKET_BUILD_NUMBER", "?"), env.get("BITBUCKET_GIT_HTTP_ORIGIN", "")
    return {
        "name": "Bitbucket Pipelines",
        "type": "bitbucket",
        "url": home,
        "order": number,
        "buildName": f"{env.get('BITBUCKET_REPO_SLUG', 'build')} #{number}",
        "buildUrl": f"{home}/addon/pipelines/home#!/results/{number}" if home else "",
    }


_KNOWN: tuple[tuple[str, Callable[[Environment], dict[str, Any]]], ...] = (
    ("GITHUB_ACTIONS", _github),
    ("GITLAB_CI", _gitlab),
    ("BUILDKITE", _buildkite),
    ("CIRCLECI", _circle),
    ("TF_BUILD", _azure),
    ("TEAMCITY_VERSION", _teamcity),
    ("BITBUCKET_BUILD_NUMBER", _bitbucket),
    ("JENKINS_URL", _jenkins),
    ("BUILD_TAG", _jenkins),
)
"""The variable that each CI sets for its jobs. Jenkins comes last, because its agents may run inside others."""
