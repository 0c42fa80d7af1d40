import json
import os
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

import varigraph as vg
from distributed.graphs import NODES, small_graph
from distributed.processes import free_port
from varigraph.cli import app
from varigraph.distributed import partition, read_answer

NETWORK = """
import torch
from torch_geometric.nn import GraphSAGE

def build():
    torch.manual_seed(0)
    return GraphSAGE(5, 4, num_layers=2, out_channels=3, dropout=0.3).eval()
"""


@pytest.fixture
def folder(tmp_path):
    partition(small_graph(), tmp_path / "parts", parts=2, by="hash")
    (tmp_path / "own.py").write_text(NETWORK)
    return tmp_path


def arguments(folder, *others):
    own, parts, out = folder / "own.py:build", folder / "parts", folder / "answer"
    return ["predict", str(own), "--partition", str(parts), "--out", str(out), *others]


def built():
    names = {}
    exec(NETWORK, names)
    return names["build"]()


def test_processes_of_torchrun_answer_as_one_does(folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "-m", "varigraph"]
    command += arguments(folder, "--samples", "8", "--seed", "3", "--json")
    alike = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=alike, timeout=240
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["nodes"], said["parts"], said["method"]) == (NODES, 2, "sampled")
    assert said["bytes_sent"] > 0
    alone = vg.predict(built(), small_graph(), method="sampled", samples=8, seed=3)
    found = read_answer(folder / "answer")
    torch.testing.assert_close(found.mean, alone.mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.total, alone.total, rtol=0, atol=1e-6)


def test_what_does_not_go_with_parts_is_refused(folder):
    for others, match in [
        (["--nodes", "1"], "about a graph in one piece"),
        (["--method", "closed"], "first-order"),
    ]:
        done = CliRunner().invoke(app, arguments(folder, *others))
        assert done.exit_code == 2
        assert match in done.stderr
    without = [*arguments(folder)[:4]]
    done = CliRunner().invoke(app, without)
    assert done.exit_code == 2
    assert "--out answer" in done.stderr


def test_one_process_takes_all_parts(folder):
    done = CliRunner().invoke(app, arguments(folder, "--samples", "4", "--method", "diagonal"))
    assert done.exit_code == 0, done.stderr
    assert "30 nodes in 2 parts; diagonal" in done.stdout
