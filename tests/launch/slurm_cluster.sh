#!/usr/bin/env bash
# A Slurm cluster of several nodes on this one machine, for tests: Debian's slurmctld, slurmd and munged, as this user.
#
#   slurm_cluster.sh start FOLDER NODES CPUS GPUS PORT     then SLURM_CONF=FOLDER/slurm.conf sbatch ...
#   slurm_cluster.sh stop FOLDER
#
# Everything lies in FOLDER, keys and sockets too, so clusters of different folders and ports do not meet. Ports PORT to
# PORT + NODES are used. GPUs are character devices of no use but to be counted. Node names do not resolve.
set -euo pipefail

write_conf() {
    local folder="$1" nodes="$2" cpus="$3" gpus="$4" port="$5" host node gres=""
    host="$(hostname -s)"
    cat <<CONF
ClusterName=fusedrl
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
CONF
    [ "$gpus" -eq 0 ] || { gres=" Gres=gpu:$gpus"; echo "GresTypes=gpu"; }
    for node in $(seq "$nodes"); do
        mkdir -p "$folder/spool.node$node"
        echo "NodeName=node$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + node)) CPUs=$cpus RealMemory=4000$gres"
    done
    echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
}

write_gpus() {
    local folder="$1" gpus="$2" index
    echo "AutoDetect=off"
    for index in $(seq 0 $((gpus - 1))); do
        mknod "$folder/gpu$index" c 1 $((3 + 2 * index)) # stand-ins: /dev/null and its like
        echo "Name=gpu File=$folder/gpu$index"
    done
}

wait_until_idle() {
    local tries
    for tries in $(seq 600); do
        [ "$(sinfo --noheader --format %T 2>/dev/null | sort -u)" = idle ] && return
        sleep 0.1
    done
    echo "slurm_cluster: nodes are not idle after a minute; logs in $1" >&2
    return 1
}

start() {
    local folder="$1" nodes="$2" gpus="$4" node
    mkdir -p "$folder/state"
    chmod 755 "$folder"
    dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 status=none
    chmod 600 "$folder/munge.key"
    munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
    write_conf "$@" >"$folder/slurm.conf"
    [ "$gpus" -eq 0 ] || write_gpus "$folder" "$gpus" >"$folder/gres.conf"
    export SLURM_CONF="$folder/slurm.conf"
    slurmctld -f "$SLURM_CONF"
    for node in $(seq "$nodes"); do
        slurmd -f "$SLURM_CONF" -N "node$node"
    done
    wait_until_idle "$folder"
}

stop() {
    local file
    for file in "$1"/slurmd.*.pid "$1"/slurmctld.pid "$1"/munged.pid; do
        [ ! -f "$file" ] || kill "$(cat "$file")" || true
    done
}

"$@"
