"""The images that instances of this region start from, as data in images.json.

Every host runs on this machine's own root file system under an overlay. So an image only determines the login user,
the names by which it is found (image name, owner, public SSM parameters) and its stated architecture.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Image:
    """One machine image. ``root_size_gib`` is the described size of its root volume."""

    id: str
    name: str
    family: str
    description: str
    owner_id: str
    owner_alias: str | None
    architecture: str
    login_user: str
    root_device_name: str
    root_size_gib: int
    boot_mode: str
    creation_date: str
    ssm_parameters: tuple[str, ...]


@functools.cache
def known_images() -> dict[str, Image]:
    """Return all images of the region by id."""
    text = importlib.resources.files(__package__).joinpath("images.json").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = json.loads(text)
    images = [Image(**{**entry, "ssm_parameters": tuple(entry["ssm_parameters"])}) for entry in entries]
    return {image.id: image for image in images}
