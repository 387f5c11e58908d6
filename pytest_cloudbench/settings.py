"""The plugin's options: each a command-line option and an ini setting of the same name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Option:
    """One option; an empty default means that what happens without it depends on other things."""

    name: str
    default: str
    choices: tuple[str, ...] | None
    help: str

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return f"--cloudbench-{self.name}"

    @property
    def ini(self) -> str:
        """Name in the ini file."""
        return f"cloudbench_{self.name.replace('-', '_')}"


OPTIONS = (
    Option(
        "cloud",
        "embedded",
        ("embedded", "aws"),
        "where hosts and volumes come from; money is never spent unasked",
    ),
    Option(
        "pace",
        "",
        ("quick", "full"),
        "quick caps run times, ramps and file sizes to seconds and says so in every result; full runs what the "
        "test says (default: quick on the embedded region, full on AWS)",
    ),
    Option(
        "inconclusive",
        "",
        ("fail", "skip"),
        "what an inconclusive verdict does to its test (default: fail; on the embedded region skip when this "
        "machine was the limit)",
    ),
    Option(
        "progress",
        "auto",
        ("auto", "on", "off"),
        "the live line of a running workload (auto: on a terminal, not with -q)",
    ),
    Option("region", "", None, "AWS region (default: the one of your AWS configuration)"),
    Option(
        "zone",
        "",
        None,
        "availability zone for instances and their volumes (default: one that offers the type)",
    ),
    Option("subnet", "", None, "subnet to launch into (default: the default VPC's)"),
    Option(
        "image", "", None, "AMI id or SSM parameter of the image (default: Amazon Linux 2023); Linux only"
    ),
    Option("user", "", None, "login user of the image (default: the image's own where it is known)"),
    Option(
        "ssh-from",
        "",
        None,
        "network, as CIDR, that may reach the instances by SSH (default: this machine's address)",
    ),
    Option(
        "address",
        "auto",
        ("auto", "public", "private"),
        "address by which instances are reached (auto: public if any)",
    ),
    Option("twin-backing", "", None, "folder for the data of embedded volumes instead of memory (slower)"),
)
_BY_NAME = {option.name: option for option in OPTIONS}


def setting(config: pytest.Config, name: str) -> str:
    """Return an option's value: of the command line, else of the ini file, else its default.

    Raises pytest.UsageError for an ini value that is none of the choices.
    """
    option = _BY_NAME[name]
    given = config.getoption(option.flag)
    if given is not None:
        return str(given)
    value = str(config.getini(option.ini))
    if value and option.choices is not None and value not in option.choices:
        raise pytest.UsageError(
            f"{option.ini}={value!r} in the ini file: use one of {', '.join(option.choices)}"
        )
    return value
