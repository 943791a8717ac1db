"""Which prompts of a batch begin alike, and how much is saved by reading their beginnings once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

LEAST_SAVED = 0.2
"""A group saves at least this share of its prompts' tokens; below, what sharing costs is about as much."""


class PrefixGroup(NamedTuple):
    """Prompts that begin with the same tokens.

    Args:
        length: how many tokens they share; every prompt has at least one more.
        rows: positions of the prompts.
    """

    length: int
    rows: list[int]


@dataclass
class _Node:
    """Prompts that share ``depth`` tokens, with the groups that save most of theirs."""

    depth: int
    parts: list[_Node] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    saved: int = 0
    groups: list[PrefixGroup] = field(default_factory=list)

    def close(self) -> None:
        """Choose: a part joins the others at this depth where that saves more than its own groups do."""
        self.rows = [row for part in self.parts for row in part.rows]
        joining = [part for part in self.parts if len(part.rows) * self.depth > part.saved]
        staying = [part for part in self.parts if len(part.rows) * self.depth <= part.saved]
        rows = [row for part in joining for row in part.rows]
        together = max(len(rows) - 1, 0) * self.depth
        if together <= sum(part.saved for part in joining):
            joining, staying, rows, together = [], self.parts, [], 0
        self.saved = together + sum(part.saved for part in staying)
        self.groups = [group for part in staying for group in part.groups]
        if rows:
            self.groups.append(PrefixGroup(self.depth, rows))
        self.parts = []


def prefix_groups(prompts: Sequence[Sequence[int]]) -> tuple[list[PrefixGroup], list[int]]:
    """Group prompts by their common beginnings so that few tokens are read.

    Sorted prompts form a tree whose nodes are common beginnings (the intervals of a suffix array). From the
    leaves up each node decides whether its prompts share what all of them have in common, or parts of them
    share more. A prompt is in one group at most, and a group's beginning is read whole.

    Args:
        prompts: token ids, not empty.

    Returns:
        groups of two prompts or more, and the positions of the prompts that are in none.
    """
    order = sorted(range(len(prompts)), key=lambda row: tuple(prompts[row]))
    stack: list[_Node] = []
    for place, row in enumerate(order):
        node = _Node(len(prompts[row]), rows=[row])
        after = _common(prompts[row], prompts[order[place + 1]]) if place + 1 < len(order) else -1
        while stack and stack[-1].depth > after:
            done = stack.pop()
            done.parts.append(node)
            done.close()
            node = done
        if after < 0:
            stack.append(node)
        elif stack and stack[-1].depth == after:
            stack[-1].parts.append(node)
        else:
            stack.append(_Node(after, [node]))
    groups = []
    for group in stack[0].groups if stack else []:
        tokens = sum(len(prompts[row]) for row in group.rows)
        if (len(group.rows) - 1) * group.length >= LEAST_SAVED * tokens:
            groups.append(PrefixGroup(group.length, sorted(group.rows)))
    grouped = {row for group in groups for row in group.rows}
    return sorted(groups, key=lambda group: group.rows), [
        row for row in range(len(prompts)) if row not in grouped
    ]


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens both begin with, the last token of each left out."""
    limit = min(len(first), len(second)) - 1
    return next((i for i in range(limit) if first[i] != second[i]), limit)
