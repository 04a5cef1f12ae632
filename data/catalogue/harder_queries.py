"""Prefix sums, binary search, hashing, intervals. Problems now and then have a test with 10,000 numbers or more."""

from bisect import bisect_left
from collections import Counter

from data.problem import Family, integers

LIMIT = {"limit": ((50, 100, 1000), (70, 300))}


def _queries(rng, n, count):
    return [sorted(integers(rng, 2, 1, n)) for _ in range(count)]


def _range_sums(p, head, x, *queries):
    """Small lists by slices; long ones by sums of blocks of 500 and what is left at their ends."""
    size = 500
    blocks = [sum(x[k : k + size]) for k in range(0, len(x), size)]
    sums = []
    for low, high in queries:
        first, last = -(-(low - 1) // size), high // size
        if first >= last:
            sums.append(sum(x[low - 1 : high]))
        else:
            sums.append(sum(x[low - 1 : first * size]) + sum(blocks[first:last]) + sum(x[last * size : high]))
    return sums


def _sorted_list_and_values(rng, n, count, top):
    x = sorted(integers(rng, n, 1, top))
    return [[n, count], x, [rng.choice(x) if rng.random() < 0.7 else rng.randint(1, top + 1) for _ in range(count)]]


def _sum_pairs(p, head, x):
    counts = Counter(x)
    pairs = sum(k * counts[head[1] - v] for v, k in counts.items() if 2 * v != head[1])
    return pairs // 2 + sum(k * (k - 1) // 2 for v, k in counts.items() if 2 * v == head[1])


def _intervals(rng, n, top, longest):
    starts = integers(rng, n, 0, top)
    return [n, *([start, start + rng.randint(1, longest)] for start in starts)]


def _covered(p, n, *intervals):
    """Walk over the end points and count how many intervals are open."""
    points = sorted([(low, 1) for low, _ in intervals] + [(high, -1) for _, high in intervals])
    total = opened = previous = 0
    for point, change in points:
        total += (point - previous) * (opened > 0)
        opened += change
        previous = point
    return total


FAMILIES = (
    Family(
        name="range_sums",
        level="harder",
        wordings=(
            "Answer q questions: what is the sum of the list from place l to place r, both included?",
            "For each of q pairs l, r print x_l + ... + x_r. Places count from 1.",
            "A shop's daily takings are known. For each of q periods from day l to day r print what was taken in all.",
            "Given a list and q segments of it, print each segment's total. Both ends belong to it.",
        ),
        held_out_wordings=(
            "Print the sums of q parts of the list; a part goes from its l-th to its r-th number, ends included.",
            "There are q questions about a list of n numbers. Each asks for the total of the entries l to r.",
        ),
        input_format=(
            "The first line holds n and q (up to 100000). The second line holds n integers from 1 to $limit. "
            "Each of the next q lines holds l and r, 1 <= l <= r <= n."
        ),
        output_format="q sums, one a line.",
        parameters=LIMIT,
        case=lambda rng, i, p: [[5 + i, 3 + i % 3], integers(rng, 5 + i, 1, p.limit), *_queries(rng, 5 + i, 3 + i % 3)],
        big_case=lambda rng, p: [[50000, 20000], integers(rng, 50000, 1, 9), *_queries(rng, 50000, 20000)],
        answer=_range_sums,
        solution="""
            import sys
            n, q, *rest = map(int, sys.stdin.read().split())
            prefix = [0]
            for value in rest[:n]:
                prefix.append(prefix[-1] + value)
            for k in range(n, n + 2 * q, 2):
                print(prefix[rest[k + 1]] - prefix[rest[k] - 1])
            """,
        wrong=(
            """
            n, q = map(int, input().split())
            x = list(map(int, input().split()))
            for _ in range(q):
                l, r = map(int, input().split())
                print(sum(x[l:r]))
            """,
            """
            n, q = map(int, input().split())
            x = list(map(int, input().split()))
            for _ in range(q):
                l, r = map(int, input().split())
                print(sum(x[l - 1:r - 1]))
            """,
        ),
    ),
    Family(
        name="count_smaller",
        level="harder",
        wordings=(
            "A sorted list is given. For each of q values print how many numbers of the list are smaller than it.",
            "For each value v print the number of list entries below v. The list is in ascending order.",
            "The runners' times are sorted. For each of q other times print how many runners were strictly faster.",
            "Find for each of q values the number of entries of a sorted list that are less than it.",
        ),
        held_out_wordings=(
            "Given an ascending list, answer q questions: how many of its numbers are below v?",
            "How many entries of the sorted list lie strictly under each of the q values?",
        ),
        input_format=(
            "The first line holds n and q (up to 50000). The second line holds n integers from 1 to $limit in "
            "ascending order. The third line holds the q values."
        ),
        output_format="q counts on one line.",
        parameters={"limit": ((30000, 50000, 90000), (40000, 80000))},
        case=lambda rng, i, p: _sorted_list_and_values(rng, 5 + 2 * i, 3 + i % 3, 8 + 4 * i),
        big_case=lambda rng, p: _sorted_list_and_values(rng, 30000, 30000, p.limit),
        answer=lambda p, head, x, values: [[bisect_left(x, v) for v in values]],
        solution="""
            n, q = map(int, input().split())
            x = list(map(int, input().split()))
            counts = []
            for v in map(int, input().split()):
                low, high = 0, n
                while low < high:
                    middle = (low + high) // 2
                    if x[middle] < v:
                        low = middle + 1
                    else:
                        high = middle
                counts.append(low)
            print(*counts)
            """,
        wrong=(
            """
            input()
            x = list(map(int, input().split()))
            print(*[sum(n <= v for n in x) for v in map(int, input().split())])
            """,
            """
            input()
            x = list(map(int, input().split()))
            print(*[sum(n > v for n in x) for v in map(int, input().split())])
            """,
        ),
    ),
    Family(
        name="pairs_with_sum",
        level="harder",
        wordings=(
            "Count the pairs of places i < j with x_i + x_j = t.",
            "How many ways are there to choose two entries of the list that make t together?",
            "Two coins pay exactly t. Given the coins in a purse, in how many ways can two of them be picked?",
            "Print the number of pairs of different places whose numbers sum to t.",
        ),
        held_out_wordings=(
            "In how many ways can two numbers at different places of the list add up to t?",
            "Find how many pairs i < j satisfy x_i + x_j = t.",
        ),
        input_format="The first line holds n (up to 50000) and t. The second line holds n integers from 1 to $limit.",
        output_format="The number of pairs.",
        parameters={"limit": ((10, 12, 20), (15, 30))},
        case=lambda rng, i, p: [[7 + 2 * i, rng.randint(4, 12)], integers(rng, 7 + 2 * i, 1, min(p.limit, 6 + i))],
        big_case=lambda rng, p: [[50000, rng.randint(8, 12)], integers(rng, 50000, 1, p.limit)],
        answer=_sum_pairs,
        solution="""
            n, t = map(int, input().split())
            seen = {}
            pairs = 0
            for v in map(int, input().split()):
                pairs += seen.get(t - v, 0)
                seen[v] = seen.get(v, 0) + 1
            print(pairs)
            """,
        wrong=(
            """
            n, t = map(int, input().split())
            x = list(map(int, input().split()))
            print(sum(a + b == t for a in x for b in x))
            """,
            """
            n, t = map(int, input().split())
            x = set(map(int, input().split()))
            print(sum(t - v in x for v in x) // 2)
            """,
        ),
    ),
    Family(
        name="covered_length",
        level="harder",
        wordings=(
            "Intervals lie on a line and may overlap. Print the total length that at least one of them covers.",
            "How much of the line is covered by the union of n intervals?",
            "A lamp burns from second a to second b. For how many seconds does at least one of n lamps burn?",
            "Paint n stretches of a fence, some of them twice. How much of the fence is painted in the end?",
        ),
        held_out_wordings=(
            "Print the length of the union of n intervals.",
            "Guards are on duty from a to b. How long is at least one of the n guards on duty, in all?",
        ),
        input_format=(
            "The first line holds n (up to 10000). Each of the next n lines holds a and b, 0 <= a < b; a is at most $limit."
        ),
        output_format="The covered length.",
        parameters={"limit": ((60, 100, 1000), (80, 500))},
        case=lambda rng, i, p: _intervals(rng, 4 + i, p.limit, p.limit // 5),
        big_case=lambda rng, p: _intervals(rng, 10000, p.limit, 9),
        answer=_covered,
        solution="""
            spans = sorted(tuple(map(int, input().split())) for _ in range(int(input())))
            total = end = 0
            for a, b in spans:
                if b > end:
                    total += b - max(a, end)
                    end = b
            print(total)
            """,
        wrong=(
            """
            spans = [tuple(map(int, input().split())) for _ in range(int(input()))]
            print(sum(b - a for a, b in spans))
            """,
            """
            spans = [tuple(map(int, input().split())) for _ in range(int(input()))]
            print(max(b for a, b in spans) - min(a for a, b in spans))
            """,
        ),
    ),
)
