#!/usr/bin/env bash
# Before and after: merge a checkpoint into a Hugging Face folder, evaluate the base model and the merged one alike, print one
# table. The programs that the models write run under the reward's isolation.
#
#   bash eval.sh runs/qwen2.5-coder-0.5b-instruct_gae                 the last checkpoint of a run
#   bash eval.sh runs/.../checkpoints/global_step_120                 a certain one
#   LIMIT=20 DATASETS=humaneval bash eval.sh CHECKPOINT               a quick look
#   DRY_RUN=1 bash eval.sh CHECKPOINT                                 print the commands, run nothing
#
# Started again after a failure, it goes on where it stopped. With a GPU the models are served by vLLM, VLLM_ARGS adds to its
# command; without one, transformers runs them on the CPU.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PYTHON=${PYTHON:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
if [[ ! -t 2 ]]; then export TQDM_MININTERVAL=${TQDM_MININTERVAL:-10}; fi  # seconds; in a log file each redraw stays

if (($# != 1)); then
    echo "usage: bash eval.sh CHECKPOINT   (a run folder, a global_step_N folder or its actor folder)" >&2
    exit 2
fi

# --- what ------------------------------------------------------------------------------------------------------------
DATASETS=${DATASETS:-held_out humaneval live_code_bench gsm8k}  # gsm8k is the control: it should not move
LIMIT=${LIMIT:-100}                       # problems of each; 0: all
LCB_START_DATE=${LCB_START_DATE:-2024-08-01}  # live_code_bench: contests after the model's training data ends
LCB_END_DATE=${LCB_END_DATE:-2025-02-01}
MODEL_PATH=${MODEL_PATH:-}                # the model that the run started from; empty: what the run's config.yaml says
VAL_FILE=${VAL_FILE:-}                    # held_out: problems that were not trained on; empty: the run's
TRAIN_FILE=${TRAIN_FILE:-}                # held_out: refused where it shares a problem with this; empty: the run's

# --- how -------------------------------------------------------------------------------------------------------------
REPEATS=${REPEATS:-1}                     # answers a problem: 1 is greedy, more are sampled and give pass@k
TEMPERATURE=${TEMPERATURE:-0.8}           # of sampled answers to benchmarks; held_out has the run's
MAX_TOKENS=${MAX_TOKENS:-2048}            # of an answer to a benchmark; held_out has the run's limit
SEED=${SEED:-42}
EVAL_BATCH_SIZE=${EVAL_BATCH_SIZE:-}      # answers at a time; empty: 128 with vLLM, 16 without

# --- where -----------------------------------------------------------------------------------------------------------
EVAL_DIR=${EVAL_DIR:-}                    # empty: the run's folder eval
LOCAL_DATASETS=${LOCAL_DATASETS:-}        # a folder with offline copies, one folder a benchmark; empty: from DATASET_HUB
DATASET_HUB=${DATASET_HUB:-modelscope}    # or huggingface

read -ra datasets <<<"$DATASETS"
OPTIONS=(
    --datasets "${datasets[@]}" --limit "$LIMIT" --start-date "$LCB_START_DATE" --end-date "$LCB_END_DATE"
    --repeats "$REPEATS" --temperature "$TEMPERATURE" --max-tokens "$MAX_TOKENS" --seed "$SEED"
    --hub "$DATASET_HUB" ${EVAL_BATCH_SIZE:+--batch-size "$EVAL_BATCH_SIZE"}
    ${MODEL_PATH:+--base "$MODEL_PATH"} ${VAL_FILE:+--file "$VAL_FILE"} ${TRAIN_FILE:+--train "$TRAIN_FILE"}
    ${EVAL_DIR:+--out "$EVAL_DIR"} ${LOCAL_DATASETS:+--local "$LOCAL_DATASETS"}
)
if [[ ${DRY_RUN:-0} != 0 ]]; then OPTIONS+=(--dry-run); fi

"$PYTHON" "$here/training/start_folder.py"
exec "$PYTHON" -m evaluation.compare "$1" "${OPTIONS[@]}"
