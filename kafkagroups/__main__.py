"""`python -m kafkagroups` is the command `kafkagroups`."""

from kafkagroups.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
