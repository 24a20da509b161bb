"""Regular expressions when google-re2 is missing."""

from __future__ import annotations

import subprocess
import sys

_WITHOUT_RE2 = """\
import sys
sys.modules["re2"] = None
from stowplan.cel.device import DeviceView, SelectorError, compile_selector, device_value
from stowplan.cel.errors import CompileError
device = device_value(DeviceView("gpu.example.com", {}))
print(compile_selector('device.driver == "gpu.example.com"').matches(device))
for expression in ('"a".matches("b")', '"a".matches(device.driver)'):
    try:
        compile_selector(expression).matches(device)
    except (CompileError, SelectorError) as error:
        print(error)
"""


def test_only_expressions_with_patterns_need_re2_and_say_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_RE2], capture_output=True, text=True, check=True
    )
    advice = (
        "regular expressions need the Python package google-re2, which is missing. "
        "Fix: pip install google-re2"
    )
    assert done.stdout.splitlines() == ["True", f"compilation failed: {advice}", advice]
