"""Guides, make's targets, manifests and lessons name the same images."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
LESSON = REPOSITORY / "src" / "stowplan" / "learn" / "lessons" / "04_deploy"
#: Not ours.
NGINX = "nginx:stable-alpine"


def built(target: str) -> str:
    """The image that a target of make builds."""
    done = subprocess.run(
        ["make", "-n", *target.split(), "DIST=out"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    (image,) = re.findall(r"image\.sh out/\S+ (\S+)", done.stdout)
    return str(image)


def images(folder: Path) -> set[str]:
    """All images in the manifests below a folder, our own only."""
    found: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("image"), str):
                found.add(value["image"])
            for each in value.values():
                collect(each)
        elif isinstance(value, list):
            for each in value:
                collect(each)

    for file in folder.rglob("*.yaml"):
        if file.name != "config.yaml":  # the extender's, with tags of its own
            collect(list(yaml.safe_load_all(file.read_text())))
    return found - {NGINX}


@pytest.mark.parametrize(
    ("target", "folder", "pages"),
    [
        ("image", "deploy/scheduler", ["deploy/scheduler/README.md"]),
        ("image", "deploy/static", ["deploy/static/README.md"]),
        ("image VARIANT=static-pod", "deploy/static-pod", ["deploy/static-pod/README.md"]),
        ("image", str(LESSON), ["docs/from-workshop.md", str(LESSON / "lesson.en.md")]),
        (
            "wca_scheduler_docker_image",
            "deploy/extender",
            ["deploy/extender/README.md", "docs/from-wca-scheduler.md", "docs/extender.md",
             "examples/extender/README.md", "examples/extender/Containerfile"],
        ),
    ],
)  # fmt: skip
def test_one_name_from_the_target_to_the_manifest(
    target: str, folder: str, pages: list[str]
) -> None:
    image = built(target)
    assert images(REPOSITORY / folder) == {image}
    for page in pages:
        text = (REPOSITORY / page).read_text()
        # With or without a registry before it; what pip or kustomize calls by the name has no tag.
        tagged = re.findall(r"(?<![\w.-])(stowplan|wca-scheduler):([\w.-]*[\w-])", text)
        assert {":".join(each) for each in tagged} == {image}, page
        overlay = re.findall(r"^images:\n- name: (\S+)$", text, re.MULTILINE)
        assert set(overlay) <= {image.partition(":")[0]}, page


def test_the_targets_in_guides_are_those_that_build_them() -> None:
    for page, target, other in (
        ("deploy/extender/README.md", "make wca_scheduler_docker_image", "make image"),
        ("deploy/static/README.md", "make image", "make wca_scheduler_docker_image"),
    ):
        text = (REPOSITORY / page).read_text()
        assert target in text
        assert other not in text


def test_no_image_of_a_manifest_is_pulled_when_it_was_loaded() -> None:
    """`latest` would be pulled at every start, unless the manifest says otherwise."""
    for file in (REPOSITORY / "deploy").rglob("*.yaml"):
        text = file.read_text()
        assert text.count(":latest") <= text.count("imagePullPolicy: IfNotPresent")
