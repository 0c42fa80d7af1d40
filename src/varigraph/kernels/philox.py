"""Masks, words for coins and noise drawn on the GPU, bit for bit as by numpy's Philox."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Multipliers and key steps of Philox 4x64 with ten rounds (Salmon et al., 2011).
MULTIPLIER_0 = tl.constexpr(0xD2E7470EE14C6C93)
MULTIPLIER_1 = tl.constexpr(0xCA5A826395121157)
STEP_0 = tl.constexpr(0x9E3779B97F4A7C15)
STEP_1 = tl.constexpr(0xBB67AE8584CAA73B)
ROUNDS = tl.constexpr(10)
#: Bytes that one count of the generator gives, and counts of one program.
PER_COUNT, COUNTS = 32, 64
#: Words of 64 bits that one count gives, and levels of 16 bits.
WORDS_PER_COUNT, LEVELS_PER_COUNT = 4, 16
#: The lower eight bits of a level are counted in such steps.
STRIDE = tl.constexpr(157)
SIGN = 2**63


def philox_masks(
    shape: tuple[int, int],
    counter: tuple[int, int, int, int],
    *,
    key: int,
    dropped: int,
    scale: float,
    device: torch.device,
) -> Tensor:  # [masks, numbers]
    """Scaled masks: 0 where a level of 16 bits is below ``dropped``, ``scale`` elsewhere.

    The upper eight bits of a level are drawn; the lower are counted, by number and mask.

    Args:
        shape: how many masks, and how many numbers in each.
        counter: where numpy's generator would start for the first mask; its third place counts
            the masks.
        key: of the generator, below 2**128.
        dropped: in units of 1 / 65,536.
        scale: of what is not dropped.
        device: where they are wanted.
    """
    masks, size = shape
    out = torch.empty(shape, device=device)
    _draw[_grid(size, masks)](
        out, size, *_words_of(counter, key), dropped, scale, COUNTS=COUNTS, PER_COUNT=PER_COUNT
    )
    return out


def philox_dropped(
    mean: Tensor,
    var: Tensor,
    counter: tuple[int, int, int, int],
    *,
    key: int,
    dropped: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Mean and variance under one such mask, which is never written down.

    Args:
        mean: any shape.
        var: of the same shape.
        counter: as above.
        key: as above.
        dropped: as above.
        scale: as above.
    """
    mean, var = mean.contiguous(), var.contiguous()
    out = torch.empty_like(mean), torch.empty_like(var)
    size = mean.numel()
    _drop[_grid(size, 1)](
        mean, var, *out, size, *_words_of(counter, key), dropped, scale,
        COUNTS=COUNTS, PER_COUNT=PER_COUNT,
    )  # fmt: skip
    return out


def philox_levels(
    table: Tensor, size: int, counter: tuple[int, int, int, int], *, key: int
) -> Tensor:  # [65536] -> [size]
    """Numbers looked up in a table, each by 16 bits of its own.

    Args:
        table: a number for every level.
        size: how many are wanted.
        counter: where numpy's generator would start.
        key: of the generator, below 2**128.
    """
    out = table.new_empty(size)
    programs = triton.cdiv(triton.cdiv(size, LEVELS_PER_COUNT), COUNTS)
    _look_up[(programs,)](
        out, table, size, *_words_of(counter, key), COUNTS=COUNTS, PER_COUNT=LEVELS_PER_COUNT
    )
    return out


def philox_words(
    size: int, counter: tuple[int, int, int, int], *, key: int, device: torch.device
) -> Tensor:  # [size]
    """Words of 64 bits, as the signed numbers of the same bits.

    Args:
        size: how many are wanted.
        counter: where numpy's generator would start.
        key: of the generator, below 2**128.
        device: where they are wanted.
    """
    out = torch.empty(size, dtype=torch.int64, device=device)
    programs = triton.cdiv(triton.cdiv(size, WORDS_PER_COUNT), COUNTS)
    _write[(programs,)](
        out, size, *_words_of(counter, key), COUNTS=COUNTS, PER_COUNT=WORDS_PER_COUNT
    )
    return out


def _grid(size: int, masks: int) -> tuple[int, int]:
    return triton.cdiv(triton.cdiv(size, PER_COUNT), COUNTS), masks


def _words_of(counter: tuple[int, int, int, int], key: int) -> list[int]:
    return [_signed(word) for word in (*counter, key % 2**64, key >> 64)]


def _signed(word: int) -> int:
    """A word of 64 bits as the signed number of the same bits."""
    return word - 2 * SIGN if word >= SIGN else word


@triton.jit
def _draw(
    out, size, start, place, sample, source, key_0, key_1, dropped, scale,
    COUNTS: tl.constexpr, PER_COUNT: tl.constexpr,
):  # fmt: skip
    mask = tl.program_id(1).to(tl.int64)
    at, level = _levels(start, place, sample + mask, source, key_0, key_1, COUNTS, PER_COUNT)
    tl.store(out + mask * size + at, tl.where(level >= dropped, scale, 0.0), mask=at < size)


@triton.jit
def _drop(
    mean, var, out_mean, out_var, size,
    start, place, sample, source, key_0, key_1, dropped, scale,
    COUNTS: tl.constexpr, PER_COUNT: tl.constexpr,
):  # fmt: skip
    at, level = _levels(start, place, sample, source, key_0, key_1, COUNTS, PER_COUNT)
    inside, factor = at < size, tl.where(level >= dropped, scale, 0.0)
    tl.store(out_mean + at, factor * tl.load(mean + at, mask=inside), mask=inside)
    tl.store(out_var + at, factor * factor * tl.load(var + at, mask=inside), mask=inside)


@triton.jit
def _look_up(
    out, table, size, start, place, sample, source, key_0, key_1,
    COUNTS: tl.constexpr, PER_COUNT: tl.constexpr,
):  # fmt: skip
    count, word, part = _words_in_parts(
        start, place, sample, source, key_0, key_1, COUNTS, PER_COUNT
    )
    level = ((word >> (part % 4 * 16).to(tl.uint64)) & 0xFFFF).to(tl.int32)
    at = count[:, None] * PER_COUNT + part
    tl.store(out + at, tl.load(table + level), mask=at < size)


@triton.jit
def _write(
    out, size, start, place, sample, source, key_0, key_1,
    COUNTS: tl.constexpr, PER_COUNT: tl.constexpr,
):  # fmt: skip
    count, word, part = _words_in_parts(
        start, place, sample, source, key_0, key_1, COUNTS, PER_COUNT
    )
    at = count[:, None] * PER_COUNT + part
    tl.store(out + at, word.to(tl.int64, bitcast=True), mask=at < size)


@triton.jit
def _words_in_parts(
    start, place, sample, source, key_0, key_1, COUNTS: tl.constexpr, PER_COUNT: tl.constexpr
):  # fmt: skip
    """This program's counts, and the word that each equal part of theirs is taken from."""
    count = tl.program_id(0).to(tl.int64) * COUNTS + tl.arange(0, COUNTS)
    # numpy counts before it draws, so that its first words are those of the next count.
    a, b, c, d = _words(count + start + 1, place, sample, source, key_0, key_1, COUNTS)
    part = tl.arange(0, PER_COUNT)[None, :]
    quarter = part // (PER_COUNT // 4)
    word = tl.where(quarter < 2, tl.where(quarter < 1, a[:, None], b[:, None]),
                    tl.where(quarter < 3, c[:, None], d[:, None]))  # fmt: skip
    return count, word, part


@triton.jit
def _levels(
    start, place, sample, source, key_0, key_1, COUNTS: tl.constexpr, PER_COUNT: tl.constexpr
):  # fmt: skip
    """Where this program's numbers are, and their levels: a byte drawn, a byte counted."""
    count, word, part = _words_in_parts(
        start, place, sample, source, key_0, key_1, COUNTS, PER_COUNT
    )
    drawn = ((word >> (part % 8 * 8).to(tl.uint64)) & 0xFF).to(tl.int32)
    at = count[:, None] * PER_COUNT + part
    counted = ((at + start * PER_COUNT + sample) * STRIDE & 0xFF).to(tl.int32)
    return at, drawn * 256 + counted


@triton.jit
def _words(count, place, sample, source, key_0, key_1, COUNTS: tl.constexpr):
    """Four words of 64 bits for every count."""
    c0, c1 = _word(count, COUNTS), _word(place, COUNTS)
    c2, c3 = _word(sample, COUNTS), _word(source, COUNTS)
    k0, k1 = _word(key_0, COUNTS), _word(key_1, COUNTS)
    m0 = tl.full([COUNTS], MULTIPLIER_0, tl.uint64)
    m1 = tl.full([COUNTS], MULTIPLIER_1, tl.uint64)
    for _ in tl.static_range(ROUNDS):
        high_0, low_0 = tl.umulhi(c0, m0), c0 * m0
        high_1, low_1 = tl.umulhi(c2, m1), c2 * m1
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0 += tl.full([COUNTS], STEP_0, tl.uint64)
        k1 += tl.full([COUNTS], STEP_1, tl.uint64)
    return c0, c1, c2, c3


@triton.jit
def _word(value, COUNTS: tl.constexpr):
    wide = tl.zeros([COUNTS], tl.int64) + value
    return wide.to(tl.uint64, bitcast=True)
