import io

import pytest
from rich.console import Console

from varigraph.cli import terminal


@pytest.fixture
def clock(monkeypatch):
    """Time as the test sets it, for the bars and for rich."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def bars(monkeypatch, clock):
    """The bars that are made."""
    made, real = [], terminal.Progress

    def make(*columns, **options):
        made.append(real(*columns, **options, get_time=lambda: clock[0], auto_refresh=False))
        return made[-1]

    monkeypatch.setattr(terminal, "Progress", make)
    return made


def after(steps, clock, bars):
    """The task when these (seconds, done) have been told."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with terminal.progress_bars(console) as show:
        for seconds, done in steps:
            clock[0] = seconds
            show("links", done, 100)
        return bars[-1].tasks[0]


def test_the_time_left_follows_the_speed(clock, bars):
    task = after([(0, 0), (10, 10), (20, 20), (30, 30)], clock, bars)
    assert task.completed == 30
    assert task.time_remaining == pytest.approx(70)


def test_what_was_read_back_does_not_count_as_speed(clock, bars):
    resumed = [(0, 20), (0.1, 40), (0.2, 60), (10, 65), (20, 70), (30, 75), (40, 80)]
    task = after(resumed, clock, bars)
    assert task.completed == 80
    assert task.time_remaining == pytest.approx(40)


def test_every_stage_has_a_bar_and_the_time_left(bars):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with terminal.progress_bars(console) as show:
        show("training", 1, 50)
        show("predicting", 1, 4)
        bars[-1].refresh()
    assert "training" in screen.getvalue()
    assert "predicting" in screen.getvalue()
    assert "1/50" in screen.getvalue()
    assert "-:--:--" in screen.getvalue()  # nothing is known yet


def lines(steps, clock):
    """What is written to a file when these (seconds, done) of 100 have been told."""
    paper = io.StringIO()
    with terminal.progress_bars(Console(file=paper)) as show:
        for seconds, done in steps:
            clock[0] = seconds
            show("links", done, 100)
    return paper.getvalue().splitlines()


def test_where_nobody_watches_there_is_a_plain_line_for_each_tenth(clock):
    said = lines([(seconds, seconds) for seconds in range(101)], clock)
    assert said == [f"links: {tenth} of 100, {tenth} s" for tenth in range(10, 101, 10)]


def test_what_was_read_back_is_one_line(clock):
    assert lines([(0, done) for done in range(0, 101, 20)], clock) == ["links: 100 of 100, 0 s"]


def test_slow_work_is_told_every_ten_seconds(clock):
    said = lines([(seconds, seconds // 60) for seconds in range(0, 60, 2)], clock)
    assert said == [f"links: 0 of 100, {seconds} s" for seconds in (10, 20, 30, 40, 50)]
