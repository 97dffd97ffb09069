#!/usr/bin/env bash
# The tests of the launchers with the real engines: torchrun, Slurm, Open MPI, Ray, sweeps on Slurm. Ten minutes or so on
# two cores. Further arguments go to pytest: bash launch/test_launchers.sh -k slurm
#
# Installs what it can: Debian's Slurm, munge and Open MPI as root, ray and hydra-submitit-launcher by pip into
# .venv-launchers, which sees the packages of .venv. What is missing then is skipped, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
venv=.venv-launchers
PATH="$PATH:/usr/sbin" # slurmd and munged

install_programs() {
    local missing=() program
    for program in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge mpirun:openmpi-bin; do
        command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "test_launchers: installing ${missing[*]}"
        { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"; } \
            >"$venv.log" 2>&1 || echo "test_launchers: apt-get failed (see $venv.log)" >&2
    else
        echo "test_launchers: not installed, and this is not root on Debian: ${missing[*]}" >&2
    fi
}

install_packages() {
    [ -x "$venv/bin/python" ] || .venv/bin/python -m venv "$venv"
    "$venv/bin/python" - <<'PYTHON'
import pathlib
import sysconfig

here = pathlib.Path(sysconfig.get_path("purelib"))
(here / "beside.pth").write_text(str(here).replace(".venv-launchers", ".venv") + "\n")
PYTHON
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/pip" install --quiet --constraint constraints.txt ray hydra-submitit-launcher ||
        echo "test_launchers: pip could not install ray and hydra-submitit-launcher" >&2
}

install_programs
install_packages
export FUSEDRL_TEST_LAUNCHERS="$PWD/$venv" OMP_NUM_THREADS=1
exec .venv/bin/python -m pytest tests/launch "$@"
