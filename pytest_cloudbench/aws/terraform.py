"""Ids by their names in Terraform: outputs and resource addresses, from a directory, an output or a state file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_cloudbench.errors import RequestError
from pytest_cloudbench.resources.errors import CloudError

_STATE_VERSION = 4
"""The version of state files since Terraform 0.12; OpenTofu writes it too."""
_TOOLS = ("terraform", "tofu")
_TIMEOUT_S = 120.0
_SHOWN = 8
"""The most names that an error lists."""
_FIRST = re.compile(r"[A-Za-z_][\w-]*")
_STEP = re.compile(
    r"""\.(?P<key>[A-Za-z_][\w-]*) | \[(?P<index>\d{1,9})\] |
    \[(?P<quoted>"(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")\]""",
    re.X,
)

Step = str | int
"""A key of an object, or an index of a list."""


class TerraformError(CloudError, RequestError):
    """Terraform's output or state cannot be read, or does not have the id that a test names."""


@dataclass(frozen=True)
class TerraformNames:
    """The outputs and the resources of one Terraform state.

    ``outputs`` has the values of outputs. ``resources`` maps the address of each resource, without its index, to its
    ids by index; the index is None without count or for_each. ``resources`` is None if the source has none. ``source``
    is for messages.
    """

    outputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    resources: Mapping[tuple[Step, ...], Mapping[Step | None, Any]] | None = field(default=None, repr=False)
    source: str = ""

    def find(self, name: str) -> str:
        """Return the text that a name such as `db_ids[0]` or `aws_instance.db` stands for.

        Raises TerraformError if there is none, or more than one.
        """
        steps = parse_name(name)
        value: Any
        if steps[0] in self.outputs:
            value = self._within(name, self.outputs[str(steps[0])], steps[1:])
        else:
            value = self._resource(name, steps)
        return self._text(name, value)

    def _resource(self, name: str, steps: tuple[Step, ...]) -> Any:
        resources = self.resources or {}
        for length in range(len(steps), 0, -1):
            if (instances := resources.get(steps[:length])) is None:
                continue
            rest = steps[length:]
            if rest and rest[0] in instances:
                return self._within(name, {"id": instances[rest[0]]}, rest[1:])
            if None in instances:
                return self._within(name, {"id": instances[None]}, rest)
            return self._within(name, dict(instances), rest)
        known = [*self.outputs, *(_address(each) for each in resources)]
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        has = f"it has {', '.join(known[:_SHOWN])}{more}" if known else "it has no outputs"
        raise TerraformError(f"{self.source} has no {name!r}: {has}")

    def _within(self, name: str, value: Any, steps: tuple[Step, ...]) -> Any:
        """Return the part of a value that the steps lead to."""
        for step in steps:
            inside: Any = value if isinstance(value, Mapping | list) else []
            try:
                value = inside[step]
            except (IndexError, KeyError, TypeError):
                raise TerraformError(f"{name!r} in {self.source} does not exist: {_has(value)}") from None
        return value

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, Mapping) and isinstance(value.get("id"), str):
            value = value["id"]  # of a whole resource
        if isinstance(value, list | Mapping) and len(value) == 1:
            [value] = value.values() if isinstance(value, Mapping) else value
        if isinstance(value, str) and value:
            return value
        raise TerraformError(f"{name!r} in {self.source} is not one id: {_has(value)}")


def parse_name(name: str) -> tuple[Step, ...]:
    """Return the steps of a name: `a["b"][0].c` is ("a", "b", 0, "c"). Raises TerraformError for any other text."""
    found = _FIRST.match(name)
    steps: list[Step] = []
    end = 0
    while found is not None:
        steps.append(_step(found))
        end = found.end()
        found = _STEP.match(name, end)
    if not steps or end != len(name):
        raise TerraformError(
            f"invalid Terraform name {name!r}: write an output such as 'db_id' or 'db_ids[0]', or the address of a "
            "resource such as 'aws_instance.db'"
        )
    return tuple(steps)


def parse_terraform(text: str, source: str) -> TerraformNames:
    """Return the names in the answer of `terraform output -json`, or in a state file of version 4.

    Raises TerraformError for any other text.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TerraformError(f"{source} is not JSON ({error}): {_EXPECTED}") from None
    if not isinstance(content, dict):
        raise TerraformError(f"{source} is a JSON {type(content).__name__}: {_EXPECTED}")
    version = content.get("version")
    if isinstance(version, int):
        if version != _STATE_VERSION:
            raise TerraformError(f"{source} is a state file of version {version}: {_EXPECTED}")
        outputs = content.get("outputs") or {}
        resources = dict(_resources(content.get("resources") or [], source))
        return TerraformNames(_values(outputs, source), resources, source)
    return TerraformNames(_values(content, source), None, source)


class Terraform:
    """The names in a directory with a Terraform configuration, or in a file. Read when the first of them is needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, name: str) -> str:
        """Return the id that a name stands for. Raises TerraformError."""
        steps = parse_name(name)
        if len(steps) > 1 and steps[0] not in self._names.outputs and self._path.is_dir():
            return self._state.find(name)
        return self._names.find(name)

    @cached_property
    def _names(self) -> TerraformNames:
        if self._path.is_dir():
            return self._ask("output", "-json")
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TerraformError(f"--cloudbench-terraform={self._path}: {error}") from None
        return parse_terraform(text, str(self._path))

    @cached_property
    def _state(self) -> TerraformNames:
        """The whole state, which has resources too; a remote one is read through its backend."""
        return self._ask("state", "pull")

    def _ask(self, *words: str) -> TerraformNames:
        tool = next((each for each in _TOOLS if shutil.which(each)), None)
        if tool is None:
            raise TerraformError(
                f"--cloudbench-terraform={self._path} is a directory, and neither {' nor '.join(_TOOLS)} is on the "
                "PATH: install one, or name a file that `terraform output -json` wrote"
            )
        line = f"`{tool} {' '.join(words)}` in {self._path}"
        try:
            done = subprocess.run(
                [tool, *words],
                cwd=self._path,
                env={**os.environ, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TerraformError(f"{line} did not end within {_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise TerraformError(f"{line} could not be run: {error}") from None
        if done.returncode != 0:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise TerraformError(f"{line} failed with exit code {done.returncode}: {said or 'no message'}")
        return parse_terraform(done.stdout.decode("utf-8", "replace"), line)


_EXPECTED = "give the output of `terraform output -json`, or a state file of version 4"


def _step(found: re.Match[str]) -> Step:
    text = found.group(found.lastgroup or 0)
    if found.lastgroup == "quoted":
        return str(json.loads(text, strict=False))
    return int(text) if found.lastgroup == "index" else text


def _values(outputs: Any, source: str) -> dict[str, Any]:
    """Return the value of each output."""
    if not isinstance(outputs, dict) or not all(
        isinstance(one, dict) and "value" in one for one in outputs.values()
    ):
        raise TerraformError(f"{source} has something else than outputs: {_EXPECTED}")
    return {name: one["value"] for name, one in outputs.items()}


def _resources(listed: Any, source: str) -> Iterator[tuple[tuple[Step, ...], dict[Step | None, Any]]]:
    """Yield each resource of a state: its address, and its ids by their index."""
    try:
        for one in listed:
            module = parse_name(one["module"]) if one.get("module") else ()
            data = ("data",) if one.get("mode") == "data" else ()
            ids = {
                each.get("index_key"): (each.get("attributes") or {}).get("id") for each in one["instances"]
            }
            yield (*module, *data, str(one["type"]), str(one["name"])), ids
    except (AttributeError, KeyError, TypeError) as error:
        raise TerraformError(
            f"{source} has a resource that cannot be read ({type(error).__name__}: {error}): {_EXPECTED}"
        ) from None


def _address(steps: tuple[Step, ...]) -> str:
    """Return steps as Terraform writes them; the inverse of `parse_name`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _FIRST.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text


def _has(value: Any) -> str:
    """Return what a value is, for a message, without showing its content: it may be secret."""
    if isinstance(value, Mapping):
        keys = [json.dumps(key) for key in list(value)[:_SHOWN]]
        return f"it has {len(value)} values, by {', '.join(keys)}" if keys else "it is empty"
    if isinstance(value, list):
        return f"it has {len(value)} values: add an index such as [0]" if value else "it is empty"
    return "it is empty" if value in (None, "") else f"it is a {type(value).__name__}"
