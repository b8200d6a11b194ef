"""The door: Hydra composes the config, ablab runs it. `python run.py --help` says what can be chosen."""

from ablab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
