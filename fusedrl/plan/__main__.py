"""`python -m fusedrl.plan cluster=h100_16x8 actor=llama_70b critic=llama_7b data.lengths=FILE`: see command.py."""

import sys

from fusedrl.plan.command import main

if __name__ == "__main__":
    sys.exit(main())
