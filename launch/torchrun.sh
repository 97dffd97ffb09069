#!/usr/bin/env bash
# Ranks by torchrun, on one node or several: bash launch/torchrun.sh [--rdzv HOST:PORT] MODULE [overrides]
#
#   NPROC_PER_NODE=4 bash launch/torchrun.sh fusedrl.ppo experiment=arithmetic                # one node
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 bash launch/torchrun.sh fusedrl.ppo ...         # on the first node
#   NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 bash launch/torchrun.sh fusedrl.ppo ...         # on the second
#   NNODES=2 bash launch/torchrun.sh --rdzv 10.0.0.1:29500 fusedrl.ppo ...                    # the same line on both
#
#   NPROC_PER_NODE    ranks on each node (default: the GPUs that are seen here)
#   NNODES            nodes (default 1); NODE_RANK: which of them this is; MASTER_ADDR, MASTER_PORT (29500): of the first
#   RDZV_ID           with --rdzv: the job's name, the same on all nodes (default fusedrl)
#   MAX_RESTARTS      how often all ranks are started again after one failed (default 0); a run goes on from its last state
#   SHUTDOWN_TIMEOUT  seconds that ranks get to end their step and save, after SIGTERM or SIGUSR1 to this script (120)
#   OMP_NUM_THREADS   default: the cores, shared by the ranks, at most 8
set -euo pipefail
root="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
launcher="${BASH_SOURCE[0]}"
source "$root/launch/common.sh"

rdzv=""
if [ "${1:-}" = --rdzv ]; then
    [ $# -ge 2 ] || fail "--rdzv: HOST:PORT of one node is missing"
    rdzv="$2"
    shift 2
    [[ "$rdzv" == *:* ]] || fail "--rdzv $rdzv: a port is missing, as in $rdzv:29500"
fi
need_module "$@"
nodes="${NNODES:-1}"
ranks="${NPROC_PER_NODE:-$(count_gpus)}"
need_number NNODES "$nodes" 1
[ "$ranks" != 0 ] || fail "NPROC_PER_NODE is not set and no GPU is seen: set it to the number of ranks on each node"
need_number NPROC_PER_NODE "$ranks" 1

python="$(pick_python)"
arguments=(--nproc-per-node "$ranks" --max-restarts "${MAX_RESTARTS:-0}")
if [ -n "$rdzv" ]; then
    arguments+=(--nnodes "$nodes" --rdzv-backend c10d --rdzv-endpoint "$rdzv" --rdzv-id "${RDZV_ID:-fusedrl}")
elif [ "$nodes" = 1 ]; then
    arguments+=(--standalone)
else
    [ -n "${MASTER_ADDR:-}" ] || fail "MASTER_ADDR is not set: the first node's address (or --rdzv HOST:PORT)"
    [ -n "${NODE_RANK:-}" ] || fail "NODE_RANK is not set: 0 on the first of NNODES=$nodes nodes, 1 on the next"
    need_number NODE_RANK "$NODE_RANK" 0
    [ "$NODE_RANK" -lt "$nodes" ] || fail "NODE_RANK=$NODE_RANK: NNODES=$nodes nodes are numbered from 0 to $((nodes - 1))"
    arguments+=(--nnodes "$nodes" --node-rank "$NODE_RANK")
    arguments+=(--master-addr "$MASTER_ADDR" --master-port "${MASTER_PORT:-29500}")
fi
if torchrun_takes signals-to-handle; then # earlier versions end at once by SIGUSR1
    arguments+=(--signals-to-handle SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1)
fi

export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # a store of its own for each start: ranks that start again meet anew
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${SHUTDOWN_TIMEOUT:-120}" # torch's own is 30; earlier versions know no other
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(threads_for "$ranks")}"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" -m torch.distributed.run "${arguments[@]}" -m "$@"
