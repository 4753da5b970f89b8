# What a newcomer needs: `make demo` and `make test`. Everything goes into .venv; a second call installs nothing.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# More than there are cores: many tests wait for servers, workers and agents.
# Files are taken in their order, not those with most tests first: the long ones have few.
JOBS ?= 3

.PHONY: demo demo-reports test test-installed test-browser test-agents test-external bench coverage lint figures docs chromium axe sandbox tex clean

# Quiet: what the steps print is in a file, whose end is shown where one fails.
demo: $(VENV)/.installed-local
	@mkdir -p results
	@echo "Making four reports, which takes about two minutes. results/demo.log holds what the steps print."
	@$(MAKE) --no-print-directory demo-reports > results/demo.log 2>&1 || { tail -n 40 results/demo.log >&2; exit 1; }
	@echo "results/demo/report.html                   the embedded chart, answered by the embedded model"
	@echo "results/demo-levels/report.html            questions built from drawn creatures and their taxonomy"
	@echo "results/demo-digits-features/report.html   scanned digits: what the encoder sees, what the model says"
	@echo "results/demo-acuity/report.html            eight thresholds of the embedded model"
	@echo "Next: $(BIN)/snellen view              all of these runs in the browser"

# The second half is the way of one's own data: pictures in folders and a taxonomy, questions at each of its levels, and
# a report that says at which level the model stops seeing.
demo-reports: $(VENV)/.installed-local
	$(BIN)/snellen run chart --model embedded --out results/demo --report
	@$(MAKE) --no-print-directory results/demo-questions/benchmark.json
	$(BIN)/snellen run results/demo-questions --model embedded --out results/demo-levels --report
	@$(MAKE) --no-print-directory demo-features
	$(BIN)/snellen acuity --model embedded --out results/demo-acuity --report

# What it sees: the scanned digits through the embedded encoder, and what the model says about the same scans. The
# encoder is so small that its threads would only wait for each other.
SEES := OMP_NUM_THREADS=1 $(BIN)/snellen features
DIGITS := results/demo-digits
.PHONY: demo-features
demo-features: $(DIGITS)/classes.txt
	$(SEES) extract --encoder embedded --images $(DIGITS) --split $(DIGITS)/train.csv --split $(DIGITS)/test.csv --out $(DIGITS)-features
	$(SEES) retrieval $(DIGITS)-features
	$(SEES) knn $(DIGITS)-features
	$(SEES) probe $(DIGITS)-features --save
	$(SEES) attack --encoder embedded --head $(DIGITS)-features --images $(DIGITS) --split $(DIGITS)/test.csv --limit 60 --eps 1/255,2/255,4/255,8/255,16/255 --json > $(DIGITS)-attack.json
	$(BIN)/snellen run chart/digits --model embedded -o questions=120 --out $(DIGITS)-answers --quiet
	$(SEES) report $(DIGITS)-features --with $(DIGITS)-answers --measured $(DIGITS)-attack.json --out $(DIGITS)-features/report.html

results/demo-digits/classes.txt: | $(VENV)/.installed-local
	$(BIN)/python examples/digits_set.py $(@D)

results/demo-creatures/taxonomy.csv: | $(VENV)/.installed-local
	@rm -rf $(@D)
	$(BIN)/python examples/chart_set.py $(@D) --pictures 4 --fade 0.6

results/demo-questions/benchmark.json: results/demo-creatures/taxonomy.csv
	@rm -rf $(@D)
	$(BIN)/snellen build questions --images $(<D) --taxonomy $< --noun creature --templates chart --copy-images --out $(@D)

# The package is compiled first, as pip does with an installed one: where Python may not write bytecode, each start would
# compile all of it again.
test: $(VENV)/.installed-dev chromium axe sandbox tex lint
	$(BIN)/python -m compileall -q src
	$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not agents and not external"

# The tests marked `installed`, on the wheel of this checkout, or on WHEEL, in an environment that the checkout is not in.
test-installed: $(VENV)/.installed-dev
	$(BIN)/python scripts/installed_tests.py $(WHEEL)

test-browser: $(VENV)/.installed-dev chromium axe
	$(BIN)/pytest -m browser

# The real agents, installed from npm where they are not there yet; without npm the tests are skipped, each saying so.
test-agents: $(VENV)/.installed-dev sandbox
	SNELLEN_TEST_INSTALL=1 $(BIN)/pytest -m agents

# The programs that Snellen works with, each in an environment of its own in .external/, the tests that use them, and
# docs/tried-with.md. VLMEVALKIT names a checkout of VLMEvalKit; PROGRAMS names some of the programs, and writes no page.
test-external: $(VENV)/.installed-dev
	$(BIN)/python scripts/tried_with.py $(PROGRAMS)

bench: $(VENV)/.installed-dev
	@for script in bench/*.py; do echo "$$script"; $(BIN)/python $$script || exit 1; done

# Simulates every kind of interval: about an hour of CPU. Writes docs/statistics-coverage.md with its picture.
coverage: $(VENV)/.installed-dev
	$(BIN)/python scripts/statistics_coverage.py

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Figures of the code base, for the reader of a change: nothing fails on them. BEFORE names a commit to compare with.
figures: $(VENV)/.installed-dev
	$(BIN)/python scripts/code_figures.py $(if $(BEFORE),--before $(BEFORE))

docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# The first Python from 3.11 on that this machine has.
$(BIN)/python:
	@for python in python3 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "$$python -m venv $(VENV)"; $$python -m venv $(VENV); exit $$?; \
	  fi; \
	done; echo "Python 3.11 or newer is needed, and was not found." >&2; exit 1

# torch first, so that a failure of the largest download is seen at once; with torchvision, which must fit it. The version of
# the package stands in its __init__.py.
$(VENV)/.installed-local: pyproject.toml constraints.txt src/snellen/__init__.py | $(BIN)/python
	$(PIP) torch torchvision
	$(PIP) --editable '.[local,features]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt src/snellen/__init__.py | $(BIN)/python
	$(PIP) torch torchvision
	$(PIP) --editable '.[dev]'
	$(PIP) gradio-client brotli orjson
	$(PIP) --no-deps torchattacks trackio pyautoattack
	@touch $@ $(VENV)/.installed-local

# What agents are shut in with, and the search program that one of them calls.
sandbox:
	@if command -v bwrap >/dev/null && command -v rg >/dev/null; \
	then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update --quiet=2 \
	  && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends bubblewrap ripgrep; \
	then :; \
	else echo "There is no bubblewrap or ripgrep here and they could not be installed: see what is skipped."; \
	fi

# What CDM renders formulas with: about 100 MB.
tex:
	@if command -v kpsewhich >/dev/null && kpsewhich upgreek.sty >/dev/null && kpsewhich c70gkai.fd >/dev/null; \
	then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update --quiet=2 \
	  && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends \
	    texlive-latex-extra latex-cjk-chinese latex-cjk-chinese-arphic-gkai00mp; \
	then :; \
	else echo "There is no TeX here and it could not be installed: see what is skipped."; \
	fi

# The checks of accessibility in the browser tests.
axe:
	@if [ -f node_modules/axe-core/axe.min.js ] || { command -v npm >/dev/null \
	  && npm install --silent --no-save --no-package-lock --no-audit --no-fund axe-core@4.14.1; }; \
	then :; \
	else echo "There is no npm here, so that axe-core is not installed: see what is skipped."; \
	fi

chromium:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; \
	then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update --quiet=2 \
	  && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium fonts-dejavu-core; \
	then :; \
	else echo "There is no Chromium here and it could not be installed: the browser tests are skipped, each saying so."; \
	fi
