"""A run of the control plane: what all its parts know, and the tags by which it finds its resources.

A run never changes a resource that has neither its tag nor an id in its journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from .clients import Clients
from .journal import Journal
from .lease import DEFAULT_LEASE_S
from .waits import Bounds

RUN_TAG = "cloudbench:run"
CREATED_TAG = "cloudbench:created"
TOKEN_TAG = "cloudbench:token"  # noqa: S105  (not a secret)
"""Its value is the token of the creating call in the journal: it finds what a call created whose answer was lost."""
KEPT_TAG = "cloudbench:kept"
"""On resources that stay after their run; its value is the failed test. `cloudbench reap --kept` removes them."""
LONGEST_VALUE = 255
"""The most characters of a tag's value."""


class Run(NamedTuple):
    """What all parts of a run share: its clients, its id, its tags, its journal and its time limits."""

    clients: Clients
    run_id: str
    journal: Journal
    bounds: Bounds
    tags: Mapping[str, str]
    lease_s: float = DEFAULT_LEASE_S

    def bind(self) -> None:
        """Write endpoint, region and account to the journal, for a later reap; call it before any creating call."""
        account = self.clients.identity().account
        self.journal.bind(self.clients.endpoint, self.clients.region, account)

    def tagged(
        self, name: str, *resource_types: str, token: str = "", extra: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the TagSpecifications of the call that creates these resources; `name` is for display.

        `token` is the call's token in the journal.
        """
        tags = {
            **self.tags,
            **(extra or {}),
            **({TOKEN_TAG: token} if token else {}),
            RUN_TAG: self.run_id,
            CREATED_TAG: datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "Name": f"cloudbench {name.removeprefix('cloudbench ')}".strip()[:LONGEST_VALUE],
        }
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        return [{"ResourceType": kind, "Tags": pairs} for kind in resource_types]


def reap_command(run_id: str, region: str, *, kept: bool = False) -> str:
    """Return the command that removes what a run left, with `kept` also what it kept."""
    return f"cloudbench reap --run {run_id} --region {region}{' --kept' if kept else ''}"


def run_filter(run_id: str) -> list[dict[str, Any]]:
    """Return the filter of a Describe call that finds what this run created."""
    return [{"Name": f"tag:{RUN_TAG}", "Values": [run_id]}]


def tags_of(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of one described resource."""
    return {tag["Key"]: tag.get("Value", "") for tag in description.get("Tags") or ()}


def belongs_to(resource: Mapping[str, Any], run_id: str) -> bool:
    """Return True if the answer itself has the run's tag: if a filter is ignored, other resources are not deleted."""
    return tags_of(resource).get(RUN_TAG) == run_id


def only_ours(resources: Iterable[Mapping[str, Any]], run_id: str) -> Sequence[dict[str, Any]]:
    """Return those of `resources` that have the run's tag."""
    return [dict(resource) for resource in resources if belongs_to(resource, run_id)]
