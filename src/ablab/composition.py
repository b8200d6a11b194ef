"""From overrides to one resolved config: the same for the command line and for `ablab.compose`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_store import ConfigStore
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from . import catalog, paths, registry
from .catalog import GROUPS
from .commandline import prepare
from .errors import UsageError
from .explain import explained
from .schema import BUDGETS, Config
from .validate import validate


@cache
def store_options() -> None:
    """Hand Hydra what is not a file of conf/: the schema, every registered option, every experiment."""
    setup_globals()
    store = ConfigStore.instance()
    store.store(name="schema", node=Config, provider="ablab")
    for slot in registry.SLOTS:
        for name, option in catalog.options(slot).items():
            store.store(group=slot, name=name, node=option.node(), provider=option.module)
    for folder in paths.experiment_folders():
        for file in sorted(folder.glob("*.yaml")):
            try:
                node = OmegaConf.load(file)  # reads 1e-4 as a number, which plain YAML does not
            except Exception as error:
                raise UsageError(f"experiment={file.stem}: {file} is no valid YAML: {error}") from error
            store.store(group="experiment", name=file.stem, package="_global_", node=node, provider=str(file))


def make_loader() -> ConfigLoaderImpl:
    """A Hydra config loader that knows conf/ and everything registered; touches no global Hydra state."""
    store_options()
    return ConfigLoaderImpl(config_search_path=create_config_search_path(str(paths.shipped("conf"))))


def compose(overrides: Sequence[str] = ()) -> DictConfig:
    """The config that `run.py` would use for one run.

    Args:
        overrides: as typed on the command line, e.g. `["norm=layer", "model.d_model=64"]`.

    Raises:
        UsageError: an unknown key or option, or a value out of range; names the key and the choices.
    """
    command = prepare(list(overrides), multirun=False)
    loader = make_loader()
    with explained(command.overrides):
        cfg = loader.load_configuration("config", list(command.overrides), run_mode=RunMode.RUN)
    return finish(cfg, command.explicit)


def finish(cfg: DictConfig, explicit: frozenset[str] = frozenset()) -> DictConfig:
    """Turn a composed config into the plain, resolved, checked one that a run stores.

    Args:
        cfg: as Hydra composes it, with its `hydra` node.
        explicit: keys that were set by hand; they win over what a scale sets.
    """
    chosen = {k: str(v) for k, v in cfg.hydra.runtime.choices.items() if k in GROUPS}
    with explained(()):
        own = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
        missing = sorted(OmegaConf.missing_keys(own))
        if missing:
            raise UsageError(f"{missing[0]} has no value (it is ???); set {missing[0]}=...")
        plain: dict[str, Any] = OmegaConf.to_container(own, resolve=True)  # type: ignore[assignment]
    plain.pop("experiment", None)
    config: dict[str, Any] = {"choices": {group: chosen[group] for group in GROUPS if group in chosen}} | plain
    _one_budget(config["train"], explicit)
    _read_by(config["choices"]["data"], explicit)
    _same_function(config)
    result = OmegaConf.create(_literal(config))
    validate(result)
    return result


def _literal(value: Any) -> Any:
    """The same value with every `${` in its texts escaped: what is resolved once is not resolved again."""
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return value.replace("${", "\\${") if isinstance(value, str) else value


def _one_budget(train: dict[str, Any], explicit: frozenset[str]) -> None:
    """A budget set by hand replaces the number of steps that the scale brings."""
    others = [b for b in BUDGETS[1:] if train[b] is not None]
    typed = "train.steps" in explicit and train["steps"] is not None
    if len(others) > 1 or (others and typed):
        pair = ["steps", *others] if typed else others
        raise UsageError("set one budget, not several: " + ", ".join(f"train.{b}" for b in pair))
    if others:
        train["steps"] = None
    elif train["steps"] is None:
        raise UsageError("train.steps is null: set one budget: " + ", ".join(f"train.{b}" for b in BUDGETS))


def _read_by(data: str, explicit: frozenset[str]) -> None:
    """Keys that only one kind of data reads are refused with the others, rather than doing nothing."""
    for key, reader in (("data.val_fraction", "text"), ("data.verse_numbers", "kjv")):
        if key in explicit and data != reader and data in ("kjv", "shakespeare", "text"):
            raise UsageError(f"{key} is read by data={reader} only, not by data={data}")


def _same_function(config: dict[str, Any]) -> None:
    """Without norms a placement says nothing: `post_norm` with `identity` is stored as `pre_norm`."""
    if config["choices"]["norm"] == "identity" and config["choices"]["block"] == "post_norm":
        config["choices"]["block"] = "pre_norm"
        config["block"] = {key: default for key, (_, default) in catalog.option("block", "pre_norm").keywords.items()}
