# The one entry for people and for CI. `make help` lists what there is.
.PHONY: help demo test check check-long bench

CARGO ?= cargo

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 16

demo: ## Decide for a sample application through the real TLS server, on loopback; needs only Rust
	$(CARGO) run --quiet --example demo

test: ## Run every suite, a real kube-apiserver included (needs Go and kubectl, or KUBEBUILDER_ASSETS)
	KUBEBUILDER_ASSETS="$$(tests/assets/build)" $(CARGO) test --no-fail-fast

check: ## Format, lints, documentation, features, dependencies
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items --quiet
	$(CARGO) check --no-default-features --lib
	tests/dependencies.sh
	$(CARGO) deny check bans licenses sources

bench: ## Measure; quote ratios, not times
	$(CARGO) bench
