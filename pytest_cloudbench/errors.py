"""Base classes that say what an error blames. Reports file failed tests by them."""

from __future__ import annotations


class InfrastructureError(Exception):
    """A measurement could not be made, because the cloud, a host or a tool failed."""


class RequestError(Exception):
    """The test asked for what cannot be done, so the test is wrong. This counts before `InfrastructureError`."""
