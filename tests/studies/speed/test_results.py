import json
from dataclasses import replace

import pytest

from varigraph.reporting.text_table import markdown, terminal
from varigraph.studies.speed.results import HEADER, ContenderRow, Machine, Speed

MACHINE = Machine("a processor", 2, "3.11", "2.13", "2.8")
ROWS = (
    ContenderRow("plain forward", (), 0.5, 2**20, None, 100),
    ContenderRow("plain forward, CSR", (), 0.1, 2**20, None, 100),
    ContenderRow("slow", ("features", "weights"), 20.0, 3 * 2**30, 0.00123, 10),
    ContenderRow("wrong", ("weights",), None, None, None, 0, "RuntimeError: no rule"),
)
SPEED = Speed("cora", 2708, 10556, 1433, 100, 5, 1, "4GiB", 10, MACHINE, ROWS, ("a-package",))


def test_ratios_are_to_both_forwards():
    slow = SPEED.row("slow")
    assert SPEED.ratio(slow, "plain forward") == 40
    assert SPEED.ratio(slow, "plain forward, CSR") == pytest.approx(200)
    assert SPEED.ratio(SPEED.row("wrong"), "plain forward") is None


def test_what_was_timed_in_turn_is_what_counts():
    turn = ContenderRow("ours", (), 3.0, 1, None, 100, beside={"plain forward": 0.6})
    plain = replace(ROWS[0], beside={"plain forward": 0.7})
    speed = replace(SPEED, rows=(plain, ROWS[1], turn))
    assert speed.ratio(turn, "plain forward") == pytest.approx(5)
    assert speed.ratio(turn, "plain forward, CSR") == pytest.approx(30)
    assert speed.ratio(plain, "plain forward") == 1
    assert Speed.of(json.loads(json.dumps(speed.to_dict()))) == speed


def test_the_table_shows_all_of_it():
    page = markdown(SPEED.table())
    assert "| slow | both | 20 | 40 | 200 | 3.0 GiB | 0.0012 |" in page
    assert "| wrong | weights | – | – | – | – | – |" in page
    assert "| plain forward | – | 0.5 | 1 | 5 | 1 MiB | – |" in page
    assert "Masks that were timed, where not all: slow 10." in page
    assert "wrong: RuntimeError: no rule." in page
    assert "Not installed here: a-package." in page
    assert "a processor, 2 cores; Python 3.11, torch 2.13" in page


def test_it_is_shown_on_a_terminal():
    from rich.console import Console

    console = Console(width=120, record=True, file=None)
    with console.capture() as seen:
        console.print(terminal(SPEED.table()))
    assert all(name in seen.get() for name in HEADER)
    assert "3.0 GiB" in seen.get()


def test_json_holds_the_same_and_can_be_read_back():
    record = json.loads(json.dumps(SPEED.to_dict()))
    assert record["rows"][2]["times_plain"] == 40
    assert record["machine"]["torch"] == "2.13"
    assert Speed.of(record) == SPEED


def test_this_machine_is_known():
    here = Machine.here()
    assert here.cores >= 1
    assert here.processor
    assert here.torch[0].isdigit()
