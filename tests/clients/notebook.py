"""Runs a notebook to its end, as Jupyter would without a browser, and prints what its cells put out.

usage: notebook.py NOTEBOOK
"""
import sys

import nbclient
import nbformat

notebook = nbformat.read(sys.argv[1], as_version=4)
# A cell that fails ends the run with its traceback.
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        print(output.get("text") or data.get("text/plain", ""))
        print(*[f"[{kind}]" for kind in data if kind.startswith("image/")])
