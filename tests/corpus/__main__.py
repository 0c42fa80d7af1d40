"""How the library does on the corpus: ``PYTHONPATH=src:tests python -m corpus [--write] [NAMES]``.

Prints one line for each network and source; ``--write`` puts the states into ``states.py``.
Names are those of networks or of chapters.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from corpus import NETWORKS
from corpus.asking import SOURCES
from corpus.judgement import Verdict, judged
from corpus.states import STATES

TARGET = Path(__file__).with_name("states.py")
HEAD = '''"""How each network is answered for today, features first, then removed links.

Written by ``python -m corpus --write``. Every entry must be true: ``closed``, ``differentiated``
and ``sampled`` answers agree with brute force, ``off`` ones do not and are known to be wrong.
"""

'''


def line(name: str, source: str, verdict: Verdict, seconds: float) -> str:
    figures = f"{verdict.median:6.3f} {verdict.total:6.3f} ±{verdict.error:.3f} {seconds:5.1f}s"
    return f"{name:26s} {source:8s} {verdict.state:14s} {figures}  {verdict.said[:120]}"


def written(states: dict[str, list[str]]) -> str:
    """The table as a file."""
    rows = [f'    "{name}": ("{states[name][0]}", "{states[name][1]}"),\n' for name in states]
    return f"{HEAD}STATES = {{\n{''.join(rows)}}}\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", default=[])
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    states: dict[str, list[str]] = {}
    print(f"{'':50s}  median  total   error")
    wanted = [
        name
        for name, network in NETWORKS.items()
        if not chosen.names or name in chosen.names or network.chapter in chosen.names
    ]
    for name in wanted:
        for source in SOURCES:
            start = time.process_time()
            verdict = judged(NETWORKS[name], source)
            states.setdefault(name, []).append(verdict.state)
            print(line(name, source, verdict, time.process_time() - start), flush=True)
    for place, source in enumerate(SOURCES):
        print(source, dict(Counter(each[place] for each in states.values())))
    if chosen.write:
        known = {name: list(STATES[name]) for name in NETWORKS if name in STATES}
        TARGET.write_text(written({**known, **states}), encoding="utf-8")


if __name__ == "__main__":
    main()
