import json

import pytest

from varigraph.errors import OptionError
from varigraph.studies.defaults import DOUBT, NOISE
from varigraph.studies.sensitivity import Ladders


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"noise": ()}, "noise is"),
        ({"noise": (-1.0,)}, "noise is"),
        ({"method": "guess"}, "method is 'guess'"),
        ({"method": "sampled", "samples": 0}, "samples 0"),
        ({"doubt": (50.0,)}, "doubt is"),
        ({"links": "hadamard"}, "doubt is"),
        ({"links": "hadamard", "doubt": (101.0,)}, "0 to 100"),
        ({"links": "hadamard", "doubt": (-1.0,)}, "0 to 100"),
        ({"links": "hadamard", "doubt": (float("nan"),)}, "0 to 100"),
        ({"links": "hadamard", "doubt": (5.0, 5.0)}, "every level once"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, culprit):
    with pytest.raises(OptionError, match=culprit):
        Ladders("cora", **options)


def test_the_record_comes_back_from_json_as_it_was():
    record = Ladders("cora", links="hadamard", doubt=DOUBT).record()
    assert json.loads(json.dumps(record)) == record
    assert record["study"] == "sensitivity"
    assert record["noise"] == list(NOISE)
    assert record["doubt"] == list(DOUBT)
    assert record["method"] == "first-order"
