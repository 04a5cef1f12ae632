#!/usr/bin/env bash
# A model that learns, from nothing to a curve: problems of this project, a deliberately imperfect supervised start, then PPO
# through the real run script. Without a GPU a tiny model is made on the spot, and two cores will do.
#
#   bash smoke/learn.sh WORK                                           on a CPU; further arguments are veRL options
#   MODEL_PATH=HuggingFaceTB/SmolLM2-135M-Instruct bash smoke/learn.sh WORK       with a GPU
#   NDEVICES_PER_NODE=2 MODEL_PATH=... bash smoke/learn.sh WORK                   with several
#
# Everything is written to WORK, the run itself to RUN_DIR where that is set. Called again with the same WORK it goes on where it was.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHON=${PYTHON:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
"$PYTHON" "$here/training/start_folder.py"

if (($# < 1)); then
    echo "usage: bash smoke/learn.sh WORK [veRL option ...]" >&2
    exit 2
fi
WORK=$(realpath -m -- "$1")
shift
mkdir -p "$WORK"

if nvidia-smi >/dev/null 2>&1 && "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    gpu=yes
    if [[ -z ${MODEL_PATH:-} ]]; then
        echo "learn: set MODEL_PATH to a small chat model, for example HuggingFaceTB/SmolLM2-135M-Instruct." >&2
        exit 2
    fi
    start=$MODEL_PATH
    LEVELS=${LEVELS:-trivial easy}                # 37 families in training
    ROWS=${ROWS:-1200} VALIDATION_ROWS=${VALIDATION_ROWS:-240}
    WARM_UP=(--steps "${WARM_UP_STEPS:-300}" --learning-rate "${WARM_UP_LR:-1e-4}")
    export MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-512} MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-256}
    export TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-128} PPO_MINI_BATCH_SIZE=${PPO_MINI_BATCH_SIZE:-32}
    export ACTOR_LR=${ACTOR_LR:-2e-5} CRITIC_LR=${CRITIC_LR:-1e-5}
    export TOTAL_TRAINING_STEPS=${TOTAL_TRAINING_STEPS:-30} MAX_TOKENS_PER_GPU=${MAX_TOKENS_PER_GPU:-16384}
else
    gpu=no
    export HF_HUB_OFFLINE=1                       # nothing is downloaded
    start=${MODEL_PATH:-$WORK/model}
    LEVELS=${LEVELS:-trivial}
    # What takes no number from the problem into the program: to copy one is beyond a model of this size. 15 in training.
    FAMILIES=${FAMILIES:-sum_two difference product square last_digit even_or_odd countdown list_sum list_maximum spread
        reverse_list sort_list upper_case reverse_text text_length list_minimum first_and_last count_words}
    ROWS=${ROWS:-400} VALIDATION_ROWS=${VALIDATION_ROWS:-96}
    WARM_UP=(--steps "${WARM_UP_STEPS:-250}" --learning-rate "${WARM_UP_LR:-2e-3}" --batch-size 16)
    export MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-256} MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-48}
    export TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-128} PPO_MINI_BATCH_SIZE=${PPO_MINI_BATCH_SIZE:-32}
    export ACTOR_LR=${ACTOR_LR:-1e-4} CRITIC_LR=${CRITIC_LR:-1e-3}
    export TOTAL_TRAINING_STEPS=${TOTAL_TRAINING_STEPS:-20} MAX_TOKENS_PER_GPU=${MAX_TOKENS_PER_GPU:-8192}
fi
export TOTAL_EPOCHS=$TOTAL_TRAINING_STEPS  # an epoch has one step at least
export SAVE_FREQ=${SAVE_FREQ:-$TOTAL_TRAINING_STEPS} TEST_FREQ=${TEST_FREQ:-5}
export CODE_REWARD_TIMEOUT=${CODE_REWARD_TIMEOUT:-2}  # these problems need milliseconds
export EXPERIMENT_NAME=${EXPERIMENT_NAME:-learn} RUN_DIR=${RUN_DIR:-$WORK/run}
export TRAIN_FILE="$WORK/data/train.parquet" VAL_FILE="$WORK/data/validation.parquet"

read -ra levels <<<"$LEVELS"
read -rd '' -a families <<<"${FAMILIES:-}" || true  # read's exit code is that of the end of its input
CHOICE=(--levels "${levels[@]}")
if ((${#families[@]})); then CHOICE+=(--families "${families[@]}"); fi
if [[ ! -e $VAL_FILE ]]; then
    "$PYTHON" "$here/data/generate.py" --out "$WORK/raw" "${CHOICE[@]}" --rows "$ROWS" --validation-rows "$VALIDATION_ROWS"
    "$PYTHON" "$here/prepare_data.py" --source "$WORK/raw" --out "$WORK/data" --max-prompt-tokens "$MAX_PROMPT_LENGTH"
fi
if [[ ! -e $start && $start == "$WORK"/* ]]; then "$PYTHON" -m smoke.tiny_model "$start"; fi
export MODEL_PATH="$WORK/warm"
if [[ ! -e $MODEL_PATH ]]; then REWARD_LOG=0 "$PYTHON" -m training.warm_up "$start" "$MODEL_PATH" "${CHOICE[@]}" "${WARM_UP[@]}"; fi
export CRITIC_MODEL_PATH="$MODEL_PATH"

# Sampled as in training, so that the curves of training and validation can be read against each other.
options=(
    actor_rollout_ref.rollout.val_kwargs.do_sample=True
    actor_rollout_ref.rollout.val_kwargs.temperature=1.0
    "$@"
)
if [[ $gpu == yes ]]; then
    script=run_qwen_coder_ppo_single_gpu.sh
    if ((${NDEVICES_PER_NODE:-1} > 1)); then script=run_qwen_coder_ppo_multi_gpu.sh; fi
    bash "$here/$script" "${options[@]}"
else
    # shellcheck source=smoke/settings.sh
    (source "$here/smoke/settings.sh" && bash "$here/run_qwen_coder_ppo_single_gpu.sh" "${CPU_OVERRIDES[@]}" "${options[@]}")
fi

"$PYTHON" "$here/plot_metrics.py" "$RUN_DIR" --steps
"$PYTHON" "$here/plot_metrics.py" "$RUN_DIR"
