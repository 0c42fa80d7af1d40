"""The campaign as a command: what it prints, and how it ends."""

import sys

import pytest

from campaign import __main__ as command
from campaign.cases import case
from campaign.choices import FromSeed
from campaign.runs import PER_SEED, run
from campaign.trial import Verdict, tried


def asked(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["campaign", *options])
    return command.main()


def test_a_number_is_always_the_same_case():
    assert repr(case(FromSeed(5))) == repr(case(FromSeed(5)))
    assert repr(case(FromSeed(5))) != repr(case(FromSeed(6)))


def test_processes_try_the_cases_of_a_seed():
    told = []
    verdict = run(
        seed=3,
        cases=12,
        minutes=5,
        processes=1,
        device="cpu",
        watch=lambda found, _: told.append(found.cases),
    )
    assert sorted(told) == [2, 10]
    assert verdict.cases == 12
    assert verdict.laws["untouched"] + len(verdict.failures) == 12


def test_one_case_is_shown_and_tried(monkeypatch, capsys):
    assert asked(monkeypatch, "--case", "1") == 0
    assert "options = " in capsys.readouterr().out


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_failure_comes_with_the_command_that_repeats_it(monkeypatch, capsys, device):
    broken = Verdict(1, failures={7 * PER_SEED: ("finite", "mean is not finite")})

    def found(*, watch, **_):
        watch(broken, broken)
        return broken

    monkeypatch.setattr(command, "run", found)
    assert asked(monkeypatch, "--device", device) == 1
    again = "--case 7000000" + (" --device cuda" if device == "cuda" else "")
    assert again in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize(("refused", "status"), [(1, 0), (2, 1)])
def test_a_campaign_that_refuses_much_fails(monkeypatch, refused, status):
    verdict = Verdict(10)
    verdict.refusals["GraphError empty"] = refused
    monkeypatch.setattr(command, "run", lambda **_: verdict)
    assert asked(monkeypatch) == status


def test_a_case_that_cannot_be_built_is_a_failure(monkeypatch):
    monkeypatch.setattr("campaign.trial.case", lambda _: int("none"))
    assert tried(4, "cpu").failures[4][0] == "is a case"


def test_a_norm_that_makes_much_of_the_last_digits_is_no_sign_of_links_that_are_counted():
    """All nodes are alike on a graph that was looked at, and integrals have an error there."""
    asked = case(FromSeed(33_003_493))
    assert "LayerNorm(1, affine=True, mode=graph)" in repr(asked)  # else it is another case by now
    assert asked.options["links"] == "removed"
    assert asked.answer().method.startswith("first-order")
