"""`python -m schedules`."""

import sys

from schedules.cli import main

sys.exit(main())
