import pytest

from varigraph.options import place_of


def test_a_place_is_the_users_own():
    with pytest.raises(ValueError, match="x") as caught:
        int("x")
    said = place_of(caught.value)
    assert said.startswith("ValueError: invalid literal")
    assert "(test_user_code.py, line " in said
    assert place_of(KeyError()) == "KeyError: "
