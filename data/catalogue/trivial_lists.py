"""Programs of one to three lines on a line of numbers."""

from data.problem import Family, integers

LIST = "x = list(map(int, input().split()))\n"
INTEGERS = "One line with 4 to 8 integers from -$limit to $limit."
LIMIT = {"limit": ((50, 100, 1000), (70, 300))}


def _list(rng, i, p):
    return [integers(rng, rng.randint(4, 8), -p.limit, p.limit)]


def _with_an_even(rng, i, p):
    x = [2 * rng.randint(1, p.limit // 2), *integers(rng, rng.randint(3, 6), 1, p.limit)]
    rng.shuffle(x)
    return [x]


FAMILIES = (
    Family(
        name="list_sum",
        level="trivial",
        wordings=(
            "Print the sum of all numbers.",
            "Add up the given numbers.",
            "Given a list of integers, print their total.",
            "What do the numbers on the line make together?",
        ),
        held_out_wordings=("Several integers are given. Print their sum.", "Compute the total of the list."),
        input_format=INTEGERS,
        output_format="The sum.",
        parameters=LIMIT,
        case=_list,
        answer=lambda p, x: sum(x),
        solution=LIST + "print(sum(x))",
        wrong=(LIST + "print(max(x))", LIST + "print(len(x))"),
    ),
    Family(
        name="list_maximum",
        level="trivial",
        wordings=(
            "Print the largest of the numbers.",
            "Find the maximum of the list.",
            "Given a list of integers, print the greatest one.",
            "Which of the numbers on the line is the biggest?",
        ),
        held_out_wordings=("Several integers are given. Print the maximum.", "Find the greatest number of the list."),
        input_format=INTEGERS,
        output_format="The largest number.",
        parameters=LIMIT,
        case=_list,
        answer=lambda p, x: sorted(x)[-1],
        solution=LIST + "print(max(x))",
        wrong=(LIST + "print(min(x))", LIST + "print(x[0])", LIST + "print(x[-1])"),
    ),
    Family(
        name="list_minimum",
        level="trivial",
        unseen=True,
        wordings=(
            "Print the smallest of the numbers.",
            "Find the minimum of the list.",
            "Given a list of integers, print the least one.",
            "Which of the numbers on the line is the lowest?",
        ),
        held_out_wordings=("Several integers are given. Print the minimum.", "Find the least number of the list."),
        input_format=INTEGERS,
        output_format="The smallest number.",
        parameters=LIMIT,
        case=_list,
        answer=lambda p, x: sorted(x)[0],
        solution=LIST + "print(min(x))",
        wrong=(LIST + "print(max(x))", LIST + "print(x[0])", LIST + "print(x[-1])"),
    ),
    Family(
        name="spread",
        level="trivial",
        wordings=(
            "Print the largest number minus the smallest.",
            "How far apart are the largest and the smallest of the numbers?",
            "Given a list of integers, print its maximum minus its minimum.",
            "Subtract the least of the numbers from the greatest.",
        ),
        held_out_wordings=(
            "Several integers are given. Print the distance from the minimum to the maximum.",
            "Compute the greatest number of the list minus the least.",
        ),
        input_format=INTEGERS,
        output_format="The difference.",
        parameters=LIMIT,
        case=_list,
        answer=lambda p, x: sorted(x)[-1] - sorted(x)[0],
        solution=LIST + "print(max(x) - min(x))",
        wrong=(LIST + "print(max(x))", LIST + "print(x[-1] - x[0])"),
    ),
    Family(
        name="count_above",
        level="trivial",
        wordings=(
            "How many of the numbers are greater than $k?",
            "Count the numbers above $k.",
            "Given a list of integers, print how many exceed $k.",
            "Days with more than $k visitors are busy. Count the busy days.",
        ),
        held_out_wordings=(
            "Several integers are given. Print the number of those above $k.",
            "Count the list's numbers that are larger than $k.",
        ),
        input_format="One line with integers from 0 to 100.",
        output_format="The count.",
        parameters={"k": ((30, 40, 50, 60), (45, 55))},
        # At least one number equals k, so "greater" and "at least" differ.
        case=lambda rng, i, p: [rng.sample([p.k, *integers(rng, 5 + i % 7, 0, 100)], 6 + i % 7)],
        answer=lambda p, x: len([n for n in x if n > p.k]),
        solution=LIST + "print(sum(n > $k for n in x))",
        wrong=(LIST + "print(sum(n < $k for n in x))", LIST + "print(sum(n >= $k for n in x))", LIST + "print(len(x))"),
    ),
    Family(
        name="reverse_list",
        level="trivial",
        wordings=(
            "Print the numbers in reverse order.",
            "Write the list from its end to its start.",
            "Given a list of integers, print it backwards.",
            "Print the last number first and the first number last.",
        ),
        held_out_wordings=("Several integers are given. Print them in reverse.", "Write the list back to front."),
        input_format=INTEGERS,
        output_format="The numbers on one line.",
        parameters=LIMIT,
        case=_list,
        answer=lambda p, x: [[x[-k] for k in range(1, len(x) + 1)]],
        solution="print(*input().split()[::-1])",
        wrong=("print(*input().split())", LIST + "print(*sorted(x, reverse=True))"),
    ),
    Family(
        name="sort_list",
        level="trivial",
        wordings=(
            "Print the numbers in ascending order.",
            "Sort the list from the smallest to the largest number.",
            "Given a list of integers, print it sorted.",
            "Put the numbers in order, the lowest first.",
        ),
        held_out_wordings=(
            "Several integers are given. Print them sorted, the least one first.",
            "Write the list in increasing order.",
        ),
        input_format=INTEGERS,
        output_format="The numbers on one line.",
        parameters=LIMIT,
        case=_list,
        answer=lambda p, x: [sorted(x)],
        solution=LIST + "print(*sorted(x))",
        wrong=(LIST + "print(*sorted(x, reverse=True))", "print(*sorted(input().split()))"),
    ),
    Family(
        name="even_numbers",
        level="trivial",
        wordings=(
            "Print only the even numbers, in the given order.",
            "Leave out every odd number and print the rest.",
            "Given a list of integers, print the even ones in order.",
            "Keep the numbers that are divisible by 2.",
        ),
        held_out_wordings=(
            "Several integers are given. Print those that are even, in order.",
            "Drop the odd numbers of the list and print what remains.",
        ),
        input_format="One line with integers from 1 to $limit; at least one of them is even.",
        output_format="The even numbers on one line.",
        parameters=LIMIT,
        case=_with_an_even,
        answer=lambda p, x: [[n for n in x if not n & 1]],
        solution=LIST + "print(*[n for n in x if n % 2 == 0])",
        wrong=(LIST + "print(*[n for n in x if n % 2 == 1])", LIST + "print(*x)"),
    ),
)
