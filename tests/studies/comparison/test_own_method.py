"""A method of the user's own is compared as all others are."""

import pytest

from varigraph.errors import ModelError, OptionError

MINE = """
from dataclasses import dataclass

import torch
from varigraph.baselines.plain import from_draws


@dataclass
class Mine:
    weight: torch.Tensor

    @classmethod
    def fit(cls, graph, *, seed=0):
        assert graph.train_mask.any()
        draw = torch.Generator().manual_seed(seed)
        return cls(SCALE * torch.randn(graph.num_features, int(graph.y.max()) + 1, generator=draw))

    def predict(self, graph, *, samples=100, seed=0):
        return from_draws([graph.x @ self.weight], method="mine")
"""


@pytest.fixture
def written(tmp_path):
    """Writes a file, each under a name of its own: modules are imported once in a process."""

    def write(name, text=MINE, **changes):
        for old, new in ({"SCALE": "1"} | changes).items():
            text = text.replace(old, new)
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        return f"{path}:Mine"

    return write


@pytest.mark.parametrize("jobs", [1, 2])
def test_it_stands_beside_the_others(study, written, jobs):
    outcome = study(own=[written("beside")], jobs=jobs, seeds=1)
    assert outcome.results.methods("held-out", "computers")[-1] == "Mine"
    accuracy = outcome.results.figure("held-out", "computers", "Mine", 0.0, "accuracy")
    assert 0 <= accuracy.mean <= 1
    assert any("Mine" in row for row in outcome.tables[5][0].rows) or "Mine" in outcome.text
    assert "beside.py:Mine, not of this package" in outcome.text


def test_it_comes_first_so_that_mistakes_show_at_once(study, written):
    made = study(own=[written("first")], seeds=1).made
    assert made[0].endswith("/Mine/seed-0")


def test_another_text_is_computed_again(study, written, monkeypatch):
    cell = "cells/held-out/computers/Mine/seed-0"
    spec = written("changes")
    assert cell in study(own=[spec], seeds=1).made
    assert study(own=[spec], seeds=1, resume=True).made == ()
    monkeypatch.delitem(__import__("sys").modules, "own_changes")  # as in a fresh process
    __import__("linecache").clearcache()
    spec = written("changes", SCALE="2")
    assert study(own=[spec], seeds=1, resume=True).made == (cell,)


RETURNED = 'return from_draws([graph.x @ self.weight], method="mine")'
INCOMPLETE = (
    RETURNED.replace("return", "full =")
    + """
        from dataclasses import replace
        return replace(full, by_source={"weights": full.epistemic})"""
)
RAW = (
    RETURNED.replace("return", "full =")
    + """
        from dataclasses import replace
        return replace(full, mean=graph.x @ self.weight)"""
)


@pytest.mark.parametrize(
    ("name", "changes", "error", "message"),
    [
        ("nofit", {"def fit": "def train"}, OptionError, "has no fit"),
        ("noseed", {", *, seed=0):\n        assert": "):\n        assert"}, OptionError, "seed"),
        ("fails", {"assert": "assert not"}, ModelError, r"cannot be fitted: AssertionError.*fails"),
        ("blind", {"graph.x @": "graph.z @"}, ModelError, r"cannot predict:[\s\S]*blind.py, line"),
        ("none", {RETURNED: "return 3"}, ModelError, "gives a int"),
        ("few", {"graph.x @": "graph.x[:5] @"}, ModelError, "prediction for 5 of"),
        ("part", {RETURNED: INCOMPLETE}, ModelError, "by_source lacks features, links, inter"),
        ("logits", {RETURNED: RAW}, ModelError, "no probability: a row"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_said(study, written, name, changes, error, message):
    with pytest.raises(error, match=message):
        study(own=[written(name, **changes)], seeds=1)


def test_a_name_that_is_taken(study, written, tmp_path):
    path = tmp_path / "taken.py"
    path.write_text(MINE.replace("SCALE", "1") + '\nMine.__name__ = "plain"\n')
    with pytest.raises(OptionError, match="called like a method of ours"):
        study(own=[f"{path}:Mine"])
    with pytest.raises(OptionError, match="there is no file"):
        study(own=["none.py:Mine"])
