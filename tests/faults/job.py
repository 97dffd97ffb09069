"""`fusedrl.ppo` as a user starts it, in a rank that meets a fault: python -m tests.faults.job KEY=VALUE ...

The fault stands in the environment (FUSEDRL_TEST_FAULT), so that a launcher hands it on. It is met at the first start
alone: a launcher that starts the ranks again finds them well.
"""

import os
import sys

from fusedrl import ppo
from tests.faults.faults import Fault, meet

FAULT = "FUSEDRL_TEST_FAULT"


def main() -> None:
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        meet(Fault.of_text(os.environ.get(FAULT, "")))
    ppo.main()


if __name__ == "__main__":
    sys.argv[0] = "fusedrl.ppo"
    main()
