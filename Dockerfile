# The webhook, the command line, the programs of pods and those of nodes in an empty image: static binaries, no shell, not root.
FROM docker.io/library/rust:1.95.0-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends cmake libcap2-bin \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target "$(rustc -vV | sed -n 's/^host: //p')" \
    && mkdir -p /image/usr/lib/linkerd \
    && cp target/*-unknown-linux-gnu/release/outrigger /image/outrigger \
    && for program in outrigger-cni:node outrigger-cni-api:node-api; do \
        RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target "$(rustc -vV | sed -n 's/^host: //p')" \
            --no-default-features --features "${program#*:}" --bin "${program%:*}" \
        && cp target/*-unknown-linux-gnu/release/"${program%:*}" /image/ || exit 1; \
    done \
    && cp /image/outrigger /image/usr/lib/linkerd/linkerd2-proxy-init \
    && cp /image/outrigger /image/usr/lib/linkerd/linkerd2-network-validator
# Pods run it as nobody: the container's two capabilities reach a process that is not root only through the file.
RUN setcap cap_net_admin,cap_net_raw+eip /image/usr/lib/linkerd/linkerd2-proxy-init

FROM scratch
COPY --from=build /image /
# The user of Linkerd's controllers.
USER 2103
ENTRYPOINT ["/outrigger"]
