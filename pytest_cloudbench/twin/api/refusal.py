"""How the API says no."""

from __future__ import annotations


class Refusal(Exception):
    """A request that the service refuses.

    ``code`` is the service's own error code (``InvalidParameterValue``), ``message`` a sentence for people and
    ``status`` the HTTP status of the answer.
    """

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
