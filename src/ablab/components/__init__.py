"""The parts a decoder is made of: one file per slot, and no part knows another slot's insides.

Shapes: B batch, T time, S keys seen (T plus what a cache holds), D = d_model, H heads, K = D / H head width,
F = d_ff, V vocabulary.
"""
