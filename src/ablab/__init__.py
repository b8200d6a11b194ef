"""Ablab: an ablation lab for decoder-only language models."""
