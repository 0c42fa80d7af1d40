"""Which cells the tables need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from varigraph.errors import OptionError
from varigraph.studies.comparison.cell import Cell
from varigraph.studies.comparison.methods import Method

#: The data set that each table is about; table 1 is about the data sets themselves.
DATASET = {2: "cora", 3: "pubmed", 4: "cora", 5: "computers", 6: "pubmed"}
TABLES = (1, *DATASET)
#: The methods of the two tables that do not have all of them.
BGCN, BGNN = "bgcn-map", "bgnn"
CHOSEN = {2: (BGCN, BGNN), 3: (BGNN, "first-order", "noise-aware")}
#: What a quick look leaves out.
SLOW = ("computers", "pubmed")


def tables_of(wanted: Sequence[int], *, quick: bool) -> tuple[int, ...]:
    """The tables to make, in order.

    Args:
        wanted: by number; none for all.
        quick: leave out the large data sets.

    Raises:
        OptionError: naming a table that there is not.
    """
    possible = [table for table in TABLES if not (quick and DATASET.get(table) in SLOW)]
    for table in wanted:
        if table not in TABLES:
            raise OptionError(f"there is no table {table}", f"choose from 1 to {max(TABLES)}")
        if table not in possible:
            raise OptionError(
                f"table {table} is about {DATASET[table]}, which a quick look leaves out",
                f"leave out --quick, or choose from {', '.join(map(str, possible))}",
            )
    return tuple(table for table in possible if not wanted or table in wanted)


def cells_of(tables: Iterable[int], methods: Sequence[Method], *, seeds: int) -> list[Cell]:
    """The cells that tables need, each once: seed by seed, in the order of the methods.

    Whenever a study is broken off, it holds a whole smaller one.

    Args:
        tables: by number.
        methods: that are compared.
        seeds: how many; a slow method may get fewer.
    """
    if seeds < 1:
        raise OptionError(f"seeds is {seeds}", "run at least one: seeds=5")
    cells = {
        cell.name: cell
        for method in methods
        for table in tables
        if (dataset := DATASET.get(table))
        if dataset in method.datasets and method.name in CHOSEN.get(table, (method.name,))
        for cell in (Cell(method, dataset, seed) for seed in method.seeds(dataset, seeds))
    }
    return sorted(cells.values(), key=lambda cell: cell.seed)
