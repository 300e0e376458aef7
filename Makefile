# make demo    install everything into .venv, run the reference engine over the shipped clip, write a report
# make test    set up and run all checks and tests on this Python; the end says what was skipped, and why
# make test-all      tests on Python 3.10 and 3.12 where they are here, with the lowest versions, on aarch64
# make test-aarch64  wheels, answers and the CUDA layer on aarch64, emulated (Debian on x86-64): behaviour, no times
# make test-device   on a machine with an NVIDIA GPU or on a Jetson: tests there, and device-record.json to send back
# make check   what CI runs on one Python: format, lint, types, layers, tests
# make bench   measure this machine, write bench.json
# make soak     an hour's worth of camera frames at full speed, with faults at random, write soak.json
# make engine  rebuild the reference engine from nothing (hours): render, train, quantise, evaluate, bundle

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= demo-output

.PHONY: demo test test-all test-aarch64 test-device check bench soak engine clean

$(BIN)/edge-sdk: setup.py pyproject.toml edge_sdk/requirements.py
	$(PYTHON) tests/setup_venv.py $(VENV) .[cpu]

$(VENV)/.test-extra: setup.py pyproject.toml edge_sdk/requirements.py
	$(PYTHON) tests/setup_venv.py $(VENV) --debian chromium=chromium --debian mosquitto=mosquitto \
		--debian haproxy=haproxy --debian openssl=openssl --pycuda --tensorrt-rtx -e .[test]
	touch $@

demo: $(BIN)/edge-sdk
	$(BIN)/edge-sdk doctor
	$(BIN)/edge-sdk run --source clip:substation --engine substation-rgbt --out $(OUT)/frames --report $(OUT)/report.md --json $(OUT)/record.json
	$(BIN)/edge-sdk sla judge $(OUT)/record.json apps/demo_sla.yaml --markdown $(OUT)/verdict.md || test $$? -le 2
	@echo "Report: $(OUT)/report.md   verdict: $(OUT)/verdict.md   pictures: $(OUT)/frames/"

test:
	$(PYTHON) tests/matrix.py

test-all:
	$(PYTHON) tests/matrix.py others

test-aarch64: $(VENV)/.test-extra
	$(PYTHON) tests/setup_venv.py $(VENV) --debian qemu-aarch64-static=qemu-user-static \
		--debian aarch64-linux-gnu-g++=g++-aarch64-linux-gnu
	$(BIN)/python tests/aarch64/run.py

# The system's Python with its packages: TensorRT comes with JetPack and lives there.
test-device:
	$(PYTHON) -m venv --system-site-packages .venv-device
	PATH=/usr/local/cuda/bin:$$PATH .venv-device/bin/python tests/device_packages.py
	.venv-device/bin/edge-sdk doctor
	rm -f device-record.json
	EDGE_SDK_DEVICE_RECORD=device-record.json .venv-device/bin/python -m pytest -v -rs tests/device
	@if [ -e device-record.json ]; \
	then echo "Record: device-record.json. Please send it back, with what doctor printed."; \
	else echo "No record: everything was skipped, for the reasons above. Nothing of a device was tested."; fi

check: $(VENV)/.test-extra
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q

bench: $(VENV)/.test-extra
	$(BIN)/edge-sdk bench --json bench.json

soak: $(VENV)/.test-extra
	$(BIN)/python tests/soak.py --hours 1 --seed 1 --json soak.json

engine:
	$(PYTHON) tests/setup_venv.py $(VENV) -e .[train]
	$(BIN)/python -m engines.recipe all --data data

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info $(OUT)
