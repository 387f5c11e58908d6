"""Base classes that say what an error blames. Reports classify failed tests by them."""

from __future__ import annotations


class InfrastructureError(Exception):
    """A measurement could not be made, because the cloud, a host or a tool failed."""


class RequestError(Exception):
    """The test requested something impossible, so the test is wrong. It takes precedence over `InfrastructureError`."""
