#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the API reference, as HTML and as man pages of section 3, from the public headers:

    reference.py --version V --instructions docs/instructions.md --html FOLDER --man FOLDER HEADER...

First the tables are expanded: where a header declares something for each row of a table (#define
PTX_DECLARE ... #undef PTX_DECLARE), each row becomes a declaration of its own, with the row's meaning
as its comment. Then the declarations are read with the comments before them.
"""

import argparse
import html
import os
import re
import shutil
import sys


class Entry:
    """A declaration. kind: function, macro, type or object; text: as it is shown."""

    def __init__(self, name, kind, text, doc, section):
        self.name, self.kind, self.text, self.doc, self.section = name, kind, text, doc, section


class Header:
    def __init__(self, path):
        self.name = os.path.basename(path)
        self.page = "ptxgen" if self.name == "ptxgen.h" else "ptxgen_" + self.name[:-2]
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
        for name, body in re.findall(r"^#define (PTX_\w+)\(X\)(.*)$", joined, re.M):
            tables[name] = rows_of(body)
    return tables


def meaning_of(row):
    """The last text among a row's columns, before its forms."""
    texts = [part for part in row if re.fullmatch(r'"(?:[^"\\]|\\.)*"', part)]
    return texts[-1][1:-1] if texts else ""


def expand_row(row, parameters, template):
    """A row put into the template of PTX_DECLARE."""
    values = dict(zip(parameters, row))
    text = re.sub(r"(\w*)##(\w+)", lambda m: m[1] + values.get(m[2], m[2]), template)
    return re.sub(r"\b[a-z]\w*\b", lambda m: values.get(m[0], m[0]) if m[0] in parameters else m[0], text)


def expand(header, tables, forms):
    """Replaces each table by declarations, one for each row."""
    region = re.compile(r"((?:^///.*\n)*)^#define (PTX_DECLARE|PTX_TYPE_ENUM)\(([^)]*)\)(.*\n(?:[^#]*?\n)??)"
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

        return re.sub(r"[ \t]*(PTX_\w+)\(" + name + r"\)[ ,]*\n?", rows, uses)

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


# ---- declarations --------------------------------------------------------------------------------


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
        if name not in known:
            known.add(name)
            header.entries.append(Entry(name, kind, text, mine, section))

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
            if not placed and not name.endswith(("_H", "_")) and (doc or not name.startswith("PTXGEN_")):
                add(name, "macro", text)
        elif line.startswith("#") or line.startswith("//") or re.match(r"PTXGEN_(?!API)", line):
            at += 1
        else:
            text, at = read_declaration(lines, at)
            found = classify(text)
            if found:
                add(*found)


def paragraphs(doc):
    """(is code, lines) of each paragraph of a comment. Four blanks begin code."""
    parts = []
    for line in doc:
        code = line.startswith("    ")
        if not line.strip():
            parts.append(None)
        elif parts and parts[-1] and parts[-1][0] == code:
            parts[-1][1].append(line[4:] if code else line)
        else:
            parts.append((code, [line[4:] if code else line]))
    return [part for part in parts if part]


def summary(doc, fallback):
    text = " ".join(paragraphs(doc)[0][1]) if paragraphs(doc) else fallback
    return re.split(r"(?<=[.:;]) (?=[A-Z])", text)[0].rstrip(".:;")


# ---- HTML ----------------------------------------------------------------------------------------

STYLE = """body { max-width: 52em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif; }
pre, code { font: 14px/1.4 monospace; } pre { background: #f4f4f4; padding: .6em; overflow-x: auto; }
section { border-top: 1px solid #ccc; } td { padding-right: 1.5em; vertical-align: top; }
h2, h3 { margin-bottom: .3em; } nav { columns: 3; } a { color: #0645ad; text-decoration: none; }"""


def write_page(path, title, body):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
                   f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n")


def linked(text, targets, own):
    """Escaped text in which known names are links."""
    def link(found):
        target = targets.get(found[0])
        return f'<a href="{target}">{found[0]}</a>' if target and found[0] != own else found[0]

    return re.sub(r"\b(?:ptx|PTX)(?:gen|GEN)?_\w+|\b[a-z]+\.h\b", link, html.escape(text))


def html_doc(doc, targets, own=""):
    out = []
    for code, lines in paragraphs(doc):
        if code:
            out.append("<pre>" + linked("\n".join(lines), targets, own) + "</pre>")
        else:
            text = linked(" ".join(lines), targets, own)
            text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
            out.append("<p>" + re.sub(r"\*\*(.*?)\*\*", r"<b>\1</b>", text) + "</p>")
    return "\n".join(out)


def html_targets(headers):
    targets = {}
    for header in headers:
        targets[header.name] = f"{header.name[:-2]}.html"
        for entry in header.entries:
            place = f"{header.name[:-2]}.html#{entry.name}"
            targets.setdefault(entry.name, place)
            if entry.kind == "type" and re.match(r"(typedef )?enum", entry.text):
                for name in re.findall(r"^\s*(PTX_\w+)|[{,] *(PTX_\w+)", entry.text, re.M):
                    targets.setdefault(name[0] or name[1], place)
    return targets


def write_html(headers, folder, version):
    targets = html_targets(headers)
    rows = []
    for header in headers:
        section, body = "", [f'<p><a href="index.html">ptxgen {version}</a></p>', f"<h1>&lt;ptxgen/{header.name}&gt;</h1>",
                             html_doc(header.doc, targets)]
        names = [f'<a href="#{entry.name}">{entry.name}</a><br>' for entry in header.entries]
        body.append("<nav>" + "\n".join(names) + "</nav>")
        for entry in header.entries:
            if entry.section != section:
                section = entry.section
                body.append(f"<h2>{html.escape(section)}</h2>")
            body.append(f'<section id="{entry.name}">\n<h3>{entry.name}</h3>\n'
                        f"<pre>{linked(entry.text, targets, entry.name)}</pre>\n"
                        f"{html_doc(entry.doc, targets, entry.name)}\n</section>")
        write_page(os.path.join(folder, header.name[:-2] + ".html"), header.name, "\n".join(body))
        rows.append(f'<tr><td><a href="{targets[header.name]}">{header.name}</a></td>'
                    f"<td>{linked(summary(header.doc, ''), targets, '')}</td></tr>")
    every = sorted({entry.name for header in headers for entry in header.entries}, key=str.lower)
    write_page(os.path.join(folder, "index.html"), f"ptxgen {version}",
               f"<h1>ptxgen {version}</h1>\n<table>\n" + "\n".join(rows) + "\n</table>\n<h2>All names</h2>\n<nav>" +
               "\n".join(f'<a href="{targets[name]}">{name}</a><br>' for name in every) + "</nav>")


# ---- man pages -----------------------------------------------------------------------------------


def troff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def man_doc(doc):
    out = []
    for code, lines in paragraphs(doc):
        out.append(".PP" if not code else ".PP\n.nf\n.RS 4")
        plain = "\n".join(lines) if code else re.sub(r"\*\*|`", "", "\n".join(lines))
        out.append(troff(plain) + ("\n.RE\n.fi" if code else ""))
    return out


def write_man(headers, folder, version):
    for header in headers:
        pages = [(header.page, summary(header.doc, header.name), "", header.doc + [""] +
                  ["    " + entry.name for entry in header.entries])]
        pages += [(entry.name, summary(entry.doc, f"declared in {header.name}"), entry.text, entry.doc)
                  for entry in header.entries if re.match("ptx", entry.name, re.I)]  # others are CUDA's
        for name, about, text, doc in pages:
            lines = [f'.TH "{name}" 3 "" "ptxgen {version}" "ptxgen"', ".SH NAME", f"{name} \\- {troff(about)}", ".SH SYNOPSIS",
                     ".nf", f"#include <ptxgen/{header.name}>"] + ([".PP", troff(text)] if text else []) + [".fi"]
            if doc:
                lines += [".SH DESCRIPTION"] + man_doc(doc)
            others = [page for page in dict.fromkeys([header.page, "ptxgen"]) if page != name]
            if others:
                lines += [".SH SEE ALSO", ", ".join(f"\\fB{page}\\fP(3)" for page in others)]
            with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--instructions", required=True)
    parser.add_argument("--html", required=True)
    parser.add_argument("--man", required=True)
    parser.add_argument("headers", nargs="+")
    given = parser.parse_args()
    headers = [Header(path) for path in given.headers]
    tables, forms = read_tables(headers), read_forms(given.instructions)
    for header in headers:
        expand(header, tables, forms)
        read(header)
    for folder in (given.html, given.man):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    write_html(headers, given.html, given.version)
    write_man(headers, given.man, given.version)


main()
