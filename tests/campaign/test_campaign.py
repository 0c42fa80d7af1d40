"""A few hundred cases of the campaign, the same in every run, shrunk where a law is broken."""

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from campaign.cases import case
from campaign.choices import Choices
from campaign.laws import ALWAYS, SOMETIMES
from campaign.trial import MOST_REFUSED, Verdict, judged

CASES = 300
#: Every law is looked at so often at least; the rarest needs coins or masks in a true method.
FEWEST = 3


class FromHypothesis(Choices):
    """Choices that hypothesis makes, and makes simpler where a law is broken."""

    def __init__(self, draw):
        self._draw = draw

    def integer(self, low, high):
        return self._draw(st.integers(low, high))


def test_laws_hold_on_generated_cases():
    verdict = Verdict()

    @settings(
        max_examples=CASES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def attack(data):
        nonlocal verdict
        choose = FromHypothesis(data.draw)
        asked = case(choose)
        note(repr(asked))
        verdict += judged(asked, choose)

    attack()
    assert verdict.refused <= MOST_REFUSED
    rare = {law.__name__ for law in (*ALWAYS, *SOMETIMES) if verdict.laws[law.__name__] < FEWEST}
    assert not rare
