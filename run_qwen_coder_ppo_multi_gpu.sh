#!/usr/bin/env bash
# The same run with the defaults of one node of eight 80 GB GPUs. Every setting of run_qwen_coder_ppo_single_gpu.sh works here too.
#
#   bash run_qwen_coder_ppo_multi_gpu.sh
#   NNODES=2 RAY_ADDRESS=head:6379 bash run_qwen_coder_ppo_multi_gpu.sh       on a Ray cluster that is already up
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

export MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-Coder-7B-Instruct}
export NDEVICES_PER_NODE=${NDEVICES_PER_NODE:-8}
export TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-1024}
export PPO_MINI_BATCH_SIZE=${PPO_MINI_BATCH_SIZE:-256}
export ROLLOUT_TP=${ROLLOUT_TP:-2}
export ROLLOUT_GPU_MEM_UTIL=${ROLLOUT_GPU_MEM_UTIL:-0.6}
export TRAIN_FILE=${TRAIN_FILE:-~/data/eurus2/train.parquet}  # train1000.parquet does not fill one batch of 1,024
export MAX_TOKENS_PER_GPU=${MAX_TOKENS_PER_GPU:-16384}
export AGENT_WORKERS=${AGENT_WORKERS:-8}
export REWARD_WORKERS=${REWARD_WORKERS:-8}

exec bash "$here/run_qwen_coder_ppo_single_gpu.sh" "$@"
