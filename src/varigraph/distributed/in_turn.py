"""Parts that a process works on one after the other: layer by layer, rows wait on the disk.

A network runs on a part until a layer needs rows of other parts. What others need of this one is
written down, and the run is given up. Once all parts have come so far, rows are handed over, and
each part runs again: layers that were done before are read, the next one is computed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from varigraph.distributed.asked import Asked, Asking, make_room
from varigraph.distributed.exchange import OthersRows, Processes, Sent
from varigraph.distributed.large_graph import Array
from varigraph.distributed.parts import Part
from varigraph.distributed.sampling import Block, Facts
from varigraph.distributed.share import Share, parts_of
from varigraph.distributed.unfinished import Unfinished
from varigraph.errors import ModelError
from varigraph.files import write_json
from varigraph.prediction.masks import Site
from varigraph.prediction.sampled.draws import Design, Draw
from varigraph.prediction.sampled.network import Network
from varigraph.prediction.sampled.runs import PlainRun

#: What a run waits for that has come to its end.
END = "end"
STEPS, DRAFT = "steps.json", "draft.npy"


class Waiting(BaseException):
    """A run cannot go on before others have come so far; no code of users is to catch this.

    Args:
        key: which rows are needed.
    """

    def __init__(self, key: str) -> None:
        self.key = key


class Turn(OthersRows):
    """A run on one part, as far as it can go with the rows that are there.

    Args:
        share: the part.
        folder: where rows of this run are.
        running: watches the run.
    """

    def __init__(self, share: Share, folder: Path, running: PlainRun) -> None:
        super().__init__(share)
        self._folder, self._running, self._rows = folder, running, share.rows
        self._layer = self._asked = 0

    def begins_layer(self) -> bool:
        """One more layer; whether its result is there."""
        self._layer, self._asked = self._layer + 1, 0
        return _file(self._folder, "layer", self._layer).exists()

    def arrived(self, packed: Tensor) -> Tensor:  # [sent, columns] -> [far, columns]
        """Rows of others; if these have not come so far, own rows are left for them."""
        key = f"{self._layer}-{self._asked}"
        self._asked += 1
        far = _file(self._folder, "far", key)
        if not far.exists():
            _write(self._folder, "sent", key, packed.numpy())
            raise Waiting(key)
        return torch.from_numpy(np.load(far))

    @contextmanager
    def keeping_layers(self, model: nn.Module) -> Iterator[None]:
        """While this is open, layers that are done are read, and others are written."""
        layers = [layer for layer in model.modules() if isinstance(layer, MessagePassing)]
        with ExitStack() as stack:
            for layer in layers:
                object.__setattr__(layer, "forward", self._forward(layer.forward))
                stack.callback(object.__delattr__, layer, "forward")
            yield

    def _forward(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def read_or_run(*args: Any, **kwargs: Any) -> Any:
            number = self._layer
            if _file(self._folder, "layer", number).exists():
                return self._kept(number)
            result = forward(*args, **kwargs)
            if isinstance(result, Tensor) and len(result) == self._rows:
                self._keep(number, result)
            return result

        return read_or_run

    def _keep(self, number: int, result: Tensor) -> None:  # [rows, ...]
        sites = [[list(site.shape), site.rate] for site in self._running.sites]
        about = {"last": self._layer, "sites": sites}
        (self._folder / f"layer-{number}.json").write_text(json.dumps(about))
        _write(self._folder, "layer", number, result[: self._own].numpy())

    def _kept(self, number: int) -> Tensor:  # -> [rows, ...]
        own = torch.from_numpy(np.load(_file(self._folder, "layer", number)))
        about = json.loads((self._folder / f"layer-{number}.json").read_text())
        sites = [Site(torch.Size(shape), p) for shape, p in about["sites"]]
        self._running.sites += sites[len(self._running.sites) :]  # masks are told by their number
        self._layer = about["last"]
        return torch.cat([own, own.new_zeros(self._rows - self._own, *own.shape[1:])])


def _file(folder: Path, what: str, key: object) -> Path:
    return folder / f"{what}-{key}.npy"


def _write(folder: Path, what: str, key: object, rows: Array) -> None:
    """Whole or not at all, whenever the process is ended; only a power cut may do harm."""
    draft = folder / DRAFT
    np.save(draft, rows, allow_pickle=False)
    draft.replace(_file(folder, what, key))


@dataclass(frozen=True, eq=False)
class InTurn:
    """A process that has several parts, of which one at a time is in memory.

    Args:
        asking: what is asked of every part.
        facts: what is known of each part of this process, by its number.
        design: which draws there are.
        processes: that have the others.
        unfinished: where rows wait.
        sent: counts what is sent to other processes.
    """

    asking: Asking
    facts: Mapping[int, Facts]
    design: Design
    processes: Processes
    unfinished: Unfinished
    sent: Sent

    def outputs(self, block: Block) -> Iterator[tuple[int, list[Tensor]]]:
        """By part, logits of own nodes under each draw of a block, ``[own, classes]``."""
        steps = {part: self._steps(part, block) for part in self.facts}
        stage = -self.processes.largest(-min(map(len, steps.values())))
        if stage:  # others may have been ended before they had all of it
            self._hand_over(next(iter(steps.values()))[stage - 1], block)
        while (key := self._advanced(block, stage)) != END:
            self._hand_over(key, block)
            stage += 1
        for part in self.facts:
            folders = [self._folder(part, run) for run in block.draws(self.design)]
            yield part, [torch.from_numpy(np.load(_file(f, "logits", END))) for f in folders]

    def held(self, block: Block) -> int:
        """Bytes on disk for a run of a block, of all parts."""
        files = [file for part in self.facts for run in block.draws(self.design)
                 for file in self._folder(part, run).iterdir()]  # fmt: skip
        return sum(file.stat().st_size for file in files) // (block.last - block.first)

    def forget(self) -> None:
        """Remove the rows of the last block."""
        for part in self.facts:
            shutil.rmtree(self.unfinished.work(part), ignore_errors=True)

    @cached_property
    def _parts(self) -> dict[int, Part]:
        return {part: self.asking.whole.open(part) for part in self.facts}

    def _folder(self, part: int, run: int) -> Path:
        return self.unfinished.work(part) / f"run-{run}"

    def _steps(self, part: int, block: Block) -> list[str]:
        """What all runs of a block on a part have come to wait for, in order."""
        work = self.unfinished.work(part)
        try:
            about = json.loads((work / STEPS).read_text())
        except (OSError, ValueError):
            about = {}
        if about.get("block") == [block.first, block.last]:
            steps: list[str] = about["steps"]
            return steps
        shutil.rmtree(work, ignore_errors=True)  # left by another block
        work.mkdir(parents=True)
        return []

    def _advanced(self, block: Block, stage: int) -> str:
        """Bring all parts one step further; what they wait for then."""
        found = {self._advanced_part(part, block, stage) for part in self.facts}
        if len(found) > 1:
            raise ModelError(
                f"{type(self.asking.model).__name__} takes other steps on one part than on another",
                "let it call the same layers whatever the graph is",
            )
        (key,) = found
        self.processes.agree(["step", key])
        return key

    def _advanced_part(self, part: int, block: Block, stage: int) -> str:
        steps = self._steps(part, block)
        if len(steps) <= stage:
            asked, plain = self.asking.part(part), block.plain
            with asked.opened(self.facts[part].sites, plain=plain) as network:
                found = {
                    self._one(asked, network, draw, self._folder(part, run))
                    for run, draw in block.draws(self.design).items()
                }
            steps = [*steps, *found]
            del asked, network
            make_room()
            about = {"block": [block.first, block.last], "steps": steps}
            write_json(self.unfinished.work(part) / STEPS, about)
        return steps[stage]

    def _one(self, asked: Asked, network: Network, draw: Draw, folder: Path) -> str:
        """Bring one run further, and say what it waits for."""
        folder.mkdir(exist_ok=True)
        running = PlainRun(network.features.maps)
        turn = Turn(asked.share, folder, running)
        try:
            with asked.asking(turn), turn.keeping_layers(network.question.model):
                logits = network.once(draw, running=running)
        except Waiting as waiting:
            return waiting.key
        _write(folder, "logits", END, logits[: len(asked.share.own)].numpy())
        return END

    def _hand_over(self, key: str, block: Block) -> None:
        """Put rows that parts have left for each other where these look for them."""
        for run in block.draws(self.design):
            self._hand_over_run(key, run)

    def _hand_over_run(self, key: str, run: int) -> None:
        whole, rank = self.asking.whole, self.processes.rank
        left = {part: self._left(part, run, key) for part in self.facts}
        others = [r for r in range(self.processes.count) if r != rank]
        mine = {r: parts_of(r, self.processes.count, whole.parts) for r in [rank, *others]}
        here = {(to, part): left[part][to] for part in mine[rank] for to in mine[rank]}
        if others:
            here.update(self._from_others(left, mine))
        for to in mine[rank]:
            pieces = [here[to, part] for part in range(whole.parts)]
            _write(self._folder(to, run), "far", key, np.concatenate(pieces))

    def _left(self, part: int, run: int, key: str) -> list[Array]:
        """Rows that a part has left for each of all parts."""
        rows = np.load(_file(self._folder(part, run), "sent", key), mmap_mode="r")
        return np.split(rows, np.cumsum(self._parts[part].sent_counts)[:-1])

    def _from_others(
        self, left: Mapping[int, list[Array]], mine: Mapping[int, range]
    ) -> dict[tuple[int, int], Array]:
        """Rows from the parts of other processes, by the part that they are for."""
        rank, count = self.processes.rank, self.processes.count
        going = [[left[part][to] for to in mine[r] for part in mine[rank]]
                 for r in range(count) if r != rank]  # fmt: skip
        coming = {r: [(to, part, self._parts[to].far_counts[part])
                      for to in mine[rank] for part in mine[r]]
                  for r in range(count) if r != rank}  # fmt: skip
        outgoing = [sum(map(len, rows)) for rows in going]
        incoming = [sum(size for *_, size in rows) for rows in coming.values()]
        for sizes in (outgoing, incoming):
            sizes.insert(rank, 0)
        packed = np.concatenate([rows for each in going for rows in each])
        arrived = self.processes.exchanged(
            torch.from_numpy(packed), incoming, outgoing, self.sent
        ).numpy()
        listed = [each for r in sorted(coming) for each in coming[r]]
        ends = np.cumsum([size for *_, size in listed])[:-1]
        return {
            (to, part): rows
            for (to, part, _), rows in zip(listed, np.split(arrived, ends), strict=True)
        }
