"""A hash of source code that changes when behaviour may have changed, and not when a comment did.

Code is compared as a syntax tree without comments, docstrings and layout. Of a component only the class itself and
what it refers to counts, so that editing one norm leaves the runs of the others valid.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path

#: stands for a whole module where a name would
WHOLE = "*"


@cache
def of_module(module: str) -> str:
    """Hash (16 hex digits) of a whole module's code, e.g. `ablab.training.loop`."""
    return _digest(ast.unparse(_bare(_tree(module))))


@cache
def of_class(module: str, name: str) -> str:
    """Hash (16 hex digits) of a class together with everything of this package or plug-in that it refers to."""
    seen: dict[tuple[str, str], str] = {}
    _collect(module, name, seen)
    return _digest("\n".join(seen[key] for key in sorted(seen)))


def _collect(module: str, name: str, seen: dict[tuple[str, str], str]) -> None:
    """Put the source of `name`, and of the module-level names it uses, into `seen`, following imports of ours."""
    if (module, name) in seen:
        return
    if name == WHOLE:
        _collect_module(module, seen)
        return
    tree = _tree(module)
    node = _definitions(tree).get(name)
    if node is None:
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        target = _imported(node, name, module)
        if target is not None:
            seen[module, name] = ""
            _collect(*target, seen)
        return
    bare = _bare(node)
    seen[module, name] = ast.unparse(bare)
    used = {n.id for n in ast.walk(bare) if isinstance(n, ast.Name)} - set(dir(builtins))
    for other in sorted(used):
        _collect(module, other, seen)


def _collect_module(module: str, seen: dict[tuple[str, str], str]) -> None:
    """Put a whole module, and what it imports of ours, into `seen`: which of its names are used cannot be told."""
    tree = _tree(module)
    seen[module, WHOLE] = ast.unparse(_bare(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                target = _imported(node, alias.asname or alias.name, module)
                if target is not None:
                    _collect(*target, seen)


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name.partition(".")[0], node)
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {t.id: node for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def _imported(node: ast.Import | ast.ImportFrom, name: str, module: str) -> tuple[str, str] | None:
    """(module, name) that an import statement binds, when it is code that may change with the user's edits; the name
    is WHOLE where it binds a module."""
    if isinstance(node, ast.Import):
        bound = [a.name for a in node.names if (a.asname or a.name.partition(".")[0]) == name.partition(".")[0]]
        ours = [full for full in bound if full.partition(".")[0] == module.partition(".")[0] and _is_module(full)]
        return (ours[0], WHOLE) if ours else None
    source = "." * node.level + (node.module or "")
    package = module if _path(module).name == "__init__.py" else module.rpartition(".")[0]
    absolute = importlib.util.resolve_name(source, package) if node.level else source
    if absolute.partition(".")[0] != module.partition(".")[0] or absolute == "ablab.registry":
        return None
    original = next((a.name for a in node.names if (a.asname or a.name) == name), None)
    if original is None:
        return None
    inner = f"{absolute}.{original}"
    return (inner, WHOLE) if _path(absolute).name == "__init__.py" and _is_module(inner) else (absolute, original)


def _is_module(name: str) -> bool:
    try:
        return _path(name).is_file()
    except (FileNotFoundError, ImportError):
        return False


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _path(module: str) -> Path:
    """Source file of a module, found without importing it where that can be."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded:
        return Path(loaded)
    if module.partition(".")[0] == "ablab":
        base = Path(__file__).resolve().parents[1].joinpath(*module.split(".")[1:])
        return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin:
        raise FileNotFoundError(f"no source for module {module}")
    return Path(spec.origin)


class _NoDocstrings(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
            node.body = kept or ([ast.Pass()] if body else [])  # type: ignore[attr-defined]
        return node


def _bare(node: ast.AST) -> ast.AST:
    copy = ast.parse(ast.unparse(node))
    return ast.fix_missing_locations(_NoDocstrings().visit(copy))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
