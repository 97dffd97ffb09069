#!/usr/bin/env bash
# The tests of the loggers with the real W&B (offline) and MLflow (files), a minute; they are installed by pip into
# .venv-loggers, which sees the packages of .venv. Further arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
venv=.venv-loggers
[ -x "$venv/bin/python" ] || .venv/bin/python -m venv "$venv"
"$venv/bin/python" - <<'PYTHON'
import pathlib
import sysconfig

here = pathlib.Path(sysconfig.get_path("purelib"))
(here / "beside.pth").write_text(str(here).replace(".venv-loggers", ".venv") + "\n")
PYTHON
PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/pip" install --quiet --constraint constraints.txt wandb mlflow-skinny
export OMP_NUM_THREADS=1
exec "$venv/bin/python" -m pytest tests/fusedrl/telemetry "$@"
