"""What an account requires of everything that a run creates in it, or gives to the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AccountSettings:
    """The settings of an account; each is off by default.

    tags: put on everything that the run creates.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
