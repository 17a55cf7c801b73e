# SPDX-License-Identifier: MIT
"""The API reference as HTML: a page for each header, an index by layer, a search box, and the pages of docs, which the
comments name. Nothing is loaded from elsewhere."""

import html
import json
import os
import re
import shutil

# ---- comments ------------------------------------------------------------------------------------


def paragraphs(doc):
    """(kind, lines) of each paragraph of a comment: text; code, which four blanks begin; item, after a hyphen."""
    parts = []
    for line in doc:
        last = parts[-1] if parts else None
        if not line.strip():
            parts.append(None)
        elif line.startswith("- "):
            parts.append(("item", [line[2:]]))
        elif line.startswith("    ") and not (last and last[0] != "code"):
            if last:
                last[1].append(line[4:])
            else:
                parts.append(("code", [line[4:]]))
        elif last and last[0] != "code" and (last[0] == "text" or line.startswith("  ")):
            last[1].append(line.strip())
        else:
            parts.append(("text", [line]))
    return [part for part in parts if part]


def summary(doc, fallback):
    """The first sentence of a comment, unless that only lists errors."""
    text = " ".join(paragraphs(doc)[0][1]) if paragraphs(doc) else fallback
    return re.split(r"(?<=[.;]) (?=[A-Z])", fallback if text.startswith("Errors: ") else text)[0].rstrip(".:;")


def header_summary(header):
    """What a header has, without "Part of builder.h" and "Layer 1", which the index shows by its order."""
    doc = " ".join(paragraphs(header.doc)[0][1]) if header.doc else ""
    return capital(summary([re.sub(r"^(Part of [\w.]+(,? and [\w.]+)*|Layer \d)[:.] ", "", doc)], ""))


def capital(text):
    return text if text.startswith("ptxgen") else text[:1].upper() + text[1:]


# ---- text ----------------------------------------------------------------------------------------


class Names:
    """Where names of the interface, headers and pages are."""

    def __init__(self, headers, pages):
        self.targets = {}
        for header in headers:
            self.targets[header.name] = header.file
            for entry in header.entries:
                place = f"{header.file}#{entry.name}"
                self.targets.setdefault(entry.name, place)
                if entry.kind == "type" and re.match(r"(typedef )?enum", entry.text):
                    for name in re.findall(r"^\s*(PTX_\w+)|[{,] *(PTX_\w+)", entry.text, re.M):
                        self.targets.setdefault(name[0] or name[1], place)
        self.targets.update({f"docs/{page}.md": f"page-{page}.html" for page in pages})

    def link(self, text, own=""):
        """Escaped text in which known names are links."""
        def link(found):
            target = self.targets.get(found[0])
            return f'<a href="{target}">{found[0]}</a>' if target and found[0] != own else found[0]

        return re.sub(r"docs/\w+\.md|\bptx::\w+|\b(?:ptx|PTX)(?:gen|GEN)?_\w+|\b[a-z]+\.hp{0,2}\b", link,
                      html.escape(text))

    def inline(self, text, own=""):
        """A line of a comment or page: names are links; code, bold, links and pictures of Markdown."""
        out = []
        for code, part in re.findall(r"`([^`]*)`|([^`]+|`)", text):
            if code:
                out.append(f"<code>{self.link(code, own)}</code>")
                continue
            for at, piece in enumerate(re.split(r"(!?\[(?:[^\]\x00]*)\]\([^)]*\))", part)):
                out.append(self.reference(piece) if at % 2 else re.sub(r"\*(\w[^*]*)\*", r"<i>\1</i>", re.sub(
                    r"\*\*(.+?)\*\*", r"<b>\1</b>", self.link(piece, own))))
        return "".join(out)

    def reference(self, text):
        picture, words, target = re.fullmatch(r"(!?)\[([^\]]*)\]\(([^)]*)\)", text).groups()
        words = re.sub("\x00(.*?)\x00", r"<code>\1</code>", html.escape(words))
        if picture:
            return f'<img src="{target}" alt="{words}">'
        page, mark, anchor = target.partition("#")
        if re.fullmatch(r"\w+\.md", page):
            page = self.targets.get(f"docs/{page}", page)
        return f'<a href="{page}{mark}{anchor}">{words}</a>'


def comment(doc, names, own=""):
    out, listed = [], False
    for kind, lines in paragraphs(doc):
        if listed != (kind == "item"):
            listed = not listed
            out.append("<ul>" if listed else "</ul>")
        if kind == "code":
            out.append("<pre>" + names.link("\n".join(lines), own) + "</pre>")
        else:
            tag = "li" if kind == "item" else "p"
            out.append(f"<{tag}>{names.inline(' '.join(lines), own)}</{tag}>")
    return "\n".join(out + ["</ul>"] * listed)


# ---- pages of docs -------------------------------------------------------------------------------


def anchor(heading):
    return re.sub(r"[^\w -]", "", heading).replace(" ", "-").lower()


def table(rows, names):
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]] for row in rows]
    right = [re.fullmatch(r"-+:", rule) for rule in cells[1]]
    out = []
    for number, row in enumerate(cells[:1] + cells[2:]):
        tag = "td" if number else "th"
        styled = [' class="number"' if mark else "" for mark in right]
        made = "".join(f"<{tag}{style}>{names.inline(cell)}</{tag}>" for cell, style in zip(row, styled))
        out.append(f"<tr>{made}</tr>")
    return '<div class="wide"><table>\n' + "\n".join(out) + "\n</table></div>"


def markdown(text, names):
    """The Markdown of docs: headings, paragraphs, lists, tables, code."""
    out, lines, at = [], text.split("\n"), 0

    def block(first, more):
        """The lines from here on while more holds, joined."""
        nonlocal at
        taken = [first]
        at += 1
        while at < len(lines) and more(lines[at]):
            taken.append(lines[at].strip())
            at += 1
        return " ".join(taken)

    def goes_on(line):
        return line.strip() and not re.match(r"```|[#|] ?| *- |\d+\. ", line)

    while at < len(lines):
        line = lines[at]
        item = re.match(r"(- |\d+\. )", line)
        if line.startswith("```"):
            end = at + 1
            while not lines[end].startswith("```"):
                end += 1
            out.append("<pre>" + names.link("\n".join(lines[at + 1:end])) + "</pre>")
            at = end + 1
        elif line.startswith("#"):
            marks, _, words = line.partition(" ")
            out.append(f'<h{len(marks)} id="{anchor(words)}">{names.inline(words)}</h{len(marks)}>')
            at += 1
        elif line.startswith("|"):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            out.append(table(lines[at:end], names))
            at = end
        elif item:
            kind = "ul" if item[1] == "- " else "ol"
            items = []
            while at < len(lines) and re.match(r"- |\d+\. ", lines[at]):
                items.append(names.inline(block(re.sub(r"^(- |\d+\. )", "", lines[at]), goes_on)))
                inner = []
                while at < len(lines) and re.match(r" +- ", lines[at]):
                    inner.append(names.inline(block(lines[at].strip()[2:], goes_on)))
                if inner:
                    items[-1] += "<ul>" + "".join(f"<li>{text}</li>" for text in inner) + "</ul>"
                while at + 1 < len(lines) and not lines[at].strip() and re.match(r"  +\S", lines[at + 1]):
                    at += 1
                    items[-1] += "<br>" + names.inline(block(lines[at].strip(), goes_on))
            out.append(f"<{kind}>\n" + "\n".join(f"<li>{text}</li>" for text in items) + f"\n</{kind}>")
        elif line.strip():
            out.append("<p>" + names.inline(block(line, goes_on)) + "</p>")
        else:
            at += 1
    return "\n".join(out)


# ---- HTML ----------------------------------------------------------------------------------------

STYLE = """body { max-width: 56em; margin: 0 auto 3em; padding: 0 1em; font: 16px/1.5 sans-serif;
  color: #1a1a1a; background: #fff; overflow-wrap: break-word; }
header { position: sticky; top: 0; display: flex; gap: 1em; align-items: center; padding: .6em 0; background: #fff;
  border-bottom: 1px solid #ccc; z-index: 1; }
header input { flex: 1; min-width: 0; max-width: 28em; font: inherit; padding: .2em .5em; }
#found { position: sticky; top: 3.4em; z-index: 1; margin: 0; padding: 0; list-style: none; max-height: 60vh;
  overflow-y: auto; background: #fff; } #found li { padding: .3em 0; border-bottom: 1px solid #eee; }
pre, code { font: 14px/1.45 monospace; } pre { background: #f4f4f4; padding: .6em; white-space: pre-wrap;
  overflow-wrap: anywhere; } @media (max-width: 40em) { pre { font-size: 12px; } h1 { font-size: 1.5em; } }
code, h1, h3, a { overflow-wrap: anywhere; }
section { border-top: 1px solid #ccc; scroll-margin-top: 4em; } h1, h2, h3 { line-height: 1.25; scroll-margin-top: 3em; }
h2, h3 { margin-bottom: .3em; } .names { columns: 15em auto; } .names a { display: block; }
dt { margin-top: .5em; } dd { margin-left: 1.5em; } dd p { margin: .2em 0; }
.index td:first-child { white-space: nowrap; } a { color: #0645ad; text-decoration: none; }
.wide { overflow-x: auto; } .wide code, .wide a { overflow-wrap: normal; }
table { border-collapse: collapse; } img { max-width: 100%; }
td, th { padding: .2em 1em .2em 0; vertical-align: top; text-align: left; border-bottom: 1px solid #eee; }
.number { text-align: right; } summary { cursor: pointer; margin: .5em 0; }
"""

SEARCH = """var box = document.getElementById('search'), found = document.getElementById('found');
box.addEventListener('input', search);
box.addEventListener('keydown', function (event) {
  if (event.key === 'Enter' && found.querySelector('a')) location.href = found.querySelector('a').href;
});
// Names that begin with the words, with or without ptx_, then names that have them, then texts.
function rank(entry, words) {
  var name = entry[0].toLowerCase(), text = name + ' ' + entry[2].toLowerCase();
  if (!words.every(function (word) { return text.includes(word); })) return 0;
  var bare = name.replace(/^ptx(gen)?(_|::)/, '');
  if (bare === words[0] || name === words[0]) return 4;
  return bare.startsWith(words[0]) || name.startsWith(words[0]) ? 3 : name.includes(words[0]) ? 2 : 1;
}
function search() {
  var words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  var hits = !words.length ? [] : NAMES.map(function (entry) { return [rank(entry, words), entry]; })
    .filter(function (hit) { return hit[0]; }).sort(function (a, b) { return b[0] - a[0]; });
  found.textContent = '';
  hits.slice(0, 30).forEach(function (hit) {
    var item = found.appendChild(document.createElement('li')), link = item.appendChild(document.createElement('a'));
    link.href = hit[1][1];
    link.textContent = hit[1][0];
    item.appendChild(document.createTextNode(' ' + hit[1][2]));
  });
  if (words.length && hits.length !== Math.min(hits.length, 30) || words.length && !hits.length)
    found.appendChild(document.createElement('li')).textContent =
      hits.length ? (hits.length - 30) + ' more' : 'nothing has these words';
}
if (location.hash.startsWith('#search=')) { box.value = decodeURIComponent(location.hash.slice(8)); search(); }
"""


def write_page(path, title, version, body):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
                   f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
                   f'<title>{html.escape(title)}</title>\n<link rel="stylesheet" href="style.css">\n</head>\n<body>\n'
                   f'<header><a href="index.html">ptxgen {version}</a> <input type="search" id="search" '
                   f'placeholder="Search names and texts" aria-label="Search"></header>\n<ul id="found"></ul>\n{body}\n'
                   '<script src="names.js"></script>\n<script src="search.js"></script>\n</body>\n</html>\n')


def header_body(header, names):
    section = ""
    first = re.sub(r"^Layer \d: ", "", header.doc[0]) if header.doc else ""
    about = [capital(first)] + header.doc[1:]
    layer = f'<a href="index.html#{anchor(header.layer[0])}">{html.escape(header.layer[0])}</a>'
    body = [f"<h1>&lt;ptxgen/{header.name}&gt;</h1>", f"<p>Layer: {layer}</p>", comment(about, names),
            '<div class="names">' + "\n".join(f'<a href="#{html.escape(entry.name)}">{html.escape(entry.name)}</a>'
                                              for entry in header.entries) + "</div>"]
    for entry in header.entries:
        if entry.section != section:
            section = entry.section
            body.append(f"<h2>{html.escape(section)}</h2>")
        name = html.escape(entry.name)
        body.append(f'<section id="{name}">\n<h3>{name}</h3>\n<pre>{names.link(entry.text, entry.name)}</pre>\n'
                    f"{comment(entry.doc, names, entry.name)}")
        if entry.members:
            body.append("<dl>" + "\n".join(
                f"<dt><code>{names.link(declaration, entry.name)}</code></dt>\n"
                f"<dd>{comment(doc, names, entry.name)}</dd>"
                for declaration, doc in entry.members) + "</dl>")
        body.append("</section>")
    return "\n".join(body)


def index_body(headers, layers, pages, names, version):
    body = [f"<h1>ptxgen {version}</h1>",
            '<p>The <a href="#pages">pages</a> explain. The headers below are the reference, by layer.</p>']
    for layer in layers:
        mine = [header for header in headers if header.layer == layer]
        rows = "\n".join(f'<tr><td><a href="{header.file}">{header.name}</a></td>'
                         f"<td>{names.inline(header_summary(header))}</td></tr>" for header in mine)
        every = sorted({entry.name for header in mine for entry in header.entries}, key=str.lower)
        does = html.escape(layer[1].replace("->", "→"))
        body.append(f'<h2 id="{anchor(layer[0])}">{html.escape(layer[0])}</h2>\n<p>{does}</p>\n'
                    f'<table class="index">\n{rows}\n</table>')
        if every:
            links = [f'<a href="{html.escape(names.targets[name])}">{html.escape(name)}</a>' for name in every]
            body.append(f'<details><summary>{len(every)} names</summary><div class="names">' + "\n".join(links) +
                        "</div></details>")
    rows = "\n".join(f'<tr><td><a href="page-{page}.html">{page}</a></td><td>{names.inline(title)}</td></tr>'
                     for page, (title, _) in pages.items())
    body.append(f'<h2 id="pages">Pages</h2>\n<table class="index">\n{rows}\n</table>')
    return "\n".join(body)


def read_pages(docs):
    """Of each page of docs its heading and text."""
    pages = {}
    for name in sorted(os.listdir(docs)):
        if name.endswith(".md"):
            with open(os.path.join(docs, name), encoding="utf-8") as file:
                text = file.read()
            pages[name[:-3]] = (re.match(r"# (.*)", text)[1], text)
    return pages


def write_html(headers, layers, docs, folder, version):
    """Returns the paths of the pages and figures that it read."""
    pages = read_pages(docs)
    names = Names(headers, pages)
    for header in headers:
        write_page(os.path.join(folder, header.file), header.name, version, header_body(header, names))
    for page, (title, text) in pages.items():
        # Links with code in their words: the code is kept apart from other code.
        text = re.sub(r"\[`([^`\]]*)`\]\(", "[\x00\\1\x00](", text)
        write_page(os.path.join(folder, f"page-{page}.html"), title, version, markdown(text, names))
    write_page(os.path.join(folder, "index.html"), f"ptxgen {version}", version,
               index_body(headers, layers, pages, names, version))
    found = [[entry.name, f"{header.file}#{entry.name}", summary(entry.doc, "")]
             for header in headers for entry in header.entries]
    found += [[header.name, header.file, header_summary(header)] for header in headers]
    known = {name for name, _, _ in found}
    found += [[name, place, "of " + place.partition("#")[2]]
              for name, place in names.targets.items() if name not in known and "#" in place]
    for page, (title, text) in pages.items():
        found.append([f"{page}.md", f"page-{page}.html", title])
        plain = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        found += [[f"{page}.md", f"page-{page}.html#{anchor(heading)}", heading]
                  for heading in re.findall(r"^##+ (.*)", plain, re.M)]
    found = [[name, place, said.replace("`", "")] for name, place, said in found]
    for name, text in (("style.css", STYLE), ("search.js", SEARCH), ("names.js", f"var NAMES = {json.dumps(found)};\n")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    shutil.copytree(os.path.join(docs, "figures"), os.path.join(folder, "figures"))
    figures = os.path.join(docs, "figures")
    return [os.path.join(docs, f"{page}.md") for page in pages] + [
        os.path.join(figures, name) for name in os.listdir(figures)]
