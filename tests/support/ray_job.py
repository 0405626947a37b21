"""Prepares text on a Ray cluster of two nodes: `ray_job.py FOLDER OUT`; one dies meanwhile."""

import os
import sys
from pathlib import Path
from typing import Any

from prepare_job import Job

from nmt.data import line_blocks
from nmt.prepare.write_splits import TrainSplit

BLOCK_LINES = 100


def job(folder: Path, out: Path, **values: Any) -> Job:
    """Return the job, whose text is read in small blocks."""
    line_blocks.BLOCK_LINES = BLOCK_LINES
    return Job.of(
        out, train=(f"{folder}/train",), valid=f"{folder}/valid", vocab_size=400, **values
    )


if __name__ == "__main__":
    from ray.cluster_utils import Cluster  # which tests that only import `job` may lack

    folder, out = map(Path, sys.argv[1:])
    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    other = cluster.add_node(**small)
    os.environ["RAY_ADDRESS"] = cluster.address
    add, seen = TrainSplit._add, list[int]()

    def add_and_kill(self: TrainSplit, *block: Any) -> None:
        seen.append(len(seen))
        if len(seen) == 3:
            cluster.remove_node(other, allow_graceful=False)
        add(self, *block)

    setattr(TrainSplit, "_add", add_and_kill)  # noqa: B010
    job(folder, out, workers="ray").prepare()
    assert len(seen) > 20
