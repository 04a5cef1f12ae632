"""Programs of one to three lines on one or two numbers."""

from data.problem import Family, integers

PAIR = "a, b = map(int, input().split())\n"
NUMBER = "n = int(input())\n"
TWO_INTEGERS = "Two integers a and b from -$limit to $limit on one line."
ONE_INTEGER = "One integer n from -$limit to $limit."
LIMIT = {"limit": ((50, 100, 200, 1000), (70, 300, 5000))}


def _pair(rng, i, p):
    return [integers(rng, 2, -p.limit, p.limit)]


def _number(rng, i, p):
    return [rng.randint(-p.limit, p.limit)]


FAMILIES = (
    Family(
        name="sum_two",
        level="trivial",
        wordings=(
            "Print the sum of two integers.",
            "Add the two given numbers.",
            "Given integers a and b, print a plus b.",
            "What do the two numbers make together? Print the total.",
        ),
        held_out_wordings=("Two integers are given. Print their total.", "Compute the sum of a and b."),
        input_format=TWO_INTEGERS,
        output_format="Their sum.",
        parameters=LIMIT,
        case=_pair,
        answer=lambda p, ab: sum(ab),
        solution=PAIR + "print(a + b)",
        wrong=(PAIR + "print(a * b)", PAIR + "print(a - b)"),
    ),
    Family(
        name="difference",
        level="trivial",
        wordings=(
            "Print the first number minus the second.",
            "Subtract b from a.",
            "Given integers a and b, print a minus b.",
            "Take the second number away from the first and print what is left.",
        ),
        held_out_wordings=("Two integers are given. Subtract the second from the first.", "Compute a minus b."),
        input_format=TWO_INTEGERS,
        output_format="The difference a - b.",
        parameters=LIMIT,
        case=_pair,
        answer=lambda p, ab: ab[0] - ab[1],
        solution=PAIR + "print(a - b)",
        wrong=(PAIR + "print(b - a)", PAIR + "print(a + b)"),
    ),
    Family(
        name="product",
        level="trivial",
        wordings=(
            "Print the product of two integers.",
            "Multiply the two given numbers.",
            "Given integers a and b, print a times b.",
            "What is a multiplied by b?",
        ),
        held_out_wordings=("Two integers are given. Print their product.", "Find the product of a and b."),
        input_format=TWO_INTEGERS,
        output_format="Their product.",
        parameters=LIMIT,
        case=_pair,
        answer=lambda p, ab: ab[0] * ab[1],
        solution=PAIR + "print(a * b)",
        wrong=(PAIR + "print(a + b)", PAIR + "print(a * a)"),
    ),
    Family(
        name="remainder",
        level="trivial",
        unseen=True,
        wordings=(
            "Print the remainder of a divided by b.",
            "What is left over when a is divided by b?",
            "Given integers a and b, print a modulo b.",
            "a sweets are shared out evenly among b children. How many remain?",
        ),
        held_out_wordings=("Divide a by b and print the remainder.", "Compute a mod b."),
        input_format="Two integers a and b, 1 <= b < a <= $limit, on one line.",
        output_format="The remainder.",
        parameters={"limit": ((100, 500, 1000), (300, 2000))},
        case=lambda rng, i, p: [sorted(rng.sample(range(2, p.limit + 1), 2), reverse=True)],
        answer=lambda p, ab: ab[0] - ab[0] // ab[1] * ab[1],
        solution=PAIR + "print(a % b)",
        wrong=(PAIR + "print(a // b)", PAIR + "print(b % a)"),
    ),
    Family(
        name="multiply_and_add",
        level="trivial",
        wordings=(
            "Print $k times a plus b.",
            "Multiply a by $k, then add b.",
            "A box holds $k pens. There are a boxes and b loose pens; print the number of pens.",
            "Given integers a and b, print $k * a + b.",
        ),
        held_out_wordings=("Take a $k times and add b to it.", "Compute b plus $k times a."),
        input_format="Two integers a and b from 1 to $limit on one line.",
        output_format="The result.",
        parameters={"k": ((2, 3, 4, 6, 10, 12), (5, 7, 9)), "limit": ((50, 100, 200), (70, 300))},
        case=lambda rng, i, p: [integers(rng, 2, 1, p.limit)],
        answer=lambda p, ab: ab[0] * p.k + ab[1],
        solution=PAIR + "print($k * a + b)",
        wrong=(PAIR + "print(a + $k * b)", PAIR + "print($k * (a + b))"),
    ),
    Family(
        name="square",
        level="trivial",
        wordings=(
            "Print the square of a number.",
            "Multiply the given number by itself.",
            "Given an integer n, print n squared.",
            "Print n to the power of 2.",
        ),
        held_out_wordings=("An integer is given. Print its square.", "Compute n times n."),
        input_format=ONE_INTEGER,
        output_format="The square.",
        parameters=LIMIT,
        case=_number,
        answer=lambda p, n: n**2,
        solution=NUMBER + "print(n * n)",
        wrong=(NUMBER + "print(n + n)", NUMBER + "print(n ** 3)"),
    ),
    Family(
        name="multiply_by",
        level="trivial",
        wordings=(
            "Print $k times the number.",
            "Multiply n by $k.",
            "Given an integer n, print n * $k.",
            "What is $k times n?",
        ),
        held_out_wordings=("An integer is given. Print it multiplied by $k.", "Compute the product of n and $k."),
        input_format=ONE_INTEGER,
        output_format="The product.",
        parameters={"k": ((3, 4, 5, 6, 8, 11), (7, 9, 13)), "limit": ((50, 100, 1000), (70, 500))},
        case=_number,
        answer=lambda p, n: p.k * n,
        solution=NUMBER + "print(n * $k)",
        wrong=(NUMBER + "print(n + $k)", NUMBER + "print(n ** $k)"),
    ),
    Family(
        name="increase_by",
        level="trivial",
        wordings=(
            "Print the number plus $k.",
            "Add $k to n.",
            "Given an integer n, print n + $k.",
            "Which number is greater than n by $k?",
        ),
        held_out_wordings=("An integer is given. Print it increased by $k.", "Compute the sum of n and $k."),
        input_format=ONE_INTEGER,
        output_format="The sum.",
        parameters={"k": ((2, 3, 5, 8, 10, 25), (4, 7, 15)), "limit": ((50, 100, 1000), (70, 500))},
        case=_number,
        answer=lambda p, n: p.k + n,
        solution=NUMBER + "print(n + $k)",
        wrong=(NUMBER + "print(n - $k)", NUMBER + "print(n * $k)"),
    ),
    Family(
        name="last_digit",
        level="trivial",
        wordings=(
            "Print the last digit of a number.",
            "Which digit does n end with?",
            "Given an integer n, print its units digit.",
            "Print the rightmost digit of n.",
        ),
        held_out_wordings=("An integer is given. Print the digit in its last place.", "Find the final digit of n."),
        input_format="One integer n from 10 to $limit.",
        output_format="One digit.",
        parameters={"limit": ((999, 9999, 99999), (5000, 999999))},
        case=lambda rng, i, p: [rng.randint(1, (p.limit - 9) // 10) * 10 + (3 * i + 7) % 10],
        answer=lambda p, n: int(str(n)[-1]),
        solution=NUMBER + "print(n % 10)",
        wrong=(NUMBER + "print(n // 10)", "print(input()[0])"),
    ),
    Family(
        name="digit_sum",
        level="trivial",
        unseen=True,
        wordings=(
            "Print the sum of the digits of a number.",
            "Add up all digits of n.",
            "Given an integer n, print the total of its digits.",
            "What do the digits of n make together?",
        ),
        held_out_wordings=("An integer is given. Print its digit sum.", "Compute the sum of the digits of n."),
        input_format="One integer n from 10 to $limit.",
        output_format="The digit sum.",
        parameters={"limit": ((999, 9999, 99999), (5000, 999999))},
        case=lambda rng, i, p: [rng.randint(10, p.limit)],
        answer=lambda p, n: sum(n // 10**place % 10 for place in range(7)),
        solution="print(sum(int(d) for d in input()))",
        wrong=("print(len(input()))", NUMBER + "print(n % 10)"),
    ),
    Family(
        name="even_or_odd",
        level="trivial",
        wordings=(
            "For each number print Even or Odd.",
            "Say of every number on the line whether it is Even or Odd.",
            "Given integers, print Even for each even one and Odd for each odd one.",
            "Decide for each number: Even or Odd?",
        ),
        held_out_wordings=("Print Even or Odd for every given number.", "Is each of the numbers Even or Odd?"),
        input_format="One line with integers from 1 to $limit.",
        output_format="Even or Odd, one line for each number.",
        parameters={"limit": ((50, 100, 1000), (70, 500))},
        case=lambda rng, i, p: [integers(rng, 3 + i % 3, 1, p.limit)],
        answer=lambda p, x: [("Even", "Odd")[n & 1] for n in x],
        solution="""
            for x in input().split():
                print("Even" if int(x) % 2 == 0 else "Odd")
            """,
        wrong=(
            """
            for x in input().split():
                print("Odd" if int(x) % 2 == 0 else "Even")
            """,
            """
            for x in input().split():
                print("Even")
            """,
            """
            for x in input().split():
                print("Odd")
            """,
        ),
    ),
    Family(
        name="countdown",
        level="trivial",
        wordings=(
            "Print the numbers from n down to 1.",
            "Count down from n to 1.",
            "Given an integer n, print n, n - 1 and so on until 1.",
            "A rocket starts in n seconds. Print the countdown, ending with 1.",
        ),
        held_out_wordings=("Print n, then every smaller number down to 1.", "Write the countdown that starts at n."),
        input_format="One integer n from 2 to $limit.",
        output_format="One number on each line.",
        parameters={"limit": ((20, 30, 40), (25, 50))},
        case=lambda rng, i, p: [rng.randint(2, p.limit if i else 4)],
        answer=lambda p, n: sorted(range(1, n + 1), reverse=True),
        solution=NUMBER + "for i in range(n, 0, -1):\n    print(i)",
        wrong=(
            NUMBER + "for i in range(1, n + 1):\n    print(i)",
            NUMBER + "for i in range(n, -1, -1):\n    print(i)",
        ),
    ),
)
