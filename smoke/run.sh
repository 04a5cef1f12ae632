#!/usr/bin/env bash
# Two PPO steps of a tiny model through the real run script: rollout, reward, critic, checkpoint, merge. With a GPU it is
# the run that trains a real model, only smaller; without one, smoke/settings.sh replaces vLLM and CUDA.
#
#   bash smoke/run.sh WORK train.parquet validation.parquet      files from prepare_data.py; further arguments are veRL options
#
# DRY_RUN=1 prints the training command only. Everything is written to WORK. Called again with the same WORK it goes on from the last checkpoint for as many steps.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHON=${PYTHON:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
"$PYTHON" "$here/training/start_folder.py"

if (($# < 3)); then
    echo "usage: bash smoke/run.sh WORK train.parquet validation.parquet [veRL option ...]" >&2
    exit 2
fi
WORK=$(realpath -m -- "$1")
TRAIN_FILE=$(realpath -m -- "$2")
VAL_FILE=$(realpath -m -- "$3")
shift 3
export TRAIN_FILE VAL_FILE

STEPS=${STEPS:-2}
if [[ ! $STEPS =~ ^[1-9][0-9]*$ ]]; then
    echo "STEPS=$STEPS must be a whole number, 1 or more." >&2
    exit 2
fi
export RUN_DIR="$WORK/run"
export MODEL_PATH=${MODEL_PATH:-$WORK/model}
export CRITIC_MODEL_PATH=${CRITIC_MODEL_PATH:-$MODEL_PATH}  # beside a LoRA actor too
export EXPERIMENT_NAME=${EXPERIMENT_NAME:-smoke}
export MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-384} MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-48}
export TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-16} PPO_MINI_BATCH_SIZE=${PPO_MINI_BATCH_SIZE:-8}
export ACTOR_LR=${ACTOR_LR:-1e-4} CRITIC_LR=${CRITIC_LR:-1e-3}  # large enough for two steps to show in the weights
export ROLLOUT_GPU_MEM_UTIL=${ROLLOUT_GPU_MEM_UTIL:-0.2} ENFORCE_EAGER=${ENFORCE_EAGER:-True}
export SAVE_FREQ=${SAVE_FREQ:-$STEPS} TEST_FREQ=${TEST_FREQ:-$STEPS}
export HF_HUB_OFFLINE=1  # nothing is downloaded
options=(data.val_max_samples="${VAL_MAX_SAMPLES:-32}" "$@")

tracker="$RUN_DIR/checkpoints/latest_checkpointed_iteration.txt"
done_steps=0
if [[ -f $tracker && $(<"$tracker") =~ ^[0-9]+$ ]]; then done_steps=$(<"$tracker"); fi  # else the pre-flight says what is wrong
export TOTAL_TRAINING_STEPS=$((done_steps + STEPS))
export TOTAL_EPOCHS=$TOTAL_TRAINING_STEPS  # an epoch has one step at least

if [[ ! -e $MODEL_PATH && ${DRY_RUN:-0} == 0 ]]; then "$PYTHON" -m smoke.tiny_model "$MODEL_PATH"; fi

if nvidia-smi >/dev/null 2>&1 && "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    bash "$here/run_qwen_coder_ppo_single_gpu.sh" "${options[@]}"
else
    echo "smoke: no GPU here, so transformers generates on the CPU in place of vLLM"
    # shellcheck source=smoke/settings.sh
    (source "$here/smoke/settings.sh" && bash "$here/run_qwen_coder_ppo_single_gpu.sh" "${CPU_OVERRIDES[@]}" "${options[@]}")
fi

if [[ ${DRY_RUN:-0} != 0 ]]; then exit; fi  # the command is printed

merged=$("$PYTHON" -m evaluation.merge "$RUN_DIR")  # also checks that transformers loads it and that training changed it
"$PYTHON" "$here/plot_metrics.py" "$RUN_DIR" >/dev/null

cat <<END

smoke: step $(<"$tracker") is done.
    metrics       $RUN_DIR/metrics.jsonl
    curves        $RUN_DIR/curves.html  $RUN_DIR/curves.png
    responses     $RUN_DIR/rollouts  $RUN_DIR/validation
    checkpoints   $RUN_DIR/checkpoints
    merged model  $merged
Before and after: bash eval.sh $(printf %q "$RUN_DIR")
On a machine with a GPU, the same for Qwen2.5-Coder-0.5B:
    python3 prepare_data.py && bash run_qwen_coder_ppo_single_gpu.sh
END
