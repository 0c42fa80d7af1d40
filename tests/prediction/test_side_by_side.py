"""Tasks side by side: results in order, threads as before, mistakes not lost."""

import threading
import time

import pytest
import torch

from varigraph.prediction.processor import side_by_side


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(workers):
    def work(number):
        time.sleep(0.002 * (number % 3))
        return number**2

    assert list(side_by_side(work, range(20), workers=workers)) == [n**2 for n in range(20)]


def test_several_are_worked_on_at_once():
    meeting = threading.Barrier(2, timeout=30)
    assert len(list(side_by_side(lambda _: meeting.wait(), range(4), workers=2))) == 4


def test_operations_take_one_thread_meanwhile_and_as_many_as_before_afterwards():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        found = list(side_by_side(lambda _: torch.get_num_threads(), range(4), workers=2))
        assert found == [1, 1, 1, 1]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_nothing_is_recorded_for_learning():
    weight = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        found = list(side_by_side(lambda n: weight * n, range(3), workers=2))
    assert not any(value.requires_grad for value in found)


def test_no_more_results_wait_than_there_are_workers():
    begun = []
    results = side_by_side(begun.append, range(50), workers=2)
    next(results)
    assert len(begun) <= 3
    results.close()
    assert torch.get_num_threads() >= 1


def test_a_mistake_is_raised_where_the_results_are_asked_for():
    def work(number):
        if number == 3:
            raise ValueError("the third")
        return number

    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="the third"):
        list(side_by_side(work, range(9), workers=2))
    assert torch.get_num_threads() == before
