package harness

import (
	"path/filepath"
	"testing"
)

// CompileNCCL compiles a program that uses NCCL and the runtime API, or skips the test.
func CompileNCCL(t testing.TB, source string) string {
	t.Helper()
	Need(t, "build", Built())
	nccl, err := Tool("NCCL")
	Need(t, "nccl", err)
	runtime, library := CUDALibraries(t), filepath.Join(nccl, "lib")
	return Compile(t, GCC, "-std=gnu11", "-O1", "-Wall", "-I"+filepath.Join(nccl, "include"), source,
		"-L"+runtime, "-l:libcudart.so.12", "-L"+library, "-l:libnccl.so.2", "-Wl,-rpath,"+runtime, "-Wl,-rpath,"+library)
}

// NCCLVariables are the settings of NCCL for ranks on one host: no other networks than this one.
func NCCLVariables() []string { return []string{"NCCL_SOCKET_IFNAME=lo"} }
