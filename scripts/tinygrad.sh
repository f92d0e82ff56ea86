# shellcheck shell=bash
# tinygrad, the framework of the demo and of the real-program tests, in a virtual environment of its
# own.

TINYGRAD=$CACHE/tinygrad-0.14.0-$(sha256sum <"$ROOT/scripts/tinygrad.txt" | cut -c 1-12)
tinygrad_source=437be6bb7481ec26e332e4f4342f6ea09e41258e62c5c09f4a9ed7aeb7829a07

make_tinygrad() {
	local new=$TINYGRAD.new
	make_venv "$new" tinygrad.txt || return 1
	# The release's own tests are in its source archive only.
	"$new/bin/pip" download --disable-pip-version-check --no-deps --no-binary :all: -d "$new/source" tinygrad==0.14.0 || return 1
	cd "$new/source" || return 1
	echo "$tinygrad_source  tinygrad-0.14.0.tar.gz" | sha256sum -c || return 1
	tar -xf tinygrad-0.14.0.tar.gz || return 1
	rm -rf "$TINYGRAD" && mv "$new" "$TINYGRAD"
}

# need_tinygrad sets TINYGRAD_PYTHON. clang is what tinygrad's CPU backend, our yardstick, compiles
# with.
need_tinygrad() {
	need python3-venv clang
	export TINYGRAD_PYTHON=$TINYGRAD/bin/python
	# It is asked, not only looked for: a new Python of the distribution leaves it without its
	# packages.
	if "$TINYGRAD_PYTHON" -c 'import numpy, tinygrad' >/dev/null 2>&1; then
		say ok "tinygrad 0.14.0 (found)"
	else
		need ca-certificates
		step "install tinygrad 0.14.0" make_tinygrad
	fi
}
