# `make serve` and `make test` set everything up themselves, and are quick when nothing changed.
#
#   make serve ARGS="--port 9000"     more flags for tf-serve
#   make test ARGS="stock mkl"        only these backends' suites
#   make serve PYTHON=python3.12      another interpreter to build .venv with
#   make serve EXTRAS=cuda12          another backend than the one the machine suggests

ARGS ?=
export PYTHON EXTRAS

.PHONY: serve test check bench long soak smoke clean

serve:
	@scripts/setup
	@.venv/bin/tf-serve --family llama --drafter $(ARGS)

test:
	@scripts/setup --dev
	@scripts/test $(ARGS)

check:
	@scripts/setup --dev
	@scripts/check

bench:
	@scripts/setup --dev
	@.venv/bin/python -m benchmarks.cpu $(ARGS)

long:
	@scripts/setup --dev
	@.venv/bin/python -m pytest -m long $(ARGS)
	@for b in mkl mkl-plain; do TF_TEST_FULL=1 TF_TEST_BACKEND=$$b .venv/bin/python -m pytest -q tests/e2e/test_replies.py || exit 1; done

# TF_SOAK_MINUTES=30 long; the result goes to docs/reference/soak.md.
soak:
	@scripts/setup --dev
	@scripts/soak $(ARGS)

smoke:
	@scripts/setup --dev
	@scripts/smoke-wheel

clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
