import pytest

from varigraph.errors import OptionError
from varigraph.prediction.memory import as_bytes


@pytest.mark.parametrize("amount", ["", "GiB", "-1GiB", "2 TB", 0, "0MiB", "1e3"])
def test_what_is_no_amount_is_refused(amount):
    with pytest.raises(OptionError, match="not an amount of memory"):
        as_bytes(amount)
