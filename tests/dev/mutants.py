# SPDX-License-Identifier: MIT
"""The changes that mutate.py makes in a source of C or of Python: an operator, a constant, a condition, a
statement that is left out; in C also a return, break or continue that is left out, and two arguments of a call
that change places."""

import ast
import difflib
import re

OPERATORS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"],
    "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"], "^": ["&"],
    "+=": ["-="], "-=": ["+="], "|=": ["&="], "&=": ["|="], "++": ["--"], "--": ["++"],
}
PYTHON_OPERATORS = {
    **{old: new for old, new in OPERATORS.items() if not re.match(r"&&|\|\||\+\+|--", old)},
    "//": ["*"], "**": ["*"], "*=": ["+="], "/=": ["*="], "//=": ["*="],
    "and": ["or"], "or": ["and"], "is": ["is not"], "is not": ["is"], "in": ["not in"], "not in": ["in"],
}
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
    r"|0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|[A-Za-z_]\w*"
    r"|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S", re.S | re.M)
WORD = re.compile(r"[A-Za-z_]\w*|\d.*")
STATEMENT = re.compile(r"^[ \t]+(?!return|break|continue|goto|case|default|static|const|struct|enum)"
                       r"(?:[A-Za-z_][\w.\->\[\]]*(?:\(.*\)| [-+|&]?= .*)|[+-]{2}.*|.*[+-]{2});$", re.M)
# A return that ends its function is no early one.
LEAVE = re.compile(r"\b(?:return|break|continue|goto)\b[^;{}]*;(?!\n\})")
ARGUMENT = r"[^\s(),;\"'{}][^(),;\"'{}]*"
ARGUMENTS = re.compile(rf"(?<=[(\s])({ARGUMENT}), ({ARGUMENT})(?=[,)])")
NO_OPERAND = {"return", "case", "sizeof"}


class Mutant:
    """One change of a file: what stands from `begin` to `end` becomes `new`. In Python, `statement` is the first
    and the last line of the statement, or of its head."""

    def __init__(self, path, begin, end, new, kind, statement=None):
        self.path, self.begin, self.end, self.new, self.kind = path, begin, end, new, kind
        self.statement = statement

    def text(self, old):
        return old[:self.begin] + self.new + old[self.end:]

    def line(self, old):
        return self.path, old.count("\n", 0, self.begin)

    def change(self, old):
        """On one line, as a reader looks for it."""
        before, after = old[self.begin:self.end], self.new
        if self.kind == "statement" or self.kind == "leave":
            return f"without `{' '.join(before.split())}`"
        return f"`{' '.join(before.split())}` -> `{' '.join(after.split())}`"

    def place(self, old):
        return f"{self.path}:{old.count(chr(10), 0, self.begin) + 1} {self.kind}"

    def diff(self, old):
        lines = difflib.unified_diff(old.splitlines(), self.text(old).splitlines(), self.path,
                                     self.path, lineterm="", n=1)
        return "".join(line + "\n" for line in lines)


def mutants_of(path, text):
    """Every change of one file."""
    return (of_python if path.endswith(".py") else of_c)(path, text)


def other_numbers(value):
    return sorted({value + 1, max(value - 1, 0)} - {value})


# ---- C

def condition_end(text, begin):
    depth = 0
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return begin


def of_c(path, text):
    found = []
    tokens = [m for m in TOKEN.finditer(text) if not re.match(r"//|/\*|[ \t]*#", m.group())]
    for k, token in enumerate(tokens):
        word, before = token.group(), tokens[k - 1].group() if k else ""
        after = tokens[k + 1] if k + 1 < len(tokens) else None
        begin, end = token.span()
        if word in ("if", "while") and after and after.group() == "(":
            close = condition_end(text, after.start())
            found.append(Mutant(path, after.end(), close, "!(" + text[after.end():close] + ")",
                                "condition"))
        elif word in ("true", "false"):
            found.append(Mutant(path, begin, end, "false" if word == "true" else "true", "constant"))
        elif re.fullmatch(r"\d+", word):
            found += [Mutant(path, begin, end, str(new), "constant") for new in other_numbers(int(word))]
        elif word in OPERATORS:
            binary = (WORD.fullmatch(before) and before not in NO_OPERAND) or before in (")", "]")
            spaced = text[begin - 1] == " " and text[end:end + 1] in (" ", "\n")
            if word in ("++", "--") or (binary and spaced):
                found += [Mutant(path, begin, end, new, "operator") for new in OPERATORS[word]]
    for line in STATEMENT.finditer(text):
        code = line.group()
        if code.count("(") == code.count(")"):
            indent = len(code) - len(code.lstrip())
            found.append(Mutant(path, line.start() + indent, line.end(), ";", "statement"))
    # Comments and directives hold no code. Constants change in tables; a call's arguments stand in a function.
    code = TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if re.match(r"//|/\*|[ \t]*#", m[0]) else m[0], text)
    found += [Mutant(path, *leave.span(), ";", "leave") for leave in LEAVE.finditer(code)]
    for pair in ARGUMENTS.finditer(code):
        line = code[code.rfind("\n", 0, pair.start()) + 1:pair.start()]
        if line[:1] == " " and len({pair[1], pair[2], "b"}) == 3 and re.search(r"\w\([^()]*$", line):
            found.append(Mutant(path, *pair.span(), f"{pair[2]}, {pair[1]}", "arguments"))
    return found


# ---- Python

class PythonMutants(ast.NodeVisitor):
    """Annotations and what f-strings hold stay: nothing runs the first, and tests match parts of messages."""

    def __init__(self, path, text):
        self.path, self.text, self.found = path, text, []
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.in_function, self.statement = False, None
        self.visit(ast.parse(text))

    def visit(self, node):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            self.statement = node.lineno, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
        super().visit(node)

    def at(self, line, column):
        start = self.starts[line - 1]
        return start + len(self.text[start:self.starts[line]].encode()[:column].decode())

    def span(self, node):
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def add(self, begin, end, new, kind):
        self.found.append(Mutant(self.path, begin, end, new, kind, self.statement))

    def operator_between(self, left, right):
        """Parentheses, comments and line ends may stand beside it."""
        begin, end = self.span(left)[1], self.span(right)[0]
        between = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), self.text[begin:end])
        found = re.search(r"not\s+in|is\s+not|[a-z]+|[-+*/%<>=!&|^]+", between)
        for new in PYTHON_OPERATORS.get(" ".join(found[0].split()), []) if found else []:
            self.add(begin + found.start(), begin + found.end(), new, "operator")

    def negate(self, test):
        begin, end = self.span(test)
        self.add(begin, end, f"(not ({self.text[begin:end]}))", "condition")

    def visit_Compare(self, node):
        for left, right in zip([node.left, *node.comparators], node.comparators):
            self.operator_between(left, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        for left, right in zip(node.values, node.values[1:]):
            self.operator_between(left, right)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        self.operator_between(node.left, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self.operator_between(node.target, node.value)
        self.drop(node)
        self.generic_visit(node)

    def visit_test(self, node):
        self.negate(node.test)
        self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = visit_test

    def visit_comprehension(self, node):
        for test in node.ifs:
            self.negate(test)
        self.generic_visit(node)

    def visit_Constant(self, node):
        begin, end = self.span(node)
        if isinstance(node.value, bool):
            self.add(begin, end, str(not node.value), "constant")
        elif isinstance(node.value, int) and self.text[begin:end].isdecimal():
            for new in other_numbers(node.value):
                self.add(begin, end, str(new), "constant")

    def visit_JoinedStr(self, node):
        pass

    def visit_function(self, node):
        outer, self.in_function = self.in_function, True
        for child in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
            self.visit(child)
        self.in_function = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_function

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def drop(self, node):
        if self.in_function:
            self.add(*self.span(node), "pass", "statement")

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.drop(node)
        self.generic_visit(node)

    def visit_statement(self, node):
        self.drop(node)
        self.generic_visit(node)

    visit_Assign = visit_Delete = visit_Raise = visit_statement


def of_python(path, text):
    return PythonMutants(path, text).found
