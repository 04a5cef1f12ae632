"""Programs of three to ten lines on numbers: divisors, primes, windows, tables."""

from math import gcd

from data.problem import Family, integers

LIMIT = {"limit": ((50, 100, 1000), (70, 300))}


def _two_multiples(rng, i, p):
    common = rng.randint(2, p.limit)
    return [[common * rng.randint(2, 60), common * rng.randint(2, 60)]]


def _repeated_maximum(rng, i, p):
    x = integers(rng, 4 + i, 0, p.limit)
    x.append(max(x))
    rng.shuffle(x)
    return [x]


def _matrix(rng, i, p):
    rows, columns = rng.sample(range(2, 6), 2)
    return [[rows, columns], *(integers(rng, columns, 0, p.limit) for _ in range(rows))]


FAMILIES = (
    Family(
        name="greatest_common_divisor",
        level="easy",
        wordings=(
            "Print the greatest common divisor of a and b.",
            "Find the largest number that divides both a and b.",
            "A floor of a by b tiles is to be covered by equal squares, as large as possible. How long is their side?",
            "Given a and b, compute their greatest common factor.",
        ),
        held_out_wordings=(
            "Which is the greatest integer that both numbers are multiples of?",
            "Two ropes have lengths a and b. Cut both into pieces of one common length, as long as possible; print it.",
        ),
        input_format="Two integers a and b, at least 4 and at most 60 * $limit, on one line.",
        output_format="The greatest common divisor.",
        parameters={"limit": ((30, 100, 1000), (70, 5000))},
        case=_two_multiples,
        answer=lambda p, ab: gcd(*ab),
        solution="""
            a, b = map(int, input().split())
            while b:
                a, b = b, a % b
            print(a)
            """,
        wrong=(
            "a, b = map(int, input().split())\nprint(min(a, b))",
            "a, b = map(int, input().split())\nprint(abs(a - b))",
        ),
    ),
    Family(
        name="count_primes",
        level="easy",
        wordings=(
            "How many primes are there from 2 to n?",
            "Count the prime numbers that are not greater than n.",
            "A number is prime if it has exactly two divisors. Print how many numbers from 1 to n are prime.",
            "Given n, print the number of primes p with p <= n.",
        ),
        held_out_wordings=("Print how many primes do not exceed n.", "Find the number of prime numbers up to n."),
        input_format="One integer n from 10 to $limit.",
        output_format="The number of primes.",
        parameters={"limit": ((300, 1000, 2000), (500, 3000))},
        case=lambda rng, i, p: [rng.randint(10, p.limit if i > 1 else 40)],
        answer=lambda p, n: sum(all(k % d for d in range(2, int(k**0.5) + 1)) for k in range(2, n + 1)),
        solution="""
            n = int(input())
            composite = [False] * (n + 1)
            count = 0
            for k in range(2, n + 1):
                if not composite[k]:
                    count += 1
                    for m in range(k * k, n + 1, k):
                        composite[m] = True
            print(count)
            """,
        wrong=(
            "n = int(input())\nprint(sum(k % 2 for k in range(2, n + 1)))",
            """
            n = int(input())
            print(sum(all(k % d for d in range(2, int(k ** 0.5) + 1)) for k in range(1, n + 1)))
            """,
        ),
    ),
    Family(
        name="second_largest",
        level="easy",
        unseen=True,
        wordings=(
            "Print the second largest of the different values in the list.",
            "Find the greatest number that is smaller than the maximum.",
            "Equal results share a rank. Print the result of rank 2.",
            "Leave out every copy of the maximum and print the maximum of the rest.",
        ),
        held_out_wordings=(
            "Which value is the runner-up, if equal values count once?",
            "Print the largest value below the largest one.",
        ),
        input_format="One line with integers from 0 to $limit, not all equal.",
        output_format="The second largest value.",
        parameters=LIMIT,
        case=_repeated_maximum,
        answer=lambda p, x: max(n for n in x if n < max(x)),
        solution="print(sorted(set(map(int, input().split())))[-2])",
        wrong=(
            "print(sorted(map(int, input().split()))[-2])",
            "print(sorted(map(int, input().split()))[1])",
        ),
    ),
    Family(
        name="transpose",
        level="easy",
        unseen=True,
        wordings=(
            "Print the transposed matrix: its columns become rows.",
            "Swap the rows and columns of the table.",
            "Write the table so that its first column becomes the first line, and so on.",
            "Mirror the matrix at its main diagonal.",
        ),
        held_out_wordings=(
            "Turn every column of the matrix into a row, keeping their order.",
            "Print a table whose entry in row i and column j is the given one of row j and column i.",
        ),
        input_format="The first line holds r and c. Each of the next r lines holds c integers from 0 to $limit.",
        output_format="c lines with r numbers each.",
        parameters=LIMIT,
        case=_matrix,
        answer=lambda p, size, *rows: [[row[k] for row in rows] for k in range(size[1])],
        solution="""
            r, c = map(int, input().split())
            rows = [input().split() for _ in range(r)]
            for column in zip(*rows):
                print(*column)
            """,
        wrong=(
            """
            r, c = map(int, input().split())
            for _ in range(r):
                print(input())
            """,
            """
            r, c = map(int, input().split())
            for row in [input().split() for _ in range(r)][::-1]:
                print(*row)
            """,
        ),
    ),
    Family(
        name="tick_tock",
        level="easy",
        wordings=(
            "For each number from 1 to n print tick if $a divides it, tock if $b does, ticktock if both, else the number.",
            "Count to n, but say tick for multiples of $a, tock for multiples of $b and ticktock for multiples of both.",
            "Print 1 to n; multiples of $a become tick, those of $b tock, and those of both become ticktock.",
            "Two clocks strike every $a and every $b seconds. For seconds 1 to n print tick, tock, ticktock or the second.",
        ),
        held_out_wordings=(
            "Write the numbers 1 to n with tick in place of multiples of $a, tock for $b, ticktock for both.",
            "Say the numbers up to n. Divisible by $a is tick, by $b is tock, by both is ticktock.",
        ),
        input_format="One integer n from 10 to $limit.",
        output_format="n lines.",
        parameters={"a": ((2, 3), (4,)), "b": ((5, 7), (9,)), "limit": ((60, 80), (90, 120))},
        case=lambda rng, i, p: [rng.randint(p.a * p.b, p.limit) if i else p.a * p.b],
        answer=lambda p, n: ["tick" * (k % p.a == 0) + "tock" * (k % p.b == 0) or k for k in range(1, n + 1)],
        solution="""
            for k in range(1, int(input()) + 1):
                if k % $a == 0 and k % $b == 0:
                    print("ticktock")
                elif k % $a == 0:
                    print("tick")
                elif k % $b == 0:
                    print("tock")
                else:
                    print(k)
            """,
        wrong=(
            """
            for k in range(1, int(input()) + 1):
                if k % $a == 0:
                    print("tick")
                elif k % $b == 0:
                    print("tock")
                else:
                    print(k)
            """,
            """
            for k in range(int(input())):
                print("tick" * (k % $a == 0) + "tock" * (k % $b == 0) or k)
            """,
        ),
    ),
    Family(
        name="window_sums",
        level="easy",
        wordings=(
            "Print the sum of every $k neighbouring numbers, from left to right.",
            "A window of $k numbers slides over the list. Print the sum inside it at each position.",
            "For each stretch of $k consecutive numbers print its total.",
            "Rain was measured daily. Print the rainfall of every period of $k days in a row.",
        ),
        held_out_wordings=(
            "For every block of $k consecutive entries, overlapping ones too, print the sum.",
            "Slide over the list and add up each $k numbers that stand next to one another.",
        ),
        input_format="The first line holds n, n > $k. The second line holds n integers from 1 to $limit.",
        output_format="n - $k + 1 sums on one line.",
        parameters={"k": ((2, 3, 4), (5, 6)), **LIMIT},
        case=lambda rng, i, p: [p.k + 2 + i, integers(rng, p.k + 2 + i, 1, p.limit)],
        answer=lambda p, n, x: [[sum(x[:end]) - sum(x[: end - p.k]) for end in range(p.k, n + 1)]],
        solution="""
            n = int(input())
            x = list(map(int, input().split()))
            print(*[sum(x[i:i + $k]) for i in range(n - $k + 1)])
            """,
        wrong=(
            """
            n = int(input())
            x = list(map(int, input().split()))
            print(*[sum(x[i:i + $k]) for i in range(n - $k)])
            """,
            """
            n = int(input())
            x = list(map(int, input().split()))
            print(*[sum(x[i:i + $k]) for i in range(0, n - $k + 1, $k)])
            """,
        ),
    ),
    Family(
        name="without_repeats",
        level="easy",
        wordings=(
            "Print the numbers without repeats, each at the place where it first occurs.",
            "Remove from the list every number that has occurred before.",
            "Keep only the first copy of each value; the order stays.",
            "Guests sign a list, some more than once. Print it with each guest's first signature only.",
        ),
        held_out_wordings=(
            "Drop all later copies of a value and print what is left, in order.",
            "Print each different number once, ordered by first appearance.",
        ),
        input_format="One line with integers from 1 to $limit.",
        output_format="The remaining numbers on one line.",
        parameters={"limit": ((9, 12, 20), (15, 30))},
        case=lambda rng, i, p: [integers(rng, 6 + 2 * i, 1, min(p.limit, 6 + i))],
        answer=lambda p, x: [list(dict.fromkeys(x))],
        solution="""
            kept = []
            for n in input().split():
                if n not in kept:
                    kept.append(n)
            print(*kept)
            """,
        wrong=(
            "print(*sorted(set(map(int, input().split()))))",
            "print(*input().split())",
            """
            x = input().split()
            print(*[n for i, n in enumerate(x) if i == 0 or n != x[i - 1]])
            """,
        ),
    ),
)
