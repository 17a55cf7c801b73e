# SPDX-License-Identifier: MIT
"""test_reference.py LIBRARY HTML MAN: the reference has every function that the library exports, with a
prototype and a text; its links lead somewhere; its pages are whole HTML, and groff has no complaint."""

import html.parser
import os
import re
import shutil
import subprocess
import sys

library, html_folder, man_folder = sys.argv[1:]
failures = []


class Page(html.parser.HTMLParser):
    EMPTY = {"meta", "br"}

    def __init__(self, path):
        super().__init__()
        self.open, self.ids, self.links = [], set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())
        if self.open:
            failures.append(f"{path}: not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in self.EMPTY:
            self.open.append(tag)
        if "id" in attributes:
            if attributes["id"] in self.ids:
                failures.append(f"{attributes['id']} is there twice")
            self.ids.add(attributes["id"])
        if "href" in attributes:
            self.links.append(attributes["href"])

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


pages = {name: Page(os.path.join(html_folder, name)) for name in os.listdir(html_folder)}
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
for name, page in pages.items():
    for link in page.links:
        target, _, anchor = link.partition("#")
        other = pages.get(target) if target else page
        if not other or (anchor and anchor not in other.ids):
            failures.append(f"{name}: {link} leads nowhere")
if shutil.which("groff"):
    sheets = [os.path.join(man_folder, name) for name in sorted(os.listdir(man_folder))]
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *sheets], stderr=subprocess.PIPE, text=True)
    failures += done.stderr.splitlines()[:20]

print("\n".join(failures))
print(f"{len(names)} exported names, {len(pages)} pages, {len(failures)} failures")
sys.exit(1 if failures else 0)
