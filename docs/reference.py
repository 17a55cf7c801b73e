#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the API reference, as HTML and as man pages of section 3, from the public headers, and the pages of
docs as HTML beside it:

    reference.py --version V --docs FOLDER --html FOLDER --man FOLDER --depfile FILE HEADER...

First the tables are expanded: where a header declares something for each row of a table (#define
PTX_DECLARE ... #undef PTX_DECLARE), each row becomes a declaration of its own, with the row's meaning
as its comment. Then the declarations are read with the comments before them. reference_html.py writes HTML.
"""

import argparse
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
from reference_html import paragraphs, summary, write_html


class Entry:
    """A declaration. kind: function, macro, type or object; text: as it is shown; members: (declaration, comment)
    of the members with a comment."""

    def __init__(self, name, kind, text, doc, section, members=()):
        self.name, self.kind, self.text, self.doc = name, kind, text, doc
        self.section, self.members = section, members


class Header:
    """layer: the part of the library that it belongs to, and what that does."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        self.page = "ptxgen" if self.name == "ptxgen.h" else "ptxgen_" + self.name[:-2]
        if self.name.endswith(".hpp"):
            self.page = "ptxgen_hpp" if self.name == "ptxgen.hpp" else f"ptxgen_{self.name[:-4]}_hpp"
        self.file = re.sub(r"\.h$", "", self.name).replace(".", "_") + ".html"
        self.layer = None
        with open(path, encoding="utf-8") as file:
            self.text = file.read().replace("\\\n", " \n")
        self.doc, self.entries = [], []


# ---- tables --------------------------------------------------------------------------------------


def split_arguments(text):
    """The top-level parts of a macro's arguments."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, c in enumerate(text):
        if c == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "({":
            depth += 1
        elif not quoted and c in ")}":
            depth -= 1
        elif not quoted and c == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return parts + [text[start:].strip()]


def rows_of(body):
    """The arguments of each X(...) in the body of a table."""
    rows, at = [], 0
    while True:
        found = re.compile(r"\bX\(").search(body, at)
        if not found:
            return rows
        depth, end, quoted = 1, found.end(), False
        while depth:
            c = body[end]
            quoted ^= c == '"'
            depth += 0 if quoted else (c == "(") - (c == ")")
            end += 1
        rows.append(split_arguments(body[found.end():end - 1]))
        at = end


def read_tables(headers):
    tables = {}
    for header in headers:
        joined = re.sub(r" \n(?!#)", " ", header.text)
        for name, body in re.findall(r"^#define (PTX(?:GEN)?_\w+)\(X\)(.*)$", joined, re.M):
            tables[name] = rows_of(body)
    return tables


def read_fields(headers):
    """Of each table of a struct's fields, PTX_X_PARAMS, what its comment says: "- a, b: text"."""
    fields = {}
    for header in headers:
        for comment, table in re.findall(r"((?:^///.*\n)+)#define (PTX_\w+)\(X\)", header.text, re.M):
            items = re.findall(r"^/// - ([\w, ]+): (.*\n(?:///   .*\n)*)", comment, re.M)
            said = {name.strip(): re.sub(r"^/// *", "", text, flags=re.M).split("\n")[:-1]
                    for names, text in items for name in names.split(",")}
            if said:
                fields[table] = said
    return fields


def expand_fields(header, tables, fields):
    """Replaces a table of fields within a struct, PTX_X_PARAMS(PTX_X_FIELD), by them and their comments."""
    def declare(found):
        lines = []
        for kind, name in tables[found[1]]:
            lines += [f"    /// {line}" for line in fields.get(found[1], {}).get(name, [])]
            lines.append(f"    {kind}{'' if kind.endswith('*') else ' '}{name};")
        return "\n".join(lines) + "\n"

    header.text = re.sub(r"(?:^ +///(?!<).*\n)*^ +(PTX_\w+)\(PTX_\w+_FIELD\)\n", declare, header.text, flags=re.M)


def meaning_of(row):
    """The last text among a row's columns, before its forms."""
    texts = [part for part in row if re.fullmatch(r'"(?:[^"\\]|\\.)*"', part)]
    return texts[-1][1:-1] if texts else ""


def expand_row(row, parameters, template):
    """A row put into the template of PTX_DECLARE."""
    values = dict(zip(parameters, row))
    text = re.sub(r"(\w*)##(\w+|=)", lambda m: m[1] + values.get(m[2], m[2]), template)
    return re.sub(r"\b[a-z]\w*\b", lambda m: values.get(m[0], m[0]) if m[0] in parameters else m[0], text)


def expand(header, tables, forms):
    """Replaces each table by declarations, one for each row."""
    region = re.compile(r"((?:^///.*\n)*)^#define (PTX_DECLARE|PTX_TYPE_ENUM|PTXGEN_OPERATOR|PTXGEN_FUNCTION|PTXGEN_INDEX)"
                        r"\(([^)]*)\)(.*\n(?:[^#]*?\n)??)"
                        r"((?:.*\n)*?)#undef \2\n", re.M)
    group = ""

    def declare(found):
        nonlocal group
        comment, name, columns, template, uses = found.groups()
        # A template may go on in the next line: continuations are marked by a blank at the end.
        while template.endswith(" \n") and uses:
            line, _, uses = uses.partition("\n")
            template += line + "\n"
        group = comment or group
        template = " ".join(template.split())
        parameters = [column.strip() for column in columns.split(",") if column.strip() != "..."]

        def rows(use):
            lines = []
            for row in tables[use[1]]:
                text, meaning = expand_row(row, parameters, template), meaning_of(row)
                if name.startswith("PTXGEN_") and name != "PTXGEN_INDEX":  # an operator's function, or the name of one
                    called = "ptx_" + row[-1].removeprefix("ptx_")
                    meaning = f"As {called}()" if row[-1] != "not_equal" else ""
                if not text.endswith((";", "}")):
                    lines.append(f"    {text}" + (f" ///< {meaning}" if meaning and name == "PTX_DECLARE" else ""))
                    continue
                doc = [f"/// {meaning}" + ("." if meaning else "")] if meaning else []
                declared = re.search(r"(\w+)\(", text)
                doc += [f"///\n/// {line}" for line in forms.get(declared[1] if declared else "", [])]
                if group:
                    doc += ["///"] * bool(doc) + group.splitlines()
                lines += [""] + doc + [text]
            return "\n".join(lines) + "\n"

        return re.sub(r"[ \t]*(PTX(?:GEN)?_\w+)\(" + name + r"\)[ ,]*\n?", rows, uses)

    header.text = region.sub(declare, header.text)
    if "(PTX_DECLARE)" in header.text:
        sys.exit(f"reference.py: {header.name}: a table is left")


def read_forms(path):
    """What docs/instructions.md says of each function of the table: shape and types."""
    forms = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            name = cells[0].strip("`") if cells else ""
            if name.startswith("ptx_") and len(cells) == 4:
                forms[name] = [f"Shape {cells[1]} (result = operands). Types: {cells[3]}."]
            elif name.startswith("ptx_") and len(cells) == 3:
                forms[name] = [f"Types: {cells[2]}."]
    return forms


def expand_uses(header):
    """Replaces each use of a macro that the header defines for itself, PTXGEN_CALL(barrier), by what it stands for."""
    define, at = re.compile(r"^#define (PTXGEN_\w+)\(([^)]*)\)((?:.* \n)*.*\n)", re.M), 0
    while found := define.search(header.text, at):
        name, columns, body = found.groups()
        at, end = found.end(), header.text.find(f"#undef {name}\n", found.end())
        if end < 0 or columns == "X":  # a table
            continue
        parameters = [column.strip() for column in columns.split(",")]

        def use(call):
            values = dict(zip(parameters, split_arguments(call[2])))
            text = re.sub(r"\b\w+\b", lambda word: values.get(word[0], word[0]), " ".join(body.split()))
            return call[1] + re.sub(r"##(\w+ (?=\())?", lambda pasted: (pasted[1] or "").strip(), text)

        uses = re.sub(rf"^([ \t]*){name}\((\w[^()]*)\)", use, header.text[at:end], flags=re.M)
        header.text = header.text[:at] + uses + header.text[end:]
    header.text = re.sub(r"^PTXGEN_KINDS\(PTXGEN_KIND\)\n", "", header.text, flags=re.M)  # names in errors


# ---- declarations --------------------------------------------------------------------------------


def prototype(text):
    """A function's declaration: on a line, or with a line for each parameter."""
    plain = re.sub(r"(\(|\*) ", r"\1", " ".join(text.split()))
    found = re.search(r"\w\(|operator *[^\s\w(]+ ?\(", plain)
    if len(plain) <= 72 or not found:
        return plain
    end = plain.rindex(")")
    last = found.end()
    while plain[last:].count("(") != plain[last:].count(")") - 1 and "(" in plain[last:end]:
        end = plain.rindex(")", 0, end)
    return plain[:last] + "\n    " + ",\n    ".join(split_arguments(plain[last:end])) + plain[end:]


def split_members(text):
    """A struct, enumeration or union without its comments, and (declaration, comment) of each member with one."""
    shown, members, doc = [], [], []
    for line in text.split("\n"):
        code, mark, said = line.partition("//")
        code, said = code.rstrip(), said.lstrip("/").strip()
        if not code.strip():
            if mark and said.startswith("<"):
                members[-1][1].append(said[1:].strip())
            elif mark:
                doc.append(said)
            elif shown and shown[-1].strip():
                shown.append("")
                doc = []
            continue
        shown.append(re.sub(r"(?<=\S)  +", " ", code))
        if said.startswith("<"):
            doc = doc + [said[1:].strip()]
        if doc:
            members.append((" ".join(code.rstrip(",").split()), doc))
        doc = []
    return "\n".join(line for line, after in zip(shown, shown[1:] + [""]) if line or after != "}"), members


class Statement:
    """C++: what stands before a `;` or a block, with the block and the comments."""

    def __init__(self, doc, head, block, section):
        self.doc, self.head, self.block, self.section = doc, head, block, section


def statements(text):
    """The statements of a namespace or class."""
    found, doc, head, at, section = [], [], "", 0, ""
    depth = 0
    # A line of the preprocessor goes on after a blank at its end.
    token = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|^[ \t]*#(?:.* \n)*.*|.|\n', re.M)
    while at < len(text):
        part = token.match(text, at)[0]
        at += len(part)
        if part.startswith("///<"):
            if found:
                found[-1].doc.append(part[4:].strip())
        elif part.startswith("///"):
            doc.append(part[3:].removeprefix(" "))
        elif part.startswith("//"):
            rule = re.match(r"// -+ ?([^-].*?)-*$", part)
            section = rule[1].strip("/- ") if rule else section
        elif part.lstrip().startswith("#"):
            pass
        elif part == "\n" and not head.strip() and text[at:at + 1] == "\n":
            doc = []
        elif part == ":" and re.fullmatch(r"\s*(public|private|protected)", head):
            found.append(Statement([], head.strip(), None, section))
            doc, head = [], ""
        elif part == "{" and depth == 0 and not re.search(r"[=(,]\s*$", head):
            end, level = at, 1
            while level:
                inner = token.match(text, end)[0]
                level += (inner == "{") - (inner == "}")
                end += len(inner)
            block, at = text[at:end - 1], end
            if text[at:at + 1] == ";":
                at += 1
            found.append(Statement(doc, " ".join(head.split()), block, section))
            doc, head = [], ""
        elif part == ";" and depth == 0:
            found.append(Statement(doc, " ".join(head.split()), None, section))
            doc, head = [], ""
        else:
            depth += (part in "({") - (part in ")}") if len(part) == 1 else 0
            head += part
    return found


def signature(statement):
    """(name, text) of a function's declaration; None for what is defined elsewhere, or not for users."""
    head = re.sub(r"\b(inline|explicit|static|constexpr) ", "", statement.head)
    bare = re.sub(r"^template <(?:[^<>]|<[^<>]*>)*> ", "", head)
    found = re.match(r"[^(]*?(operator ?[^\s\w(]+|operator [\w:]+|~?[\w:]+) ?\(", bare)
    if not found or "::" in found[1] or re.search(r"= (delete|default)$|&&from\)", head) or found[1].startswith("~"):
        return None
    depth = 0
    for at, c in enumerate(bare[found.end() - 1:], found.end() - 1):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            break
    after = re.match(r"(?: ?(?:const|noexcept|&&|->[^:{]*))*", bare[at + 1:])[0]
    text = head[:len(head) - len(bare)] + bare[:at + 1] + after
    return found[1].replace(" ", ""), prototype(re.sub(r"operator (?=\W)", "operator", text) + ";")


def read_class(statement):
    """The public part of a class: (name, text, members)."""
    name = re.match(r"(?:template <.*> )?(?:class|struct) (\w+)", statement.head)[1]
    public, lines, members = statement.head.find("struct ") >= 0, [], []
    for part in statements(statement.block):
        if part.head in ("public", "private", "protected"):
            public = part.head == "public"
            continue
        if not public or part.head.startswith(("friend ", "using ")):
            continue
        made = signature(part) if "(" in part.head else None
        shown = made[1] if made else None
        if not made and "(" not in part.head and part.block is None and part.head:
            shown = part.head + ";"
        if shown:
            lines.append(shown)
            if part.doc:
                members.append((shown, part.doc))
    body = "\n".join("    " + line for text in lines for line in text.split("\n"))
    return name, f"{statement.head} {{\n{body}\n}};", members


def read_cpp(header):
    """The entries of a header of C++: its classes and functions."""
    lines = header.text.split("\n")[1:]
    while lines and lines[0].startswith("///"):
        header.doc.append(lines.pop(0)[3:].removeprefix(" "))
    text = "\n".join(lines)
    text = text[text.index("namespace ptx\n{") + len("namespace ptx\n{"):text.rindex("} // namespace ptx")]
    known = {}
    for part in statements(text):
        if part.block is not None and re.match(r"(template <.*> )?(class|struct) \w+[^(]*$", part.head):
            name, text, members = read_class(part)
            made = Entry("ptx::" + name, "type", text, part.doc, part.section, members)
        else:
            found = signature(part) if "(" in part.head else None
            if not found:
                continue
            made = Entry("ptx::" + found[0], "function", found[1], part.doc, part.section)
        if made.name in known:
            known[made.name].text += "\n" + made.text
            known[made.name].doc += [""] * bool(known[made.name].doc and made.doc) + made.doc
            continue
        known[made.name] = made
        header.entries.append(made)


# ---- layers --------------------------------------------------------------------------------------


def set_layers(headers, design):
    """The layers are those of the table in docs/design.md. A header that is not there belongs to the one that
    includes it."""
    rows, by_name = [], {header.name: header for header in headers}
    with open(design, encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) == 6 and "`" in cells[2] and ".h`" in cells[2]:
                rows.append((cells[1], cells[4].replace("`", "")))
                for name in re.findall(r"`(\w+\.h)`", cells[2]):
                    by_name[name].layer = rows[-1]
    rows += [("C++", "objects, exceptions and operators over the C functions"), ("all", "every header")]
    by_name["ptxgen.h"].layer = rows[-1]
    for header in headers:
        if header.name.endswith(".hpp"):
            header.layer = rows[-2]
    while any(not header.layer for header in headers):
        before = sum(not header.layer for header in headers)
        for row in rows:
            for header in [header for header in headers if header.layer == row]:
                for name in re.findall(r"#include <ptxgen/([\w.]+)>", header.text):
                    by_name[name].layer = by_name[name].layer or row
        if before == sum(not header.layer for header in headers):
            sys.exit("reference.py: no layer for " + ", ".join(h.name for h in headers if not h.layer))
    return rows



def read_macro(lines, at):
    """(name, text) of the #define at this line, and the line after it."""
    line = lines[at]
    while line.endswith(" ") and at + 1 < len(lines):
        at += 1
        line = line.rstrip() + " " + lines[at].strip() + (" " if lines[at].endswith(" ") else "")
    found = re.match(r"#define (\w+)(\([^)]*\))?\s*(.*)", line)
    text = found[1] + (found[2] if found[2] else " " + found[3].strip())
    return found[1], text.strip(), at + 1


def read_declaration(lines, at):
    """The text from this line to the end of its declaration, and the line after it."""
    taken, depth = [], 0
    while at < len(lines):
        code = re.sub(r"//.*|/\*.*?\*/|\"[^\"]*\"|'[^']*'", "", lines[at])
        depth += code.count("{") + code.count("(") - code.count("}") - code.count(")")
        taken.append(lines[at])
        at += 1
        if depth == 0 and (code.rstrip().endswith(";") or code.startswith("}")):
            break
    return "\n".join(taken), at


def classify(text):
    """(name, kind, shown text) of a declaration; None for what is no part of the interface."""
    if text.startswith("template"):
        return None
    inline = text.startswith("static inline")
    bare = re.sub(r"\bPTXGEN_API(?:_DATA)?\s+|\s*PTXGEN_PRINTF\([^)]*\)", "", text)
    if inline:
        bare = bare[len("static inline "):].split("\n{")[0].split("{")[0].strip() + ";"
    block = re.match(r"(typedef )?(struct|enum|union)(?: (\w+))?\s*\{", bare)
    if block:
        name = block[3] or (re.search(r"\}\s*(\w+)\s*;", bare) or [None, None])[1]
        if not name:  # enumerators without a type: named by the first
            name = re.search(r"\{\s*(\w+)", bare)[1]
        return name, "type", bare
    if bare.startswith("typedef"):
        return re.search(r"(\w+)\s*(?:\)\s*\(.*\))?;$", bare, re.S)[1], "type", bare
    if "(" in bare:
        return re.search(r"(\w+)\s*\(", bare)[1], "function", bare
    found = re.search(r"(\w+)(\[.*\])?;$", bare)
    return (found[1], "object", bare) if found and "extern" in bare else None


def read(header):
    lines = header.text.split("\n")
    at, doc, section, near, last_macro = 1, [], "", [], []
    while at < len(lines) and lines[at].startswith("///"):
        header.doc.append(lines[at][3:].removeprefix(" "))
        at += 1
    known = set()

    def add(name, kind, text):
        nonlocal doc, near, last_macro
        mine = doc or near
        if kind == "macro":
            last_macro = mine = mine or last_macro
        near, doc = mine, []
        if name in known:
            return
        known.add(name)
        members = []
        if kind == "type" and "{" in text:
            text, members = split_members(text)
        elif kind == "function":
            text = prototype(text)
        header.entries.append(Entry(name, kind, text, mine, section, members))

    while at < len(lines):
        line = lines[at]
        if line.startswith("///"):
            doc.append(line[3:].removeprefix(" "))
            at += 1
        elif not line.strip():
            doc, near = [], []
            at += 1
        elif re.match(r"// -+ ?[^-]", line):
            section = line.strip("/- ")
            at += 1
        elif line.startswith("#define"):
            placed = header.name.startswith("places") or "PTXGEN_PLACED" in line  # a function's place: the function has the text
            name, text, at = read_macro(lines, at)
            text, mark, said = text.partition(" ///< ")
            doc += [said] * bool(mark)
            if not placed and not name.endswith(("_H", "_")) and (doc or not name.startswith("PTXGEN_")):
                add(name, "macro", text)
        elif line.startswith("#") or line.startswith("//") or re.match(r"PTXGEN_(?!API)", line):
            at += 1
        else:
            text, at = read_declaration(lines, at)
            found = classify(text)
            if found:
                add(*found)


# ---- man pages -----------------------------------------------------------------------------------


def troff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def man_doc(doc):
    begin = {"text": ".PP", "code": ".PP\n.nf\n.RS 4", "item": ".IP \\(bu 2"}
    out = []
    for kind, lines in paragraphs(doc):
        plain = "\n".join(lines) if kind == "code" else re.sub(r"\*\*|`", "", "\n".join(lines))
        out.append(begin[kind] + "\n" + troff(plain) + ("\n.RE\n.fi" if kind == "code" else ""))
    return out


def man_members(members):
    out = [".SH MEMBERS"] if members else []
    for declaration, doc in members:
        out += [".TP", ".B " + troff(" ".join(declaration.split()))]
        out.append(troff(re.sub(r"\*\*|`", "", "\n".join(line for line in doc if line.strip()))))
    return out


def write_man(headers, folder, version):
    for header in headers:
        pages = [(header.page, summary(header.doc, header.name), "", header.doc + [""] +
                  ["    " + entry.name for entry in header.entries], [])]
        pages += [(entry.name, summary(entry.doc, f"declared in {header.name}"), entry.text, entry.doc, entry.members)
                  for entry in header.entries
                  if re.fullmatch(r"ptx(::)?\w+", entry.name, re.I)]  # others are CUDA's, or operators
        for name, about, text, doc, members in pages:
            lines = [f'.TH "{name}" 3 "" "ptxgen {version}" "ptxgen"', ".SH NAME", f"{name} \\- {troff(about)}", ".SH SYNOPSIS",
                     ".nf", f"#include <ptxgen/{header.name}>"] + ([".PP", troff(text)] if text else []) + [".fi"]
            if doc:
                lines += [".SH DESCRIPTION"] + man_doc(doc)
            lines += man_members(members)
            others = [page for page in dict.fromkeys([header.page, "ptxgen"]) if page != name]
            if others:
                lines += [".SH SEE ALSO", ", ".join(f"\\fB{page}\\fP(3)" for page in others)]
            with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")


def add_placed(headers):
    """The macros of places.h that have no function of their name: that of ptx_call() is ptx_call_emit()."""
    known = {entry.name for header in headers for entry in header.entries}
    for header in headers:
        for text, name in re.findall(r"^#define ((ptx_\w+)\([^)]*\))", header.text, re.M):
            if name not in known and name + "_emit" in known:
                header.entries.append(Entry(name, "macro", text, [f"{name}_emit() says what it does."], ""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--docs", required=True)
    parser.add_argument("--depfile", required=True)
    parser.add_argument("--html", required=True)
    parser.add_argument("--man", required=True)
    parser.add_argument("headers", nargs="+")
    given = parser.parse_args()
    headers = [Header(path) for path in given.headers]
    layers = set_layers(headers, os.path.join(given.docs, "design.md"))
    tables, forms = read_tables(headers), read_forms(os.path.join(given.docs, "instructions.md"))
    fields = read_fields(headers)
    for header in headers:
        expand_uses(header)
        expand(header, tables, forms)
        expand_fields(header, tables, fields)
        (read_cpp if header.name.endswith(".hpp") else read)(header)
    for folder in (given.html, given.man):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    add_placed(headers)
    used = write_html(headers, layers, given.docs, given.html, given.version)
    write_man(headers, given.man, given.version)
    with open(given.depfile, "w", encoding="utf-8") as file:
        file.write(f"{given.man}: " + " ".join(path.replace(" ", "\\ ") for path in used) + "\n")


main()
