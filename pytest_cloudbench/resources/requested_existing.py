"""How a test names an instance or a volume that exists already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pytest_cloudbench.limits.account_values import parse_instance_id, parse_volume_id


@dataclass(frozen=True)
class RequestedExisting:
    """An instance or a volume that was there before the test, named in exactly one way.

    id: its id. tag: tags that no other instance has. terraform: an output or a resource address of the session's
    Terraform state. destructive: loads may overwrite the raw devices: the volume, or the instance's local disks.
    """

    id: str | None = None
    tag: Mapping[str, str] | None = None
    terraform: str | None = None
    destructive: bool = False

    def checked(self, what: str, error: Callable[[str], Exception]) -> RequestedExisting:
        """Return self. Raises `error` if its arguments cannot name a ``what`` ("instance" or "volume")."""
        ways = [name for name in ("id", "tag", "terraform") if getattr(self, name) is not None]
        if len(ways) != 1:
            given = f"{' and '.join(ways)} are given" if ways else "none is given"
            raise error(f"name an existing {what} by exactly {_ways(what)}: {given}")
        if not isinstance(self.destructive, bool):
            raise error(f"destructive must be True or False, not {self.destructive!r}")
        if self.id is not None:
            parse = parse_instance_id if what == "instance" else parse_volume_id
            try:
                parse(self.id or "(empty)")
            except ValueError as problem:
                raise error(str(problem)) from None
        if self.terraform is not None and (not isinstance(self.terraform, str) or not self.terraform):
            raise error(f"terraform must be the name of an output or of a resource, not {self.terraform!r}")
        if self.tag is not None and (
            not isinstance(self.tag, Mapping)
            or not self.tag
            or not all(isinstance(each, str) and each for pair in self.tag.items() for each in pair)
        ):
            raise error(f"tag must have keys and values such as {{'role': 'db'}}, not {self.tag!r}")
        return self

    def __str__(self) -> str:
        if self.tag is not None:
            return " and ".join(f"{key}={value}" for key, value in self.tag.items())
        return self.id or f"{self.terraform} of Terraform"


NAMES = tuple(each.name for each in fields(RequestedExisting))
"""The arguments of a marker that name existing hardware."""


def take_existing(arguments: dict[str, Any], default_id: str | None = None) -> RequestedExisting | None:
    """Remove the arguments of a marker that name existing hardware, and return them; None if there are none.

    ``default_id`` is the id if nothing else names one.
    """
    taken = {name: arguments.pop(name) for name in NAMES if name in arguments}
    if default_id is not None and taken.keys() <= {"destructive"}:
        taken["id"] = default_id
    return RequestedExisting(**taken) if taken else None


def _ways(what: str) -> str:
    return "one of id=, tag= and terraform=" if what == "instance" else "one of id= and terraform="
