"""The names that files of a type have: one table for both engines."""

from __future__ import annotations

from functools import cache
from typing import Final

#: A line for each type: its names, of which the first is the usual one, and patterns for the names of its files.
_TABLE: Final = """
bash sh shell zsh: *.sh *.bash .bashrc .bash_profile
c h: *.c *.h
cfg ini: *.cfg *.conf *.ini
clojure: *.clj *.cljs *.cljc *.edn
cmake: *.cmake CMakeLists.txt
cpp c++ cxx: *.cpp *.cc *.cxx *.c++ *.hpp *.hh *.hxx *.h *.inl
cs csharp c#: *.cs
css scss: *.css *.scss *.sass *.less
csv: *.csv *.tsv
dart: *.dart
docker dockerfile: Dockerfile Dockerfile.* *.dockerfile Containerfile
elixir ex: *.ex *.exs *.eex *.heex
erlang: *.erl *.hrl
fsharp: *.fs *.fsx *.fsi
go golang: *.go
graphql: *.graphql *.gql
haskell hs: *.hs *.lhs
html htm: *.html *.htm *.xhtml
java: *.java
js javascript jsx: *.js *.jsx *.mjs *.cjs *.vue
json jsonl: *.json *.jsonl *.json5
julia: *.jl
kotlin kt: *.kt *.kts
lua: *.lua
make makefile: Makefile makefile GNUmakefile *.mk *.mak
markdown md: *.md *.mdx *.markdown
nix: *.nix
objc objective-c: *.m *.mm *.h
ocaml: *.ml *.mli
perl: *.pl *.pm *.t
php: *.php *.phtml
powershell ps1: *.ps1 *.psm1 *.psd1
protobuf proto: *.proto
py python: *.py *.pyi
r: *.R *.r *.Rmd
rst: *.rst
ruby rb: *.rb *.gemspec Gemfile Rakefile
rust rs: *.rs
scala: *.scala *.sbt
sql: *.sql
svelte: *.svelte
swift: *.swift
terraform tf: *.tf *.tfvars
tex latex: *.tex *.bib *.sty *.cls
toml: *.toml
ts typescript tsx: *.ts *.tsx *.mts *.cts
txt text: *.txt
vue: *.vue
xml: *.xml *.xsd *.xsl *.xslt *.svg
yaml yml: *.yaml *.yml
zig: *.zig
"""


@cache
def _types() -> dict[str, tuple[str, ...]]:
    rows = [line.split(": ") for line in _TABLE.strip().splitlines()]
    return {name: tuple(patterns.split()) for names, patterns in rows for name in names.split()}


def known_types() -> list[str]:
    """Return the usual name of each type."""
    return sorted(line.split(":")[0].split()[0] for line in _TABLE.strip().splitlines())


def file_patterns(name: str) -> tuple[str, ...]:
    """Return the patterns for the names of files of a type; raise KeyError for an unknown one."""
    return _types()[name.strip().lower()]
