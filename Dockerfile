# embedding-server, with its command-line client and load tester beside it, on Debian 12.
#
#   docker build -t embedding-server .
#   docker run --rm -p 50051:50051 -p 9464:9464 embedding-server                          # serves the sample table
#   docker run --rm -p 50051:50051 -v "$PWD/tables:/tables:ro" embedding-server --table items=/tables/items.safetensors
#
# --build-arg REVISION="$(git rev-parse --short=12 HEAD)" makes --version tell the commit: the build context has no .git.
# Built by Docker from 23 on (BuildKit), Podman or Buildah.

FROM debian:bookworm-slim AS builder
WORKDIR /source
# The one list of packages is the scripts' own; ccache, so that a changed source costs its own compilation only.
COPY scripts/lib.sh scripts/
RUN bash -c 'source scripts/lib.sh && need_packages "${BUILD_PACKAGES[@]}" ccache'
COPY CMakeLists.txt CMakePresets.json LICENSE ./
COPY proto proto
COPY server server
COPY client client
COPY deploy/sample deploy/sample
ARG REVISION=unknown
RUN --mount=type=cache,target=/root/.cache/ccache \
    CMAKE_CXX_COMPILER_LAUNCHER=ccache cmake --preset release -DEMBEDDING_BUILD_TESTS=OFF "-DEMBEDDING_REVISION=${REVISION}" \
 && cmake --build build/release -j "$(nproc)" --target embedding-server embedding-cli embedding-loadtest \
 && install -D --strip -t /image/usr/bin build/release/bin/embedding-server build/release/bin/embedding-cli \
      build/release/bin/embedding-loadtest \
 && install -D -m 644 -t /image/usr/share/embedding-server/sample deploy/sample/* \
 && install -D -m 644 -t /image/usr/share/doc/embedding-server LICENSE

FROM debian:bookworm-slim
# What `ldd` names, by `dpkg -S`; the image's test fails when one is missing.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      libabsl20220623 libcivetweb1 libfmt9 libgrpc++1.51 libgrpc29 libhwy1 libjemalloc2 libprometheus-cpp-core1.0 \
      libprotobuf32 libsimdjson14 libspdlog1.10 libxxhash0 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=builder /image/ /

# Inside a container other hosts are the callers, so it listens on every interface; the ports are published or not outside.
# EMBEDDING_TABLE or --table given to `docker run` replaces the sample.
ENV EMBEDDING_GRPC_ADDRESS=0.0.0.0:50051 \
    EMBEDDING_ADMIN_ADDRESS=0.0.0.0:9464 \
    EMBEDDING_TABLE=words=/usr/share/embedding-server/sample/words.safetensors,vocab=words.vocab.txt
EXPOSE 50051 9464
# A number, so that Kubernetes can check that it is not root. Nothing is written: a read-only root filesystem works.
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["/usr/bin/embedding-server", "health"]
ENTRYPOINT ["/usr/bin/embedding-server"]

ARG REVISION=unknown
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="embedding-server" \
      org.opencontainers.image.description="Embedding tables served over gRPC: lookup, similarity, nearest neighbours" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim"
