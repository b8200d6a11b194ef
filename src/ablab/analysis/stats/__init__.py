"""Statistics: each a small pure function on a table of runs or on arrays, with a known answer as its test."""

from .blocked import Blocked, Spread, additive_mse, blocked_dunnett, spread_bounds, spread_check
from .curves import (
    Reached,
    TargetRatio,
    spike_score,
    spike_window,
    target_ratio,
    token_slope,
    tokens_to_target,
    tokens_worth,
)
from .dunnett import dunnett_critical, dunnett_sf
from .factorial import Contrast, Effect, Factorial, factorial
from .failures import (
    Divergence,
    divergence,
    mcnemar_exact,
    sign_test,
    wilson,
)
from .family import Comparison, Family, compare
from .looks import DEFAULT_LOOKS, Look, check_looks, level_at, look_level, planned_level
from .multiplicity import benjamini_hochberg, bh_level, holm, holm_levels
from .noise import (
    FalseVerdicts,
    NoiseFloor,
    false_verdict_share,
    mean_interval,
    noise_floor,
)
from .paired import MIN_SEEDS, Pairs, correlation, paired_t, pairing_pays_above, pairs, std_interval
from .power import equivalence_limit, equivalence_power, mde, mde_factor, n_needed
from .sums import OneWay, mean, one_way, std, sum_squares, variance
from .tuning import sensitivity
from .verdict import practical, verdict

__all__ = [
    "DEFAULT_LOOKS",
    "MIN_SEEDS",
    "Blocked",
    "Comparison",
    "Contrast",
    "Divergence",
    "Effect",
    "Factorial",
    "FalseVerdicts",
    "Family",
    "Look",
    "NoiseFloor",
    "OneWay",
    "Pairs",
    "Reached",
    "Spread",
    "TargetRatio",
    "additive_mse",
    "benjamini_hochberg",
    "bh_level",
    "blocked_dunnett",
    "check_looks",
    "compare",
    "correlation",
    "divergence",
    "dunnett_critical",
    "dunnett_sf",
    "equivalence_limit",
    "equivalence_power",
    "factorial",
    "false_verdict_share",
    "holm",
    "holm_levels",
    "level_at",
    "look_level",
    "mcnemar_exact",
    "mde",
    "mde_factor",
    "mean",
    "mean_interval",
    "n_needed",
    "noise_floor",
    "one_way",
    "paired_t",
    "pairing_pays_above",
    "pairs",
    "planned_level",
    "practical",
    "sensitivity",
    "sign_test",
    "spike_score",
    "spike_window",
    "spread_bounds",
    "spread_check",
    "std",
    "std_interval",
    "sum_squares",
    "target_ratio",
    "token_slope",
    "tokens_to_target",
    "tokens_worth",
    "variance",
    "verdict",
    "wilson",
]
