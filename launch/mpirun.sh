#!/usr/bin/env bash
# Ranks by Open MPI's mpirun: bash launch/mpirun.sh [options of mpirun] -- MODULE [overrides]
#
#   bash launch/mpirun.sh -np 4 -- fusedrl.ppo experiment=arithmetic
#   MASTER_ADDR=10.0.0.1 bash launch/mpirun.sh -np 16 --hostfile hosts -- fusedrl.ppo ...     # rank 0 is on the first host
#
# MPI starts the processes and no more: ranks speak NCCL or gloo. The checkout and the interpreter lie at the same place
# on all hosts.
#
#   MASTER_ADDR      address of the first host; needed with several (default 127.0.0.1)
#   MASTER_PORT      default 29500
#   FUSEDRL_PYTHON   interpreter of the ranks (default: the checkout's .venv, else python3)
#   OMP_NUM_THREADS  default 1
set -euo pipefail
root="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
launcher="${BASH_SOURCE[0]}"
source "$root/launch/common.sh"

options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
done
[ $# -gt 0 ] || fail "-- is missing between the options of mpirun and the module, as in: -np 4 -- fusedrl.ppo"
shift
need_module "$@"
[[ " ${options[*]} " =~ \ (-n|-np|--n|--np|-c)\  ]] || fail "the number of ranks is missing: -np N"
if [[ " ${options[*]} " =~ \ (-H|-host|--host|-hostfile|--hostfile|-machinefile|--machinefile)\  ]]; then
    [ -n "${MASTER_ADDR:-}" ] || fail "MASTER_ADDR is not set: the address of the first host, where all ranks meet"
fi
command -v mpirun >/dev/null || fail "no mpirun here: install Open MPI (Debian: openmpi-bin)"

export MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}" MASTER_PORT="${MASTER_PORT:-29500}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
python="$(pick_python)"
exec mpirun -x MASTER_ADDR -x MASTER_PORT -x OMP_NUM_THREADS -x PYTHONPATH "${options[@]}" \
    bash "$root/launch/rank_env.sh" "$python" -m "$@"
