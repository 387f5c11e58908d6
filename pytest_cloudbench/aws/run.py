"""What all parts of the control plane know of their run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .clients import Clients
from .journal import Journal
from .tags import run_tags, specification
from .waits import Bounds


class Run(NamedTuple):
    """The clients that a run calls, the id and the tags of what it creates, its journal, and its time limits."""

    clients: Clients
    run_id: str
    journal: Journal
    bounds: Bounds
    tags: Mapping[str, str]

    def bind(self) -> None:
        """Write endpoint, region and account to the journal, for a later reaping; before the first creating call."""
        account = self.clients.identity().account
        self.journal.bind(self.clients.endpoint, self.clients.region, account)

    def tagged(
        self, name: str, *resource_types: str, extra: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the TagSpecifications of a call that creates these resources. `name` is for people."""
        return specification(run_tags(self.run_id, name, {**self.tags, **(extra or {})}), *resource_types)
