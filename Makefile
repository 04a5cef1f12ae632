# make demo    train a tiny model for two PPO steps with the real veRL, on whatever this machine has, and evaluate it
# make learn   without a GPU a tiny model learns to write programs; with one: MODEL_PATH=<a small chat model>
# make test    linters and tests
# make test-verl-versions    the reward inside the reward loop of each supported veRL release
# make flash-attn    build flash-attn against the torch in the GPU environment
#
# PYTHON       the interpreter that makes the environments, 3.10 to 3.12
# TORCH_INDEX  where pip finds PyTorch's CPU build, if not where it finds everything else
PYTHON ?= python3
TORCH_INDEX ?=

GPU := $(shell nvidia-smi -L >/dev/null 2>&1 && echo yes)
CPU_VENV := $(if $(GPU),.venv-cpu,.venv)
DEMO_VENV := .venv
DEMO_DIR := runs/demo
DEMO_DATA := $(DEMO_DIR)/data

.PHONY: demo learn test test-verl-versions lint flash-attn clean

demo: $(DEMO_VENV)/.installed
	$(DEMO_VENV)/bin/python data/generate.py --out $(DEMO_DATA)/raw
	$(DEMO_VENV)/bin/python prepare_data.py --source $(DEMO_DATA)/raw --out $(DEMO_DATA) --max-prompt-tokens 512
	$(DEMO_VENV)/bin/python code_reward.py
	PYTHON=$(CURDIR)/$(DEMO_VENV)/bin/python bash smoke/run.sh $(DEMO_DIR) $(DEMO_DATA)/train.parquet $(DEMO_DATA)/validation.parquet
	PYTHON=$(CURDIR)/$(DEMO_VENV)/bin/python HF_HUB_OFFLINE=1 DATASETS="held_out humaneval" LOCAL_DATASETS=evaluation/problems \
	    LIMIT=16 MAX_TOKENS=48 bash eval.sh $(DEMO_DIR)/run

learn: $(DEMO_VENV)/.installed
	PYTHON=$(CURDIR)/$(DEMO_VENV)/bin/python bash smoke/learn.sh runs/learn

test: lint
	$(CPU_VENV)/bin/python -m pytest $(PYTEST_ARGS)

# 0.9.1 is what the main environment has; the older ones cannot share it.
test-verl-versions: $(CPU_VENV)/.installed .venv-verl-0.7.1/.installed .venv-verl-0.8.0/.installed
	for python in $(^:/.installed=/bin/python); do $$python -m pytest tests/test_verl_wiring.py || exit; done

.venv-verl-%/.installed: tests/older_verl.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $$(grep '^torch==' $<)
	$(@D)/bin/pip install -r $<
	$(@D)/bin/pip install --no-deps verl==$*
	touch $@

lint: $(CPU_VENV)/.installed
	$(CPU_VENV)/bin/ruff check .
	$(CPU_VENV)/bin/ruff format --check .
	$(CPU_VENV)/bin/shellcheck *.sh smoke/*.sh .ci/run

$(CPU_VENV)/.installed: requirements-cpu.txt requirements-evalscope.txt
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 10) <= sys.version_info[:2] <= (3, 12) else \
	    "veRL 0.9.1 needs Python 3.10 to 3.12, and $(PYTHON) is %d.%d: run make with PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $$(grep '^torch==' requirements-cpu.txt)
	$(@D)/bin/pip install -r requirements-cpu.txt
	$(@D)/bin/pip install --no-deps -r requirements-evalscope.txt
	touch $@

ifdef GPU
$(DEMO_VENV)/.installed: requirements.txt requirements-evalscope.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -r requirements.txt
	$(@D)/bin/pip install --no-deps -r requirements-evalscope.txt
	touch $@
endif

flash-attn: $(DEMO_VENV)/.installed
	$(DEMO_VENV)/bin/pip install ninja packaging wheel setuptools
	$(DEMO_VENV)/bin/pip install flash-attn==2.8.3 --no-build-isolation

clean:
	rm -rf .venv .venv-cpu .venv-verl-* .cache runs
