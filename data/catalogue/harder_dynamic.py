"""Dynamic programming over amounts, words and weights."""

from functools import lru_cache

from data.problem import Family, letters


def _coins(rng, i, p):
    """Coins with which taking the largest one first goes wrong; in test 3 only even coins for an odd amount."""
    if i == 3:
        return [[3, 2 * rng.randint(20, p.limit // 2) - 1], [2 * k for k in rng.sample(range(2, 15), 3)]]
    return [[4, rng.randint(20, p.limit)], [1, *rng.sample(range(3, 30), 3)]]


def _fewest_coins(p, head, coins):
    """Sets of amounts that can be paid with 0, 1, 2, ... coins."""
    amounts, used, seen = {0}, 0, {0}
    while head[1] not in amounts:
        amounts = {a + coin for a in amounts for coin in coins if a + coin <= head[1]} - seen
        if not amounts:
            return -1
        seen |= amounts
        used += 1
    return used


def _common_length(p, first, second):
    @lru_cache(None)
    def longest(a, b):
        if a == len(first) or b == len(second):
            return 0
        if first[a] == second[b]:
            return 1 + longest(a + 1, b + 1)
        return max(longest(a + 1, b), longest(a, b + 1))

    return longest(0, 0)


def _load(rng, i, p):
    items = [[rng.randint(2, 12), rng.randint(1, p.limit)] for _ in range(4 + i)]
    return [[len(items), rng.randint(12, 15 + 2 * i)], *items]


def _best_load(p, head, *items):
    """All loads that can be packed: weight -> greatest value."""
    loads = {0: 0}
    for weight, value in items:
        added = {w + weight: v + value for w, v in loads.items() if w + weight <= head[1]}
        loads = {w: max(loads.get(w, 0), added.get(w, 0)) for w in {*loads, *added}}
    return max(loads.values())


FAMILIES = (
    Family(
        name="fewest_coins",
        level="harder",
        wordings=(
            "Pay the amount exactly with as few coins as possible. There are plenty of coins of each kind. Print the "
            "number of coins, or -1 if it cannot be paid.",
            "What is the smallest number of coins whose values sum to the amount? Each value may be used any number of "
            "times. If no coins do, print -1.",
            "A machine gives change with the fewest coins; it never runs out of any. Print how many it gives, or -1.",
            "Write the amount as a sum of coin values with as few terms as possible. Print the number of terms, or -1.",
        ),
        held_out_wordings=(
            "At least how many coins are needed for the amount, if every kind is available without limit? Print -1 if "
            "it is impossible.",
            "Find the least count of coins, of the given kinds and with repeats, that make up the amount; -1 if none do.",
        ),
        input_format="The first line holds the number of kinds and the amount (up to $limit), the second line the values.",
        output_format="The number of coins, or -1.",
        parameters={"limit": ((100, 200, 300), (150, 400))},
        case=_coins,
        answer=_fewest_coins,
        solution="""
            kinds, amount = map(int, input().split())
            coins = list(map(int, input().split()))
            best = [0] + [amount + 1] * amount
            for a in range(1, amount + 1):
                for coin in coins:
                    if coin <= a:
                        best[a] = min(best[a], best[a - coin] + 1)
            print(best[amount] if best[amount] <= amount else -1)
            """,
        wrong=(
            """
            kinds, amount = map(int, input().split())
            used = 0
            for coin in sorted(map(int, input().split()), reverse=True):
                used += amount // coin
                amount %= coin
            print(used if amount == 0 else -1)
            """,
            """
            kinds, amount = map(int, input().split())
            print(amount // max(map(int, input().split())))
            """,
        ),
    ),
    Family(
        name="common_subsequence",
        level="harder",
        wordings=(
            "Print the length of the longest common subsequence of two words.",
            "Delete letters from both words until they are equal. How long can the remaining word be at most?",
            "How many letters can be matched between two words if the matches must not cross?",
            "Find the greatest length of a word that can be obtained from each of the two words by deleting letters.",
        ),
        held_out_wordings=(
            "What is the largest number of letters that appear in both words in the same order, with gaps allowed?",
            "Strike letters out of the two words so that the same word is left. Print its greatest possible length.",
        ),
        input_format="Two lines with one word each, up to $limit lower-case letters.",
        output_format="The length.",
        parameters={"limit": ((40, 50, 60), (45, 70))},
        case=lambda rng, i, p: [letters(rng, min(6 + 4 * i, p.limit), "abcd"), letters(rng, 7 + 3 * i, "abcd")],
        answer=_common_length,
        solution="""
            a, b = input(), input()
            row = [0] * (len(b) + 1)
            for c in a:
                above = 0
                for j, d in enumerate(b, 1):
                    above, row[j] = row[j], above + 1 if c == d else max(row[j], row[j - 1])
            print(row[-1])
            """,
        wrong=(
            """
            a, b = input(), input()
            print(sum(min(a.count(c), b.count(c)) for c in set(a)))
            """,
            """
            a, b = input(), input()
            print(max(k for k in range(len(a) + 1) for i in range(len(a)) if a[i:i + k] in b and i + k <= len(a)))
            """,
        ),
    ),
    Family(
        name="best_load",
        level="harder",
        wordings=(
            "Choose items whose weights sum to at most C so that their values sum to as much as possible. Each item can "
            "be taken once.",
            "A rucksack carries weight C. What is the greatest total value of items packed in it, each at most once?",
            "A van takes up to C kilograms. Select parcels, each with a weight and a fee, so that the fees sum to the most.",
            "Find the maximum value of a subset of the items with total weight not above C.",
        ),
        held_out_wordings=(
            "Pick a set of items, none of them twice, that weighs at most C and is worth as much as possible.",
            "With C hours to spend, choose tasks (hours, reward), each at most once, for the highest total reward.",
        ),
        input_format="The first line holds n and C. Each of the next n lines holds a weight and a value of 1 to $limit.",
        output_format="The greatest total value.",
        parameters={"limit": ((30, 50, 100), (40, 70))},
        case=_load,
        answer=_best_load,
        solution="""
            n, capacity = map(int, input().split())
            best = [0] * (capacity + 1)
            for _ in range(n):
                weight, value = map(int, input().split())
                for c in range(capacity, weight - 1, -1):
                    best[c] = max(best[c], best[c - weight] + value)
            print(best[capacity])
            """,
        wrong=(
            """
            n, capacity = map(int, input().split())
            items = [tuple(map(int, input().split())) for _ in range(n)]
            total = 0
            for weight, value in sorted(items, key=lambda item: -item[1] / item[0]):
                if weight <= capacity:
                    capacity -= weight
                    total += value
            print(total)
            """,
            """
            n, capacity = map(int, input().split())
            best = [0] * (capacity + 1)
            for _ in range(n):
                weight, value = map(int, input().split())
                for c in range(weight, capacity + 1):
                    best[c] = max(best[c], best[c - weight] + value)
            print(best[capacity])
            """,
        ),
    ),
)
