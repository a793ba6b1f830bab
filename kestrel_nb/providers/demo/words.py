"""The words that the demo model knows: kinds of files, numbers, verbs, commands."""

from __future__ import annotations

import re

KINDS: dict[str, str] = {
    "python": "*.py",
    "py": "*.py",
    "javascript": "*.js",
    "js": "*.js",
    "typescript": "*.ts",
    "ts": "*.ts",
    "markdown": "*.md",
    "md": "*.md",
    "json": "*.json",
    "jsonl": "*.jsonl",
    "csv": "*.csv",
    "tsv": "*.tsv",
    "yaml": "*.{yaml,yml}",
    "yml": "*.{yaml,yml}",
    "toml": "*.toml",
    "ini": "*.ini",
    "text": "*.txt",
    "txt": "*.txt",
    "html": "*.html",
    "css": "*.css",
    "stylesheet": "*.css",
    "xml": "*.xml",
    "sql": "*.sql",
    "shell": "*.sh",
    "sh": "*.sh",
    "bash": "*.sh",
    "rust": "*.rs",
    "java": "*.java",
    "rst": "*.rst",
    "log": "*.log",
    "notebook": "*.ipynb",
    "jupyter": "*.ipynb",
    "jupyter notebook": "*.ipynb",
    "ipynb": "*.ipynb",
    "parquet": "*.parquet",
    "excel": "*.{xlsx,xls}",
    "xlsx": "*.xlsx",
    "pdf": "*.pdf",
    "svg": "*.svg",
    "png": "*.png",
    "jpeg": "*.{jpg,jpeg}",
    "jpg": "*.{jpg,jpeg}",
    "image": "*.{png,jpg,jpeg,gif,svg,webp}",
    "picture": "*.{png,jpg,jpeg,gif,svg,webp}",
}
"""Kind of file -> the glob of its names."""

SELF_NAMED = "notebook|jupyter notebook|image|picture|stylesheet|csv|pdf|log|markdown|json|yaml|svg|png"
"""Kinds whose plural alone means the files: "the notebooks", "all CSVs"."""

EXTENSIONLESS = {"readme": "README.md", "makefile": "Makefile", "dockerfile": "Dockerfile", "license": "LICENSE"}
EXTENSIONLESS |= {"licence": "LICENSE", "changelog": "CHANGELOG.md", "pyproject": "pyproject.toml"}
"""What people call a file -> the name that it most likely has."""

NUMBERS = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "hundred": 100, "dozen": 12}
NUMBER = r"\d[\d,]*|" + "|".join(sorted(NUMBERS, key=len, reverse=True))


def number(text: str) -> int:
    """The number that ``text`` names, in digits or as a word."""
    return NUMBERS[text.lower()] if text.isalpha() else int(text.replace(",", ""))


COMMANDS = frozenset(
    [
        "ls",
        "cat",
        "echo",
        "pwd",
        "git",
        "python",
        "python3",
        "pip",
        "pip3",
        "pytest",
        "npm",
        "npx",
        "yarn",
        "pnpm",
        "node",
        "make",
        "rm",
        "cp",
        "mv",
        "mkdir",
        "rmdir",
        "touch",
        "grep",
        "rg",
        "egrep",
        "find",
        "sed",
        "awk",
        "wc",
        "head",
        "tail",
        "sort",
        "uniq",
        "cut",
        "tr",
        "diff",
        "curl",
        "wget",
        "docker",
        "cargo",
        "go",
        "uv",
        "ruff",
        "mypy",
        "black",
        "isort",
        "flake8",
        "tox",
        "nox",
        "bash",
        "sh",
        "zsh",
        "env",
        "printenv",
        "date",
        "whoami",
        "df",
        "du",
        "ps",
        "which",
        "tree",
        "jupyter",
        "conda",
        "java",
        "javac",
        "gcc",
        "cmake",
        "tar",
        "zip",
        "unzip",
        "gzip",
        "ln",
        "chmod",
        "chown",
        "stat",
        "file",
        "printf",
        "seq",
        "sleep",
        "true",
        "false",
        "test",
        "kill",
        "uname",
        "hostname",
        "jq",
        "sqlite3",
        "psql",
        "hatch",
        "poetry",
        "pdm",
        "make",
    ]
)
"""First words that make an unquoted text a command. Others need quotes, a path or an option."""

VERBS = (
    "list|ls|dir|show|display|print|find|locate|read|open|cat|view|head|tail|search|grep|look|count|write"
    "|create|make|save|"
    "store|put|add|append|replace|rename|change|substitute|swap|edit|update|modify|run|execute|exec|launch|invoke|plan|"
    "fetch|download|get|load|compute|calculate|evaluate|eval|work out|solve|tell|give|let|summari[sz]e|sum up|describe|"
    "explain|use|call|remember|recall|forget|delegate|hand|ask|delete|remove|finish|end|stop|note|jot|extract|parse|"
    "convert|check|inspect|examine|enumerate|glob|report|what|what's|whats|which|where|where's|how|is|are|do|does|who|"
    "test|track|draft|outline|define|query|insert|match|set|start|begin|move|copy|install|commit|push|fix|send|"
    "analy[sz]e|plot|draw|sort|build|deploy|refactor|compare|translate|clean|wipe|erase|drop|destroy|kill"
    "|generate|import"
)
STARTS = re.compile(rf"(?:{VERBS})\b(?!['’]?s?\s*[.=(])(?!\.\w)|[$!]\s?\w", re.I)
"""A new part of a request begins with one of these."""
