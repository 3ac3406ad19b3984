# SPDX-License-Identifier: MIT
"""Just enough of C to measure it: code without comments and strings, functions, complexity."""
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    //[^\n]* | /\*.*?\*/            # comments
  | "(?:\\.|[^"\\\n])*"             # strings
  | '(?:\\.|[^'\\\n])*'             # characters
""", re.VERBOSE | re.DOTALL)
DIRECTIVE = re.compile(r"^[ ]*\#(?:\\\n|[^\n])*", re.MULTILINE)
BRANCH = re.compile(r"\b(?:if|for|while|case)\b|&&|\|\||\?")


@dataclass
class Function:
    """A function with its body: lines count from 1."""
    name: str
    first_line: int
    last_line: int
    complexity: int


def blank(match):
    """White space of the same shape, so that lines and columns stay where they are."""
    return re.sub(r"[^\n]", " ", match[0])


def blank_literal(match):
    """Comments vanish; strings and characters keep their quotes."""
    text = match[0]
    if text[0] == "/":
        return blank(match)
    return text[0] + " " * (len(text) - 2) + text[0]


def code(text):
    """The text without comments and without what stands in quotes."""
    return TOKEN.sub(blank_literal, text)


def is_function_head(head):
    """Whether what stands before a '{' at the top level starts a function."""
    return ")" in head and "=" not in head and not re.match(r"\s*(?:struct|enum|union)\s+\w+\s*$",
                                                            head)


def functions(text):
    """All functions of a C file."""
    source = DIRECTIVE.sub(blank, code(text))
    source = re.sub(r'extern " " *\{', blank, source)
    depth, head_start, body_start, found = 0, 0, None, []
    for at, char in enumerate(source):
        if char == "{":
            if depth == 0 and is_function_head(source[head_start:at]):
                body_start = at
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
            if depth == 0 and body_start is not None:
                found.append(measure(source, head_start, body_start, at))
                body_start = None
            if depth == 0:
                head_start = at + 1
        elif char == ";" and depth == 0:
            head_start = at + 1
    return found


def measure(source, head_start, body_start, end):
    """One function from the places of its head and braces."""
    head = source[head_start:body_start]
    start = head_start + len(head) - len(head.lstrip())
    names = re.findall(r"(\w+)\s*\(", head)
    return Function(
        name=names[0] if names else "?",
        first_line=source.count("\n", 0, start) + 1,
        last_line=source.count("\n", 0, end) + 1,
        complexity=1 + len(BRANCH.findall(source[body_start:end])),
    )
