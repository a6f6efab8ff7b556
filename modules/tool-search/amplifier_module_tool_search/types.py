"""Know which names files of a type have: one table for every engine."""

from __future__ import annotations

from typing import Final

from amplifier_module_tool_search.errors import SearchError

_TYPES: Final = {
    "bash": ("*.sh", "*.bash", ".bashrc", ".bash_profile"),
    "c": ("*.c", "*.h"),
    "cfg": ("*.cfg", "*.conf", "*.ini"),
    "clojure": ("*.clj", "*.cljs", "*.cljc", "*.edn"),
    "cmake": ("*.cmake", "CMakeLists.txt"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.c++", "*.hpp", "*.hh", "*.hxx", "*.h", "*.inl"),
    "cs": ("*.cs",),
    "css": ("*.css", "*.scss", "*.sass", "*.less"),
    "csv": ("*.csv", "*.tsv"),
    "dart": ("*.dart",),
    "docker": ("Dockerfile", "Dockerfile.*", "*.dockerfile", "Containerfile"),
    "elixir": ("*.ex", "*.exs", "*.eex", "*.heex"),
    "erlang": ("*.erl", "*.hrl"),
    "fsharp": ("*.fs", "*.fsx", "*.fsi"),
    "go": ("*.go",),
    "graphql": ("*.graphql", "*.gql"),
    "haskell": ("*.hs", "*.lhs"),
    "html": ("*.html", "*.htm", "*.xhtml"),
    "java": ("*.java",),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue"),
    "json": ("*.json", "*.jsonl", "*.json5"),
    "julia": ("*.jl",),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk", "*.mak"),
    "markdown": ("*.md", "*.mdx", "*.markdown"),
    "nix": ("*.nix",),
    "objc": ("*.m", "*.mm", "*.h"),
    "ocaml": ("*.ml", "*.mli"),
    "perl": ("*.pl", "*.pm", "*.t"),
    "php": ("*.php", "*.phtml"),
    "powershell": ("*.ps1", "*.psm1", "*.psd1"),
    "protobuf": ("*.proto",),
    "py": ("*.py", "*.pyi"),
    "r": ("*.R", "*.r", "*.Rmd"),
    "rst": ("*.rst",),
    "ruby": ("*.rb", "*.gemspec", "Gemfile", "Rakefile"),
    "rust": ("*.rs",),
    "scala": ("*.scala", "*.sbt"),
    "sql": ("*.sql",),
    "svelte": ("*.svelte",),
    "swift": ("*.swift",),
    "terraform": ("*.tf", "*.tfvars"),
    "tex": ("*.tex", "*.bib", "*.sty", "*.cls"),
    "toml": ("*.toml",),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "txt": ("*.txt",),
    "vue": ("*.vue",),
    "xml": ("*.xml", "*.xsd", "*.xsl", "*.xslt", "*.svg"),
    "yaml": ("*.yaml", "*.yml"),
    "zig": ("*.zig",),
}
_ALIASES: Final = {
    "python": "py",
    "javascript": "js",
    "jsx": "js",
    "typescript": "ts",
    "tsx": "ts",
    "rs": "rust",
    "rb": "ruby",
    "golang": "go",
    "c++": "cpp",
    "cxx": "cpp",
    "h": "c",
    "csharp": "cs",
    "c#": "cs",
    "sh": "bash",
    "shell": "bash",
    "zsh": "bash",
    "yml": "yaml",
    "md": "markdown",
    "kt": "kotlin",
    "dockerfile": "docker",
    "makefile": "make",
    "proto": "protobuf",
    "hs": "haskell",
    "ex": "elixir",
    "tf": "terraform",
    "text": "txt",
    "ini": "cfg",
    "objective-c": "objc",
    "latex": "tex",
    "htm": "html",
    "scss": "css",
    "jsonl": "json",
    "ps1": "powershell",
}


def names_of_type(name: str) -> tuple[str, ...]:
    """Return the patterns for file names of a type; raise SearchError for an unknown type."""
    plain = name.strip().lower()
    found = _TYPES.get(_ALIASES.get(plain, plain))
    if found is None:
        known = ", ".join(sorted(_TYPES))
        raise SearchError("unknown_type", f"unknown file type {name!r}; known are {known}. Or use glob.")
    return found
