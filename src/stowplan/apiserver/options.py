"""The options of writes and deletions, from the query and from a DeleteOptions body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stowplan.apiserver.conforming import Mismatch, conform_to
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause, bad_request, invalid_options

TRUE = ("1", "true", "True", "t", "T", "TRUE")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
#: The field validation of a request that names none.
_BY_DEFAULT = "Warn"
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_OPTIONS_OF = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


@dataclass(slots=True)
class WriteOptions:
    """Options of a write; `warnings` are returned as Warning headers.

    `manager` is the client's name for itself, as managedFields records it.
    """

    dry_run: bool = False
    field_validation: str = "Ignore"
    manager: str = "unknown"
    warnings: list[str] = field(default_factory=list)

    @property
    def tells_unknown(self) -> bool:
        """Whether an unknown field is refused or warned of."""
        return self.field_validation in ("Strict", "Warn")


def write_options(method: str, query: Mapping[str, str], user_agent: str = "") -> WriteOptions:
    if not query:
        return WriteOptions(False, _BY_DEFAULT, user_agent.partition("/")[0])
    name = _OPTIONS_OF.get(method, "UpdateOptions")
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        supported = ", ".join(f'"{value}"' for value in _VALIDATIONS)
        text = f'Unsupported value: "{validation}": supported values: {supported}'
        raise invalid_options(name, Cause("fieldValidation", text, "FieldValueNotSupported"))
    manager = query.get("fieldManager", "") or user_agent.partition("/")[0]
    return WriteOptions(_dry_run(name, query.get("dryRun", "")), validation or _BY_DEFAULT, manager)


def delete_options(sent: Json | None, query: Mapping[str, str]) -> Json:
    """From what was sent or, as curl sends them, from the query. `dryRun` is true or absent."""
    options: Json = {}
    if sent is not None:
        kind = sent.pop("kind", "DeleteOptions")
        version = sent.pop("apiVersion", "meta.k8s.io/v1")
        if kind != "DeleteOptions":
            raise bad_request(
                f'no kind "{kind}" is registered for version "{version}" in scheme'
                ' "pkg/runtime/scheme.go:111"'
            )
        try:
            options = conform_to("DeleteOptions", sent)
        except Mismatch as error:
            raise bad_request(str(error)) from None
    else:
        options = _from_query(query)
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in _PROPAGATIONS:
        supported = ", ".join(f'"{value}"' for value in (*_PROPAGATIONS, "nil"))
        text = f'Unsupported value: "{policy}": supported values: {supported}'
        cause = Cause("propagationPolicy", text, "FieldValueNotSupported")
        raise invalid_options("DeleteOptions", cause)
    for value in (*options.pop("dryRun", ()), query.get("dryRun", "")):
        if _dry_run("DeleteOptions", value):
            options["dryRun"] = True
    return options


def _from_query(query: Mapping[str, str]) -> Json:
    options: Json = {}
    grace = query.get("gracePeriodSeconds", "")
    if grace:
        try:
            options["gracePeriodSeconds"] = int(grace)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from None
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    return options


def _dry_run(options: str, value: str) -> bool:
    if value not in ("", "All"):
        text = f'Unsupported value: ["{value}"]: supported values: "All"'
        raise invalid_options(options, Cause("dryRun", text, "FieldValueNotSupported"))
    return value == "All"
