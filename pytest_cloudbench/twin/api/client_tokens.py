"""Idempotency: a request repeated with the same client token creates nothing a second time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .refusal import Refusal


class ClientTokens:
    """What was created under which token. The caller holds the region's lock."""

    def __init__(self) -> None:
        self._created: dict[tuple[str, str], tuple[str, Any]] = {}

    def recall(self, action: str, params: Mapping[str, Any]) -> Any | None:
        """What an earlier request with this token created, or None.

        Raises Refusal (IdempotentParameterMismatch) when the earlier request had other parameters.
        """
        known = self._created.get((action, params.get("ClientToken") or ""))
        if known is None:
            return None
        fingerprint, created = known
        if fingerprint != _fingerprint(params):
            raise Refusal(
                "IdempotentParameterMismatch",
                f"The client token '{params['ClientToken']}' was used before by a {action} request with other "
                "parameters. Use a new token for a new request.",
            )
        return created

    def remember(self, action: str, params: Mapping[str, Any], created: Any) -> None:
        """Keep ``created`` as the answer to repetitions of this request."""
        if token := params.get("ClientToken"):
            self._created[action, token] = (_fingerprint(params), created)

    def forget(self, action: str, params: Mapping[str, Any]) -> None:
        """The request failed after all: its token is free again."""
        self._created.pop((action, params.get("ClientToken") or ""), None)


def _fingerprint(params: Mapping[str, Any]) -> str:
    told = {key: value for key, value in params.items() if key not in ("ClientToken", "DryRun")}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()
