"""What gets built, from which Go module, and the key under which the result is cached.

Versions live in the go.mod files beside this module and nowhere else; `pinned_version` reads them.
Called by the builder, by the lookup of binaries and by ``status``. Two things must stay true: the
key changes whenever a pinned version or a build flag does, and neither a program of our own (the
oracle) nor a tool beside the control plane (Helm, the collector) moves the key of the big binaries,
which take minutes to build again: their file names carry a hash of their own.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Flags of every build; they are part of the cache key.
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0"}
STRIP_LDFLAGS = "-s -w"

_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True)
class GoModule:
    """One go.mod/go.sum pair: everything built from it shares its pinned dependencies."""

    name: str
    directory: Path
    release: str  # the required module whose version names the release
    stamp_kubernetes_version: bool = False
    own_key: bool = False  # its pins name its files, and are no part of the directory's key


@dataclass(frozen=True)
class BuildTarget:
    """One binary: the Go package it comes from and the name it has in the cache."""

    name: str
    module: GoModule
    package: str
    built_as: str  # the file name `go build` chooses, from the last element of the package path
    sources: Path | None = None  # set for programs of our own: their directory

    @property
    def is_ours(self) -> bool:
        return self.sources is not None


KUBERNETES = GoModule("kubernetes", HERE, "k8s.io/kubernetes", stamp_kubernetes_version=True)
ETCD = GoModule("etcd", HERE / "etcd", "go.etcd.io/etcd/server/v3")
KWOK = GoModule("kwok", HERE / "kwok", "sigs.k8s.io/kwok")
HELM = GoModule("helm", HERE / "helm", "helm.sh/helm/v3", own_key=True)
OTELCOL = GoModule(
    "otelcol", HERE / "otelcol", "go.opentelemetry.io/collector/otelcol", own_key=True
)
MODULES = (ETCD, KUBERNETES, KWOK, OTELCOL, HELM)


def _kubernetes_command(name: str) -> BuildTarget:
    return BuildTarget(name, KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", name)


def _program_of_ours(name: str) -> BuildTarget:
    """A main package in a directory beside this file, linked with the Kubernetes module."""
    return BuildTarget(name, KUBERNETES, f"./{name}", name, HERE / name)


# In the order they are built. Another program of ours is one more line at the end.
TARGETS = (
    BuildTarget("etcd", ETCD, "go.etcd.io/etcd/server/v3", "server"),
    _kubernetes_command("kube-apiserver"),
    _kubernetes_command("kubectl"),
    _kubernetes_command("kube-controller-manager"),
    _kubernetes_command("kube-scheduler"),
    _program_of_ours("informer"),
    _program_of_ours("oracle"),
    _program_of_ours("extender"),
    _program_of_ours("cel"),
    BuildTarget("kwok", KWOK, "sigs.k8s.io/kwok/cmd/kwok", "kwok"),
    BuildTarget("helm", HELM, "helm.sh/helm/v3/cmd/helm", "helm"),
)
#: Built only when asked for by name: no test of `make test` needs them.
ON_DEMAND = (BuildTarget("otelcol", OTELCOL, ".", "otelcol", OTELCOL.directory),)
TARGET_BY_NAME = {target.name: target for target in (*TARGETS, *ON_DEMAND)}


def pinned_version(module: GoModule) -> str:
    """The release that the module's go.mod requires, such as ``v1.36.3``."""
    text = (module.directory / "go.mod").read_text(encoding="utf-8")
    match = re.search(rf"^\s*(?:require )?{re.escape(module.release)} (v\S+)", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{module.directory / 'go.mod'} does not require {module.release}")
    return match[1]


def ldflags(module: GoModule) -> str:
    """Linker flags; Helm and the Kubernetes binaries report the release they were built from.

    Without the stamp an API server calls itself v0.0.0-master, and clients that look at its version
    take it for an ancient one; `helm template` renders for Kubernetes 1.20.
    """
    if module is HELM:
        return f"{STRIP_LDFLAGS} {_helm_stamps()}"
    if not module.stamp_kubernetes_version:
        return STRIP_LDFLAGS
    version = pinned_version(module)
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    settings = [
        f"-X {package}.{variable}={value}"
        for package in _VERSION_PACKAGES
        for variable, value in stamps.items()
    ]
    return " ".join([STRIP_LDFLAGS, *settings])


def _helm_stamps() -> str:
    _, minor, _ = pinned_version(KUBERNETES).split(".")
    packages = ("pkg/chartutil", "pkg/lint/rules")
    stamps = [f"internal/version.version={pinned_version(HELM)}"]
    stamps += [f"{package}.k8sVersionMajor=1" for package in packages]
    stamps += [f"{package}.k8sVersionMinor={minor}" for package in packages]
    return " ".join(f"-X {HELM.release}/{stamp}" for stamp in stamps)


def required_modules(go_mod: str) -> list[str]:
    """The lines of a go.mod that decide what is linked, in an order of their own.

    Comments, tool lines and the grouping into blocks are left out: `go mod tidy` moves lines
    between blocks when a program of ours starts to import one more package, and that changes no
    other binary.
    """
    lines = set()
    block = ""
    for line in go_mod.splitlines():
        line = line.split("//")[0].strip()
        if line == ")":
            block = ""
        elif line.endswith("("):
            block = line.removesuffix("(").strip()
        elif line:
            line = f"{block} {line}".strip()
            if line.split()[0] not in ("module", "tool"):
                lines.add(line)
    return sorted(lines)


def host_platform() -> str:
    """Part of the key, for home directories that several kinds of machine share."""
    return f"{sys.platform}-{platform.machine()}"


@functools.cache
def cache_key() -> str:
    """Short hash over the pinned modules, the flags and the platform."""
    return _hash_pins([module for module in MODULES if not module.own_key])[:16]


def _hash_pins(modules: Sequence[GoModule]) -> str:
    digest = hashlib.sha256()
    for part in (host_platform(), *BUILD_FLAGS, *sorted(BUILD_ENVIRONMENT.items())):
        digest.update(f"{part}\n".encode())
    for module in modules:
        go_mod = (module.directory / "go.mod").read_text(encoding="utf-8")
        go_sum = (module.directory / "go.sum").read_text(encoding="utf-8")
        pins = [module.name, ldflags(module), *required_modules(go_mod)]
        for line in [*pins, *sorted(go_sum.splitlines())]:
            digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def file_name(target: BuildTarget) -> str:
    """The target's file in the cache directory.

    A program of ours carries a hash of its source, so that two checkouts with different versions
    of it can share one cache without handing each other the wrong binary. A tool with a key of its
    own carries a hash of its pins.
    """
    if target.sources is None and not target.module.own_key:
        return target.name
    pins = _hash_pins([target.module]) if target.module.own_key else ""
    if target.sources is None:
        return f"{target.name}-{pins[:12]}"
    digest = hashlib.sha256(pins.encode())
    for source in sorted(target.sources.rglob("*.go")):
        if not source.name.endswith("_test.go"):
            digest.update(source.relative_to(target.sources).as_posix().encode() + b"\0")
            digest.update(source.read_bytes() + b"\0")
    return f"{target.name}-{digest.hexdigest()[:12]}"
