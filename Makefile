# The two commands of the README are `make demo` and `make test`. Everything lands in $(VENV) and build/.
PYTHON ?= python3
VENV ?= .venv
export MAX_JOBS ?= 2

BIN := $(VENV)/bin
ENV_STAMP := $(VENV)/.stamp
# One stamp per environment: the modules are built against that environment's torch.
BUILD_STAMP := build/$(subst /,_,$(abspath $(VENV))).stamp
# The examples' requirements are installed by the target that needs them.
REQUIREMENTS := $(filter-out requirements/examples.txt requirements/docs.txt,$(wildcard requirements/*.txt))
EXAMPLES_STAMP := $(VENV)/.stamp-examples
# The site's are, too, and the site needs neither torch nor a build.
DOCS_STAMP := $(VENV)/.stamp-docs
NATIVE := $(shell find csrc -name '*.h' -o -name '*.cuh' -o -name '*.cpp')
# Formatted with the others, but no part of the module.
EXAMPLES_NATIVE := $(wildcard examples/cpp/*.h examples/cpp/*.cpp)
KERNEL_INPUTS := csrc/ahead.py csrc/ahead.txt $(wildcard csrc/nvrtc/*)

.PHONY: help demo edges photo volume multi_gpu cpp test test-all build lint docs format wheel bench clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z_-]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 19

demo: $(BUILD_STAMP) ## filter real photographs; the pictures and a contact sheet land in demo_out/
	$(BIN)/python -m torch_conv demo

edges: $(BUILD_STAMP) ## the edges of a photograph, each picture in one launch; they land in examples_out/edges.jpg
	@mkdir -p examples_out
	$(BIN)/python examples/edges.py --output examples_out/edges.jpg $(ARGS)

photo: $(BUILD_STAMP) ## a photograph of 24 megapixels, (H, W, 3) bytes, beside OpenCV and torchvision; the pictures land in examples_out/photo.jpg
	@mkdir -p examples_out
	$(BIN)/python examples/photo.py --output examples_out/photo.jpg $(ARGS)

volume: $(BUILD_STAMP) $(EXAMPLES_STAMP) ## filter a brain scan and a CT phantom beside SciPy; the pictures land in examples_out/
	$(BIN)/python examples/volume.py $(ARGS)

multi_gpu: $(BUILD_STAMP) ## one large image on all GPUs, or in shards on the CPU; the picture lands in examples_out/multi_gpu.jpg
	@mkdir -p examples_out
	$(BIN)/python examples/multi_gpu.py --output examples_out/multi_gpu.jpg $(ARGS)

cpp: $(BUILD_STAMP) ## build and run the C++ program of examples/cpp
	$(BIN)/python examples/cpp/export.py build/cpp_model
	$(BIN)/cmake -S examples/cpp -B build/cpp \
	  -DCMAKE_PREFIX_PATH="$$($(BIN)/python -c 'import torch; print(torch.utils.cmake_prefix_path)')" \
	  -DTORCH_CONV_LIBRARY="$$($(BIN)/python -c 'import torch_conv; print(torch_conv.library_path())')"
	$(BIN)/cmake --build build/cpp
	build/cpp/torch_conv_example build/cpp_model

PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test: $(BUILD_STAMP) ## every operator, border, dtype and error, in minutes; on a GPU, too; ARGS="-k border" passes options on
	$(PYTEST) --fast $(ARGS)

test-all: $(BUILD_STAMP) ## all tests but those marked slow: also combinations, recorded plans, kernels compiled for the host
	$(PYTEST) $(ARGS)

build: $(BUILD_STAMP) ## compile torch_conv/_C and, where torch has CUDA, the kernels of csrc/ahead.txt

lint: $(ENV_STAMP) ## every check that needs no compiler
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE) $(EXAMPLES_NATIVE)
	$(BIN)/python benchmarks/report.py --check
	$(BIN)/python tests/vocabulary.py

docs: $(DOCS_STAMP) ## the site, in build/site
	NO_MKDOCS_2_WARNING=1 PATH="$(abspath $(BIN)):$$PATH" $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

format: $(ENV_STAMP) ## rewrite Python and C++ in the house's format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE) $(EXAMPLES_NATIVE)

wheel: $(ENV_STAMP) ## a wheel for compute capability 8.0 and up, and the source distribution, in dist/
	rm -rf build/wheel
	PATH="$(abspath $(BIN)):$$PATH" TORCH_CUDA_ARCH_LIST="8.0 9.0 10.0 12.0" \
	  $(BIN)/python -m pip wheel . --no-build-isolation --no-deps -w build/wheel
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --exclude 'libc10*' --exclude 'libtorch*' -w dist build/wheel/*.whl
	$(BIN)/python setup.py -q sdist -d dist

bench: $(BUILD_STAMP) ## measure on this machine (minutes); BENCH=filter3d names another family, ARGS="--rows gaussian" its options
	$(BIN)/python -m torch_conv bench $(or $(BENCH),filter2d) $(ARGS)

clean: ## remove what was built; the environment stays
	rm -rf build dist demo_out examples_out *.egg-info torch_conv/*.so torch_conv/kernels .pytest_cache .mypy_cache .ruff_cache .hypothesis

# What every environment begins with.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "torch_conv needs Python 3.10 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(ENV_STAMP): $(REQUIREMENTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(REQUIREMENTS:%=-r %)
	@touch $@

$(EXAMPLES_STAMP): $(ENV_STAMP) requirements/examples.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/examples.txt
	@touch $@

$(DOCS_STAMP): requirements/docs.txt requirements/lint.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt -r requirements/lint.txt
	@touch $@

$(BUILD_STAMP): $(ENV_STAMP) setup.py $(NATIVE) $(KERNEL_INPUTS)
	@command -v $${CXX:-g++} >/dev/null || \
	  { echo "there is no C++ compiler: on Debian and Ubuntu, apt install g++"; exit 1; }
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python setup.py build_ext --inplace
	@mkdir -p $(@D) && touch $@
