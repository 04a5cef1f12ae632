"""Programs of one to three lines on a line of text."""

from data.problem import Family, letters, phrase

TEXT = "s = input()\n"
ONE_TEXT = "One line of words with single blanks between them."
MOST = {"most": ((4, 5, 6), (7, 8))}  # words in a text, or three less than letters in a word; statements do not name it


def _text(rng, i, p):
    return [phrase(rng, rng.randint(2, 3 if i == 0 else p.most))]


def _word(rng, i, p):
    return [letters(rng, rng.randint(4, 3 + p.most))]


FAMILIES = (
    Family(
        name="upper_case",
        level="trivial",
        wordings=(
            "Print the text in upper case.",
            "Turn every letter of the text into a capital.",
            "Given a line of text, print it in capital letters.",
            "Write the line in large letters.",
        ),
        held_out_wordings=("A line is given. Print it in upper case.", "Change all letters of the text to capitals."),
        input_format=ONE_TEXT,
        output_format="The text in capitals.",
        parameters=MOST,
        case=_text,
        answer=lambda p, s: "".join(chr(ord(c) - 32) if "a" <= c <= "z" else c for c in s),
        solution="print(input().upper())",
        wrong=("print(input().lower())", "print(input())", "print(input().title())"),
    ),
    Family(
        name="reverse_text",
        level="trivial",
        wordings=(
            "Print the text backwards.",
            "Write the characters of the line in reverse order.",
            "Given a line of text, print it reversed.",
            "Read the text from right to left and print it.",
        ),
        held_out_wordings=("A line is given. Print it in reverse.", "Write the text from its end to its start."),
        input_format=ONE_TEXT,
        output_format="The reversed text.",
        parameters=MOST,
        case=_text,
        answer=lambda p, s: "".join(reversed(s)),
        solution="print(input()[::-1])",
        wrong=("print(input())", "print(*input().split()[::-1])"),
    ),
    Family(
        name="text_length",
        level="trivial",
        wordings=(
            "Print the length of the text, blanks included.",
            "How many characters does the line have? Blanks count.",
            "Given a line of text, print its number of characters, blanks included.",
            "Count all characters of the text, also the blanks.",
        ),
        held_out_wordings=(
            "A line is given. Print how long it is, counting blanks too.",
            "Find the number of characters in the text; a blank is one too.",
        ),
        input_format=ONE_TEXT,
        output_format="The length.",
        parameters=MOST,
        case=_text,
        answer=lambda p, s: sum(1 for _ in s),
        solution="print(len(input()))",
        wrong=("print(len(input().split()))", 'print(len(input().replace(" ", "")))'),
    ),
    Family(
        name="count_letter",
        level="trivial",
        wordings=(
            "How often does the letter $c occur?",
            "Count the letters $c in the text.",
            "Given a word, print how many of its letters are $c.",
            "Print the number of times that $c stands in the word.",
        ),
        held_out_wordings=("A word is given. Count its letters $c.", "Find how many times $c occurs in it."),
        input_format="One word of lower-case letters.",
        output_format="The count.",
        parameters={"c": (("a", "e", "i", "o"), ("u", "r"))},
        case=lambda rng, i, p: [letters(rng, 4 + 2 * i, "xyz" + 2 * p.c)],
        answer=lambda p, s: len(s) - len(s.replace(p.c, "")),
        solution='print(input().count("$c"))',
        wrong=("print(len(input()))", 'print(len(input().split("$c")))'),
    ),
    Family(
        name="repeat_word",
        level="trivial",
        wordings=(
            "Print the word $k times in a row, without blanks.",
            "Write $k copies of the word next to each other.",
            "Given a word, print it repeated $k times on one line, without blanks.",
            "Join $k copies of the given word and print the result.",
        ),
        held_out_wordings=(
            "A word is given. Print $k copies of it, joined without blanks.",
            "Repeat the word $k times on one line, nothing between.",
        ),
        input_format="One word of lower-case letters.",
        output_format="The repeated word.",
        parameters={"k": ((2, 3, 4), (5, 6)), **MOST},
        case=_word,
        answer=lambda p, s: "".join(s for _ in range(p.k)),
        solution="print(input() * $k)",
        wrong=("print(input())", TEXT + 'print(" ".join([s] * $k))', TEXT + "print(s + str($k))"),
    ),
    Family(
        name="count_words",
        level="trivial",
        unseen=True,
        wordings=(
            "Print the number of words.",
            "How many words does the line have?",
            "Given a line of text, count its words.",
            "Count the words of the text.",
        ),
        held_out_wordings=("A line is given. Print how many words it has.", "Find the number of words in the text."),
        input_format=ONE_TEXT,
        output_format="The number of words.",
        parameters=MOST,
        case=lambda rng, i, p: [phrase(rng, 2 + (i * 3 + rng.randint(0, 1)) % p.most)],
        answer=lambda p, s: 1 + s.count(" "),
        solution="print(len(input().split()))",
        wrong=("print(len(input()))", 'print(input().count(" "))'),
    ),
    Family(
        name="first_and_last",
        level="trivial",
        unseen=True,
        wordings=(
            "Print the first and the last letter of the word, joined.",
            "Which letters does the word start and end with? Print both, without a blank.",
            "Given a word, print its first letter and right behind it its last.",
            "Leave out everything between the first and the last letter.",
        ),
        held_out_wordings=(
            "A word is given. Print its first and last letters next to each other.",
            "Shorten the word to its first and last letter.",
        ),
        input_format="One word of lower-case letters.",
        output_format="Two letters.",
        parameters=MOST,
        case=_word,
        answer=lambda p, s: s[:1] + s[-1:],
        solution=TEXT + "print(s[0] + s[-1])",
        wrong=(TEXT + "print(s[-1] + s[0])", TEXT + "print(s[:2])"),
    ),
)
