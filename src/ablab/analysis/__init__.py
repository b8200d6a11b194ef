"""What runs left behind, gathered, judged and reported. Reads folders only; imports nothing of training."""
