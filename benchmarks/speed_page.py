"""docs/speed.md from the figures of speed.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from varigraph.reporting.text_table import TextTable, markdown
from varigraph.studies.speed.contenders import CSR, DIAGONAL, ONE_PASS, PLAIN
from varigraph.studies.speed.results import LEGEND, Speed, digits, size

Record = dict[str, Any]
HEAD = """# How long error bars take

Times, memory and fidelity next to what one would do without this library, from
`benchmarks/speed.py`. `varigraph bench pubmed` does the same for one data set.

- The paper's network (SAGE 64-32, dense 12-8-C, linear, dropout 0.1), trained for {epochs} epochs
  on clean features; noise of 12 % of the mean feature; all nodes are predicted.
- Every row is measured in a fresh process: a few nodes first, so that libraries are loaded, then a
  first call for memory and answer, then the median of up to {repeats} more. What can be kept with
  the graph (compressed rows, neighbours) is there by then, for rivals too. Both plain forwards are
  timed in turn with those calls, and ratios are to these: a shared machine is not equally fast all
  the time.
- *CSR*: the same unmodified layers, fed the transposed adjacency as a torch CSR tensor.
- *Equation 13 by hand* is what a reader of the paper would write: for each mask the mean by the
  layers themselves, the variance by squared weights with one message per link, the softmax over as
  many points as we take. It keeps nothing from mask to mask, not even the first layer, which no
  mask precedes. It gives what *diagonal, T masks* gives; a test compares the two under the same
  masks.
- *torch-uncertainty* (0.13.0): its `mc_dropout` sees modules alone, so the network was rewritten
  with `nn.Dropout`. Only that wrapper was loaded; the package as a whole wants torchvision.
- Loops over masks that would take more than 20 s are timed on fewer masks and multiplied; notes
  say which. Their fidelity is then left out.
"""


def page(runs: list[Record]) -> str:
    first = next(Speed.of(run["tables"][0]) for run in runs if run.get("tables"))
    parts = [HEAD.format(epochs=first.epochs, repeats=first.repeats)]
    parts.append("".join(f"- {line}\n" for line in LEGEND))
    for run in runs:
        threads = f"{run['torch_threads']} thread" + "s" * (run["torch_threads"] > 1)
        parts.append(f"## On {run['machine'].split(';')[0]}\n\n{run['machine']}; {threads}.\n")
        parts.append("".join(f"- {line}\n" for line in run.get("remarks", [])))
        shown = [_table(Speed.of(record)) for record in run.get("tables", [])]
        shown += [text(run[name]) for name, text in TEXTS.items() if run.get(name)]
        parts += [text.replace("## ", "### ", 1) for text in shown]
    return "\n".join(parts)


def _table(speed: Speed) -> str:
    table = speed.table()
    notes = tuple(note for note in table.notes[len(LEGEND) : -1])
    shown = TextTable(table.title, table.header, table.rows, table.words, notes)
    return f"{markdown(shown)}\n{_sentences(speed)}\n"


def _sentences(speed: Speed) -> str:
    def times(name: str, to: str) -> str:
        return digits(speed.ratio(speed.row(name), to))

    ours = speed.row(DIAGONAL).seconds
    by_hand = (speed.row(f"equation 13 by hand{way}").seconds for way in ("", ", CSR"))
    gains = [digits(other / ours) if other and ours else "–" for other in by_hand]
    return (
        f"The diagonal form takes {times(ONE_PASS, PLAIN)} plain forwards in one pass and "
        f"{times(DIAGONAL, PLAIN)} with {speed.masks} masks, {gains[0]} times less than the same "
        f"by hand and {gains[1]} times less than by hand with compressed rows. First-order, whose "
        f"variances of the logits are right, takes {times('vg: first-order, features', PLAIN)} "
        f"for the features alone and {times('vg: first-order', PLAIN)} with dropout; in forwards "
        f"with compressed rows that is {times('vg: first-order', CSR)}. Dropout alone, by vmap, "
        f"takes {times('dropout, vmap, CSR', PLAIN)}."
    )


def _growth(rows: list[Record]) -> str:
    names = list(dict.fromkeys(row["name"] for row in rows))
    sizes = sorted({row["links"] for row in rows})
    at = {(row["name"], row["links"]): row for row in rows}

    def cells(key: str, show: Any) -> list[tuple[str, ...]]:
        return [
            (
                name,
                key,
                *(show(at[name, links][key]) for links in sizes),
                digits(_exponent(sizes, [at[name, links][key] for links in sizes])),
            )
            for name in names
        ]

    header = ("what", "", *(f"10^{round(math.log10(links))} links" for links in sizes), "exponent")
    body = tuple(cells("seconds", digits) + cells("memory", size))
    note = "exponent: slope of least squares in logarithms, from 10^5 links on."
    table = markdown(TextTable("Growth", header, body, words=2, notes=(note,)))
    slopes = [row[-1] for row in body if row[0] in {ONE_PASS, DIAGONAL}]
    return (
        f"{table}\nGraphs with power-law degrees, ten links per node, 64 features, two SAGE layers "
        "of 64 with ReLU, dropout 0.5, 8 classes, T = 10. Time of the diagonal form grows with the "
        f"number of links to the power {slopes[0]} in one pass and {slopes[1]} with masks, memory "
        f"to the power {slopes[2]} and {slopes[3]}: 1 is linear.\n"
    )


def _exponent(sizes: list[int], values: list[float | None]) -> float | None:
    pairs = [(n, v) for n, v in zip(sizes, values, strict=True) if v and n >= 10**5]
    if len(pairs) < 2:
        return None
    return float(np.polyfit(*np.log(np.array(pairs)).T, 1)[0])


def _threads(rows: list[Record]) -> str:
    body = tuple((r["name"], f"{r['logits']:.1e}", f"{r['logits_var']:.1e}") for r in rows)
    table = markdown(TextTable("One thread and two", ("what", "mean", "variance"), body))
    worst = max(max(row["logits"], row["logits_var"]) for row in rows)
    verdict = "within" if worst <= 1e-5 else "NOT within"
    return (
        f"{table}\nLargest difference of the logits' means and variances on {rows[0]['data']}, "
        f"relative to their mean size. The worst is {worst:.1e}, {verdict} the aim of 1e-5.\n"
    )


def _bounds(rows: list[Record]) -> str:
    bounds = list(dict.fromkeys(row["bound"] for row in rows))
    keys = list(dict.fromkeys((row["data"], row["name"]) for row in rows))
    found = {(row["data"], row["name"], row["bound"]): row for row in rows}
    cells = {
        key: "refused" if row["problem"] else size(row["memory"]) for key, row in found.items()
    }
    body = tuple((data, name, *(cells[data, name, b] for b in bounds)) for data, name in keys)
    header = ("data", "what", *(f"memory={bound}" for bound in bounds))
    problems = tuple(dict.fromkeys(f"{r['problem']}." for r in rows if r["problem"]))
    table = markdown(TextTable("The bound of memory", header, body, words=2, notes=problems))
    above = [
        f"{r['name'].removeprefix('vg: ')} on {r['data']} ({r['bound']})"
        for r in rows
        if r["memory"] is not None and r["memory"] > _bytes(r["bound"])
    ]
    said = f"The bound does not hold for {', '.join(above)}." if above else "The bound holds."
    return (
        f"{table}\nLargest size of a fresh process during one call with T masks, above that before "
        f"it; what is refused is refused before the work starts. {said}\n"
    )


def _large(rows: list[Record]) -> str:
    plain = {row["nodes"]: row for row in rows if row["name"] == PLAIN}

    def cells(row: Record) -> tuple[str, ...]:
        one = plain.get(row["nodes"], {})
        time, memory = (
            digits(row[key] / one[key]) if row[key] and one.get(key) else "–"
            for key in ("seconds", "memory")
        )
        sizes = f"{row['nodes']:,} nodes, {row['links']:,} links"
        ours = row["name"].startswith("vg")
        bound = row["bound"] if ours else "–"
        return (
            sizes,
            row["name"],
            digits(row["seconds"]),
            time,
            size(row["memory"]),
            memory,
            bound,
        )

    header = ("graph", "what", "seconds", "× plain", "memory", "of plain's", "memory=")
    notes = tuple(f"{r['name']}: {r['problem']}." for r in rows if r["problem"])
    masks = max(row["masks"] for row in rows)
    table = markdown(TextTable("Large graphs", header, tuple(map(cells, rows)), 2, notes))
    return (
        f"{table}\nPower-law graphs, the second of the size of ogbn-products: 100 features, "
        "GraphSAGE with 256 hidden units and 47 classes, dropout 0.5, noise of variance 0.1, "
        f"T = {masks}; the first with 128 features, 128 hidden units and 40 classes.\n"
    )


def _agreement(rows: list[Record]) -> str:
    body = tuple(
        (r["data"], r["name"], f"{r['logits']:.1e}", f"{r['logits_var']:.1e}")
        for r in rows
        if r.get("logits") is not None
    )
    header = ("data", "what", "mean", "variance")
    table = markdown(TextTable("The processor and the GPU", header, body, words=2))
    return (
        f"{table}\nLargest difference of the logits' means and variances, relative to their mean "
        "size.\n"
    )


def _kernels(rows: list[Record]) -> str:
    (copy, *measured) = rows

    def cells(row: Record) -> tuple[str, ...]:
        times = (digits(row.get(key)) for key in ("ours", "torch", "compiled"))
        shares = (digits(row.get(key)) for key in ("share", "torch_share"))
        difference = row.get("difference")
        return (row["what"], *times, *shares, "–" if difference is None else f"{difference:.0e}")

    header = ("what", "ms", "torch, ms", "compiled, ms", "share", "torch, share", "difference")
    table = markdown(TextTable("Kernels", header, tuple(map(cells, measured)), words=1))
    return (
        f"{table}\nOn the graph of products' size. share: bytes of one gathered row per link, over "
        f"the time, of the {copy['bandwidth']:,.0f} GB/s of a copy; packing means and variances "
        "side by side is in the time, not in the share. compiled: the same in plain torch, by "
        "torch.compile. difference: largest, relative to the mean size.\n"
    )


def _bytes(amount: str) -> int:
    number, unit = amount[:-3], amount[-3:]
    return int(number) * {"MiB": 2**20, "GiB": 2**30}[unit]


TEXTS = {
    "growth": _growth,
    "large": _large,
    "kernels": _kernels,
    "agreement": _agreement,
    "threads": _threads,
    "bounds": _bounds,
}
