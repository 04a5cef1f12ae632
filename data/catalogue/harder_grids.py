"""Mazes, regions and routes on a grid of . and #."""

from functools import lru_cache

from data.problem import Family

WALL = "#"


def _grid(rng, rows, columns, share):
    return [[rows, columns], *("".join(".#"[rng.random() < share] for _ in range(columns)) for _ in range(rows))]


def _maze(rng, rows, columns, share):
    """Both corners are free."""
    size, *lines = _grid(rng, rows, columns, share)
    return [size, "." + lines[0][1:], *lines[1:-1], lines[-1][:-1] + "."]


def _neighbours(row, column):
    return ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1))


def _shortest_way(p, size, *lines):
    """Grow the set of reached cells by one step at a time."""
    goal = (size[0] - 1, size[1] - 1)
    unreached = {(r, c) for r, line in enumerate(lines) for c, cell in enumerate(line) if cell != WALL} - {(0, 0)}
    border, steps = {(0, 0)}, 0
    while border and goal not in border:
        border = {cell for at in border for cell in _neighbours(*at)} & unreached
        unreached -= border
        steps += 1
    return steps if border else -1


def _maze_with_a_way(rng, i, p):
    """Test 4 may have none; in most others the way goes back at least once, so that it is longer than the direct one."""
    rows, columns = 5 + i % 5, 4 + (i + 2) % 6
    while True:
        case = _maze(rng, rows, columns, 0.7 if i == 4 else 0.35)
        if i == 4 or _shortest_way(p, *case) >= rows + columns - 2 + 2 * (i % 4 > 0):
            return case


def _count_islands(p, size, *lines):
    """Join neighbouring land cells into sets (union by representative)."""
    land = {(r, c) for r, line in enumerate(lines) for c, cell in enumerate(line) if cell == WALL}
    parent = {cell: cell for cell in land}

    def root(cell):
        while parent[cell] != cell:
            parent[cell] = parent[parent[cell]]
            cell = parent[cell]
        return cell

    for cell in land:
        for other in _neighbours(*cell):
            if other in land:
                parent[root(cell)] = root(other)
    return len({root(cell) for cell in land})


def _count_routes(p, size, *lines):
    """From the goal backwards, by memory."""

    @lru_cache(None)
    def routes(r, c):
        if r >= size[0] or c >= size[1] or lines[r][c] == WALL:
            return 0
        return 1 if (r + 1, c + 1) == tuple(size) else routes(r + 1, c) + routes(r, c + 1)

    return routes(0, 0) % p.modulus


FAMILIES = (
    Family(
        name="maze",
        level="harder",
        wordings=(
            "A grid has free cells (.) and walls (#). How many steps up, down, left or right lead from the top left "
            "cell to the bottom right one, at least? Print -1 if there is no way.",
            "Find the length of the shortest way through the maze, from its first cell to its last. A step goes to a "
            "free cell that shares a side. If the goal cannot be reached, print -1.",
            "A robot starts in the upper left corner and wants to get to the lower right one; it moves to neighbouring "
            "cells without #. Print the smallest number of moves, or -1.",
            "Cells with # are blocked. Print the fewest moves between the two opposite corners (top left, bottom "
            "right), or -1 if they are not connected.",
        ),
        held_out_wordings=(
            "What is the least number of moves from the top left to the bottom right of the map, if # cannot be "
            "entered and moves go to one of four neighbours? Print -1 if it cannot be done.",
            "Print the length of a shortest path between the first and the last cell of the grid that avoids #, or -1.",
        ),
        input_format=(
            "The first line holds the number of rows and of columns, both up to $most. Each further line is one row. "
            "The two corners are free."
        ),
        output_format="The number of steps, or -1.",
        parameters={"most": ((80, 100), (90, 120))},
        case=_maze_with_a_way,
        big_case=lambda rng, p: _maze(rng, p.most, p.most, 0.3),
        answer=_shortest_way,
        solution="""
            from collections import deque
            rows, columns = map(int, input().split())
            grid = [input() for _ in range(rows)]
            distance = {(0, 0): 0}
            queue = deque([(0, 0)])
            while queue:
                r, c = queue.popleft()
                for a, b in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
                    if 0 <= a < rows and 0 <= b < columns and grid[a][b] == "." and (a, b) not in distance:
                        distance[a, b] = distance[r, c] + 1
                        queue.append((a, b))
            print(distance.get((rows - 1, columns - 1), -1))
            """,
        wrong=(
            "rows, columns = map(int, input().split())\nprint(rows + columns - 2)",
            """
            rows, columns = map(int, input().split())
            print(sum(input().count(".") for _ in range(rows)) - 1)
            """,
            "print(-1)",
        ),
    ),
    Family(
        name="islands",
        level="harder",
        unseen=True,
        wordings=(
            "Land cells (#) that share a side belong to the same island. Count the islands on the map.",
            "How many connected groups of # are there? Cells are connected if they share a side, not only a corner.",
            "Print the number of separate regions of #, where regions grow up, down, left and right.",
            "Stains on a cloth are marked #. Marks that touch along a side are one stain. How many stains are there?",
        ),
        held_out_wordings=(
            "Count the maximal sets of # cells that are linked through common sides.",
            "Into how many pieces does the land # fall, if only cells side by side hold together?",
        ),
        input_format=(
            "The first line holds the number of rows and of columns, both up to $most. Each further line is one row of . and #."
        ),
        output_format="The number of islands.",
        parameters={"most": ((80, 100), (90, 120))},
        case=lambda rng, i, p: _grid(rng, 4 + i % 5, 4 + (i + 2) % 6, rng.choice((0.3, 0.4, 0.5))),
        big_case=lambda rng, p: _grid(rng, p.most, p.most, 0.45),
        answer=_count_islands,
        solution="""
            rows, columns = map(int, input().split())
            grid = [list(input()) for _ in range(rows)]
            count = 0
            for r in range(rows):
                for c in range(columns):
                    if grid[r][c] == "#":
                        count += 1
                        stack = [(r, c)]
                        while stack:
                            a, b = stack.pop()
                            if 0 <= a < rows and 0 <= b < columns and grid[a][b] == "#":
                                grid[a][b] = "."
                                stack += [(a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)]
            print(count)
            """,
        wrong=(
            "rows, columns = map(int, input().split())\nprint(sum(input().count('#') for _ in range(rows)))",
            """
            rows, columns = map(int, input().split())
            grid = [list(input()) for _ in range(rows)]
            count = 0
            for r in range(rows):
                for c in range(columns):
                    if grid[r][c] == "#":
                        count += 1
                        stack = [(r, c)]
                        while stack:
                            a, b = stack.pop()
                            if 0 <= a < rows and 0 <= b < columns and grid[a][b] == "#":
                                grid[a][b] = "."
                                stack += [(a + i, b + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            print(count)
            """,
        ),
    ),
    Family(
        name="grid_routes",
        level="harder",
        wordings=(
            "A token moves right or down from the top left to the bottom right cell and never enters #. In how many "
            "ways can it go? Print the number modulo $modulus.",
            "Count the monotone routes (steps right and down) between the two corners that avoid the cells #, modulo $modulus.",
            "A worker walks only east (right) and south (down), around building sites #. Print the number of possible "
            "ways from the first to the last cell, modulo $modulus.",
            "How many sequences of moves right and down lead through free cells (.) from the upper left to the lower "
            "right corner? Give the count modulo $modulus.",
        ),
        held_out_wordings=(
            "Find the number of paths from top left to bottom right, made of steps down and right over cells without "
            "#. Print it modulo $modulus.",
            "Moving right or down only and keeping off #, how many ways are there across the grid? Answer modulo $modulus.",
        ),
        input_format=(
            "The first line holds the number of rows and of columns, both up to 100. Each further line is one row of . and #. "
            "The two corners are free."
        ),
        output_format="The number of ways modulo $modulus.",
        parameters={"modulus": ((1009, 10007, 100003), (5003, 1000003))},
        case=lambda rng, i, p: _maze(rng, 3 + i, 4 + i, 0.12),
        answer=_count_routes,
        solution="""
            rows, columns = map(int, input().split())
            ways = [0] * columns
            ways[0] = 1
            for _ in range(rows):
                line = input()
                for c in range(columns):
                    if line[c] == "#":
                        ways[c] = 0
                    elif c:
                        ways[c] = (ways[c] + ways[c - 1]) % $modulus
            print(ways[-1])
            """,
        wrong=(
            """
            from math import comb
            rows, columns = map(int, input().split())
            print(comb(rows + columns - 2, rows - 1) % $modulus)
            """,
            """
            rows, columns = map(int, input().split())
            print(sum(input().count(".") for _ in range(rows)) % $modulus)
            """,
        ),
    ),
)
