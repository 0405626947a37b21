"""Python imports this first if its folder is on PYTHONPATH. Torch then finds a pretended GPU."""

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _BeforeTorch(MetaPathFinder):
    """Loads the device before torch, which looks for devices, and adds to torch.cuda after it."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Find torch; other modules are left to others."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        from pretended_gpu import build

        build.load()
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        spec.loader = _WithCuda(spec.loader)
        return spec


class _WithCuda(Loader):
    def __init__(self, of_torch: Loader) -> None:
        self._of_torch = of_torch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._of_torch.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._of_torch.exec_module(module)
        import pretended_gpu.cuda  # noqa: F401


sys.meta_path.insert(0, _BeforeTorch())
