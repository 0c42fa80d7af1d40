"""The page in a real Chromium: quiet, offline, complete, and narrow where the window is."""

import pytest

import varigraph as vg
from browser.reader import Reader
from reporting.page.made_up import EVIL, regression

CHARTS = ("shares", "reliability", "risk", "noise", "histogram", "answers", "split")
WIDE = (
    "[...document.querySelectorAll('main *, header *')].filter(e => e.getBoundingClientRect().right"
    " > document.documentElement.clientWidth + 1 && !e.closest('pre, svg')).map(e => e.outerHTML)"
)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_opens_without_complaints_requests_or_overflow(chromium, small, theme, width):
    page = Reader(chromium, small, width=width, theme=theme)
    assert page.fetched() == [small.as_uri()]
    assert page.complaints() == []
    assert page.ask("document.documentElement.dataset.theme") == theme
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    assert page.ask(WIDE) == []


def test_every_chart_is_drawn(opened):
    for chart in CHARTS:
        drawn = "document.querySelectorAll(arguments[0]).length"
        marks = f"#{chart} .main-svg .point, #{chart} .main-svg .js-line, #{chart} .main-svg .bars"
        assert opened.ask(drawn, marks) > 0, chart


def test_a_name_with_a_tag_is_shown_as_text(opened):
    assert opened.ask("document.title") == EVIL
    assert opened.text("h1") == EVIL
    assert opened.text("#warnings").endswith(EVIL)
    assert EVIL in opened.ask("[...document.querySelectorAll('#answer option')].map(o => o.text)")
    labels = opened.ask("[...document.querySelectorAll('#answers .ytick')].map(t => t.textContent)")
    assert EVIL in labels
    opened.choose("search", "</script>")
    assert opened.matches() == 1
    opened.click("tr.node")
    assert opened.text("#node h2") == EVIL
    assert opened.complaints() == []


def test_the_warning_of_a_run_that_was_cut_short_is_in_sight(opened):
    assert opened.text("#warnings").startswith("This run was cut short")
    assert opened.ask("document.querySelector('#warnings').getBoundingClientRect().height") > 20


def test_the_switch_changes_the_colours_of_page_and_charts(opened):
    page = "getComputedStyle(document.body).backgroundColor"
    chart = "getComputedStyle(document.querySelector('#risk .xtick text')).fill"
    before = opened.ask(page), opened.ask(chart)
    opened.click("#theme")
    after = opened.ask(page), opened.ask(chart)
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert opened.complaints() == []


@pytest.mark.parametrize("falling", [False, True])
def test_sorting_by_variance_and_by_name(opened, subject, falling):
    prediction, graph = subject
    opened.click("[data-column=node] button")
    if falling:
        opened.click("[data-column=node] button")
    shown = [node for node in opened.rows() if graph.node_names[node] != EVIL]
    order = list(range(299))[:: -1 if falling else 1]  # n2 before n10
    assert shown == order[: len(shown)]
    opened.click("[data-column=variance] button")
    if not falling:
        opened.click("[data-column=variance] button")
    var = prediction.total.sum(1)
    shown = [float(var[node]) for node in opened.rows()]
    wanted = var.sort(descending=falling).values[: len(shown)].tolist()
    assert shown == pytest.approx(wanted, rel=1e-3)  # the page has four digits


def test_filters_keep_what_they_say(opened, subject):
    prediction, graph = subject
    best = prediction.mean.argmax(1)
    wrong = best != graph.y
    sources = [var.sum(1) for var in prediction.by_source.values()]
    main = [max(range(4), key=lambda part: float(sources[part][node])) for node in range(300)]
    wanted = {
        ("answer", "1"): int((best == 1).sum()),
        ("verdict", "wrong"): int(wrong.sum()),
        ("source", "2"): main.count(2),
        ("group", "2"): 150,
        ("uncertainty", "0.05"): 15,
        ("explained", "yes"): 9,
        ("search", "n17"): 11,
    }
    for (field, value), count in wanted.items():
        opened.choose(field, value)
        assert opened.matches() == count, field
        opened.choose(field, "")
    opened.choose("verdict", "wrong")
    opened.choose("answer", "1")
    both = {node for node in range(300) if wrong[node] and best[node] == 1}
    assert opened.matches() == len(both)
    assert set(opened.rows()) <= both
    opened.choose("search", "no such node")
    assert opened.matches() == 0
    assert opened.complaints() == []


def test_choosing_a_node_draws_its_neighbourhood(opened, subject):
    _, graph = subject
    degree = graph.edge_index[0].bincount(minlength=300)
    node = int(((degree > 2) & (degree < 9)).nonzero()[0])
    opened.choose("search", f"n{node}")
    opened.click(f"tr.node[data-node='{node}']")
    assert opened.text("#node h2") == f"n{node}"
    own = graph.edge_prob[graph.edge_index[0] == node].tolist()
    labels = opened.ask("[...document.querySelectorAll('.chance')].map(t => t.textContent)")
    assert sorted(labels) == sorted(f"{float(f'{prob:.3g}'):.2f}" for prob in own)
    titles = opened.ask(
        "[...document.querySelectorAll('circle.other title')].map(t => t.textContent)"
    )
    others = {graph.node_names[other] for other in graph.edge_index[1, graph.edge_index[0] == node]}
    assert others <= {title.split(":")[0] for title in titles}
    opened.click("circle.other")
    assert opened.text("#node h2") in others
    assert opened.complaints() == []


def test_the_most_uncertain_node_is_chosen_first_and_explained(opened, subject):
    prediction, graph = subject
    worst = int(prediction.total.sum(1).argmax())
    assert opened.text("#node h2") == graph.node_names[worst]
    assert opened.ask("document.querySelectorAll('.causes li').length") > 0
    assert "9 of 300 nodes: the 6 most uncertain and 3" in opened.text("#node")


def test_the_arrow_keys_move_the_choice(opened):
    first, second = opened.rows()[:2]
    chosen = "+document.querySelector('tr[aria-selected=true]').dataset.node"
    assert opened.ask(chosen) == first
    press = "new KeyboardEvent('keydown', {key: 'ArrowDown'})"
    opened.ask(f"document.getElementById('rows').dispatchEvent({press})")
    assert opened.ask(chosen) == second


def test_values_have_a_page_too(chromium, tmp_path):
    path = vg.report(*regression(), path=tmp_path / "values.html")
    page = Reader(chromium, path, width=400)
    assert page.complaints() == []
    assert page.matches() == 30
    assert page.ask("document.querySelectorAll('#answers .point').length") == 2
    assert page.ask(WIDE) == []
