"""Loads configurations that a test writes, and tells what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from stowplan.errors import ConfigError
from stowplan.extender.configuration import Configured

from .shapes_of_arguments import Everything

#: The fixture `load_text`: the text becomes config.yaml of the directory that the test is in.
Load: TypeAlias = Callable[[str], Configured]
HERE = "tests.unit.extender.shapes_of_arguments"
OWN = f"algorithms: ['{HERE}:Everything', '{HERE}:Inner', '{HERE}:Old', '{HERE}:Fails']\n"


def problem_of(load_text: Load, text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    prefix, _, problem = str(raised.value).partition("Cannot load config file! : ")
    assert prefix == ""
    assert "\n" not in problem
    return problem


def everything(load_text: Load, fields: str) -> Everything:
    built = load_text(f"{OWN}algorithm: !Everything {fields}\n").algorithm
    assert isinstance(built, Everything)
    return built
