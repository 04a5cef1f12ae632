"""Programs of three to ten lines on words and lines: codes, counting, a stack, a key to sort by."""

from collections import Counter

from data.problem import Family, letters, phrase


def _palindrome_words(rng, i, p):
    words = []
    for kind in range(rng.randint(3, 5)):
        half = letters(rng, rng.randint(2, p.half), "abc")
        if kind % 2:  # first and last letter agree, yet it is no palindrome
            words.append(half + "x" + half[::-1][:-1] + "yz" + half[0])
        else:
            words.append(half + half[::-1][rng.randint(0, 1) :])
    rng.shuffle(words)
    return [len(words), *words]


def _tied_words(rng, i, p):
    """One word is the most frequent, or in every other test two are."""
    words = sorted(set(phrase(rng, p.size).lower().split()))
    first, second = sorted(rng.sample(words, 2))
    text = [*words, second, second, *([first, first] if i % 2 else [])]
    rng.shuffle(text)
    return [text]


def _most_frequent(p, words):
    counts = Counter(words)
    return min(counts, key=lambda word: (-counts[word], word))


def _shift(p, text):
    moved = []
    for c in text:
        moved.append(chr((ord(c) - 97 + p.k) % 26 + 97) if c != " " else c)
    return "".join(moved)


def _runs(p, text):
    parts = []
    while text:
        rest = text.lstrip(text[0])
        parts.append(f"{text[0]}{len(text) - len(rest)}")
        text = rest
    return "".join(parts)


def _bracket_lines(rng, i, p):
    lines = []
    for kind in range(rng.randint(3, 5)):
        text = "()"
        for _ in range(rng.randint(1, p.depth)):
            text = rng.choice(("({})", "[{}]", "{}[]", "(){}", "[]{}")).format(text)
        if kind % 3 == 1:
            text = text[::-1]
        elif kind % 3 == 2:
            text = f"([{text})]"
        lines.append(text)
    rng.shuffle(lines)
    return [len(lines), *lines]


def _balanced(p, count, *lines):
    verdicts = []
    for text in lines:
        while "()" in text or "[]" in text:
            text = text.replace("()", "").replace("[]", "")
        verdicts.append("NO" if text else "YES")
    return verdicts


def _scores(rng, i, p):
    names = rng.sample(("Ada", "Bo", "Cy", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jo"), rng.randint(4, 8))
    return [len(names), *([name, rng.choice((10, 20, 30, p.top))] for name in names)]


FAMILIES = (
    Family(
        name="palindromes",
        level="easy",
        wordings=(
            "For each word, decide whether it reads the same forwards and backwards.",
            "A word is a palindrome if reversing it does not change it. Check every given word.",
            "Which of the n words are palindromes?",
            "Say for each of n words whether it equals its own reverse.",
        ),
        held_out_wordings=(
            "Test each of the n words: is it a palindrome?",
            "Reverse every word in your mind. Does it stay the same?",
        ),
        input_format="The first line holds n. Each of the next n lines holds one word of lower-case letters.",
        output_format="For each word a line with YES or NO.",
        parameters={"half": ((3, 4, 5), (6, 7))},
        case=_palindrome_words,
        answer=lambda p, n, *words: ["YES" if list(w) == list(reversed(w)) else "NO" for w in words],
        solution="""
            for _ in range(int(input())):
                w = input().strip()
                print("YES" if w == w[::-1] else "NO")
            """,
        wrong=(
            """
            for _ in range(int(input())):
                w = input()
                print("YES" if w[0] == w[-1] else "NO")
            """,
            """
            for _ in range(int(input())):
                w = input()
                print("NO" if w == w[::-1] else "YES")
            """,
            'for _ in range(int(input())):\n    print("NO")',
        ),
    ),
    Family(
        name="most_frequent_word",
        level="easy",
        wordings=(
            "Print the word that occurs most often. If several do, print the first of them in the alphabet.",
            "Which word is the most frequent? Among equally frequent words take the alphabetically smallest.",
            "Votes are cast by writing names. Print the winner; a tie goes to the name that comes first in the alphabet.",
            "Count the words and print the one with the highest count, in a tie the alphabetically first one.",
        ),
        held_out_wordings=(
            "Find the commonest word of the line. Ties are settled by the alphabet, the earlier word wins.",
            "Print the word with the most occurrences; of several such words, the one that a dictionary lists first.",
        ),
        input_format="One line of lower-case words with single blanks between them.",
        output_format="One word.",
        parameters={"size": ((9, 12), (15,))},
        case=_tied_words,
        answer=_most_frequent,
        solution="""
            words = input().split()
            print(min(set(words), key=lambda w: (-words.count(w), w)))
            """,
        wrong=(
            "words = input().split()\nprint(max(words, key=len))",
            "words = input().split()\nprint(words[0])",
            "words = input().split()\nprint(min(words))",
        ),
    ),
    Family(
        name="shift_cipher",
        level="easy",
        wordings=(
            "Replace each letter by the one $k places later in the alphabet; after z comes a. Blanks stay.",
            "Encode the text: move every letter forward by $k, going on from z to a, and keep the blanks.",
            "A secret message is written by shifting letters $k places forward, around the end of the alphabet. Print it.",
            "Shift all letters of the text by $k, where z is followed by a; do not change blanks.",
        ),
        held_out_wordings=(
            "Move every letter $k places ahead in the alphabet, which starts again at a after z. Leave blanks alone.",
            "Print the text with each letter advanced by $k; the alphabet is a circle, and blanks stay as they are.",
        ),
        input_format="One line of lower-case words with single blanks between them.",
        output_format="The encoded line.",
        parameters={"k": ((2, 3, 5, 7, 11), (4, 9))},
        case=lambda rng, i, p: [f"{letters(rng, 3 + i)} {letters(rng, 2, 'xyz')}{letters(rng, 2)}"],
        answer=_shift,
        solution="""
            alphabet = "abcdefghijklmnopqrstuvwxyz"
            moved = alphabet[$k:] + alphabet[:$k]
            print(input().translate(str.maketrans(alphabet, moved)))
            """,
        wrong=(
            'print("".join(c if c == " " else chr(ord(c) + $k) for c in input()))',
            'print("".join(c if c == " " else chr((ord(c) - 97 - $k) % 26 + 97) for c in input()))',
        ),
    ),
    Family(
        name="run_lengths",
        level="easy",
        unseen=True,
        wordings=(
            "Compress the word: write each run of equal letters as the letter followed by the length of the run.",
            "Replace every group of equal neighbouring letters by that letter and the size of the group.",
            "Print the run-length code of the word: letter, count, letter, count, and so on.",
            "Walk through the word; for each stretch of one letter print the letter and how long the stretch is.",
        ),
        held_out_wordings=(
            "Encode the word by its runs: every run becomes its letter and its length, also a run of length 1.",
            "For each maximal block of the same letter write the letter and the block's length, all without blanks.",
        ),
        input_format="One word of lower-case letters.",
        output_format="The compressed word, without blanks.",
        parameters={"most": ((3, 4, 5), (7, 12))},
        case=lambda rng, i, p: ["".join(c * rng.randint(1, p.most) for c in letters(rng, 4 + i, "abc"))],
        answer=_runs,
        solution="""
            from itertools import groupby
            print("".join(c + str(len(list(run))) for c, run in groupby(input())))
            """,
        wrong=(
            's = input()\nprint("".join(c + str(s.count(c)) for c in dict.fromkeys(s)))',
            """
            from itertools import groupby
            for c, run in groupby(input()):
                size = len(list(run))
                print(c + (str(size) if size > 1 else ""), end="")
            print()
            """,
        ),
    ),
    Family(
        name="balanced_brackets",
        level="easy",
        wordings=(
            "Decide for each line of brackets whether it is balanced: each bracket is closed by its own kind, in order.",
            "Check whether every opening bracket is closed by a matching one and none is closed wrongly.",
            "A line is correct if it can be emptied by removing () and [] again and again. Which lines are correct?",
            "Are the round and square brackets of each line properly nested?",
        ),
        held_out_wordings=(
            "Tell for every line if its brackets match and nest as in a formula.",
            "Test each line: do all brackets close in the right order and with the right kind?",
        ),
        input_format="The first line holds n. Each of the next n lines holds characters of ()[] only.",
        output_format="For each line YES or NO.",
        parameters={"depth": ((3, 4, 5), (7, 9))},
        case=_bracket_lines,
        answer=_balanced,
        solution="""
            for _ in range(int(input())):
                stack = []
                good = True
                for c in input().strip():
                    if c in "([":
                        stack.append(c)
                    elif not stack or stack.pop() + c not in ("()", "[]"):
                        good = False
                        break
                print("YES" if good and not stack else "NO")
            """,
        wrong=(
            """
            for _ in range(int(input())):
                s = input()
                print("YES" if s.count("(") == s.count(")") and s.count("[") == s.count("]") else "NO")
            """,
            'for _ in range(int(input())):\n    print("NO")',
        ),
    ),
    Family(
        name="ranking",
        level="easy",
        wordings=(
            "List the players by score, highest first; players with equal scores by name.",
            "Print the ranking: more points come first, and equal points are ordered alphabetically.",
            "Sort the names by descending score and, where scores are equal, by name.",
            "Make the result table of a race for points. Ties are ordered by the alphabet.",
        ),
        held_out_wordings=(
            "Order the players from the best score to the worst, alphabetically within one score.",
            "Print who comes first, second, and so on. Equal scores go by name.",
        ),
        input_format="The first line holds n. Each of the next n lines holds a name and a score.",
        output_format="The n names, one a line.",
        parameters={"top": ((40, 50), (70, 90))},
        case=_scores,
        answer=lambda p, n, *rows: [r[0] for r in sorted(sorted(rows), key=lambda r: r[1], reverse=True)],
        solution="""
            players = []
            for _ in range(int(input())):
                name, score = input().split()
                players.append((-int(score), name))
            for _, name in sorted(players):
                print(name)
            """,
        wrong=(
            """
            names = [input().split()[0] for _ in range(int(input()))]
            print("\\n".join(sorted(names)))
            """,
            """
            rows = [input().split() for _ in range(int(input()))]
            rows.sort(key=lambda row: int(row[1]))
            for row in rows:
                print(row[0])
            """,
            """
            rows = [input().split() for _ in range(int(input()))]
            rows.sort(key=lambda row: -int(row[1]))
            for row in rows:
                print(row[0])
            """,
        ),
    ),
)
