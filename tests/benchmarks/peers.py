"""Pythons that have other systems."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys


def find_python(variable: str, *modules: str) -> str | None:
    """Return a Python that can import the modules: the one that a variable names, or this one."""
    if python := os.environ.get(variable):
        subprocess.run([python, "-c", f"import {', '.join(modules)}"], check=True)
        return python
    return sys.executable if all(map(importlib.util.find_spec, modules)) else None


def version(python: str, package: str) -> str:
    """Return the version of a package as a Python has it."""
    program = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()
