"""The page in a real Chromium: quiet, offline, complete, and narrow where the window is."""

import pytest

import varigraph as vg
from browser.reader import Reader
from reporting.page.made_up import EVIL, made_up, regression

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
def test_sorting_by_trust_and_by_name(opened, subject, falling):
    prediction, graph = subject
    opened.click("[data-column=node] button")
    if falling:
        opened.click("[data-column=node] button")
    shown = [node for node in opened.rows() if graph.node_names[node] != EVIL]
    order = list(range(299))[:: -1 if falling else 1]  # n2 before n10
    assert shown == order[: len(shown)]
    opened.click("[data-column=trust] button")
    if falling:
        opened.click("[data-column=trust] button")
    trust = prediction.trust
    shown = [float(trust[node]) for node in opened.rows()]
    assert shown == trust.sort(descending=falling).values[: len(shown)].tolist()


def test_filters_keep_what_they_say(opened, subject):
    prediction, graph = subject
    best = prediction.mean.argmax(1)
    wrong = best != graph.y
    own = [row.cause for row in prediction.least_trusted(300)].count("the network itself")
    wanted = {
        ("answer", "1"): int((best == 1).sum()),
        ("verdict", "wrong"): int(wrong.sum()),
        ("source", "4"): own,
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
    assert opened.complaints() == []


def test_a_search_without_a_match_says_so_and_can_be_undone(opened):
    seen = "getComputedStyle(document.querySelector(arguments[0])).display !== 'none'"
    assert not opened.ask(seen, "#nothing")
    opened.choose("search", "no such node")
    assert opened.matches() == 0
    assert opened.ask(seen, "#nothing")
    assert not opened.ask(seen, "#rows")
    assert "Nothing matches" in opened.text("#nothing")
    opened.click("#clear")
    assert opened.matches() == 300
    assert opened.ask(seen, "#rows")
    assert not opened.ask(seen, "#nothing")


def test_every_chart_and_picture_has_words_for_who_cannot_see_it(opened):
    pictures = "[...document.querySelectorAll('.chart, #neighbourhood')]"
    spoken = opened.ask(f"{pictures}.map(p => [p.id, p.getAttribute('aria-label'), p.role])")
    assert len(spoken) == len(CHARTS) + 1
    for name, words, role in spoken:
        assert role == "img", name
        assert len(words or "") > 20, name


def test_wrong_answers_and_sources_are_marked_besides_their_colour(opened, subject):
    prediction, graph = subject
    wrong = prediction.mean.argmax(1) != graph.y
    texts = opened.ask(
        "[...document.querySelectorAll('tr.node td:nth-child(2)')].map(t => t.textContent)"
    )
    marks = [text[0] for text in texts]
    assert marks == ["✗" if wrong[node] else "✓" for node in opened.rows()]
    signs = opened.ask(
        "[...document.querySelectorAll('#shares ~ .key .sign')].map(s => s.textContent)"
    )
    assert len(set(signs)) == 4


def test_there_is_no_void_under_the_table(chromium, small, tmp_path):
    gap = (
        "document.querySelector('#node').getBoundingClientRect().top"
        " - document.querySelector('#rows').getBoundingClientRect().bottom"
    )
    few = vg.report(*made_up(3, links=3), path=tmp_path / "few.html")
    for path in (small, few):
        page = Reader(chromium, path)
        assert 0 <= page.ask(gap) < 30
        height = "document.querySelector(arguments[0]).offsetHeight"
        assert page.ask(height, "#rows") <= page.ask(height, "table") + 2


def test_a_verdict_and_what_to_do_come_before_everything_else(opened):
    order = (
        "['#verdicts', '#cards', '#todo', '#rows', '#node', '#figures']"
        ".map(s => document.querySelector(s).getBoundingClientRect().top)"
    )
    tops = opened.ask(order)
    assert tops == sorted(tops)
    assert opened.ask("document.querySelectorAll('.verdict').length") > 0
    assert opened.ask("document.querySelectorAll('#todo li').length") > 0
    assert opened.ask("document.querySelectorAll('#node ol li').length") > 0
    assert opened.ask("document.querySelectorAll('#together li').length") == 5
    opened.click("#together button")
    assert opened.text("#node h2") in opened.text("#together li")


def test_intervals_that_do_not_hold_raise_an_alarm(chromium, tmp_path):
    prediction, graph = regression()
    graph.y = graph.y + 5
    page = Reader(chromium, vg.report(prediction, graph, path=tmp_path / "alarm.html"))
    alarm = "document.querySelector('.verdict.alarm')"
    assert page.ask(f"{alarm}.getAttribute('role')") == "alert"
    assert "do not hold" in page.text(".verdict.alarm")
    assert "vg.calibrate" in page.text(".verdict.alarm .advice")
    assert page.ask("document.querySelectorAll('#intervals .point').length") > 0
    assert page.complaints() == []


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


def test_the_least_trusted_node_is_chosen_first_and_explained(opened, subject):
    prediction, graph = subject
    worst = int(prediction.trust.argmin())
    assert opened.text("#node h2") == graph.node_names[worst]
    listed = "[...document.querySelectorAll('#node .causes li > span')]"
    shares = opened.ask(f"{listed}.map(s => parseFloat(s.textContent))")
    assert sum(shares) == pytest.approx(100, abs=0.5)
    assert "9 of 300 nodes: the 6 least trusted and 3" in opened.text("#node")


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


def test_values_are_written_to_the_digits_of_their_error_bar(chromium, tmp_path):
    prediction, graph = regression(outputs=1)
    page = Reader(chromium, vg.report(prediction, graph, path=tmp_path / "values.html"))
    said = page.ask(
        "[...document.querySelectorAll('tr.node td:nth-child(2)')].map(t => t.textContent)"
    )
    assert said
    for text in said:
        value, std = text.split(" ± ")
        assert len(value.split(".")[1]) == len(std.split(".")[1])
    assert page.text("#node p").startswith(f"value: {said[0]}, 90 % interval ")
