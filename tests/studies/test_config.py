import json

import pytest
import torch

from varigraph.errors import OptionError
from varigraph.studies.config import Study


def test_the_record_is_json_and_names_the_versions():
    record = Study("cora", seed=3).record()
    assert json.loads(json.dumps(record)) == record
    assert record["seed"] == 3
    assert record["links"] is None
    assert record["reading"] == "bernoulli"
    assert set(record["versions"]) == {"varigraph", "torch", "torch_geometric", "python"}
    assert record["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -1},
        {"samples": -1},
        {"epochs": 0},
        {"reading": "maybe"},
        {"noise": ()},
        {"noise": (1.0, 1.0)},
        {"noise": (-1.0,)},
        {"noise": (float("nan"),)},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        Study("cora", **options)
