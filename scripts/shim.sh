# shellcheck shell=bash
# libphos.so, built from C.

# shim_key is what libphos.so is made of: the content of its sources and the version of the
# compiler.
# Times of files say nothing: a cache may come from another machine.
shim_key() {
	(cd "$ROOT/hijack" && find shim nvml -type f | LC_ALL=C sort | xargs sha256sum && gcc --version | head -n 1) |
		sha256sum | cut -c 1-16
}

# shim_out is where make puts what it makes of this content.
shim_out() { printf '%s' "$CACHE/shim/$(shim_key)"; }

# build_shim keeps what it makes of one content, and removes what other contents have left.
build_shim() {
	local out
	out=$(shim_out)
	mkdir -p "$out"
	find "$CACHE/shim" -mindepth 1 -maxdepth 1 ! -path "$out" -exec rm -rf {} +
	make -C "$ROOT/hijack/shim" -j "$(nproc)" OUT="$out"
	install -m 755 "$out/libphos.so" "$BIN/libphos.so.new"
	mv "$BIN/libphos.so.new" "$BIN/libphos.so"
	# Programs that search LD_LIBRARY_PATH for the driver's own name find it here.
	mkdir -p "$BIN/lib"
	ln -sfn ../libphos.so "$BIN/lib/libcuda.so.1"
	ln -sfn ../libphos.so "$BIN/lib/libcuda.so"
	ln -sfn ../libphos.so "$BIN/lib/libnvidia-ml.so.1"
}
