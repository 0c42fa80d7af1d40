"""What is kept with a tensor goes when the tensor goes, or changes."""

import gc
import weakref

import torch

from varigraph.sparse import kept


class Made:
    pass


def test_built_once_for_every_key():
    origin = torch.arange(4)
    one = kept(origin, ("a",), Made)
    assert kept(origin, ("a",), Made) is one
    assert kept(origin, ("b",), Made) is not one
    assert kept(origin.clone(), ("a",), Made) is not one


def test_built_anew_after_a_change_in_place():
    origin = torch.arange(4)
    before = kept(origin, (), Made)
    origin[0] = 7
    after = kept(origin, (), Made)
    assert after is not before
    assert kept(origin, (), Made) is after


def test_forgotten_with_the_tensor():
    origin = torch.arange(4)
    made = weakref.ref(kept(origin, (), Made))
    assert made() is not None
    del origin
    gc.collect()
    assert made() is None


def test_inference_tensors_do_not_say_when_they_change():
    with torch.inference_mode():
        origin = torch.arange(4)
    assert kept(origin, (), Made) is not kept(origin, (), Made)


def test_what_is_built_in_inference_mode_is_no_inference_tensor():
    origin = torch.arange(4)
    with torch.inference_mode():
        made = kept(origin, (), lambda: origin.float() + 1)
    assert not made.is_inference()
