"""A Ray cluster of two nodes with one core each: prints its address, and lives until stdin ends.

Each line on stdin kills the second node, and is answered by an empty line.
"""

import sys
from typing import Any

if __name__ == "__main__":
    from ray.cluster_utils import Cluster

    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster: Any = Cluster(
        initialize_head=True, head_node_args={**small, "include_dashboard": False}
    )
    other = cluster.add_node(**small)
    print(cluster.address, flush=True)
    for _ in sys.stdin:
        cluster.remove_node(other, allow_graceful=False)
        print(flush=True)
    cluster.shutdown()
