"""What one seed may say: what was seen, how large noise is, and the command that would give a verdict."""

from __future__ import annotations

from ablab.analysis import timing, words
from ablab.analysis.document import Block, Code, Items, Text, duration, listed
from ablab.analysis.facts import Facts
from ablab.analysis.levels import finite

MORE = (3, 5)


def one_seed(facts: Facts) -> list[Block | None]:
    """The whole first screen of a study with one seed: no verdict, and the way to one."""
    found: list[Block | None] = [
        Text(
            "One seed is a smoke test and a check that the switches do something. It gives no verdict: "
            "what is seen here may be the seed alone.",
            "lead",
        )
    ]
    lines = words.seen(facts)
    found.append(Items(lines, "lead") if lines else None)
    found.append(Text(against_noise(facts)))
    used = facts.plan.seeds
    wanted = sorted([*used, *[seed for seed in range(MORE[0] + len(used)) if seed not in used][: MORE[0] - len(used)]])
    command = words.more_seeds(facts.plan.command, wanted)
    if command:
        found.append(Text(f"This command adds seeds and keeps what is done{how_long(facts)}:"))
        found.append(Code(command))
    else:
        found.append(Text(f"A verdict needs at least three seeds of every variant{how_long(facts)}."))
    found.append(Text(could_find(facts)))
    return found


def differences(facts: Facts) -> list[float]:
    """Every difference that `words.seen` tells of."""
    found = []
    for key, level in facts.plan.baseline.items():
        for row, partner, _ in words.one_factor_pairs(facts.rows, key, level):
            found += [row.values[seed] - partner.values[seed] for seed in row.values if seed in partner.values]
    return found


def against_noise(facts: Facts) -> str:
    """How what was seen compares with the noise known at this scale."""
    noise, seen = facts.plan.noise or {}, [abs(value) for value in differences(facts)]
    sd = finite(noise.get("sd"))
    if sd is None:
        return (
            "How large noise is at this scale is not known here: it takes more seeds, or the same variant trained "
            "again with another initialisation (`seeds.salt=0,1`)."
        )
    n = f", measured on {noise['n']} pairs" if noise.get("n") else ""
    machine = f", {noise['machine']}" if noise.get("machine") else ""
    text = f"Noise known at this scale: two runs of the same variant differ by a standard deviation of {sd:.4f} nats{n}{machine}"
    if not seen or sd == 0:
        return text + "."
    return f"{text}. The differences seen are {min(seen) / sd:.1f} to {max(seen) / sd:.1f} times that."


def how_long(facts: Facts) -> str:
    """How long the missing seeds take, from the measured time of the runs."""
    known = [timing.seconds(run) for row in facts.rows for run in row.finished]
    spent = [value for value in known if value is not None]
    if not spent:
        return ""
    per_seed = sum(spent) / len(spent) * len(facts.rows)
    return f", about {duration(per_seed * (MORE[0] - 1))} of training if the cells run one after another"


def could_find(facts: Facts) -> str:
    """What three or five seeds could find, in nats where the noise is known, else in units of it."""
    from ablab.analysis.stats.looks import planned_level
    from ablab.analysis.stats.power import mde_factor

    plan = facts.plan
    family = max(1, sum(item["primary"] for item in facts.report["comparisons"]))
    level = planned_level(len(plan.seeds), plan.looks, plan.alpha)
    factors = {n: mde_factor(n, level, family) for n in MORE}
    sd = finite((plan.noise or {}).get("sd"))
    sizes = [f"{n} seeds {factor * sd:.4f} nats" if sd else f"{n} seeds {factor:.2f}" for n, factor in factors.items()]
    unit = "" if sd else " standard deviations of a paired difference"
    several = f" ({family} comparisons, family-wise)" if family > 1 else ""
    return f"Smallest difference found with 80 % power{several}: {listed(sizes)}{unit}."
