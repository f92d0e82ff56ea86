package codeinfo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// TestAllocates compiles kernels that take memory on the GPU, and some that only look like it.
func TestAllocates(t *testing.T) {
	nvcc := needNVCC(t)
	for name, test := range map[string]struct {
		source string
		want   bool
	}{
		"malloc":   {`__global__ void k(int **p) { *p = (int *)malloc(64); }`, true},
		"new":      {`__global__ void k(int **p) { *p = new int[16]; }`, true},
		"free":     {`__global__ void k(int *p) { free(p); }`, false},
		"own":      {`__device__ int malloc_count; __global__ void my_malloc(int *p) { *p = malloc_count; }`, false},
		"text":     {`#include <cstdio>` + "\n" + `__global__ void k() { printf("malloc"); }`, false},
		"assembly": {`__global__ void k(int *p) { asm("// malloc" ::); *p = 1; }`, false},
	} {
		t.Run(name, func(t *testing.T) {
			source := filepath.Join(t.TempDir(), "k.cu")
			if err := os.WriteFile(source, []byte(test.source), 0o644); err != nil {
				t.Fatal(err)
			}
			cubin, text := source+"bin", source+".ptx"
			runNVCC(t, nvcc, "-cubin", "-arch=sm_80", "-o", cubin, source)
			runNVCC(t, nvcc, "-ptx", "-arch=compute_80", "-o", text, source)
			code, err := os.ReadFile(cubin)
			if err != nil {
				t.Fatal(err)
			}
			ptx, err := os.ReadFile(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := Allocates(gpu.Image{Cubin: code}); got != test.want {
				t.Errorf("machine code: got %v, want %v", got, test.want)
			}
			if got := Allocates(gpu.Image{PTX: []string{string(ptx)}}); got != test.want {
				t.Errorf("PTX: got %v, want %v", got, test.want)
			}
		})
	}
}
