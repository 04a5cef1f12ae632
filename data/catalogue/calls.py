"""Call-based tasks: the program defines a function, or a class Solution with a method, and prints nothing."""

from data.problem import Family, integers, letters

LIMIT = {"limit": ((50, 100, 1000), (70, 300))}


def _triples(rng, i, p):
    """Sides of triangles; every other triple just fails."""
    triples = []
    for k in range(rng.randint(4, 6)):
        a, b = sorted(integers(rng, 2, 2, p.limit))
        triples.append(rng.sample([a, b, a + b - 1 if k % 2 else a + b + rng.randint(0, 2)], 3))
    rng.shuffle(triples)
    return [triples]


def _roman(p, n):
    """Digit by digit."""
    text = ""
    for one, five, ten, unit in (("C", "D", "M", 100), ("X", "L", "C", 10), ("I", "V", "X", 1)):
        patterns = ("", one, one * 2, one * 3, one + five, five, five + one, five + one * 2, five + one * 3, one + ten)
        text += patterns[n // unit % 10]
    return text


def _rotated(rng, i, p):
    word = letters(rng, p.size + i, "abcd"[: 3 + i % 2])
    shift = rng.randrange(1, len(word))
    turned = word[shift:] + word[:shift]
    return [word, turned if i % 4 < 3 else letters(rng, len(word), "ab") + "z"]


FAMILIES = (
    Family(
        name="count_multiples",
        level="trivial",
        fn_name="count_multiples",
        signature="nums, k",
        wordings=(
            "Return how many of the numbers are divisible by k.",
            "Count the multiples of k in the list nums.",
            "Given a list nums and an integer k, return the number of entries that k divides.",
            "How many entries of nums leave no remainder when divided by k?",
        ),
        held_out_wordings=("Find the number of multiples of k among nums.", "Return the count of nums that k divides."),
        parameters=LIMIT,
        case=lambda rng, i, p: [integers(rng, 5 + i, 1, p.limit), rng.randint(2, 4)],
        answer=lambda p, nums, k: len([n for n in nums if n // k * k == n]),
        solution="""
            def count_multiples(nums, k):
                return sum(n % k == 0 for n in nums)
            """,
        wrong=(
            "def count_multiples(nums, k):\n    return nums.count(k)",
            "def count_multiples(nums, k):\n    return sum(n % k != 0 for n in nums)",
        ),
    ),
    Family(
        name="running_maximum",
        level="easy",
        fn_name="runningMaximum",
        signature="nums",
        in_class=True,
        wordings=(
            "Return a list of the same length whose entry i is the largest of the first i + 1 numbers.",
            "For every place of nums, find the maximum of all numbers up to it. Return these maxima.",
            "A gauge remembers the highest level so far. Given the levels nums, return what it shows after each one.",
            "Replace each number by the greatest one that has occurred until then and return the list.",
        ),
        held_out_wordings=(
            "Return, for each prefix of nums, its maximum.",
            "After each jump the record so far is announced. Given the jumps nums, return all announcements.",
        ),
        parameters=LIMIT,
        case=lambda rng, i, p: [integers(rng, 4 + i, -p.limit, p.limit)],
        answer=lambda p, nums: [max(nums[:end]) for end in range(1, len(nums) + 1)],
        solution="""
            class Solution:
                def runningMaximum(self, nums):
                    result = []
                    for n in nums:
                        result.append(n if not result or n > result[-1] else result[-1])
                    return result
            """,
        wrong=(
            "class Solution:\n    def runningMaximum(self, nums):\n        return max(nums)",
            "class Solution:\n    def runningMaximum(self, nums):\n        return sorted(nums)",
        ),
    ),
    Family(
        name="triangles",
        level="easy",
        fn_name="triangles",
        signature="triples",
        wordings=(
            "For each triple of lengths tell whether they are the sides of a triangle: each is less than the other two "
            "together. Return a list of booleans.",
            "Three sticks form a triangle if the longest is shorter than the sum of the others. Check all triples and "
            "return a list of True and False.",
            "Return one boolean for each triple: can a triangle of positive area have these sides?",
            "Given triples of positive lengths, return a list that holds True where a proper triangle is possible and "
            "False elsewhere.",
        ),
        held_out_wordings=(
            "Which triples satisfy the strict triangle inequality? Return a list of booleans.",
            "Decide for every triple whether a triangle with these three sides exists that is not flat; return booleans.",
        ),
        parameters={"limit": ((10, 20, 50), (15, 100))},
        case=_triples,
        answer=lambda p, triples: [2 * max(t) < sum(t) for t in triples],
        solution="""
            def triangles(triples):
                result = []
                for triple in triples:
                    a, b, c = sorted(triple)
                    result.append(a + b > c)
                return result
            """,
        wrong=(
            "def triangles(triples):\n    return [a + b > c for a, b, c in triples]",
            "def triangles(triples):\n    return [True] * len(triples)",
        ),
    ),
    Family(
        name="to_roman",
        level="easy",
        fn_name="to_roman",
        signature="n",
        wordings=(
            "Return the Roman numeral of n, 1 <= n <= $limit, with IV, IX, XL, XC, CD and CM for 4, 9, 40, 90, 400, 900.",
            "Write the number n (1 to $limit) in Roman numerals, in the usual subtractive form.",
            "A stone mason carves numbers as Roman numerals: XIV is 14, XC is 90. Given n up to $limit, return the text.",
            "Convert n from 1 to $limit into a Roman numeral. 4 is IV and not IIII, 9 is IX, and so on.",
        ),
        held_out_wordings=(
            "Given n up to $limit, return how the Romans' numerals write it, with subtraction as in IV and XL.",
            "Translate the integer n (at most $limit) to its standard Roman numeral.",
        ),
        parameters={"limit": ((200, 500, 899), (700, 999))},
        case=lambda rng, i, p: [rng.randint(1, p.limit)],
        answer=_roman,
        solution="""
            def to_roman(n):
                values = ((900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
                          (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
                text = ""
                for value, numeral in values:
                    text += numeral * (n // value)
                    n %= value
                return text
            """,
        wrong=(
            """
            def to_roman(n):
                text = ""
                for value, numeral in ((500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")):
                    text += numeral * (n // value)
                    n %= value
                return text
            """,
            "def to_roman(n):\n    return str(n)",
        ),
    ),
    Family(
        name="rotation",
        level="easy",
        fn_name="rotation",
        signature="s, t",
        in_class=True,
        wordings=(
            "Moving the first letter of s to its end is one turn. Return the smallest number of turns that make s equal "
            "to t, or -1 if no number does.",
            "Return the least k >= 0 so that s without its first k letters, followed by these letters, is t; else -1.",
            "A ring of letters reads s from the mark. How many places must the mark move forward at least to read t? "
            "Return -1 if that never happens.",
            "By how many letters must s be rotated to the left to become t? Return the smallest answer, or -1.",
        ),
        held_out_wordings=(
            "Return how often, at least, the front letter of s has to go to the back until t is reached, or -1.",
            "Find the smallest left rotation that turns s into t and return its size; return -1 if there is none.",
        ),
        parameters={"size": ((4,), (5,))},
        case=_rotated,
        answer=lambda p, s, t: (s + s).find(t) if len(s) == len(t) else -1,
        solution="""
            class Solution:
                def rotation(self, s, t):
                    for k in range(len(s)):
                        if s[k:] + s[:k] == t:
                            return k
                    return -1
            """,
        wrong=(
            "class Solution:\n    def rotation(self, s, t):\n        return s.find(t[0])",
            "class Solution:\n    def rotation(self, s, t):\n        return 0 if sorted(s) == sorted(t) else -1",
        ),
    ),
    Family(
        name="interleave",
        level="easy",
        fn_name="interleave",
        signature="a, b",
        unseen=True,
        wordings=(
            "Return a list that takes numbers from a and b in turn, a first; when one is used up, the rest of the other.",
            "Merge a and b like two lanes of traffic: one from a, one from b, and so on; what is left over follows.",
            "Zip the lists a and b into one and append the tail of the longer list.",
            "Alternate between the entries of a and b, starting with a, until both are used up, and return the result.",
        ),
        held_out_wordings=(
            "Return the entries of a and b by turns, beginning with a; the surplus of the longer list comes last.",
            "Two queues board a bus alternately, a first. Return the order of boarding; the longer queue's rest ends it.",
        ),
        parameters=LIMIT,
        case=lambda rng, i, p: [integers(rng, 3 + i, 0, p.limit), integers(rng, 2 + (5 * i + 2) % 7, 0, p.limit)],
        answer=lambda p, a, b: [x for k in range(max(len(a), len(b))) for x in (*a[k : k + 1], *b[k : k + 1])],
        solution="""
            def interleave(a, b):
                n = min(len(a), len(b))
                result = []
                for x, y in zip(a, b):
                    result += [x, y]
                return result + a[n:] + b[n:]
            """,
        wrong=(
            "def interleave(a, b):\n    return a + b",
            """
            def interleave(a, b):
                result = []
                for x, y in zip(a, b):
                    result += [x, y]
                return result
            """,
        ),
    ),
)
