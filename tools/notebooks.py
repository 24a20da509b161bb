"""Execute the notebooks of docs/notebooks: python -m tools.notebooks [--check]

Writes their outputs into them; with --check, exits with 1 if an output differs from the one there.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"


def executed(path: Path) -> Any:
    """The notebook with outputs that are the same on every machine."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = nbclient.NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    return notebook


def text_of(notebook: Any) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> int:
    # The programs of this environment first; nothing is written into the home folder.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    differ = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["IPYTHONDIR"] = os.environ["JUPYTER_RUNTIME_DIR"] = scratch
        for path in sorted(FOLDER.glob("*.ipynb")):
            text = text_of(executed(path))
            if "--check" not in sys.argv:
                path.write_text(text)
            elif text != path.read_text():
                print(f"{path.name} has other outputs. Fix: python -m tools.notebooks")
                differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main())
