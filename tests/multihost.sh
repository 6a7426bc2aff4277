#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests inside a job of 4 PEs on two "hosts": network namespaces with host names and System V memory
# of their own, so that PEs 0, 1 and PEs 2, 3 share memory and the two pairs do not.
#
# tests/multihost.sh PYTHON [pytest arguments ...]
set -eu
PYTHON=$1
shift
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! command -v oshrun >/dev/null; then
  echo "skipped: two hosts on one machine need root, iproute2 and Open MPI's oshrun"
  exit 0
fi
A=fsA$$ B=fsB$$
FOLDER=$(mktemp -d)
clean_up() {
  trap - EXIT INT TERM
  for name in $A $B; do
    ip netns pids "$name" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns del "$name" 2>/dev/null || true
    rm -rf "/etc/netns/$name"
  done
  rm -rf "$FOLDER"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

ip netns add "$A"
ip netns add "$B"
ip link add fs0 netns "$A" type veth peer name fs0 netns "$B"
number=1
for name in $A $B; do
  ip -n "$name" link set lo up
  ip -n "$name" addr add "10.77.0.$number/24" dev fs0
  ip -n "$name" link set fs0 up
  mkdir -p "/etc/netns/$name"
  printf '127.0.0.1 localhost\n10.77.0.1 %s\n10.77.0.2 %s\n' "$A" "$B" >"/etc/netns/$name/hosts"
  number=$((number + 1))
done

# What oshrun calls in place of ssh.
cat >"$FOLDER/agent" <<'AGENT'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc -- sh -c "hostname $host; $*"
AGENT
chmod +x "$FOLDER/agent"

HEAP=$((128 << 20))
# Cores cannot be bound: both "hosts" would bind to the same ones.
ip netns exec "$A" unshare --uts --ipc -- sh -c 'hostname "$0"; exec "$@"' "$A" env \
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  oshrun --mca plm_rsh_agent "$FOLDER/agent" --mca oob_tcp_if_include fs0 --mca btl_tcp_if_include fs0 \
  --mca osc ucx --mca btl ^openib,ofi --mca mpi_yield_when_idle 1 \
  -x UCX_NET_DEVICES=fs0 -x UCX_ALLOC_PRIO=md:sysv,mmap \
  -x SHMEM_SYMMETRIC_HEAP_SIZE=$((HEAP + (64 << 20))) -x SHMEM_SYMMETRIC_SIZE=$((HEAP + (64 << 20))) \
  -x FLIGHTSHMEM_HEAP=$HEAP -x FLIGHTSHMEM_TIMEOUT=120 -x PATH -x PYTHONPATH \
  --oversubscribe --bind-to none --host "$A:2,$B:2" -np 4 \
  "$PYTHON" -m pytest -q --color=no -p no:cacheprovider -o "norecursedirs=build .venv .hypothesis" "$@"
