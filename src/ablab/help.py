"""The text of `--help`, made from the configs and the registry, so that it cannot go stale."""

from __future__ import annotations

from . import catalog, registry
from .commandline import group_options
from .paths import shipped

HEAD = """Ablab: train every variant of a decoder language model and find out which swap matters.

  python run.py norm=layer                                  one run
  python run.py -m norm=rms,layer ffn=swiglu,relu seed=0,1,2   every combination, several at once; again: only what is missing
  python run.py experiment=NAME                             a question from experiments/; sweeps by itself
  python run.py -m norm=rms,layer plan=true                 what it would do and cost; trains nothing
  ablab runs list | ablab report PATH --out DIR | ablab collect PATH --out FILE | ablab generate RUN --prompt TEXT
"""


def text() -> str:
    """The whole help text."""
    lines = [HEAD, "Groups (group=option; the first is the default)"]
    for slot, (what, _) in registry.SLOTS.items():
        lines.append(f"  {slot:10} {' '.join(catalog.options(slot)):32} {what}")
    for group, what in (("data", "the text"), ("scale", "sizes and budget together"), ("tracker", "where curves are shown"),
                        ("experiment", "a question with its sweep")):  # fmt: skip
        lines.append(f"  {group:10} {' '.join(group_options(group)):32} {what}")
    lines.append("\nOptions of components (they belong to the options named)")
    for slot in registry.SLOTS:
        known: dict[str, list[str]] = {}
        for option in catalog.options(slot).values():
            for key, (_, default) in option.keywords.items():
                known.setdefault(f"{slot}.{key}={'null' if default is None else default}", []).append(option.name)
        lines += [f"  {key:32} {', '.join(names)}" for key, names in known.items()]
    lines.append("\nKeys")
    lines.append(_keys())
    lines.append("Hydra's own flags: --cfg job, --info, --config-dir DIR, --hydra-help, --shell-completion")
    return "\n".join(lines)


def _keys() -> str:
    """The commented part of conf/config.yaml after its defaults list."""
    body = (shipped("conf") / "config.yaml").read_text(encoding="utf-8")
    body = body.partition("\ndata:")[2].partition("\nhydra:")[0]
    return "\n".join(f"  {line}" if line else "" for line in ("data:" + body).splitlines())
