# shellcheck shell=bash
# The public client of Clusterfudge, by which the tests see that a cluster answers it as it expects.

CLUSTERFUDGE=$CACHE/clusterfudge-0.66.0-$(sha256sum <"$ROOT/scripts/clusterfudge.txt" | cut -c 1-12)

# need_clusterfudge sets CLUSTERFUDGE_PYTHON.
need_clusterfudge() {
	need python3-venv
	export CLUSTERFUDGE_PYTHON=$CLUSTERFUDGE/bin/python
	if "$CLUSTERFUDGE_PYTHON" -c 'import clusterfudge' >/dev/null 2>&1; then
		say ok "clusterfudge 0.66.0 (found)"
	else
		need ca-certificates
		step "install clusterfudge 0.66.0" make_whole_venv "$CLUSTERFUDGE" clusterfudge.txt
	fi
}
