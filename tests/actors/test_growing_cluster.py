"""Room on a cluster that grows: its autoscaler is told what is wanted, and a node that brings it awaited.

The node comes by `ray start`, as an autoscaler's would. A process of its own joins the cluster, which is not
that of the other tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.ray_nodes import Nodes

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 180.0
SCRIPT = """
import json, ray
from actors.parts import parts_of
from actors.placement import find_room
from agentmem.config import load_config
from ray.experimental.internal_kv import _internal_kv_get

ray.init(log_to_driver=False)
config = load_config("lamer-minesweeper", ["env.placement=worker", "env.workers=2", "scaling.groups=true"])
requests = [parts_of(config)[kind].request() for kind in ("agents", "env-workers")]
find_room(requests, requests, machine_wait_s=170.0, say=lambda text: print(text, flush=True))
asked = json.loads(_internal_kv_get("autoscaler_resource_request"))
print("asked", json.dumps(asked, sort_keys=True), flush=True)
"""


def test_a_run_waits_for_a_node_of_the_right_group_and_says_so() -> None:
    with Nodes({"CPU": 2, "agent": 2}) as nodes:
        environment = {**os.environ, "RAY_ADDRESS": nodes.gcs, "RAY_AUTH_MODE": "disabled"}
        joined = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert joined.stdout is not None
            first = joined.stdout.readline()
            lacking = "2 env_worker asked for by env.workers (2) 2, the cluster has 0"
            assert first.startswith("waiting for machines: "), first + joined.communicate(timeout=30)[1]
            assert lacking in first
            nodes.add({"CPU": 4, "env_worker": 4})
            out, errors = joined.communicate(timeout=WAIT_S)
            assert joined.returncode == 0, errors
            bundle = '{"CPU": 1, "env_worker": 1.0}'
            assert out.splitlines()[-1] == f'asked [{{"CPU": 1, "agent": 1.0}}, {bundle}, {bundle}]'
        finally:
            joined.kill()
            joined.wait(30)
