# The webhook, the egress gateway, the command line, the programs of pods and those of nodes in an empty image: static binaries, no shell, not root.
# docs/image.md says what is in it, and how to build it for several architectures.

# For the same bytes in a year name it by digest: what is linked statically, the C library among it, is this image's.
ARG RUST=docker.io/library/rust:1.95.0-bookworm

FROM --platform=$BUILDPLATFORM ${RUST} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends cmake libcap2-bin \
    && rm -rf /var/lib/apt/lists/*
RUN cargo install --locked cargo-cyclonedx@0.5.9
# Rust compiles for either architecture on either; C needs the other's compiler and library.
ARG TARGETARCH
RUN own=$(dpkg --print-architecture) \
    && case "$TARGETARCH" in \
        amd64) target=x86_64-unknown-linux-gnu compiler=gcc-x86-64-linux-gnu ;; \
        arm64) target=aarch64-unknown-linux-gnu compiler=gcc-aarch64-linux-gnu ;; \
        *) echo "TARGETARCH is \"$TARGETARCH\": expected amd64 or arm64, which BuildKit sets" >&2; exit 1 ;; \
    esac \
    && echo "$target" > /target \
    && if [ "$TARGETARCH" != "$own" ]; then \
        apt-get update \
        && apt-get install --yes --no-install-recommends "$compiler" "libc6-dev-$TARGETARCH-cross" \
        && rm -rf /var/lib/apt/lists/*; \
    fi
WORKDIR /src
COPY . .
ARG SOURCE_DATE_EPOCH=0
RUN rustup target add "$(cat /target)" \
    && image/programs /programs "$(cat /target)" \
    && image/sbom /sbom.json "$(cat /target)" \
    && image/rootfs /programs /sbom.json /image \
    && image/size /image

FROM scratch
COPY --from=build /image /
# The user of Linkerd's controllers.
USER 2103
ENTRYPOINT ["/outrigger"]
