import json

import numpy as np
from typer.testing import CliRunner

from distributed.graphs import NODES, small_graph
from varigraph.cli import app
from varigraph.distributed import Partition


def test_files_are_divided_and_the_rows_that_travel_are_told(tmp_path):
    files = []
    for name, value in small_graph():
        files.append(str(tmp_path / f"{name}.npy"))
        np.save(files[-1], value.numpy())
    command = ["partition", *files, "--parts", "2", "--out", str(tmp_path / "parts"), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    said, made = json.loads(done.stdout), Partition.read(tmp_path / "parts")
    assert (said["nodes"], said["parts"]) == (NODES, 2)
    assert said["rows_exchanged"] == made.rows_exchanged > 0
    again = CliRunner().invoke(app, command[:-1])
    assert again.exit_code == 2
    assert "exists and is not empty" in again.stderr
