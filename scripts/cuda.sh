# shellcheck shell=bash
# nvcc 12.4 and its runtime, for the C++ workloads: the distribution's own packages, of a release
# that has them, unpacked beside the system, never installed.

# Distribution, suite, and the components that have nvcc and its headers.
cuda_archives="
debian trixie main non-free
ubuntu resolute universe multiverse
"

# Distribution, package, version and SHA-256 of its file.
cuda_debs="
debian nvidia-cuda-toolkit 12.4.131~12.4.1-2 cd5fe85aee38d108b315f408a688641478f2402622a10c677478eb7a6c4e5319
debian nvidia-cuda-dev 12.4.127~12.4.1-2 d846838f914a0176948d48a8bcade5d6dbcccb5c9374343f6475f5503f173ee0
debian libcudart12 12.4.127~12.4.1-2 361b3721cf84bf068e111ff013c819de61cb475268b0d38db99839471f1b4130
ubuntu nvidia-cuda-toolkit 12.4.131~12.4.1-8 b6a5ab9cc9ef1e24e6d8b160766fd5ce7711ed846fb8a3566cd557a3608305af
ubuntu nvidia-cuda-dev 12.4.127~12.4.1-8 9088fe38a4d1e073a8c96e5f1c3f50c5ab464c67b2df091817549eab05345e96
ubuntu libcudart12 12.4.127~12.4.1-8 235dd2ee90178ee617f88823fac7283e134933343488e1cd520654653ef07d6f
"

# thrust, cub and libcu++, which are headers.
cccl_debs="
debian libthrust-dev 2.3.2-2 61fe44b65834efad9b079452ebec7396d4b37712d251421f4218b3bc652a3147
debian libcub-dev 2.3.2-2 4a7e7c24ef2994140e47dba59507db60e281f968f17c18cf1cadc9c27c17c26b
debian libcu++-dev 2.3.2-2 30e911c1909265591b5ea793df0e49e56bed631238b68b3e75c97590c4985686
ubuntu libthrust-dev 2.5.0-1 cdc33dbd4dae99a733135872fb5ab7ac202d031c1d4c9737ce7311f96ec91d47
ubuntu libcub-dev 2.5.0-1 3d914fd7f7bcb2fe1e170facdcd37092a911031ab30fe83e203cfafa49f2c8f7
ubuntu libcu++-dev 2.5.0-1 e85dc8d40cd6c8dffe5c004d2f15f5ca16098d228b4cc4537549604b04af0f25
"

# What was unpacked from other packages is another nvcc.
CUDA=$CACHE/cuda-$(sha256sum <<<"$cuda_debs$cccl_debs" | cut -c 1-12)

# fetch_debs LIST: into $CACHE/debs.
fetch_debs() {
	local conf package version sum
	# shellcheck disable=SC2046 # a suite and components
	conf=$(apt_aside "$CACHE/apt-cuda" "$(archive_source deb $(of_distribution <<<"$cuda_archives"))") || return 1
	mkdir -p "$CACHE/debs" && cd "$CACHE/debs" || return 1
	while read -r package version sum; do
		APT_CONFIG=$conf apt-get download "$package=$version" || return 1
		echo "$sum  $(echo "${package}_${version}_"*.deb)" | sha256sum -c || return 1
	done < <(of_distribution <<<"$1")
}

# deb_files DEB DIR PATTERN...: the files of a package whose names match.
deb_files() {
	local deb=$1 dir=$2
	shift 2
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --wildcards "$@"
}

unpack_cuda() {
	local raw=$CUDA.raw new=$CUDA.new debs=$CACHE/debs libs=usr/lib/x86_64-linux-gnu
	rm -rf "$raw" "$new"
	mkdir -p "$raw" "$new"/{bin,lib,include,nvvm/bin,nvvm/libdevice}
	deb_files "$debs"/nvidia-cuda-toolkit_*.deb "$raw" './usr/bin/*' './usr/lib/nvidia-cuda-toolkit/*' || return 1
	deb_files "$debs"/nvidia-cuda-dev_*.deb "$raw" './usr/include/*' "./$libs/libcudart_static.a" "./$libs/libcudadevrt.a" || return 1
	deb_files "$debs"/libcudart12_*.deb "$raw" "./$libs/*" || return 1
	cd "$raw" || return 1
	mv usr/bin/{cudafe++,fatbinary,nvlink,ptxas,bin2c,cuobjdump} usr/lib/nvidia-cuda-toolkit/bin/{nvcc,crt} "$new/bin/"
	mv usr/lib/nvidia-cuda-toolkit/bin/cicc "$new/nvvm/bin/"
	mv usr/lib/nvidia-cuda-toolkit/libdevice/* "$new/nvvm/libdevice/"
	mv usr/include/* "$new/include/"
	mv "$libs"/* "$new/lib/"
	ln -s libcudart.so.12 "$new/lib/libcudart.so"
	cat >"$new/bin/nvcc.profile" <<-'EOF'
		TOP                = $(_HERE_)/..
		CICC_PATH          = $(TOP)/nvvm/bin
		NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
		PATH              += $(CICC_PATH):$(_HERE_):
		INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
		LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib" $(_SPACE_)
	EOF
	mend_cuda "$new" || return 1
	rm -rf "$CUDA" && mv "$new" "$CUDA" && rm -rf "$raw" "$debs"
}

# fetch_cccl puts the headers where nvcc finds them; cub's come last, and tell that all are there.
fetch_cccl() {
	local debs=$CACHE/debs new=$CACHE/cccl.new name
	fetch_debs "$cccl_debs" || return 1
	rm -rf "$new"
	mkdir -p "$new"
	for name in libthrust-dev libcub-dev libcu++-dev; do
		deb_files "$debs/${name}_"*.deb "$new" './usr/include/*' || return 1
	done
	for name in thrust cuda nv cub; do
		rm -rf "$CUDA/include/$name"
		mv "$new/usr/include/$name" "$CUDA/include/$name" || return 1
	done
	rm -rf "$new" "$debs"
}

# mend_cuda DIR: from glibc 2.41 on, <math.h> declares some functions that nvcc 12.4 declares as
# well, and C++ asks that both make the same promise about exceptions: rsqrt came with 2.42.
mend_cuda() {
	local header=$1/include/crt/math_functions.h
	cp "$header" "$header.new"
	sed -E -i -e '0,/^#include "host_defines.h"/s//&\
#if defined(__GLIBC_PREREQ)\
#if __GLIBC_PREREQ(2, 41)\
#define PHOS_THROW_SINCE_2_41 __THROW\
#endif\
#if __GLIBC_PREREQ(2, 42)\
#define PHOS_THROW_SINCE_2_42 __THROW\
#endif\
#endif\
#if !defined(PHOS_THROW_SINCE_2_41)\
#define PHOS_THROW_SINCE_2_41\
#endif\
#if !defined(PHOS_THROW_SINCE_2_42)\
#define PHOS_THROW_SINCE_2_42\
#endif/' \
		-e '/^extern __DEVICE_FUNCTIONS_DECL__/s/(( sin| cos)pif?\([a-z]+ x\));/\1 PHOS_THROW_SINCE_2_41;/' \
		-e '/^extern __DEVICE_FUNCTIONS_DECL__/s/( rsqrtf?\([a-z]+ x\));/\1 PHOS_THROW_SINCE_2_42;/' "$header.new"
	[ "$(grep -cE '\) PHOS_THROW_SINCE_2_4[12];$' "$header.new")" = 6 ] || { echo "$header is not that of nvcc 12.4"; return 1; }
	mv "$header.new" "$header"
}

# cuda_mended: what was unpacked before mend_cuda was written lacks it.
cuda_mended() { grep -q PHOS_THROW_SINCE_2_41 "$CUDA/include/crt/math_functions.h"; }

# host_compiler: the g++ for NVCC, which refuses those later than it knows: 12 before nvcc 12.4, 13
# from there on.
host_compiler() {
	local version newest=13
	at_least "$("$NVCC" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')" 12.4 || newest=12
	version=$(g++ -dumpversion 2>/dev/null | cut -d. -f1)
	if [ "${version:-99}" -le $newest ]; then echo g++; else echo g++-$newest; fi
}

# need_cuda sets NVCC; where it cannot be had, NVCC stays empty and NVCC_MISSING says why.
need_cuda() {
	export NVCC='' NVCC_MISSING=''
	if [ -x "$CUDA/bin/nvcc" ]; then
		cuda_mended || step "mend the headers of nvcc 12.4" mend_cuda "$CUDA"
		say ok "nvcc 12.4 (found)"
	elif [ "$(uname -m)" = x86_64 ] && archive_mirror >/dev/null; then
		step "fetch nvcc 12.4 (1 GB)" fetch_debs "$cuda_debs"
		step "unpack nvcc 12.4" unpack_cuda
	elif command -v nvcc >/dev/null; then
		NVCC=$(command -v nvcc)
		say ok "nvcc ($NVCC, as installed)"
	else
		NVCC_MISSING="no nvcc: apt-get install nvidia-cuda-toolkit (Debian: non-free, Ubuntu: multiverse) and run this again"
		say skip "$NVCC_MISSING"
		return
	fi
	: "${NVCC:=$CUDA/bin/nvcc}"
	[ "$NVCC" != "$CUDA/bin/nvcc" ] || [ -d "$CUDA/include/cub" ] || step "fetch thrust and cub" fetch_cccl
	need g++
	[ "$(host_compiler)" = g++ ] || need "$(host_compiler)"
	export NVCC_CCBIN
	NVCC_CCBIN=$(command -v "$(host_compiler)")
	# Its assembler is the independent opinion on what is PTX. An older release's knows less than phos
	# does.
	[ "$NVCC" != "$CUDA/bin/nvcc" ] || PATH=$PATH:$CUDA/bin
}
