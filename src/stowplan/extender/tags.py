"""YAML whose tags build objects: `!Fit {dimensions: [cpu, mem]}` is `Fit(dimensions=[...])`.

`configuration` reads files by it. Objects are built from the inside out; an anchor's object is the
same one wherever its alias stands; `!Env NAME` is the text of an environment variable. Invariant: a
tag builds a class that was registered under its name or it is refused, so that no file can import
or run anything; and every error is reported with file, line and column.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Hashable, Mapping
from importlib import import_module
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

from stowplan.errors import ConfigError
from stowplan.extender.arguments import MisfitError, fitted, hints_of, shown
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import check_yaml
from stowplan.logs import get_logger, kv
from stowplan.plugin_failures import place_of
from stowplan.redaction import redact

log = get_logger(__name__)

ENV: Final = "!Env"
#: In documents an ellipsis stands for fields that are left out; it is none itself.
_ELLIPSIS: Final = "..."
_MOST_FIELDS: Final = 10_000


class Tags:
    """Classes by the names of their tags; a text `module:Class` is imported when it is used."""

    def __init__(self, classes: Mapping[str, type | str]) -> None:
        self._classes = dict(classes)

    def register(self, cls: type) -> None:
        self._classes[cls.__name__] = cls

    def names(self) -> list[str]:
        """As they are written in a file."""
        return sorted((ENV, *(f"!{name}" for name in self._classes)))

    def get(self, name: str) -> type | None:
        found = self._classes.get(name)
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self._classes[name] = getattr(import_module(module), attribute)
        return found


class Document:
    """A YAML document, read but not built yet."""

    def __init__(self, text: str, where: str, tags: Tags) -> None:
        """ConfigError if the text is no YAML, or not one mapping."""
        self._where = where
        #: Every object that a tag has built, the inner ones first.
        self.built: list[Any] = []
        self._told(lambda: check_yaml(text))
        self._loader = _Loader(text, where, tags, self.built)
        root = self._told(self._loader.get_single_node)
        if root is None:
            root = yaml.MappingNode("tag:yaml.org,2002:map", [])
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"expected fields with values{mark_text(root.start_mark)}")
        self._root = root
        self.marks = {
            key.value: mark_text(value.start_mark)
            for key, value in root.value
            if isinstance(key, yaml.ScalarNode)
        }

    def build_field(self, name: str) -> Any:
        """One field of the document, without tags of classes; None if it is not there."""
        for key, node in self._root.value:
            if isinstance(key, yaml.ScalarNode) and key.value == name:
                return self._told(lambda node=node: self._loader.construct_object(node, deep=True))
        return None

    def build(self) -> dict[str, Any]:
        """All fields."""
        return {str(key): value for key, value in self._told(self._build_root).items()}

    def _build_root(self) -> dict[Hashable, Any]:
        fields: dict[Hashable, Any] = self._loader.construct_mapping(self._root, deep=True)
        return fields

    def _told(self, work: Any) -> Any:
        try:
            return work()
        except Malformed as error:
            raise ConfigError(str(error), where=self._where) from None
        except ConstructorError as error:
            where = mark_text(error.problem_mark)
            raise ConfigError(f"{error.problem}{where}{self._loader.hint}") from None
        except yaml.MarkedYAMLError as error:
            context = f"{error.context}: " if error.context else ""
            raise ConfigError(f"{context}{error.problem}{mark_text(error.problem_mark)}") from None


def mark_text(mark: Any) -> str:
    """Where something stands, to follow what it is."""
    return f' in "{mark.name}", line {mark.line + 1}, column {mark.column + 1}' if mark else ""


class _Loader(yaml.SafeLoader):
    """Knows YAML's own types, `!Env`, and the tags of registered classes."""

    def __init__(self, text: str, where: str, tags: Tags, built: list[Any]) -> None:
        super().__init__(text)
        self.name = where
        self.hint = ""
        self._tags = tags
        self._built = built

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, TypeError, AttributeError):
            # YAML's own types let them through: `!!int x`, the 99th of a month.
            kind = node.tag.rpartition(":")[2]
            problem = f"{shown(node.value)} is not a valid {kind}"
            raise ConstructorError(None, None, problem, node.start_mark) from None

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise ConstructorError(
                        None, None, f"duplicate key {key.value!r}", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > _MOST_FIELDS:
            raise ConstructorError(None, None, "too many fields are merged", node.start_mark)

    def construct_tagged(self, node: yaml.Node) -> Any:
        """Called for every tag that is not YAML's own."""
        cls = self._tags.get(node.tag[1:]) if node.tag.startswith("!") else None
        if cls is None:
            self.hint = f". Available tags are: {', '.join(self._tags.names())}"
            problem = f"could not determine a constructor for the tag {node.tag!r}"
            raise ConstructorError(None, None, problem, node.start_mark)
        built = _Construction(cls, node, self).build()
        self._built.append(built)
        return built

    def construct_env(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ConstructorError(None, None, f"{ENV} takes a name", node.start_mark)
        return os.environ.get(node.value, "")


_Loader.add_constructor(None, _Loader.construct_tagged)
_Loader.add_constructor(ENV, _Loader.construct_env)


class _Construction:
    """One object: its fields checked by the annotations of its class's constructor."""

    def __init__(self, cls: type, node: yaml.Node, loader: _Loader) -> None:
        self._cls = cls
        self._node = node
        self._loader = loader
        self._marks: dict[str, str] = {}
        #: What a message may show of each field.
        self._shown: dict[str, str] = {}
        self._signature = inspect.signature(cls)

    def build(self) -> Any:
        arguments = self._arguments()
        self._check_names(arguments)
        hints = hints_of(self._cls.__init__)  # type: ignore[misc]  # the class itself is asked, not an instance
        for name, value in arguments.items():
            try:
                arguments[name] = self._fitted(name, value, hints.get(name, Any))
            except MisfitError as misfit:
                raise self._invalid(name, str(misfit)) from None
        try:
            return self._cls(**arguments)
        except ConfigError as error:
            if error.where in arguments:
                raise self._invalid(error.where, error.message) from None
            raise ConfigError(self._cannot(self._node_mark(), str(error))) from None
        except Exception as error:
            place = "" if self._cls.__module__.startswith("stowplan.") else place_of(error)
            problem = f"{str(error) or type(error).__name__}{place}"
            raise ConfigError(self._cannot(self._node_mark(), problem)) from error

    def _arguments(self) -> dict[str, Any]:
        node = self._node
        if isinstance(node, yaml.ScalarNode):
            if node.value not in ("", _ELLIPSIS, "null", "~"):
                log.warning(
                    "Value of a tag is ignored: it takes fields",
                    extra=kv(value=node.value, tag=node.tag, where=self._node_mark().strip()),
                )
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(self._cannot(self._node_mark(), "it takes fields, not a list"))
        built = self._loader.construct_mapping(node, deep=True)
        values = {str(name): value for name, value in built.items()}
        for key, value in node.value:
            name = str(self._loader.construct_object(key))
            self._marks[name] = mark_text(value.start_mark)
            # An object is shown by its tag, and what an environment variable holds is not shown.
            is_plain = value.tag.startswith("tag:yaml.org,2002:")
            text = f"{value.tag} {value.value}" if value.tag == ENV else value.tag
            self._shown[name] = shown(redact(values[name], name)) if is_plain else text
        return values

    def _fitted(self, name: str, value: Any, annotation: Any) -> Any:
        try:
            return fitted(value, annotation)
        except MisfitError:
            # An environment variable is text, also where it is the text of a number.
            if isinstance(value, str) and self._shown[name].startswith(ENV):
                return fitted(_as_if_written(self._loader, value), annotation)
            raise

    def _check_names(self, arguments: Mapping[str, Any]) -> None:
        parameters = self._signature.parameters
        if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            for name in arguments:
                if name not in parameters:
                    near = difflib.get_close_matches(name, parameters, 1)
                    hint = f"; did you mean {near[0]!r}?" if near else ""
                    problem = f"it has no field {name!r}{hint}"
                    raise ConfigError(self._cannot(self._marks[name], problem))
        missing = [
            repr(name)
            for name, each in parameters.items()
            if each.default is each.empty
            and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
            and name not in arguments
        ]
        if missing:
            problem = f"it needs {', '.join(missing)}"
            raise ConfigError(self._cannot(self._node_mark(), problem))

    def _invalid(self, name: str, problem: str) -> ConfigError:
        return ConfigError(
            f"Invalid value {self._shown[name]}{self._marks[name]} for field {name!r} "
            f"in class {self._cls.__name__!r}: {problem}"
        )

    def _cannot(self, where: str, problem: str) -> str:
        arguments = ", ".join(f"{name!r}: {text}" for name, text in self._shown.items())
        return (
            f"Cannot instantiate {self._cls.__name__!r}{where} with arguments={{{arguments}}} "
            f"(constructor signature is: {_signature_text(self._signature)}): {problem}"
        )

    def _node_mark(self) -> str:
        return mark_text(self._node.start_mark)


def _signature_text(signature: inspect.Signature) -> str:
    """Without the quotes around annotations that are not worked out yet."""
    texts = []
    for each in signature.parameters.values():
        annotation, default = each.annotation, each.default
        if not isinstance(annotation, str):
            annotation = inspect.formatannotation(annotation)
        typed = "" if each.annotation is each.empty else f": {annotation}"
        texts.append(each.name + typed + ("" if default is each.empty else f" = {default!r}"))
    return f"({', '.join(texts)})"


def _as_if_written(loader: _Loader, text: str) -> Any:
    """What YAML takes the text for: a number, true or false, or text."""
    tag: str = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # untyped in types-PyYAML
    return loader.construct_object(yaml.ScalarNode(tag, text))
