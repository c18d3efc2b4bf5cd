# The webhook and the command line in an empty image: one static binary, no shell, not root.
FROM docker.io/library/rust:1.95.0-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends cmake && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target "$(rustc -vV | sed -n 's/^host: //p')" \
    && cp target/*-unknown-linux-gnu/release/outrigger /outrigger

FROM scratch
COPY --from=build /outrigger /outrigger
# The user of Linkerd's controllers.
USER 2103
ENTRYPOINT ["/outrigger"]
