#!/usr/bin/env bash
# Runs a command as one rank of a job that srun or mpirun started: bash launch/rank_env.sh python -m fusedrl.ppo ...
# Sets torch's names (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE) from the launcher's. MASTER_ADDR and MASTER_PORT
# come from outside: launch/slurm.sbatch and launch/mpirun.sh set them.
set -euo pipefail
launcher="${BASH_SOURCE[0]}"

fail() {
    echo "$(basename -- "$launcher"): $*" >&2
    exit 2
}

# tasks_of NODE LIST: the entry of node number NODE in Slurm's way of writing lists, 4(x2),3 for 4,4,3
tasks_of() {
    local part node="$1" asked="$1"
    local -a parts
    IFS=, read -r -a parts <<<"$2"
    for part in "${parts[@]}"; do
        local tasks="${part%%(*}" times=1
        [[ "$part" == *"(x"* ]] && times="${part##*(x}" && times="${times%)}"
        if [ "$node" -lt "$times" ]; then
            echo "$tasks"
            return
        fi
        node=$((node - times))
    done
    fail "node $asked has no entry in SLURM_STEP_TASKS_PER_NODE=$2"
}

if [ -n "${OMPI_COMM_WORLD_RANK:-}" ]; then
    export RANK="$OMPI_COMM_WORLD_RANK" WORLD_SIZE="$OMPI_COMM_WORLD_SIZE"
    export LOCAL_RANK="$OMPI_COMM_WORLD_LOCAL_RANK" LOCAL_WORLD_SIZE="$OMPI_COMM_WORLD_LOCAL_SIZE"
elif [ -n "${SLURM_STEP_NUM_TASKS:-}" ] && [ -n "${SLURM_PROCID:-}" ]; then
    export RANK="$SLURM_PROCID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_RANK="$SLURM_LOCALID"
    LOCAL_WORLD_SIZE="$(tasks_of "$SLURM_NODEID" "$SLURM_STEP_TASKS_PER_NODE")"
    export LOCAL_WORLD_SIZE
else
    fail "neither srun nor mpirun started this process: SLURM_PROCID and OMPI_COMM_WORLD_RANK are not set"
fi
[ -n "${MASTER_ADDR:-}" ] || fail "MASTER_ADDR is not set: the address of rank 0's node, where all ranks meet"
[ -n "${MASTER_PORT:-}" ] || fail "MASTER_PORT is not set: a free port on rank 0's node"
[ $# -ge 1 ] || fail "the command to run is missing, as in: $launcher python -m fusedrl.ppo"
exec "$@"
