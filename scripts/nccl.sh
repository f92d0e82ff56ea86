# shellcheck shell=bash
# NVIDIA's NCCL, whose ranks the tests run on software GPUs, save and restore. Of its versions this
# one has PTX for everything.

NCCL_VENV=$CACHE/nccl-2.26.2-$(sha256sum <"$ROOT/scripts/nccl.txt" | cut -c 1-12)

# need_nccl sets NCCL, the directory with its header and its library.
need_nccl() {
	need python3-venv
	if [ -d "$NCCL_VENV" ]; then
		say ok "NCCL 2.26.2 (found)"
	else
		need ca-certificates
		step "install NCCL 2.26.2 (200 MB)" make_whole_venv "$NCCL_VENV" nccl.txt
	fi
	NCCL=$(echo "$NCCL_VENV"/lib/python3.*/site-packages/nvidia/nccl)
	export NCCL
}
