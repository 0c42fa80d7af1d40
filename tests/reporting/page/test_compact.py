import json

import pytest
import torch

from varigraph.reporting.page.document import embedded, rounded


@pytest.mark.parametrize("digits", [1, 3, 4, 7])
def test_numbers_have_the_digits_that_printing_gives_them(digits):
    draw = torch.Generator().manual_seed(digits)
    values = torch.randn(500, generator=draw).double() * 10.0 ** torch.arange(-12, 13).repeat(20)
    wanted = [float(f"{value:.{digits}g}") for value in values.tolist()]
    assert rounded(values, digits) == pytest.approx(wanted, rel=1e-12)
    assert max(len(json.dumps(value)) for value in rounded(values[:240], digits)) <= 24


def test_zero_and_the_smallest_numbers_stay_finite():
    assert rounded(torch.tensor([0.0, 1e-310, -0.0]).double()) == pytest.approx([0, 0, 0])


@pytest.mark.parametrize("text", ["</script>", "<!--", "a & b", "\u2028", "ä € 𝄞", '"\\'])
def test_nothing_in_a_text_can_end_its_element_and_all_of_it_comes_back(text):
    made = embedded({text: [text, 1.5, None]})
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == {text: [text, 1.5, None]}


def test_what_json_does_not_have_is_refused():
    with pytest.raises(ValueError, match="JSON compliant"):
        embedded([float("nan")])
