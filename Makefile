# The one entry for people and for CI. `make help` lists what there is.
.PHONY: help demo manifests test check check-long bench man

CARGO ?= cargo

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 16

demo: ## Decide for a sample application through the real TLS server, on loopback; needs only Rust
	@$(CARGO) run --quiet --example demo

manifests: ## Write webhook-config, cni-config, the tables of values and docs/reference anew, after a change of charts or code
	@OUTRIGGER_OVERWRITE=1 $(CARGO) test --quiet --test charts -- manifests:: values::
	@OUTRIGGER_OVERWRITE=1 $(CARGO) test --quiet --test documents -- reference::
	@OUTRIGGER_OVERWRITE=1 $(CARGO) test --quiet --test api_server -- metrics::what_dashboard

test: ## Run every suite, a real kube-apiserver included (see CONTRIBUTING.md for what it needs)
	@tests/run

check: ## Format, lints, documentation, features, dependencies
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items --quiet
	tests/features
	$(CARGO) deny check bans licenses sources

check-long: check ## The same, and minutes of fuzzing
	fuzz/run.sh 120

bench: ## Measure; quote ratios, not times
	$(CARGO) bench

man: ## Write the pages of the manual to target/man
	@$(CARGO) run --quiet -- man --dir target/man
