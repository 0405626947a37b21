"""A run's figures for TensorBoard: the only door to `torch.utils.tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nmt.errors import UsageError


def require_tensorboard() -> None:
    """Check that TensorBoard can be written.

    Raises:
        UsageError: if the package is missing.
    """
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise UsageError(
            "tensorboard = true needs the package tensorboard: run `pip install "
            "'nmt[tensorboard]'`, or leave it out"
        ) from None


class TensorBoard:
    """Event files of scalars, named after kind and figure: train/loss, valid/bleu."""

    def __init__(self, folder: Path, update: int) -> None:
        """Go on at an update; what lies beyond it in the folder's older files is void."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=update + 1)

    def add(self, record: Mapping[str, object]) -> None:
        """Write the numbers of a record of metrics.jsonl, at its update."""
        for key, value in record.items():
            if isinstance(value, int | float) and key != "update":
                self._writer.add_scalar(f"{record['kind']}/{key}", value, record["update"])
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()
