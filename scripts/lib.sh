# shellcheck shell=bash disable=SC2034  # the lists are for the scripts that source this file
# What the scripts beside it share: Debian packages, building, starting a server. Sourced, never run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The one list of what this project needs on a bare Debian 12 (bookworm).
BUILD_PACKAGES=(
  g++ cmake ninja-build git
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev grpc-proto libabsl-dev
  libhwy-dev libsimdjson-dev libxxhash-dev libspdlog-dev libcli11-dev libcivetweb-dev prometheus-cpp-dev libjemalloc-dev
  libgtest-dev libgmock-dev libbenchmark-dev)
TEST_PACKAGES=(python3 python3-numpy python3-grpcio python3-protobuf python3-venv curl jq prometheus)
ARM64_PACKAGES=(g++-aarch64-linux-gnu qemu-user-static libhwy-dev googletest)
IMAGE_PACKAGES=(buildah debootstrap)
BENCH_PACKAGES=(python3 python3-dev python3-numpy python3-venv libhiredis-dev libhnswlib-dev redis-server libopenblas-dev)
CLANG_PACKAGES=(clang-14 llvm-14)  # llvm-14: names in sanitizer reports
LINT_PACKAGES=(clang-14 clang-format-14 clang-tidy-14 shellcheck python3 prometheus)

# What tests and lints fetch from PyPI and npm stays here, outside the tree (tests/interop/cache.py says the same).
CACHE_DIR=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/embedding-server

heading() { printf '\n== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# need_packages NAME...: installs what is missing; without anything missing apt is not touched.
need_packages() {
  local name missing=() as_root=()
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "needs root or sudo to install: ${missing[*]}"
    as_root=(sudo)
  fi
  heading "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null >/dev/null
}

# Node and npm, unless the machine has them from elsewhere: then Debian's packages would only get in their way.
need_npm() { command -v npm >/dev/null || need_packages nodejs npm; }

# configure PRESET: through ccache where it is installed; silent unless it fails.
configure() {
  local preset=$1 log=build/$1/configure.log
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_NOHASHDIR=1
    export CCACHE_BASEDIR=$PWD
  fi
  mkdir -p "build/$preset"
  cmake --preset "$preset" -DEMBEDDING_BUILD_BENCH="${EMBEDDING_BUILD_BENCH:-OFF}" >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "configuring preset $preset failed"; }
}

# build PRESET TARGET...: configures and builds; on a terminal ninja redraws its one line, elsewhere only a failure speaks.
build() {
  local preset=$1 log=build/$1/build.log started=$SECONDS
  shift
  local compile=(cmake --build "build/$preset" -j "$(nproc)" --target "$@")
  configure "$preset"
  if [[ -t 1 ]]; then
    "${compile[@]}" || die "building preset $preset failed"
  else
    "${compile[@]}" >"$log" 2>&1 || { grep -A 20 -m 3 '^FAILED' "$log" >&2; die "building preset $preset failed, see $log"; }
  fi
  printf 'built %s (%s) in %d s\n' "$preset" "$*" $((SECONDS - started))
}

# start_server BINARY LOG ARGUMENT...: on free ports; waits until it serves and sets SERVER_PID and SERVER_ADDRESS.
start_server() {
  local binary=$1 log=$2
  shift 2
  "$binary" --grpc-address 127.0.0.1:0 --admin-address 127.0.0.1:0 "$@" 2>"$log" </dev/null &
  SERVER_PID=$!
  SERVER_ADDRESS=
  for _ in $(seq 300); do
    kill -0 "$SERVER_PID" 2>/dev/null || { cat "$log" >&2; die "the server did not start"; }
    SERVER_ADDRESS=$(sed -n 's/.* grpc="\{0,1\}\([^ "]*\).*/\1/p' "$log" | head -n 1)
    if [[ -n $SERVER_ADDRESS ]] && "$binary" health --address "$SERVER_ADDRESS" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  cat "$log" >&2
  die "the server was not ready within 30 s"
}
