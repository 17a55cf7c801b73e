# SPDX-License-Identifier: MIT
"""test_reference.py LIBRARY HTML MAN SOURCE: the reference has every function that the library exports, with a
prototype and a text, each header under a layer, and the pages of docs; the search knows each name; links lead
somewhere, as they are installed; pages are whole HTML and fit a telephone; comments have lost their marks; and groff
has no complaint."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

library, html_folder, man_folder, source = sys.argv[1:]
failures = []


class Page(html.parser.HTMLParser):
    EMPTY = {"meta", "br", "link", "input", "img"}

    def __init__(self, path):
        super().__init__()
        self.open, self.ids, self.links, self.words, self.search, self.viewport = [], set(), [], "", False, False
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())
        if self.open:
            failures.append(f"{path}: not closed: {self.open}")
        if not self.search or not self.viewport:
            failures.append(f"{path}: no search, or no viewport")
        if "page-" not in path and ("///" in self.words or re.search(r"^\s*[/*]*///?<", self.words, re.M)):
            failures.append(f"{path}: marks of comments")

    def handle_data(self, data):
        self.words += data

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in self.EMPTY:
            self.open.append(tag)
        if "id" in attributes:
            if attributes["id"] in self.ids:
                failures.append(f"{attributes['id']} is there twice")
            self.ids.add(attributes["id"])
        self.links += [attributes[name] for name in ("href", "src") if name in attributes]
        self.search |= attributes.get("id") == "search"
        self.viewport |= attributes.get("name") == "viewport" and "width=device-width" in attributes["content"]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            failures.append(f"</{tag}> without its begin")


def exported():
    """The names of the library's functions and rows: of the dynamic symbols, or of an archive's."""
    nm = shutil.which("nm")
    if not nm:
        print("skipped: no nm to list the library's names with")
        sys.exit(77)
    dynamic = [] if library.endswith(".a") else ["-D"]
    listed = subprocess.run([nm, *dynamic, "-g", "--defined-only", library], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    return {name for name in re.findall(r"^\S+ [A-Z] (ptx(?:gen)?_\w+)", listed, re.M)}


pages = {name: Page(os.path.join(html_folder, name)) for name in os.listdir(html_folder) if name.endswith(".html")}
names = exported()
if len(names) < 300:
    failures.append(f"{library} exports only {len(names)} names")
anchors = set().union(*(page.ids for page in pages.values()))
for name in sorted(names):
    path = os.path.join(man_folder, name + ".3")
    if name not in anchors:
        failures.append(f"{name} is not in the HTML")
    if not os.path.exists(path):
        failures.append(f"{name} has no man page")
        continue
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not re.search(rf"\b{name}\(|extern const \w+ {name};", text):
        failures.append(f"{name}.3 has no prototype")
    if ".SH DESCRIPTION" not in text:
        failures.append(f"{name}.3 says nothing")


def leads_somewhere(page, link):
    """From FOLDER/html, beside which the pages and examples are installed."""
    target, _, anchor = link.partition("#")
    if "://" in target:
        return True
    if target.startswith("../"):
        return os.path.exists(os.path.join(source, target[3:]))
    other = pages.get(target) if target else page
    return (other and (not anchor or anchor in other.ids)) or (
        not target.endswith(".html") and os.path.exists(os.path.join(html_folder, target)))


for name, page in pages.items():
    failures += [f"{name}: {link} leads nowhere" for link in page.links if not leads_somewhere(page, link)]
with open(os.path.join(html_folder, "names.js"), encoding="utf-8") as file:
    searched = json.loads(file.read().partition("= ")[2].rstrip(";\n"))
macros = {"ptx_call", "ptx_printf", "ptx_load", "ptx_if"}
failures += [f"the search does not know {name}" for name in (names | macros) - {name for name, _, _ in searched}]
if ["clients.md", "page-clients.html#triton", "Triton"] not in searched:
    failures.append("the search does not know the headings of pages")
failures += [f"the search: {link} leads nowhere" for _, link, _ in searched if not leads_somewhere(None, link)]
for header in os.listdir(os.path.join(source, "include", "ptxgen")):
    if re.sub(r"\.h$", "", header).replace(".", "_") + ".html" not in pages["index.html"].links:
        failures.append(f"{header} is not in the index")
for page in os.listdir(os.path.join(source, "docs")):
    if page.endswith(".md") and f"page-{page[:-3]}.html" not in pages["index.html"].links:
        failures.append(f"docs/{page} is not in the index")
for name, words in (("clip.html", "CUdeviceptr max_norms_at;"), ("step.html", "CUdeviceptr max_norms_at;"),
                    ("object_hpp.html", "ptx_status synchronize(CUstream stream = nullptr) const;"),
                    ("object_hpp.html", "ptx_status norm_sq(CUstream stream = nullptr);"),
                    ("control_hpp.html", "void continue_if(expr cond);"),
                    ("ptxgen_hpp.html", "expr laneid(place at = place::here());"),
                    ("value_hpp.html", "expr fma(expr x, expr y, expr z);"), ("clip.html", "Layer: plans")):
    if words not in pages[name].words:
        failures.append(f"{name} does not have: {words}")
if shutil.which("groff"):
    sheets = [os.path.join(man_folder, name) for name in sorted(os.listdir(man_folder))]
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *sheets], stderr=subprocess.PIPE, text=True)
    failures += done.stderr.splitlines()[:20]

for name, page in pages.items():
    if name.startswith("page-") and re.search(r"[:;.] - ", page.words):
        failures.append(f"{name} has a list within a list as text")
    if name.endswith("_hpp.html"):
        failures += [f"{name} shows the macro {macro}" for macro in re.findall(r"\bPTXGEN_\w+\(.*", page.words)]

print("\n".join(failures))
print(f"{len(names)} exported names, {len(pages)} pages, {len(failures)} failures")
sys.exit(1 if failures else 0)
