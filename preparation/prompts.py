"""From a raw row's prompt to the problem's statement, and from a statement to the chat messages that are trained on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from preparation.reading import DataError

CODE_GEN_SYSTEM = "You are a competitive programming assistant."
CODE_GEN_USER_TEMPLATE = (
    "Read the problem below and write a Python solution that reads from stdin and writes to stdout. "
    "Return only one Python code block, with no explanations.\n\n{problem}"
)
CODE_GEN_CALL_TEMPLATE = (
    "Read the problem below and write a Python solution that defines the function `{fn_name}`. "
    "It is called with the arguments and must return the answer; it must not read stdin. "
    "Return only one Python code block, with no explanations.\n\n{problem}"
)
CLOSING_INSTRUCTION = re.compile(
    r"Write\s+Python\s+code\s+to\s+solve\s+the\s+problem\.\s*Present\s+the\s+code\s+in\s*"
    r"```\s*python\s+Your\s+code\s*```\s*at\s+the\s+end\.?\s*\Z",
    re.IGNORECASE,
)


def strip_closing_instruction(text: str) -> str:
    """The statement without the dataset's "Write Python code to solve the problem. ..." at its very end."""
    return CLOSING_INSTRUCTION.sub("", text).strip()


def build_prompt(statement: str, fn_name: str | None) -> list[dict[str, str]]:
    """The chat messages for one problem; a call-based one (fn_name given) asks for that function."""
    if fn_name:
        user = CODE_GEN_CALL_TEMPLATE.format(fn_name=fn_name, problem=statement)
    else:
        user = CODE_GEN_USER_TEMPLATE.format(problem=statement)
    return [{"role": "system", "content": CODE_GEN_SYSTEM}, {"role": "user", "content": user}]


def user_message(prompt: Any) -> str | None:
    """The one user message of a raw prompt: a list of messages, the same as a JSON string, or plain text.

    None if there is no user message, more than one, or a turn of another role (system messages are passed over).
    Raises DataError for a prompt that `build_prompt` has made.
    """
    if isinstance(prompt, str):
        try:
            decoded = json.loads(prompt)
        except (ValueError, RecursionError):
            return prompt
        prompt = decoded if isinstance(decoded, list) else [{"role": "user", "content": prompt}]
    messages = list(prompt) if isinstance(prompt, Iterable) else []  # a list, or pandas' numpy array
    if not all(isinstance(message, dict) for message in messages):
        return None
    turns = [message for message in messages if message.get("role") != "system"]
    if len(turns) != 1 or turns[0].get("role") != "user" or not isinstance(turns[0].get("content"), str):
        return None
    if any(message.get("content") == CODE_GEN_SYSTEM for message in messages):
        raise DataError("the source holds rows that this program has prepared already; give --source the raw data")
    return turns[0]["content"]
