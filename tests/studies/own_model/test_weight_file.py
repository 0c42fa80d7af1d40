import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from varigraph.errors import FileError, ModelError
from varigraph.studies.own_model.saved_files import load_weights, read_weights


def network(width=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model_state_dict", "model"])
def test_all_weights_arrive(tmp_path, wrapper):
    trained = network()
    nn.init.normal_(trained[2].weight)
    state = trained.state_dict()
    torch.save(state if wrapper is None else {"epoch": 3, wrapper: state}, tmp_path / "w.pt")
    save_file(state, tmp_path / "w.safetensors")
    for name in ("w.pt", "w.safetensors"):
        model = network()
        load_weights(model, tmp_path / name)
        for key, value in model.state_dict().items():
            assert torch.equal(value, state[key]), key


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("wrapped", [nn.DataParallel, torch.compile])
def test_weights_of_a_wrapped_network_fit_the_network_itself(tmp_path, wrapped):
    trained = network()
    nn.init.normal_(trained[2].weight)
    state = wrapped(trained).state_dict()
    assert all(name.startswith(("module.", "_orig_mod.")) for name in state)
    torch.save(state, tmp_path / "w.pt")
    model = network()
    load_weights(model, tmp_path / "w.pt")
    assert torch.equal(model[2].weight, trained[2].weight)


def test_a_name_that_the_network_has_itself_is_no_prefix(tmp_path):
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = nn.Linear(2, 3)

    trained, model = Wrapper(), Wrapper()
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    load_weights(model, tmp_path / "w.pt")
    assert torch.equal(model.module.weight, trained.module.weight)


def test_double_precision_is_kept(tmp_path):
    torch.save(network().double().state_dict(), tmp_path / "w.pt")
    model = network()
    load_weights(model, tmp_path / "w.pt")
    assert model[0].weight.dtype == torch.float64


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        ({}, "an empty dict"),
        ({"epoch": 3, "loss": 0.5}, "a dict of epoch, loss"),
        ([torch.ones(2)], "a list"),
        (torch.ones(2), "a Tensor"),
        ({1: torch.ones(2)}, "a dict of 1"),
    ],
)
def test_what_is_no_state_dict_is_refused(tmp_path, held, problem):
    torch.save(held, tmp_path / "w.pt")
    with pytest.raises(FileError) as caught:
        read_weights(tmp_path / "w.pt")
    assert problem in caught.value.problem
    assert "model.state_dict()" in caught.value.remedy


def test_what_does_not_fit_is_named(tmp_path):
    state = {f"layer{n}.weight": torch.ones(2) for n in range(9)}
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(ModelError) as caught:
        load_weights(network(), tmp_path / "w.pt")
    problem = caught.value.problem
    assert "lacks 0.weight, 0.bias, 1.weight, 1.bias and 5 more" in problem
    assert "has layer0.weight, layer1.weight, layer2.weight, layer3.weight and 5 more" in problem


def test_other_shapes_are_named_and_nothing_is_loaded(tmp_path):
    torch.save(network(5).state_dict(), tmp_path / "w.pt")
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(
        ModelError, match=r"0.weight of shape \(5, 2\) where Sequential has \(3, 2\)"
    ):
        load_weights(model, tmp_path / "w.pt")
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_broken_safetensors_file(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"half")
    with pytest.raises(FileError, match="is not a safetensors file"):
        read_weights(tmp_path / "w.safetensors")
