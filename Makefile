# make setup | demo | test | test-swm | test-ray | test-slow | test-processors | results | bench | bench-growth | bench-training | faults | pictures. Needs Python 3.11 (or newer) and make; everything else goes into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
# Tests start many interpreters: where bytecode may not be kept, each compiles everything again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-swm test-ray test-slow test-processors results bench bench-growth bench-training faults pictures clean

setup: $(READY)

# constraints.txt pins torch without a local version, so pip prefers the small CPU build wherever it finds one.
$(READY): pyproject.toml paper/pyproject.toml tools/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable paper --editable tools
	touch $@

demo: setup
	$(BIN)/reachcost demo

# Two workers with one thread each: what is trained in tests would not use a second one.
test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --ignore tests/swm --ignore tests/ray -n 2 --dist worksteal -m "not slow"

# What trains, audits or waits for ten seconds and more: ten minutes on two idle cores.
test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --ignore tests/swm --ignore tests/ray -n 2 --dist worksteal -m slow

# Tests of floating-point results under four instruction sets: two minutes on two idle cores.
test-processors: setup
	$(BIN)/python -m reachcost_tools.processors

.venv/.ready-swm: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,ray,swm]' --editable paper --editable tools
	touch $@ .venv/.ready-ray

# Everything that needs the real stable-worldmodel; types, too, as they are read from every package that is imported.
test-swm: .venv/.ready-swm
	$(BIN)/pyright
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/swm -n 2 --dist worksteal

.venv/.ready-ray: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,ray]' --editable paper --editable tools
	touch $@

# Everything that needs Ray: clusters of several nodes on this machine, whose workers and nodes are killed. ONLY=NAME for some.
test-ray: .venv/.ready-ray
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/ray -n 0 -k "$(ONLY)"

# Makes every published table, and what the examples print; what is recorded in results/runs is not computed again. New runs are packed.
results: .venv/.ready-swm
	$(BIN)/reachcost reproduce all --out results
	$(BIN)/python -m reachcost_tools.pack results
	$(BIN)/python examples/pages.py README.md > results/examples/readme.txt
	$(BIN)/python examples/pages.py docs/repair.md > results/examples/repair.txt
	$(BIN)/python examples/stable_worldmodel.py > results/examples/stable_worldmodel.txt

# Compares speed with a peer and with targets: a quarter of an hour on two idle cores.
bench: .venv/.ready-swm
	$(BIN)/reachcost bench --against swm --out results

# How time and memory grow with the size of the work: ten minutes on two idle cores.
bench-growth: setup
	$(BIN)/reachcost bench --growth --out results

# Trains a LeWM by the default plan: under ten minutes on two idle cores.
bench-training: .venv/.ready-swm
	$(BIN)/python -m reachcost_tools.bench.training

.venv/.ready-faults: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,faults,ray,swm]' --editable paper --editable tools
	touch $@

# Kills, full disks, little memory, wrong clocks, hostile files, counted in results/faults.json: half an hour on two idle cores.
faults: .venv/.ready-faults
	$(BIN)/python -m reachcost_tools.faults

pictures: setup
	$(BIN)/python examples/draw_tworoom.py docs/images
	$(BIN)/python examples/draw_explore.py docs/images
	$(BIN)/python examples/draw_repair.py docs/images
	$(BIN)/reachcost demo --out reachcost-demo
	mkdir -p results/demo
	cp reachcost-demo/report.html results/demo/report.html

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
