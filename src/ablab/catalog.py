"""What can be chosen, known without importing torch.

Shipped components are read from their source (decorator, signature, docstring), which takes milliseconds where
importing torch takes seconds: `--help`, typing errors and composing configs stay fast. Components of other people
are imported and read from the registry; so is any shipped one whose defaults are no literals.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import types
import typing
from dataclasses import dataclass, field, make_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Union

from . import paths, registry
from .errors import UsageError, unknown

#: groups that are YAML files of conf/, beside the slots of the registry
FILE_GROUPS = ("data", "scale", "tracker")
GROUPS = (*registry.SLOTS, *FILE_GROUPS)


@dataclass(frozen=True)
class Option:
    """One option of a slot: `norm=rms`, with its keyword arguments as (type, default)."""

    slot: str
    name: str
    cls_name: str
    module: str
    doc: str
    keywords: dict[str, tuple[Any, Any]]

    def node(self) -> type:
        """A dataclass named after the class: Hydra's typed config node for this option."""
        fields = [(key, kind, _default(value)) for key, (kind, value) in self.keywords.items()]
        return make_dataclass(self.cls_name, fields)


def _default(value: Any) -> Any:
    """A dataclass field with this default; a list gets a copy of its own each time."""
    return field(default_factory=partial(list, value)) if isinstance(value, list) else field(default=value)


@cache
def options(slot: str) -> dict[str, Option]:
    """Every option of a slot by name: the shipped ones, then those of plug-ins."""
    if slot not in registry.SLOTS:
        raise unknown("slot", slot, registry.SLOTS)
    found = _scan(slot)
    if load_plugins() or registry._options[slot]:
        for name, cls in registry._options[slot].items():
            if name not in found:
                found[name] = _from_class(slot, name, cls)
    first = defaults()[slot]
    return {first: found[first]} | found


def option(slot: str, name: str) -> Option:
    """One option; a UsageError lists the choices when there is none."""
    try:
        return options(slot)[name]
    except KeyError:
        raise unknown(f"option of {slot}:", name, options(slot)) from None


@cache
def defaults() -> dict[str, str]:
    """The default option of every group, as `conf/config.yaml` says."""
    import yaml

    shipped = yaml.safe_load((paths.shipped("conf") / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    pairs = [pair for entry in shipped if isinstance(entry, dict) for pair in entry.items()]
    return {group: str(name) for group, name in pairs if group in GROUPS}


def plugin_sources() -> list[str]:
    """Where other people's components come from: files of ABLAB_PLUGINS (separated by the path separator)."""
    return [s for s in os.environ.get("ABLAB_PLUGINS", "").split(os.pathsep) if s]


@cache
def load_plugins() -> int:
    """Import other people's components: entry points of the group `ablab.plugins`, then files of ABLAB_PLUGINS.

    Returns how many there are. An installed plug-in that breaks is reported by name and does not take the rest along;
    a file that was named for this command and breaks is a UsageError.
    """
    count = 0
    for point in importlib.metadata.entry_points(group="ablab.plugins"):
        try:
            point.load()
            count += 1
        except Exception as error:
            print(f"ablab: plug-in '{point.name}' ({point.value}) does not load: {error!r}", file=sys.stderr)
    for source in plugin_sources():
        path = Path(source).expanduser().resolve()
        if not path.is_file():
            raise UsageError(f"ABLAB_PLUGINS: no such file: {source}")
        try:
            _import_file(path)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"ABLAB_PLUGINS: {source} does not load: {error!r}") from error
        count += 1
    return count


def _import_file(path: Path) -> types.ModuleType:
    name = f"ablab_plugin_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"ABLAB_PLUGINS: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _scan(slot: str) -> dict[str, Option]:
    home = registry.HOMES[slot]
    path = Path(__file__).parent / (home.removeprefix("ablab.").replace(".", "/") + ".py")
    found: dict[str, Option] = {}
    classes = {n.name: n for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.ClassDef)}
    for node in classes.values():
        for name in _registered_names(node, slot):
            keywords = _keywords(node, classes)
            if keywords is None:
                found[name] = _from_class(slot, name, registry.get(slot, name))
                continue
            doc = (ast.get_docstring(node) or "").partition("\n")[0]
            found[name] = Option(slot, name, node.name, home, doc, keywords)
    return found


def _registered_names(node: ast.ClassDef, slot: str) -> list[str]:
    names = []
    for call in node.decorator_list:
        if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) == "register":
            words = [a.value for a in call.args if isinstance(a, ast.Constant)]
            if len(words) == 2 and words[0] == slot:
                names.append(str(words[1]))
    return names


def _keywords(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> dict[str, tuple[Any, Any]] | None:
    """Keyword-only arguments of a class, its own or inherited in one file; None where only an import can tell."""
    makers = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name in ("__init__", "__new__")]
    if not makers:
        bases = [ast.unparse(base) for base in node.bases]
        if not bases or bases == ["nn.Module"]:
            return {}
        return _keywords(classes[bases[0]], classes) if len(bases) == 1 and bases[0] in classes else None
    args = makers[0].args
    try:
        return {
            arg.arg: _field(ast.unparse(arg.annotation) if arg.annotation else None, ast.literal_eval(default))
            for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
            if default is not None
        }
    except ValueError:
        return None


def _from_class(slot: str, name: str, cls: type) -> Option:
    doc = (inspect.getdoc(cls) or "").partition("\n")[0]
    keywords = {
        key: _field(p.annotation if p.annotation is not inspect.Parameter.empty else None, p.default)
        for key, p in registry.keywords(cls).items()
    }
    return Option(slot, name, cls.__name__, cls.__module__, doc, keywords)


def _field(annotation: Any, default: Any) -> tuple[Any, Any]:
    """Type and default as OmegaConf takes them: containers become lists, what it cannot type becomes Any."""
    if isinstance(default, (tuple, list)):
        return list[Any], list(default)
    if default is not None and not isinstance(default, (bool, int, float, str)):
        return Any, None
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, {"__builtins__": {}, "int": int, "float": float, "bool": bool, "str": str})
        except Exception:  # an annotation that names other types: leave it untyped
            annotation = None
    plain = (int, float, bool, str)
    if annotation in plain:
        return annotation, default
    if typing.get_origin(annotation) in (Union, types.UnionType):
        kinds = [a for a in typing.get_args(annotation) if a is not type(None)]
        if len(kinds) == 1 and kinds[0] in plain:
            return typing.Optional[kinds[0]], default  # noqa: UP045 - OmegaConf reads this form on all versions
    return Any, default
