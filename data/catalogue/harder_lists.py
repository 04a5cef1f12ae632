"""One pass over a list with the right memory: best segment, stack, subsequences, greedy choice. Some tests are large."""

from bisect import bisect_left

from data.problem import Family, integers

LIMIT = {"limit": ((50, 100, 1000), (70, 300))}


def _best_segment(p, n, x):
    """A segment's sum is the difference of two prefix sums."""
    best, total, lowest = x[0], 0, 0
    for value in x:
        total += value
        best = max(best, total - lowest)
        lowest = min(lowest, total)
    return best


def _next_greater(p, n, x):
    """From the right; a pointer leads from each place to the next greater one."""
    jump = [n] * n
    for k in range(n - 2, -1, -1):
        at = k + 1
        while at < n and x[at] <= x[k]:
            at = jump[at]
        jump[k] = at
    return [[x[at] if at < n else -1 for at in jump]]


def _longest_rise(p, n, x):
    """best[rank] = longest rise that ends at a value of that rank, as a tree of prefix maxima."""
    rank = {value: k + 1 for k, value in enumerate(sorted(set(x)))}
    tree = [0] * (len(rank) + 1)
    for value in x:
        at, longest = rank[value] - 1, 0
        while at:
            longest = max(longest, tree[at])
            at &= at - 1
        at = rank[value]
        while at < len(tree):
            tree[at] = max(tree[at], longest + 1)
            at += at & -at
    at, longest = len(rank), 0
    while at:
        longest = max(longest, tree[at])
        at &= at - 1
    return longest


def _intervals(rng, n, top, longest):
    starts = integers(rng, n, 0, top)
    return [n, *([start, start + rng.randint(1, longest)] for start in starts)]


def _most_talks(p, n, *talks):
    """Dynamic programming over the talks in order of their ends."""
    talks = sorted(talks, key=lambda talk: talk[1])
    ends = [end for _, end in talks]
    best = [0]
    for k, (start, _) in enumerate(talks):
        fits = bisect_left(ends, start + 1, 0, k)
        best.append(max(best[-1], best[fits] + 1))
    return best[-1]


FAMILIES = (
    Family(
        name="best_segment",
        level="harder",
        wordings=(
            "Print the largest sum of a non-empty segment of consecutive numbers.",
            "Choose some numbers that stand next to each other, at least one, so that their sum is as large as possible.",
            "A trader's daily results are listed. Over which stretch of days was most earned in all? Print that sum.",
            "Find the maximum total over all contiguous non-empty parts of the list.",
        ),
        held_out_wordings=(
            "Among all non-empty blocks of neighbouring entries find the one with the greatest sum; print the sum.",
            "What is the most that one or more consecutive numbers of the list add up to?",
        ),
        input_format="The first line holds n (up to 100000). The second line holds n integers from -$limit to $limit.",
        output_format="The largest sum.",
        parameters=LIMIT,
        case=lambda rng, i, p: [5 + 2 * i, integers(rng, 5 + 2 * i, -p.limit, -1 if i == 3 else p.limit)],
        big_case=lambda rng, p: [100000, integers(rng, 100000, -9, 9)],
        answer=_best_segment,
        solution="""
            input()
            best = ending = None
            for v in map(int, input().split()):
                ending = v if ending is None or ending < 0 else ending + v
                best = ending if best is None or ending > best else best
            print(best)
            """,
        wrong=(
            "input()\nprint(sum(v for v in map(int, input().split()) if v > 0))",
            "input()\nprint(sum(map(int, input().split())))",
        ),
    ),
    Family(
        name="next_greater",
        level="harder",
        unseen=True,
        wordings=(
            "For each number print the first number to its right that is greater, or -1 if there is none.",
            "Replace every entry by the nearest greater entry after it; where no such entry exists, by -1.",
            "People stand in a line and look to the right. For each print the height of the first taller one, or -1.",
            "Find for each place the next place to the right that holds more, and print what it holds, else -1.",
        ),
        held_out_wordings=(
            "Which is the first larger value behind each entry? Print these values, and -1 where there is none.",
            "For every entry look to the right for the closest one that exceeds it. Print that one, or -1.",
        ),
        input_format="The first line holds n (up to 100000). The second line holds n integers from 1 to $limit.",
        output_format="n numbers on one line.",
        parameters=LIMIT,
        case=lambda rng, i, p: [5 + 2 * i, integers(rng, 5 + 2 * i, 1, min(p.limit, 8 + i))],
        big_case=lambda rng, p: [40000, sorted(integers(rng, 40000, 1, p.limit), reverse=True)],
        answer=_next_greater,
        solution="""
            n = int(input())
            x = list(map(int, input().split()))
            answer = [-1] * n
            waiting = []
            for i, v in enumerate(x):
                while waiting and x[waiting[-1]] < v:
                    answer[waiting.pop()] = v
                waiting.append(i)
            print(*answer)
            """,
        wrong=(
            """
            n = int(input())
            x = list(map(int, input().split()))
            print(*[max(x[i + 1:], default=-1) if max(x[i + 1:], default=-1) > x[i] else -1 for i in range(n)])
            """,
            """
            n = int(input())
            x = list(map(int, input().split())) + [-1]
            print(*[x[i + 1] if x[i + 1] > x[i] else -1 for i in range(n)])
            """,
        ),
    ),
    Family(
        name="longest_rise",
        level="harder",
        wordings=(
            "Delete numbers so that the rest is strictly increasing. How many can stay at most?",
            "Print the length of the longest strictly increasing subsequence.",
            "Choose places from left to right whose numbers grow at every step. How many can be chosen at most?",
            "How long is the longest subsequence in which each number is greater than the one before?",
        ),
        held_out_wordings=(
            "What is the greatest length of a strictly growing subsequence of the list?",
            "Keep as many numbers as possible, in order, so that each is larger than the last. Print how many.",
        ),
        input_format="The first line holds n (up to 20000). The second line holds n integers from 1 to $limit.",
        output_format="The length.",
        parameters=LIMIT,
        case=lambda rng, i, p: [7 + 2 * i, integers(rng, 7 + 2 * i, 1, p.limit)],
        big_case=lambda rng, p: [20000, integers(rng, 20000, 1, p.limit)],
        answer=_longest_rise,
        solution="""
            from bisect import bisect_left
            input()
            tails = []
            for v in map(int, input().split()):
                k = bisect_left(tails, v)
                tails[k:k + 1] = [v]
            print(len(tails))
            """,
        wrong=(
            """
            n = int(input())
            x = list(map(int, input().split()))
            best = run = 1
            for i in range(1, n):
                run = run + 1 if x[i] > x[i - 1] else 1
                best = max(best, run)
            print(best)
            """,
            """
            input()
            count = last = 0
            for v in map(int, input().split()):
                if v > last:
                    count += 1
                    last = v
            print(count)
            """,
        ),
    ),
    Family(
        name="most_talks",
        level="harder",
        unseen=True,
        wordings=(
            "Each talk has a start and an end. At most how many talks can one person hear completely, one after another?",
            "Choose as many of n intervals as possible so that no two overlap; touching is allowed. Print how many.",
            "One hall, n requests to use it from a to b. How many can be granted? One may start when another ends.",
            "What is the largest number of jobs that a machine can do, if each has a fixed start and end?",
        ),
        held_out_wordings=(
            "Pick the greatest number of intervals that have no inner point in common. Print that number.",
            "A viewer wants to see as many whole films as possible; a film may begin as another ends. How many?",
        ),
        input_format=(
            "The first line holds n (up to 10000). Each of the next n lines holds a and b, 0 <= a < b; a is at most $limit."
        ),
        output_format="The largest number.",
        parameters={"limit": ((60, 100, 1000), (80, 500))},
        case=lambda rng, i, p: _intervals(rng, 6 + 2 * i, p.limit, p.limit // rng.randint(2, 9)),
        big_case=lambda rng, p: _intervals(rng, 10000, p.limit, 30),
        answer=_most_talks,
        solution="""
            talks = [tuple(map(int, input().split())) for _ in range(int(input()))]
            count = free = 0
            for a, b in sorted(talks, key=lambda talk: talk[1]):
                if a >= free:
                    count += 1
                    free = b
            print(count)
            """,
        wrong=(
            """
            talks = [tuple(map(int, input().split())) for _ in range(int(input()))]
            count = free = 0
            for a, b in sorted(talks):
                if a >= free:
                    count += 1
                    free = b
            print(count)
            """,
            """
            talks = [tuple(map(int, input().split())) for _ in range(int(input()))]
            print(len(set(a for a, b in talks)))
            """,
        ),
    ),
)
