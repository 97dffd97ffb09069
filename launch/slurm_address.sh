#!/usr/bin/env bash
# Where the ranks of a Slurm job meet: prints MASTER_ADDR and MASTER_PORT of this job as two words.
# Node names need not resolve, so the address is the first node's NodeAddr. The port follows from the job's number, so
# that jobs on one node seldom meet; it lies below the range from which systems take ports themselves and beside Ray's.
# Runs on the first node, as a job's script does: a port on which somebody listens there is passed over.
set -euo pipefail
launcher="${BASH_SOURCE[0]}"

fail() {
    echo "$(basename -- "$launcher"): $*" >&2
    exit 2
}

nodes="${SLURM_JOB_NODELIST:-}"
[ -n "$nodes" ] && [ -n "${SLURM_JOB_ID:-}" ] || fail "SLURM_JOB_NODELIST is not set: this runs within a Slurm job"
first="$(scontrol show hostnames "$nodes")" || fail "scontrol cannot read SLURM_JOB_NODELIST=$nodes"
first="${first%%$'\n'*}"
[ -n "$first" ] || fail "scontrol names no node of SLURM_JOB_NODELIST=$nodes"
address="$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p')"
[ -n "$address" ] || fail "scontrol show node $first tells no NodeAddr"
port=$((20000 + SLURM_JOB_ID % 10000))
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    port=$((port + 1))
done
echo "$address $port"
