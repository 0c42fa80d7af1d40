"""What is kept with a tensor goes when the tensor goes, or changes."""

import gc
import weakref

import torch

from varigraph.sparse import made_once


class Made:
    pass


def test_built_once_for_every_key():
    origin = torch.arange(4)
    one = made_once(origin, ("a",), Made)
    assert made_once(origin, ("a",), Made) is one
    assert made_once(origin, ("b",), Made) is not one
    assert made_once(origin.clone(), ("a",), Made) is not one


def test_built_anew_after_a_change_in_place():
    origin = torch.arange(4)
    before = made_once(origin, (), Made)
    origin[0] = 7
    after = made_once(origin, (), Made)
    assert after is not before
    assert made_once(origin, (), Made) is after


def test_forgotten_with_the_tensor():
    origin = torch.arange(4)
    made = weakref.ref(made_once(origin, (), Made))
    assert made() is not None
    del origin
    gc.collect()
    assert made() is None


def test_inference_tensors_do_not_say_when_they_change():
    with torch.inference_mode():
        origin = torch.arange(4)
    assert made_once(origin, (), Made) is not made_once(origin, (), Made)


def test_what_is_built_in_inference_mode_is_no_inference_tensor():
    origin = torch.arange(4)
    with torch.inference_mode():
        made = made_once(origin, (), lambda: origin.float() + 1)
    assert not made.is_inference()
