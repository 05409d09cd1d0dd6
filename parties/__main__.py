"""`python -m parties` is the command `fedaccord`."""

from parties.cli import main

main()
