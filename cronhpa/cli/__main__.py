"""`python -m cronhpa.cli`."""

from cronhpa.cli import main

main()
