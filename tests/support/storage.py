"""A storage at URLs, in this process's memory."""

from pathlib import Path
from typing import Any


class Storage:
    """Files at memory://, as a dictionary from names to bytes."""

    def __init__(self, cache: Path | None = None) -> None:
        import fsspec

        self._cache = cache
        self._storage: Any = fsspec.filesystem("memory")
        self.clear()

    def clear(self) -> None:
        self._storage.store.clear()
        self._storage.pseudo_dirs[:] = [""]

    def write(self, name: str, content: bytes | str) -> str:
        """Write a file, and return its URL."""
        self._storage.pipe(f"/{name}", content.encode() if isinstance(content, str) else content)
        return f"memory://{name}"

    @property
    def files(self) -> dict[str, bytes]:
        return {name[1:]: self._storage.cat(name) for name in self._storage.find("/")}

    def left_over(self) -> list[Path]:
        """What a command has left in the cache on this machine."""
        assert self._cache is not None
        return [path for path in self._cache.rglob("*") if path.is_file()]
