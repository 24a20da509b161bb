"""The package and the images, each built once for all tests; loaded by tests/conftest.py.

Whichever process of the tests comes first builds them, into the folder that all of them share. The
base is made by mmdebstrap, because tests need no registry. Containers need no container engine and
no namespaces: buildah's isolation is `chroot`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.missing_part import skip_or_fail

REPOSITORY: Final = Path(__file__).parents[1]
#: Packed as `make package PLUGINS=DIR` does it.
PLUGINS: Final = REPOSITORY / "examples" / "extender"
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
#: The time of the image's commit, as tests have it.
SOURCE_DATE_EPOCH: Final = 1767225600


@contextmanager
def shared_folder(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A folder of all processes of the tests; only one at a time is inside."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """stowplan.pex for this Python."""
    with shared_folder(tmp_path_factory, "package") as folder:
        built = folder / "dist" / "stowplan.pex"
        if not built.exists():
            done = subprocess.run(
                [sys.executable, "-m", "tools.package", built, "--pythons", PYTHON,
                 "--plugins", PLUGINS],
                cwd=REPOSITORY, capture_output=True, text=True, timeout=480,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert f"serves CPython {PYTHON} on Linux for " in done.stdout
    return built


@dataclass(frozen=True)
class Images:
    """`localhost/stowplan:test` and `localhost/stowplan:static-pod`, in a storage of their own."""

    environment: dict[str, str]

    def do(self, *command: str | Path) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def container(self, image: str) -> str:
        """A new container of an image."""
        return self.do("buildah", "from", f"localhost/{image}")

    def configured(self, container: str, field: str) -> str:
        """A field of the configuration, such as `User`."""
        return self.do(
            "buildah", "inspect", "--format", f"{{{{.OCIv1.Config.{field}}}}}", container
        )


@pytest.fixture(scope="session")
def images(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Images:
    require_image_tools()
    with shared_folder(tmp_path_factory, "images") as folder:
        storage = folder / "storage.conf"
        built = Images(
            os.environ
            | {
                "CONTAINERS_STORAGE_CONF": str(storage),
                "BUILDAH_ISOLATION": "chroot",
                "BUILDAH_LAYERS": "true",  # both variants unpack the package only once
                "DOCKER_HOST": "unix:///nowhere",  # so that it is buildah in any case
                "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
            }
        )
        if not storage.exists():
            build_images(built, package, folder)
    return built


def build_images(images: Images, package: Path, folder: Path) -> None:
    driver = "overlay" if can_mount_overlays(folder / "overlay") else "vfs"
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "{driver}"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/store"\n'
    )
    root = folder / "root.tar"
    images.do(
        "mmdebstrap", "--quiet", "--variant=essential", "--include=python3,libstdc++6",
        "bookworm", root,
    )  # fmt: skip
    base = images.do("buildah", "from", "scratch")
    images.do("buildah", "add", "--quiet", base, root, "/")
    images.do("buildah", "commit", "--quiet", "--rm", base, "base")
    root.unlink()
    script = REPOSITORY / "tools" / "image.sh"
    images.do(script, package, "stowplan:test", "localhost/base")
    images.do("env", "VARIANT=static-pod", script, package, "stowplan:static-pod", "localhost/base")


def can_mount_overlays(folder: Path) -> bool:
    """Whether layers can be mounted; without that, each is a copy of all below it."""
    names = {name: folder / name for name in ("lowerdir", "upperdir", "workdir")}
    for each in names.values():
        each.mkdir(parents=True)
    options = ",".join(f"{name}={path}" for name, path in names.items())
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, names["upperdir"]],
        capture_output=True,
    )
    if mounted.returncode == 0:
        subprocess.run(["umount", names["upperdir"]], check=True)
    return mounted.returncode == 0


def require_image_tools() -> None:
    """They are Debian's; .ci/run installs them."""
    missing = [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        message = f"no image can be built here: apt install {' '.join(missing)}"
        skip_or_fail(message)
    if os.geteuid() != 0:
        pytest.skip("only root builds an image without a container engine")
