"""Lists, numbers with their nouns, and runs of indices as text. The module uses the standard library only."""

from collections.abc import Iterable


def listed(words: Iterable[str], most: int | None = None) -> str:
    """Returns a list in words: ``a``, ``a and b``, ``a, b and c``; of more than ``most`` words ``a, b and 7 more``."""
    every = list(words)
    if most is not None and len(every) > most:
        every = [*every[:most], f"{len(every) - most} more"]
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: ``1 GPU``, ``2 GPUs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ranges(indices: Iterable[int]) -> str:
    """Returns indices as runs: ``0-3, 6`` for 0, 1, 2, 3 and 6; two in a row stay ``0, 1``."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
