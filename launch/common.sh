# Sourced by the launchers, which set root (the checkout) and launcher (their own name): what they share.
#
#   FUSEDRL_PYTHON   interpreter of the ranks (default: the checkout's .venv, which launch/setup.sh makes, else python3)

fail() {
    echo "$(basename -- "$launcher"): $*" >&2
    exit 2
}

pick_python() {
    local found="${FUSEDRL_PYTHON:-$root/.venv/bin/python}"
    [ -n "${FUSEDRL_PYTHON:-}" ] || [ -x "$found" ] || found=python3
    command -v -- "$found" || fail "no Python '$found': run launch/setup.sh, or set FUSEDRL_PYTHON"
}

need_module() {
    case "${1:-}" in
        '') fail "the module to run is missing, as in: $launcher fusedrl.ppo experiment=arithmetic" ;;
        -* | *=* | */*) fail "'$1' is no module; it comes first, as in: $launcher fusedrl.ppo key=value" ;;
    esac
}

# need_number NAME VALUE LEAST
need_number() {
    case "$2" in '' | *[!0-9]*) fail "$1=$2: a whole number is needed" ;; esac
    [ "$2" -ge "$3" ] || fail "$1=$2: it must be at least $3"
}

count_gpus() {
    local visible
    if [ "${CUDA_VISIBLE_DEVICES+set}" ]; then
        IFS=, read -r -a visible <<<"${CUDA_VISIBLE_DEVICES%-1}"
        echo "${#visible[@]}"
    elif command -v nvidia-smi >/dev/null; then
        nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true
    else
        echo 0
    fi
}

# threads_for RANKS: a share of the cores for each rank of this node, at most 8
threads_for() {
    local threads=$(($(nproc) / $1))
    [ "$threads" -ge 1 ] || threads=1
    [ "$threads" -le 8 ] || threads=8
    echo "$threads"
}

# torchrun_takes OPTION: whether this version of torch has it; torch is not imported
torchrun_takes() {
    local torch
    torch="$("$python" -c 'import importlib.util as u
names = ["torch", "megatron.core", "hydra", "transformers"]  # the last of them are there once a set-up was finished
print([u.find_spec(name).submodule_search_locations[0] for name in names][0])' 2>/dev/null)" ||
        fail "$python lacks torch or another package that ranks need: run launch/setup.sh, or set FUSEDRL_PYTHON"
    grep -q -- "--$1" "$torch/distributed/run.py"
}
