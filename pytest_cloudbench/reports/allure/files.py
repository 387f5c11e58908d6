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
    """Write the executor if a known CI runs this and no other tool wrote it; outside of CI, remove our earlier one."""
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
    """Write the facts, one per line with its values joined; keep lines with other names."""
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
Build = tuple[str | None, str | None, str, str | None]
"""The CI's URL, the build's number, its name, and its URL."""


def executor(environment: Environment) -> dict[str, Any] | None:
    """Return the content of executor.json from the CI's own variables; None outside of a known CI.

    Allure orders a trend by ``buildOrder``, which is left out if the CI has no build number.
    """
    found = next((each for each in _KNOWN if environment.get(each[0])), None)
    if found is None:
        return None
    _, name, kind, describe = found
    url, number, build_name, build_url = describe(environment)
    said = {"name": name, "type": kind, "url": url, "buildName": build_name, "buildUrl": build_url}
    if kind == "jenkins" and build_url:
        said["reportUrl"] = f"{build_url.rstrip('/')}/allure/"
    order = {"buildOrder": int(number)} if number and re.fullmatch(r"\d+", number) else {}
    return {**{key: value for key, value in said.items() if value}, **order}


def _github(env: Environment) -> Build:
    home = f"{env.get('GITHUB_SERVER_URL', 'https://github.com')}/{env.get('GITHUB_REPOSITORY', '')}"
    attempt, number = env.get("GITHUB_RUN_ATTEMPT", "1"), env.get("GITHUB_RUN_NUMBER")
    name = f"{env.get('GITHUB_WORKFLOW', 'run')} #{number or '?'}"
    url = f"{home}/actions/runs/{env['GITHUB_RUN_ID']}" if env.get("GITHUB_RUN_ID") else ""
    if attempt == "1":
        return home, number, name, url
    return home, number, f"{name} (attempt {attempt})", f"{url}/attempts/{attempt}" if url else ""


def _gitlab(env: Environment) -> Build:
    name = f"{env.get('CI_JOB_NAME', 'job')} #{env.get('CI_PIPELINE_IID', env.get('CI_JOB_ID', '?'))}"
    order = env.get("CI_PIPELINE_IID") or env.get("CI_PIPELINE_ID")
    return env.get("CI_PROJECT_URL"), order, name, env.get("CI_JOB_URL") or env.get("CI_PIPELINE_URL")


def _jenkins(env: Environment) -> Build:
    number = env.get("BUILD_NUMBER")
    name = env.get("BUILD_DISPLAY_NAME") or f"{env.get('JOB_NAME', 'job')} #{number or '?'}"
    return env.get("JENKINS_URL"), number, name, env.get("BUILD_URL")


def _buildkite(env: Environment) -> Build:
    pipeline = env.get("BUILDKITE_PIPELINE_NAME") or env.get("BUILDKITE_PIPELINE_SLUG", "pipeline")
    number, url = env.get("BUILDKITE_BUILD_NUMBER"), env.get("BUILDKITE_BUILD_URL", "")
    return url.rpartition("/builds/")[0], number, f"{pipeline} #{number or '?'}", url


def _circle(env: Environment) -> Build:
    number = env.get("CIRCLE_BUILD_NUM")
    return None, number, f"{env.get('CIRCLE_JOB', 'job')} #{number or '?'}", env.get("CIRCLE_BUILD_URL")


def _azure(env: Environment) -> Build:
    home = f"{env.get('SYSTEM_COLLECTIONURI', '')}{env.get('SYSTEM_TEAMPROJECT', '')}".replace(" ", "%20")
    name = f"{env.get('BUILD_DEFINITIONNAME', 'pipeline')} #{env.get('BUILD_BUILDNUMBER', '?')}"
    number = env.get("BUILD_BUILDID")
    return home, number, name, f"{home}/_build/results?buildId={number}" if number else ""


def _teamcity(env: Environment) -> Build:
    number = env.get("BUILD_NUMBER")
    name = f"{env.get('TEAMCITY_BUILDCONF_NAME', 'build')} #{number or '?'}"
    return env.get("TEAMCITY_SERVER_URL"), number, name, env.get("BUILD_URL")


def _bitbucket(env: Environment) -> Build:
    number, home = env.get("BITBUCKET_BUILD_NUMBER", "?"), env.get("BITBUCKET_GIT_HTTP_ORIGIN", "")
    name = f"{env.get('BITBUCKET_REPO_SLUG', 'build')} #{number}"
    return home, number, name, f"{home}/addon/pipelines/home#!/results/{number}" if home else ""


_KNOWN: tuple[tuple[str, str, str, Callable[[Environment], Build]], ...] = (
    ("GITHUB_ACTIONS", "GitHub Actions", "github", _github),
    ("GITLAB_CI", "GitLab CI", "gitlab", _gitlab),
    ("BUILDKITE", "Buildkite", "buildkite", _buildkite),
    ("CIRCLECI", "CircleCI", "circleci", _circle),
    ("TF_BUILD", "Azure Pipelines", "azure", _azure),
    ("TEAMCITY_VERSION", "TeamCity", "teamcity", _teamcity),
    ("BITBUCKET_BUILD_NUMBER", "Bitbucket Pipelines", "bitbucket", _bitbucket),
    ("JENKINS_URL", "Jenkins", "jenkins", _jenkins),
    ("BUILD_TAG", "Jenkins", "jenkins", _jenkins),
)
"""The variable that each CI sets for its jobs. Jenkins comes last, because its agents may run inside others."""
