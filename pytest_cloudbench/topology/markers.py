"""What a test's markers ask for, checked as a whole before anything is created."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.promises.volumes import VolumeSpec


class BadMarker(ValueError):
    """A marker's arguments cannot be used; the message says which, and what is possible."""


@dataclass(frozen=True)
class InstanceWanted:
    """Arguments of ``ec2_instance``: image is an AMI id or SSM parameter, commands run at first boot."""

    type: str
    zone: str | None = None
    image: str | None = None
    user: str | None = None
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class VolumesWanted:
    """Arguments of ``ebs_volume`` and ``ebs_volumes``."""

    spec: VolumeSpec
    count: int = 1
    zone: str | None = None


@dataclass(frozen=True)
class Wanted:
    """All a test asks for."""

    instance: InstanceWanted | None = None
    volume: VolumesWanted | None = None
    volumes: VolumesWanted | None = None

    def check(self) -> None:
        """Raise BadMarker or InvalidSpec for what no cloud could give, before anything is created."""
        for name, wanted in (("ebs_volume", self.volume), ("ebs_volumes", self.volumes)):
            if wanted is None:
                continue
            wanted.spec.check()
            if self.instance is None:
                raise BadMarker(
                    f"{name} needs an instance to attach to: add @pytest.mark.ec2_instance(type) to the test"
                )
            zone = self.instance.zone
            if wanted.zone and zone and wanted.zone != zone:
                raise BadMarker(
                    f"{name} is wanted in {wanted.zone} and ec2_instance in {zone}: a volume can be attached "
                    "only in its own availability zone; leave zone= out of the volume's marker"
                )


def read_markers(markers: Mapping[str, Any]) -> Wanted:
    """Read a test's markers, given by name (the closest of each name).

    Raises BadMarker for a missing, unknown or unusable argument.
    """
    instance = volume = volumes = None
    if (mark := markers.get("ec2_instance")) is not None:
        instance = _instance(
            _bind("ec2_instance", mark, ("type", "zone", "image", "user", "commands"), ("type",))
        )
    if (mark := markers.get("ebs_volume")) is not None:
        volume = _volumes("ebs_volume", _bind("ebs_volume", mark, ("spec", "zone"), ("spec",)))
    if (mark := markers.get("ebs_volumes")) is not None:
        arguments = _bind("ebs_volumes", mark, ("spec", "count", "zone"), ("spec", "count"))
        volumes = _volumes("ebs_volumes", arguments)
    return Wanted(instance, volume, volumes)


def _bind(marker: str, mark: Any, names: tuple[str, ...], needed: Iterable[str]) -> dict[str, Any]:
    """Bind a mark's arguments; only the first may be given by position."""
    if len(mark.args) > 1:
        raise BadMarker(
            f"@pytest.mark.{marker} takes {names[0]} by position and the rest by name ({', '.join(names[1:])}); "
            f"{len(mark.args)} were given by position"
        )
    bound = dict(zip(names, mark.args, strict=False))
    for name, value in mark.kwargs.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            meant = f"did you mean {near[0]}=? " if near else ""
            raise BadMarker(
                f"@pytest.mark.{marker} has no argument {name}=; {meant}It takes {', '.join(names)}"
            )
        if name in bound:
            raise BadMarker(f"@pytest.mark.{marker} was given {name} twice")
        bound[name] = value
    for name in needed:
        if name not in bound:
            raise BadMarker(f"@pytest.mark.{marker} needs {name}")
    return bound


def _instance(arguments: dict[str, Any]) -> InstanceWanted:
    if not isinstance(arguments["type"], str):
        raise BadMarker(
            f"@pytest.mark.ec2_instance: the type must be a name such as 'c5.18xlarge', not {arguments['type']!r}"
        )
    for name in ("zone", "image", "user"):
        if not isinstance(arguments.get(name), str | None):
            raise BadMarker(f"@pytest.mark.ec2_instance: {name} must be a text, not {arguments[name]!r}")
    commands = arguments.pop("commands", ())
    if isinstance(commands, str):
        commands = (commands,)
    if not isinstance(commands, Sequence) or not all(_is_command(each) for each in commands):
        raise BadMarker(
            f"@pytest.mark.ec2_instance: commands must be a list of shell lines such as ['dnf -y install gcc'], "
            f"not {commands!r}"
        )
    return InstanceWanted(**arguments, commands=tuple(commands))


def _is_command(value: object) -> bool:
    """A shell line, or a list of words."""
    if isinstance(value, str):
        return True
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def _volumes(marker: str, arguments: dict[str, Any]) -> VolumesWanted:
    if not isinstance(arguments["spec"], VolumeSpec):
        raise BadMarker(
            f"@pytest.mark.{marker}: the spec must be one of gp2, gp3, io1, io2, st1, sc1 from pytest_cloudbench, "
            f"such as io2(size_gib=80, iops=80_000), not {arguments['spec']!r}"
        )
    count = arguments.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadMarker(f"@pytest.mark.{marker}: count must be a whole number from 1 up, not {count!r}")
    if not isinstance(arguments.get("zone"), str | None):
        raise BadMarker(f"@pytest.mark.{marker}: zone must be a text, not {arguments['zone']!r}")
    return VolumesWanted(**arguments)
