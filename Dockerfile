# The GPU stack of requirements.txt. Model-written programs are confined inside it under Docker's default settings, started
# as root or as any other user: no --privileged, no --cap-add, no --security-opt.
#
#   docker build -t coder-rl .                                 --build-arg FLASH_ATTN=1: with flash-attn, an hour of compiling
#   docker run --rm coder-rl                                   checks the reward and what confines its programs
#   docker run --rm --gpus all --shm-size 16g -v "$HOME/data:/home/trainer/data" -v "$PWD/runs:/recipe/runs" coder-rl \
#       bash run_qwen_coder_ppo_single_gpu.sh
#
# devel: vLLM and Triton compile kernels while they run. 13.0: the CUDA that requirements.txt's torch is built for.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04

# The distribution's Python is 3.12; its headers and the compiler are for Triton, wget is for KubeRay's health checks.
# Not pinned: Ubuntu keeps only the newest build of a package.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential python3 python3-dev python3-venv wget \
    && rm -rf /var/lib/apt/lists/*

ENV VIRTUAL_ENV=/opt/venv
ENV PATH=$VIRTUAL_ENV/bin:$PATH PYTHONDONTWRITEBYTECODE=1

WORKDIR /recipe
COPY requirements.txt requirements-evalscope.txt Makefile ./
RUN python3 -m venv "$VIRTUAL_ENV" && pip install --no-cache-dir -r requirements.txt \
    && pip install --no-cache-dir --no-deps -r requirements-evalscope.txt

ARG FLASH_ATTN=0
ARG MAX_JOBS=4
RUN if [ "$FLASH_ATTN" = 1 ]; then \
        touch "$VIRTUAL_ENV/.installed" \
        && PIP_NO_CACHE_DIR=1 MAX_JOBS="$MAX_JOBS" make flash-attn DEMO_VENV="$VIRTUAL_ENV"; \
    fi

COPY . .

# Any user id may write here; one without an entry in /etc/passwd has no name, for which some libraries ask.
RUN install -d -m 1777 /home/trainer /home/trainer/data runs
ENV HOME=/home/trainer USER=trainer
USER 1000:1000

CMD ["bash", "-c", "python3 code_reward.py --isolation && python3 code_reward.py"]
