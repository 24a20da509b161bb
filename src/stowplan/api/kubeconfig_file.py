"""The kubeconfig file format: parse files, merge several of them as kubectl does.

Called by `kubeconfig`, which picks a context and resolves it. Invariant: for every named entry the
first file that defines it wins as a whole, `current-context` comes from the first file that sets
one, and an entry remembers its file, because relative paths in it are relative to that file's
folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from stowplan.errors import KubeconfigError
from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import load_yaml

EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Kebab(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """Most of a kubeconfig is spelt with dashes."""


class NamedExtension(msgspec.Struct, frozen=True):
    name: str = ""
    extension: Any = None


class Cluster(_Kebab, frozen=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[NamedExtension, ...] | None = None

    @property
    def exec_extension(self) -> Any:
        """What this cluster passes to the user's exec plugin."""
        for entry in self.extensions or ():
            if entry.name == EXEC_EXTENSION:
                return entry.extension
        return None


class ExecEnvVar(msgspec.Struct, frozen=True):
    name: str = ""
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecEnvVar, ...] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(msgspec.Struct, frozen=True):
    name: str = ""


class User(_Kebab, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] | None = None
    as_user_extra: dict[str, tuple[str, ...]] | None = None
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None


class Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: Context | None = None


class _File(_Kebab, frozen=True):
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")
    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One named entry and the file it came from."""

    value: T
    file: Path

    def resolve(self, path: str) -> Path:
        """A path written in this entry: `~` is not expanded, as in kubectl."""
        return self.file.absolute().parent / path


@dataclass
class Merged:
    """All files put together; the first definition of a name wins."""

    files: list[Path] = field(default_factory=list)
    current_context: str = ""
    clusters: dict[str, Entry[Cluster]] = field(default_factory=dict)
    users: dict[str, Entry[User]] = field(default_factory=dict)
    contexts: dict[str, Entry[Context]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How messages call the file or files."""
        return ":".join(str(path) for path in self.files)

    def add(self, path: Path, parsed: _File) -> None:
        self.files.append(path)
        self.current_context = self.current_context or parsed.current_context or ""
        _merge(
            self.clusters,
            ((c.name, c.cluster or Cluster()) for c in parsed.clusters or ()),
            path,
            "clusters",
        )
        _merge(self.users, ((u.name, u.user or User()) for u in parsed.users or ()), path, "users")
        _merge(
            self.contexts,
            ((c.name, c.context or Context()) for c in parsed.contexts or ()),
            path,
            "contexts",
        )


def _merge(
    into: dict[str, Entry[T]], entries: Iterable[tuple[str, T]], path: Path, section: str
) -> None:
    seen: set[str] = set()
    for name, value in entries:
        if name in seen:
            raise KubeconfigError(f"{name!r} is defined twice", where=f"{path}: {section}")
        seen.add(name)
        into.setdefault(name, Entry(value, path))


def read_files(paths: Iterable[Path]) -> Merged:
    """Read and merge; missing files are left out, unreadable or wrong ones are errors."""
    merged = Merged()
    for path in paths:
        try:
            text = read_file(path, error=KubeconfigError)
        except KubeconfigError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                continue
            raise
        merged.add(path, _parse(path, text))
    return merged


def _parse(path: Path, text: bytes) -> _File:
    try:
        document = load_yaml(text)
    except Malformed as error:
        raise KubeconfigError(f"is not YAML: {error}", where=str(path)) from None
    if document is None:
        return _File()
    if not isinstance(document, Mapping):
        raise KubeconfigError("is not a kubeconfig: a mapping is expected", where=str(path))
    try:
        parsed = msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at ")
        field_path = where.strip("`").removeprefix("$").removeprefix(".")
        raise KubeconfigError(problem, where=f"{path}: {field_path or 'document'}") from error
    if parsed.kind not in ("", "Config"):
        raise KubeconfigError(f"{parsed.kind!r} is not Config", where=f"{path}: kind")
    if parsed.api_version not in ("", "v1"):
        raise KubeconfigError(f"{parsed.api_version!r} is not v1", where=f"{path}: apiVersion")
    return parsed
