# make demo    install everything into .venv, run the reference engine over the shipped clip, write a report
# make test    set up and run all tests, on every Python of 3.10 and 3.12 that is here
# make check   what CI runs on one Python: format, lint, types, layers, tests
# make bench   measure this machine, write bench.json
# make engine  rebuild the reference engine from nothing (hours): render, train, quantise, evaluate, bundle

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= demo-output

.PHONY: demo test check bench engine clean

$(BIN)/edge-sdk: setup.py pyproject.toml
	$(PYTHON) tests/setup_venv.py $(VENV) .[cpu]

$(VENV)/.test-extra: setup.py pyproject.toml
	$(PYTHON) tests/setup_venv.py $(VENV) --debian chromium=chromium --debian mosquitto=mosquitto -e .[test]
	touch $@

demo: $(BIN)/edge-sdk
	$(BIN)/edge-sdk doctor
	$(BIN)/edge-sdk run --source clip:substation --engine substation-rgbt --out $(OUT)/frames --report $(OUT)/report.md --json $(OUT)/record.json
	$(BIN)/edge-sdk sla judge $(OUT)/record.json apps/demo_sla.yaml --markdown $(OUT)/verdict.md || test $$? -le 2
	@echo "Report: $(OUT)/report.md   verdict: $(OUT)/verdict.md   pictures: $(OUT)/frames/"

test:
	$(PYTHON) tests/matrix.py

check: $(VENV)/.test-extra
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q

bench: $(VENV)/.test-extra
	$(BIN)/edge-sdk bench --json bench.json

engine:
	$(PYTHON) tests/setup_venv.py $(VENV) -e .[train]
	$(BIN)/python -m engines.recipe all --data data

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info $(OUT)
