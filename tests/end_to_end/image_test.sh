#!/usr/bin/env bash
# Builds the image of the Dockerfile for real and runs its root filesystem: with its own user, environment and entrypoint, as
# process 1, read-only, in a network namespace of its own (so its fixed ports disturb nobody).
#
#   image_test.sh SOURCE_DIR [IMAGE_OUT.tar]
#
# Needs root. debian:bookworm-slim is made by debootstrap from the Debian mirror that apt uses here, so no registry is asked.
# It and the layers of the build stay in ${XDG_CACHE_HOME:-~/.cache}/embedding-server, in a storage of their own. Exit code
# 77: cannot run here, the reason is said.
set -euo pipefail

source_dir=$(realpath "${1:?usage: image_test.sh SOURCE_DIR [IMAGE_OUT.tar]}")
image_out=${2:-}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/embedding-server
base_image=docker.io/library/debian:bookworm-slim

skip() {
  echo "SKIPPED: $*"
  exit 77
}
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
step() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

((EUID == 0)) || skip "needs root"
for tool in apt-get buildah debootstrap flock jq nsenter python3 unshare; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
unshare --mount --net --pid --fork true 2>/dev/null || skip "this machine does not let root make namespaces"

mkdir -p "$cache"
# One at a time: two would build the same layers.
exec 9>"$cache/image.lock"
flock 9

work=$(mktemp -d)
container=
launcher=
# TMPDIR: there buildah keeps the compiler's cache (RUN --mount=type=cache).
b() { TMPDIR=$cache buildah --root "$cache/storage" --runroot "$work/run" "$@"; }
cleanup() {
  [[ -z $launcher ]] || kill -KILL "$launcher" 2>/dev/null || true
  if [[ -n $container ]]; then
    b umount "$container" >/dev/null || true
    b rm "$container" >/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT

# A proxy that only apt knows is told to debootstrap and, by buildah, to the build.
proxy=$(apt-config shell value Acquire::http::Proxy | sed -n "s/^value='\(http.*\)'$/\1/p")
if [[ -n $proxy && -z ${http_proxy:-} ]]; then export http_proxy=$proxy; fi

make_base() {
  local mirror base=$cache/bookworm-slim.tar
  if [[ ! -e $base ]]; then
    # shellcheck disable=SC2016  # apt's own variables
    mirror=$(apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)' 'Identifier: Packages' |
      sed -n 's/^Debian|[a-z]*|main|\(http.*\)$/\1/p' | head -n 1)
    [[ -n $mirror ]] || skip "apt has no Debian mirror here"
    step "debian:bookworm-slim by debootstrap"
    debootstrap --variant=minbase bookworm "$work/root" "$mirror" >"$work/debootstrap.log" 2>&1 || {
      tail -n 20 "$work/debootstrap.log" >&2
      fail "debootstrap failed"
    }
    # What makes the official image slim.
    rm -rf "$work"/root/usr/share/{doc,info,locale,man}/* "$work"/root/var/{cache/apt,lib/apt/lists}/* "$work"/root/var/log/*
    tar -C "$work/root" -cf "$base.part" .
    mv "$base.part" "$base"
  fi
  local scratch
  scratch=$(b from scratch)
  b add -q "$scratch" "$base" / >/dev/null
  b config --cmd /bin/bash "$scratch"
  b commit -q --rm "$scratch" "$base_image" >/dev/null
}

b rm --all >/dev/null 2>&1 || true  # of a run that was cut short
b inspect --type image "$base_image" >/dev/null 2>&1 || make_base

# A copy, so that an edit meanwhile does not make the two stages differ.
mkdir "$work/context"
(cd "$source_dir" && cp -a --parents Dockerfile .dockerignore CMakeLists.txt CMakePresets.json LICENSE proto server client \
  deploy/sample scripts/lib.sh "$work/context")

revision=$(git -c safe.directory="$source_dir" -C "$source_dir" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# build TAG ARGUMENT...
build() {
  b bud --pull-never --isolation chroot --format docker --layers --build-arg "REVISION=$revision" -t "$@" "$work/context" \
    >"$work/build.log" 2>&1 || {
    tail -n 60 "$work/build.log" >&2
    fail "the image does not build"
  }
}
step "builder stage"
build embedding-server-builder --target builder
step "runtime stage"
build embedding-server
# Both stages have a tag now: what has none is of former builds.
b rmi --prune >/dev/null 2>&1 || true

b inspect --type image embedding-server >"$work/inspect.json"
config() { jq -r "$1" "$work/inspect.json"; }
# expect NAME GIVEN WANTED
expect() { [[ $2 == "$3" ]] || fail "$1 is '$2', expected '$3'"; }
expect user "$(config .Docker.config.User)" 65532:65532
expect entrypoint "$(config '.Docker.config.Entrypoint | @json')" '["/usr/bin/embedding-server"]'
expect command "$(config '.Docker.config.Cmd // [] | @json')" '[]'
expect "health check" "$(config '.Docker.config.Healthcheck.Test | @json')" '["CMD","/usr/bin/embedding-server","health"]'
expect "stop signal" "$(config .Docker.config.StopSignal)" SIGTERM
expect ports "$(config '.Docker.config.ExposedPorts | keys | sort | @json')" '["50051/tcp","9464/tcp"]'
expect revision "$(config '.Docker.config.Labels["org.opencontainers.image.revision"]')" "$revision"
version=$(config '.Docker.config.Labels["org.opencontainers.image.version"]')
mapfile -t environment < <(config '.Docker.config.Env[]')

container=$(b from --pull-never embedding-server)
root=$(b mount "$container")
for program in embedding-server embedding-cli embedding-loadtest; do
  [[ -x $root/usr/bin/$program ]] || fail "$program is not in the image"
  missing=$(chroot "$root" ldd "/usr/bin/$program" | grep 'not found' || true)
  [[ -z $missing ]] || fail "$program lacks libraries: $missing"
done
[[ ! -e $root/usr/bin/g++ && ! -e $root/source ]] || fail "the builder's tools are in the runtime image"
[[ -e $root/usr/share/doc/embedding-server/LICENSE ]] || fail "the licence is not in the image"
told=$(chroot "$root" /usr/bin/embedding-server --version)
[[ $told == "embedding-server $version ($revision) "* ]] || fail "--version says $told, the labels $version and $revision"

step "running it"
# Runs on the machine's files until the last line; then process 1 of the namespaces is the image's entrypoint.
cat >"$work/enter.sh" <<'ENTER'
set -eu
root=$1
shift
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# Loopback up: SIOCGIFFLAGS, then SIOCSIFFLAGS with IFF_UP.
python3 -c 'import fcntl, socket, struct
s = socket.socket()
flags, = struct.unpack("16xh", fcntl.ioctl(s, 0x8913, struct.pack("16sh", b"lo", 0))[:18])
fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", flags | 1))'
exec chroot --userspec=65532:65532 "$root" /usr/bin/env -i "$@" /usr/bin/embedding-server
ENTER
unshare --mount --net --pid --fork --kill-child sh "$work/enter.sh" "$root" "${environment[@]}" \
  2>"$work/server.log" 9>&- &
launcher=$!
# As `docker exec` would.
inside() {
  nsenter --target "$server" --mount --net --pid --root --wd=/ --setuid 65532 --setgid 65532 \
    /usr/bin/env -i "${environment[@]}" "$@"
}
healthy=
for _ in $(seq 300); do
  kill -0 "$launcher" 2>/dev/null || { cat "$work/server.log" >&2; fail "the server did not start"; }
  server=$(cat "/proc/$launcher/task/$launcher/children" 2>/dev/null || true)
  server=${server%% *}
  running=$(readlink "/proc/${server:-none}/exe" || true)
  if [[ $running == */embedding-server ]] && healthy=$(inside /usr/bin/embedding-server health); then break; fi
  healthy=
  sleep 0.1
done
[[ -n $healthy ]] || { cat "$work/server.log" >&2; fail "not healthy within 30 s"; }
echo "health: $healthy"
expect "user of the process" "$(awk '/^Uid:/ {print $2, $3, $4}' "/proc/$server/status")" "65532 65532 65532"
grep -q 'warning.*sample' "$work/server.log" || { cat "$work/server.log" >&2; fail "nothing warns that this is the sample"; }

neighbours=$(inside /usr/bin/embedding-cli neighbours king -k 10)
echo "$neighbours"
grep -qw queen <<<"$neighbours" || fail '"queen" is not among the neighbours of "king"'
page=$(nsenter --target "$server" --net python3 -c \
  'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9464/metrics").read().decode())')
grep -q '^grpc_server_handled_total{.*"NearestNeighbour",grpc_code="OK"} [1-9]' <<<"$page" ||
  fail "the call is not in /metrics"

step "stopping it"
kill -TERM "$server"
code=0
wait "$launcher" || code=$?
launcher=
tail -n 1 "$work/server.log"
((code == 0)) || { cat "$work/server.log" >&2; fail "ended with exit code $code"; }

if [[ -n $image_out ]]; then b push -q embedding-server "docker-archive:$image_out:embedding-server:latest"; fi
step "passed; image of $(du -s --block-size=MiB --apparent-size "$root" | cut -f1)"
